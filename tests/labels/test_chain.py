"""Labels in sequence, of one or several populations: enumeration, calculus, limits, each other."""

import numpy as np
import pytensor.tensor as pt
import pytest
from random_chains import random_chain, random_log_lik, relative, shares, shuffled

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError, ResponsesError
from bayesfuse.models import HiddenMarkov
from bayesfuse.observation import ResponseModel
from bayesfuse.testing import assert_close, assert_frequencies, check_label_prior, enumerate_labels

CHAIN = bf.build.MarkovChain(None, None, None)
LENGTHS = {2: [3, 1, 4], 3: [1, 3, 2], 5: [3, 1]}


@pytest.mark.parametrize("zeros", [0.0, 0.5])
@pytest.mark.parametrize("n_classes", LENGTHS)
def test_chain_against_enumeration(n_classes, zeros):
    structure = shuffled(LENGTHS[n_classes], n_classes)
    log_lik = random_log_lik(structure[1][-1], n_classes, n_classes)
    prior = bf.build.MarkovChain(None, None, None)
    check_label_prior(prior, random_chain(n_classes, 1, zeros=zeros), log_lik, structure)


@pytest.mark.parametrize("stationary_start", [False, True])
def test_equal_rows_are_independent_labels(stationary_start):
    """Transitions that do not look back: everything as under Independent."""
    rng = np.random.default_rng(8)
    prevalence = np.log(rng.dirichlet(np.ones(4)))
    log_lik = random_log_lik(30, 4, 5)
    structure = shuffled([10, 1, 12, 7], 5)
    rows = np.tile(prevalence, (4, 1))
    prior = bf.build.StationaryMarkovChain if stationary_start else bf.build.MarkovChain
    parameters = (rows,) if stationary_start else (prevalence, rows)
    chain = prior(*(None for _ in parameters), None)
    seen = relative(log_lik)
    found = chain.marginal(parameters, *seen, structure)
    common = np.ones(30, dtype=int), np.zeros(30, dtype=np.int32)
    apart = bf.build.Independent(None).marginal((prevalence[None],), *seen, common)
    assert_close(found.total, apart.total, "log evidence")
    assert_close(found.probability, apart.probability, "label probability")
    by_sequence = np.add.reduceat(apart.log_evidence[structure[0]], structure[1][:-1])
    assert_close(found.log_evidence, by_sequence, "log evidence by sequence")
    labels = chain.decode(parameters, seen[0], structure)
    assert (labels == np.argmax(prevalence + log_lik, axis=1)).all()
    if not stationary_start:
        counts = found.expected[0] + found.expected[1].sum(axis=0)
        assert_close(counts, apart.expected[0][0], "class counts")


def slowly(log_initial, log_transition, log_lik):
    """Label probabilities and log evidence of one sequence, all in logarithms."""
    n_items, n_classes = log_lik.shape
    ahead, behind = np.empty((n_items, n_classes)), np.zeros((n_items, n_classes))
    for t in range(n_items):
        before = (
            log_initial
            if t == 0
            else np.logaddexp.reduce(ahead[t - 1][:, None] + log_transition, axis=0)
        )
        ahead[t] = before + log_lik[t]
    for t in range(n_items - 2, -1, -1):
        behind[t] = np.logaddexp.reduce(log_transition + log_lik[t + 1] + behind[t + 1], axis=1)
    total = np.logaddexp.reduce(ahead[-1])
    return np.exp(ahead + behind - total), total


