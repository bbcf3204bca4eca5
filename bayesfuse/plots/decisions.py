"""Pictures of decisions: which rater is the best, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayesfuse.plots.canvas import TEXT, name_rows, new_axes, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 26.0
"""Points that a number in a cell takes."""


def plot_ranks(found: xr.Dataset, *, most: int | None = 40, ax: Axes | None = None) -> Axes:
    """Draw the probability of every rank of every rater, the best rater on top.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.decisions.rank_raters`.
    most : int, optional
        How many raters to show, those of the best expected rank; None for all. Default 40.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Darker cells are more probable, with numbers where there is room; the lines are intervals
        of the rank, the points expected ranks.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_ranks
    >>> model = DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> ax = plot_ranks(bf.decisions.rank_raters(result))
    >>> [tick.get_text() for tick in ax.get_yticklabels()][-1]  # rows are counted from below
    'dentist 2'
    """
    n_raters = found.sizes["rater"]
    shown = found.isel(rater=slice(0, most))
    last = int(min(shown["high"].values.max() + 1, n_raters))
    shown = shown.isel(rater=slice(None, None, -1), rank=slice(0, last))
    height = min(1.2 + 0.26 * shown.sizes["rater"], 11.0)
    (ax,) = new_axes(ax, 1, (min(2.5 + 0.36 * last, 12.0), height), 1)
    probability = shown["probability"].values
    rows = np.arange(len(probability))
    edges = np.arange(last + 1) + 0.5
    largest = probability.max()
    image = ax.pcolormesh(
        edges, np.arange(len(rows) + 1) - 0.5, probability, cmap="Blues", vmin=0, vmax=largest
    )
    width, tall = points(ax)
    if width / last >= ROOM and tall / len(rows) >= 1.2 * TEXT:
        for (row, rank), value in np.ndenumerate(probability):
            if value >= 0.005:
                colour = "white" if value > 0.55 * largest else "black"
                text = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
                style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TEXT - 2}
                ax.text(rank + 1, row, text, color=colour, **style)
    else:
        ax.hlines(rows, shown["low"], shown["high"], color="C1", lw=1)
        ax.plot(shown["expected_rank"], rows, ".", color="C1", ms=4)
    name_rows(ax, shown["rater"].values, "rater")
    step = max(-(-last // 20), 1)
    ax.set_xticks(range(1, last + 1, step))
    ax.set(xlabel=f"rank by {found.attrs['by'].replace('_', ' ')}")
    some = f"the {len(rows)} best of {n_raters:,} raters"
    ax.set_title(some if len(rows) < n_raters else f"{n_raters:,} raters", fontsize="medium")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label="posterior probability")
    return ax
