"""
Strict and lenient graders
==========================

Ordered classes: how far a rater's grades lie above or below the others', and how precise they
are.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia(), raters="graded")
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_graders(result)
