"""Truths drawn where some are known: the others given those, for every label prior."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError
from bayesfuse.models import HiddenMarkov, MarkovRandomField
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


def sticky(rng, n_items):
    """Labels that stay 19 times of 20, four raters of whom each is right nine times of ten."""
    truth = np.cumsum(rng.random(n_items) < 0.05) % 2
    right = rng.random((n_items, 4)) < 0.9
    return truth, np.where(right, truth[:, None], 1 - truth[:, None])


def true_result(model, **values):
    """A result whose draws are the parameters that made the data."""
    dims = {name: model.named_vars_to_dims.get(name, ()) for name in values}
    posterior = xr.Dataset(
        {
            name: (("chain", "draw", *dims[name]), np.asarray(value)[None, None])
            for name, value in values.items()
        },
        {dim: list(model.coords[dim]) for dim in {dim for own in dims.values() for dim in own}},
    )
    return xr.DataTree.from_dict({"posterior": posterior})


@pytest.mark.parametrize("structure", ["sequence", "graph"])
def test_checks_do_not_accuse_true_models_with_gold(structure):
    """Every second truth known: drawn apart from those, neighbours would differ half the time."""
    truth, answers = sticky(np.random.default_rng(3), 300)
    responses = bf.Responses.from_matrix(answers)
    gold = {n: int(truth[n]) for n in range(0, 300, 2)}
    accuracy = np.tile([[0.9, 0.1], [0.1, 0.9]], (4, 1, 1))
    if structure == "sequence":
        model = HiddenMarkov(responses, bf.Sequences.from_lengths([300]), gold=gold)
        values = {"initial": [0.5, 0.5], "transition": [[0.95, 0.05], [0.05, 0.95]]}
        check = bf.checks.runs
    else:
        path = bf.Graph.from_edges([(n, n + 1) for n in range(299)])
        model = MarkovRandomField(responses, path, gold=gold)
        values = {"coupling": np.log(19.0)}
        check = bf.checks.neighbour_agreement
    result = true_result(model, confusion=accuracy, **values)
    found = check(result, model, draws=40, random_seed=1)
    assert found.attrs["p_value"] > 0.05
    assert found.attrs["replicated"] == pytest.approx(found.attrs["observed"], abs=0.05)
    with model:
        drawn = pm.sample_posterior_predictive(result, random_seed=1, progressbar=False)
    label = drawn["posterior_predictive"]["responses"].values.reshape(300, 4)
    # between two known neighbours of one label, which the item then has 361 times of 362
    known = truth[::2]
    same = known[:-1] == known[1:]
    said = label[1:-1:2][same] == known[:-1][same][:, None]
    assert said.mean() == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / said.size))


def test_known_truths_that_cannot_be_are_refused():
    sequences = bf.Sequences.from_lengths([3])
    responses = bf.Responses.from_matrix([[0], [0], [0]], classes=range(3))
    prior = bf.MarkovChain(INITIAL, TRANSITION, sequences)
    channel = bf.Confusion(np.full((1, 3, 3), 1 / 3))
    observation = Observation.build(responses, prior, channel, {0: 0, 1: 2})
    rows = observation.rows({**prior.parameters, **channel.parameters})
    with pytest.raises(ImpossibleDataError, match="sequence"):
        observation.simulate(rows, np.random.default_rng(1))
