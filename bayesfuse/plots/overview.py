"""One picture of a result."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.decisions.ranks import expected_errors
from bayesfuse.errors import ModelError
from bayesfuse.plots import axes as shared
from bayesfuse.plots.items import draw_items, item_names
from bayesfuse.results.class_shares import expected_shares
from bayesfuse.results.contents import (
    class_names,
    constants,
    copies_of,
    require_result,
)
from bayesfuse.results.joint_labels import GROUP
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import rater_table
from bayesfuse.results.summaries import (
    answered,
    coverage,
    most_uncertain,
    responses_per_rater,
)

CERTAINTY = [0.0, 0.5, 0.7, 0.9, 0.99, 1.0]  # ends of the bins of label probabilities
CLASSES, RATERS, ITEMS = 10, 16, 14  # largest numbers of classes, raters and items that are named

AFTER: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
AFTER |= {"fontsize": shared.TEXT, "annotation_clip": False}
"""Style of a number after a bar."""


def plot_overview(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    ci_prob: float | None = None,
    figure: Any = None,
) -> dict[str, Axes]:
    r"""Plot a result in one figure: classes, certainty of the labels, raters, items and models.

    Parameters
    ----------
    result : DataTree, such as that of ``bf.sample``, ``bf.fit``, ``bf.find_map`` or ``bf.average``
    model : pymc.Model, optional: that of the result, needed if this has no label probabilities
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``
    figure : matplotlib Figure or SubFigure, default a new one
        An empty one to draw into, best with ``layout="constrained"``.

    Returns
    -------
    dict of str to Axes
        What the result has of these. "classes": expected shares with intervals, as
        :func:`bayesfuse.class_shares` has them. "labels": numbers of labels by probability, and how
        many are expected to be wrong. "raters": accuracies with intervals. "items": label
        probabilities of the least certain items. "models": the weights of several models.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> axes = bf.plots.plot_overview(result, model)
    >>> list(axes), axes["labels"].get_title()
    (['classes', 'labels', 'raters', 'items'], '... of 45 labels expected to be wrong\n(...)')
    """
    labels = None
    if model is not None or "label_posterior" in require_result(result).children:
        labels = label_probabilities(result, model)
    raters = _rater_qualities(result, ci_prob)
    weight = result["comparison"].dataset if "comparison" in result.children else None
    figure, axes = _panels(figure, labels is not None, raters is not None, weight is not None)
    if labels is not None:
        number = copies_of(result, labels.sizes["item"]).astype(float)
        colours = shared.class_colours(labels["class"].values)
        _draw_classes(axes["classes"], result, labels, colours, ci_prob)
        wrong = number @ (1.0 - labels.values.max(axis=1))
        title = f"{wrong:,.{int(wrong < 99.5)}f} of {number.sum():,.0f} labels expected to be wrong"
        if {GROUP, "label_posterior"} <= set(result.children):
            errors = expected_errors(result, ci_prob=ci_prob)
            ends = f"{errors['low']:,.0f} to {errors['high']:,.0f}"
            title += f"\n({coverage(ci_prob):.0%} interval: {ends})"
        _draw_certainty(axes["labels"], labels.values.max(axis=1), number, title)
        ordered = most_uncertain(answered(result, labels))
        with_responses = " with responses" * (ordered.sizes["item"] < labels.sizes["item"])
        names = item_names(result, ordered["item"].values[:ITEMS])
        draw_items(axes["items"], ordered.values, names, colours)
        shared.set_title(axes["items"], f"items{with_responses} (least certain on top)")
    if raters is not None:
        _draw_raters(axes["raters"], raters, 1.0 / len(class_names(result)))
    if weight is not None:
        _draw_weights(axes["models"], weight)
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.label.set_fontsize("small")
        ax.yaxis.label.set_fontsize("small")
    figure.suptitle(_size(result, labels), fontsize="large")
    return axes


def _panels(figure: Any, labels: bool, raters: bool, models: bool) -> tuple[Any, dict[str, Axes]]:
    """Return the figure and its axes by name, in columns of six rows."""
    columns = ["ccclll"] * labels
    if raters or models:
        columns.append("rrrrmm" if raters and models else 6 * ("r" if raters else "m"))
    columns += ["iiiiii"] * labels
    if not columns:
        raise ModelError(
            "An overview shows labels, raters or weights of models. Got: a result without label "
            "probabilities, sensitivity and specificity, or weights."
        )
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(4.5 * len(columns), 6.4), layout="constrained")
    elif figure.axes:
        raise ModelError(
            "figure= must be empty, because an overview fills it. Got: a figure of "
            f"{len(figure.axes)} axes."
        )
    names = {"c": "classes", "l": "labels", "r": "raters", "i": "items", "m": "models"}
    made = figure.subplot_mosaic(np.array([list(column) for column in columns]).T.tolist())
    return figure, {name: made[key] for key, name in names.items() if key in made}


def _size(result: xr.DataTree, labels: xr.DataArray | None) -> str:
    """Return the numbers of items, raters, responses and classes in words."""
    known = constants(result)
    numbers = {}
    if labels is not None:
        numbers["item"] = int(copies_of(result, labels.sizes["item"]).sum())
    if {"rater_index", "item_index"} <= set(known.data_vars):
        numbers["rater"] = known.sizes["rater"]
        numbers["response"] = int(responses_per_rater(result).sum())
    if labels is not None:
        numbers["class"] = labels.sizes["class"]
    return ", ".join(
        f"{number:,} {what}{('es' if what == 'class' else 's') * (number != 1)}"
        for what, number in numbers.items()
    )


def _draw_classes(
    ax: Axes,
    result: xr.DataTree,
    labels: xr.DataArray,
    colours: dict[Any, Any],
    ci_prob: float | None,
) -> None:
    """Draw the expected share of every class with its interval, the first on top."""
    shares = expected_shares(result, labels, ci_prob)
    share, low, high = (shares[name].to_numpy() for name in ("share", "low", "high"))
    order = np.arange(len(share))
    if len(share) > CLASSES:
        order = np.sort(np.argsort(-share, kind="stable")[:CLASSES])
    order = order[::-1]  # rows are counted from below
    shades, texts = list(colours.values()), [f"{share[k]:.0%}" for k in order]
    right = np.fmax(share, high)[order]
    _bars(ax, share[order], texts, right, color=[shades[k] for k in order])
    if not np.isnan(low).any():
        ends = np.maximum([share - low, high - share], 0.0)[:, order]
        ax.errorbar(share[order], range(len(order)), xerr=ends, fmt="none", color=shared.ink())
    shared.name_rows(ax, labels["class"].values[order], "class")
    ax.set(xlim=(0, 1.18 * max(right.max(), 1e-9)), ylim=(-0.6, len(order) - 0.4))
    some = f" (the {CLASSES} most frequent of {len(share):,})" if len(order) < len(share) else ""
    ax.set_xlabel("share of the items")
    shared.set_title(ax, f"classes{some}")


def _draw_certainty(ax: Axes, sure: NDArray[Any], number: NDArray[Any], title: str) -> None:
    """Draw how many labels are how probable, the most probable on top."""
    n_cells = len(CERTAINTY) - 1
    sure = np.clip(sure, 0.0, 1.0)
    weights = number, number * (1.0 - sure)
    count, wrong = (np.histogram(sure, CERTAINTY, weights=weight)[0] for weight in weights)
    first = int(np.flatnonzero(count)[0])
    shades = colormaps["Blues"](np.linspace(0.25, 0.9, n_cells))
    texts = [
        f"{n:,.0f} (wrong: {w:,.{0 if w >= 9.95 else 1}f})" if n else "0" * (row >= first)
        for row, (n, w) in enumerate(zip(count, wrong, strict=True))
    ]
    _bars(ax, count, texts, color=shades)
    ends = [f"{end:g}".removeprefix("0") for end in CERTAINTY]
    names = [f"{low} to {high}" for low, high in pairwise(ends)]
    names[0], names[-1] = f"below {ends[1]}", f"above {ends[-2]}"
    ax.set_yticks(range(n_cells), names, fontsize=shared.TEXT)
    ax.set(xlim=(0, 2.0 * max(count.max(), 1)), ylim=(first - 0.6, n_cells - 0.4))
    ax.set(xlabel="items (in brackets: expected to be wrong)", ylabel="probability of the label")
    ax.set_title(title, fontsize="medium")


def _draw_raters(ax: Axes, raters: pd.DataFrame, chance: float) -> None:
    """Draw accuracies in the order of the table, and a line at chance."""
    raters = raters.iloc[::-1]  # rows are counted from below
    rows = shared.place_rows(ax, len(raters), RATERS)
    mean, low, high = (raters[name].to_numpy() for name in ("accuracy", "low", "high"))
    shared.draw_intervals(ax, mean, low, high, rows, "C0")
    shared.name_rows(ax, raters["rater"].to_numpy(), "rater", rows)
    ax.axvline(chance, color="grey", lw=1, ls=":")
    ax.set_xlabel("accuracy (dotted: chance)")
    shared.set_title(ax, "raters")


def _bars(
    ax: Axes,
    lengths: NDArray[Any],
    texts: list[str],
    ends: NDArray[Any] | None = None,
    **kwargs: Any,
) -> None:
    """Draw horizontal bars from below, with words after their ends."""
    ax.barh(range(len(lengths)), lengths, height=0.75, **kwargs)
    for row, (end, words) in enumerate(zip(lengths if ends is None else ends, texts, strict=True)):
        ax.annotate(words, (end, row), **AFTER)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _draw_weights(ax: Axes, comparison: xr.Dataset) -> None:
    """Draw the weights of several models, the heaviest on top."""
    weight = comparison["weight"].values
    order = np.argsort(weight, kind="stable")
    _bars(ax, weight[order], [f"{w:.2f}" for w in weight[order]], color="0.6")
    shared.name_rows(ax, comparison["model"].values[order], "model")
    ax.set(xlim=(0, 1.12 * max(weight.max(), 1e-9)), ylim=(-0.6, len(order) - 0.4))
    ax.set_xlabel("weight in the average")
    shared.set_title(ax, "models")


def _rater_qualities(result: xr.DataTree, ci_prob: float | None) -> pd.DataFrame | None:
    """Return the table of raters, None for results of which it cannot be made."""
    try:
        return rater_table(result, ci_prob=ci_prob).dropna(subset="accuracy")
    except ModelError:
        return None
