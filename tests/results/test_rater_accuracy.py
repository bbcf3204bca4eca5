"""How often raters are right, counted by hand."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.results.joint_labels import as_draws
from bayesfuse.results.rater_accuracy import rater_accuracy


def made(said, draws, classes, gold=None):
    responses = bf.Responses.from_matrix(said, classes=classes)
    draws = np.asarray(draws)
    share = (draws[..., None] == np.arange(len(classes))).mean(axis=0)
    item, rater = responses.small_columns
    data = {"item_index": ("response", item), "rater_index": ("response", rater)}
    if gold is not None:
        data["gold"] = ("item", np.asarray(gold))
    names = {"item": responses.items, "class": responses.classes}
    return xr.DataTree.from_dict(
        {
            "label_posterior": xr.Dataset({"probability": (("item", "class"), share)}, names),
            "label_draws": as_draws(draws, responses.items, responses.classes),
            "constant_data": xr.Dataset(data, names | {"rater": responses.raters}),
            "observed_data": xr.Dataset({"responses": ("response", responses.label)}),
        }
    )


SAID = [["n", "y"], ["n", "n"], ["y", "y"], ["y", None]]


def test_two_classes():
    result = made(SAID, [[0, 0, 1, 1], [0, 0, 1, 0]] * 20, ["n", "y"], gold=[0, -1, 1, -1])
    table = rater_accuracy(result, ci_prob=0.9).set_index("rater")
    first, second = table.loc[0], table.loc[1]
    assert first["responses"] == 4 and second["responses"] == 3
    assert first[["accuracy", "low", "high"]].tolist() == [0.875, 0.75, 1.0]
    assert second[["accuracy", "low", "high"]].tolist() == pytest.approx([2 / 3] * 3)
    assert first["sensitivity"] == 1 and first["specificity"] == pytest.approx((1 + 2 / 3) / 2)
    assert first["balanced_accuracy"] == pytest.approx((1 + 5 / 6) / 2)
    assert (first["bias"], second["bias"]) == pytest.approx((1 / 8, 1 / 3))
    assert first[["known", "known_accuracy"]].tolist() == [2, 1.0]
    assert second[["known", "known_accuracy"]].tolist() == [2, 0.5]


def test_groups_and_classes_that_a_rater_never_met():
    result = made(SAID, [[0, 0, 2, 2], [0, 0, 2, 1]] * 20, ["n", "x", "y"])
    table = rater_accuracy(result, by=["a", "a", "a", "b"])
    assert table[["group", "rater", "responses"]].values.tolist() == [
        ["a", 0, 3],
        ["a", 1, 3],
        ["b", 0, 1],
    ]
    assert np.isnan(table["sensitivity[x]"][0]) and table["sensitivity[x]"][2] == 0
    assert table["bias[y]"].tolist() == pytest.approx([0, 1 / 3, 0.5])
    assert table["balanced_accuracy"].tolist() == pytest.approx([1, 0.75, 0.5])
    assert (table["known"] == 0).all() and table["known_accuracy"].isna().all()


def test_without_responses():
    result = made(SAID, [[0, 0, 1, 1]], ["n", "y"])
    del result["observed_data"]
    with pytest.raises(ModelError, match=r"counted over their responses"):
        rater_accuracy(result)
