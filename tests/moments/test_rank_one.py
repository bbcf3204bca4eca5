"""Rank-one moments: completion, what determines them, and whether there is a second target."""

import itertools

import numpy as np
import pytest
import xarray as xr
from binary_populations import SENSITIVITY, SPECIFICITY, moments, population, sample, true_v
from refusals import refused, refused_moments
from scipy.optimize import minimize

import bayesfuse as bf
from bayesfuse.errors import MomentsError
from bayesfuse.moments import spectrum
from bayesfuse.moments.least_squares import project, simplex_least_squares

CONSISTENT = ["log_linear", "weighted", "least_squares"]


@pytest.mark.parametrize("method", CONSISTENT)
def test_rank_one_recovers_a_population(method):
    found = bf.moments.rank_one(bf.moments.covariance(population()), method)
    np.testing.assert_allclose(found, true_v(), atol=1e-10)


def test_eigen_errs_as_much_as_lemma_3_allows():
    """The diagonal of ones hardly tilts the eigenvector of many raters."""
    v = np.tile(true_v(), 10)
    q = np.outer(v, v)
    np.fill_diagonal(q, 1 - np.tile(bf.moments.covariance(population())["mean"], 10) ** 2)
    found = bf.moments.rank_one(moments(q), "eigen").values
    assert (found @ v) ** 2 / (found @ found) / (v @ v) > 1 - 2 / (v @ v) > 0


