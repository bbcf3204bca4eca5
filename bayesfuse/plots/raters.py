"""Plots of the raters: sensitivity, specificity and confusion matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_count, require_names
from bayesfuse.plots.axes import (
    DISTINCT,
    LETTERS,
    READABLE,
    TEXT,
    class_colours,
    draw_intervals,
    escaped,
    escaped_names,
    name_points,
    name_rows,
    new_axes,
    place_rows,
    points,
    set_title,
    width_of,
)
from bayesfuse.results.contents import class_names
from bayesfuse.results.summaries import (
    balanced_accuracy,
    coverage,
    interval,
    posterior_draws,
    recognition,
    responses_per_rater,
)

CELL = 16
"""Largest number of letters of a class name beside a confusion matrix."""

EXTREMES = 6
"""Number of the best and of the worst raters that are named among many in one plane."""


def plot_raters(
    result: xr.DataTree, *, ci_prob: float | None = None, axes: Any = None
) -> NDArray[Any]:
    """Plot the accuracy of every rater for every class, the best rater on top.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, or from ``bf.find_map`` (without intervals).
    ci_prob : float, optional
        Probability of the credible intervals. Default ``az.rcParams["stats.ci_prob"]``.
    axes : sequence of matplotlib Axes, optional
        One for each class. Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (classes,)
        Posterior means with intervals: sensitivity and specificity for two classes, the
        sensitivity for each of several. Raters are sorted by their mean over the classes. If not
        all names fit, the best and the worst are named and the others form a band between them.

    Raises
    ------
    ModelError
        The result has no sensitivity and specificity; not one Axes for each class.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> [ax.get_xlabel() for ax in bf.plots.plot_raters(point)]
    ['sensitivity', 'specificity']
    """
    panels = recognition(result)
    quality = balanced_accuracy(result).mean(("chain", "draw"))
    order = np.argsort(quality.values, kind="stable")
    names = quality["rater"].values[order]
    colours = class_colours(class_names(result))
    columns = -(-len(panels) // -(-len(panels) // 9))  # rows of nearly equal length, 9 at most
    size = min(3.2, 14.0 / columns), min(0.9 + 0.24 * len(order), 8.0)
    room = max(width_of(names) - 0.7, 0.0), 0.3
    axes = new_axes(axes, len(panels), size, columns, room, sharey=True)
    rows = place_rows(axes[0], len(order))
    for ax, ((name, truth), draws) in zip(axes, panels.items(), strict=True):
        own = draws.isel(rater=order)
        low, high = (end.values for end in interval(own, ci_prob))
        mean = own.mean(("chain", "draw")).values
        draw_intervals(ax, mean, low, high, rows, colours[truth])
        ax.set_xlabel(name)
        set_title(ax, f"truth: {escaped(truth)}")
        if not ax.get_shared_y_axes().joined(ax, axes[0]):
            ax.set_yticks([])  # the first axes show the names
    name_rows(axes[0], names, "rater", rows)
    return axes


def plot_sensitivity_specificity(
    result: xr.DataTree, *, ci_prob: float | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the raters of a two-class problem in the plane of sensitivity and specificity.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, or from ``bf.find_map`` (without regions).
    ci_prob : float, optional
        Probability of the credible regions. Default ``az.rcParams["stats.ci_prob"]``.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Posterior means with credible regions (normal approximation on the logit scale); with many
        raters, points whose area grows with the number of responses, the best and worst named.
        Raters on the diagonal are uninformative, those below it give the opposite label.

    Raises
    ------
    ModelError
        The result has no sensitivity and specificity, or more than two classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.plots.plot_sensitivity_specificity(point).get_ylabel()
    'sensitivity (truth: carious)'
    """
    probability = coverage(ci_prob)
    panels = recognition(result)
    if ("specificity", class_names(result)[0]) not in panels:
        raise ModelError(
            "This plot is for two classes, because with more a rater has a sensitivity for each: "
            f"use plot_raters. Got: {len(panels)} classes."
        )
    ((_, positive), hits), ((_, negative), rejections) = panels.items()
    (ax,) = new_axes(ax, 1, (5.0, 5.0), 1)
    names = hits["rater"].values
    draws = np.stack([rejections.values, hits.values]).reshape(2, -1, len(names))
    x, y = draws.mean(axis=1)
    ax.plot([0, 1], [1, 0], ":", color="grey", lw=1)
    ax.set(xlim=(1.02, -0.02), ylim=(-0.02, 1.02), aspect="equal")
    if len(names) > DISTINCT:
        answered = responses_per_rater(result)
        ax.scatter(x, y, s=6 + 90 * answered / answered.max(), alpha=0.5, lw=0)
        by_quality = np.argsort(x + y, kind="stable")
        # the worst and the best in turn
        first = np.column_stack([by_quality, by_quality[::-1]]).ravel()[: 2 * EXTREMES]
    else:
        for index in range(len(names)):
            _place_rater(ax, draws[..., index], probability)
        first = np.arange(len(names))
    shown = name_points(ax, x[first], y[first], escaped_names(names[first]))
    if shown < len(names):
        set_title(ax, f"{len(names):,} raters, {shown} of them named")
    ax.set_xlabel(f"specificity (truth: {escaped(negative)})")
    ax.set_ylabel(f"sensitivity (truth: {escaped(positive)})")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _place_rater(ax: Axes, draws: NDArray[Any], probability: float) -> None:
    """Draw one rater's mean and region from draws (2, draws)."""
    x, y = draws.mean(axis=1)
    (point,) = ax.plot(x, y, "o", ms=5)
    if draws.shape[1] > 2:
        ax.fill(*_region(draws, probability), color=point.get_color(), alpha=0.2, lw=0)


