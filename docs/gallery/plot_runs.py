"""
Are labels of neighbours in a sequence alike?
=============================================

Run lengths of the majority labels, against replications from a model with independent items.
"""

import numpy as np

import bayesfuse as bf

truth = np.repeat([0, 1, 2, 1, 0, 2], [12, 8, 15, 9, 10, 6])
made = bf.datasets.simulate_responses(truth, 4, 3, accuracy=(0.5, 0.8), random_seed=1)
sequences = bf.Sequences.from_lengths([len(truth)])
model = bf.models.DawidSkene(made.responses)
point = bf.find_map(model)
found = bf.checks.runs(point, model, sequences=sequences, random_seed=1)
bf.plots.plot_runs(found)
