"""
Which judges can go?
====================

Left, how much the errors of raters have in common; right, the labels that smaller panels get wrong.
Two of these raters share most of their errors, so one of them can be left out.
"""

import numpy as np

import bayesfuse as bf

rng = np.random.default_rng(1)
truth = rng.integers(2, size=400)
wrong = rng.random((400, 6)) < [0.1, 0.15, 0.2, 0.2, 0.25, 0.3]
wrong[:, 3] = np.where(rng.random(400) < 0.9, wrong[:, 2], wrong[:, 3])
answers = np.where(wrong, 1 - truth[:, None], truth[:, None])
responses = bf.Responses.from_matrix(answers, raters=[f"judge {j}" for j in range(6)])
model = bf.models.LatentGroup(responses, groups=[["judge 2", "judge 3"]])
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_panel(bf.decisions.select_panel(result, random_seed=1))
