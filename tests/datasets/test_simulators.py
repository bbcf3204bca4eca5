"""Simulated tables: rows of raters, and responses drawn from them."""

import numpy as np

import bayesfuse as bf
from bayesfuse.testing import assert_frequencies


def test_accuracies_are_on_the_diagonal_and_labels_from_the_rows():
    made = bf.datasets.simulate_dawid_skene(
        9000, 2, 3, accuracy=(0.7, 0.8), prevalence=[0.5, 0.2, 0.3], random_seed=2
    )
    own = np.diagonal(made.confusion, axis1=1, axis2=2)
    assert ((own >= 0.7) & (own <= 0.8)).all()
    np.testing.assert_allclose(made.confusion.sum(axis=-1), 1.0)
    table = made.responses
    truth = made.truth[table.item]
    assert_frequencies(np.bincount(made.truth), np.array([0.5, 0.2, 0.3]), "truths")
    for m, k in np.ndindex(2, 3):
        seen = np.bincount(table.label[(table.rater == m) & (truth == k)], minlength=3)
        assert_frequencies(seen, made.confusion[m, k], f"labels of rater {m} for class {k}")
