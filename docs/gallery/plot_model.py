"""
The graph of a model
====================

Random variables are ellipses, data and deterministic variables are boxes, and observed variables
are shaded.
"""

import bayesfuse as bf

model = bf.models.ItemTypes(bf.datasets.anesthesia())
bf.plots.plot_model(model)
