"""Plots of raters: sensitivity, specificity, confusion matrices, and strictness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_count, require_names
from bayesfuse.plots import axes as shared
from bayesfuse.results import summaries
from bayesfuse.results.abilities import abilities, quality, recalls
from bayesfuse.results.contents import class_names, stored
from bayesfuse.results.rater_table import rater_grades

CELL = 16  # largest number of letters of a class name beside a confusion matrix

EXTREMES = 6, 4  # raters named among many at each end of one order, or of each of two orders


def plot_raters(
    result: xr.DataTree, *, ci_prob: float | None = None, axes: Any = None
) -> NDArray[Any]:
    """Plot how often every rater recognises every class, the best rater on top.

    Parameters
    ----------
    result : DataTree, from ``bf.sample``, or from ``bf.find_map`` (without intervals)
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``
    axes : sequence of matplotlib Axes, default a new figure: one for each class

    Returns
    -------
    ndarray of Axes, shape (classes,)
        Abilities with intervals, as in :func:`bayesfuse.rater_table`: sensitivity and specificity
        for two classes, the last of which is the positive one, the sensitivity for each of several;
        of labelling functions, the precision. Dotted lines are chance. Raters are sorted by their
        mean over the classes; if not all names fit, those between the best and the worst form a
        band.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> [ax.get_xlabel() for ax in bf.plots.plot_raters(point)]
    ['sensitivity', 'specificity']
    """
    drawn = abilities(result)
    panels = recalls(drawn, class_names(result))
    mean_quality = quality(drawn).mean(("chain", "draw"))
    order = np.argsort(mean_quality.values, kind="stable")
    names = mean_quality["rater"].values[order]
    colours = shared.class_colours(class_names(result)) | {None: "C0"}
    columns = -(-len(panels) // -(-len(panels) // 9))  # rows of nearly equal length, 9 at most
    size = min(3.2, 14.0 / columns), min(0.9 + 0.24 * len(order), 8.0)
    room = max(shared.width_of(names) - 0.7, 0.0), 0.3
    axes = shared.new_axes(axes, len(panels), size, columns, room, sharey=True)
    rows, two = shared.place_rows(axes[0], len(order)), len(class_names(result)) == 2
    for ax, ((name, truth), draws) in zip(axes, panels.items(), strict=True):
        ordered = draws.isel(rater=order)
        low, high = (end.values for end in summaries.interval(ordered, ci_prob))
        mean = ordered.mean(("chain", "draw")).values
        shared.draw_intervals(ax, mean, low, high, rows, colours[truth])
        ax.axvline(1.0 / len(class_names(result)), color="grey", lw=1, ls=":")  # chance
        ax.set_xlabel(name)
        which = {"sensitivity": " (positive)", "specificity": " (negative)"} if two else {}
        title = f"truth: {shared.escaped(truth)}{which.get(name, '')}"
        shared.set_title(ax, "where a rule fires" if truth is None else title)
        if not ax.get_shared_y_axes().joined(ax, axes[0]):
            ax.set_yticks([])  # the first axes show the names
    shared.name_rows(axes[0], names, "rater", rows)
    return axes


def plot_sensitivity_specificity(
    result: xr.DataTree, *, ci_prob: float | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the raters of a two-class problem in the plane of sensitivity and specificity.

    Parameters
    ----------
    result, ci_prob : as in :func:`plot_raters`
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Posterior means with credible regions (normal approximation on the logit scale); with more
        than 30 raters, points whose area grows with the number of responses. Raters on the diagonal
        are uninformative, those below it give the opposite label.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.plots.plot_sensitivity_specificity(point).get_ylabel()
    'sensitivity (truth: carious)'
    """
    probability = summaries.coverage(ci_prob)
    drawn, classes = abilities(result), class_names(result)
    panels = recalls(drawn, classes)
    if "sensitivity" not in drawn or len(classes) > 2:
        raise ModelError(
            "This plot is for two classes, because with more a rater has a sensitivity for each, "
            "and rules have a precision alone: use plot_raters. Got: "
            f"{len(classes)} classes{'' if 'sensitivity' in drawn else ', of rules'}."
        )
    ((_, positive), hits), ((_, negative), rejections) = panels.items()
    (ax,) = shared.new_axes(ax, 1, (5.0, 5.0), 1)
    names = hits["rater"].values
    draws = np.stack([rejections.values, hits.values]).reshape(2, -1, len(names))
    x, y = draws.mean(axis=1)
    ax.plot([0, 1], [1, 0], ":", color="grey", lw=1)
    ax.set(xlim=(1.02, -0.02), ylim=(-0.02, 1.02), aspect="equal")
    if len(names) <= shared.DISTINCT:
        for index in range(len(names)):
            (point,) = ax.plot(x[index], y[index], "o", ms=5)
            if draws.shape[1] > 2:
                region = _region(draws[..., index], probability)
                ax.fill(*region, color=point.get_color(), alpha=0.2, lw=0)
    _name_raters(ax, x, y, names, summaries.responses_per_rater(result), x + y)
    ax.set_xlabel(f"specificity (truth: {shared.escaped(negative)})")
    ax.set_ylabel(f"sensitivity (truth: {shared.escaped(positive)})")
    return ax


