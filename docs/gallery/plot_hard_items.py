"""
Hard items
==========

Difficulty of every item, error probability of its label, and the classes confused on it.
"""

import bayesfuse as bf

model = bf.models.ItemTypes(bf.datasets.anesthesia())
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_hard_items(result, model, most=15)
