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
from bayesfuse.inference import turning
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel

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


@pytest.mark.parametrize(("n_classes", "n_types"), SIZES)
def test_channel_against_calculus(n_classes, n_types):
    """Derivatives of the likelihood, the sum over all answers, drawn types against their mean."""
    responses = random_crowd(6, 3, n_classes, seed=4)
    check_rater_channel(bare(), tables(*parameters(n_classes, n_types, 4)), responses)


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
    at, (start, cell, known) = tables(share, confusion), structure(responses, {2: 0, 9: 2, 30: 2})
    weight = np.random.default_rng(1).random((31, 3))
    weight[4, 1] = 0.0
    weight[known >= 0] *= np.eye(3)[known[known >= 0]]
    found = bare().expected_kernel(*at, weight, start, cell, known)
    expected = expected_counts(share, confusion, responses, weight, known)
    for one, other, name in zip(found, expected, ["types", "answers"], strict=True):
        assert_close(one, other, name)
    assert_close(found[0][1].sum(axis=1), weight[known >= 0].sum(axis=0), "known items")
    collapsed = bare().collapse(found)
    assert_close(collapsed[0], expected[0].sum(axis=0), "types of all items")
    assert collapsed[1] is found[1]


@pytest.mark.parametrize("copies", [False, True])
def test_drawn_types_have_their_frequencies(copies):
    """Of an item with three answers, and of one without: jointly with what the answers use."""
    responses = bf.Responses.from_matrix([[1, 0, 1], [-1, -1, -1], [1, 1, 0]], classes=[0, 1])
    share, confusion = parameters(2, 3, 3, seed=9)
    at, rng = tables(share, confusion), np.random.default_rng(2)
    arranged = structure(responses, {2: 1})
    labels = np.array([0, 1, 1])
    number = np.array([4.0, 3.0, 2.0]) if copies else np.ones(3)
    drawn = np.zeros((3, 2))
    drawn[np.arange(3), labels] = number
    size = 6000
    counts = [bare().tally(at, drawn if copies else labels, arranged, rng) for _ in range(size)]
    by_class = np.array([each[0] for each in counts])
    used = np.array([each[1] for each in counts])
    np.testing.assert_array_equal(by_class[:, 0].sum(axis=2), np.tile(number[:2], (size, 1)))
    np.testing.assert_array_equal(by_class[:, 1].sum(axis=2), np.tile([0, number[2]], (size, 1)))
    of_item = [by_class[:, 0, 0], by_class[:, 0, 1], by_class[:, 1, 1]]
    answers = np.zeros(used.shape)
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        answers[:, m, :, c] += of_item[n]
    np.testing.assert_array_equal(used, answers)
    shares = shares_of_types(share, confusion, responses)
    for n, own in enumerate(of_item):
        total = int(number[n])
        splits = [s for s in product(range(total + 1), repeat=3) if sum(s) == total]
        seen = np.array([(own == split).all(axis=1).sum() for split in splits], dtype=float)
        assert seen.sum() == size
        probability = stats.multinomial(total, shares[n, labels[n]]).pmf(splits)
        assert_frequencies(seen, probability / probability.sum(), f"types of item {n}")


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


def test_jax_sums_as_numba_does():
    jax = pytest.importorskip("jax")
    responses = random_crowd(50, 4, 3, seed=4)
    at = tables(*parameters(3, 4, 5))
    arranged = structure(responses, {1: 2, 50: 0})
    with jax.enable_x64(True):
        found = np.asarray(bf.TypedConfusion.log_lik_jax(*at, *arranged))
    assert_close(found, bare().log_lik(at, arranged), "log-likelihood")


