"""Plots of the labels of items, of their difficulty, and of one sequence of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_count, require_kind
from bayesfuse.plots import axes as shared
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import averaged_models, constants, responses_of, sequences_of
from bayesfuse.results.difficulty import DRAWS, difficulty
from bayesfuse.results.paths import decode
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import most_uncertain

NAME = 14  # largest number of letters of the name of an item or class
MAX_NAMED = 40  # largest number of items of a sequence that are named
MAX_WITH_GAPS = 100  # of a sequence; gaps between more tiles would be wider than these


def plot_labels(
    result: xr.DataTree | xr.DataArray, *, most: int | None = 40, ax: Axes | None = None
) -> Axes:
    """Plot label probabilities by item, the most uncertain item on top.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        From ``bf.sample`` or ``bf.find_map``, or label probabilities.
    most : int, optional: number of items to name; None for all. Default 40
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        One bar per item, divided among the classes. Items without a name are thin rows below the
        others, sorted by their most probable class and its probability.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.plots.plot_labels(point, most=5).get_ylabel()
    '45 items: the 5 least certain named'
    """
    ordered = most_uncertain(result)
    if most is not None:
        require_count("most", most)
    n_items = ordered.sizes["item"]
    items = item_names(result, ordered["item"].values[:most])
    colours = shared.class_colours(ordered["class"].values)
    columns = 1 + (len(colours) - 1) // 20
    size = 5.5, min(1.2 + 0.2 * np.ptp(_rows(n_items, len(items)).edges), 12.0)
    room = max(shared.width_of(items) - 0.4, 0.0)
    room += max(columns * shared.width_of(colours) - 0.7, 0.0)
    (ax,) = shared.new_axes(ax, 1, size, 1, (room, 0.0))
    draw_items(ax, ordered.values, items, colours)
    shared.set_title(ax, f"{n_items:,} items")
    shared.show_classes(ax, colours, ax.containers, title="class", ncols=columns)
    return ax


def draw_items(
    ax: Axes, probability: NDArray[Any], names: NDArray[Any], colours: dict[Any, Any]
) -> None:
    """Draw label probabilities (items, classes) as bars from above, the first with names."""
    n_items, few = len(probability), len(names)
    edges, _ = rows = _rows(n_items, few)
    left = np.zeros(few)
    for (name, colour), width in zip(colours.items(), probability[:few][::-1].T, strict=True):
        style = {"height": 0.8, "color": colour, "label": shared.escaped(name)}
        ax.barh(range(few), width, left=left, **style)  # rows are counted from below
        left = left + width
    if n_items > few:
        unnamed = probability[few:]  # sorted by label and certainty from above
        order = np.lexsort((unnamed.max(axis=1), unnamed.argmax(axis=1)))[::-1]
        below = edges[: n_items - few + 1]
        shared.draw_bands(ax, unnamed[order], below, colours, orientation="horizontal")
    unnamed = np.full(n_items - few, "", dtype=object)
    shared.name_rows(ax, np.append(unnamed, names[::-1]), "item", rows, ("least certain", ""))
    ax.set(xlim=(0, 1), ylim=edges[[0, -1]] + [-0.1, 0.1], xlabel="posterior probability")
    ax.tick_params(axis="y", length=0)
    ax.spines[:].set_visible(False)


def _rows(n_items: int, named: int) -> shared.AxisRows:
    """Return rows from below, the last of which have names, at 0, 1, …."""
    edges, last = shared.rows_of(np.arange(n_items) >= n_items - named)
    return shared.AxisRows(edges - edges[n_items - named] - 0.5, last)


def item_names(result: xr.DataTree | xr.DataArray, items: NDArray[Any]) -> NDArray[Any]:
    """Return the names of items, with their counts in a table of counts."""
    known = constants(result) if isinstance(result, xr.DataTree) else xr.Dataset()
    if "multiplicity" not in known:
        return items
    copies = dict(zip(known["item"].values, known["multiplicity"].values, strict=True))
    return np.array([f"{in_one_line(item, 18)} (×{copies[item]:,})" for item in items])


def plot_hard_items(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    most: int = 25,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Plot how hard every item is, how probably its label is wrong, and which classes are confused.

    Parameters
    ----------
    result, model, draws, ci_prob : as in :func:`bayesfuse.decisions.difficulty`
    most : int, default 25
        Number of items to show with their two most probable classes, the hardest.
    axes : sequence of two matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        Left the items in the colour of their most probable class: the probability that two raters
        who look disagree, with its interval, and a cross at the probability that the class is
        wrong. Right the expected number of items by most probable class and other true class.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.ItemTypes(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> [ax.get_xlabel() for ax in bf.plots.plot_hard_items(result, model)]
    ['probability', 'most probable class']
    """
    require_count("most", most)
    hardness = difficulty(result, model, draws=draws, ci_prob=ci_prob)
    colours = shared.class_colours(hardness["class"].values)
    order = np.argsort(hardness["disagreement"].values, kind="stable")
    hardness = hardness.isel(item=order)
    items, *pairs = (hardness[name].values[-most:] for name in ("item", "label", "confused_with"))
    names = []
    for item, one, other in zip(shared.escaped_names(items, NAME), *pairs, strict=True):
        names.append(f"{item}: {shared.escaped(one, NAME)} or {shared.escaped(other, NAME)}")
    short = [shared.escaped(name, NAME) for name in colours]
    side = max(1.6 + min(0.5 * len(colours), 3.6), 2.8) + shared.width_of(short)  # of the matrix
    height = max(min(1.4 + 0.24 * len(names), 9.0), side)
    width = 3.8 + shared.width_of(names, most=80) + shared.width_of(colours)
    axes = shared.new_axes(axes, 2, ((width + side) / 2, height), 2, width_ratios=(width, side))
    _draw_items(axes[0], hardness, colours, names)
    _draw_mistakes(axes[1], hardness, short)
    return axes


