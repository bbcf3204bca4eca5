"""`bayesfuse.testing.enumerate_labels` with every label prior, against joints written out."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import bayesfuse as bf
from bayesfuse.testing import assert_close, enumerate_labels

ITEMS = list("cadb")
"""Of the responses, in another order than in sequence."""
RNG = np.random.default_rng(1)
RESPONSES = bf.Responses.from_matrix(RNG.integers(0, 3, (4, 2)), items=ITEMS, classes=range(3))
LOG_LIK = RNG.normal(0, 1.5, (4, 3))
SHARES, MOVES = RNG.dirichlet(np.ones(3), 4), RNG.dirichlet(np.ones(3), (2, 3))
ODDS = RNG.normal(0, 1.5, (4, 3))
GROUP, RUN = np.array([1, 0, 1, 2]), np.array([1, 0])
SEQUENCES = bf.Sequences.from_lengths([3, 1], items=list("abcd"))
EDGES = [("a", "b", 1.0), ("b", "c", 0.7), ("c", "a", 1.5), ("c", "d", 0.4)]
GRAPH = bf.Graph.from_edges([edge[:2] for edge in EDGES], [edge[2] for edge in EDGES])
COUPLING, PULL = 0.8, np.array([0.5, 0.2, 0.3])


def by_item(rows):
    """Return the log probability of labels (items,) that are independent."""
    return lambda y: sum(np.log(rows[n, k]) for n, k in enumerate(y))


def in_sequence(initial, transition):
    """Return that of chains, from rows by sequence: a, b, c and d."""

    def log_prob(y):
        a, b, c, d = (y[ITEMS.index(name)] for name in "abcd")
        first, then = initial[0], transition[0]
        return np.log(first[a] * then[a, b] * then[b, c] * initial[1][d])

    return log_prob


def on_graph(y):
    """Return the log weight of labels on the graph; their sum is normalised below."""
    at = dict(zip(ITEMS, y, strict=True))
    agree = sum(weight * (at[one] == at[other]) for one, other, weight in EDGES)
    return np.log(PULL[list(y)]).sum() + COUPLING * agree


def stationary(rows):
    return np.linalg.matrix_power(rows, 200)[0]


def potts(kind):
    return kind(COUPLING, GRAPH, PULL), (np.array(COUPLING),), on_graph


def cases():
    """Return label priors, their parameters as kernels have them, and joints by hand."""
    independent, log = bf.Independent, np.log
    stay = stationary(MOVES[0])
    chain = bf.MarkovChain(SHARES[0], MOVES[0], SEQUENCES)
    populations = bf.PopulationMarkovChain(SHARES[:2], MOVES, SEQUENCES, RUN)
    one = np.repeat(SHARES[:1], 4, axis=0)
    return {
        "one prevalence": (independent(SHARES[0]), (log(SHARES[0]),), by_item(one)),
        "table": (independent(SHARES[0]), (log(SHARES[:1]),), by_item(one)),
        "populations": (
            independent(SHARES, population=GROUP), (log(SHARES),), by_item(SHARES[GROUP]),
        ),
        "log-odds": (
            independent(log_odds=ODDS[0]), (ODDS[0],),
            by_item(np.repeat(softmax(ODDS[:1], axis=1), 4, axis=0)),
        ),
        "log-odds of populations": (
            independent(log_odds=ODDS, population=GROUP), (ODDS,),
            by_item(softmax(ODDS, axis=1)[GROUP]),
        ),
        "MarkovChain": (
            chain, (log(SHARES[0]), log(MOVES[0])),
            in_sequence(SHARES[[0, 0]], MOVES[[0, 0]]),
        ),
        "StationaryMarkovChain": (
            bf.StationaryMarkovChain(MOVES[0], SEQUENCES), (log(MOVES[0]),),
            in_sequence([stay, stay], MOVES[[0, 0]]),
        ),
        "PopulationMarkovChain": (
            populations, (log(SHARES[:2]), log(MOVES)), in_sequence(SHARES[RUN], MOVES[RUN]),
        ),
        "Potts": potts(bf.Potts),
        "MeanFieldPotts": potts(bf.MeanFieldPotts),
        "PlantedPotts": potts(bf.PlantedPotts),
    }  # fmt: skip


def test_every_label_prior_is_among_the_cases():
    known = {type(prior) for prior, *_ in cases().values()}
    every = (getattr(bf.labels, name) for name in bf.labels.__all__)
    assert known == {
        each for each in every
        if isinstance(each, type) and issubclass(each, bf.labels.LabelPrior)
    } - {bf.labels.LabelPrior}  # fmt: skip


@pytest.mark.parametrize("name", cases())
def test_label_probabilities_of_every_label_prior_by_hand(name):
    prior, parameters, log_prob = cases()[name]
    found = enumerate_labels(prior, parameters, LOG_LIK, prior.structure(RESPONSES))
    every = np.array(list(product(range(3), repeat=4)))
    log_prior = np.array([log_prob(y) for y in every])
    log_prior -= logsumexp(log_prior)
    joint = log_prior + LOG_LIK[np.arange(4), every].sum(axis=1)
    weight = np.exp(joint - logsumexp(joint))
    expected = [[weight[every[:, n] == k].sum() for k in range(3)] for n in range(4)]
    # with cycles belief propagation approximates log Z of a fixed coupling: a constant
    exact = logsumexp(joint) if prior.exact else found.total
    assert_close(found.total, exact, "log evidence", rtol=1e-9)
    assert_close(found.probability, expected, "label probability", atol=1e-9)
