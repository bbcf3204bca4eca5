"""
Do raters agree as the model expects?
=====================================

Observed agreement of every pair of raters, against posterior predictive agreement. Raters 5 and
6 often copy rater 4, which the model ignores.
"""

import numpy as np

import bayesfuse as bf

rng = np.random.default_rng(1)
made = bf.datasets.simulate_dawid_skene(400, 12, 2, random_seed=1)
answers = made.responses.label.reshape(400, 12)
answers[:, 5:7] = np.where(rng.random((400, 2)) < 0.6, answers[:, [4]], answers[:, 5:7])
responses = bf.Responses.from_matrix(answers)

model = bf.models.DawidSkene(responses)
point = bf.find_map(model)
bf.plots.plot_check(bf.checks.pairwise_agreement(point, model, random_seed=1))