def _draw_items(ax: Axes, hardness: xr.Dataset, colours: dict[Any, Any], names: list[str]) -> None:
    """Draw the last items in order from below."""
    from matplotlib.lines import Line2D

    numbers = (hardness[name].values for name in ("disagreement", "error", "low", "high"))
    x, error, low, high = (numbers_of_items[-len(names) :] for numbers_of_items in numbers)
    colour = [colours[name] for name in listed(hardness["label"].values[-len(names) :])]
    rows = np.arange(len(names))
    ax.hlines(rows, low, high, color=colour, lw=2, alpha=0.4)
    ax.scatter(x, rows, s=28, color=colour, lw=0, zorder=3)
    ax.scatter(error, rows, s=28, color=shared.ink(), marker="x", lw=1.3, zorder=4)
    size = min(shared.TEXT, 0.85 * shared.points(ax)[1] / len(names))
    ax.set_yticks(rows, names, fontsize=size)
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel(f"the {len(names)} hardest of {hardness.sizes['item']:,} items")
    right = max(high.max(), error.max(), 0.1)
    ax.set(xlim=(-0.02 * right, 1.04 * right), ylim=(-0.7, len(names) - 0.3), xlabel="probability")
    ax.grid(axis="x", alpha=0.4)
    dots = [Line2D([], [], ls="", marker="o", color=c, label="?") for c in colours.values()]
    differ = Line2D([], [], marker="o", color="0.5", lw=2, label="two raters who look disagree")
    wrong = Line2D([], [], ls="", marker="x", color=shared.ink(), label="the label is wrong")
    # above the axes, where it covers no item
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 2}
    ax.add_artist(ax.legend(handles=[differ, wrong], fontsize="small", frameon=False, **place))
    shared.show_classes(ax, colours, dots, title="label")


def _draw_mistakes(ax: Axes, hardness: xr.Dataset, names: list[str]) -> None:
    """Draw the matrix of confused classes with its numbers, the truth in rows."""
    numbers = hardness["mistakes"].transpose("class", "labelled").values
    shown = np.where(np.eye(len(names), dtype=bool), np.nan, numbers)
    largest = max(float(numbers.max()), 1e-9)
    ax.set_facecolor("0.93")
    shared.draw_table(ax, shown, names, 0.3, lambda n: f"{n:,.{int(n < 99.95)}f}", largest)
    ax.set(xlabel="most probable class", ylabel="truth")
    ax.set_anchor("N")
    ax.set_title(f"{numbers.sum():,.1f} labels\nexpected to be wrong", fontsize="medium")