HARD = {
    "evidence that changes its mind after it underflowed": (
        [0.5, 0.5],
        np.eye(2),
        [[0.0, -400.0]] * 4 + [[-400.2, 0.0]] * 4,
    ),
    "a transition too rare for a float that is the only way": (
        [1.0, 0.0],
        [[1.0, -1000.0], [0.0, 1.0]],
        [[0.0, 0.0], [-np.inf, 0.0], [0.0, 0.0]],
    ),
    "responses that contradict all that is likely": (
        [1.0, 0.0, 0.0],
        [[0.0, 0.999, 0.001], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]],
        [[0.0, 0.0, 0.0], [0.0, -600.0, -592.0], [0.0, 0.0, -1.0]],
    ),
    "a rare way to a class that many items insist on": (
        [1.0, 0.0, 0.0],
        [[1.0, 1e-120, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]],
        [[0.0, 0.0, 0.0]] * 3 + [[-100.0, 0.0, 0.0]] * 6,
    ),
}


@pytest.mark.parametrize("case", HARD)
def test_sequences_that_underflow_are_repeated_in_logarithms(case):
    """Entries below zero are logarithms."""
    initial, transition, log_lik = (np.array(part, dtype=float) for part in HARD[case])
    with np.errstate(divide="ignore", invalid="ignore"):
        initial, transition = (
            np.where(part < 0, part, np.log(part)) for part in (initial, transition)
        )
        exact, total = slowly(initial, transition, log_lik)
    place, start = np.arange(len(log_lik)), np.array([0, len(log_lik)])
    likelihood, log_scale = relative(log_lik)
    rows, structure = (initial, transition), (place, start)
    found = CHAIN.marginal(rows, likelihood, log_scale, structure)
    assert found.total == pytest.approx(total, rel=1e-12)
    assert_close(found.probability, exact, "label probability", atol=1e-10)
    rng = np.random.default_rng(0)
    drawn = np.array([CHAIN.draw(rows, likelihood, structure, rng) for _ in range(1000)])
    for t, probability in enumerate(exact):
        seen = np.bincount(drawn[:, t], minlength=len(initial))
        assert_frequencies(seen, probability, f"label {t}")


@pytest.mark.parametrize("factor", [1e-250, 1e-20, 1e20])
def test_marginal_is_invariant_to_the_scale_of_likelihoods(factor):
    """Raters give products as they are, however small, where these lose no digits."""
    rows = random_chain(4, 1, zeros=0.4)
    log_lik = np.random.default_rng(5).normal(0, 3, (500, 4))
    log_lik[7] = [-np.inf, 0, -np.inf, -np.inf]
    likelihood, log_scale = relative(log_lik)
    structure = shuffled([300, 1, 199], 3)
    found = CHAIN.marginal(rows, likelihood, log_scale, structure)
    other = CHAIN.marginal(rows, factor * likelihood, log_scale - np.log(factor), structure)
    for name in ("total", "log_evidence", "probability"):
        assert_close(getattr(found, name), getattr(other, name), name, rtol=1e-9)
    for one, same in zip(found.expected, other.expected, strict=True):
        assert_close(one, same, "expected counts", rtol=1e-9)
    one, same = (
        CHAIN.draw(rows, by * likelihood, structure, np.random.default_rng(0))
        for by in (1.0, factor)
    )
    assert (one == same).all()


def test_an_impossible_sequence_is_named():
    sequences = bf.Sequences.from_lengths([2, 3], names=["fine", "broken"])
    responses = bf.Responses.from_matrix([[0], [0], [1], [0], [0]], classes=[0, 1])
    observation = ResponseModel.build(
        responses,
        bf.build.MarkovChain(None, None, sequences),
        bf.build.Confusion(None),
        gold={2: 1, 3: 0},
    )
    values = {
        "initial": np.array([0.5, 0.5]),
        "transition": np.array([[0.5, 0.5], [0.0, 1.0]]),
        "confusion": np.full((1, 2, 2), 0.5),
    }
    rows = observation.rows(values)
    for drawn in (observation.draw, observation.simulate):
        with pytest.raises(ImpossibleDataError, match=r"sequence 'broken' \(1 such\)"):
            drawn(rows, np.random.default_rng(0))
    labels = observation.labels.decode(
        observation.label_tables(rows), observation.likelihood(rows)[0], observation.label_structure
    )
    assert (labels[:2] >= 0).all() and (labels[2:] == -1).all()


