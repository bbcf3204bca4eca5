"""Binary moments: covariances of pairs, scores, class imbalance and accuracies."""

import itertools
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from binary_populations import (
    PREVALENCE,
    SENSITIVITY,
    SPECIFICITY,
    exact,
    joint,
    messy,
    population,
    sample,
    sampling_variance,
    true_v,
    two_class,
)
from refusals import refused, refused_moments

import bayesfuse as bf
from bayesfuse import moments
from bayesfuse.errors import MomentsError


@pytest.mark.parametrize("prevalence", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("method", "tolerance"), [("tensor", 1e-10), ("likelihood", 1e-6)])
def test_a_population_reveals_prevalence_and_accuracies(prevalence, method, tolerance):
    """The likelihood is flat at its maximum, which is found to the square root of rounding."""
    responses = exact([1 - prevalence, prevalence], two_class())
    found = moments.class_imbalance(responses, method)
    assert found.prevalence == pytest.approx(prevalence, abs=tolerance)
    quality = moments.accuracies(responses, found.prevalence)
    np.testing.assert_allclose(quality.sensitivity, SENSITIVITY, atol=tolerance)
    np.testing.assert_allclose(quality.specificity, SPECIFICITY, atol=tolerance)
    by_default = moments.accuracies(responses)
    np.testing.assert_allclose(by_default.sensitivity, SENSITIVITY, atol=1e-6)
    assert by_default.attrs == {"prevalence": pytest.approx(prevalence), "positive": 1}


def test_third_moments_need_three_answers_to_an_item():
    """Raters meet in all pairs, but never three of them."""
    rng = np.random.default_rng(14)
    labels = sample(rng, 300, SENSITIVITY[:3], SPECIFICITY[:3], 0.4)
    labels[np.arange(300), np.arange(300) % 3] = -1
    responses = bf.Responses.from_matrix(labels)
    with pytest.raises(MomentsError, match=r"by three raters .* Got: none among 300 items"):
        moments.class_imbalance(responses, "tensor")
    refused(r"method must be .* Got: 'guess'", moments.class_imbalance, population(), "guess")


def test_an_imbalance_at_the_edge_is_refused():
    rare = exact([0.997, 0.003], two_class(SENSITIVITY[:4], np.full(4, 0.99)))
    for method in ("likelihood", "tensor"):
        with pytest.raises(MomentsError, match=r"at the edge.* Got: imbalance -0\.99"):
            moments.class_imbalance(rare, method)
    found = moments.accuracies(rare, prevalence=0.003)
    np.testing.assert_allclose(found.sensitivity, SENSITIVITY[:4], atol=1e-6)


def test_improved_sml_gives_the_posterior_odds_of_a_population():
    _, chance = joint([1 - PREVALENCE, PREVALENCE], two_class())
    odds = np.log(chance[:, 1] / chance[:, 0])
    found = moments.improved_sml(population(), PREVALENCE, prior=True)
    np.testing.assert_allclose(found.score, odds, atol=1e-9)
    np.testing.assert_array_equal(found.label, (odds > 0).astype(int))
    vote = moments.improved_sml(population(), PREVALENCE)
    prior = np.log(PREVALENCE / (1 - PREVALENCE))
    np.testing.assert_allclose(vote.score, odds - prior, atol=1e-9)


def test_sml_is_the_weighted_vote_of_all_responses():
    responses = messy()
    found = moments.sml(responses)
    v = moments.rank_one(moments.covariance(responses))
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
    for fused in (moments.sml(responses), moments.improved_sml(responses, 0.4)):
        assert fused.score[-1] == 0
        assert fused.label[-1] == "a"
        assert fused.label[6] == "b"
        assert fused.attrs["positive"] == "b"
    prior = moments.improved_sml(responses, 0.6, prior=True)
    assert prior.score[-1] == pytest.approx(np.log(1.5))
    assert prior.label[-1] == "b"


