"""Votes given their number: enumeration, near copies, dispersion, and the model of them."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from rules import drawn_votes, rules

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LabellingFunctions
from bayesfuse.observation import ResponseModel
from bayesfuse.raters import dependence
from bayesfuse.testing import assert_close, assert_frequencies, check_rater_channel, simulate

COLUMN = np.array([[0, -1, -1], [-1, 1, 2], [0, -1, -1], [-1, -1, -1], [-1, -1, 3]])
"""Five sources of three labels: the first and the third are copies, the fourth says nothing."""

SHARE = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.5, 0.2, 0.2], [0.25, 0.05, 0.3, 0.4]])


def table():
    matrix = [[0, 1, 0, 2, -1], [-1, 2, 0, -1, 2], [-1, -1, -1, 0, -1], [0, -1, -1, -1, -1]]
    return bf.Responses.from_matrix(matrix, classes=[0, 1, 2])


def log_lik(channel, responses, share, gold=None):
    known = np.full(responses.n_items, -1) if gold is None else np.array(gold)
    structure = channel.structure(responses, known)
    return channel.log_lik(channel.expand((np.log(share),), len(share), np), structure)


def test_votes_multiply_and_copies_count_once():
    expected = np.log([SHARE[:, 0] * SHARE[:, 1], SHARE[:, 0] * SHARE[:, 2] * SHARE[:, 3],
                       np.ones(3), SHARE[:, 0]])  # fmt: skip
    assert_close(log_lik(bf.build.Votes(None, COLUMN), table(), SHARE), expected, "log-likelihood")


def test_repeated_votes_count_once_and_known_classes_exclude():
    rows = {"item": [0, 0, 1], "rater": [0, 0, 1], "label": [0, 0, 2]}
    responses = bf.Responses.from_long(rows, raters=range(5), classes=range(3))
    found = log_lik(bf.build.Votes(None, COLUMN), responses, SHARE, gold=[2, -1])
    assert_close(found[1], np.log(SHARE[:, 2]), "one vote")
    assert found[0].tolist() == [-np.inf, -np.inf, np.log(0.25)]


def test_one_source_that_always_speaks_is_a_confusion_matrix():
    rows = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    responses = bf.Responses.from_matrix([[0], [2], [1], [2]], classes=[0, 1, 2])
    confusion = bf.build.Confusion(rows[None])
    known = np.full(4, -1)
    other = confusion.log_lik((np.log(rows)[None],), confusion.structure(responses, known))
    assert_close(
        log_lik(bf.build.Votes(None, [[0, 1, 2]]), responses, rows), other, "log-likelihood"
    )


def test_simulated_votes_have_the_vote_shares():
    channel = bf.build.Votes(None, COLUMN)
    tables = channel.expand((np.log(SHARE),), 3, np)
    rows = channel.confusion(tables, 3, np)
    assert_close(rows[1, 0], [0.0, 2 / 3, 1 / 3], "of two labels", atol=1e-9)
    assert_close(rows[3], np.full((3, 3), 1 / 3), "of a silent source")
    drawn = channel.simulate(tables, np.zeros(4, dtype=int), table(), np.random.default_rng(1))
    assert (drawn[table().rater == 0] == 0).all() and (drawn[table().rater == 4] == 2).all()


def test_predictive_draws_keep_votes_and_copies():
    """Truths follow from who spoke, what is said from the truth; the third source says 2 only."""
    column = np.array([[0, 1, -1], [0, 1, 2], [-1, -1, 3]])  # two sources share two labels
    responses = bf.Responses.from_matrix([[1, 1, 2], [0, -1, -1]], classes=range(3))
    observation = ResponseModel.build(
        responses, bf.build.Independent(None), bf.build.Votes(None, column)
    )
    prevalence, rng = np.array([0.5, 0.3, 0.2]), np.random.default_rng(4)
    rows = {"prevalence": np.log(prevalence), "vote_share": np.log(SHARE)}
    seen = np.zeros((2, 3, 2))
    for _ in range(4000):
        truth, label = observation.simulate(rows, rng)
        assert label[0] == label[1] and label[2] == 2
        np.add.at(seen, (np.arange(2), truth, label[[0, 3]]), 1)
    one = prevalence[:, None] * SHARE[:, :2] * SHARE[:, [3]]
    other = prevalence[:, None] * SHARE[:, :2]
    assert_frequencies(seen[0].ravel(), one.ravel() / one.sum(), "truth and what copies say")
    assert_frequencies(seen[1].ravel(), other.ravel() / other.sum(), "truth and one label")


def test_contract_where_items_have_one_vote():
    channel, responses = bf.build.Votes(None, COLUMN), table().take(np.array([3, 2, 3]))
    check_rater_channel(channel, channel.expand((np.log(SHARE),), 3, np), responses)


def test_simulated_tables_have_as_many_votes_of_all_copies():
    """Sets of votes are as frequent as the products of their shares; silence goes with them."""
    channel, size = bf.build.Votes(None, COLUMN), 6000
    said = [[np.nan, 2, 0, -1, 2]]
    responses = bf.Responses.from_matrix(said, abstain=-1, classes=range(3), raters=range(5))
    responses = replace(responses.take(np.zeros(size, dtype=int)), items=np.arange(size))
    tables = channel.expand((np.log(SHARE),), 3, np)
    sets = list(combinations(range(4), 3))
    for k in range(3):
        rng = np.random.default_rng(k)
        drawn = channel.redraw_fixed_features(tables, np.full(size, k), responses, rng)
        start, vote = channel.rows(drawn)
        assert (np.diff(start.astype(int)) == 3).all()
        seen = np.bincount((1 << vote.reshape(size, 3).astype(int)).sum(axis=1), minlength=16)
        product = np.array([SHARE[k, each].prod() for each in map(list, sets)])
        mask = [sum(1 << v for v in each) for each in sets]
        assert_frequencies(seen[mask].astype(float), product / product.sum(), f"class {k}")
        spoke = np.bincount(drawn.rater, minlength=5)
        assert spoke[0] == spoke[2] == seen[[m for m in mask if m & 1]].sum() and spoke[3] == 0
        silent = np.bincount(drawn.silent.pairs[1], minlength=5)
        assert silent[0] == 0 and silent[3] == size  # of the first source nothing was known
        assert spoke[4] + silent[4] == size == spoke[2] + silent[2]


def prior_model(responses):
    with pm.Model(coords={"class": range(3), "vote": range(4)}) as model:
        prevalence = pm.Dirichlet("prevalence", [3.0, 2.0, 2.0], dims="class")
        share = pm.Dirichlet("vote_share", 8 * SHARE, dims=("class", "vote"))
        bf.build.observe(
            responses, labels=bf.build.Independent(prevalence), raters=bf.build.Votes(share, ALONE)
        )
    return model


ALONE = np.array([[0, -1, -1], [-1, 1, -1], [-1, -1, 2], [-1, -1, 3]])


def test_label_probabilities_of_simulated_tables_are_calibrated():
    """At the drawn parameters, items of one vote are of a class as often as its probability."""
    rows = {"item": range(400), "rater": np.arange(400) % 4, "label": np.array([0, 1, 2, 2] * 100)}
    model = prior_model(bf.Responses.from_long(rows, classes=range(3)))
    for seed in range(4):
        parameters, truth, drawn = simulate(model, random_seed=seed)
        share = log_lik(bf.build.Votes(None, ALONE), drawn, parameters["vote_share"])
        joint = parameters["prevalence"] * np.exp(share)
        probability = joint / joint.sum(axis=1, keepdims=True)
        gap = (np.eye(3)[truth] - probability).sum(axis=0)
        error = np.sqrt((probability * (1 - probability)).sum(axis=0))
        assert (np.abs(gap) < 5 * error).all() and drawn.per_item.tolist() == [1] * 400


def test_prediction_ignores_sources_that_were_not_fitted():
    rng = np.random.default_rng(3)
    responses, _ = drawn_votes([0.5, 0.3, 0.2], SHARE, ALONE, np.repeat([1, 2], 30), rng)
    result = bf.find_map(prior_model(responses))
    new = bf.Responses.from_matrix([[0, -1, -1, -1, 1], [0, -1, -1, -1, -1]], classes=range(3))
    known = bf.Responses.from_matrix([[0, -1, -1, -1]], classes=range(3))
    other = bf.label_probabilities(bf.predict(result, known)).values
    with pytest.warns(bf.errors.NewRatersWarning):
        one = bf.label_probabilities(bf.predict(result, new)).values
    assert_close(one[0], one[1], "with a vote of a new source and without")
    assert_close(one[1], other[0], "in a table of old sources")


def test_wrong_columns_are_refused():
    for column, words in (([0, 1, 2], "shape"), ([[0, 1, 2]], "raters"), (-np.ones((5, 3)), "-1")):
        with pytest.raises(ModelError, match=words), pm.Model():
            bf.build.observe(
                table(),
                labels=bf.build.Independent(np.ones(3) / 3),
                raters=bf.build.Votes(SHARE, np.array(column)),
            )


def test_copies_share_a_column_and_others_do_not():
    responses, _ = rules(1, copies=3)
    column = dependence.columns(responses, np.array([0.5, 0.5]))
    first = column[0, 0]
    assert column[14:, 0].tolist() == [first] * 3
    assert len(np.unique(column[column >= 0])) == 14
    assert (column[:, 0] >= 0).tolist() == [m % 2 == 0 for m in range(14)] + [True] * 3


def test_frequent_agreement_of_good_rules_is_not_copying():
    """Of a class of one item in ten, two rules that are always right meet on all its items."""
    matrix = np.full((1000, 3), -1)
    matrix[:100, :2], matrix[100:900, 2] = 1, 0
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    apart = dependence.columns(responses, np.array([0.9, 0.1]))
    assert len(np.unique(apart[apart >= 0])) == 3
    together = dependence.columns(responses, np.array([0.5, 0.5]))
    assert together[0, 1] == together[1, 1]


def test_counted_tables_have_the_columns_of_expanded_ones():
    table = bf.Responses.from_counts({"0.1": 40, "00.": 60, ".11": 30, "...": 50}, missing=".")
    found = [dependence.columns(each, np.array([0.6, 0.4])) for each in (table, table.expand())]
    assert (found[0] == found[1]).all()


def dispersion_of(met, expected):
    """That of pairs of sources which met so often, and were expected to."""
    total = sum((o - expected[p]) ** 2 / max(expected[p], 1.0) for p, o in met.items())
    informative = sum(min(expected[p], 1.0) for p in met)
    prior = dependence.PAIRS * dependence.EXPECTED
    return (prior + total) / (dependence.PAIRS + informative)


def test_dispersion_by_hand(monkeypatch):
    """Three single-label sources, every pair once, in blocks of one row as in one block."""
    matrix = [[0, 0, -1], [0, -1, 1], [0, 0, 1], [-1, 0, -1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    votes = bf.build.Votes(None, [[0, -1], [1, -1], [-1, 2]])
    share = np.array([[0.5, 0.4, 0.1], [0.3, 0.1, 0.6]])
    probability = np.array([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4], [1.0, 0.0]])
    pairs = np.array([2.0, 2.0, 6.0, 0.0]) @ probability  # T (T - 1) by class
    weight = pairs / (1 - (share**2).sum(axis=1))
    expected = (share.T * weight) @ share
    by_hand = dispersion_of({(0, 1): 2, (0, 2): 2, (1, 2): 1}, expected)
    assert np.isclose(dependence.dispersion(votes, responses, share, probability), by_hand)
    monkeypatch.setattr(dependence, "BLOCK", 1)
    assert np.isclose(dependence.dispersion(votes, responses, share, probability), by_hand)


def test_labels_of_one_source_do_not_count_as_a_pair():
    matrix = [[0, -1], [1, 1], [0, 1], [1, -1]]
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    votes = bf.build.Votes(None, [[0, 1], [-1, 2]])
    share, even = np.array([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]]), np.full((4, 2), 0.5)
    again = share[:, :2].sum(axis=1) ** 2 + share[:, 2] ** 2  # by source
    met = {(0, 2): 1, (1, 2): 1}
    expected = {p: (2 * share[:, p[0]] * share[:, p[1]] / (1 - again)).sum() for p in met}
    by_hand = dispersion_of(met, expected)
    assert np.isclose(dependence.dispersion(votes, responses, share, even), by_hand)


def test_a_large_table_is_sampled():
    responses, _ = rules(3, n_items=40_000)
    assert float(LabellingFunctions(responses).notes["dispersion"]) < 1.6


QUIET = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def scores(labels, truth, chosen):
    """Scores over the chosen items, of whose classes none is impossible."""
    probability = np.clip(bf.label_probabilities(labels), 1e-4, 1.0)
    probability /= probability.sum("class")
    known = zip(probability["item"].values[chosen].tolist(), truth[chosen].tolist(), strict=True)
    return bf.checks.label_scores(probability, dict(known))


@pytest.mark.parametrize("shares", [(0.98, 0.02), (0.4, 0.3, 0.2, 0.1)])
def test_independent_rules_have_dispersion_one(shares):
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
    model = LabellingFunctions(responses, gold=pd.Series(gold))
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
    """All known labels of a rule among dependent ones are wrong votes: its accuracy is low."""
    responses, truth = rules(6, n_items=1500)
    fires = responses.item[responses.rater == 0]
    wrong = fires[truth[fires] == 1]  # as if the rule were never right
    found = []
    for gold in (None, {int(item): 1 for item in wrong}):
        model = LabellingFunctions(responses, dispersion=5, gold=gold)
        result = bf.sample(model, draws=150, **QUIET)
        found.append(bf.rater_table(result).set_index("rater").loc[0])
    before, after = found
    assert before["accuracy"] > 0.7 and after["accuracy"] < 0.5
    assert after["high"] < before["low"] + 0.2
