"""One picture of a result, and the numbers that it shares with other pictures."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from matplotlib import colormaps
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.decisions.ranks import expected_errors
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.plots import axes as shared
from bayesfuse.plots.items import draw_items, item_names, row_name
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import all_draws, class_names, constants, named, require_result
from bayesfuse.results.difficulty import difficulty, has_types
from bayesfuse.results.joint_labels import GROUP
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_tables import of_votes, sources
from bayesfuse.results.summaries import (
    balanced_accuracy,
    coverage,
    interval,
    rater_accuracy,
    responses_per_rater,
)

CERTAINTY = [0.0, 0.5, 0.7, 0.9, 0.99, 1.0]  # ends of the bins of label probabilities
CLASSES, RATERS, ITEMS = 10, 16, 14  # largest numbers of classes, raters and items that are named
FEW = 8  # largest number of raters drawn below the labels
DRAWS = 100  # joint draws of the labels, for the number of wrong ones, and draws for the difficulty
LARGE = 1_000_000  # largest number of items of which labels are drawn jointly
SEED = 1  # of the joint draws: a picture is the same each time

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
    result : DataTree
        From ``bf.sample``, ``bf.fit``, ``bf.find_map``, ``bf.predict`` or ``bf.average``.
    model : pymc.Model, optional
        The model of the result. With it, the number of wrong labels has an interval (for up to a
        million items without counts), items with types are sorted by difficulty, and labelling
        functions have accuracies.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.
    figure : matplotlib Figure or SubFigure, default a new one
        An empty one to draw into, best with ``layout="constrained"``.

    Returns
    -------
    dict of str to Axes
        What the result has of these. "classes": the expected share of every class, and the
        prevalence with its interval. "labels": numbers of labels by probability, and how many are
        expected to be wrong. "raters": accuracies of the best and the worst with intervals,
        averaged over the classes (of labelling functions those of their votes), and all others as a
        band. "items": label probabilities of the hardest or least certain items, and all others as
        a band. "models": the weights of several models.

    Raises
    ------
    ModelError
        A result that has none of these, or of another model; a figure that is not empty.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> axes = bf.plots.plot_overview(result, model)
    >>> list(axes), axes["labels"].get_title()
    (['classes', 'labels', 'raters', 'items'], '... of 45 labels expected to be wrong\n(...)')
    """
    probability = coverage(ci_prob)
    labels = None
    if model is not None or "label_posterior" in require_result(result).children:
        labels = label_probabilities(result, model)
    raters = rater_qualities(result, model, ci_prob)
    weight = result["comparison"].dataset if "comparison" in result.children else None
    n_raters = 0 if raters is None else len(raters.name)
    figure, axes = _panels(figure, labels is not None, n_raters, weight is not None)
    if labels is not None:
        copies = constants(result).get("multiplicity")
        number = np.ones(labels.sizes["item"]) if copies is None else copies.values.astype(float)
        colours = shared.class_colours(labels["class"].values)
        _draw_classes(axes["classes"], result, labels, number, colours, ci_prob)
        jointly = copies is None and len(number) <= LARGE and all_draws(result)
        said = _wrong(result, model if jointly else None, labels, number, probability)
        _draw_certainty(axes["labels"], labels.values.max(axis=1), number, said)
        hard = item_difficulty(result, model)
        _draw_items(axes["items"], result, labels, hard, colours)
    if raters is not None:
        _draw_raters(axes["raters"], raters)
    if weight is not None:
        _draw_weights(axes["models"], weight)
    for ax in axes.values():
        ax.spines[["top", "right"]].set_visible(False)
        ax.xaxis.label.set_fontsize("small")
        ax.yaxis.label.set_fontsize("small")
    figure.suptitle(_size(result, labels), fontsize="large")
    return axes


def _panels(figure: Any, labels: bool, n_raters: int, models: bool) -> tuple[Any, dict[str, Axes]]:
    """Return the figure and its axes by name, in columns of six rows."""
    # what is short stands below the labels: a few raters, or models without raters
    aside = "r" if n_raters and not models else "m"
    short = labels and n_raters <= FEW and bool(n_raters) != models
    columns = []
    if labels:
        columns.append("ccll" + 2 * aside if short else "ccclll")
    if (n_raters or models) and not short:
        half = n_raters <= FEW or not labels
        both = "rrrmmm" if half else "rrrrmm"
        columns.append(both if n_raters and models else 6 * aside)
    if labels:
        columns.append("iiiiii")
    if not columns:
        raise ModelError(
            "An overview shows labels, raters or weights of models. Got: a result without label "
            "probabilities, sensitivity and specificity, or weights."
        )
    widths = [1.0, 1.25, 1.25][: len(columns)]
    if figure is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(3.9 * sum(widths), 6.4), layout="constrained")
    elif figure.axes:
        raise ModelError(
            "figure= must be empty, because an overview fills it. Got: a figure of "
            f"{len(figure.axes)} axes."
        )
    names = {"c": "classes", "l": "labels", "r": "raters", "i": "items", "m": "models"}
    rows = np.array([list(column) for column in columns]).T.tolist()
    made = figure.subplot_mosaic(rows, width_ratios=widths)
    return figure, {name: made[key] for key, name in names.items() if key in made}


