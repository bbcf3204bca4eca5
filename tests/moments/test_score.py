"""The score matrix against sums over all pairs, and what it is of independent raters."""

from itertools import permutations

import numpy as np

import bayesfuse as bf
from bayesfuse.moments import score, score_matrix


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