def test_raters_who_never_differ_are_refused():
    responses = bf.Responses.from_matrix(np.zeros((9, 4), int), classes=[0, 1])
    refused_moments(r"vary their responses.* 0 of them varying", moments.sml, responses)
    with pytest.raises(MomentsError, match="Class 0 against the rest: Three raters"):
        moments.one_vs_rest(
            bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 1]], classes=[0, 1, 2])
        )


def test_one_vs_rest_recovers_prevalence_and_diagonals():
    """Of raters who know, or guess with their own favourites: the rest is then no mixture."""
    prevalence = np.array([0.5, 0.3, 0.2])
    guess = np.array([[0.1, 0.2, 0.1], [0.3, 0.1, 0.1], [0.1, 0.1, 0.3], [0.2, 0.1, 0.1]])
    confusion = (1 - guess.sum(1))[:, None, None] * np.eye(3) + guess[:, None, :]
    found = moments.one_vs_rest(exact(prevalence, confusion))
    diagonal = np.diagonal(confusion, axis1=1, axis2=2)
    np.testing.assert_allclose(found.prevalence, prevalence, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-6)
    np.testing.assert_allclose(found.specificity, 1 - guess, atol=1e-6)
    assert found.attrs["total"] == pytest.approx(1, abs=1e-6)


def test_covariance_of_a_population_is_rank_one_off_its_diagonal():
    found = moments.covariance(population())
    mean = PREVALENCE * (2 * SENSITIVITY - 1) - (1 - PREVALENCE) * (2 * SPECIFICITY - 1)
    q = np.outer(true_v(), true_v())
    np.fill_diagonal(q, 1 - mean**2)
    np.testing.assert_allclose(found["mean"], mean, atol=1e-12)
    np.testing.assert_allclose(found.covariance, q, atol=1e-12)


@pytest.mark.parametrize("items", [2, 3, 4])
def test_sampling_variance_is_exact(items):
    """Against the enumeration of all samples of so many pairs of labels."""
    cells = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])
    chance = np.array([0.4, 0.05, 0.25, 0.3])
    mean = chance @ cells
    q = chance @ (cells - mean).prod(1)
    # rows: every sample, with its probability and the sample covariance matrix
    draws = np.array(list(itertools.product(range(4), repeat=items)))
    weight = chance[draws].prod(1)
    covariance = np.array([np.cov(cells[draw].T) for draw in draws])
    average = np.tensordot(weight, covariance, 1)
    wanted = np.tensordot(weight, (covariance - average) ** 2, 1)
    entries = np.array([[1 - mean[0] ** 2, q], [q, 1 - mean[1] ** 2]])
    np.testing.assert_allclose(average, entries, atol=1e-12)
    found = sampling_variance(mean[:, None], mean, entries, np.array(items))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_covariance_compares_pairs_on_their_common_items():
    rng = np.random.default_rng(1)
    labels = sample(rng, 60, SENSITIVITY, SPECIFICITY, 0.4, answered=0.5)
    labels[:, 4] = -1
    labels[:3, 4] = 1, 0, 1  # one rater with three responses
    found = moments.covariance(bf.Responses.from_matrix(labels))
    frame = pd.DataFrame(np.where(labels < 0, np.nan, 2 * labels - 1))
    np.testing.assert_allclose(found["mean"], frame.mean())
    np.testing.assert_allclose(found.covariance, frame.cov(min_periods=2), atol=1e-14)
    together = (labels >= 0).astype(int)
    np.testing.assert_array_equal(found.overlap, together.T @ together)
    both = (labels[:, 0] >= 0) & (labels[:, 1] >= 0)
    first, second = (2 * labels[both, i].mean() - 1 for i in (0, 1))
    wanted = sampling_variance(first, second, found.covariance.values[0, 1], both.sum())
    np.testing.assert_allclose(found.variance[0, 1], wanted)


