"""Confusion matrices and transitions from moments: implicit sums are the explicit ones."""

from itertools import combinations, product

import numpy as np
import pytest
from refusals import refused_moments, refused_table
from typed_crowds import random_crowd

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.errors import ModelError, MomentsError, ResponsesError
from bayesfuse.moments.multiclass import Moments, Table, best_prevalence


def crowd(rng, n_raters, n_classes, better=None):
    """Random confusion matrices; those of the first raters have the largest on the diagonal."""
    confusion = rng.dirichlet(np.ones(n_classes), size=(n_raters, n_classes))
    for rows in confusion[: n_raters // 2 + 1 if better is None else better]:
        for k, row in enumerate(rows):
            top = row.argmax()
            row[[k, top]] = row[[top, k]]
    return confusion


def answers(rng, confusion, prevalence, n_items, observed=1.0):
    truth = rng.choice(len(prevalence), p=prevalence, size=n_items)
    cumulative = confusion.cumsum(axis=-1)[:, truth]  # raters, items, labels
    label = (rng.random(cumulative.shape[:2])[..., None] > cumulative[..., :-1]).sum(axis=-1)
    return np.where(rng.random(label.shape) < observed, label, -1).T


def population(fractions, prevalence):
    """All response patterns with the exact count of each, from probabilities in integer units."""
    n_raters, n_classes, _ = fractions.shape
    patterns = np.array(list(product(range(n_classes), repeat=n_raters)))
    chance = fractions[np.arange(n_raters)[:, None], :, patterns.T].prod(axis=0)
    return bf.Responses.from_counts(
        patterns, chance @ prevalence, items=range(len(patterns)), classes=range(n_classes)
    )


# Asymmetric in every respect; in tenths, so that counts of patterns are integers.
POPULATIONS = {
    2: ([[[7, 3], [1, 9]], [[8, 2], [4, 6]], [[6, 4], [3, 7]], [[3, 7], [5, 5]]], [3, 7]),
    3: (
        [
            [[7, 2, 1], [1, 6, 3], [0, 2, 8]],
            [[6, 1, 3], [3, 5, 2], [2, 1, 7]],
            [[5, 4, 1], [1, 9, 0], [3, 3, 4]],
            [[2, 2, 6], [6, 3, 1], [1, 8, 1]],
        ],
        [5, 3, 2],
    ),
}


def explicit_objective(matrix, prevalence, confusion, weight):
    """Build (17) from the moments of every rater, pair and triple, per item, less the constant."""
    n_classes = len(prevalence)
    total = 0.0
    for order, letters in ((1, "a"), (2, "ab"), (3, "abc")):
        model_of = ",".join(["k", *(f"k{x}" for x in letters)]) + "->" + letters
        for raters in combinations(range(matrix.shape[1]), order):
            # a cell holds how an item was answered: vectors that sum to one, or zero where missing
            joint = [matrix[:, m] for m in raters]
            spec = ",".join(["n", *(f"n{x}" for x in letters)])
            observed = np.einsum(f"{spec}->{letters}", weight, *joint)
            times = np.einsum("n" + ",n" * order + "->", weight, *(x.sum(axis=1) for x in joint))
            if times:
                model = np.einsum(model_of, prevalence, *(confusion[m] for m in raters))
                assert model.shape == (n_classes,) * order
                error = ((observed / times - model) ** 2).sum()
                total += times * (error - ((observed / times) ** 2).sum())
    return total / weight.sum()


def one_hot(responses):
    """Average the answers of a rater to an item: (items, raters, classes)."""
    dense = np.zeros((responses.n_items, responses.n_raters, responses.n_classes))
    np.add.at(dense, (responses.item, responses.rater, responses.label), 1.0)
    times = dense.sum(axis=2, keepdims=True)
    return dense / np.maximum(times, 1.0)


def messy(rng, n_classes):
    """Missing and repeated responses, a silent rater, a silent item, items that count for many."""
    table, many = random_crowd(30, 5, n_classes, seed=1), rng.integers(0, 4, size=31)
    return bf.Responses(table.items, table.raters, table.classes, table.start, table.cell, many)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5])
