"""Numbers below the moments: least squares on simplices, symmetric sums, views of teams."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.moments.least_squares import project, simplex_least_squares
from bayesfuse.moments.views import _by_team, _views, incidence


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


def test_views_by_definition():
    rng = np.random.default_rng(3)
    matrix = rng.integers(-1, 3, (40, 7))  # −1: no response
    matrix[:, 0] = np.maximum(matrix[:, 0], 0)
    responses, _ = bf.Responses.from_matrix(
        np.vstack([matrix, matrix[:9]]), missing=-1, classes=[0, 1, 2]
    ).merged()
    raters = np.array([0, 1, 2, 0, 1, 2, 0])
    by_team = _by_team(incidence(responses).tocsc(), np.repeat(raters, 3))
    weight = responses.multiplicity.astype(float)
    views, has_view = _views(by_team, weight, 3)
    spoke = list(zip(responses.item, responses.rater, responses.label, strict=True))
    votes = np.zeros((responses.n_items, 3, 3))  # of the other teams
    for item, rater, label in spoke:
        votes[item, raters[rater] != np.arange(3), label] += 1
    heard = votes.sum(axis=2)
    share = votes / np.maximum(heard, 1)[:, :, None]
    for item in range(responses.n_items):
        for team in range(3):
            found = []
            for n, rater, label in spoke:
                if n == item and raters[rater] == team:
                    same = [m for m, r, j in spoke if r == rater and j == label and heard[m, team]]
                    told = sum(weight[m] * share[m, team] for m in same)
                    found.append(told / max(sum(weight[m] for m in same), 1))
            assert has_view[item, team] == bool(found)
            expected = np.mean(found, axis=0) if found else np.zeros(3)
            np.testing.assert_allclose(views[item, team], expected, atol=1e-12)
