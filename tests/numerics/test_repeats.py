"""Kernels of repeated responses, against enumeration of classes and verdicts."""

import itertools

import numpy as np

from bayesfuse.numerics import repeats

ITEMS, RATERS, CLASSES = 4, 3, 3


def table(rng):
    """Return pairs of items and raters, with one to three responses each."""
    size = rng.integers(1, 4, ITEMS * RATERS)
    begin = np.append(0, size.cumsum())
    rater = np.tile(np.arange(RATERS), ITEMS)
    return begin, rng.integers(0, CLASSES, begin[-1]), rater


def likelihood(rows, labels, v):
    return rows[v, labels].prod()


def test_labels_and_verdicts_have_their_exact_probabilities():
    rng = np.random.default_rng(1)
    begin, label, rater = table(rng)
    rows = rng.dirichlet(np.ones(CLASSES), (RATERS, CLASSES))
    right, copies = np.array([0.7, 0.9, 1.0]), np.array([1.0, 2.0, 1.0, 1.0])
    labels = rng.dirichlet(np.ones(CLASSES), ITEMS)
    prior = (labels * copies[:, None]).sum(axis=0) + 1.0
    prior /= prior.sum()
    verdicts, others = np.empty((2, ITEMS * RATERS, CLASSES))
    first = np.arange(ITEMS + 1) * RATERS
    found, n_right, n_pairs = repeats.update_verdicts(
        first, begin, label, rater, copies, np.log(rows), labels, right, verdicts, others
    )
    evidence, exact = 0.0, np.zeros(RATERS)
    for n in range(ITEMS):
        joint = np.zeros((CLASSES,) + (CLASSES,) * RATERS)
        for k, *stated in itertools.product(range(CLASSES), repeat=1 + RATERS):
            joint[k, *stated] = prior[k]
            for m, v in enumerate(stated):
                pair = first[n] + m
                chance = right[m] if v == k else (1.0 - right[m]) / (CLASSES - 1)
                given = label[begin[pair] : begin[pair + 1]]
                joint[k, *stated] *= chance * likelihood(rows[m], given, v)
        evidence += copies[n] * np.log(joint.sum())
        joint /= joint.sum()
        assert np.allclose(labels[n], joint.sum(axis=(1, 2, 3)))
        for m in range(RATERS):
            of_pair = joint.sum(axis=tuple(1 + j for j in range(RATERS) if j != m))
            assert np.allclose(verdicts[first[n] + m], of_pair.sum(axis=0))
            exact[m] += copies[n] * np.trace(of_pair)
    assert np.isclose(found, evidence)
    assert np.allclose(n_right, exact) and np.allclose(n_pairs, copies.sum())


def test_classes_have_their_exact_probabilities():
    rng = np.random.default_rng(2)
    begin, label, rater = table(rng)
    rows, verdict = rng.dirichlet(np.ones(CLASSES), (2, RATERS, CLASSES))
    others = np.log(rng.dirichlet(np.ones(CLASSES), ITEMS * RATERS))
    copies = rng.integers(1, 4, ITEMS * RATERS).astype(float)
    classes, exact = np.empty_like(others), np.zeros(RATERS)
    found = repeats.update_classes(
        begin, label, rater, copies, others, np.log(rows), verdict, classes
    )
    for pair, m in enumerate(rater):
        given = label[begin[pair] : begin[pair + 1]]
        by_verdict = [likelihood(rows[m], given, v) for v in range(CLASSES)]
        joint = np.exp(others[pair]) * (verdict[m] @ by_verdict)
        exact[m] += copies[pair] * np.log(joint.sum())
        assert np.allclose(classes[pair], joint / joint.sum())
    assert np.allclose(found, exact)


def test_a_thousand_contradictory_repeats_do_not_underflow():
    label = np.tile([0, 1], 1000)
    begin, rater = np.array([0, 2000, 2001]), np.array([0, 1])
    rows = np.array([[[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]], [[0.8, 0.2], [0.2, 0.8]]])
    label = np.append(label, 1)
    labels, right = np.full((1, 2), 0.5), np.array([0.9, 1.0])
    verdicts, others = np.empty((2, 2, 2))
    found = repeats.update_verdicts(
        np.array([0, 2]), begin, label, rater, np.ones(1), np.log(rows), labels, right, verdicts,
        others,
    )  # fmt: skip
    assert np.isfinite(found[0]) and np.allclose(labels, [[0.2, 0.8]])
    # either verdict has the same likelihood
    assert np.allclose(verdicts[0], [0.26, 0.74])
