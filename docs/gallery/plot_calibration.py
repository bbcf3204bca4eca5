"""
Are probabilities calibrated?
=============================

The share of correct labels by label probability, for items with known truth.
"""

import bayesfuse as bf

made = bf.datasets.simulate_dawid_skene(2000, 8, 3, per_item=3, random_seed=1)
model = bf.models.DawidSkene(made.responses)
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_calibration(result, dict(enumerate(made.truth.tolist())))
