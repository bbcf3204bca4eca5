"""Views of teams against their definition, item by item."""

from __future__ import annotations

import numpy as np

import bayesfuse as bf
from bayesfuse.moments.views import _by_team, _views, incidence


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