def _region(draws: NDArray[Any], probability: float) -> NDArray[Any]:
    """Return the outline (2, points) of a credible region of draws (2, draws) in a unit square."""
    from scipy.special import expit, logit

    tiny = np.finfo(float).eps
    scaled = logit(np.clip(draws, tiny, 1 - tiny))
    angle = np.linspace(0, 2 * np.pi, 100)
    # in two dimensions the squared radius of a normal's region is χ² with two degrees of freedom
    radius = np.sqrt(-2 * np.log1p(-probability))
    root = np.linalg.cholesky(np.cov(scaled) + tiny * np.eye(2))
    circle = np.stack([np.cos(angle), np.sin(angle)])
    outline: NDArray[Any] = expit(scaled.mean(axis=1)[:, None] + radius * root @ circle)
    return outline


def plot_confusion(
    result: xr.DataTree,
    raters: Any = None,
    *,
    most: int | None = 12,
    ci_prob: float | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Plot confusion matrices, with true classes as rows and labels as columns.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``.
    raters : name or list of names, optional
        Default the ``most`` raters with the most responses.
    most : int, optional
        Number of raters to show unless they are named; None for all. Default 12.
    ci_prob : float, optional
        Probability of the credible intervals. Default ``az.rcParams["stats.ci_prob"]``.
    axes : sequence of matplotlib Axes, optional
        One for each rater. Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (raters shown,)
        Posterior means as colours and numbers, with intervals below them if these fit.

    Raises
    ------
    ModelError
        The result has no confusion matrices; an unknown rater, or not one Axes for each of them.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> (ax,) = bf.plots.plot_confusion(point, "dentist 2")
    >>> ax.get_title()
    'dentist 2 (3,869 responses)'
    """
    draws = posterior_draws(result, "confusion")["confusion"]
    answered = responses_per_rater(result)
    chosen = _chosen_raters(draws["rater"].values, raters, answered, most)
    n_classes = draws.sizes["class"]
    side = 0.6 + max(n_classes * (0.62 if n_classes < 6 or len(chosen) == 1 else 0.4), 1.6)
    columns = min(max(1, int(14 / side)), 4)
    side += max(width_of(draws["class"].values, most=CELL) - 0.3, 0.0)
    side = min(side, 15.0 / columns)
    axes = new_axes(axes, len(chosen), (side, side), columns)
    for ax, index in zip(axes, chosen, strict=True):
        own = draws.isel(rater=index)
        _heat_map(ax, own.mean(("chain", "draw")), *interval(own, ci_prob))
        (rater,) = listed(np.atleast_1d(own["rater"].values))
        name = escaped(rater if isinstance(rater, str) else f"rater {rater}", 20)
        count = f"({answered[index]:,} responses)"
        # the matrix is narrower than its panel by the width of the class names
        gap = " " if len(name) + len(count) < LETTERS else "\n"
        ax.set_title(f"{name}{gap}{count}", fontsize="medium")
    return axes


def _chosen_raters(
    names: NDArray[Any], wanted: Any, answered: NDArray[np.int64], most: int | None
) -> list[int]:
    """Return the indices of the raters to show."""
    if wanted is None:
        if most is not None:
            require_count("most", most)
        busiest = np.argsort(-answered, kind="stable")[:most]
        return sorted(busiest.tolist())
    place = {name: index for index, name in enumerate(listed(names))}
    several = isinstance(wanted, list | tuple | np.ndarray)
    asked = listed(require_names("raters", wanted)) if several else [wanted]
    if unknown := [name for name in asked if name not in place]:
        raise ModelError(f"raters must be raters of the result. Got: {unknown[0]!r}.")
    return [place[name] for name in asked]


def _heat_map(ax: Axes, mean: xr.DataArray, low: xr.DataArray, high: xr.DataArray) -> None:
    """Draw one confusion matrix with its numbers."""
    n_classes = mean.sizes["class"]
    ax.imshow(mean.values, vmin=0, vmax=1, cmap="Blues")
    names = [escaped(name, CELL) for name in mean["class"].values]
    slant: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    ax.set_xticks(range(n_classes), names, **slant)
    ax.set_yticks(range(n_classes), names)
    ax.tick_params(length=0, labelsize=TEXT)
    ax.set(xlabel="label given", ylabel="truth")
    ax.spines[:].set_visible(False)
    cell = min(points(ax)) / n_classes
    is_point = bool((low == high).all())
    for (row, column), value in np.ndenumerate(mean.values):
        style: dict[str, Any] = {"ha": "center", "color": "white" if value > 0.55 else "black"}
        size = min(TEXT, 0.38 * cell)
        if size < READABLE:
            continue
        detail = min(0.72 * size, 0.17 * cell)
        ends = f"{low.values[row, column]:.2f}–{high.values[row, column]:.2f}"
        shown = not is_point and detail >= READABLE - 1
        ax.text(column, row, f"{value:.2f}", va="bottom" if shown else "center", size=size, **style)
        if shown:
            ax.text(column, row + 0.08, ends, va="top", size=detail, **style)
