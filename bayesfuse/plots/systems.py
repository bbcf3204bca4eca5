"""Plots of systems that were compared in pairs."""

from __future__ import annotations

from typing import Any

import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.plots import axes as shared


def plot_leaderboard(board: xr.Dataset, *, axes: Any = None) -> NDArray[Any]:
    """Plot the strengths of systems, and how often they win against others, the best on top.

    Parameters
    ----------
    board : Dataset, from :func:`bayesfuse.decisions.leaderboard`
    axes : sequence of two matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        Strengths with intervals, in log-odds, with the interval of the rank beside each; and the
        expected share of wins of the system of the row against that of the column, grey where they
        were not compared.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> pairs = pd.DataFrame({"first": ["x", "y", "z"] * 20, "second": ["y", "z", "x"] * 20})
    >>> pairs["item"] = range(60)
    >>> verdicts = [["A", "A", "A"], ["A", "A", "B"], ["B", "B", "B"]] * 20
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(verdicts))
    >>> board = bf.decisions.leaderboard(bf.fit(model, random_seed=1), pairs, random_seed=1)
    >>> bf.plots.plot_leaderboard(board)[0].get_xlabel()
    'strength (log-odds)'
    """
    if not isinstance(board, xr.Dataset) or not {"strength", "wins"} <= set(board):
        raise ModelError(
            "board must be from bf.decisions.leaderboard(result, pairs). Got: "
            f"{type(board).__name__}."
        )
    names = board["system"].values
    width = shared.width_of(names)
    inches = min(max(1.5 + 0.3 * len(names), 3.4), shared.LARGEST)
    size, room = (max(inches, 4.2), inches), (2.0 * width, width)
    axes = shared.new_axes(axes, 2, size, 2, room)
    ax, from_below = axes[0], board.isel(system=slice(None, None, -1))
    rows = shared.place_rows(ax, len(names))
    ax.hlines(rows.places, from_below["low"], from_below["high"], color="C0", lw=1.5)
    ax.plot(from_below["strength"], rows.places, "o", color="C0", ms=4)
    ax.axvline(0.0, color="grey", lw=1, ls=":")
    ranks = zip(from_below["rank_low"].values, from_below["rank_high"].values, strict=True)
    for y, (low, high) in zip(rows.places, ranks, strict=True):
        text = f"{low:.0f}" if low == high else f"{low:.0f}–{high:.0f}"
        ax.annotate(
            text, (1.02, y), xycoords=("axes fraction", "data"), va="center", fontsize="small"
        )
    ax.annotate(
        "rank", (1.02, 1.01), xycoords="axes fraction", va="bottom", fontsize="small", color="0.4"
    )
    shared.name_rows(ax, from_below["system"].values, "system", rows)
    ax.set_xlabel("strength (log-odds)")
    ax = axes[1]
    ax.set_facecolor("0.9")
    image = ax.imshow(
        board["wins"].where(board["compared"] > 0).values, cmap="RdBu", vmin=0.0, vmax=1.0
    )
    shared.name_square(ax, names)
    ax.set(xlabel="against", ylabel="system")
    ax.figure.colorbar(image, ax=ax, label="share of wins, ties as halves", fraction=0.046)
    return axes
