"""
Hard items
==========

How hard every item is, how probably its label is wrong, and which classes are confused on it.
"""

import bayesfuse as bf

model = bf.models.ItemTypes(bf.datasets.anesthesia())
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_hard_items(result, model, most=15)
