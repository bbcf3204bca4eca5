"""What responses show of raters' errors: correlation, and raters who copy each other."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.answer.average import weigh
from bayesfuse.answer.evidence import Evidence, error_correlation, examine, part_of


def crowd(rng, n_items, hard):
    """Return responses to items of which some are hard, and the truth: 12 raters, two classes."""
    truth = rng.integers(0, 2, n_items)
    right = np.where(rng.random(n_items) < hard, 0.45, 0.85)
    matrix = np.where(
        rng.random((n_items, 12)) < right[:, None], truth[:, None], 1 - truth[:, None]
    )
    return matrix, truth


def test_errors_on_hard_items_are_correlated():
    rng = np.random.default_rng(3)
    found = [
        examine(bf.Responses.from_matrix(crowd(rng, 2000, hard)[0]), None, 1) for hard in (0.0, 0.4)
    ]
    assert found[0].independent and not found[1].independent
    assert found[1].correlation > 0.03 > abs(found[0].correlation)
    assert not any(each.groups for each in found)


def test_correlation_is_that_of_residuals():
    """With certain labels it is the mean correlation of two raters given the class."""
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 2, 4000)
    sure, joint = np.eye(2)[truth], rng.random(4000) < 0.3
    errors = np.where(joint[:, None], rng.random((4000, 1)), rng.random((4000, 2))) < 0.2
    table = np.column_stack([*[truth] * 4, np.abs(truth[:, None] - errors)])
    rows = np.tile([[0.999999, 1e-6], [1e-6, 0.999999]], (6, 1, 1))
    rows[4:] = [[0.8, 0.2], [0.2, 0.8]]
    responses = bf.Responses.from_matrix(table)
    value, error = error_correlation(responses, np.array([0.5, 0.5]), rows, rng)
    assert sure.sum() == 4000 and error < 0.05
    assert value == pytest.approx(0.3, abs=4 * max(error, 0.015))


def test_copies_are_found():
    rng = np.random.default_rng(5)
    matrix, _ = crowd(rng, 500, 0.0)
    matrix[:, 1] = np.where(rng.random(500) < 0.95, matrix[:, 0], 1 - matrix[:, 0])
    assert examine(bf.Responses.from_matrix(matrix), None, 1).groups == {"source 1": [0, 1]}


def test_errors_that_nobody_sees_may_be_shared():
    """Raters who never differ say nothing; where groups explain errors, less has to be clear."""
    same = np.repeat(np.arange(600)[:, None] % 2, 5, axis=1)
    found = examine(bf.Responses.from_matrix(same), None, 1)
    assert abs(found.correlation) < 0.05 and not found.independent
    assert Evidence(0.003, 0.008, {"source 1": [0, 1]}).independent
    assert not Evidence(0.003, 0.008).independent


@pytest.mark.parametrize("matrix", [[[0], [1]], [[0, 1]], [[0, -1, -1], [-1, 1, -1], [-1, -1, 1]]])
def test_too_little_shows_nothing(matrix):
    found = examine(bf.Responses.from_matrix(matrix, classes=[0, 1]), None, 1)
    assert found.groups == {} and not found.independent and not Evidence().independent


def test_parts_have_known_items_and_every_rater():
    rng = np.random.default_rng(6)
    responses = bf.datasets.simulate_dawid_skene(300, 60, 3, per_item=4, random_seed=6).responses
    part = part_of(responses, 100, rng, known=responses.items[:2])
    assert set(responses.items[:2]) <= set(part.items)
    assert (np.bincount(part.rater, minlength=60) > 0).all()
    assert 100 <= part.n_responses < 500
    assert part_of(responses, 1200, rng) is responses


def test_models_that_predict_far_worse_have_no_weight():
    one = bf.datasets.simulate_dawid_skene(30, 5, 2, random_seed=7).responses
    quiet = {"random_seed": 1, "progressbar": False, "quiet": True}
    good = bf.sample(bf.models.DawidSkene(one), 40, tune=20, chains=2, **quiet)
    worse = good.copy(deep=True)
    for behind, weights in ((0.02, [0.45, 0.45, 0.1]), (0.2, [0.9, 0.0, 0.1])):
        own = good["log_likelihood"].to_dataset() - behind * one.n_responses / one.n_items
        worse["log_likelihood"] = own
        found = weigh({"good": good, "worse": worse}, 0.1, one.n_responses)
        np.testing.assert_allclose(found["weight"], weights)
        gap = found["elpd"].values[0] - found["elpd"].values[1]
        assert gap == pytest.approx(behind * one.n_responses)
