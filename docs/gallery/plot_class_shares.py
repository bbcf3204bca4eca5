"""
Which system passes more often?
===============================

Shares of items in a class, by group, with intervals for these items (thick) and for new ones
(thin), next to the bare share of votes (crosses).
"""

import numpy as np

import bayesfuse as bf

made = bf.datasets.simulate_dawid_skene(300, 6, 2, random_seed=1)
chance = np.where(made.truth == 1, 0.7, 0.3)
system = np.where(np.random.default_rng(1).random(300) < chance, "new", "old")
gold = {item: made.truth[item] for item in range(40)}
model = bf.models.DawidSkene(made.responses, gold=gold)
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_class_shares(bf.class_shares(result, by=system, random_seed=1))