def test_simulated_answers_to_an_item_share_its_type():
    """Two raters, one of them twice: the joint distribution of the three answers by truth."""
    size = 20000
    share, confusion = parameters(2, 3, 2, seed=12)
    item = np.repeat(np.arange(size), 3)
    responses = bf.Responses.from_long(
        {"item": item, "rater": np.tile([0, 1, 0], size), "label": np.tile([0, 1, 0], size)}
    )
    truth = np.where(np.arange(size) < size // 3, 0, 1)
    rng = np.random.default_rng(5)
    label = bare().simulate(tables(share, confusion)[0:2], truth, responses, rng)
    order = np.lexsort((responses.rater, responses.item))
    said = label[order].reshape(size, 3)  # rater 0 twice, then rater 1
    for k in (0, 1):
        joint = np.einsum("z,za,zb,zc->abc", share[k], confusion[0], confusion[0], confusion[1])
        seen = np.zeros((2, 2, 2))
        np.add.at(seen, tuple(said[truth == k].T), 1.0)
        assert_frequencies(seen.ravel(), joint.ravel(), f"answers to class {k}")


def test_confusion_is_the_mean_over_types():
    share, confusion = parameters(3, 4, 2)
    found = bare().confusion(tables(share, confusion), 3, np)
    assert_close(found, np.einsum("kz,mzc->mkc", share, confusion), "confusion")


def test_a_type_per_class_is_the_plain_channel():
    """Likelihood, evidence, label probabilities and expected counts, known items among them."""
    responses = random_crowd(60, 4, 3, seed=3)
    confusion, prevalence = random_rows((5, 3, 3), 8), np.array([0.5, 0.2, 0.3])
    gold = {0: 2, 7: 1}
    both = [
        Observation.build(responses, bf.Independent(None), channel, gold=gold)
        for channel in (bf.Confusion(None), bare())
    ]
    plain = both[0].rows({"prevalence": prevalence, "confusion": confusion})
    typed = both[1].rows(
        {"prevalence": prevalence, "share": np.eye(3), "type_confusion": confusion}
    )
    one, other = both[0].marginal(plain), both[1].marginal(typed)
    assert_close(other.total, one.total, "evidence")
    assert_close(other.log_evidence, one.log_evidence, "evidence by item")
    assert_close(other.probability, one.probability, "labels")
    (_, plain_counts), (_, typed_counts) = both[0].expected(plain), both[1].expected(typed)
    assert_close(typed_counts["type_confusion"], plain_counts["confusion"], "answers")
    assert_close(typed_counts["share"], np.diag(plain_counts["prevalence"]), "types")
    assert_close(typed_counts["prevalence"], plain_counts["prevalence"], "labels")


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
    log_weights, probability, types = [], np.zeros((4, 2)), np.zeros((2, 3))
    configurations = [
        np.transpose(chosen)
        for chosen in product(product(range(2), range(3)), repeat=4)
        if chosen[2][0] == 1
    ]
    prior = {y: labels.log_prob(at, np.array(y), arranged) for y in product(range(2), repeat=4)}
    for truth, kind in configurations:
        each = log_joint[np.arange(4), truth, kind].sum()
        log_weights.append(prior[tuple(truth.tolist())] + each)
    total = logsumexp(log_weights)
    for (truth, kind), log_weight in zip(configurations, log_weights, strict=True):
        probability[np.arange(4), truth] += np.exp(log_weight - total)
        np.add.at(types, (truth, kind), np.exp(log_weight - total))
    marginal = observation.marginal(rows)
    assert_close(marginal.total, total, "evidence", rtol=1e-6)
    found = observation.by_item(marginal.probability)
    assert_close(found, probability, "labels", atol=1e-6)
    assert_close(observation.expected(rows)[1]["share"], types, "types", atol=1e-6)


def test_a_table_of_counts_is_its_items_one_by_one():
    """Items with the same answers are merged, those of known class apart."""
    rng = np.random.default_rng(2)
    responses = bf.Responses.from_matrix(rng.integers(0, 2, (400, 3)))
    share, confusion = parameters(2, 3, 3, seed=4)
    gold = {5: 1, 8: 0, 300: 1}
    observation = Observation.build(responses, bf.Independent(None), bare(), gold=gold)
    assert observation.table.n_items < 25
    values = {"prevalence": np.array([0.4, 0.6]), "share": share, "type_confusion": confusion}
    rows = observation.rows(values)
    joint = np.log([0.4, 0.6]) + summed(share, confusion, responses, gold)
    marginal = observation.marginal(rows)
    assert_close(marginal.total, logsumexp(joint, axis=1).sum(), "evidence")
    weight = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    known = observation.gold
    expected = expected_counts(share, confusion, responses, weight, known)
    found = observation.expected(rows)[1]
    assert_close(found.raters[0], expected[0], "types")
    assert_close(found["type_confusion"], expected[1], "answers")
    drawn = [observation.tally(rows, observation.draw(rows, rng), rng).raters for _ in range(1000)]
    for which, wanted in enumerate(expected):
        each = np.array([counts[which] for counts in drawn])
        error = np.maximum(each.std(axis=0), np.sqrt(np.minimum(wanted, 1.0))) / np.sqrt(1000)
        assert (np.abs(each.mean(axis=0) - wanted) <= 5 * error + 1e-9).all()


@pytest.mark.parametrize(
    ("share", "rows", "match"),
    [
        ((2, 3), (4, 2, 2), "same number of types"),
        ((3, 2), (4, 2, 2), "share must have shape"),
        ((2, 3), (3, 3, 2), "type_confusion must have shape"),
        ((2, 3), (4, 3, 3), "type_confusion must have shape"),
        ((2,), (4, 3, 2), "share must have shape"),
    ],
)
def test_shapes_that_do_not_fit_the_responses(share, rows, match):
    responses = bf.Responses.from_matrix(np.zeros((5, 4), dtype=int), classes=[0, 1])
    with pm.Model():
        channel = bf.TypedConfusion(random_rows(share, 1), random_rows(rows, 1))
        with pytest.raises(ModelError, match=match):
            bf.observe(responses, labels=bf.Independent([0.5, 0.5]), raters=channel)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "n_types"), [(2, 3), (3, 4)])
def test_turns_leave_the_posterior_as_it_is(n_classes, n_types):
    """Parameters from the prior, responses from these: turned, the parameters still look so."""
    blank = bf.Responses.from_matrix(np.zeros((8, 2), dtype=int), classes=range(n_classes))
    rng = np.random.default_rng(n_classes)
    priors = {
        "prevalence": Dirichlet(np.arange(3.0, n_classes + 3)),
        "share": Dirichlet(2.0 + np.arange(n_classes * n_types).reshape(n_classes, n_types) % 3),
        "type_confusion": Dirichlet(np.ones((2, n_types, n_classes))),
    }
    ended, accepted = [], 0
    for _ in range(1000):
        rows = {name: draw_dirichlet(prior.concentration, rng) for name, prior in priors.items()}
        unseen = Observation.build(blank, bf.Independent(None), bare())
        truth, label = unseen.simulate(rows, rng)
        gold = {0: int(truth[0]), 5: int(truth[5])}
        observation = Observation.build(
            blank.relabelled(label), bf.Independent(None), bare(), gold=gold
        )
        for _ in range(6):
            before = rows
            rows, _ = turning.turn(observation, rows, priors, rng)
            accepted += rows is not before
        ended.append(np.exp([rows["prevalence"][0], rows["share"][1, 0], rows["share"][-1, 1]]))
    assert accepted > 600
    for which, drawn in enumerate(np.transpose(ended)):
        row = [priors["prevalence"].concentration, *priors["share"].concentration[[1, -1]]][which]
        first = row[[0, 0, 1][which]]
        law = stats.beta(first, row.sum() - first)
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-4, which
