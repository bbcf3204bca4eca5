"""Binary moments: covariances of pairs, scores, class imbalance and accuracies."""

import itertools
from dataclasses import replace
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
    true_v,
    two_class,
)
from refusals import refused, refused_moments

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, one_vs_rest, pairs, score, score_matrix
from bayesfuse.moments.views import incidence


@pytest.mark.parametrize("prevalence", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("method", "tolerance"), [("tensor", 1e-10), ("likelihood", 1e-6)])
def test_a_population_reveals_prevalence_and_accuracies(prevalence, method, tolerance):
    """The likelihood is flat at its maximum, which is found to the square root of rounding."""
    responses = exact([1 - prevalence, prevalence], two_class())
    found = binary.class_imbalance(responses, method)
    assert found.prevalence == pytest.approx(prevalence, abs=tolerance)
    quality = binary.accuracies(responses, found.prevalence)
    np.testing.assert_allclose(quality.sensitivity, SENSITIVITY, atol=tolerance)
    np.testing.assert_allclose(quality.specificity, SPECIFICITY, atol=tolerance)
    by_default = binary.accuracies(responses)
    np.testing.assert_allclose(by_default.sensitivity, SENSITIVITY, atol=1e-6)
    assert by_default.attrs == {"prevalence": pytest.approx(prevalence), "positive": 1}


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
    found = binary.triple_sums(replace(responses, multiplicity=multiplicity), mean, v)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_mixture_is_the_likelihood_of_every_response():
    responses = messy()
    table = binary.log_table(SENSITIVITY, SPECIFICITY)
    confusion = two_class()
    total = 0.0
    for n in range(responses.n_items):
        mine = responses.item == n
        chance = confusion[responses.rater[mine], :, responses.label[mine]].prod(0)
        total += np.log(0.6 * chance[0] + 0.4 * chance[1])
    found = binary.mixture(incidence(responses), table, 0.4, np.ones(responses.n_items))
    assert found == pytest.approx(total, rel=1e-12)


def test_third_moments_need_three_answers_to_an_item():
    """Raters meet in all pairs, but never three of them."""
    rng = np.random.default_rng(14)
    labels = sample(rng, 300, SENSITIVITY[:3], SPECIFICITY[:3], 0.4)
    labels[np.arange(300), np.arange(300) % 3] = -1
    responses = bf.Responses.from_matrix(labels)
    with pytest.raises(MomentsError, match=r"by three raters .* Got: none among 300 items"):
        binary.class_imbalance(responses, "tensor")
    refused(r"method must be .* Got: 'guess'", binary.class_imbalance, population(), "guess")


def test_an_imbalance_at_the_edge_is_refused():
    rare = exact([0.997, 0.003], two_class(SENSITIVITY[:4], np.full(4, 0.99)))
    for method in ("likelihood", "tensor"):
        with pytest.raises(MomentsError, match=r"at the edge.* Got: imbalance -0\.99"):
            binary.class_imbalance(rare, method)
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
    v = pairs.rank_one(pairs.covariance(responses))
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
    refused_moments(r"vary their responses.* 0 of them varying", binary.sml, responses)
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
    part = pairs.against_rest(bf.Responses.from_long(table), 1)
    assert part.rater.tolist() == [0, 0, 0, 1, 1]
    assert part.label.tolist() == [0, 0, 1, 0, 1]


def test_covariance_of_a_population_is_rank_one_off_its_diagonal():
    found = pairs.covariance(population())
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
    found = pairs.sampling_variance(mean[:, None], mean, entries, np.array(items))
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_covariance_compares_pairs_on_their_common_items():
    rng = np.random.default_rng(1)
    labels = sample(rng, 60, SENSITIVITY, SPECIFICITY, 0.4, answered=0.5)
    labels[:, 4] = -1
    labels[:3, 4] = 1, 0, 1  # one rater with three responses
    found = pairs.covariance(bf.Responses.from_matrix(labels))
    frame = pd.DataFrame(np.where(labels < 0, np.nan, 2 * labels - 1))
    np.testing.assert_allclose(found["mean"], frame.mean())
    np.testing.assert_allclose(found.covariance, frame.cov(min_periods=2), atol=1e-14)
    together = (labels >= 0).astype(int)
    np.testing.assert_array_equal(found.overlap, together.T @ together)
    both = (labels[:, 0] >= 0) & (labels[:, 1] >= 0)
    first, second = (2 * labels[both, i].mean() - 1 for i in (0, 1))
    wanted = pairs.sampling_variance(first, second, found.covariance.values[0, 1], both.sum())
    np.testing.assert_allclose(found.variance[0, 1], wanted)


