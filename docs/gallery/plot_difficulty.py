"""
Are some items harder than others?
==================================

The agreement on an item, against data simulated from a model for which all items of a class are
equally hard.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.caries())
point = bf.find_map(model)
bf.plots.plot_difficulty(bf.checks.item_difficulty(point, model, random_seed=1))
