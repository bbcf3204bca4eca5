"""
Which rater is the best?
========================

The probability of every rank of every rater. Raters with overlapping ranks cannot be
distinguished with these responses.
"""

import bayesfuse as bf

made = bf.datasets.simulate_dawid_skene(300, 12, 2, per_item=4, random_seed=1)
model = bf.models.DawidSkene(made.responses)
result = bf.sample(model, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_ranks(bf.decisions.rank_raters(result))
