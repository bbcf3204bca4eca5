"""Plots of posterior predictive checks, and of the dependence between raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.checks import co_assignment, rater_covariance
from bayesfuse.data.responses import Responses
from bayesfuse.errors import require_count
from bayesfuse.moments import score_matrix
from bayesfuse.plots import axes as shared

ALARM, CALM = "C3", "C0"  # colours of unusual entries and of all others
NAMED = 8  # largest number of named pairs
LINES = 500  # largest number of pairs that all have their interval drawn


def plot_agreement(found: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Plot the observed agreement of pairs of raters against that in replicated data.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.checks.pairwise_agreement`.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        A point per pair, with the interval of its replications (of more than 500 pairs only the
        unusual ones); unusual pairs are coloured, and the most extreme ones named.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> found = bf.checks.pairwise_agreement(bf.find_map(model), model, random_seed=1)
    >>> bf.plots.plot_agreement(found).get_title()
    '10 pairs of raters, none unusual (all together p = ...)'
    """
    (ax,) = shared.new_axes(ax, 1, (5.6, 4.8), 1)
    numbers = [found[name].values for name in ("replicated", "observed", "low", "high")]
    expected, observed, low, high = numbers
    alarm = found["unusual"].values
    size = _draw_diagonal(ax, numbers)
    lines = np.flatnonzero(alarm | (len(expected) <= LINES))
    ax.vlines(expected[lines], low[lines], high[lines], color="0.8", lw=1, zorder=1)
    for which, colour in ((~alarm, CALM), (alarm, ALARM)):
        ax.scatter(expected[which], observed[which], s=size, lw=0, color=colour, zorder=2)
    far = np.abs(observed - expected)
    worst = np.flatnonzero(alarm)[np.argsort(-far[alarm], kind="stable")][:NAMED]
    ends = found["first"].values[worst], found["second"].values[worst]
    names = [", ".join(map(shared.escaped, pair)) for pair in zip(*ends, strict=True)]
    shared.name_points(ax, expected[worst], observed[worst], names)
    ax.set(xlabel="agreement in replicated data", ylabel="observed agreement")
    shared.set_title(ax, f"{_how_many_pairs(alarm)} (all together p = {_p(found)})")
    return ax


def plot_dependence(found: xr.Dataset, *, most: int | None = 60, ax: Axes | None = None) -> Axes:
    """Plot which raters make the same mistakes more often than the model expects.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.checks.conditional_dependence`.
    most : int, optional
        Number of raters to show, those in the most unusual pairs; None for all. Default 60.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        A matrix of the compared raters, sorted by cluster: observed minus expected common mistakes
        per item. Unusual pairs have a dot; pairs that share too few items are grey.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> found = bf.checks.conditional_dependence(bf.find_map(model), model, random_seed=1)
    >>> bf.plots.plot_dependence(found).get_title()
    '10 pairs of raters, none unusual'
    """
    if most is not None:
        require_count("most", most)
    compared = found["rater"].isin([*found["first"].values, *found["second"].values])
    raters, cluster = (found[name].values[compared] for name in ("rater", "cluster"))
    order = np.argsort(np.where(cluster < 0, len(raters), cluster), kind="stable")
    place = {raters[m]: at for at, m in enumerate(order)}
    pairs = [[place[name] for name in found[end].values] for end in ("first", "second")]
    n_raters, alarm = len(raters), found["unusual"].values
    values = ((found["observed"] - found["expected"]) / found["items"]).values
    excess, alarming = np.full((n_raters, n_raters), np.nan), np.zeros((n_raters, n_raters), bool)
    for first, second in (pairs, pairs[::-1]):
        excess[first, second], alarming[first, second] = values, alarm
    busiest = np.lexsort([-np.nanmax(np.abs(excess), axis=1), -alarming.sum(axis=1)])
    chosen = np.sort(busiest[:most])
    names, block = raters[order][chosen], np.ix_(chosen, chosen)
    largest = max(np.nanmax(np.abs(values)), 1e-9)
    limits = {"cmap": "RdBu_r", "vmin": -largest, "vmax": largest}
    what = "excess of common mistakes per item"
    ax = shared.draw_matrix(ax, excess[block], names, what, **limits)
    dots = min(16.0, 2000.0 / len(names) ** 1.5)
    x, y = np.nonzero(alarming[block])
    ax.scatter(x, y, s=dots, color="black", lw=0)
    some = f"; the {len(names)} of {n_raters:,} raters in the most of these"
    shared.set_title(ax, _how_many_pairs(alarm) + some * (len(names) < n_raters))
    return ax


