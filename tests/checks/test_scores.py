"""Scores of label probabilities against known truths, by hand and against scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene


def probabilities(values, classes):
    items = [f"i{n}" for n in range(len(values))]
    return xr.DataArray(values, {"item": items, "class": classes}, ("item", "class"))


@pytest.fixture(scope="module")
def calibrated():
    """Truths drawn from the probabilities themselves."""
    rng = np.random.default_rng(1)
    values = rng.dirichlet([0.7, 0.5, 0.3], 4000)
    truth = (rng.random(4000)[:, None] > values.cumsum(axis=1)).sum(axis=1)
    labels = probabilities(values, ["a", "b", "c"])
    names = labels["item"].values
    return labels, pd.Series(np.array(["a", "b", "c"])[truth], index=names), truth


def test_scores_are_those_of_scikit_learn(calibrated):
    metrics = pytest.importorskip("sklearn.metrics")
    labels, truth, numbers = calibrated
    scores = bf.checks.label_scores(labels, truth)
    assert scores["items"] == 4000
    assert scores["log_loss"] == pytest.approx(metrics.log_loss(numbers, labels.values))
    assert scores["accuracy"] == pytest.approx(
        metrics.accuracy_score(numbers, labels.values.argmax(axis=1))
    )
    one_hot = np.eye(3)[numbers]
    assert scores["brier"] == pytest.approx(((labels.values - one_hot) ** 2).sum(axis=1).mean())


def test_calibration_error_by_hand():
    labels = probabilities([[0.91, 0.09], [0.95, 0.05], [0.3, 0.7], [0.38, 0.62]], [0, 1])
    truth = {"i0": 0, "i1": 1, "i2": 1, "i3": 1}
    scores = bf.checks.label_scores(labels, truth)
    # bins: two items near 0.93, half right; one at 0.7, right; one at 0.62, right
    assert scores["ece"] == pytest.approx((2 * 0.43 + 0.3 + 0.38) / 4)
    found = bf.checks.calibration(labels, truth)
    assert found["count"].values.tolist() == [1, 1, 2]
    assert found["right"].values.tolist() == [1, 1, 0.5]
    assert np.allclose(found["stated"], [0.62, 0.7, 0.93])
    assert found.attrs == scores


def test_bins_of_equal_counts():
    top = np.array([0.6, 0.7, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0])
    labels = probabilities(np.column_stack([top, 1 - top]), [0, 1])
    truth = {f"i{n}": int(n == 3) for n in range(8)}
    found = bf.checks.calibration(labels, truth, bins=4, equal="count")
    # items of one probability are in one bin
    assert found["count"].values.tolist() == [2, 1, 5]
    assert found["lower"].values.tolist() == [0.6, 0.8, 0.9]
    assert np.allclose(found["stated"], [0.65, 0.8, 0.92])
    assert np.allclose(found["right"], [1.0, 1.0, 0.8])
    assert found.attrs == bf.checks.label_scores(labels, truth, bins=4)
    with pytest.raises(ModelError, match=r"equal 'width' or 'count'\. Got: 'size'"):
        bf.checks.calibration(labels, truth, equal="size")


def test_ties_count_by_their_number():
    labels = probabilities([[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 0.5, 0.5]], list("abc"))
    scores = bf.checks.label_scores(labels, {"i0": "b", "i1": "a", "i2": "a"})
    assert scores["accuracy"] == pytest.approx((1 / 2 + 1 / 3 + 0) / 3)
    assert scores["log_loss"] == np.inf


def test_intervals_cover_what_is_calibrated(calibrated):
    labels, truth, _ = calibrated
    found = bf.checks.calibration(labels, truth, ci_prob=0.999)
    assert ((found["low"] <= found["stated"]) & (found["stated"] <= found["high"])).all()
    assert found.attrs["ece"] < 0.03
    squeezed = labels**3 / (labels**3).sum("class")
    sure = bf.checks.calibration(squeezed, truth, ci_prob=0.999)
    assert not ((sure["low"] <= sure["stated"]) & (sure["stated"] <= sure["high"])).all()
    assert sure.attrs["ece"] > 0.05 and sure.attrs["log_loss"] > found.attrs["log_loss"]


def test_results_are_scored_on_the_items_with_a_truth():
    made = bf.datasets.simulate_dawid_skene(400, 6, 3, random_seed=2)
    point = bf.find_map(DawidSkene(made.responses))
    truth = {n: int(made.truth[n]) for n in range(0, 400, 3)}
    scores = bf.checks.label_scores(point, truth)
    assert scores["items"] == 134
    best = bf.label_probabilities(point).values.argmax(axis=1)
    assert scores["accuracy"] == np.mean([best[n] == k for n, k in truth.items()])


def test_other_truths_are_refused():
    labels = probabilities([[0.5, 0.5]], [0, 1])
    with pytest.raises(ResponsesError, match=r"name items that .* 'x'"):
        bf.checks.label_scores(labels, {"x": 0})
    with pytest.raises(ResponsesError, match="name classes that"):
        bf.checks.label_scores(labels, {"i0": 2})
    with pytest.raises(ResponsesError, match="at least one"):
        bf.checks.label_scores(labels, {})
    with pytest.raises(ModelError, match="bins"):
        bf.checks.calibration(labels, {"i0": 0}, bins=0)