def test_covariance_averages_repeats_within_an_item():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, size=(3, 40, 3))  # three answers by everybody to everything
    _, item, rater = np.indices(labels.shape)
    table = {"item": item.ravel(), "rater": rater.ravel(), "label": labels.ravel()}
    found = moments.covariance(bf.Responses.from_long(table))
    np.testing.assert_allclose(found.covariance, np.cov(2 * labels.mean(0).T - 1), atol=1e-14)
    np.testing.assert_array_equal(found.overlap, np.full((3, 3), 40))


def test_identical_items_count_as_often_as_they_occur():
    rng = np.random.default_rng(3)
    labels = sample(rng, 30, SENSITIVITY, SPECIFICITY, 0.4, answered=0.8)
    counted = bf.Responses.from_counts(labels, rng.integers(0, 5, size=30))
    written_out = counted.expand()
    for function in (moments.covariance, moments.accuracies):
        xr.testing.assert_allclose(function(counted), function(written_out))
    for method in ("likelihood", "tensor"):
        counts, rows = (
            moments.class_imbalance(responses, method).imbalance
            for responses in (counted, written_out)
        )
        assert counts == pytest.approx(rows, abs=1e-6)  # the maximum is flat: √rounding


def test_three_classes_are_refused():
    responses = bf.Responses.from_matrix([[0, 1, 2], [0, 1, 1]])
    for function in (moments.covariance, moments.sml, moments.accuracies):
        refused_moments(r"two classes, .* Got: 3 classes", function, responses)


def slow_scores(r):
    m = len(r)
    score = np.zeros((m, m))
    for i, j in permutations(range(m), 2):
        rest = [k for k in range(m) if k not in (i, j)]
        terms = [abs(r[i, j] * r[k, o] - r[i, o] * r[k, j]) for k, o in permutations(rest, 2)]
        known = np.isfinite(terms)
        score[i, j] = np.mean(np.array(terms)[known]) * len(terms) if known.any() else np.nan
    return score


def test_score_is_the_sum_over_all_pairs_that_are_known():
    """Also over classes, where some raters share no items with some others."""
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=(400, 9))
    names = list("cabdefghi")
    found = moments.score_matrix(bf.Responses.from_matrix(labels, raters=names))
    expected = sum(slow_scores(np.cov(2 * (labels == k).T - 1)) for k in range(3))
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    assert found.rater.values.tolist() == found.other.values.tolist() == names
    for i, j in ((0, 1), (2, 5), (2, 6), (3, 7)):
        labels[rng.permutation(400) % 2 == 0, i] = -1
        labels[labels[:, i] >= 0, j] = -1
    two = bf.Responses.from_matrix(np.minimum(labels, 1))
    expected = slow_scores(moments.covariance(two).covariance.values)
    assert np.isnan(expected).any() and np.isfinite(expected).sum() > 40
    np.testing.assert_allclose(moments.score_matrix(two), expected, rtol=1e-10)


def test_scores_of_many_raters_are_sampled_without_bias(monkeypatch):
    """The seed is fixed, so tables of equal covariances differ by the order of their raters."""
    rng = np.random.default_rng(3)
    labels = (rng.random((60, 10)) < rng.random((60, 1))).astype(int)

    def scores(order):
        table = bf.Responses.from_matrix(labels[:, order])
        return moments.score_matrix(table).values[np.ix_(np.argsort(order), np.argsort(order))]

    exact = scores(np.arange(10))
    monkeypatch.setattr("bayesfuse.moments.score.MAX_EXACT_RATERS", 9)
    monkeypatch.setattr("bayesfuse.moments.score.N_SAMPLED_PAIRS", 40)
    draws = np.array([scores(rng.permutation(10)) for _ in range(300)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    off = ~np.eye(10, dtype=bool)
    # 45 pairs of raters: the largest of so many standard normals stays below 4.5
    assert np.max(np.abs(draws.mean(axis=0) - exact)[off] / error[off]) < 4.5
    np.testing.assert_allclose(draws, draws.transpose(0, 2, 1))
