"""
Which labels are uncertain?
===========================

Label probabilities by item, sorted by uncertainty.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.anesthesia())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_labels(result, most=15)
