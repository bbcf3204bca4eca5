"""
Confusion matrices
==================

Probabilities of the answers of a rater: rows are true classes, columns are answers.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_confusion(result)