def plot_score_matrix(responses: Responses, *, ax: Axes | None = None) -> Axes:
    """Plot the score matrix: which raters depend on each other, before any model is fitted.

    Parameters
    ----------
    responses : Responses
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Raters in the order of average linkage.

    Raises
    ------
    MomentsError
        Fewer than four raters, or raters who share no items.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, eq. 15.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.plots.plot_score_matrix(bf.datasets.caries()).get_xlabel()
    'rater'
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    score = score_matrix(responses)
    values = score.values.copy()
    known = np.where(np.isnan(values), 0.0, values)
    distance = known.max() - known[np.triu_indices(len(known), 1)]
    order = leaves_list(linkage(distance, "average"))
    np.fill_diagonal(values, np.nan)
    names, values = score["rater"].values[order], values[np.ix_(order, order)]
    return shared.draw_matrix(ax, values, names, "score of dependence", vmin=0.0)


def plot_difficulty(found: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Plot the distribution of agreement over items, for observed and replicated data.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.checks.item_difficulty`.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Bars for observed shares, unusual ones coloured; points with intervals for replications.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> found = bf.checks.item_difficulty(bf.find_map(model), model, random_seed=1)
    >>> bf.plots.plot_difficulty(found).get_ylabel()
    'share of the items'
    """
    middles = found["agreement"].values
    ax = _draw_bars(ax, found, middles, 0.9 * (middles[1] - middles[0]))
    ax.set(xlim=(0, 1), xlabel="agreeing pairs of an item's responses", ylabel="share of the items")
    own, expected = found.attrs["observed"], found.attrs["replicated"]
    shared.set_title(ax, f"standard deviation {own:.3f}, expected {expected:.3f} (p = {_p(found)})")
    return ax


