"""
Sensitivity and specificity
===========================

Five dentists looked for caries on X-ray pictures. Every cloud is the posterior of one dentist.
"""

import bayesfuse as bf

model = bf.models.DawidSkene(bf.datasets.caries())
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_sensitivity_specificity(result)
