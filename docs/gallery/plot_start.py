"""
Where a fit began
=================

The posterior density that a few steps of EM reach from spectral moments and from majority vote.
"""

import bayesfuse as bf

point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
bf.plots.plot_start(point)
