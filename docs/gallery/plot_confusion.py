"""
Confusion matrices
==================

What a rater answers, by the true class: rows are classes, columns are answers.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_confusion(result)
