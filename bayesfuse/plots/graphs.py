"""Plots of labels on a grid or a graph, and of the phases of a Potts prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.names import listed
from bayesfuse.data.neighbours import springs
from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.numerics.kernels import Array
from bayesfuse.plots import axes as shared
from bayesfuse.plots.overview import responses_per_item
from bayesfuse.results.probabilities import label_probabilities

WIDTH = 4.0  # width of a panel with a grid, in inches
SPRINGS, ROUNDS = 5000, 60  # largest component placed by springs, and their number of iterations

SIZES = 6.0, 60.0  # areas, in square points, of items with uniform and with certain labels


def plot_grid(
    result: xr.DataTree,
    shape: Sequence[int],
    *,
    classes: Sequence[Any] | None = None,
    items: ArrayLike | None = None,
    axes: Any = None,
) -> NDArray[Any]:
    """Plot the labels of items on a grid as maps.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``, with one item per cell.
    shape : sequence of int, length 2
        Rows and columns of the grid.
    classes : sequence, optional
        Classes with a map of their probability. Default the last of two, none of more.
    items : array-like, shape (rows * columns,), optional
        Names of the cells row by row. Default the items of the result in their order.
    axes : array of matplotlib Axes, default a new figure
        One for each map.

    Returns
    -------
    ndarray of Axes
        The most probable labels, the probability that they are wrong, and that of ``classes``.

    Raises
    ------
    ModelError
        A shape of another number of items; unknown items or classes; no label posterior.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> [ax.get_title() for ax in bf.plots.plot_grid(point, (5, 9), classes=[2])]
    ['most probable label', 'uncertainty', 'probability of 2']
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    probability = label_probabilities(result)
    if items is not None:
        probability = _chosen(probability, "item", items)
    if len(shape) != 2 or int(np.prod(shape)) != probability.sizes["item"]:
        raise ModelError(
            "The grid must have one cell for each item. Got: shape "
            f"{tuple(shape)} for {probability.sizes['item']} items."
        )
    names = probability["class"].values
    if classes is None:
        classes = listed(names[-1:]) if len(names) == 2 else []
    share = _chosen(probability, "class", classes)
    wide, tall = WIDTH + max(shared.width_of(names), 0.7), WIDTH * shape[0] / shape[1]
    panels = shared.new_axes(axes, 2 + len(classes), (wide + 0.5, max(tall, 1.0) + 0.3), 3)
    colours = shared.class_colours(names)
    best, sure = probability.values.argmax(axis=1), probability.values.max(axis=1)
    own = np.array([to_rgb(colour) for colour in colours.values()])[best]
    maps: list[tuple[str, NDArray[Any], float, Any]] = [
        ("most probable label", own, 1.0, None),
        ("uncertainty", 1 - sure, 1 - 1 / len(names), "magma"),
    ]
    for name, values in zip(share["class"].values, share.values.T, strict=True):
        maps.append((f"probability of {shared.escaped(name)}", values, 1.0, "viridis"))
    for ax, (title, values, most, cmap) in zip(panels, maps, strict=True):
        image = ax.imshow(values.reshape(*shape, *values.shape[1:]), vmin=0, vmax=most, cmap=cmap)
        shared.set_title(ax, title)
        ax.set_axis_off()
        if ax is not panels[0]:
            ax.figure.colorbar(image, ax=ax, shrink=0.8)
    shared.show_classes(panels[0], colours, [Patch(color=colour) for colour in colours.values()])
    return panels


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
    result : DataTree
        From ``bf.sample`` or ``bf.find_map``.
    graph : Graph
        Of the same items, in any order.
    layout : mapping of items to pairs, or array-like, shape (items, 2), optional
        Positions of the items, in the graph's order. Default a spectral layout of every component,
        refined by springs in components of up to 5,000 items.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Rings are items without responses.

    Raises
    ------
    ModelError
        Items without a position, a graph of other items, no label posterior.

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
    probability = _chosen(label_probabilities(result), "item", graph.items)
    place = _layout(graph) if layout is None else _given_layout(graph, layout)
    colours = shared.class_colours(probability["class"].values)
    (ax,) = shared.new_axes(ax, 1, (7.0, 5.6), 1, (max(shared.width_of(colours) - 0.8, 0.0), 0.0))
    width = 0.8 * graph.weights / graph.weights.max() if graph.n_edges else 0.8
    style: dict[str, Any] = {"linewidths": width, "colors": "0.7", "zorder": 1}
    ax.add_collection(LineCollection(list(place[graph.edges]), **style))
    best, sure = probability.values.argmax(axis=1), probability.values.max(axis=1)
    n_classes = probability.sizes["class"]
    certain = (sure * n_classes - 1) / (n_classes - 1)
    area = (SIZES[0] + (SIZES[1] - SIZES[0]) * certain) * min(1.0, (300 / graph.n_items) ** 0.75)
    answered = responses_per_item(result, probability["item"].values) > 0
    for k, colour in enumerate(colours.values()):
        for face, own in ((colour, answered), ("white", ~answered)):
            here = (best == k) & own
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


