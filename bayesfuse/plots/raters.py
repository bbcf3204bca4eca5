"""Pictures of the raters: how good they are and what they confuse."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.plots.canvas import (
    DISTINCT,
    READABLE,
    TEXT,
    class_colours,
    name_rows,
    new_axes,
    points,
)
from bayesfuse.posterior import label_probabilities
from bayesfuse.summaries import (
    balanced_accuracy,
    coverage,
    interval,
    posterior_draws,
    recognition,
    responses_per_rater,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_raters(
    result: xr.DataTree, *, ci_prob: float | None = None, axes: Any = None
) -> NDArray[Any]:
    """Show how well every rater recognises every class, the best rater on top.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, or from ``bf.find_map``, whose points have no intervals.
    ci_prob : float, optional
        Probability of the credible intervals. Default ``az.rcParams["stats.ci_prob"]``.
    axes : sequence of matplotlib Axes, optional
        One for each class. Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (classes,)
        Posterior means with intervals: sensitivity and specificity for two classes, the
        sensitivity for each of several. The raters stand in one order, that of their mean over
        the classes. Where there is no room for their names these are left out.

    Raises
    ------
    ModelError
        The result has no sensitivity and specificity.
    ValueError
        Not one Axes for each class.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_raters
    >>> point = bf.find_map(DawidSkene(bf.datasets.caries()))
    >>> [ax.get_xlabel() for ax in plot_raters(point)]
    ['sensitivity', 'specificity']
    """
    panels = recognition(result)
    order = np.argsort(balanced_accuracy(result).mean(("chain", "draw")).values, kind="stable")
    colours = class_colours(label_probabilities(result)["class"].values)
    columns = -(-len(panels) // -(-len(panels) // 9))  # rows of nearly equal length, 9 at most
    size = min(3.2, 14.0 / columns), min(0.9 + 0.24 * len(order), 8.0)
    axes = new_axes(axes, len(panels), size, columns, sharey=True)
    for ax, ((name, truth), draws) in zip(axes, panels.items(), strict=True):
        _draw_intervals(ax, draws.isel(rater=order), colours[truth], ci_prob)
        ax.set_xlabel(name)
        ax.set_title(fill(f"truth: {truth}", max(int(points(ax)[0] / 6), 10)), fontsize="medium")
        if not ax.get_shared_y_axes().joined(ax, axes[0]):
            ax.set_yticks([])  # the names stand at the first
    name_rows(axes[0], panels[name, truth]["rater"].values[order], "rater")
    return axes


def _draw_intervals(ax: Axes, draws: xr.DataArray, colour: Any, ci_prob: float | None) -> None:
    """Draw one probability per rater, the first at the bottom, from draws (chain, draw, rater)."""
    width, height = points(ax)
    rows = np.arange(draws.sizes["rater"])
    room = height / len(rows)
    low, high = interval(draws, ci_prob)
    ax.hlines(rows, low, high, color=colour, lw=min(2.0, 0.35 * room), alpha=0.6)
    ax.plot(draws.mean(("chain", "draw")), rows, "o", color=colour, ms=min(6.0, 0.6 * room))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.7, len(rows) - 0.3))
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1] if width > 130 else [0, 0.5, 1]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.grid(axis="x", alpha=0.4)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def plot_sensitivity_specificity(
    result: xr.DataTree, *, ci_prob: float | None = None, ax: Axes | None = None
) -> Axes:
    """Show the raters of a two-class problem in the plane of the receiver operating curve.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, or from ``bf.find_map``, whose points have no regions.
    ci_prob : float, optional
        Probability of the credible regions. Default ``az.rcParams["stats.ci_prob"]``.
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Posterior means with elliptic credible regions (of a normal approximation on the logit
        scale, so that they stay inside the square); where these would hide each other, points
        whose area grows with the number of responses. On the diagonal a rater's answer says
        nothing about the truth; below it, it says the opposite.

    Raises
    ------
    ModelError
        The result has no sensitivity and specificity, or more than two classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_sensitivity_specificity
    >>> point = bf.find_map(DawidSkene(bf.datasets.caries()))
    >>> plot_sensitivity_specificity(point).get_ylabel()
    'sensitivity (truth: carious)'
    """
    probability = coverage(ci_prob)
    panels = recognition(result)
    if ("specificity", label_probabilities(result)["class"].values[0]) not in panels:
        raise ModelError(
            "The plane of sensitivity and specificity is for two classes, because with more a "
            f"rater has one pair for each: use plot_raters. Got: {len(panels)} classes."
        )
    ((_, positive), hits), ((_, negative), rejections) = panels.items()
    (ax,) = new_axes(ax, 1, (5.0, 5.0), 1)
    names = hits["rater"].values
    draws = np.stack([rejections.values, hits.values]).reshape(2, -1, len(names))
    if len(names) > DISTINCT:
        answered = responses_per_rater(result)
        x, y = draws.mean(axis=1)
        ax.scatter(x, y, s=6 + 90 * answered / answered.max(), alpha=0.5, lw=0)
    else:
        for index, rater in enumerate(names):
            _place_rater(ax, str(rater), draws[..., index], probability)
    ax.plot([0, 1], [1, 0], ":", color="grey", lw=1)
    ax.set(xlim=(1.02, -0.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel=f"specificity (truth: {negative})", ylabel=f"sensitivity (truth: {positive})")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _place_rater(ax: Axes, name: str, draws: NDArray[Any], probability: float) -> None:
    """Draw one rater's mean, name and region from draws (2, draws)."""
    x, y = draws.mean(axis=1)
    (point,) = ax.plot(x, y, "o", ms=5)
    if draws.shape[1] > 2:
        ax.fill(*_region(draws, probability), color=point.get_color(), alpha=0.2, lw=0)
    ax.annotate(name, (x, y), (4, 4), textcoords="offset points", fontsize=TEXT)


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
    most: int = 12,
    ci_prob: float | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Show confusion matrices: how often a rater gives each label (column) to each truth (row).

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``.
    raters : name or list of names, optional
        Whose. Default the ``most`` raters with the most responses.
    most : int, default 12
        How many raters to show where they are not named.
    ci_prob : float, optional
        Probability of the credible intervals. Default ``az.rcParams["stats.ci_prob"]``.
    axes : sequence of matplotlib Axes, optional
        One for each rater. Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (raters shown,)
        Posterior means as colours and numbers, with intervals below them where there is room.

    Raises
    ------
    ModelError
        The result has no confusion matrices.
    ValueError
        An unknown rater, or not one Axes for each of them.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_confusion
    >>> point = bf.find_map(DawidSkene(bf.datasets.caries()))
    >>> (ax,) = plot_confusion(point, "dentist 2")
    >>> ax.get_title()
    'dentist 2 (3,869 responses)'
    """
    draws = posterior_draws(result, "confusion")["confusion"]
    answered = responses_per_rater(result)
    chosen = _chosen_raters(draws["rater"].values, raters, answered, most)
    n_classes = draws.sizes["class"]
    side = 0.6 + max(n_classes * (0.62 if n_classes < 6 or len(chosen) == 1 else 0.4), 1.6)
    columns = max(1, int(14 / side))
    axes = new_axes(axes, len(chosen), (side, side), min(columns, 4))
    for ax, index in zip(axes, chosen, strict=True):
        own = draws.isel(rater=index)
        _heat_map(ax, own.mean(("chain", "draw")), *interval(own, ci_prob))
        rater = own["rater"].item()
        name = rater if isinstance(rater, str) else f"rater {rater}"
        ax.set_title(f"{name} ({answered[index]:,} responses)", fontsize="medium")
    return axes


def _chosen_raters(
    names: NDArray[Any], wanted: Any, answered: NDArray[np.int64], most: int
) -> list[int]:
    """Return the places of the raters to show."""
    if wanted is None:
        busiest = np.argsort(-answered, kind="stable")[:most]
        return sorted(busiest.tolist())
    place = {name: index for index, name in enumerate(names.tolist())}
    listed = wanted if isinstance(wanted, list | tuple | np.ndarray) else [wanted]
    if unknown := [name for name in listed if name not in place]:
        raise ValueError(
            f"Only raters of the result have a confusion matrix in it. Got: {unknown[0]!r}."
        )
    return [place[name] for name in listed]


def _heat_map(ax: Axes, mean: xr.DataArray, low: xr.DataArray, high: xr.DataArray) -> None:
    """Draw one matrix (class, label) with its numbers."""
    n_classes = mean.sizes["class"]
    ax.imshow(mean.values, vmin=0, vmax=1, cmap="Blues")
    names = [str(name) for name in mean["class"].values]
    slant: dict[str, Any] = {"rotation": 45, "ha": "right"} if max(map(len, names)) > 4 else {}
    ax.set_xticks(range(n_classes), names, **slant)
    ax.set_yticks(range(n_classes), names)
    ax.tick_params(length=0, labelsize=TEXT)
    ax.set(xlabel="label given", ylabel="truth")
    ax.spines[:].set_visible(False)
    cell = min(points(ax)) / n_classes
    is_point = bool((low == high).all())
    for (row, column), value in np.ndenumerate(mean.values):
        # white on the dark half of the map
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