def _name_raters(
    ax: Axes, x: NDArray[Any], y: NDArray[Any], names: NDArray[Any], answered: Any, *by: Any
) -> None:
    """Name raters in a plane; of many, draw points by number of responses and name the extremes."""
    first = np.arange(len(names))
    if len(names) > shared.DISTINCT:
        ax.scatter(x, y, s=6 + 90 * answered / answered.max(), alpha=0.5, lw=0)
        orders = np.argsort(by, kind="stable")
        ends = np.stack([orders, orders[:, ::-1]])[..., : EXTREMES[len(by) - 1]]
        first = pd.unique(ends.transpose(2, 0, 1).ravel())
    shown = shared.name_points(ax, x[first], y[first], shared.escaped_names(names[first]))
    if shown < len(names):
        shared.set_title(ax, f"{len(names):,} raters, {shown} of them named")


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
    result, ci_prob : as in :func:`plot_raters`
    raters : name or list of names, default the ``most`` raters with the most responses
    most : int, optional: number of raters to show unless they are named; None for all. Default 12
    axes : sequence of matplotlib Axes, default a new figure: one for each rater

    Returns
    -------
    ndarray of Axes, shape (raters shown,)
        Posterior means as colours and numbers, with intervals below them if these fit.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.plots.plot_confusion(point, "dentist 2")[0].get_title()
    'dentist 2 (3,869 responses)'
    """
    draws = stored(abilities(result), "confusion")
    answered = summaries.responses_per_rater(result)
    chosen = _chosen_raters(draws["rater"].values, raters, answered, most)
    n_classes = draws.sizes["class"]
    side = 0.6 + max(n_classes * (0.62 if n_classes < 6 or len(chosen) == 1 else 0.4), 1.6)
    columns = min(max(1, int(14 / side)), 4)
    side += max(shared.width_of(draws["class"].values, most=CELL) - 0.3, 0.0)
    side = min(side, 15.0 / columns)
    axes = shared.new_axes(axes, len(chosen), (side, side), columns)
    for ax, index in zip(axes, chosen, strict=True):
        of_rater = draws.isel(rater=index)
        _heat_map(ax, of_rater.mean(("chain", "draw")), *summaries.interval(of_rater, ci_prob))
        (rater,) = listed(np.atleast_1d(of_rater["rater"].values))
        name = shared.escaped(rater if isinstance(rater, str) else f"rater {rater}", 20)
        count = f"({answered[index]:,} responses)"
        # the matrix is narrower than its panel by the width of the class names
        gap = " " if len(name) + len(count) < shared.LETTERS else "\n"
        ax.set_title(f"{name}{gap}{count}", fontsize="medium")
    return axes


def _chosen_raters(
    names: NDArray[Any], wanted: Any, answered: NDArray[np.int64], most: int | None
) -> list[int]:
    """Return the indices of the raters to show."""
    if wanted is None:
        if most is not None:
            require_count("most", most)
        return np.sort(np.argsort(-answered, kind="stable")[:most]).tolist()
    several = isinstance(wanted, list | tuple | np.ndarray)
    asked, known = listed(require_names("raters", wanted)) if several else [wanted], listed(names)
    if unknown := [name for name in asked if name not in known]:
        raise ModelError(f"raters must be raters of the result. Got: {unknown[0]!r}.")
    return [known.index(name) for name in asked]


def _heat_map(ax: Axes, mean: xr.DataArray, low: xr.DataArray, high: xr.DataArray) -> None:
    """Draw one confusion matrix with its numbers, and with intervals if these fit."""
    detail = min(0.72 * shared.TEXT, 0.17 * min(shared.points(ax)) / mean.sizes["class"])
    names = [shared.escaped(name, CELL) for name in mean["class"].values]

    def ends(at: tuple[int, int]) -> str:
        return f"{low.values[at]:.2f}–{high.values[at]:.2f}"

    below = None if detail < shared.READABLE - 1 or bool((low == high).all()) else ends
    shared.draw_table(ax, mean.values, names, 0.38, "{:.2f}".format, 1.0, below, detail)
    ax.set(xlabel="label given", ylabel="truth")


def plot_graders(
    result: xr.DataTree, *, ci_prob: float | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the bias of every rater against the precision.

    Parameters
    ----------
    result, ci_prob : as in :func:`plot_raters`, of a model with ``raters="graded"``
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Posterior means with intervals; with more than 30 raters, points whose area grows with the
        number of responses, the extreme ones named.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia(), raters="graded"))
    >>> bf.plots.plot_graders(point).get_ylabel()
    'precision (one over the noise, in classes)'
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    grades = rater_grades(result, ci_prob=ci_prob)
    if "precision" not in grades:
        raise ModelError(
            'A precision is a parameter of graded raters: fit a model with raters="graded", or, of '
            'an answer, pass fused["models/graded"]. Got: a result with '
            f"{list(grades.data_vars)}."
        )
    (ax,) = shared.new_axes(ax, 1, (6.0, 4.6), 1)
    x, y, names = grades["bias"].values, grades["precision"].values, grades["rater"].values
    ax.set_yscale("log")
    ax.axvline(0, color="grey", lw=1, ls=":")
    if len(names) <= shared.DISTINCT:
        line: dict[str, Any] = {"color": "C0", "lw": 1.5, "alpha": 0.5}
        ax.hlines(y, grades["bias_low"], grades["bias_high"], **line)
        ax.vlines(x, grades["precision_low"], grades["precision_high"], **line)
        ax.plot(x, y, "o", color="C0", ms=5)
    # ticks at 1, 2 and 5, not at powers of ten alone
    ax.yaxis.set(major_locator=LogLocator(subs=(1.0, 2.0, 5.0)), major_formatter="{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    _name_raters(ax, x, y, names, grades["responses"].values, x, y)
    ax.set_xlabel("bias, given minus true grade (strict ← → lenient)")
    ax.set_ylabel("precision (one over the noise, in classes)")
    return ax