def test_counts_of_labels_by_hand():
    place, start = np.array([4, 0, 2, 1, 3]), np.array([0, 3, 5])
    labels = np.array([1, 0, 1, 2, 0])  # paths 0 1 1 and 0 2
    begun, followed = CHAIN.sample_counts(labels, (place, start), 3)
    assert begun.tolist() == [2, 0, 0]
    assert followed.tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0]]
    soft = CHAIN.sample_counts(np.eye(3)[labels], (place, start), 3)
    assert_close(soft[0], begun, "soft first labels")
    assert_close(soft[1], followed, "soft pairs")


@pytest.mark.parametrize("lengths", [[1], [12], [3, 10, 26, 10]])
def test_prevalence_is_the_mean_over_all_items(lengths):
    initial, transition = (np.exp(part) for part in random_chain(4, 3))
    share = [
        initial @ np.linalg.matrix_power(transition, t) for size in lengths for t in range(size)
    ]
    prior = bf.build.MarkovChain(None, None, bf.Sequences.from_lengths(lengths))
    assert_close(
        prior.prevalence((initial, transition), 3, (), np), np.mean(share, axis=0), "share"
    )
    constants = pt.as_tensor(initial), pt.as_tensor(transition)
    found = prior.prevalence(constants, 3, (), pt).eval(mode="FAST_COMPILE")
    assert_close(found, np.mean(share, axis=0), "share as a tensor")


def test_derivatives_of_the_evidence_of_a_stationary_chain():
    """By central differences in the log rows; what they begin with depends on their shares."""
    sequences = bf.Sequences.from_lengths([3, 1, 5, 2])
    responses = bf.Responses.from_matrix(np.random.default_rng(1).integers(0, 3, (11, 2)))
    _, transition = random_chain(3, 4, zeros=0.3)
    prior = bf.build.StationaryMarkovChain(None, sequences)
    structure = prior.structure(responses)
    seen = relative(random_log_lik(11, 3, 1))
    found = prior.marginal((transition,), *seen, structure)
    free = bf.build.MarkovChain(None, None, None).marginal(
        prior.both((transition,)), *seen, structure
    )
    for k, j in np.argwhere(transition > -np.inf):
        ends = []
        for step in (1e-5, -1e-5):
            moved = transition.copy()
            moved[k, j] += step
            share = np.log(stationary(shares(np.exp(moved))))
            ends.append(CHAIN.marginal((share, moved), *seen, structure).total)
        slope = (ends[0] - ends[1]) / 2e-5
        assert found.expected[0][k, j] == pytest.approx(slope, abs=1e-6)
    assert (found.expected[0][transition == -np.inf] == 0).all()
    assert_close(found.total, free.total, "log evidence")
    assert_close(found.probability, free.probability, "label probability")


def stationary(rows):
    """Return the stationary distribution of transitions (classes, classes)."""
    prior = bf.build.StationaryMarkovChain(None, bf.Sequences.from_lengths([2]))
    return prior.prevalence((rows,), len(rows), (), np)


@pytest.mark.parametrize("n_classes", [2, 4, 5])
def test_stationary_distribution(n_classes):
    _, transition = random_chain(n_classes, 6, zeros=0.3)
    share = stationary(np.exp(transition))
    assert_close(share @ np.exp(transition), share, "stationary distribution")
    assert share.sum() == pytest.approx(1.0, rel=1e-14)


def test_stationary_distribution_normalises_rows():
    """Variational fits weigh chains by rows that sum to less than one."""
    rows = shares(np.random.default_rng(5).normal(size=(3, 3)) ** 2)
    smaller = rows * np.exp([[-0.3], [-0.1], [-0.7]])
    prior = bf.build.StationaryMarkovChain(None, bf.Sequences.from_lengths([2]))
    begun, _ = prior.both((np.log(smaller),))
    assert_close(np.exp(begun), stationary(rows), "stationary distribution")


