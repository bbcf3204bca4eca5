"""Plot of label probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import NDArray

from bayesfuse.data.describing import in_one_line
from bayesfuse.errors import require_count
from bayesfuse.plots.axes import (
    Rows,
    class_colours,
    escaped,
    name_rows,
    new_axes,
    set_title,
    show_classes,
    width_of,
)
from bayesfuse.results.contents import constants
from bayesfuse.results.summaries import most_uncertain

REST = 0.5
"""Height of the rows without names, together, in heights of those with names."""


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
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        One bar per item, divided among the classes. All items without a name are thin rows below
        the others, sorted by their most probable class and its probability.

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
    colours = class_colours(ordered["class"].values)
    columns = 1 + (len(colours) - 1) // 20
    size = 5.5, min(1.2 + 0.2 * (len(items) + _height_of_rest(n_items, len(items))), 12.0)
    room = max(width_of(items) - 0.4, 0.0) + max(columns * width_of(colours) - 0.7, 0.0)
    (ax,) = new_axes(ax, 1, size, 1, (room, 0.0))
    what = row_name(result)
    draw_items(ax, ordered.values, items, colours, "least certain", what)
    set_title(ax, f"{n_items:,} {what}s")
    show_classes(ax, colours, ax.containers, title="class", ncols=columns)
    return ax


def draw_items(
    ax: Axes,
    probability: NDArray[Any],
    names: NDArray[Any],
    colours: dict[Any, Any],
    first: str,
    what: str,
) -> None:
    """Draw label probabilities (items, classes) as bars from above, the first with names.

    ``first`` says what the first items are, ``what`` what the rows are, in words.
    """
    n_items, few = len(probability), len(names)
    below = _height_of_rest(n_items, few)
    left = np.zeros(few)
    for (name, colour), width in zip(colours.items(), probability[:few][::-1].T, strict=True):
        style = {"height": 0.8, "color": colour, "label": escaped(name)}
        ax.barh(range(few), width, left=left, **style)  # rows are counted from below
        left = left + width
    edges = np.linspace(-0.5 - below, -0.5, n_items - few + 1)
    if n_items > few:
        _draw_band(ax, probability[few:], edges, list(colours.values()))
    rows = Rows(np.append(edges, np.arange(few) + 0.5), np.arange(n_items) >= n_items - few)
    unnamed = np.full(n_items - few, "", dtype=object)
    name_rows(ax, np.append(unnamed, names[::-1]), what, rows, (first, ""))
    ax.set(xlim=(0, 1), ylim=(-0.6 - below, few - 0.4), xlabel="posterior probability")
    ax.tick_params(axis="y", length=0)
    ax.spines[:].set_visible(False)


def _height_of_rest(n_items: int, named: int) -> float:
    """Return the height of the items without names, in rows."""
    return min(REST * named, n_items - named)


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
