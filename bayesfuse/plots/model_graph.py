"""The graph of a PyMC model drawn by matplotlib, where graphviz is not at hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from bayesfuse.errors import ModelError
from bayesfuse.plots.canvas import POINTS

if TYPE_CHECKING:
    import pymc as pm
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

NAME, DETAIL = 10.0, 8.0
"""Sizes of type."""

HEIGHT, LAYER, GAP, PAD, LABEL = 0.55, 1.35, 0.3, 0.14, 0.2
"""Of a node, from layer to layer, between nodes, around the nodes in a plate, of its label."""


def plot_model(model: pm.Model, *, ax: Axes | None = None) -> Axes:
    """Draw the graph of a model.

    Parameters
    ----------
    model : pymc.Model
    ax : matplotlib Axes, optional
        Default a new figure.

    Returns
    -------
    Axes
        Random variables are ellipses, deterministics and data boxes; what was observed is shaded.
        Arrows run from causes to effects. A plate, as in :func:`pymc.model_to_graphviz`, holds
        variables with the same dimensions; it comes in parts where others stand in between.

    Raises
    ------
    ModelError
        The model has no variables.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> from bayesfuse.plots import plot_model
    >>> ax = plot_model(DawidSkene(bf.datasets.anesthesia()))
    >>> sorted(text.get_text() for text in ax.texts if "×" in text.get_text())
    ['rater (5) × class (4)', 'rater (5) × class (4) × label (4)']
    """
    nodes, arrows = _layout(model)
    plates = _plates(nodes)
    boxes = [box for _, box in plates]
    boxes += [_box([node]) for node in [*nodes, *(passed for way in arrows for passed in way)]]
    left, low = min(box.left for box in boxes) - PAD, min(box.low for box in boxes) - PAD
    right, high = max(box.right for box in boxes) + PAD, max(box.high for box in boxes) + PAD
    if ax is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(right - left, high - low))
        ax = figure.add_axes((0, 0, 1, 1))
    room = ax.get_window_extent()
    scale = min(room.width / (right - left), room.height / (high - low)) / ax.figure.dpi
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.set_axis_off()
    for dims, box in plates:
        _draw_plate(ax, dims, box, scale)
    shapes = {node.name: _draw_node(ax, node, scale) for node in nodes}
    for way in arrows:
        _draw_arrow(ax, way, shapes)
    return ax


# ---------------------------------------------------------------- where everything stands


@dataclass
class _Node:
    """A variable, or (without a kind) room for an arrow to pass a layer."""

    name: str
    layer: int
    kind: str = ""
    detail: str = ""
    plate: str = ""
    x: float = 0.0

    @property
    def y(self) -> float:
        return self.layer * LAYER

    @property
    def width(self) -> float:
        if not self.kind:
            return GAP
        return 0.4 + max(_width(self.name, NAME), _width(self.detail, DETAIL))


class _Box(NamedTuple):
    left: float
    right: float
    low: float
    high: float

    def meets(self, other: _Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.low < other.high and other.low < self.high


def _width(text: str, size: float) -> float:
    return 0.6 * size / POINTS * len(text)  # letters are on average 0.6 times their size wide


def _box(nodes: Sequence[_Node]) -> _Box:
    """Return what nodes of one plate cover, with their plate and its label."""
    left = min(node.x - node.width / 2 for node in nodes)
    right = max(node.x + node.width / 2 for node in nodes)
    low = min(node.y for node in nodes) - HEIGHT / 2
    high = max(node.y for node in nodes) + HEIGHT / 2
    if not nodes[0].plate:
        return _Box(left, right, low, high)
    short = max(0.0, _width(nodes[0].plate, DETAIL) - (right - left)) / 2
    return _Box(left - short - PAD, right + short + PAD, low - PAD - LABEL, high + PAD)


def _layout(model: pm.Model) -> tuple[list[_Node], list[list[_Node]]]:
    """Return the variables in their places, and the arrows' ways from cause to effect.

    Layered drawing after Sugiyama, Tagawa & Toda (1981), IEEE Transactions on Systems, Man, and
    Cybernetics 11, 109–125: long arrows take up room in the layers they pass, and every layer is
    ordered by where its neighbours stand.
    """
    nodes, causes = _variables(model)
    ways = [
        [
            nodes[cause],
            *(_Node("", layer) for layer in range(nodes[cause].layer - 1, node.layer, -1)),
            node,
        ]
        for node in nodes.values()
        for cause in causes[node.name]
    ]
    layers = defaultdict(list)
    for node in [*nodes.values(), *(passed for way in ways for passed in way[1:-1])]:
        layers[node.layer].append(node)
    neighbours = defaultdict(list)
    for upper, lower in (pair for way in ways for pair in pairwise(way)):
        neighbours[id(upper)].append(lower)
        neighbours[id(lower)].append(upper)
    for _ in range(8):  # more changes nothing in graphs that a reader can follow
        for layer in layers.values():
            _line_up(layer, neighbours)
    return list(nodes.values()), ways


def _variables(model: pm.Model) -> tuple[dict[str, _Node], dict[str, list[str]]]:
    """Return a model's variables, each a layer above its highest effect, and their causes."""
    from pymc.model_graph import ModelGraph, get_node_type

    graph = ModelGraph(model).make_compute_graph()
    causes = {effect: sorted(found) for effect, found in graph.items()}
    if not causes:
        raise ModelError("A graph needs variables to show. Got: a model without any.")

    @cache
    def layer(name: str) -> int:
        effects = [effect for effect, found in causes.items() if name in found]
        return max((layer(effect) + 1 for effect in effects), default=0)

    nodes = {}
    for name in sorted(causes):  # sets have no order, and a picture should not change by chance
        variable, kind = model[name], get_node_type(name, model).value
        detail = ""
        if "Random" in kind:
            detail = f"~ {type(variable.owner.op).__name__.removesuffix('RV')}"
        nodes[name] = _Node(name, layer(name), kind, detail, _plate_label(model, variable))
    return nodes, causes