def plot_sequence(
    result: xr.DataTree,
    model: pm.Model | None = None,
    sequence: Any = None,
    *,
    sequences: Sequences | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Plot one sequence: class probabilities, the most probable path, and the responses.

    Parameters
    ----------
    result : DataTree, from ``bf.sample``, ``bf.find_map`` or ``bf.fuse``
    model : pymc.Model, optional
        The model of the result, needed where :func:`bayesfuse.decode` needs it.
    sequence : name, default the longest
    sequences : Sequences, for models without sequences; default the model's own
    axes : pair of matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        Above, the stacked class probabilities of every item, and over them the jointly most
        probable labels (``bf.decode``; of an average, the most probable label of every item);
        below, the responses by rater (the last of several by one rater to one item).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 1], [0, 0, 0], [1, 1, 1], [1, 1, 0]])
    >>> model = bf.models.HiddenMarkov(responses, bf.Sequences.from_lengths([4]))
    >>> above, below = bf.plots.plot_sequence(bf.find_map(model), model)
    >>> above.get_title(), [tick.get_text() for tick in below.get_yticklabels()]
    ('sequence 0', ['2', '1', '0'])
    """
    if model is not None:
        require_kind("model", model, pm.Model)
    averaged = averaged_models(result)
    responses, order = _in_order(result, model, sequences)
    names = listed(order.names)
    if sequence is not None and sequence not in names:
        raise ModelError(
            f"sequence must be one of {shown(order.names)}; a result alone numbers them, and "
            f"sequences= names them. Got: {sequence!r}."
        )
    number = int(np.argmax(order.lengths)) if sequence is None else names.index(sequence)
    part = slice(int(order.start[number]), int(order.start[number + 1]))
    place = order.places(responses)[part]
    probability = label_probabilities(result, None if averaged else model).values[place]
    best = responses.classes[probability.argmax(axis=1)]
    path = best if averaged else decode(result, model).values[place]
    raters, codes = _responses(responses, place)
    n_items = len(place)
    width = min(max(2.5 + 0.16 * n_items, 5.0), 14.0)
    width += sum(max(shared.width_of(names) - 0.7, 0.0) for names in (raters, responses.classes))
    tall = min(1.0 + 0.22 * len(raters), 6.0)
    items = responses.items[place]
    named = n_items <= MAX_NAMED
    height = 2.2 + tall + max(shared.width_of(items) - 0.4, 0.0) * named
    ratios: dict[str, Any] = {"height_ratios": [2.0, tall], "sharex": True}
    axes = shared.new_axes(axes, 2, (width, height / 2), 1, **ratios)
    above, below = axes
    colours = shared.class_colours(responses.classes)
    edges = np.arange(n_items + 1) - 0.5
    shared.draw_bands(above, probability, edges, colours)
    shades = [colours[label] for label in listed(path)]
    above.bar(range(n_items), 0.1, 1.0, bottom=1.04, color=shades, lw=0)
    strip = "most probable labels" if averaged else "most probable path"
    above.text(edges[0], 1.16, strip, fontsize="small", va="bottom")
    above.set(xlim=edges[[0, -1]], ylim=(0, 1.34), ylabel="posterior probability")
    above.set_yticks([0, 0.5, 1])
    above.spines[:].set_visible(False)
    name = order.names[number]
    shared.set_title(above, shared.escaped(name if isinstance(name, str) else f"sequence {name}"))
    _tiles(below, codes, edges, list(colours.values()))
    shared.name_rows(below, raters[::-1], "rater")
    below.set_xlabel("item" if named else "position in the sequence, from 0")
    if named:
        names = shared.escaped_names(items)
        below.set_xticks(range(n_items), names, rotation=90 if max(map(len, names)) > 1 else 0)
    shared.show_classes(
        above, colours, above.patches[: len(colours)], title="class", fontsize="small"
    )
    return axes


def _in_order(
    result: xr.DataTree, model: pm.Model | None, sequences: Sequences | None
) -> tuple[Responses, Sequences]:
    """Return the responses and sequences of a model, or of an average of models."""
    if averaged_models(result):
        responses = responses_of(result)
        order = sequences_of(result, responses) if sequences is None else sequences
    else:
        observation = observation_of(result, model)
        order = observation.known_by("sequences", sequences, "This plot needs sequences")
        responses = observation.responses
    return responses, require_kind("sequences", order, Sequences)


def _responses(
    responses: Responses, place: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the raters of the items and their labels (raters, items), NaN for no response."""
    position = np.full(responses.n_items, -1)
    position[place] = np.arange(len(place))
    at = position[responses.item]
    codes = np.full((responses.n_raters, len(place)), np.nan)
    codes[responses.rater[at >= 0], at[at >= 0]] = responses.label[at >= 0]
    used = np.isfinite(codes).any(axis=1)
    return responses.raters[used], codes[used]


def _tiles(ax: Axes, codes: NDArray[np.float64], edges: NDArray[Any], shades: list[Any]) -> None:
    """Draw one tile per response, the first rater on top."""
    from matplotlib.colors import ListedColormap

    rows = np.arange(len(codes) + 1) - 0.5
    style: dict[str, Any] = {"cmap": ListedColormap(shades), "edgecolors": "white"}
    is_long = codes.shape[1] > MAX_WITH_GAPS
    if is_long:
        style["edgecolors"] = "none"
    masked = np.ma.masked_invalid(codes[::-1])
    ax.pcolormesh(edges, rows, masked, vmin=-0.5, vmax=len(shades) - 0.5, **style)
    if is_long:
        ax.hlines(rows[1:-1], *edges[[0, -1]], color="white", lw=1.0)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
