"""Draw the graph of every model as ``graphs/<card>.svg``: ``python docs/models/draw_graphs.py``."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pymc as pm
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse, FancyArrowPatch, Patch, Rectangle
from pymc.model_graph import ModelGraph, get_node_type

import bayesfuse as bf
from bayesfuse import models
from bayesfuse.plots.axes import TEXT, escaped, width_of

GRAPHS = Path(__file__).resolve().parent / "graphs"


def examples() -> dict[str, pm.Model]:
    """Return a small model for every card, by the name of the page."""
    people = bf.datasets.anesthesia()
    machines = bf.datasets.simulate_responses(np.arange(40) % 2, 5, 2, random_seed=1).responses
    votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    pairs = {"item": [1, 1], "rater": ["a", "b"], "label": [["cat", "dog"], ["dog"]]}
    return {
        "dawid_skene": models.DawidSkene(people),
        "item_types": models.ItemTypes(people),
        "latent_group": models.LatentGroup(people, {"ward": [2, 3], "night": [4, 5]}),
        "hidden_markov": models.HiddenMarkov(
            machines, bf.Sequences.from_lengths([20, 20]), raters="confusion"
        ),
        "markov_random_field": models.MarkovRandomField(machines, bf.Graph.grid((5, 8))),
        "label_profiles": models.LabelProfiles(bf.Responses.from_label_sets(pairs)),
        "labelling_functions": models.LabellingFunctions(votes),
        "weighted_votes": models.WeightedVotes(people, {item: 1 for item in range(1, 21)}),
    }


HEIGHT, LAYER, GAP, BEND = 0.6, 1.2, 0.3, 0.4
"""Height of a node, distance of layers, gap between nodes, and size of bends, in inches."""


def plot_model(model: pm.Model) -> Axes:
    """Plot the graph of a model without Graphviz, which ``pm.model_to_graphviz`` needs.

    Random variables are ellipses, deterministics and data boxes, with their distributions and
    dimensions; observed variables and data are shaded. Arrows run from parents to children.
    """
    causes = ModelGraph(model).make_compute_graph()
    kinds = {name: get_node_type(name, model).value for name in causes}
    texts = {name: _describe(model, name, kind) for name, kind in kinds.items()}
    # in an ellipse lines above and below the middle have less room
    width = {
        name: 0.2 + 1.15 * width_of(text.split("\n"), most=1000) for name, text in texts.items()
    }
    place = _layout(causes, width)
    high = max(y for _, y in place.values()) + (HEIGHT + GAP) / 2
    far = max(abs(x) + width[name] / 2 for name, (x, _) in place.items()) + BEND
    figure = plt.figure(figsize=(2 * far, high + (HEIGHT + GAP) / 2))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(-far, far), ylim=(-(HEIGHT + GAP) / 2, high), aspect="equal")
    ax.set_axis_off()
    shapes: dict[str, Patch] = {}
    for name, (x, y) in place.items():
        shaded = kinds[name].startswith(("Observed", "Data"))
        style: dict[str, Any] = {"fc": "0.85" if shaded else "white", "ec": "0.15", "zorder": 2}
        corner = x - width[name] / 2, y - HEIGHT / 2
        is_round = "Random" in kinds[name]
        shape, at = (Ellipse, (x, y)) if is_round else (Rectangle, corner)
        shapes[name] = ax.add_patch(shape(at, width[name], HEIGHT, **style))
        ax.text(x, y, texts[name], size=TEXT, ha="center", va="center", zorder=3)
    for effect, parents in causes.items():
        for cause in sorted(parents):
            (x, top), (end, bottom) = place[cause], place[effect]
            # outwards around what is in between: an arc deviates by half its curvature
            outwards = np.sign(x + end) or 1.0
            bend = 2 * BEND / (top - bottom) * outwards if top - bottom > 1.5 * LAYER else 0.0
            style = {
                "connectionstyle": f"arc3,rad={bend}",
                "arrowstyle": "-|>",
                "mutation_scale": 12,
            }
            style |= {"patchA": shapes[cause], "patchB": shapes[effect], "shrinkA": 0, "shrinkB": 1}
            ax.add_patch(
                FancyArrowPatch(place[cause], place[effect], color="0.15", zorder=1, **style)
            )
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


def _layout(causes: dict[str, set[str]], width: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return positions of the variables, parents above children, ordered by their neighbours."""
    effects = {name: {other for other in causes if name in causes[other]} for name in causes}
    sorter = TopologicalSorter(effects)
    sorter.prepare()
    layers: list[list[str]] = []
    while sorter.is_active():
        layers.append(sorted(sorter.get_ready()))
        sorter.done(*layers[-1])
    across = dict.fromkeys(causes, 0.0)
    for _ in range(8):  # enough for readable graphs
        for layer in layers:
            beside = {name: [across[n] for n in causes[name] | effects[name]] for name in layer}
            layer.sort(key=lambda name: np.mean(beside[name] or [across[name]]))
            room = np.array([width[name] + GAP for name in layer])
            across |= zip(layer, np.cumsum(room) - (room + room.sum()) / 2, strict=True)
    return {name: (across[name], y * LAYER) for y, row in enumerate(layers) for name in row}


def draw() -> None:
    """Write the graphs, with text that a search finds and without dates."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bayesfuse"})
    GRAPHS.mkdir(exist_ok=True)
    for name, model in examples().items():
        figure = plot_model(model).figure
        figure.savefig(GRAPHS / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw()
