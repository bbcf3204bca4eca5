"""
An image
========

Pixels whose neighbours tend to share a class: the most probable labels, and their uncertainty.
"""

import numpy as np

import bayesfuse as bf

image = np.zeros((24, 36), dtype=int)
image[6:18, 5:15] = 1
image[3:21, 22:28] = 1
made = bf.datasets.simulate_responses(image, 3, 2, accuracy=(0.6, 0.8), random_seed=1)
model = bf.models.MarkovRandomField(made.responses, bf.Graph.grid(image.shape))
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_grid(result, image.shape)
