"""Transitions from consecutive responses: the K × K problem is the explicit one, and exact."""

from itertools import product

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.errors import ModelError, MomentsError, ResponsesError
from bayesfuse.moments import chain

# In tenths, asymmetric; the joint distributions are not stationary, which nothing here needs.
CASES = {
    2: ([[5, 1], [1, 3]], [[[7, 3], [1, 9]], [[8, 2], [4, 6]]]),
    3: (
        [[3, 1, 0], [1, 1, 1], [0, 2, 1]],
        [[[7, 2, 1], [1, 6, 3], [0, 2, 8]], [[5, 4, 1], [1, 9, 0], [3, 3, 4]]],
    ),
}


def exact_pairs(joint, confusion, now, after):
    """Pairs of items in exact numbers, rater ``now`` on the first and ``after`` on the next."""
    n_classes = len(joint)
    counts = np.einsum("kl,kc,ld->cd", joint, confusion[now], confusion[after])
    rows = []
    for first, second in product(range(n_classes), repeat=2):
        pair = np.full((2, len(confusion)), -1)
        pair[0, now], pair[1, after] = first, second
        rows.append(np.tile(pair, (counts[first, second], 1)))
    return np.concatenate(rows)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_exact_moments_give_the_exact_answer(n_classes):
    joint, confusion = (np.array(x) for x in CASES[n_classes])
    # each rater beside himself and the other, unequally often, and items that nobody answered
    blocks = [exact_pairs(joint, confusion, *pair) for pair in ((0, 0), (0, 1), (1, 0), (1, 0))]
    matrix = np.concatenate([*blocks, np.full((2, 2), -1)])
    responses = bf.Responses.from_matrix(matrix, classes=range(n_classes))
    found = moments.transition(responses, [2] * (len(matrix) // 2), confusion / 10)
    assert found.transition.dims == ("class", "next_class")
    np.testing.assert_allclose(found.joint, joint / 10, atol=1e-7)
    np.testing.assert_allclose(found.transition, joint / joint.sum(axis=1)[:, None], atol=1e-6)
    margins = (joint.sum(axis=0) + joint.sum(axis=1)) / 20
    np.testing.assert_allclose(found.stationary, margins, atol=1e-7)


@pytest.mark.parametrize("block", [4, 1 << 16])
def test_normal_equations_are_the_explicit_sums(block, monkeypatch):
    """Missing, repeated and no responses at all, in sequences of many lengths."""
    monkeypatch.setattr(chain, "BLOCK", block)
    rng = np.random.default_rng(1)
    rows = [
        (n, m, int(rng.integers(3)))
        for n in range(24)
        for m in range(4)
        for _ in range(rng.choice([0, 0, 1, 2]) if n != 11 else 0)
    ]
    item, rater, label = zip(*rows, strict=True)
    responses = bf.Responses.from_long(
        {"item": item, "rater": rater, "label": label}, items=range(24), classes=range(3)
    )
    confusion = rng.dirichlet(np.ones(3), size=(4, 3))
    lengths = np.array([5, 1, 7, 2, 1, 8])
    sequence = np.repeat(np.arange(6), lengths)
    normal, right = np.zeros((9, 9)), np.zeros((3, 3))
    for n, m, c in rows:
        for after, other, d in rows:
            if after == n + 1 and sequence[n] == sequence[after]:
                design = np.einsum("ka,lb->abkl", confusion[m], confusion[other]).reshape(9, 9)
                normal += design.T @ design  # |one-hot(c, d) − design A|², squared and summed
                right += np.outer(confusion[m, :, c], confusion[other, :, d])
    pairs = lengths.sum() - len(lengths)
    found = chain.normal_equations(responses, lengths, confusion)
    np.testing.assert_allclose(found[0], normal / pairs, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], right / pairs, rtol=1e-12, atol=1e-14)


def test_a_class_that_never_occurs():
    """Raters who never err and never say the last class: no row of the joint distribution."""
    labels = np.array([0, 1, 1, 0, 0, 1, 0, 0])
    perfect = np.tile(np.eye(3), (2, 1, 1))
    responses = bf.Responses.from_matrix(np.tile(labels[:, None], 2), classes=range(3))
    found = moments.transition(responses, [8], perfect)
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (labels[:-1], labels[1:]), 1 / 7)
    np.testing.assert_allclose(found.joint, pairs, atol=1e-9)
    np.testing.assert_allclose(found.transition[2], pairs.sum(axis=0), atol=1e-9)


def test_bad_input():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0], [1, 1]])
    perfect = np.tile(np.eye(2), (2, 1, 1))
    for lengths in ([3], [5], [4, 0], [2.0, 2.0], [[4]], [], [6, -2]):
        with pytest.raises(ResponsesError, match=r"add up to the 4 items.*Got: "):
            moments.transition(responses, lengths, perfect)
    with pytest.raises(ModelError, match=r"confusion must have shape \(2 raters, 2 classes"):
        moments.transition(responses, [4], perfect[0])
    for lengths, confusion in (([1] * 4, perfect), ([4], np.full((2, 2, 2), 0.5))):
        with pytest.raises(MomentsError, match=r"to be identified.*Got: normal equations"):
            moments.transition(responses, lengths, confusion)
    counted = bf.Responses.from_counts({"00": 2, "01": 3})
    with pytest.raises(ResponsesError, match=r"Got: a table of counts"):
        moments.transition(counted, [2], perfect)
