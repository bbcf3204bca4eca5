"""Plots of labels on a grid or a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.plots import axes as shared
from bayesfuse.results.contents import constants
from bayesfuse.results.probabilities import label_probabilities

WIDTH = 4.0  # width of a panel with a grid, in inches
SIZES = 6.0, 60.0  # areas, in square points, of items with uniform and with certain labels


def plot_grid(
    result: xr.DataTree | xr.DataArray, shape: Sequence[int], *, axes: Any = None
) -> NDArray[Any]:
    """Plot the labels of items on a grid as maps.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        From ``bf.sample`` or ``bf.find_map``, or label probabilities, with one item per cell, row
        by row.
    shape : sequence of int, length 2: rows and columns of the grid
    axes : sequence of two matplotlib Axes, default a new figure

    Returns
    -------
    ndarray of Axes, shape (2,)
        The most probable labels, and the probability that they are wrong.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> [ax.get_title() for ax in bf.plots.plot_grid(point, (5, 9))]
    ['most probable label', 'uncertainty']
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    probability = label_probabilities(result).transpose("item", "class")
    if len(shape) != 2 or int(np.prod(shape)) != probability.sizes["item"]:
        raise ModelError(
            "The grid must have one cell for each item. Got: shape "
            f"{tuple(shape)} for {probability.sizes['item']} items."
        )
    colours = shared.class_colours(probability["class"].values)
    wide, tall = WIDTH + max(shared.width_of(colours), 0.7), WIDTH * shape[0] / shape[1]
    axes = shared.new_axes(axes, 2, (wide + 0.5, max(tall, 1.0) + 0.3), 2)
    best, sure = probability.values.argmax(axis=1), probability.values.max(axis=1)
    n_classes, shades = len(colours), ListedColormap(list(colours.values()))
    axes[0].imshow(best.reshape(shape), cmap=shades, vmin=-0.5, vmax=n_classes - 0.5)
    limits: dict[str, Any] = {"vmin": 0, "vmax": 1 - 1 / n_classes, "cmap": "magma"}
    image = axes[1].imshow(1 - sure.reshape(shape), **limits)
    axes[1].figure.colorbar(image, ax=axes[1], shrink=0.8)
    for ax, title in zip(axes, ("most probable label", "uncertainty"), strict=True):
        shared.set_title(ax, title)
        ax.set_axis_off()
    shared.show_classes(axes[0], colours, [Patch(color=colour) for colour in colours.values()])
    return axes


def plot_graph(
    result: xr.DataTree,
    graph: Graph,
    *,
    layout: Mapping[Any, ArrayLike] | ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot items and their neighbours, with the label as colour and certainty as size.

    Parameters
    ----------
    result : DataTree, from ``bf.sample`` or ``bf.find_map``
    graph : Graph of the same items, in any order
    layout : mapping of items to pairs, or array-like, shape (items, 2), optional
        Positions of the items, in the graph's order. Default ``networkx.spring_layout``.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Rings are items without responses.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 0]] * 3 + [[1, 1, 1], [0, 1, 1], [1, 1, 1]])
    >>> point = bf.find_map(bf.models.DawidSkene(responses))
    >>> bf.plots.plot_graph(point, bf.Graph.grid((2, 3))).get_title()
    '6 items, 7 edges'
    """
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    graph = as_graph(graph)
    probability = label_probabilities(result)
    at = probability.get_index("item").get_indexer(graph.items.tolist())
    if (at < 0).any():
        raise ModelError(
            "Items of the graph must be items of the result. Got: item "
            f"{shown(graph.items[at < 0], 3)}, not among {shown(probability['item'].values, 3)}."
        )
    probability = probability.isel(item=at)
    place = _layout(graph) if layout is None else _checked_layout(graph, layout)
    colours = shared.class_colours(probability["class"].values)
    (ax,) = shared.new_axes(ax, 1, (7.0, 5.6), 1, (max(shared.width_of(colours) - 0.8, 0.0), 0.0))
    width = 0.8 * graph.weights / graph.weights.max() if graph.n_edges else 0.8
    style: dict[str, Any] = {"linewidths": width, "colors": "0.7", "zorder": 1}
    ax.add_collection(LineCollection(list(place[graph.edges]), **style))
    best, sure = probability.values.argmax(axis=1), probability.values.max(axis=1)
    n_classes = probability.sizes["class"]
    certain = (sure * n_classes - 1) / (n_classes - 1)
    area = (SIZES[0] + (SIZES[1] - SIZES[0]) * certain) * min(1.0, (300 / graph.n_items) ** 0.75)
    place_of = constants(result, "item_index")["item_index"].values
    answered = (np.bincount(place_of, minlength=at.max() + 1) > 0)[at]
    for k, colour in enumerate(colours.values()):
        for face, is_marked in ((colour, answered), ("white", ~answered)):
            here = (best == k) & is_marked
            x, y = place[here].T
            ax.scatter(x, y, area[here], facecolor=face, edgecolor=colour, zorder=2)
    dot: dict[str, Any] = {"marker": "o", "linestyle": ""}
    marks = [Line2D([], [], color=colour, **dot) for colour in colours.values()]
    if not answered.all():
        marks.append(Line2D([], [], color="0.4", mfc="white", label="unanswered", **dot))
    shared.show_classes(ax, colours, marks, title="class")
    shared.set_title(ax, f"{graph.n_items:,} items, {graph.n_edges:,} edges")
    ax.set_axis_off()
    ax.autoscale_view()
    return ax


def _checked_layout(graph: Graph, layout: Any) -> NDArray[np.float64]:
    """Return the user's position of every item, (items, 2)."""
    if isinstance(layout, Mapping):
        layout = [layout.get(name, np.nan) for name in graph.items.tolist()]
    place = require_numbers("layout", layout)
    if place.shape != (graph.n_items, 2):
        raise ModelError(
            f"layout must give two coordinates for each of the {graph.n_items} items. Got: shape "
            f"{place.shape}."
        )
    return place


def _layout(graph: Graph) -> NDArray[np.float64]:
    """Return positions of the items by a force-directed layout, (items, 2)."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            "A layout of the items needs networkx: pip install 'bayesfuse[graph]', or give layout="
            f". Got: {error}."
        ) from error
    place = networkx.spring_layout(networkx.from_scipy_sparse_array(graph.to_scipy()), seed=0)
    return np.array([place[item] for item in range(graph.n_items)])