def test_least_squares_is_the_best_fit():
    rng = np.random.default_rng(4)
    labels = sample(rng, 80, SENSITIVITY, SPECIFICITY, 0.4, answered=0.7)
    found = bf.moments.covariance(bf.Responses.from_matrix(labels))
    q, weight = found.covariance.values, found.overlap.values.astype(float)
    np.fill_diagonal(weight, 0)

    def loss(v):
        return np.sum(weight * (q - np.outer(v, v)) ** 2)

    bound = np.sqrt(np.diagonal(q))
    best = min(
        minimize(loss, rng.uniform(-bound, bound), bounds=list(zip(-bound, bound, strict=True))).fun
        for _ in range(20)
    )
    v = bf.moments.rank_one(found, "least_squares").values
    assert np.all(np.abs(v) <= bound)
    assert loss(v) <= best * (1 + 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_methods_solve_their_equations(weighted):
    rng = np.random.default_rng(5)
    labels = sample(rng, 2000, SENSITIVITY, SPECIFICITY, 0.4)
    found = bf.moments.covariance(bf.Responses.from_matrix(labels))
    q, variance = found.covariance.values, found.variance.values
    rows, target, weight = [], [], []
    for i, j in itertools.combinations(range(5), 2):
        if weighted or abs(q[i, j]) > 2 * np.sqrt(variance[i, j]):
            rows.append(np.eye(5)[i] + np.eye(5)[j])
            target.append(np.log(abs(q[i, j])))
            weight.append(abs(q[i, j]) / np.sqrt(variance[i, j]) if weighted else 1.0)
    weight = np.array(weight)
    wanted = np.linalg.lstsq(np.array(rows) * weight[:, None], np.array(target) * weight)[0]
    known = ~np.eye(5, dtype=bool)
    completed = np.where(known, q, np.diag(np.exp(2 * wanted)))
    value, vector = (part[..., -1] for part in np.linalg.eigh(completed))
    found = bf.moments.rank_one(found, "weighted" if weighted else "log_linear")
    np.testing.assert_allclose(np.abs(found), np.abs(np.sqrt(value) * vector), rtol=1e-8)


@pytest.mark.parametrize("hidden", [False, True])
def test_smallest_trace_is_optimal(hidden):
    """Against descent in a factor of the matrix."""
    rng = np.random.default_rng(6)
    q = np.outer(true_v(), true_v()) + rng.normal(0, 0.1, (5, 5))
    q = (q + q.T) / 2
    np.fill_diagonal(q, 1.0)
    items = np.full((5, 5), 30)
    items[0, 1] = items[1, 0] = 0 if hidden else 30
    known = (items > 0) & ~np.eye(5, dtype=bool)
    given = moments(q, items)
    penalty = 2 * np.sqrt(given.variance.values[known].mean())

    def objective(factor):
        r = factor.reshape(5, 5) @ factor.reshape(5, 5).T
        return np.sum((q - r)[known] ** 2) + penalty * np.trace(r)

    best = minimize(objective, rng.normal(size=25), options={"gtol": 1e-9, "maxiter": 5000})
    factor = best.x.reshape(5, 5)
    wanted = np.linalg.eigh(factor @ factor.T)[1][:, -1]
    found = bf.moments.rank_one(given, "sdp").values
    assert abs(found @ wanted) / np.linalg.norm(found) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("method", [*CONSISTENT, "eigen", "sdp"])
def test_two_items_leave_no_variance_and_no_crash(method):
    """Equal or opposite answers to both items: all sampling variances look like the smallest."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]])
    found = bf.moments.rank_one(bf.moments.covariance(responses), method)
    np.testing.assert_array_equal(np.sign(found), [1, 1, 1, -1])


@pytest.mark.parametrize("method", CONSISTENT)
def test_pairs_that_share_nothing_are_no_obstacle(method):
    """Raters 0 and 1 never meet, yet their product is known from the others."""
    v = true_v()
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    overlap = np.full((5, 5), 1000)
    overlap[0, 1] = overlap[1, 0] = 0
    q[0, 1] = q[1, 0] = np.nan
    found = bf.moments.rank_one(moments(q, overlap), method)
    np.testing.assert_allclose(found, v, atol=1e-10)


def test_blocks_are_estimated_and_signed_each_by_itself():
    v = np.array([0.5, 0.4, 0.7, 0.3, 0.6, 0.2, 0.8, 0.5, 0.5])
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    q[6, 6] = 0.0  # a rater who always says the same
    overlap = np.zeros((9, 9), int)
    overlap[:3, :3] = overlap[3:7, 3:7] = 50
    overlap[7, 8] = overlap[8, 7] = 50  # two raters by themselves
    q[overlap == 0] = np.nan
    q[6, :6] = q[:6, 6] = 0.0
    found = bf.moments.rank_one(moments(q, overlap))
    np.testing.assert_allclose(found[:6], v[:6], atol=1e-10)
    assert found[6] == 0
    assert np.isnan(found[7:]).all()


def test_a_star_determines_nothing():
    """One rater shares items with all others, who share none: v has no scale."""
    items = np.zeros((4, 4), int)
    items[0, 1:] = items[1:, 0] = 50
    q = 0.25 + 0.75 * np.eye(4)
    refused_moments("three pairs determine v", bf.moments.rank_one, moments(q, items))
    items[1, 2] = items[2, 1] = 50
    np.testing.assert_allclose(bf.moments.rank_one(moments(q, items)), 0.5)


def test_the_sign_is_an_assumption():
    v = np.array([-0.1, -0.1, -0.1, 0.6, 0.6])
    q = np.outer(v, v)
    np.fill_diagonal(q, 1.0)
    np.testing.assert_allclose(bf.moments.rank_one(moments(q)), v, atol=1e-10)


def test_raters_without_pairs_are_undetermined():
    responses = bf.Responses.from_counts(
        {"000-": 40, "010-": 10, "110-": 20, "111-": 29, "1111": 1},
        missing="-",
        raters=["c", "a", "b", "new"],
    )
    v = bf.moments.rank_one(bf.moments.covariance(responses)).values
    assert np.isnan(v[3]) and (np.diff(v[:3]) < 0).all()


def test_bad_moments_are_refused():
    good = np.full((3, 3), 0.25) + 0.75 * np.eye(3)
    with pytest.raises(MomentsError, match=r"at least three raters.* Got: 2 raters"):
        bf.moments.rank_one(moments(good[:2, :2]))
    broken = moments(good)
    broken["covariance"][0, 1] = np.nan
    refused_moments(r"finite .* Got: nan", bf.moments.rank_one, broken)
    with pytest.raises(MomentsError, match=r"share at least two items in pairs.* with 0 pairs"):
        bf.moments.rank_one(moments(good, np.eye(3, dtype=int) * 50))
    refused(
        r"method must be 'log_linear', .* Got: 'magic'", bf.moments.rank_one, moments(good), "magic"
    )
    refused_moments(r"four raters.* Got: 3 raters", spectrum, moments(good))


def test_residuals_of_one_target_vanish():
    found = spectrum(bf.moments.covariance(population()))
    assert found.statistic < 1e-3  # 1e-10 in units of a standard deviation at n = 1e14
    assert np.isnan(found.p_value)
    wanted = [true_v() @ true_v(), 0, 0, 0, 0]
    np.testing.assert_allclose(found.eigenvalue, wanted, atol=1e-10)


def test_suspicion_falls_on_those_who_share_another_target():
    v = np.array([0.6, 0.5, 0.7, 0.4, 0.0, 0.0, 0.0])
    other = np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.4, 0.3])
    q = np.outer(v, v) + np.outer(other, other)
    np.fill_diagonal(q, 1.0)
    found = spectrum(moments(q))
    assert np.all(found.suspicion[4:] > 0.3)
    assert np.all(np.abs(found.suspicion[:4]) < 0.1)


def test_spectrum_fires_with_a_cartel():
    rng = np.random.default_rng(1)
    sensitivity, specificity = rng.uniform(0.6, 0.95, (2, 8))
    truth, other = rng.random((2, 800, 1)) < 0.4
    target = np.repeat(truth, 8, axis=1)
    target[:, 5:] = other
    labels = sample(rng, None, sensitivity, specificity, None, 0.8, target)
    responses = bf.Responses.from_matrix(labels)
    first, second = (spectrum(responses, draws=39, random_seed=3) for _ in "12")
    assert first.p_value == 1 / 40
    xr.testing.assert_identical(first, second)


def test_spectrum_of_few_responses_is_not_significant():
    """Two items: many a simulated table has no covariances at all, which must not count."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]])
    found = spectrum(responses, prevalence=0.5, draws=39, random_seed=1)
    assert found.p_value > 0.1


def test_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        for scale in (0.1, 1.0, 10.0):
            point = rng.normal(scale=scale, size=size)
            nearest = point.copy()
            project(nearest)
            assert nearest.sum() == pytest.approx(1.0, abs=1e-12) and nearest.min() >= 0
            # nearest: the residual makes no acute angle with any way into the simplex
            assert ((np.eye(size) - nearest) @ (point - nearest)).max() < 1e-12 * max(1, scale)


def test_projection_ends_whatever_rounding_does():
    """Equal, tied, huge and already legal entries."""
    for point in ([1e17] * 3, [0.1] * 10, [0.3, 0.3, 0.4], [0.0, 0.0, 1.0], [5.0, 5.0, -1e9]):
        nearest = np.array(point)
        project(nearest)
        assert np.all(nearest >= 0) and np.all(np.isfinite(nearest))
        assert nearest.sum() == pytest.approx(1.0, abs=1e-12) or max(point) > 1e16


@pytest.mark.parametrize("by_row", [True, False])
def test_least_squares_satisfies_its_optimality_conditions(by_row):
    rng = np.random.default_rng(1)
    for _ in range(20):
        root = rng.normal(size=(5, 5)) * [1.0, 0.3, 0.1, 1.0, 2.0]
        normal = root.T @ root + 1e-3 * np.eye(5)
        x = rng.dirichlet(np.ones(4), size=5) if by_row else rng.dirichlet(np.ones(5))[:, None]
        right = rng.normal(size=x.shape)
        best = simplex_least_squares(normal, right, x, by_row, 100_000, 1e-15)
        gradient, point = normal @ best - right, best
        if not by_row:
            gradient, point = gradient.T, best.T
        # every entry in use has the lowest gradient of its simplex
        excess = gradient - gradient.min(axis=1, keepdims=True)
        assert (excess * point).max() < 1e-9
        np.testing.assert_allclose(point.sum(axis=1), 1.0, rtol=1e-12)