def plot_phases(found: xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Plot the coupling and the phases of the prior.

    Parameters
    ----------
    found : Dataset
        From :func:`bayesfuse.checks.phase_transition`.
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        The share of agreeing edges under the prior, by coupling, from random starts and from labels
        of one class: where these differ there are two phases. Vertical lines are the critical
        coupling and the mean of every chain.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 0, 1]] * 20 + [[1, 1, 1, 1]] * 20)
    >>> model = bf.models.MarkovRandomField(responses, bf.Graph.grid((4, 10)))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.plots.plot_phases(bf.checks.phase_transition(result, model)).get_xlabel()
    'coupling'
    """
    (ax,) = shared.new_axes(ax, 1, (5.5, 3.6), 1)
    grid = found["grid"].values
    for start, colour in (("from_one_class", "C1"), ("from_random", "C0")):
        name = f"prior, {start.replace('_', ' ')}"
        ax.plot(grid, found[start].values, ".-", color=colour, label=name, markersize=4)
    ax.axvline(found.attrs["critical"], color="0.5", linestyle=":", label="critical")
    for chain, coupling in enumerate(found["coupling"].values):
        ax.axvline(coupling, color="C2", linewidth=1, label="posterior, by chain" * (chain == 0))
    most = max(2.5 * found.attrs["critical"], 1.2 * float(found["coupling"].max()))
    ax.set(xlim=(0, most), xlabel="coupling", ylabel="share of agreeing edges")
    ax.legend(loc="lower right", frameon=False, fontsize="small")
    shared.set_title(ax, "trouble" if found.attrs["trouble"] else "no trouble")
    return ax


def _chosen(probability: xr.DataArray, dim: str, names: Any) -> xr.DataArray:
    """Return the entries of the given names, in their order."""
    place = probability.get_index(dim).get_indexer(list(names))
    if (place < 0).any():
        unknown = np.asarray(names, dtype=object)[place < 0]
        raise ModelError(
            f"Only the {dim} names of the result have probabilities. Got: {dim} "
            f"{shown(unknown, 3)}, not among {shown(probability[dim].values, 3)}."
        )
    return probability.isel({dim: place})


def _given_layout(graph: Graph, layout: Any) -> Array:
    """Return the user's position of every item, (items, 2)."""
    if isinstance(layout, Mapping):
        missing = [name for name in graph.items.tolist() if name not in layout]
        if missing:
            raise ModelError(
                "layout must give every item a position. Got: none for "
                f"{shown(missing, 3)} ({len(missing)} in all)."
            )
        layout = [layout[name] for name in graph.items.tolist()]
    place = require_numbers("layout", layout)
    if place.shape != (graph.n_items, 2):
        raise ModelError(
            f"layout must give two coordinates for each of the {graph.n_items} items. Got: shape "
            f"{place.shape}."
        )
    return place


def _layout(graph: Graph) -> Array:
    """Return positions (items, 2): components side by side in rows, the largest first."""
    place = np.empty((graph.n_items, 2))
    size = np.bincount(graph.component)
    members = np.split(np.argsort(graph.component, kind="stable"), np.cumsum(size)[:-1])
    wide, left, top, height = 1.4 * np.sqrt(graph.n_items), 0.0, 0.0, 0.0
    for own in sorted(members, key=len, reverse=True):
        side = np.sqrt(len(own))
        if left + side > wide and left > 0.0:
            left, top, height = 0.0, top - height, 0.0
        within = np.full((1, 2), 0.5)
        if len(own) > 1:
            within = _component_layout(Graph.from_scipy(graph.to_scipy()[own][:, own]))
        place[own] = (left, top - side) + (0.1 + 0.8 * within) * side
        left, height = left + side, max(height, side)
    return place


def _component_layout(graph: Graph) -> Array:
    """Return positions of connected items between 0 and 1: eigenvectors, refined by springs."""
    from scipy.sparse import eye_array
    from scipy.sparse.csgraph import laplacian
    from scipy.sparse.linalg import eigsh

    n_items = graph.n_items
    place = np.column_stack([np.arange(n_items), np.arange(n_items) % 2]) / 1.0
    if n_items > 3:
        smooth, begin = laplacian(graph.to_scipy(), normed=True), np.random.default_rng(0)
        # the smallest eigenvalues of L are the largest of 2 − L, which needs no factorisation
        smoothest = eigsh(2 * eye_array(n_items) - smooth, 3, v0=begin.random(n_items), which="LA")
        # of the random walk, else items with few neighbours are drawn to the middle
        place = smoothest[1][:, 1::-1] / np.sqrt(np.maximum(graph.degree, 1))[:, None]
        place /= np.abs(place).max(axis=0)
    if n_items <= SPRINGS:
        springs(place, graph.start, graph.neighbour, ROUNDS)
    place -= place.min(axis=0)
    return place / np.where(place.any(axis=0), place.max(axis=0), 1.0)
