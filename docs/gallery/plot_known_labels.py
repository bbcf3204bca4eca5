"""
What did the known labels say?
==============================

Raters with 40 known labels: their accuracy by the models alone (crosses), on the known items
(circles), and by both; the calibration of known items that are left out; the labels that are
expected to be wrong after more are known; and the risk of accepting labels as they are.
"""

import numpy as np

import bayesfuse as bf

rng = np.random.default_rng(1)
truth = rng.integers(2, size=300)
misled = np.where(rng.random(300) < 0.33, 0.2, 0.9)[:, None]  # three err on the same items
right = rng.random((300, 5)) < np.hstack([np.tile(misled, 3), np.full((300, 2), 0.85)])
answers = np.where(right, truth[:, None], 1 - truth[:, None])
responses = bf.Responses.from_matrix(answers, raters=list("ABCDE"))
gold = {int(item): int(truth[item]) for item in rng.permutation(300)[:40]}
result = bf.sample(bf.models.WeightedVotes(responses, gold), random_seed=1, progressbar=False)
bf.plots.plot_known_labels(result)
