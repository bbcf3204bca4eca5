"""
A result in one figure
======================

Classes, the certainty of the labels, the quality of the raters and the least certain items.
"""

import bayesfuse as bf

model = bf.models.ItemTypes(bf.datasets.anesthesia())
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_overview(result, model)