def test_implicit_sums_are_the_explicit_ones(n_classes):
    rng = np.random.default_rng(n_classes)
    responses = messy(rng, n_classes)
    confusion = rng.dirichlet(np.ones(n_classes), size=(6, n_classes))
    prevalence = rng.dirichlet(np.ones(n_classes))
    matrix, weight = one_hot(responses), responses.multiplicity.astype(float)
    found = Table.build(responses).moments(confusion)

    def objective(values):
        return explicit_objective(matrix, prevalence, values, weight)

    implicit = prevalence @ found.square @ prevalence - 2 * prevalence @ found.cross
    assert implicit == pytest.approx(objective(confusion), rel=1e-12)

    # Rater by rater (17) is quadratic, so its second difference is exact, and so are the normal
    # equations: f(Γ + D) − 2 f(Γ) + f(Γ − D) = 2 <DᵀD, H> and f(Γ + D) − f(Γ − D) = 4 <D, HΓ − B>.
    normal = found.normal * np.outer(prevalence, prevalence)
    right = found.right * prevalence[:, None]
    for m in range(6):
        step = np.zeros_like(confusion)
        step[m] = rng.normal(size=(n_classes, n_classes))
        up, here, down = (objective(confusion + sign * step) for sign in (1, 0, -1))
        curvature = 2 * np.sum(step[m] * (normal[m] @ step[m]))
        slope = 4 * np.sum(step[m] * (normal[m] @ confusion[m] - right[m]))
        assert up - 2 * here + down == pytest.approx(curvature, rel=1e-9, abs=1e-11)
        assert up - down == pytest.approx(slope, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("start", ["algebraic", "votes", "diagonal"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_exact_moments_give_the_exact_answer(n_classes, start, monkeypatch):
    fractions, prevalence = (np.array(x) for x in POPULATIONS[n_classes])
    monkeypatch.setattr("bayesfuse.moments.multiclass.STARTS", (start,))
    found = moments.confusion(population(fractions, prevalence), iterations=20_000, tolerance=1e-13)
    np.testing.assert_allclose(found.confusion, fractions / 10, atol=1e-7)
    np.testing.assert_allclose(found.prevalence, prevalence / 10, atol=1e-7)
    assert found.attrs["converged"] == 1 and found.attrs["start"] == start


def test_names_order_and_the_silent():
    rng = np.random.default_rng(5)
    truth = crowd(rng, 5, 3)
    matrix = answers(rng, truth, [0.2, 0.5, 0.3], 4000).astype(object)
    names = np.array(["cat", "dog", "ant"])
    responses = bf.Responses.from_matrix(
        np.concatenate([names[matrix.astype(int)], np.full((4000, 1), None)], axis=1),
        raters=list("abcdef"), classes=names,
    )  # fmt: skip
    found = moments.confusion(responses)
    assert found.confusion.dims == ("rater", "class", "answer")
    assert found.indexes["class"].tolist() == names.tolist() == found.indexes["answer"].tolist()
    assert found.indexes["rater"].tolist() == list("abcdef")
    np.testing.assert_allclose(found.confusion.sum("answer"), 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.prevalence.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        found.confusion.sel(rater="f"), found.confusion.isel(rater=slice(5)).mean("rater")
    )
    assert np.abs(found.confusion.values[:5] - truth).mean() < 0.1
    again = moments.confusion(responses)
    assert again.identical(found)


def test_the_prevalence_is_the_best_on_the_simplex():
    """Solved at once where all classes occur, by descent where one does not, also without rank."""
    rng = np.random.default_rng(9)
    empty = 0
    for _ in range(30):
        root = rng.normal(size=(rng.choice([2, 4]), 4))
        square, cross = root.T @ root, root.T @ rng.normal(size=len(root))
        found, objective = best_prevalence(Moments(square, cross, None, None), np.full(4, 0.25))
        assert found.sum() == pytest.approx(1.0, abs=1e-9) and found.min() >= 0
        gradient = square @ found - cross
        assert ((gradient - gradient.min()) * found).max() < 1e-6
        assert objective == pytest.approx(found @ square @ found - 2 * found @ cross)
        empty += found.min() == 0
    assert 0 < empty < 30


def test_degenerate_responses_are_legal():
    rng = np.random.default_rng(6)
    matrix = answers(rng, crowd(rng, 6, 3), [0.4, 0.3, 0.3], 60, observed=0.5)
    matrix[:, 2] = 1  # one word for everything
    matrix[1:, 3] = -1  # a single response
    for table in (matrix, np.zeros((10, 4), int), np.eye(3, dtype=int)):
        found = moments.confusion(bf.Responses.from_matrix(table, classes=range(3)))
        assert np.isfinite(found.confusion).all() and np.isfinite(found.prevalence).all()
        assert (found.confusion >= 0).all()
        np.testing.assert_allclose(found.confusion.sum("answer"), 1.0, rtol=1e-12)


def test_bad_input():
    pairs = bf.Responses.from_matrix([[0, 1, -1], [1, -1, 0], [-1, 0, 0]])
    refused_moments(r"three different raters.*Got: at most 2 raters", moments.confusion, pairs)
    alone = bf.Responses.from_long({"item": [0] * 3, "rater": [0] * 3, "label": [0, 1, 1]})
    refused_moments(r"Got: at most 1 raters of one item, 1 in all", moments.confusion, alone)


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
def test_exact_moments_give_the_exact_transition(n_classes):
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
def test_the_joint_distribution_of_a_pair_is_the_best_fit(block, monkeypatch):
    """Missing, repeated and no responses at all, in sequences of many lengths."""
    monkeypatch.setattr("bayesfuse.moments.chain.BLOCK", block)
    rng = np.random.default_rng(1)
    responses = random_crowd(23, 3, 3, seed=1)
    rows = list(zip(responses.item, responses.rater, responses.label, strict=True))
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
    joint = moments.transition(responses, lengths, confusion).joint.values
    assert joint.min() >= 0 and joint.sum() == pytest.approx(1.0)
    gradient = (normal @ joint.ravel() - right.ravel()) / pairs
    # every entry in use has the lowest gradient of the simplex
    assert ((gradient - gradient.min()) * joint.ravel()).max() < 1e-7


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


def test_bad_input_of_transitions():
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
    refused_table(r"Got: a table of counts", moments.transition, counted, [2], perfect)