def _plate_label(model: pm.Model, variable: Any) -> str:
    """Return the dimensions of a variable with their sizes, as far as these are fixed."""
    dims = model.named_vars_to_dims.get(variable.name) or (None,) * variable.ndim
    sizes = [
        str(size or "?") if dim is None else f"{dim} ({int(model.dim_lengths[dim].eval()):,})"
        for dim, size in zip(dims, variable.type.shape, strict=True)
    ]
    return " × ".join(sizes)


def _line_up(layer: list[_Node], neighbours: dict[int, list[_Node]]) -> None:
    """Order a layer by the mean place of its neighbours, plates kept together, centred at zero."""
    wanted = {}
    together = defaultdict(list)
    for node in layer:
        places = [other.x for other in neighbours[id(node)]] or [node.x]
        wanted[id(node)] = sum(places) / len(places)
        together[node.plate or id(node)].append(wanted[id(node)])
    mean = {plate: sum(places) / len(places) for plate, places in together.items()}
    layer.sort(key=lambda node: (mean[node.plate or id(node)], node.plate, wanted[id(node)]))
    edge = 0.0
    for _, run in groupby(layer, key=lambda node: node.plate or id(node)):
        members = list(run)
        begin = edge
        for node in members:
            node.x = edge + node.width / 2
            edge += node.width + GAP
        box = _box(members)
        for node in members:
            node.x += begin - box.left
        edge = begin + box.right - box.left + GAP
    for node in layer:
        node.x -= (edge - GAP) / 2


def _plates(nodes: list[_Node]) -> list[tuple[str, _Box]]:
    """Return plates: one for all its variables, or one in each layer if it would cover others."""
    found: dict[tuple[str, int], list[_Node]] = defaultdict(list)
    for node in nodes:
        found[node.plate, node.layer].append(node)
    parts = [(members[0].plate, _box(members)) for members in found.values()]
    for plate in sorted({node.plate for node in nodes if node.plate}):
        whole = _box([node for node in nodes if node.plate == plate])
        if not any(whole.meets(box) for name, box in parts if name != plate):
            parts = [part for part in parts if part[0] != plate] + [(plate, whole)]
    return [(plate, box) for plate, box in parts if plate]


# ---------------------------------------------------------------- drawing


def _draw_plate(ax: Axes, dims: str, box: _Box, scale: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner, size = (box.left, box.low), (box.right - box.left, box.high - box.low)
    outline = "round,pad=0,rounding_size=0.12"
    ax.add_patch(FancyBboxPatch(corner, *size, outline, fill=False, ec="0.6", lw=1, zorder=0))
    place = box.right - PAD / 2, box.low + PAD / 2
    # above the arrows, on a ground of its own: some pass here
    ground = {"fc": "white", "ec": "none", "pad": 1}
    style: dict[str, Any] = {"size": DETAIL * scale, "color": "0.35", "bbox": ground, "zorder": 2}
    ax.text(*place, dims, ha="right", va="bottom", **style)


def _draw_node(ax: Axes, node: _Node, scale: float) -> Patch:
    from matplotlib.patches import Ellipse, FancyBboxPatch

    shaded = node.kind.startswith(("Observed", "Data"))
    style: dict[str, Any] = {
        "fc": "0.85" if shaded else "white",
        "ec": "0.15",
        "lw": 1,
        "zorder": 2,
    }
    shape: Patch
    if "Random" in node.kind:
        shape = Ellipse((node.x, node.y), node.width, HEIGHT, **style)
    else:
        corner = node.x - node.width / 2, node.y - HEIGHT / 2
        shape = FancyBboxPatch(corner, node.width, HEIGHT, "square,pad=0", **style)
    ax.add_patch(shape)
    text: dict[str, Any] = {"ha": "center", "zorder": 3}
    if node.detail:
        ax.text(node.x, node.y + 0.01, node.name, size=NAME * scale, va="bottom", **text)
        ax.text(
            node.x, node.y - 0.03, node.detail, size=DETAIL * scale, va="top", color="0.35", **text
        )
    else:
        ax.text(node.x, node.y, node.name, size=NAME * scale, va="center", **text)
    return shape


def _draw_arrow(ax: Axes, way: list[_Node], shapes: dict[str, Patch]) -> None:
    """Draw an arrow, bent so that its middle passes where room was kept for it."""
    from matplotlib.patches import FancyArrowPatch

    first, *passed, last = way
    across, down = last.x - first.x, last.y - first.y
    bend = 0.0
    if passed:
        x = sum(node.x for node in passed) / len(passed) - (first.x + last.x) / 2
        y = sum(node.y for node in passed) / len(passed) - (first.y + last.y) / 2
        # an arc3 of bend b passes b/2 times its length beside the middle of the straight line
        bend = 2 * (x * down - y * across) / (across**2 + down**2)
    ax.add_patch(
        FancyArrowPatch(
            (first.x, first.y),
            (last.x, last.y),
            connectionstyle=f"arc3,rad={bend}",
            patchA=shapes[first.name],
            patchB=shapes[last.name],
            shrinkA=0,
            shrinkB=1,
            arrowstyle="-|>",
            mutation_scale=12,
            color="0.15",
            lw=1,
            zorder=1,
        )
    )
