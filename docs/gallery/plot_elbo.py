"""
The course of a fit
===================

The evidence lower bound by iteration of a variational fit.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.caries())
result = bf.fit(model, random_seed=1, progressbar=False)
bf.plots.plot_elbo(result)
