"""SML and i-SML, and one class against the rest."""

import numpy as np
import pandas as pd
import pytest
from binary_populations import PREVALENCE, exact, joint, messy, population, two_class

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, completion, one_vs_rest, pairs
from bayesfuse.moments.pairs import against_rest


def test_improved_sml_gives_the_posterior_odds_of_a_population():
    _, chance = joint([1 - PREVALENCE, PREVALENCE], two_class())
    odds = np.log(chance[:, 1] / chance[:, 0])
    found = binary.improved_sml(population(), PREVALENCE, prior=True)
    np.testing.assert_allclose(found.score, odds, atol=1e-9)
    np.testing.assert_array_equal(found.label, (odds > 0).astype(int))
    vote = binary.improved_sml(population(), PREVALENCE)
    prior = np.log(PREVALENCE / (1 - PREVALENCE))
    np.testing.assert_allclose(vote.score, odds - prior, atol=1e-9)


def test_sml_is_the_weighted_vote_of_all_responses():
    responses = messy()
    found = binary.sml(responses)
    v = completion.rank_one(pairs.covariance(responses))
    np.testing.assert_array_equal(found.weight, v)
    for n in range(responses.n_items):
        mine = responses.item == n
        score = np.sum((2 * responses.label[mine] - 1) * v.values[responses.rater[mine]])
        assert found.score[n] == pytest.approx(score, abs=1e-12)


def test_ties_and_unanswered_items_get_the_usual_class():
    labels = np.array([["a", "a", "a"]] * 6 + [["b", "b", "b"]] * 4 + [["a", "a", "b"]])
    table = pd.DataFrame(labels).melt(ignore_index=False).reset_index()
    responses = bf.Responses.from_long(
        table, item="index", rater="variable", label="value", items=range(12)
    )
    for fused in (binary.sml(responses), binary.improved_sml(responses, 0.4)):
        assert fused.score[-1] == 0
        assert fused.label[-1] == "a"
        assert fused.label[6] == "b"
        assert fused.attrs["positive"] == "b"
    prior = binary.improved_sml(responses, 0.6, prior=True)
    assert prior.score[-1] == pytest.approx(np.log(1.5))
    assert prior.label[-1] == "b"


def test_raters_who_never_differ_are_refused():
    responses = bf.Responses.from_matrix(np.zeros((9, 4), int), classes=[0, 1])
    with pytest.raises(MomentsError, match=r"vary their responses.* 0 of them varying"):
        binary.sml(responses)
    with pytest.raises(MomentsError, match="Class 0 against the rest: Three raters"):
        one_vs_rest(bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 1]], classes=[0, 1, 2]))


def test_one_vs_rest_recovers_prevalence_and_diagonals():
    """Of raters who know, or guess with their own favourites: the rest is then no mixture."""
    prevalence = np.array([0.5, 0.3, 0.2])
    guess = np.array([[0.1, 0.2, 0.1], [0.3, 0.1, 0.1], [0.1, 0.1, 0.3], [0.2, 0.1, 0.1]])
    confusion = (1 - guess.sum(1))[:, None, None] * np.eye(3) + guess[:, None, :]
    found = one_vs_rest(exact(prevalence, confusion))
    diagonal = np.diagonal(confusion, axis1=1, axis2=2)
    np.testing.assert_allclose(found.prevalence, prevalence, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-6)
    np.testing.assert_allclose(found.specificity, 1 - guess, atol=1e-6)
    assert found.attrs["total"] == pytest.approx(1, abs=1e-6)


def test_against_rest_keeps_the_rows_of_repeats_in_order():
    table = {"item": [0] * 5, "rater": [0, 0, 0, 1, 1], "label": [0, 1, 2, 1, 2]}
    part = against_rest(bf.Responses.from_long(table), 1)
    assert part.rater.tolist() == [0, 0, 0, 1, 1]
    assert part.label.tolist() == [0, 0, 1, 0, 1]
