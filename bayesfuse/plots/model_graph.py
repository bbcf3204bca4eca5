"""The graph of a PyMC model, drawn by matplotlib instead of graphviz."""

from __future__ import annotations

from collections import defaultdict
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfuse.errors import ModelError, require_kind
from bayesfuse.plots.axes import POINTS, TEXT, escaped, points, width_of

if TYPE_CHECKING:
    import pymc as pm
    from matplotlib.axes import Axes

HEIGHT, LAYER, GAP = 0.6, 1.2, 0.3
"""Height of a node, distance of layers and gap between nodes, in inches."""


def plot_model(model: pm.Model, *, ax: Axes | None = None) -> Axes:
    """Plot the graph of a model.

    Parameters
    ----------
    model : pymc.Model
    ax : matplotlib Axes, default a new figure

    Returns
    -------
    Axes
        Random variables are ellipses, deterministics and data boxes, with their distributions and
        dimensions; observed variables and data are shaded. Arrows run from parents to children.

    Raises
    ------
    ModelError
        The model has no variables.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> ax = bf.plots.plot_model(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> print(next(text.get_text() for text in ax.texts if "prevalence" in text.get_text()))
    prevalence ~ Dirichlet
    class (4)
    """
    import pymc as pm
    from matplotlib.patches import Ellipse, FancyArrowPatch, Patch, Rectangle
    from pymc.model_graph import ModelGraph, get_node_type

    require_kind("model", model, pm.Model)
    causes = ModelGraph(model).make_compute_graph()
    if not causes:
        raise ModelError("The model must have variables to plot. Got: a model without any.")
    kinds = {name: get_node_type(name, model).value for name in causes}
    nodes = {name: _describe(model, name, kind) for name, kind in kinds.items()}
    lines = {name: text.split("\n") for name, text in nodes.items()}
    # in an ellipse lines above and below the middle have less room
    width = {name: 0.2 + 1.15 * width_of(text, most=1000) for name, text in lines.items()}
    place, ways = _layout(causes, width)
    halves = [(*place[name], (width.get(name, 0.0) + GAP) / 2) for name in place]
    left, right = min(x - half for x, _, half in halves), max(x + half for x, _, half in halves)
    margin = (HEIGHT + GAP) / 2
    arrows = []
    for way in ways:
        ends = np.array([place[way[0]], place[way[-1]]])
        arrows.append((way, ends, _bend(ends, [place[name] for name in way[1:-1]])))
    curves = np.concatenate([np.array([place[name] for name in nodes]), *map(_curve, arrows)])
    low, high = curves[:, 1].min() - margin, curves[:, 1].max() + margin
    left, right = min(left, curves[:, 0].min()), max(right, curves[:, 0].max())
    if ax is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(right - left, high - low))
        ax = figure.add_axes((0, 0, 1, 1))
    scale = min(np.array(points(ax)) / POINTS / (right - left, high - low))
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.set_axis_off()
    shapes: dict[str, Patch] = {}
    for name, text in nodes.items():
        x, y = place[name]
        shaded = kinds[name].startswith(("Observed", "Data"))
        style: dict[str, Any] = {"fc": "0.85" if shaded else "white", "ec": "0.15", "zorder": 2}
        corner = x - width[name] / 2, y - HEIGHT / 2
        is_round = "Random" in kinds[name]
        shape, at = (Ellipse, (x, y)) if is_round else (Rectangle, corner)
        shapes[name] = ax.add_patch(shape(at, width[name], HEIGHT, **style))
        ax.text(x, y, text, size=TEXT * scale, ha="center", va="center", zorder=3)
    for way, ends, bend in arrows:
        style = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 12}
        style |= {"patchA": shapes[way[0]], "patchB": shapes[way[-1]], "shrinkA": 0, "shrinkB": 1}
        ax.add_patch(FancyArrowPatch(*ends, color="0.15", zorder=1, **style))
    return ax


def _describe(model: pm.Model, name: str, kind: str) -> str:
    """Return a variable's name and distribution and, in a second line, its dimensions.

    PyMC's plates are not used, because finding them draws every variable.
    """
    variable = model[name]
    text = escaped(name)
    if "Random" in kind:
        text += f" ~ {type(variable.owner.op).__name__.removesuffix('RV')}"
    dims = model.named_vars_to_dims.get(name) or (None,) * variable.ndim
    shape = " × ".join(
        str(size or "?") if dim is None else f"{escaped(dim)} ({model.dim_lengths[dim].eval():,})"
        for dim, size in zip(dims, variable.type.shape, strict=True)
    )
    return f"{text}\n{shape}" if shape else text


def _layout(
    causes: dict[str, set[str]], width: dict[str, float]
) -> tuple[dict[Any, tuple[float, float]], list[list[Any]]]:
    """Return positions of the variables, parents above children, and the paths of arrows.

    Long arrows have dummy nodes in the layers they cross, and every layer is ordered by the
    positions of its neighbours (Sugiyama, Tagawa & Toda 1981, IEEE Transactions SMC 11, 109–125).
    """
    effects = {name: [other for other in causes if name in causes[other]] for name in causes}
    sorter = TopologicalSorter(effects)
    sorter.prepare()
    layers: list[list[Any]] = []
    while sorter.is_active():
        layers.append(sorted(sorter.get_ready()))
        sorter.done(*layers[-1])
    level = {name: y for y, layer in enumerate(layers) for name in layer}
    ways: list[list[Any]] = []
    beside = defaultdict(list)
    for cause in sorted(causes):
        for effect in sorted(effects[cause]):
            passed = [(cause, effect, y) for y in range(level[cause] - 1, level[effect], -1)]
            for each in passed:
                layers[each[-1]].append(each)
            ways.append([cause, *passed, effect])
            for one, other in pairwise(ways[-1]):
                beside[one].append(other)
                beside[other].append(one)
    across = {name: 0.0 for layer in layers for name in layer}
    for _ in range(8):  # enough for readable graphs
        for layer in layers:
            middle = {name: np.mean([across[n] for n in beside[name] or [name]]) for name in layer}
            layer.sort(key=middle.__getitem__)
            room = np.array([width.get(name, 0.0) + GAP for name in layer])
            across |= zip(layer, np.cumsum(room) - (room + room.sum()) / 2, strict=True)
    return {name: (across[name], y * LAYER) for y, row in enumerate(layers) for name in row}, ways


def _curve(arrow: tuple[list[Any], np.ndarray, float]) -> np.ndarray:
    """Return points of an arc3, a quadratic Bézier curve, (points, 2)."""
    _, (begin, end), bend = arrow
    across, down = end - begin
    control = (begin + end) / 2 + bend * np.array([down, -across])
    t = np.linspace(0, 1, 9)[:, None]
    return (1 - t) ** 2 * begin + 2 * t * (1 - t) * control + t**2 * end


def _bend(ends: np.ndarray, passed: list[tuple[float, float]]) -> float:
    """Return the curvature of an arc through the dummy nodes of its path."""
    if not passed:
        return 0.0
    (across, down), (x, y) = ends[1] - ends[0], np.mean(passed, axis=0) - ends.mean(axis=0)
    # the middle of an arc3 of curvature b is b/2 times its length away from the straight line
    return 2 * (x * down - y * across) / (across**2 + down**2)
