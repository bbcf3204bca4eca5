"""
The coupling of a graph, and its phases
=======================================

Above a critical coupling, the prior concentrates on one class for all items. The check compares
the posterior of the coupling with this value.
"""

import numpy as np

import bayesfuse as bf

image = np.zeros((24, 36), dtype=int)
image[6:18, 5:15] = 1
image[3:21, 22:28] = 1
made = bf.datasets.simulate_responses(image, 3, 2, accuracy=(0.6, 0.8), random_seed=1)
model = bf.models.MarkovRandomField(made.responses, bf.Graph.grid(image.shape))
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_phases(bf.checks.phase_transition(result, model, random_seed=1))
