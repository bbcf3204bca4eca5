"""
Groups of raters, before any fit
================================

Entries of the score matrix of Jaffe et al. (2016) are large for pairs of raters that share a
source. Raters 5 and 6 often copy rater 4.
"""

import numpy as np

import bayesfuse as bf

rng = np.random.default_rng(1)
made = bf.datasets.simulate_dawid_skene(400, 12, 2, random_seed=1)
answers = made.responses.label.reshape(400, 12)
answers[:, 5:7] = np.where(rng.random((400, 2)) < 0.6, answers[:, [4]], answers[:, 5:7])
responses = bf.Responses.from_matrix(answers)

bf.plots.plot_score_matrix(responses)
