"""Draw the graph of every model as ``graphs/<card>.svg``: ``python docs/models/draw_graphs.py``."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pymc as pm
from matplotlib import pyplot as plt

import bayesfuse as bf
from bayesfuse import models

GRAPHS = Path(__file__).resolve().parent / "graphs"


def examples() -> dict[str, pm.Model]:
    """Return a small model for every card, by the name of the page."""
    people = bf.datasets.anesthesia()
    machines = bf.datasets.simulate_responses(np.arange(40) % 2, 5, 2, random_seed=1).responses
    votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    return {
        "dawid_skene": models.DawidSkene(people),
        "item_types": models.ItemTypes(people),
        "latent_group": models.LatentGroup(people, {"ward": [2, 3], "night": [4, 5]}),
        "hidden_markov": models.HiddenMarkov(machines, bf.Sequences.from_lengths([20, 20])),
        "markov_random_field": models.MarkovRandomField(machines, bf.Graph.grid((5, 8))),
        "labelling_functions": models.LabellingFunctions(votes),
        "weighted_votes": models.WeightedVotes(people, {item: 1 for item in range(1, 21)}),
    }


def draw() -> None:
    """Write the graphs, with text that a search finds and without dates."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bayesfuse"})
    GRAPHS.mkdir(exist_ok=True)
    for name, model in examples().items():
        figure = bf.plots.plot_model(model).figure
        figure.savefig(GRAPHS / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    draw()
