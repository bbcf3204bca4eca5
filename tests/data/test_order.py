"""Whether classes are ordered: by their names, a categorical, or the user's word."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ResponsesError

WORDS = ["bad", "fair", "good"]
ORDER = pd.CategoricalDtype(["bad", "fair", "good"], ordered=True)
UP = pd.CategoricalDtype(["good", "fair", "bad"], ordered=True)


def frame(dtype=None):
    label = pd.Series(["bad", "good", "fair", "good"], dtype=dtype)
    return pd.DataFrame({"item": [0, 0, 1, 1], "rater": [0, 1, 0, 1], "label": label})


@pytest.mark.parametrize(
    ("read", "ordered"),
    [
        (lambda: bf.Responses.from_matrix([[0, 1], [1, 2]]), True),
        (lambda: bf.Responses.from_matrix([[0, 1], [1, 2]], classes=[2, 0, 1]), False),
        (lambda: bf.Responses.from_matrix([[0, 1], [1, 2]], classes=[2, 0, 1], ordered=True), True),
        (lambda: bf.Responses.from_long(frame()), False),
        (lambda: bf.Responses.from_long(frame(), classes=WORDS), False),
        (lambda: bf.Responses.from_long(frame(), classes=WORDS, ordered=True), True),
        (lambda: bf.Responses.from_long(frame(ORDER)), True),
        (lambda: bf.Responses.from_long(frame(UP), classes=WORDS), False),
        (lambda: bf.Responses.from_matrix(frame(ORDER)[["label"]]), True),
        (lambda: bf.Responses.from_counts({"01": 3, "12": 2}), False),
        (lambda: bf.Responses.from_counts({"01": 3, "12": 2}, classes="012", ordered=True), True),
    ],
)
def test_what_is_ordered(read, ordered):
    assert read().ordered is ordered


def test_the_categories_give_the_order_of_the_classes():
    assert bf.Responses.from_long(frame(UP)).classes.tolist() == ["good", "fair", "bad"]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"frame": frame(), "ordered": True}, "ordered=True needs classes="),
        ({"frame": frame(UP), "ordered": True, "classes": WORDS}, "order .* is given twice"),
        ({"frame": frame(), "ordered": "yes"}, "must be True or False"),
    ],
)
def test_orders_that_make_no_sense(given, rule):
    with pytest.raises(ResponsesError, match=rf"{rule}.* Got: "):
        bf.Responses.from_long(**given)


def test_the_order_is_kept():
    table = bf.Responses.from_long(frame(ORDER))
    others = [
        table.take(np.array([1])),
        table.merged()[0],
        table.head(1),
        table.relabelled(table.label),
        table.expand(),
        table.condensed()[0],
    ]
    assert all(other.ordered for other in others)
