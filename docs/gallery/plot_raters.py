"""
Raters, with intervals
======================

Sensitivity and specificity of every rater.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_raters(result)
