"""
A network
=========

Items and their neighbours: colour shows the most probable label, size its probability.
"""

import bayesfuse as bf

made = bf.datasets.simulate_blocks(80, 3, 3, degree=6, random_seed=1)
model = bf.models.MarkovRandomField(made.responses, made.graph)
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_graph(result, made.graph)
