"""Plots of the labels of items, and of their difficulty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import listed
from bayesfuse.errors import require_count
from bayesfuse.plots import axes as shared
from bayesfuse.results.contents import constants
from bayesfuse.results.difficulty import DRAWS, difficulty
from bayesfuse.results.summaries import most_uncertain

REST = 0.5  # height of the rows without names, together, in heights of those with names


def plot_labels(
    result: xr.DataTree | xr.DataArray, *, most: int | None = 40, ax: Axes | None = None
) -> Axes:
    """Plot label probabilities by item, the most uncertain item on top.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        From ``bf.sample`` or ``bf.find_map``, or label probabilities.
    most : int, optional
        Number of items to name; None for all. Default 40.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        One bar per item, divided among the classes. Items without a name are thin rows below the
        others, sorted by their most probable class and its probability.

    Raises
    ------
    ModelError
        The result has no label posterior.

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
    size = 5.5, min(1.2 + 0.2 * (len(items) + _height_of_rest(n_items, len(items))), 12.0)
    room = max(shared.width_of(items) - 0.4, 0.0) + max(
        columns * shared.width_of(colours) - 0.7, 0.0
    )
    (ax,) = shared.new_axes(ax, 1, size, 1, (room, 0.0))
    what = row_name(result)
    draw_items(ax, ordered.values, items, colours, "least certain", what)
    shared.set_title(ax, f"{n_items:,} {what}s")
    shared.show_classes(ax, colours, ax.containers, title="class", ncols=columns)
    return ax


def draw_items(
    ax: Axes,
    probability: NDArray[Any],
    names: NDArray[Any],
    colours: dict[Any, Any],
    first: str,
    what: str,
) -> None:
    """Draw label probabilities (items, classes) as bars from above, the first with names."""
    n_items, few = len(probability), len(names)
    rows = _rows(n_items, few)
    left = np.zeros(few)
    for (name, colour), width in zip(colours.items(), probability[:few][::-1].T, strict=True):
        style = {"height": 0.8, "color": colour, "label": shared.escaped(name)}
        ax.barh(range(few), width, left=left, **style)  # rows are counted from below
        left = left + width
    if n_items > few:
        _draw_band(ax, probability[few:], rows.edges[: n_items - few + 1], list(colours.values()))
    unnamed = np.full(n_items - few, "", dtype=object)
    shared.name_rows(ax, np.append(unnamed, names[::-1]), what, rows, (first, ""))
    ylim = rows.edges[0] - 0.1, rows.edges[-1] + 0.1
    ax.set(xlim=(0, 1), ylim=ylim, xlabel="posterior probability")
    ax.tick_params(axis="y", length=0)
    ax.spines[:].set_visible(False)


def _height_of_rest(n_items: int, named: int) -> float:
    """Return the height of the items without names, in rows."""
    return min(REST * named, n_items - named)


def _rows(n_items: int, named: int) -> shared.Rows:
    """Return rows from below, of which the last have names."""
    edges = np.linspace(-0.5 - _height_of_rest(n_items, named), -0.5, n_items - named + 1)
    whole = np.append(edges, np.arange(named) + 0.5)
    return shared.Rows(whole, np.arange(n_items) >= n_items - named)


def _draw_band(
    ax: Axes, probability: NDArray[Any], edges: NDArray[np.floating], colours: list[Any]
) -> None:
    """Draw items (items, classes) as thin rows, sorted by label and certainty from above."""
    order = np.lexsort((probability.max(axis=1), probability.argmax(axis=1)))[::-1]
    left = np.zeros(len(order))
    for colour, width in zip(colours, probability[order].T, strict=True):
        right = left + width
        ax.stairs(right, edges, baseline=left, orientation="horizontal", fill=True, color=colour)
        left = right


def row_name(result: xr.DataTree | xr.DataArray) -> str:
    """Return what the rows of label probabilities are, in a table of counts patterns."""
    counted = isinstance(result, xr.DataTree) and "multiplicity" in constants(result)
    return "pattern" if counted else "item"


def item_names(result: xr.DataTree | xr.DataArray, items: NDArray[Any]) -> NDArray[Any]:
    """Return the names of items, with their counts in a table of counts."""
    known = constants(result) if isinstance(result, xr.DataTree) else xr.Dataset()
    if "multiplicity" not in known:
        return items
    copies = dict(zip(known["item"].values, known["multiplicity"].values, strict=True))
    return np.array([f"{in_one_line(item, 18)} (×{copies[item]:,})" for item in items])


