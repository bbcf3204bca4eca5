"""
A network
=========

Items and their neighbours: colour shows the most probable label, size its probability.
"""

import networkx
import numpy as np

import bayesfuse as bf

sizes = [35, 25, 20]
graph = networkx.random_partition_graph(sizes, 0.2, 0.01, seed=1)
graph = bf.Graph.from_networkx(graph)
truth = np.repeat([0, 1, 2], sizes)
made = bf.datasets.simulate_responses(truth, 3, 3, random_seed=1)
model = bf.models.MarkovRandomField(made.responses, graph)
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_graph(result, graph)