def _size(result: xr.DataTree, labels: xr.DataArray | None) -> str:
    """Return the numbers of items, raters, responses and classes in words."""
    known = constants(result)
    numbers = {}
    if labels is not None:
        numbers["item"] = int(known.get("multiplicity", xr.ones_like(labels["item"], int)).sum())
    if has_responses(result):
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
    number: Array,
    colours: dict[Any, Any],
    ci_prob: float | None,
) -> None:
    """Draw the expected share of every class, the first on top, and the prevalence."""
    share = number @ labels.values / number.sum()
    order = np.arange(len(share))
    if len(share) > CLASSES:
        order = np.sort(np.argsort(-share, kind="stable")[:CLASSES])
    order = order[::-1]  # rows are counted from below
    prevalence = named(all_draws(result), "prevalence")
    has_points = prevalence is not None and prevalence.dims == ("chain", "draw", "class")
    shades, said = list(colours.values()), [f"{share[k]:.0%}" for k in order]
    style: dict[str, Any] = {"fmt": "o", "ms": 4, "lw": 1.5, "color": shared.ink()}
    right, points = share[order], None
    if prevalence is not None and has_points:
        low, high = (end.values[order] for end in interval(prevalence, ci_prob))
        mean = prevalence.mean(("chain", "draw")).values[order]
        right, points = np.maximum(right, high), np.maximum([mean - low, high - mean], 0.0)
    _bars(ax, share[order], said, right, color=[shades[k] for k in order])
    if points is not None:
        ax.errorbar(mean, range(len(order)), xerr=points, **style)
    shared.name_rows(ax, labels["class"].values[order], "class")
    ax.set(xlim=(0, 1.18 * max(right.max(), 1e-9)), ylim=(-0.6, len(order) - 0.4))
    some = f" (the {CLASSES} most frequent of {len(share):,})" if len(order) < len(share) else ""
    ax.set_xlabel("share of the items" + " (points: prevalence)" * has_points)
    shared.set_title(ax, f"classes{some}")


def _wrong(
    result: xr.DataTree,
    model: pm.Model | None,
    labels: xr.DataArray,
    number: Array,
    probability: float,
) -> str:
    """Say how many labels are expected to be wrong, with an interval if there is a model."""
    wrong = number @ (1.0 - labels.values.max(axis=1))
    few = int(wrong < 99.5)
    said = f"{wrong:,.{few}f} of {number.sum():,.0f} labels expected to be wrong"
    if model is None:
        return said
    found = expected_errors(result, model, draws=DRAWS, ci_prob=probability, random_seed=SEED)
    return f"{said}\n({probability:.0%} interval: {found['low']:,.0f} to {found['high']:,.0f})"


def _draw_certainty(ax: Axes, sure: Array, number: Array, title: str) -> None:
    """Draw how many labels are how probable, the most probable on top."""
    n_cells = len(CERTAINTY) - 1
    sure = np.clip(sure, 0.0, 1.0)
    weights = number, number * (1.0 - sure)
    count, wrong = (np.histogram(sure, CERTAINTY, weights=own)[0] for own in weights)
    first = int(np.flatnonzero(count)[0])
    shades = colormaps["Blues"](np.linspace(0.25, 0.9, n_cells))
    said = [
        f"{n:,.0f} (wrong: {w:,.{0 if w >= 9.95 else 1}f})" if n else "0" * (row >= first)
        for row, (n, w) in enumerate(zip(count, wrong, strict=True))
    ]
    _bars(ax, count, said, color=shades)
    ends = [f"{end:g}".removeprefix("0") for end in CERTAINTY]
    names = [f"{low} to {high}" for low, high in pairwise(ends)]
    names[0], names[-1] = f"below {ends[1]}", f"above {ends[-2]}"
    ax.set_yticks(range(n_cells), names, fontsize=shared.TEXT)
    ax.set(xlim=(0, 2.0 * max(count.max(), 1)), ylim=(first - 0.6, n_cells - 0.4))
    ax.set(xlabel="items (in brackets: expected to be wrong)", ylabel="probability of the label")
    ax.set_title(title, fontsize="medium")


def _draw_raters(ax: Axes, found: Qualities) -> None:
    order = np.argsort(found.mean, kind="stable")
    rows = shared.place_rows(ax, len(order), RATERS)
    mean, low, high = (values[order] for values in (found.mean, found.low, found.high))
    shared.draw_intervals(ax, mean, low, high, rows, "C0")
    shared.name_rows(ax, found.name[order], "rater", rows)
    ax.set_xlabel(found.measure)
    if found.chance is not None:
        ax.axvline(found.chance, color="0.5", lw=1, ls="--", zorder=0)
        ax.set_xlabel(f"{found.measure} (dashed: chance)")
    shared.set_title(ax, "raters")


