"""
Labels in sequence
==================

Class probabilities along a sequence, the most probable path, and the responses of every rater.
"""

import numpy as np

import bayesfuse as bf

truth = np.repeat([0, 1, 2, 1, 0, 2], [12, 8, 15, 9, 10, 6])
made = bf.datasets.simulate_responses(truth, 4, 3, accuracy=(0.5, 0.8), random_seed=1)
model = bf.models.HiddenMarkov(
    made.responses, bf.Sequences.from_lengths([len(truth)]), raters="confusion"
)
result = bf.sample(model, draws=300, random_seed=1, progressbar=False, quiet=True)
bf.plots.plot_sequence(result, model)
