"""
Sensitivity and specificity
===========================

Posterior draws for five dentists who looked for caries on X-ray images.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.caries())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_sensitivity_specificity(result)