def _draw_items(
    ax: Axes,
    result: xr.DataTree,
    labels: xr.DataArray,
    hard: xr.DataArray | None,
    colours: dict[Any, Any],
) -> None:
    """Draw label probabilities, the hardest items or the least certain on top."""
    error = 1.0 - labels.values.max(axis=1)
    by, first = error, "least certain"
    if hard is not None:
        by, first = hard.sel(item=labels["item"].values).values, "hardest"
    order = np.lexsort((-error, -by))
    few = min(ITEMS, len(order))
    names = item_names(result, labels["item"].values[order[:few]])
    draw_items(ax, labels.values[order], names, colours, first, row_name(result))
    if hard is not None:
        ax.annotate("difficulty", (1.0, few - 0.4), **AFTER | {"va": "bottom"})
        for row, value in enumerate(by[order[:few]][::-1]):
            said = f"{value:.2f}".removeprefix("0")
            ax.annotate(said, (1.0, row), **AFTER)
    shared.set_title(ax, f"items ({first} on top)")


def _bars(
    ax: Axes, lengths: Array, said: list[str], ends: Array | None = None, **kwargs: Any
) -> None:
    """Draw horizontal bars from below, with words after their ends."""
    ax.barh(range(len(lengths)), lengths, height=0.75, **kwargs)
    for row, (end, words) in enumerate(zip(lengths if ends is None else ends, said, strict=True)):
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


class Qualities(NamedTuple):
    """Accuracy of every rater, with its interval, number of responses and accuracy of guessing."""

    name: NDArray[Any]
    mean: Array
    low: Array
    high: Array
    responses: NDArray[np.int64] | None
    measure: str
    chance: float | None


def rater_qualities(
    result: xr.DataTree, model: pm.Model | None, ci_prob: float | None
) -> Qualities | None:
    """Return the accuracies of raters, of labelling functions those of votes; None if unknown."""
    observation = None if model is None else observation_of(result, model)
    if observation is not None and of_votes(model, observation):
        table = sources(model, result, ci_prob=ci_prob)
        names = np.array([f"{source}: {label}" for source, label in table.index], dtype=object)
        mean, low, high = (table[f"accuracy{end}"].to_numpy() for end in ("", "_lower", "_upper"))
        n_items = observation.responses.multiplicity.sum()
        number = np.rint(table["coverage"].to_numpy() * n_items).astype(np.int64)
        return Qualities(names, mean, low, high, number, "accuracy of the votes", None)
    draws = all_draws(result)
    if named(draws, "sensitivity") is None or named(draws, "specificity") is None:
        return None
    chance = 1.0 / len(class_names(result))
    if "comparison" in result.children and GROUP in result.children:  # as in the answer's table
        table = rater_accuracy(result, ci_prob=ci_prob).dropna(subset="balanced_accuracy")
        mean, low, high = (
            table[f"balanced_accuracy{end}"].to_numpy() for end in ("", "_low", "_high")
        )
        names, number = table["rater"].to_numpy(), table["responses"].to_numpy()
        return Qualities(names, mean, low, high, number, "balanced accuracy", chance)
    accuracy = balanced_accuracy(result)
    low, high = (end.values for end in interval(accuracy, ci_prob))
    mean = accuracy.mean(("chain", "draw")).values
    number = responses_per_rater(result) if has_responses(result) else None
    measure = "accuracy, mean over the classes"
    return Qualities(accuracy["rater"].values, mean, low, high, number, measure, chance)


def responses_per_item(result: xr.DataTree, items: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of responses to the given items."""
    known = constants(result, "item_index")
    number = np.bincount(known["item_index"].values, minlength=known.sizes["item"])
    found: NDArray[np.int64] = number[known.get_index("item").get_indexer(list(items))]
    return found


def has_responses(result: xr.DataTree) -> bool:
    """Return whether a result has the raters and items of its responses."""
    return {"rater_index", "item_index"} <= set(constants(result).data_vars)


def item_difficulty(result: xr.DataTree, model: pm.Model | None) -> xr.DataArray | None:
    """Return the difficulty of every item, stored or of a model of item types; None if unknown."""
    if "difficulty" in result.children:
        stored = result["difficulty"].dataset
        own = [name for name, values in stored.data_vars.items() if values.dims == ("item",)]
        for name in ("disagreement", "difficulty", *own[:1]):
            if name in own:
                return stored[name]
    if model is None or not all_draws(result):
        return None
    if not has_types(observation_of(result, model)):
        return None
    return difficulty(result, model, draws=DRAWS)["disagreement"]
