"""Truths drawn where some are known: the others given those, for every label prior."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError
from bayesfuse.observation import Observation
from bayesfuse.testing import assert_frequencies, enumerate_labels

INITIAL = np.array([0.5, 0.3, 0.2])
TRANSITION = np.array([[0.8, 0.2, 0.0], [0.1, 0.6, 0.3], [0.3, 0.0, 0.7]])
ITEMS = ["e", "b", "d", "a", "c"]  # in the table in another order than in sequence
GOLD = {"b": 2, "d": 0}


def priors():
    sequences = bf.Sequences.from_table(
        {"item": list("abcde"), "sequence": [0, 0, 0, 0, 1], "position": [0, 1, 2, 3, 0]}
    )
    circle = bf.Graph.from_edges(
        [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e")], [1.0, 0.7, 1.5, 1.0, 0.4]
    )
    share = [0.5, 0.2, 0.3]
    return {
        "independent": (bf.Independent(INITIAL), 2000),
        "chain": (bf.MarkovChain(INITIAL, TRANSITION, sequences), 2000),
        "stationary": (bf.StationaryMarkovChain(TRANSITION, sequences), 2000),
        "Potts": (bf.Potts(1.3, circle, share), 200),
        "planted": (bf.PlantedPotts(1.3, circle, share), 200),
    }


@pytest.mark.parametrize("name", priors())
def test_truths_are_drawn_given_the_known_ones(name):
    prior, draws = priors()[name]
    responses = bf.Responses.from_matrix(np.zeros((5, 1), dtype=int), items=ITEMS, classes=range(3))
    channel = bf.Confusion(np.full((1, 3, 3), 1 / 3))
    observation = Observation.build(responses, prior, channel, GOLD)
    rows = observation.rows({**prior.parameters, **channel.parameters})
    log_lik = np.zeros((5, 3))
    for item, label in GOLD.items():
        log_lik[ITEMS.index(item), [k for k in range(3) if k != label]] = -np.inf
    structure = prior.structure(responses)
    exact = enumerate_labels(prior, observation.label_tables(rows), log_lik, structure)
    rng = np.random.default_rng(1)
    seen = np.zeros(len(exact.weight))
    for _ in range(draws):
        truth, _ = observation.simulate(rows, rng)
        seen[truth @ 3 ** np.arange(5)[::-1]] += 1
    assert not seen[exact.weight == 0].any()
    assert_frequencies(seen, exact.weight, "truths")


def test_known_truths_that_cannot_be_are_refused():
    sequences = bf.Sequences.from_lengths([3])
    responses = bf.Responses.from_matrix([[0], [0], [0]], classes=range(3))
    prior = bf.MarkovChain(INITIAL, TRANSITION, sequences)
    channel = bf.Confusion(np.full((1, 3, 3), 1 / 3))
    observation = Observation.build(responses, prior, channel, {0: 0, 1: 2})
    rows = observation.rows({**prior.parameters, **channel.parameters})
    with pytest.raises(ImpossibleDataError, match="sequence"):
        observation.simulate(rows, np.random.default_rng(1))
