"""A Markov chain for every population of sequences."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import HiddenMarkov
from bayesfuse.testing import assert_close, check_label_prior

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
    prior = bf.PopulationMarkovChain(None, None, SEQUENCES, POPULATION)
    tables = random_rows((3, n_classes), 1), random_rows((3, n_classes, n_classes), 2, zero=True)
    log_lik = np.random.default_rng(3).normal(0, 2, (7, n_classes))
    log_lik[4, 1] = -np.inf
    if far:
        log_lik[:, 0] -= 200.0
    check_label_prior(prior, tables, log_lik, prior.structure(responses(n_classes)))


@pytest.mark.slow
def test_populations_are_chains_of_their_own():
    """Names of sequences, shares of classes, counts, batches and JAX."""
    prior = bf.PopulationMarkovChain(None, None, SEQUENCES, POPULATION)
    table = responses(3)
    assert prior.units(table).tolist() == [5, 2, 9]
    tables = random_rows((3, 3), 1), random_rows((3, 3, 3), 2)
    log_lik = np.random.default_rng(3).normal(size=(7, 3))
    structure = prior.structure(table)
    found = prior.marginal(tables, np.exp(log_lik), np.zeros(7), structure)
    share = np.zeros(3)
    for p, names in ((0, [5]), (2, [2, 9])):
        items = [n for s in names for n in SEQUENCES.items[_rows(s)]]
        place = [ITEMS.index(n) for n in items]
        alone = bf.MarkovChain(
            None, None, bf.Sequences.from_lengths([len(_rows(s)) for s in names])
        )
        own = bf.Responses.from_matrix(np.zeros((len(items), 1), int), classes=range(3))
        rows = tuple(each[p] for each in tables)
        other = alone.marginal(
            rows, np.exp(log_lik[place]), np.zeros(len(items)), alone.structure(own)
        )
        assert_close(found.probability[place], other.probability, f"labels of {p}")
        assert_close(found.expected[1][p], other.expected[1], f"pairs of {p}")
        values = tuple(map(np.exp, rows))
        share += len(items) / 7 * alone.prevalence(values, 3, alone.structure(own), np)
    values = tuple(map(np.exp, tables))
    assert_close(prior.prevalence(values, 3, structure, np), share, "share of every class")
    soft = prior.tally(found.probability, structure, 3)
    assert soft[0][1].sum() == soft[1][1].sum() == 0
    assert_close(soft[0].sum(axis=1), [1, 0, 2], "beginnings")
    items, part = prior.part(structure, np.array([2, 0]))
    few = prior.marginal(tables, np.exp(log_lik[items]), np.zeros(len(items)), part)
    assert_close(few.log_evidence, found.log_evidence[[0, 2]], "evidence of a batch")
    jax = pytest.importorskip("jax")
    with jax.enable_x64():
        by_jax = prior.marginal_jax(*tables, log_lik, *structure)
    assert_close(np.asarray(by_jax), found.log_evidence, "JAX", rtol=1e-6)


def _rows(sequence):
    s = SEQUENCES.names.tolist().index(sequence)
    return np.arange(SEQUENCES.start[s], SEQUENCES.start[s + 1])


def test_what_cannot_be_is_refused():
    table = responses(2)
    with pytest.raises(ModelError, match="one population"):
        HiddenMarkov(table, SEQUENCES, populations=POPULATION, initial="stationary")
    with pytest.raises(ResponsesError, match="Every sequence must be in populations="):
        HiddenMarkov(table, SEQUENCES, populations={5: "a"})
    with pytest.raises(ModelError, match=r"float64 of shape \(3,\) for 3 sequences"):
        bf.PopulationMarkovChain(None, None, SEQUENCES, np.ones(3))
    with pytest.raises(ModelError, match=r"numbered from 0\. Got: -1"):
        bf.PopulationMarkovChain(None, None, SEQUENCES, [-1, 0, 1]).check({}, table)
