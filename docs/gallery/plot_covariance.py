"""
Covariances of raters
=====================

Observed covariance of every pair of raters, against the posterior expectation. Pairs above the
diagonal share mistakes.
"""

import numpy as np

import bayesfuse as bf

rng = np.random.default_rng(1)
made = bf.datasets.simulate_dawid_skene(400, 12, 2, random_seed=1)
answers = made.responses.label.reshape(400, 12)
answers[:, 5:7] = np.where(rng.random((400, 2)) < 0.6, answers[:, [4]], answers[:, 5:7])
responses = bf.Responses.from_matrix(answers)

model = bf.models.DawidSkene(responses)
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_covariance(result, responses)
