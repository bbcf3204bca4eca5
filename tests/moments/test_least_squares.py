"""Projection on a simplex, and least squares on simplices."""

import numpy as np
import pytest

from bayesfuse.moments.least_squares import project, simplex_least_squares


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
