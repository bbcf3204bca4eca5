"""
Leaderboard
===========

Strengths of systems from judged pairs, and how often they win against each other.
"""

import numpy as np
import pandas as pd

import bayesfuse as bf

rng = np.random.default_rng(1)
strength = np.array([1.0, 0.6, 0.5, 0.0, -0.8])
first = rng.integers(5, size=400)
second = (first + rng.integers(1, 5, size=400)) % 5
truth = (rng.random(400) > 1 / (1 + np.exp(strength[second] - strength[first]))).astype(int)
wrong = rng.random((400, 4)) < [0.15, 0.2, 0.3, 0.5]
responses = bf.Responses.from_matrix(np.array(["A", "B"])[truth[:, None] ^ wrong])
names = np.array(["alpha", "beta", "gamma", "delta", "epsilon"])
pairs = pd.DataFrame({"item": range(400), "first": names[first], "second": names[second]})
result = bf.sample(
    bf.models.DawidSkene(responses), 200, random_seed=1, progressbar=False, quiet=True
)
bf.plots.plot_leaderboard(bf.decisions.leaderboard(result, pairs, random_seed=1))