def test_covariance_averages_repeats_within_an_item():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, size=(3, 40, 3))  # three answers by everybody to everything
    _, item, rater = np.indices(labels.shape)
    table = {"item": item.ravel(), "rater": rater.ravel(), "label": labels.ravel()}
    found = pairs.covariance(bf.Responses.from_long(table))
    np.testing.assert_allclose(found.covariance, np.cov(2 * labels.mean(0).T - 1), atol=1e-14)
    np.testing.assert_array_equal(found.overlap, np.full((3, 3), 40))


def test_identical_items_count_as_often_as_they_occur():
    rng = np.random.default_rng(3)
    labels = sample(rng, 30, SENSITIVITY, SPECIFICITY, 0.4, answered=0.8)
    counted = bf.Responses.from_counts(labels, rng.integers(0, 5, size=30))
    written_out = counted.expand()
    for function in (pairs.covariance, binary.accuracies):
        xr.testing.assert_allclose(function(counted), function(written_out))
    for method in ("likelihood", "tensor"):
        counts, rows = (
            binary.class_imbalance(responses, method).imbalance
            for responses in (counted, written_out)
        )
        assert counts == pytest.approx(rows, abs=1e-6)  # the maximum is flat: √rounding


def test_three_classes_are_refused():
    responses = bf.Responses.from_matrix([[0, 1, 2], [0, 1, 1]])
    for function in (pairs.covariance, binary.sml, binary.accuracies):
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


def random_covariance(rng, m):
    factor = rng.normal(size=(m, 3))
    return factor @ factor.T + np.diag(rng.random(m))


def test_score_is_the_sum_over_all_pairs_that_are_known():
    rng = np.random.default_rng(1)
    r = random_covariance(rng, 9)
    found = score.scores(r)
    np.testing.assert_allclose(found, slow_scores(r), rtol=1e-12)
    r[np.diag_indices(9)] = np.nan  # nothing is said about a rater alone
    np.testing.assert_array_equal(score.scores(r), found)
    for i, j in ((0, 1), (2, 5), (2, 6), (3, 7)):
        r[i, j] = r[j, i] = np.nan
    expected = slow_scores(r)
    assert np.isnan(expected[0, 1]) and np.isfinite(expected).sum() == 73
    np.testing.assert_allclose(score.scores(r), expected, rtol=1e-12)


def test_scores_of_many_raters_are_sampled_without_bias(monkeypatch):
    r = random_covariance(np.random.default_rng(3), 10)
    exact = score.scores(r)
    monkeypatch.setattr(score, "MAX_EXACT_RATERS", 9)
    monkeypatch.setattr(score, "N_SAMPLED_PAIRS", 40)
    draws = np.array([score.scores(r, seed) for seed in range(400)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    off = ~np.eye(10, dtype=bool)
    assert np.all(error[off] > 0)
    # 45 pairs of raters: the largest of so many standard normals stays below 4.5
    assert np.max(np.abs(draws.mean(axis=0) - exact)[off] / error[off]) < 4.5
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))


def test_scores_of_responses_carry_names_and_add_up_over_classes():
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=(400, 5))
    names = ["Ann", "Ben", "Cem", "Dan", "Eve"]
    responses = bf.Responses.from_matrix(labels, raters=names)
    expected = sum(score.scores(np.cov(2 * (labels == k).T - 1)) for k in range(3))
    found = score_matrix(responses)
    np.testing.assert_allclose(found.values, expected, rtol=1e-10)
    assert found.rater.values.tolist() == found.other.values.tolist() == names