def plot_runs(found: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Plot the lengths of runs of one majority label, for observed and replicated data.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.checks.runs`.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        As :func:`plot_difficulty`; the last bar includes all longer runs.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> model = bf.models.HiddenMarkov(responses, bf.Sequences.from_lengths([5]))
    >>> bf.plots.plot_runs(bf.checks.runs(bf.find_map(model), model, random_seed=1)).get_ylabel()
    'runs per item'
    """
    lengths = found["length"].values
    ax = _draw_bars(ax, found, lengths, 0.8)
    ax.set_xticks(lengths, [*map(str, lengths[:-1]), f"{lengths[-1]}+"])
    ax.set(xlabel="length of a run of one majority label", ylabel="runs per item")
    same, expected = found.attrs["observed"], found.attrs["replicated"]
    shared.set_title(ax, f"neighbours alike: {same:.1%}, expected {expected:.1%} (p = {_p(found)})")
    return ax


def _draw_bars(ax: Axes | None, found: xr.Dataset, places: NDArray[Any], width: float) -> Axes:
    """Draw observed values as bars, replications as points with intervals."""
    (ax,) = shared.new_axes(ax, 1, (5.5, 3.6), 1)
    colours = np.where(found["unusual"].values, ALARM, CALM)
    ax.bar(places, found["observed"], width=width, color=colours, alpha=0.45, label="observed")
    expected = found["replicated"].values
    ends = np.abs(np.stack([found["low"].values, found["high"].values]) - expected)
    style: dict[str, Any] = {"fmt": "o", "ms": 4, "lw": 1.2, "capsize": 2, "color": shared.ink()}
    ax.errorbar(places, expected, ends, label="replicated", **style)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return ax


def _draw_diagonal(ax: Axes, numbers: Any) -> float:
    """Draw the line of equal numbers, and return the size of the points of so many pairs."""
    ends = [np.nanmin(np.concatenate(numbers)), np.nanmax(np.concatenate(numbers))]
    ax.plot(ends, ends, color="0.6", lw=1, zorder=0)
    return float(np.clip(4800 / len(numbers[0]), 3, 24))


def _how_many_pairs(alarm: NDArray[np.bool_]) -> str:
    count = int(alarm.sum())
    return f"{len(alarm):,} pairs of raters, {f'{count:,}' if count else 'none'} unusual"


def _p(found: xr.Dataset) -> str:
    return f"{found.attrs['p_value']:.2g}"


def plot_covariance(result: xr.DataTree, responses: Responses, *, ax: Axes | None = None) -> Axes:
    """Plot the observed covariances of pairs of raters against those implied by the posterior.

    Parameters
    ----------
    result, responses
        As in :func:`bayesfuse.checks.rater_covariance`.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        A point per pair, coloured by the probability that they share a source. Pairs off the
        diagonal depend on each other in a way that the model ignores.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.caries()
    >>> point = bf.find_map(bf.models.DawidSkene(responses))
    >>> bf.plots.plot_covariance(point, responses).get_xlabel()
    'covariance implied by the posterior'
    """
    found = rater_covariance(result, responses)
    upper, names = np.triu_indices(found.sizes["rater"], 1), ("observed", "implied", "together")
    observed, implied, together = (found[name].values[upper] for name in names)
    (ax,) = shared.new_axes(ax, 1, (5.0, 4.4), 1)
    size = _draw_diagonal(ax, [observed, implied])
    edges: dict[str, Any] = {"edgecolors": "0.5", "linewidths": 0.04 * size}
    points = ax.scatter(implied, observed, size, c=together, vmin=0, vmax=1, **edges)
    ax.figure.colorbar(points, ax=ax, label="probability of a shared source")
    ax.set(xlabel="covariance implied by the posterior", ylabel="observed covariance")
    ax.set_title(f"mean squared z {found.attrs['excess']:.1f}")
    return ax


def plot_co_assignment(
    result: xr.DataTree, *, most: int | None = 60, ax: Axes | None = None
) -> Axes:
    """Plot the probability that two raters share a source, with groups next to each other.

    Parameters
    ----------
    result : DataTree
        Of :class:`bayesfuse.models.LatentGroup`.
    most : int, optional
        Number of raters to show, those who most probably share a source; None for all. Default 60.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.LatentGroup(bf.datasets.anesthesia(), groups=[[2, 5]]))
    >>> [tick.get_text() for tick in bf.plots.plot_co_assignment(point).get_yticklabels()]
    ['1', '2', '5', '3', '4']
    """
    if most is not None:
        require_count("most", most)
    share = co_assignment(result)
    n_raters = share.sizes["rater"]
    others = np.where(np.eye(n_raters, dtype=bool), 0.0, share.values).max(axis=1)
    chosen = np.sort(np.argsort(-others, kind="stable")[:most])
    values = share.values[np.ix_(chosen, chosen)]
    # every rater, followed by the probable rest of the group
    order = list(dict.fromkeys(np.nonzero(values >= 0.5)[1].tolist()))
    names = share["rater"].values[chosen[order]]
    what, limits = "probability of a shared source", {"vmin": 0, "vmax": 1, "cmap": "Greys"}
    ax = shared.draw_matrix(ax, values[np.ix_(order, order)], names, what, **limits)
    if len(names) < n_raters:
        of = f"the {len(names)} of {n_raters:,} raters"
        shared.set_title(ax, f"{of} who most probably share a source")
    return ax