LINES = 200  # largest number of items without names whose intervals are drawn
NAME = 14  # largest number of letters of the name of an item or class


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
    result, model, draws, ci_prob
        As in :func:`bayesfuse.difficulty`.
    most : int, default 25
        Number of items to name, the hardest; all others are thin rows below them, of which 200 at
        most have their interval drawn.
    axes : sequence of two matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    ndarray of Axes, shape (2,)
        Left all items in the colour of their most probable class, the hardest on top: the
        probability that two raters who look disagree, with its interval, and a cross at the
        probability that the class is wrong. Names are followed by the two most probable classes.
        Right the expected number of items by most probable class and other true class.

    Raises
    ------
    ModelError
        A model without item types; not two Axes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.ItemTypes(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> [ax.get_xlabel() for ax in bf.plots.plot_hard_items(result, model)]
    ['probability', 'most probable class']
    """
    require_count("most", most)
    found = difficulty(result, model, draws=draws, ci_prob=ci_prob)
    colours = shared.class_colours(found["class"].values)
    order = np.argsort(found["disagreement"].values, kind="stable")
    found = found.isel(item=order)
    names = _item_names(found, most)
    short = [shared.escaped(name, NAME) for name in colours]
    side = max(1.6 + min(0.5 * len(colours), 3.6), 2.8) + shared.width_of(short)  # of the matrix
    height = max(min(1.4 + 0.24 * len(names), 9.0), side)
    width = 3.8 + shared.width_of(names, most=80) + shared.width_of(colours)
    axes = shared.new_axes(axes, 2, ((width + side) / 2, height), 2, width_ratios=(width, side))
    _draw_items(axes[0], found, colours, names)
    _draw_mistakes(axes[1], found, short)
    return axes


def _item_names(found: xr.Dataset, most: int) -> list[str]:
    """Return names of the hardest items, each with its two most probable classes."""
    some = found.isel(item=slice(-most, None))
    items = shared.escaped_names(some["item"].values, NAME)
    columns = (some[name].values for name in ("label", "confused_with"))
    return [
        f"{item}: {shared.escaped(one, NAME)} or {shared.escaped(other, NAME)}"
        for item, one, other in zip(items, *columns, strict=True)
    ]


def _draw_items(ax: Axes, found: xr.Dataset, colours: dict[Any, Any], names: list[str]) -> None:
    """Draw the items in order from below, the last of which have names."""
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    count, few = found.sizes["item"], len(names)
    edges, is_named = rows = _rows(count, few)
    x, error, low, high = (found[name].values for name in ("disagreement", "error", "low", "high"))
    colour = np.array([to_rgba(colours[name]) for name in listed(found["label"].values)])
    small = 1.0 + 3.0 * min(1.0, LINES / max(count - few, 1))
    for which, lw, area in ((~is_named, 0.5, small), (is_named, 2.0, 28.0)):
        own = np.flatnonzero(which)
        few_lines = own[:: -(-len(own) // LINES) or 1]  # more lines would cover each other
        line: dict[str, Any] = {"color": colour[few_lines], "lw": lw, "alpha": 0.4}
        ax.hlines(rows.places[few_lines], low[few_lines], high[few_lines], **line)
        y = rows.places[own]
        ax.scatter(x[own], y, s=area, color=colour[own], lw=0, zorder=3)
        ax.scatter(error[own], y, s=area, color=shared.ink(), marker="x", lw=lw / 1.5, zorder=4)
    size = min(shared.TEXT, 0.85 * shared.points(ax)[1] / (edges[-1] - edges[0]))
    shown = is_named & (size >= shared.READABLE)
    ax.set_yticks(rows.places[shown], names if shown.any() else [], fontsize=size)
    ax.tick_params(axis="y", length=0)
    some = f", the {few} hardest named" if few < count and shown.any() else ""
    ax.set_ylabel(f"{count:,} items{some}")
    right = max(float(high.max()), float(error.max()), 0.1)
    ax.set(xlim=(-0.02 * right, 1.04 * right), ylim=(edges[0] - 0.2, edges[-1] + 0.2))
    ax.set_xlabel("probability")
    ax.grid(axis="x", alpha=0.4)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title("items by difficulty", fontsize="medium")
    dots = [Line2D([], [], ls="", marker="o", color=c, label="?") for c in colours.values()]
    differ = Line2D([], [], marker="o", color="0.5", lw=2, label="two raters who look disagree")
    wrong = Line2D([], [], ls="", marker="x", color=shared.ink(), label="the label is wrong")
    ax.add_artist(ax.legend(handles=[differ, wrong], loc="lower right", fontsize="small"))
    shared.show_classes(ax, colours, dots, title="label")


def _draw_mistakes(ax: Axes, found: xr.Dataset, names: list[str]) -> None:
    """Draw the matrix of confused classes with its numbers, the truth in rows."""
    numbers = found["mistakes"].transpose("class", "labelled").values
    shown = np.where(np.eye(len(names), dtype=bool), np.nan, numbers)
    largest = max(float(numbers.max()), 1e-9)
    ax.set_facecolor("0.93")

    def text(value: float) -> str:
        return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"

    shared.draw_table(ax, shown, names, 0.3, text, largest)
    ax.set(xlabel="most probable class", ylabel="truth")
    ax.set_anchor("N")
    ax.set_title(f"{numbers.sum():,.1f} labels\nexpected to be wrong", fontsize="medium")
