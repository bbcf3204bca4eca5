"""Binary moments: scores by SML, class imbalance and accuracies."""

import itertools

import numpy as np
import pandas as pd
import pytest
from binary_populations import (
    PREVALENCE,
    SENSITIVITY,
    SPECIFICITY,
    exact,
    joint,
    messy,
    population,
    sample,
    two_class,
)

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, completion, imbalance, one_vs_rest, pairs
from bayesfuse.moments.pairs import against_rest


@pytest.mark.parametrize("prevalence", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("method", "tolerance"), [("tensor", 1e-10), ("likelihood", 1e-6)])
def test_a_population_reveals_prevalence_and_accuracies(prevalence, method, tolerance):
    """The likelihood is flat at its maximum, which is found to the square root of rounding."""
    responses = exact([1 - prevalence, prevalence], two_class())
    found = imbalance.class_imbalance(responses, method)
    assert found.prevalence == pytest.approx(prevalence, abs=tolerance)
    quality = binary.accuracies(responses, method=method)
    np.testing.assert_allclose(quality.sensitivity, SENSITIVITY, atol=tolerance)
    np.testing.assert_allclose(quality.specificity, SPECIFICITY, atol=tolerance)
    given = binary.accuracies(responses, prevalence)
    np.testing.assert_allclose(given.sensitivity, SENSITIVITY, atol=1e-10)
    assert given.attrs == {"prevalence": prevalence, "method": "given", "positive": 1}


def test_triple_sums_are_those_over_triples():
    responses = messy()
    rng = np.random.default_rng(8)
    mean, v = rng.uniform(-0.5, 0.5, 5), rng.uniform(-0.2, 0.8, 5)
    multiplicity = rng.integers(0, 4, responses.n_items)
    answers = responses.to_frame().groupby(["item", "rater"]).label.mean().unstack()
    z = (2 * answers.to_numpy() - 1 - mean) * v
    wanted = np.zeros(2)
    for i, j, k in itertools.combinations(range(5), 3):
        product = z[:, i] * z[:, j] * z[:, k]
        wanted += (
            np.nansum(multiplicity * product),
            (np.sum(multiplicity[np.isfinite(product)]) * (v[i] * v[j] * v[k]) ** 2),
        )
    found = imbalance.triple_sums(responses.start, responses.cell, multiplicity, mean, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_mixture_is_the_likelihood_of_every_response():
    responses = messy()
    table = imbalance.log_table(SENSITIVITY, SPECIFICITY)
    confusion = two_class()
    total = 0.0
    for n in range(responses.n_items):
        mine = responses.item == n
        chance = confusion[responses.rater[mine], :, responses.label[mine]].prod(0)
        total += np.log(0.6 * chance[0] + 0.4 * chance[1])
    rows = responses.start, responses.cell, responses.multiplicity
    found = imbalance.mixture(table, np.log([0.6, 0.4]), *rows)
    assert found == pytest.approx(total / responses.n_items, rel=1e-12)


def test_third_moments_need_three_answers_to_an_item():
    """Raters meet in all pairs, but never three of them."""
    rng = np.random.default_rng(14)
    labels = sample(rng, 300, SENSITIVITY[:3], SPECIFICITY[:3], 0.4)
    labels[np.arange(300), np.arange(300) % 3] = -1
    responses = bf.Responses.from_matrix(labels)
    with pytest.raises(MomentsError, match=r"by three raters .* Got: none among 300 items"):
        imbalance.class_imbalance(responses, "tensor")
    with pytest.raises(MomentsError, match=r"method of class_imbalance .* Got: 'guess'"):
        imbalance.class_imbalance(population(), "guess")


def test_an_imbalance_at_the_edge_is_refused():
    rare = exact([0.997, 0.003], two_class(SENSITIVITY[:4], np.full(4, 0.99)))
    for method in ("likelihood", "tensor"):
        with pytest.raises(MomentsError, match=r"at the edge.* Got: imbalance -0\.99"):
            imbalance.class_imbalance(rare, method)
    found = binary.accuracies(rare, prevalence=0.003)
    np.testing.assert_allclose(found.sensitivity, SENSITIVITY[:4], atol=1e-6)


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
