"""Labelling functions: what the truth says on real rules, and on simulated ones."""

from __future__ import annotations

import numpy as np
import pytest
from rules import drawn_votes, rules

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LabellingFunctions

QUIET = {"progressbar": False, "quiet": True}


def scores(probability, truth, chosen):
    """Accuracy and log-loss over the chosen items."""
    clipped = np.clip(probability, 1e-4, 1.0)
    clipped /= clipped.sum(axis=1, keepdims=True)
    loss = -np.log(clipped[np.arange(len(truth)), truth])
    return (probability.argmax(axis=1) == truth)[chosen].mean(), loss[chosen].mean()


def vote_shares(responses):
    """Shares of the votes, with one more vote spread over all classes."""
    votes = responses.votes() + 1 / responses.n_classes
    return votes / votes.sum(axis=1, keepdims=True)


def majority_accuracy(responses, truth, chosen):
    """Accuracy of the most votes, ties shared."""
    votes = responses.votes()
    best = votes == votes.max(axis=1, keepdims=True)
    return (best[np.arange(len(truth)), truth] / best.sum(axis=1))[chosen].mean()


@pytest.mark.parametrize("name", ["wrench_youtube", "wrench_trec"])
@pytest.mark.parametrize("given", [False, True], ids=["shares inferred", "shares given"])
def test_real_rules_beat_votes(development_data, name, given):
    responses, truth = development_data(name)
    responses = bf.Responses.from_long(responses.to_frame(), items=truth["item"].tolist())
    truth = truth["label"].to_numpy()
    shares = np.bincount(truth) / len(truth) if given else None
    result = bf.sample(LabellingFunctions(responses, shares), draws=200, random_seed=1, **QUIET)
    probability = bf.label_probabilities(result).values
    covered = responses.per_item > 0
    accuracy = scores(probability, truth, covered)[0]
    assert accuracy > majority_accuracy(responses, truth, covered) - 0.005
    for chosen in (covered, np.ones(len(truth), dtype=bool)):
        assert (
            scores(probability, truth, chosen)[1] < scores(vote_shares(responses), truth, chosen)[1]
        )
    assert float(result.attrs["dispersion"]) > 2  # these rules are wrong together
    assert np.bincount(probability.argmax(axis=1)).max() < 0.8 * len(truth)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.98, 0.02), (0.4, 0.3, 0.2, 0.1)])
def test_rules_that_are_independent_speak_for_themselves(shares):
    responses, truth = rules(4, shares=shares, n_rules=16)
    model = LabellingFunctions(responses, shares)
    assert float(model.notes["dispersion"]) < 1.3
    result = bf.sample(model, draws=200, random_seed=1, **QUIET)
    covered = responses.per_item > 0
    accuracy, loss = scores(bf.label_probabilities(result).values, truth, covered)
    assert accuracy >= majority_accuracy(responses, truth, covered)
    assert loss < scores(vote_shares(responses), truth, covered)[1] - 0.05


@pytest.mark.slow
def test_copies_change_little():
    alone, truth = rules(7)
    copied, _ = rules(7, copies=6)
    assert (rules(7)[1] == truth).all()
    found = [
        bf.label_probabilities(
            bf.sample(LabellingFunctions(each), draws=300, random_seed=1, **QUIET)
        ).values
        for each in (alone, copied)
    ]
    assert np.abs(found[0] - found[1]).mean() < 0.03
    apart = bf.sample(
        LabellingFunctions(copied, groups=None, dispersion=1), draws=300, random_seed=1, **QUIET
    )
    assert np.abs(found[0] - bf.label_probabilities(apart).values).mean() > 0.06


def test_groups_of_the_user_count_once():
    responses, _ = rules(7, copies=2)
    model = LabellingFunctions(responses, groups=[[0, 14, 15], [1, 3]])
    names = list(model.coords["vote"])
    assert "0 = 14 = 15: 0" in names and "1 = 3: 1" in names and len(names) == 13


