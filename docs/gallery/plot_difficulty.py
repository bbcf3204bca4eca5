"""
Are some items harder than others?
==================================

Agreement by item, against replications from a model in which all items of a class are equally
difficult.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.caries())
point = bf.find_map(model)
bf.plots.plot_difficulty(bf.checks.item_difficulty(point, model, random_seed=1))
