"""Covariances of pairs and the score matrix of pairs of pairs."""

import itertools
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from binary_populations import PREVALENCE, SENSITIVITY, SPECIFICITY, population, sample, true_v

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import binary, imbalance, pairs, score, score_matrix


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
            imbalance.class_imbalance(responses, method).imbalance
            for responses in (counted, written_out)
        )
        assert counts == pytest.approx(rows, abs=1e-6)  # the maximum is flat: √rounding


def test_three_classes_are_refused():
    responses = bf.Responses.from_matrix([[0, 1, 2], [0, 1, 1]])
    for function in (pairs.covariance, binary.sml, binary.rank_raters, binary.accuracies):
        with pytest.raises(MomentsError, match=r"two classes, .* Got: 3 classes"):
            function(responses)


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
    found = score_matrix(r)
    np.testing.assert_allclose(found.values, slow_scores(r), rtol=1e-12)
    r[np.diag_indices(9)] = np.nan  # nothing is said about a rater alone
    np.testing.assert_array_equal(score_matrix(r), found)
    for i, j in ((0, 1), (2, 5), (2, 6), (3, 7)):
        r[i, j] = r[j, i] = np.nan
    expected = slow_scores(r)
    assert np.isnan(expected[0, 1]) and np.isfinite(expected).sum() == 73
    np.testing.assert_allclose(score_matrix(r).values, expected, rtol=1e-12)


def test_scores_of_many_raters_are_sampled_without_bias(monkeypatch):
    r = random_covariance(np.random.default_rng(3), 10)
    exact = score_matrix(r).values
    draws = np.array([score_matrix(r, pairs=40, random_seed=seed).values for seed in range(400)])
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    off = ~np.eye(10, dtype=bool)
    assert np.all(error[off] > 0)
    # 45 pairs of raters: the largest of so many standard normals stays below 4.5
    assert np.max(np.abs(draws.mean(axis=0) - exact)[off] / error[off]) < 4.5
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    monkeypatch.setattr(score, "EXACT", 9)
    sampled = score_matrix(r)
    np.testing.assert_array_equal(sampled, score_matrix(r, pairs=score.SAMPLED))
    assert not np.array_equal(sampled, score_matrix(r, random_seed=1))


def test_scores_of_responses_carry_names_and_add_up_over_classes():
    rng = np.random.default_rng(4)
    labels = rng.integers(3, size=(400, 5))
    names = ["Ann", "Ben", "Cem", "Dan", "Eve"]
    responses = bf.Responses.from_matrix(labels, raters=names)
    expected = sum(score_matrix(np.cov(2 * (labels == k).T - 1)) for k in range(3))
    found = score_matrix(responses)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)
    assert found.rater.values.tolist() == found.other.values.tolist() == names