def test_stationary_distribution_keeps_small_probabilities():
    rows = np.array([[1 - 1e-40, 1e-40], [1e-3, 1 - 1e-3]])
    assert stationary(rows)[1] == pytest.approx(1e-37, rel=1e-12)


ITEMS = list("fbdaceg")
"""Of the responses, in another order than in sequence."""
SEQUENCES = bf.Sequences.from_table(
    {"item": list("abcdefg"), "sequence": [5, 5, 5, 2, 2, 9, 9], "position": [0, 1, 2, 0, 1, 0, 1]}
)
"""Sequences 2 (d, e), 5 (a, b, c) and 9 (f, g)."""
POPULATION = np.array([2, 0, 2])
"""Nobody is of population 1."""


def random_rows(shape, seed, zero=False):
    rows = np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])
    if zero:
        rows[0, 0] = np.eye(shape[-1])[1]
    with np.errstate(divide="ignore"):
        return np.log(rows)


def responses(n_classes):
    return bf.Responses.from_matrix(np.zeros((7, 1), int), items=ITEMS, classes=range(n_classes))


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_against_enumeration(n_classes, far):
    """Structural zeros, an impossible class, and likelihoods that probabilities cannot hold."""
    prior = bf.build.MarkovChain(None, None, SEQUENCES, population=POPULATION)
    tables = random_rows((3, n_classes), 1), random_rows((3, n_classes, n_classes), 2, zero=True)
    log_lik = np.random.default_rng(3).normal(0, 2, (7, n_classes))
    log_lik[4, 1] = -np.inf
    if far:
        log_lik[:, 0] -= 200.0
    check_label_prior(prior, tables, log_lik, prior.structure(responses(n_classes)))


def test_populations_are_separate_chains():
    """Names of sequences, shares of classes, beginnings and batches."""
    prior = bf.build.MarkovChain(None, None, SEQUENCES, population=POPULATION)
    table, tables = responses(3), (random_rows((3, 3), 1), random_rows((3, 3, 3), 2))
    assert prior.units(table).tolist() == [2, 5, 9]
    log_lik, structure = np.random.default_rng(3).normal(size=(7, 3)), prior.structure(table)
    flat = enumerate_labels(prior, tables, np.zeros((7, 3)), structure)
    share = prior.prevalence(tuple(map(np.exp, tables)), 3, structure, np)
    assert_close(share, flat.probability.mean(axis=0), "share of every class")
    found = prior.marginal(tables, np.exp(log_lik), np.zeros(7), structure)
    soft = prior.sample_counts(found.probability, structure, 3)
    assert soft[0][1].sum() == soft[1][1].sum() == 0
    assert_close(soft[0].sum(axis=1), [1, 0, 2], "beginnings")
    items, part = prior.part(structure, np.array([2, 0]))
    few = prior.marginal(tables, np.exp(log_lik[items]), np.zeros(len(items)), part)
    assert_close(few.log_evidence, found.log_evidence[[0, 2]], "evidence of a batch")


def test_invalid_arguments_are_refused():
    table = responses(2)
    with pytest.raises(ModelError, match="one population"):
        HiddenMarkov(table, SEQUENCES, populations=POPULATION, initial="stationary")
    with pytest.raises(ResponsesError, match="Every sequence must be in populations="):
        HiddenMarkov(table, SEQUENCES, populations={5: "a"})
    with pytest.raises(ModelError, match=r"float64 values of shape \(3,\) for 3 sequences"):
        bf.build.MarkovChain(None, None, SEQUENCES, population=np.ones(3))
    with pytest.raises(ModelError, match=r"from 0.* the least -1"):
        bf.build.MarkovChain(None, None, SEQUENCES, population=[-1, 0, 1]).check({}, table)
