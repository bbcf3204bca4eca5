"""Plot of the posterior ranks of raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bayesfuse.errors import require_count
from bayesfuse.plots import axes as shared

ROOM = 26.0  # width of a number in a cell, in points
COLUMNS = 100  # largest number of columns; more ranks are binned


def plot_ranks(found: xr.Dataset, *, most: int | None = 40, ax: Axes | None = None) -> Axes:
    """Plot the probability of every rank of every rater, the best rater on top.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.decisions.rank_raters`.
    most : int, optional
        Number of raters to name, half of them the best and half the worst by expected rank; the
        others are thin rows between. None for as many as fit. Default 40.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Darker cells are more probable. Cells show probabilities if these fit, else lines are
        intervals of the rank and points expected ranks.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.caries())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> ax = bf.plots.plot_ranks(bf.decisions.rank_raters(result))
    >>> [tick.get_text() for tick in ax.get_yticklabels()][-1]  # rows are counted from below
    'dentist 2'
    """
    if most is not None:
        require_count("most", most)
    n_raters = found.sizes["rater"]
    shown = found.isel(rater=slice(None, None, -1))  # rows are counted from below
    many = n_raters if most is None or n_raters <= most else 1.5 * most
    size = min(2.5 + 0.36 * n_raters, 12.0), min(1.2 + 0.26 * many, shared.LARGEST)
    names = shown["rater"].values
    (ax,) = shared.new_axes(ax, 1, size, 1, (max(shared.width_of(names) - 0.7, 0.0), 0.3))
    rows = shared.place_rows(ax, n_raters, most)
    step = -(-n_raters // COLUMNS)
    starts = np.arange(0, n_raters, step)
    probability = np.add.reduceat(shown["probability"].values, starts, axis=1)
    edges = np.append(starts, n_raters) + 0.5
    largest = probability.max()
    image = ax.pcolormesh(edges, rows.edges, probability, cmap="Blues", vmin=0, vmax=largest)
    width, tall = shared.points(ax)
    if rows.named.all() and width / n_raters >= ROOM and tall / n_raters >= 1.2 * shared.TEXT:
        for (row, rank), value in np.ndenumerate(probability):
            if value >= 0.005:
                colour = "white" if value > 0.55 * largest else "black"
                text = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
                style: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": shared.TEXT - 2,
                }
                ax.text(rank + 1, row, text, color=colour, **style)
    else:
        for which, lw, alpha in ((rows.named, 1.0, 1.0), (~rows.named, 0.3, 0.3)):
            y, own = rows.places[which], shown.isel(rater=which)
            ax.hlines(y, own["low"], own["high"], color="C1", lw=lw, alpha=alpha)
            ax.plot(own["expected_rank"], y, ".", color="C1", ms=4 * lw)
    shared.name_rows(ax, names, "rater", rows)
    ax.set_xticks(range(1, n_raters + 1, max(-(-n_raters // 20), 1)))
    counted = f", in steps of {step}" if step > 1 else ""
    ax.set_xlabel(f"rank by {shared.escaped(found.attrs['by'].replace('_', ' '))}{counted}")
    shared.set_title(ax, f"{n_raters:,} raters")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label="posterior probability")
    return ax
