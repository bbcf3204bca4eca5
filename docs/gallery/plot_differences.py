"""
Differences between raters
==========================

How probably a rater is better than another, and groups of raters compared with all others.
"""

import bayesfuse as bf

made = bf.datasets.simulate_dawid_skene(150, 8, 2, accuracy=(0.6, 0.9), random_seed=1)
result = bf.sample(
    bf.models.DawidSkene(made.responses), 200, random_seed=1, progressbar=False, quiet=True
)
groups = {rater: "first half" if rater < 4 else "second half" for rater in range(8)}
bf.plots.plot_differences(bf.decisions.rank_raters(result, groups=groups))
