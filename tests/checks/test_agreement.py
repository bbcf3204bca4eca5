"""Agreement of raters, and scores of label probabilities, against published values and by hand."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene

OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Four observers of twelve units (Krippendorff 2011)."""

COUNTS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten subjects, fourteen raters, five categories: Fleiss' kappa is .210."""


def observers(ordered=True):
    rows = [line.split() for line in OBSERVERS.strip().splitlines()]
    table = [
        [None if said == "." else int(said) for said in unit] for unit in zip(*rows, strict=True)
    ]
    return bf.Responses.from_matrix(np.array(table, dtype=object), ordered=ordered)


def from_counts(counts):
    rows = [[k for k, n in enumerate(row) for _ in range(n)] for row in counts]
    return bf.Responses.from_matrix(np.array(rows), ordered=False)


def values(responses, **kwargs):
    measures = bf.agreement(responses, random_seed=1, draws=50, **kwargs).measures
    return measures.set_index("measure")["value"].round(3).to_dict()


def test_published_values():
    assert values(observers()) == {
        "agreement": 0.818,
        "Krippendorff's alpha": 0.743,
        "Krippendorff's alpha, ordinal": 0.815,
        "Fleiss' kappa": 0.761,  # Gwet (2014), with missing responses
        "Gwet's AC1": 0.775,
    }
    found = values(from_counts(COUNTS))
    assert (found["Fleiss' kappa"], found["agreement"]) == (0.210, 0.378)


def test_cohens_kappa_and_its_error():
    counts = bf.Responses.from_counts({"00": 20, "01": 5, "10": 10, "11": 15})
    measures, pairs = bf.agreement(counts, ci_prob=0.95, random_seed=1)
    (row,) = pairs.itertuples(index=False)
    assert (row.items, round(row.agreement, 3), round(row.kappa, 3)) == (50, 0.7, 0.4)
    again = bf.agreement(counts.expand(), ci_prob=0.95, random_seed=1)
    pd.testing.assert_frame_equal(again.pairs, pairs)
    pd.testing.assert_frame_equal(again.measures, measures)
    # the bootstrap of kappa, as a check of the asymptotic interval
    rng = np.random.default_rng(1)
    share = rng.multinomial(50, np.array([20, 5, 10, 15]) / 50, 4000).reshape(-1, 2, 2) / 50
    same, chance = np.trace(share, axis1=1, axis2=2), (share.sum(2) * share.sum(1)).sum(1)
    sd = ((same - chance) / (1 - chance)).std()
    assert (row.high - row.low) / (2 * 1.96) == pytest.approx(sd, rel=0.06)


def test_intervals_cover_at_about_their_probability():
    """Two raters who are right with .8: the coefficients' values for ever more items are known."""
    rng = np.random.default_rng(3)
    share = {"agreement": 0.68, "Krippendorff's alpha": 0.36, "Gwet's AC1": 0.36}
    hits = dict.fromkeys(share, 0)
    for _ in range(100):
        truth = rng.integers(2, size=80)
        said = np.where(rng.random((2, 80)) < 0.8, truth, 1 - truth).T
        found = bf.agreement(bf.Responses.from_matrix(said), draws=200, ci_prob=0.9, random_seed=1)
        for row in found.measures.itertuples(index=False):
            if row.measure in hits:
                hits[row.measure] += row.low <= share[row.measure] <= row.high
    assert all(80 <= count <= 98 for count in hits.values()), hits


def test_groups_and_odd_tables():
    measures, pairs = bf.agreement(observers(), by=["a"] * 11 + ["b"], draws=20, random_seed=1)
    assert measures["group"].unique().tolist() == ["all items", "a", "b"]
    alone = measures[measures["group"] == "b"]
    assert alone["value"].isna().all() and (alone["items"] == 0).all()
    assert set(pairs["group"]) == {"all items", "a"} and len(pairs) == 12
    same = bf.Responses.from_matrix([[1, 1], [1, 1]], classes=[0, 1])
    found = values(same)
    assert found["agreement"] == 1 and found["Gwet's AC1"] == 1
    assert np.isnan(found["Fleiss' kappa"]) and np.isnan(found["Krippendorff's alpha"])
    repeated = bf.Responses.from_long(
        {"item": [0, 0, 1], "rater": ["x", "x", "x"], "label": [0, 1, 1]}
    )
    measures, pairs = bf.agreement(repeated, draws=5, random_seed=1)
    assert measures["value"][0] == 0 and pairs.empty


def test_bad_input():
    with pytest.raises(ResponsesError, match=r"by= is a mapping .* from items to groups"):
        bf.agreement(observers(), by=["a"])
    with pytest.raises(ResponsesError, match=r"Every item belongs to one group"):
        bf.agreement(observers(), by=pd.Series(["a", "b"], index=[0, 0]))


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
