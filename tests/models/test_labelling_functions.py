"""Labelling functions: what the truth says on real rules, and on simulated ones."""

import numpy as np
import pytest
from rules import rules

import bayesfuse as bf
from bayesfuse.models import LabellingFunctions

QUIET = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def scores(labels, truth, chosen):
    """Scores over the chosen items, of whose classes none is impossible."""
    probability = np.clip(bf.label_probabilities(labels), 1e-4, 1.0)
    probability /= probability.sum("class")
    known = zip(probability["item"].values[chosen].tolist(), truth[chosen].tolist(), strict=True)
    return bf.checks.label_scores(probability, dict(known))


@pytest.mark.parametrize("shares", [(0.98, 0.02), (0.4, 0.3, 0.2, 0.1)])
def test_rules_that_are_independent_speak_for_themselves(shares):
    responses, truth = rules(4, shares=shares, n_rules=16)
    model = LabellingFunctions(responses, shares)
    assert float(model.notes["dispersion"]) < 1.3
    result = bf.sample(model, draws=100, **QUIET)
    votes, covered = bf.vote_shares(responses), responses.per_item > 0
    own, others = (scores(each, truth, covered) for each in (result, votes))
    assert own["accuracy"] >= others["accuracy"]
    assert own["log_loss"] < others["log_loss"] - 0.05


def test_groups_of_the_user_count_once():
    responses, _ = rules(7, copies=2)
    model = LabellingFunctions(responses, groups=[[0, 14, 15], [1, 3]])
    names = list(model.coords["vote"])
    assert "0 = 14 = 15: 0" in names and "1 = 3: 1" in names and len(names) == 13


@pytest.mark.slow
def test_find_map_predict_and_gold():
    responses, truth = rules(5, n_items=500)
    gold = dict(enumerate(truth[:50].tolist()))
    model = LabellingFunctions(responses, gold=gold)
    point = bf.find_map(model)
    probability = bf.label_probabilities(point, model).values
    assert (probability[:50].argmax(axis=1) == truth[:50]).all()
    plain = LabellingFunctions(responses)
    result = bf.sample(plain, draws=300, **QUIET)
    known = bf.label_probabilities(result).values
    found = bf.label_probabilities(bf.predict(result, responses.head(100), draws=1000)).values
    assert np.abs(found - known[:100]).max() < 0.02


@pytest.mark.slow
def test_silence_in_the_table_changes_nothing():
    responses, _ = rules(1, n_items=300)
    found = [
        bf.sample(LabellingFunctions(each), draws=50, **QUIET)["posterior"]
        for each in (responses, responses.completed())
    ]
    assert (found[0]["vote_share"] == found[1]["vote_share"]).all()


@pytest.mark.slow
def test_known_labels_count_whatever_the_dispersion():
    """Forty known labels of a bad rule among dependent ones move its accuracy, and narrow it."""
    responses, truth = rules(6, n_items=1500)
    fires = responses.item[responses.rater == 0]
    wrong = fires[truth[fires] == 1][:40]  # as if the rule were never right
    found = []
    for gold in (None, {int(item): 1 for item in wrong}):
        model = LabellingFunctions(responses, dispersion=5, gold=gold)
        result = bf.sample(model, draws=150, **QUIET)
        found.append(bf.sources(model, result).iloc[0])
    before, after = found
    assert before["accuracy"] > 0.7 and after["accuracy"] < 0.5
    assert after["accuracy_upper"] < before["accuracy_lower"] + 0.2
