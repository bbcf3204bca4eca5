"""Plots of posterior predictive checks, and of the dependence between raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_count
from bayesfuse.plots import axes as shared

ALARM, CALM = "C3", "C0"  # colours of unusual entries and of all others
MAX_NAMED = 8  # pairs
MAX_INTERVALS = 500  # pairs, above which only the unusual have their interval drawn

ENTRIES = {
    "pair": ("pairs of raters", "share of common items with the same label"),
    "agreement": ("bins", "share of the items, by agreement"),
    "length": ("lengths of runs", "runs per item, by length"),
    "class": ("classes", "share of the edges that join items of a class"),
}
"""Entries of a check, and what it counts, by dimension."""


def plot_check(check: xr.Dataset, ax: Axes | None = None) -> Axes:
    """Plot the observed statistics of a check against those of replicated data.

    Parameters
    ----------
    check : Dataset
        From ``pairwise_agreement``, ``item_difficulty``, ``runs`` or ``neighbour_agreement`` of
        ``bf.checks``.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        A point for each pair of raters, bin of agreement, length of a run or class, with the
        interval of its replications (of more than 500 pairs only the unusual ones). Unusual points
        are coloured. Of pairs, the most extreme unusual ones are named.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> check = bf.checks.pairwise_agreement(result, random_seed=1)
    >>> bf.plots.plot_check(check).get_title()
    '10 pairs of raters, none unusual (all together p = ...)'
    """
    if not isinstance(check, xr.Dataset) or "replicated" not in check:
        raise ModelError(
            "check must be the outcome of a check that replicates data, such as "
            "bf.checks.pairwise_agreement(result, model). Got: " + type(check).__name__ + "."
        )
    (ax,) = shared.new_axes(ax, 1, (5.6, 4.8), 1)
    numbers = [check[name].values for name in ("replicated", "observed", "low", "high")]
    expected, observed, low, high = numbers
    alarm, dim = check["unusual"].values, str(check["observed"].dims[0])
    ends = [np.nanmin(numbers), np.nanmax(numbers)]
    ax.plot(ends, ends, color="0.6", lw=1, zorder=0)
    lines = np.flatnonzero(alarm | (len(expected) <= MAX_INTERVALS))
    ax.vlines(expected[lines], low[lines], high[lines], color="0.8", lw=1, zorder=1)
    size = np.clip(4800 / len(expected), 3, 24)
    for which, colour in ((~alarm, CALM), (alarm, ALARM)):
        ax.scatter(expected[which], observed[which], s=size, lw=0, color=colour, zorder=2)
    parts = ("first", "second") if dim == "pair" else (dim,)
    order = np.lexsort((-np.abs(observed - expected), ~alarm))
    first = order[: min(alarm.sum(), MAX_NAMED)] if dim == "pair" else order
    columns = (check[part].values[first].tolist() for part in parts)
    names = [
        ", ".join(f"{n:.2g}" if isinstance(n, float) else shared.escaped(n) for n in row)
        for row in zip(*columns, strict=True)
    ]
    shared.name_points(ax, expected[first], observed[first], names)
    what, number = ENTRIES[dim]
    ax.set(xlabel="replicated", ylabel=f"observed {number}")
    together = f"(all together p = {check.attrs['p_value']:.2g})"
    shared.set_title(ax, f"{len(alarm):,} {what}, {_unusual(alarm)} {together}")
    return ax


def _unusual(alarm: NDArray[np.bool_]) -> str:
    return f"{int(alarm.sum()) or 'none'} unusual"


def plot_dependence(
    matrix: xr.Dataset | xr.DataArray, *, most: int | None = 60, ax: Axes | None = None
) -> Axes:
    """Plot which raters depend on each other, as a matrix with dependent raters side by side.

    Parameters
    ----------
    matrix : Dataset or DataArray
        From :func:`bayesfuse.checks.conditional_dependence`; or a matrix, dims (rater, other), such
        as :func:`bayesfuse.moments.score_matrix`, :func:`bayesfuse.checks.co_assignment` or
        ``observed - implied`` of :func:`bayesfuse.checks.rater_covariance`.
    most : int, optional
        Number of raters to show, those in the most unusual pairs; None for all. Default 60.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Of a Dataset, observed minus expected common mistakes per item of the compared raters, with
        a dot for each unusual pair. Pairs that share too few items are grey.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> check = bf.checks.conditional_dependence(result, random_seed=1)
    >>> bf.plots.plot_dependence(check).get_title()
    '10 pairs of raters, none unusual'
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    if most is not None:
        require_count("most", most)
    title, what = "", getattr(matrix, "name", None) or ""
    if isinstance(matrix, xr.Dataset):
        values, alarm, names = _excess(matrix)
        title = f"{matrix.sizes['pair']:,} pairs of raters, {_unusual(matrix['unusual'].values)}"
        what = "excess of common mistakes per item"
    else:
        values, names = matrix.values.astype(float), matrix["rater"].values
        alarm = np.zeros(values.shape, dtype=bool)
    np.fill_diagonal(values, np.nan)
    known, n_raters = np.nan_to_num(values), len(names)
    busiest = np.lexsort([-np.abs(known).max(axis=1), -alarm.sum(axis=1)])
    chosen = np.sort(busiest[:most])
    if len(chosen) > 1:
        distance = known.max() - known[np.ix_(chosen, chosen)]
        pairs = np.triu_indices(len(chosen), 1)
        chosen = chosen[leaves_list(linkage(distance[pairs], "average"))]
    largest = max(np.abs(known).max(), 1e-9)
    block, limits = np.ix_(chosen, chosen), {"cmap": "Blues", "vmin": 0.0, "vmax": largest}
    if known.min() < 0:
        limits |= {"cmap": "RdBu_r", "vmin": -largest}
    names, values = names[chosen], values[block]
    inches = min(max(1.5 + 0.25 * len(names), 3.4), shared.LARGEST)
    room = max(shared.width_of(names) - 0.5, 0.0)
    (ax,) = shared.new_axes(ax, 1, (inches + 1, inches), 1, (room, 0.0))
    ax.set_facecolor("0.9")
    image = ax.imshow(values, **limits)
    shared.name_square(ax, names)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label=str(what), fraction=0.046)
    x, y = np.nonzero(alarm[block])
    ax.scatter(x, y, s=min(16.0, 2000.0 / len(names) ** 1.5), color="black", lw=0)
    if len(names) < n_raters:
        title += f"; the {len(names)} most dependent of {n_raters:,} raters"
    shared.set_title(ax, title.removeprefix("; "))
    return ax


def _excess(pair_check: xr.Dataset) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """Return matrices of the excess of common mistakes and of alarms, and the compared raters."""
    index = pair_check.get_index("rater")
    pairs = [index.get_indexer(pair_check[end].values) for end in ("first", "second")]
    size = len(index), len(index)
    values, alarm = np.full(size, np.nan), np.zeros(size, dtype=bool)
    for at in (tuple(pairs), tuple(pairs[::-1])):
        values[at] = (pair_check["observed"] - pair_check["expected"]) / pair_check["items"]
        alarm[at] = pair_check["unusual"]
    used = np.unique(pairs)
    return values[np.ix_(used, used)], alarm[np.ix_(used, used)], index.to_numpy()[used]
