"""The channel of items of several types against enumeration, calculus and simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp
from typed_crowds import by_type, random_crowd, random_rows, summed

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.observation import Observation
from bayesfuse.testing import assert_close, assert_frequencies

SIZES = [(2, 3), (3, 5), (3, 2), (2, 1)]
"""Classes and types; fewer types than classes are allowed in the channel."""


def bare():
    return bf.TypedConfusion(None, None)


def parameters(n_classes, n_types, n_raters, seed=1):
    share = random_rows((n_classes, n_types), seed)
    return share, random_rows((n_raters, n_types, n_classes), seed + 1)


def tables(share, confusion):
    with np.errstate(divide="ignore"):
        return bare().expand((np.log(share), np.log(confusion)), len(share), np)


def structure(responses, gold=None):
    known = np.full(responses.n_items, -1)
    for n, k in (gold or {}).items():
        known[n] = k
    return bare().structure(responses, known)


@pytest.mark.parametrize(("n_classes", "n_types"), SIZES)
def test_likelihood_is_the_sum_over_types(n_classes, n_types):
    """Types that a class does not have, answers that a rater never gives, and known items, too."""
    responses = random_crowd(40, 4, n_classes, seed=n_types)
    share, confusion = parameters(n_classes, n_types, 5)
    share[1] = np.eye(n_types)[0]
    confusion[2, 0] = np.eye(n_classes)[1]
    gold = {3: 1, 17: 0, 40: n_classes - 1}
    found = bare().log_lik(tables(share, confusion), structure(responses, gold))
    assert np.isneginf(found).sum() > 3 * (n_classes - 1)  # of the known items, and by the zero
    assert_close(found, summed(share, confusion, responses, gold), "log-likelihood")


def test_five_hundred_answers_to_one_item_keep_their_digits():
    """Products underflow; types differ by thousands of nats, and classes by less than one."""
    rng = np.random.default_rng(3)
    item = np.repeat([0, 1, 2], [500, 2, 500])
    said = np.where(item == 0, rng.integers(0, 3, 1002), 2)
    responses = bf.Responses.from_long(
        {"item": item, "rater": rng.integers(0, 4, 1002), "label": said}, classes=range(3)
    )
    share, confusion = parameters(3, 4, 4, seed=5)
    confusion[:, :3] = [[0.15, 0.8, 0.05], [0.14, 0.8, 0.06], [0.2, 0.7, 0.1]]
    confusion[:, 3] = [0.0, 0.0, 1.0]  # the only type that makes five hundred "2" likely
    share[2] = [0.5, 0.3, 0.2, 0.0]
    expected = summed(share, confusion, responses)
    assert expected[0].max() < -680 and expected[2, 0] > -5 and expected[2, 2] < -1000
    found = bare().log_lik(tables(share, confusion), structure(responses))
    # weights below 1e-290 of the largest of an item are kept there, so that nothing is impossible
    assert found[2, 2] == pytest.approx(np.log(1e-290), abs=1e-9)
    found[2, 2] = expected[2, 2]
    assert_close(found, expected, "log-likelihood", rtol=1e-12)


def shares_of_types(share, confusion, responses):
    """Posterior of the type given truth and responses, (items, classes, types)."""
    joint = by_type(share, confusion, responses)
    return np.exp(joint - logsumexp(joint, axis=2, keepdims=True))


def expected_counts(share, confusion, responses, weight, known):
    """Sum the posterior of the types, items of unknown and of known class apart."""
    given = weight[:, :, None] * shares_of_types(share, confusion, responses)
    by_class = np.stack([given[known < 0].sum(axis=0), given[known >= 0].sum(axis=0)])
    used = np.zeros(confusion.shape)
    each = given.sum(axis=1)
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        used[m, :, c] += each[n]
    return by_class, used


def test_counts_of_known_items_are_apart():
    responses = random_crowd(30, 4, 3, seed=7)
    share, confusion = parameters(3, 5, 5)
    at, arranged = tables(share, confusion), structure(responses, {2: 0, 9: 2, 30: 2})
    known = arranged[2]
    weight = np.random.default_rng(1).random((31, 3))
    weight[4, 1] = 0.0
    weight[known >= 0] *= np.eye(3)[known[known >= 0]]
    found = bare().expected_kernel(*at, weight, *arranged)
    expected = expected_counts(share, confusion, responses, weight, known)
    for one, other, name in zip(found, expected, ["types", "answers"], strict=True):
        assert_close(one, other, name)
    assert_close(found[0][1].sum(axis=1), weight[known >= 0].sum(axis=0), "known items")
    collapsed = bare().collapse(found)
    assert_close(collapsed[0], expected[0].sum(axis=0), "types of all items")
    assert collapsed[1] is found[1]


@pytest.mark.parametrize("known", [False, True])
def test_copies_of_an_item_have_types_of_their_own(known):
    """Multinomial ones, for which all their answers are counted."""
    responses = bf.Responses.from_matrix([[1, 0, 1]], classes=[0, 1])
    share, confusion = parameters(2, 3, 3, seed=9)
    at, rng = tables(share, confusion), np.random.default_rng(2)
    arranged, copies, seen = (
        structure(responses, {0: 1} if known else {}),
        np.array([[0.0, 3.0]]),
        [],
    )
    for _ in range(2000):
        by_class, used = bare().tally(at, copies, arranged, rng)
        of_item = by_class[int(known), 1]
        assert of_item.sum() == by_class.sum() == 3
        for rater, answer in enumerate([1, 0, 1]):
            np.testing.assert_array_equal(used[rater], np.outer(of_item, np.eye(2)[answer]))
        seen.append(of_item)
    splits = [split for split in product(range(4), repeat=3) if sum(split) == 3]
    probability = stats.multinomial(3, shares_of_types(share, confusion, responses)[0, 1])
    number = [(np.array(seen) == split).all(axis=1).sum() for split in splits]
    assert_frequencies(np.array(number, dtype=float), probability.pmf(splits), "types")


def test_answers_that_underflow_are_counted_for_the_right_types():
    said = np.zeros((500, 1), dtype=int)
    said[::3] = 1
    responses = bf.Responses.from_matrix(said.T, classes=[0, 1])
    share, confusion = np.array([[0.2, 0.5, 0.3], [0.6, 0.0, 0.4]]), np.empty((500, 3, 2))
    confusion[:] = [[0.3, 0.7], [0.66, 0.34], [0.66, 0.34]]
    at, rng = tables(share, confusion), np.random.default_rng(1)
    for labels, size in ((np.array([0]), 1), (np.array([[40.0, 0.0]]), 40)):
        (types, known), _ = bare().tally(at, labels, structure(responses), rng)
        assert types[0, 1:].sum() == size  # the first type is e⁻¹⁰⁰ times as probable
        assert types.sum() == size and not known.any()
    expected = bare().expected_kernel(*at, np.array([[1.0, 0.0]]), *structure(responses))[0]
    assert_close(expected[0, 0, 1:], [0.625, 0.375], "types of one consensus", rtol=1e-9)


def test_a_type_per_class_is_the_plain_channel():
    responses, confusion = random_crowd(60, 4, 3, seed=3), random_rows((5, 3, 3), 8)
    arranged, plain = structure(responses, {0: 2, 7: 1}), bf.Confusion(None)
    known, table = arranged[2], (np.log(confusion),)
    one = plain.log_lik(table, plain.structure(responses, known))
    assert_close(bare().log_lik(tables(np.eye(3), confusion), arranged), one, "log-likelihood")
    weight = random_rows((61, 3), 2) * np.isfinite(one)
    (counts,) = plain.expected_kernel(*table, weight, *plain.structure(responses, known))
    found = bare().expected_kernel(*tables(np.eye(3), confusion), weight, *arranged)
    assert_close(found[1], counts, "answers")
    assert_close(found[0].sum(axis=0), np.diag(weight.sum(axis=0)), "types")


def label_priors():
    graph = bf.Graph.from_edges([(0, 1), (1, 2), (1, 3)], [1.0, 0.5, 2.0], items=range(4))
    chain = bf.Sequences.from_lengths([3, 1], items=range(4))
    moves = np.array([[0.8, 0.2], [0.4, 0.6]])
    return {
        "independent": (bf.Independent(None), {"prevalence": np.array([0.7, 0.3])}),
        "chain": (
            bf.MarkovChain(None, None, chain),
            {"initial": np.array([0.35, 0.65]), "transition": moves},
        ),
        "graph": (bf.Potts(pt.dscalar("coupling"), graph), {"coupling": np.array(0.7)}),
    }


@pytest.mark.parametrize("name", label_priors())
def test_evidence_under_every_label_prior_by_enumeration(name):
    """All labels and types of four items: evidence, label probabilities, counts of types."""
    labels, values = label_priors()[name]
    responses = random_crowd(3, 3, 2, seed=6)
    share, confusion = parameters(2, 3, 4, seed=2)
    gold = {2: 1}
    observation = Observation.build(responses, labels, bare(), gold=gold)
    rows = observation.rows(values | {"share": share, "type_confusion": confusion})
    log_joint = by_type(share, confusion, responses)
    at, arranged = observation.label_tables(rows), observation.label_structure
    log_weights, uses = [], []
    for chosen in product(product(range(2), range(3)), repeat=4):
        truth, kind = np.transpose(chosen)
        if truth[2] == gold[2]:
            prior = labels.log_prob(at, truth, arranged)
            log_weights.append(prior + log_joint[np.arange(4), truth, kind].sum())
            uses.append((np.eye(2)[truth], np.eye(6)[3 * truth + kind].sum(axis=0)))
    total = logsumexp(log_weights)
    weight = np.exp(log_weights - total)
    probability, types = (np.tensordot(weight, each, 1) for each in zip(*uses, strict=True))
    marginal = observation.marginal(rows)
    assert_close(marginal.total, total, "evidence", rtol=1e-6)
    found = observation.by_item(marginal.probability)
    assert_close(found, probability, "labels", atol=1e-6)
    found = observation.expected(rows)[1]["share"]
    assert_close(found.ravel(), types, "types", atol=1e-6)


@pytest.mark.parametrize(
    ("share", "rows", "match"),
    [
        ((2, 3), (4, 2, 2), "same number of types"),
        ((3, 2), (4, 2, 2), "share must have shape"),
        ((2, 3), (3, 3, 2), "type_confusion must have shape"),
    ],
)
def test_shapes_that_do_not_fit_the_responses(share, rows, match):
    responses = bf.Responses.from_matrix(np.zeros((5, 4), dtype=int), classes=[0, 1])
    with pm.Model():
        channel = bf.TypedConfusion(random_rows(share, 1), random_rows(rows, 1))
        with pytest.raises(ModelError, match=match):
            bf.observe(responses, labels=bf.Independent([0.5, 0.5]), raters=channel)
