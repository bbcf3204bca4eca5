"""
Strict and lenient graders
==========================

Bias and precision of every rater, for ordered classes.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia(), raters="graded")
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_graders(result)
