"""Chains that begin anywhere: their distribution, and the evidence that depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from random_chains import random_chain, random_log_lik, shares

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError
from bayesfuse.labels import forward_backward
from bayesfuse.labels.stationary import stationary
from bayesfuse.observation import Observation
from bayesfuse.testing import assert_close, relative


def test_derivatives_of_the_evidence_of_a_stationary_chain():
    """By central differences in the log rows; what they begin with depends on their shares."""
    sequences = bf.Sequences.from_lengths([3, 1, 5, 2])
    responses = bf.Responses.from_matrix(np.random.default_rng(1).integers(0, 3, (11, 2)))
    _, transition = random_chain(3, 4, zeros=0.3)
    prior = bf.StationaryMarkovChain(None, sequences)
    structure = prior.structure(responses)
    seen = relative(random_log_lik(11, 3, 1))
    found = prior.marginal((transition,), *seen, structure)
    free = bf.MarkovChain(None, None, None).marginal(prior.both((transition,)), *seen, structure)
    for k, j in np.argwhere(transition > -np.inf):
        ends = []
        for step in (1e-5, -1e-5):
            moved = transition.copy()
            moved[k, j] += step
            share = np.log(stationary(np.log(shares(np.exp(moved)))))
            ends.append(forward_backward.marginal(share, moved, *seen, *structure)[0])
        slope = (ends[0] - ends[1]) / 2e-5
        assert found.expected[0][k, j] == pytest.approx(slope, abs=1e-6)
    assert (found.expected[0][transition == -np.inf] == 0).all()
    assert_close(found.total, free.total, "log evidence")
    assert_close(found.probability, free.probability, "label probability")


@pytest.mark.parametrize("n_classes", [2, 4, 5])
def test_stationary_distribution(n_classes):
    _, transition = random_chain(n_classes, 6, zeros=0.3)
    share = stationary(transition)
    assert_close(share @ np.exp(transition), share, "stationary distribution")
    assert share.sum() == pytest.approx(1.0, rel=1e-14)
    prior = bf.StationaryMarkovChain(None, bf.Sequences.from_lengths([2]))
    assert_close(prior.prevalence((np.exp(transition),), n_classes, (), np), share, "prevalence")


def test_stationary_distribution_looks_at_rows_relative_to_their_sums():
    """Variational fits weigh chains by rows that sum to less than one."""
    rows = shares(np.random.default_rng(5).normal(size=(3, 3)) ** 2)
    smaller = np.log(rows) - [[0.3], [0.1], [0.7]]
    assert_close(stationary(smaller), stationary(np.log(rows)), "stationary distribution")


def test_stationary_distribution_keeps_small_probabilities():
    rows = np.array([[1 - 1e-40, 1e-40], [1e-3, 1 - 1e-3]])
    assert stationary(np.log(rows))[1] == pytest.approx(1e-37, rel=1e-12)


def test_two_closed_classes_have_no_stationary_distribution():
    prior = bf.StationaryMarkovChain(None, bf.Sequences.from_lengths([2], names=["only"]))
    responses = bf.Responses.from_matrix([[0], [1]])
    observation = Observation.build(responses, prior, bf.Confusion(None))
    rows = observation.rows({"transition": np.eye(2), "confusion": np.full((1, 2, 2), 0.5)})
    with pytest.raises(ImpossibleDataError, match="sequence 'only'"):
        observation.draw(rows, np.random.default_rng(0))
