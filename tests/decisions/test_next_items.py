"""Items to label next, and labels to accept: known ones never count, shares are those of draws."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.decisions import accept, errors_after, labels_needed, next_items
from bayesfuse.errors import ModelError


def a_result(drawn=None, gold=(-1, -1, 1, -1, -1, -1)):
    sure = np.array([0.99, 0.6, 1.0, 0.97, 0.8, 0.995])
    probability = np.column_stack([sure, 1 - sure])
    probability[2] = [0, 1]
    coords = {"item": list("abcdef"), "class": ["no", "yes"]}
    groups = {
        "label_posterior": xr.Dataset({"probability": (("item", "class"), probability)}, coords),
        "constant_data": xr.Dataset(
            {"gold": ("item", list(gold)), "item_index": ("response", [0, 1, 2, 3, 4])}, coords
        ),
    }
    if drawn is not None:
        groups["label_draws"] = xr.Dataset({"label": (("sample", "item"), drawn)})
    return xr.DataTree.from_dict(groups)


def test_items_to_label_next_are_unknown():
    result = a_result()
    least = next_items(result, 3, aim="correct")
    assert least["item"].tolist() == ["b", "e", "d"] and least["label"].tolist() == ["no"] * 3
    np.testing.assert_allclose(least["error"], [0.4, 0.2, 0.03])
    seen = [next_items(result, 2, random_seed=seed)["item"].tolist() for seed in range(60)]
    counts = {item: sum(item in chosen for chosen in seen) for item in "abcdef"}
    assert counts["c"] == counts["f"] == 0  # known; without responses
    assert min(counts[item] for item in "abde") > 15  # of 30 expected
    assert len(next_items(result, 100)) == 4 and len(next_items(result, 100, aim="correct")) == 5


def test_labels_are_accepted_up_to_an_expected_share_of_errors():
    found = accept(a_result(), error=0.02, ci_prob=0.9)
    # errors .005, .01, .03, .2, .4: shares .005, .0075, .015, .06125, .129
    assert found["accepted"].values.tolist() == [True, False, True, True, False, True]
    assert int(found["items"]) == 3 and float(found["coverage"]) == 0.6
    np.testing.assert_allclose(found["expected"], 0.015)
    np.testing.assert_allclose(found["risk"], [0.005, 0.0075, 0.015, 0.06125, 0.129])
    assert found["item_of_order"].values.tolist() == ["f", "a", "d", "e", "b"]
    assert found.attrs["method"] == "independent items" and float(found["high"]) == 0.0
    strict = accept(a_result(), error=0.001)
    assert int(strict["items"]) == 0 and strict["accepted"].sum() == 1 and strict["high"] == 0


def test_intervals_of_accepted_labels_are_those_of_joint_draws():
    drawn = np.zeros((10, 6), dtype=int)
    drawn[:2, [0, 3]] = 1  # both wrong in two draws of ten
    found = accept(a_result(drawn), error=0.02, ci_prob=0.5)
    assert found.attrs["method"] == "joint draws of the labels"
    assert float(found["low"]) == 0 and float(accept(a_result(drawn), ci_prob=0.9)["high"]) == 2 / 3


def test_more_labels_correct_those_that_are_found_out():
    drawn = np.zeros((400, 6), dtype=int)
    drawn[:, 2] = 1  # known
    drawn[:200, [1, 4]] = 1  # both wrong in half of the draws
    found = errors_after(a_result(drawn), [1, 100], ci_prob=0.9, random_seed=1)
    assert found["labels"].tolist() == [0, 1, 5] * 2
    learn, correct = (own for _, own in found.groupby("aim", sort=False))
    total = 0.01 + 0.4 + 0.03 + 0.2 + 0.005
    np.testing.assert_allclose(learn["wrong"], [total, total * 4 / 5, 0], atol=1e-12)
    np.testing.assert_allclose(correct["wrong"], [total, total - 0.4, 0], atol=1e-12)
    assert correct["high"].tolist() == [2, 1, 0] and correct["low"].tolist() == [0, 0, 0]
    assert learn["high"].tolist() == [2, 2, 0]
    with pytest.raises(ModelError, match="sizes must be a whole number"):
        errors_after(a_result(), [0])


def test_wanted_widths_take_as_many_labels_as_their_formula_says():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.2, 0.9, 1000)
    gold = np.where(np.arange(1000) < 100, rng.random(1000) < p, -1)
    labels = np.column_stack([1 - p, p])
    known = np.eye(2)[np.maximum(gold, 0)]
    coords = {"item": np.arange(1000), "class": ["no", "yes"], "rater": ["x"]}
    said = {"probability": np.where(gold[:, None] >= 0, known, labels)}
    said["left_out"] = np.where(gold[:, None] >= 0, labels, np.nan)
    dims = ("item", "class")
    groups = {
        "label_posterior": xr.Dataset({k: (dims, v) for k, v in said.items()}, coords),
        "constant_data": xr.Dataset({"gold": ("item", gold)}, coords),
    }
    result = xr.DataTree.from_dict(groups)
    spread = ((gold[:100] - p[:100]) ** 2).mean()
    table = labels_needed(result, 0.1, ci_prob=0.9)
    n = int(table["needed"][0])
    width = [2 * 1.645 * np.sqrt(spread * (1 - m / 1000) / m) for m in (n, n - 1)]
    assert width[0] <= 0.1 < width[1] and table["known"].tolist() == [100] * 2
    assert table["more"][0] == n - 100  # of 900 that are open
    halves = labels_needed(result, 0.1, by=np.arange(1000) % 2, ci_prob=0.9)
    assert (halves["needed"] < n).all() and (2 * halves["needed"] > n).all()  # finite populations
    assert labels_needed(result, 0.5, ci_prob=0.9)["more"].max() == 0
    with pytest.raises(ModelError, match="'shares' or 'raters'"):
        labels_needed(result, 0.1, "items")
    with pytest.raises(ModelError, match="width must be a positive"):
        labels_needed(result, 0)


def test_bad_arguments_are_refused():
    with pytest.raises(ModelError, match="'learn' or 'correct'"):
        next_items(a_result(), aim="both")
    with pytest.raises(ModelError, match="n must be a whole number"):
        next_items(a_result(), 0)
    with pytest.raises(ModelError, match="error must be"):
        accept(a_result(), error=1.5)
    counts = bf.Responses.from_counts({"00": 40, "01": 6, "11": 14})
    with pytest.raises(ModelError, match="expand"):
        accept(bf.vote_shares(counts))
