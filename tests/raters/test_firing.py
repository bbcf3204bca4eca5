"""Rules whose silence is evidence: rates of firing, and classes for which no rule votes."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LabellingFunctions
from bayesfuse.testing import assert_close

QUIET = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def fired(seed, shares, label, hit, alarm, n_items=1000):
    """Return votes (−1: silence) of rules that are independent given the class, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(len(shares), n_items, p=shares)
    rate = np.where(truth[:, None] == label, hit, alarm)
    return np.where(rng.random(rate.shape) < rate, label, -1), truth


def exact(votes, shares, label, hit, alarm):
    """Return label probabilities at the rates that were drawn from, by enumeration."""
    rate = np.where(np.arange(len(shares))[:, None] == label, hit, alarm)  # (classes, rules)
    says = (votes >= 0)[:, None]
    joint = shares * np.where(says, rate, 1.0 - rate).prod(axis=2)
    return joint / joint.sum(axis=1, keepdims=True)


def log_loss(probability, truth):
    return -np.log(np.clip(probability[np.arange(len(truth)), truth], 1e-4, 1)).mean()


ONE_SIDED = [0.7, 0.3], np.array([1, 1, 1]), np.array([0.7, 0.6, 0.5]), np.array([0.05, 0.1, 0.02])
NO_RULE_FOR_0 = (
    [0.5, 0.3, 0.2],
    np.array([1, 2, 1, 2, 1, 2]),
    np.array([0.6, 0.5, 0.4, 0.7, 0.5, 0.4]),
    np.array([0.05, 0.02, 0.05, 0.08, 0.02, 0.05]),
)


@pytest.mark.parametrize("table", [ONE_SIDED, pytest.param(NO_RULE_FOR_0, marks=pytest.mark.slow)])
def test_a_class_without_a_rule_is_known_by_silence(table):
    shares, label, hit, alarm = table
    votes, truth = fired(1, shares, label, hit, alarm)
    best = log_loss(exact(votes, shares, label, hit, alarm), truth)
    responses = bf.Responses.from_matrix(votes, classes=range(len(shares)))
    for given in (None, shares):
        model = LabellingFunctions(responses, given)
        found = bf.label_probabilities(bf.sample(model, 100, **QUIET)).values
        assert log_loss(found, truth) < best + 0.05
        assert float(model.notes["dispersion"]) < 1.2


def test_declared_silence_is_that_of_minus_one():
    votes, _ = fired(2, *ONE_SIDED, n_items=300)
    found = [
        bf.find_map(LabellingFunctions(bf.Responses.from_matrix(votes, classes=[0, 1], **silence)))
        for silence in ({}, {"abstain": -1})
    ]
    one, other = (bf.label_probabilities(each).values for each in found)
    assert_close(one, other, "label probability")


def test_exact_copies_count_once():
    votes, _ = fired(3, *ONE_SIDED)
    copied = np.column_stack([votes, votes[:, 0], votes[:, 0]])
    one, other = (
        LabellingFunctions(bf.Responses.from_matrix(each, classes=[0, 1]), [0.7, 0.3])
        for each in (votes, copied)
    )
    assert len(one.coords["vote"]) == len(other.coords["vote"]) == 3
    assert "0: 1" in one.coords["vote"] and "0 = 3 = 4: 1" in other.coords["vote"]


@pytest.mark.slow
def test_rates_give_the_accuracy_of_rules():
    votes, truth = fired(4, *ONE_SIDED, n_items=3000)
    model = LabellingFunctions(bf.Responses.from_matrix(votes, classes=[0, 1]))
    table = bf.rater_table(bf.sample(model, 100, **QUIET)).sort_values("rater")
    right = [(truth[votes[:, m] == 1] == 1).mean() for m in range(3)]
    assert np.abs(table["accuracy"].to_numpy() - right).max() < 0.06


def test_one_rule_cannot_tell_and_the_model_that_can_is_named():
    votes, truth = fired(5, *ONE_SIDED, n_items=100)
    responses = bf.Responses.from_matrix(votes[:, :1], classes=[0, 1])
    with pytest.raises(ModelError, match="WeightedVotes"):
        LabellingFunctions(responses)
    LabellingFunctions(responses, gold=dict(enumerate(truth[:20].tolist())))