def test_intervals_of_shares_are_the_prior():
    responses, _ = rules(1)
    model = LabellingFunctions(responses, {0: (0.2, 0.4), 1: (0.6, 0.8)})
    result = bf.sample(model, draws=300, random_seed=1, **QUIET)
    assert 0.2 < result["posterior"]["prevalence"].sel({"class": 0}).mean() < 0.45


def test_find_map_predict_and_gold():
    responses, truth = rules(5)
    gold = dict(enumerate(truth[:50].tolist()))
    model = LabellingFunctions(responses, gold=gold)
    point = bf.find_map(model)
    probability = bf.label_probabilities(point, model).values
    assert (probability[:50].argmax(axis=1) == truth[:50]).all()
    plain = LabellingFunctions(responses)
    result = bf.sample(plain, draws=300, random_seed=1, **QUIET)
    known = bf.label_probabilities(result).values
    found = bf.label_probabilities(bf.predict(result, responses.head(100), draws=1000)).values
    assert np.abs(found - known[:100]).max() < 0.02


@pytest.mark.slow
def test_intervals_of_accuracies_cover_where_rules_are_as_modelled():
    """Of 90 percent intervals in 20 tables of 36 rules, by whose number repeats are rare."""
    covered, prevalence, rule = [], np.array([0.3, 0.3, 0.4]), np.arange(36)
    column = np.full((36, 3), -1)
    column[rule, rule % 3] = rule
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base, lift = rng.dirichlet(np.full(36, 8.0)), rng.lognormal(np.log(8), 0.5, 36)
        share = base * np.where(np.arange(3)[:, None] == rule % 3, lift, 1.0)
        share /= share.sum(axis=1, keepdims=True)
        responses, _ = drawn_votes(prevalence, share, column, rng.integers(0, 5, 1500), rng)
        model = LabellingFunctions(responses)
        result = bf.sample(model, draws=300, random_seed=1, **QUIET)
        found = bf.sources(model, result, ci_prob=0.9)
        joint = prevalence[:, None] * share
        true = joint[rule % 3, rule] / joint.sum(axis=0)
        covered.append((found["accuracy_lower"] <= true) & (true <= found["accuracy_upper"]))
    assert 0.86 < np.mean(covered) < 0.94  # 720 intervals


@pytest.mark.parametrize(("arguments", "words"), [
    ({"odds": 1.0}, "odds must be above one"),
    ({"weight": 0.0}, "weight"),
    ({"dispersion": 0.5}, "dispersion must be above one"),
    ({"class_shares": [0.7, 0.7]}, "sum"),
    ({"groups": "posterior"}, "groups"),
    ({"gold": {"nobody": 0}}, "nobody"),
])  # fmt: skip
def test_odd_arguments(arguments, words):
    responses, _ = rules(1, n_items=100)
    with pytest.raises((ModelError, bf.errors.ResponsesError), match=words):
        LabellingFunctions(responses, **arguments)


def test_silence_in_the_table_changes_nothing():
    responses, _ = rules(1, n_items=300)
    found = [
        bf.sample(LabellingFunctions(each), draws=50, random_seed=1, **QUIET)["posterior"]
        for each in (responses, responses.completed())
    ]
    assert (found[0]["vote_share"] == found[1]["vote_share"]).all()


def test_known_labels_count_whatever_the_dispersion():
    """Forty known labels of a bad rule among dependent ones move its accuracy, and narrow it."""
    responses, truth = rules(6)
    fires = responses.item[responses.rater == 0]
    wrong = fires[truth[fires] == 1][:40]  # as if the rule were never right
    found = []
    for gold in (None, {int(item): 1 for item in wrong}):
        model = LabellingFunctions(responses, dispersion=5, gold=gold)
        result = bf.sample(model, draws=200, random_seed=1, **QUIET)
        found.append(bf.sources(model, result).iloc[0])
    before, after = found
    assert before["accuracy"] > 0.7 and after["accuracy"] < 0.5
    assert after["accuracy_upper"] < before["accuracy_lower"] + 0.2
