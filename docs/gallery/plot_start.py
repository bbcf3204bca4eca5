"""
Where a fit began
=================

Posterior density after a few EM steps from spectral moments and from majority vote.
"""

import bayesfuse as bf

point = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
bf.plots.plot_start(point)
