"""
The quality of every rater
==========================

Sensitivity by class, the probability of a correct grade, with 94 % intervals and the best rater
on top.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_raters(result)
