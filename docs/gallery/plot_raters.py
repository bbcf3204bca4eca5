"""
The quality of every rater
==========================

Sensitivity by class with 94 % intervals, the best rater on top: how often a rater gives the
correct grade.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_raters(result)
