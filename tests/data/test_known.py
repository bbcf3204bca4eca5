"""What is known of items and classes: gold, shares, populations, covariates, a classifier."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import bayesfuse as bf
from bayesfuse.data.known import (
    gold_labels,
    read_classifier,
    read_covariates,
    read_populations,
    read_shares,
)
from bayesfuse.errors import ModelError, ResponsesError

RESPONSES = bf.Responses.from_long(
    {"item": ["b", "a", "c", "b"], "rater": [1, 1, 2, 2], "label": ["no", "yes", "no", "no"]}
)
"""Items a, b, c and classes no, yes."""


def population(responses, given):
    return read_populations(responses.items, given)


covariates = read_covariates


def series(values, items="cab", **more):
    return pd.Series(values, index=list(items), **more)


@pytest.mark.parametrize(
    "given",
    [
        {"c": "south", "a": "north", "b": "south"},
        series(["south", "north", "south"]),
        series(["south", "north", "south", "south"], "cabb"),  # a column of the responses
        ["north", "south", "south"],
        np.array(["north", "south", "south"], dtype=object),
        pd.Categorical(["north", "south", "south"]),
    ],
)
def test_populations_by_name_and_in_order(given):
    names, number = read_populations(RESPONSES.items, given)
    assert names.tolist() == ["north", "south"]
    assert number.tolist() == [0, 1, 1]


def test_populations_that_are_numbers_and_those_of_another_table():
    names, number = read_populations(RESPONSES.items, {"a": 7, "b": 3, "c": 7})
    assert (names.tolist(), number.tolist()) == ([3, 7], [1, 0, 1])
    _, number = read_populations(RESPONSES.items, [9, 3, 9], np.array([3, 5, 9]))
    assert number.tolist() == [2, 0, 2]
    with pytest.raises(ResponsesError, match=r"among \[3, 7\].*Got: 9 for item 'a' \(2 such\)"):
        read_populations(RESPONSES.items, [9, 3, 9], names)


FRAME = pd.DataFrame({"age": [30, 10, 20], "male": [True, False, True]}, index=list("cab"))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (FRAME, ["age", "male"]),
        (np.array([[10, 0], [20, 1], [30, 1]]), ["x1", "x2"]),
        ([[10, 0], [20, 1], [30, 1]], ["x1", "x2"]),
    ],
)
def test_covariates_by_name_and_in_order(given, names):
    found, table = read_covariates(RESPONSES, given)
    assert found == names
    assert table.tolist() == [[10, 0], [20, 1], [30, 1]]


def test_one_covariate_and_covariates_of_another_table():
    names, table = read_covariates(RESPONSES, series([3.0, 1.0, 2.0], name="age"))
    assert (names, table.ravel().tolist()) == (["age"], [1.0, 2.0, 3.0])
    names, table = read_covariates(RESPONSES, FRAME, ["male", "age"])
    assert (names, table[2].tolist()) == (["male", "age"], [1.0, 30.0])
    with pytest.raises(ResponsesError, match=r"columns \['age'\]. Got: \['age', 'male'\]"):
        read_covariates(RESPONSES, FRAME, ["age"])


WORD = pd.DataFrame({"yes": [0.9, 0.2, 0.5], "no": [0.1, 0.8, 0.5]}, index=list("abc"))


@pytest.mark.parametrize(
    "given",
    [
        WORD,
        WORD.loc[list("cab")],
        xr.DataArray(WORD.to_numpy().T, {"class": ["yes", "no"], "item": list("abc")}),
        WORD[["no", "yes"]].to_numpy(),
    ],
)
def test_a_classifier_by_name_and_in_order(given):
    assert read_classifier(RESPONSES, given).tolist() == [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("read", "given", "match"),
    [
        (population, {"a": 1, "b": 1}, r"Every item.*\['c'\] missing"),
        (population, series([1, 2, 1, 3], "cabb"), r"one population. Got: several for item 'b'"),
        (population, [1, 2], r"3 items in their order.*list of shape \(2,\)"),
        (population, [1.0, np.nan, 2.0], r"belong to a population.*\['b'\]"),
        (population, ["x", 1, "x"], "one kind"),
        (covariates, FRAME.loc[["a", "b"]], r"Every item.*\['c'\] missing"),
        (covariates, FRAME.set_index(pd.Index(list("aba"))), "one row per item.*'a'"),
        (covariates, FRAME.assign(age=[1.0, np.nan, 2.0]), r"finite.*nan in 'age' for item 'a'"),
        (covariates, FRAME.assign(age=["old", "young", "old"]), "must hold numbers"),
        (covariates, FRAME.set_axis(["age", "age"], axis=1), r"different names.*\['age', 'age'\]"),
        (covariates, [1.0, 2.0, 3.0], r"each of the 3 items.*shape \(3,\)"),
        (read_classifier, WORD.assign(maybe=0.0), r"Got: \['yes', 'no', 'maybe'\]"),
        (read_classifier, WORD.to_numpy()[:, :1], "Got: 1 columns"),
        (read_classifier, WORD * 2, r"sum to one. Got: \[0.2, 1.8\] for item 'a' \(3 such\)"),
    ],
)
def test_odd_tables_of_items(read, given, match):
    with pytest.raises(ResponsesError, match=match):
        read(RESPONSES, given)


GOLD = bf.Responses.from_matrix([["a"], ["b"], ["a"]], items=[1, 2, 3])
GOOD_GOLD = [
    (pd.Series(["b"], index=[2]), [-1, 1, -1]),
    (pd.Series(["b", "b"], index=[2, 2]), [-1, 1, -1]),
    (pd.Series(pd.Categorical(["b", "a"]), index=[2.0, 1.0]), [0, 1, -1]),
    ({np.int8(3): np.str_("a")}, [-1, -1, 0]),
    (pd.Series([], dtype=str), [-1, -1, -1]),
]
BAD_GOLD = [
    (pd.DataFrame({"a": [1]}), "Got: DataFrame"),
    (["a", "b", "a"], "Got: list"),
    (pd.Series(["a", "b"], index=[2, 2]), "'b' and 'a' for item 2"),
    (pd.Series(["a", None], index=[1, 2]), "leave out items whose class is not known"),
    ({1: float("nan")}, "Got: nan for item 1"),
    ({(1, 2): "a"}, "Got: (1, 2), which is not"),
    ({1: ["a"]}, "Got: ['a'] for item 1"),
    ({True: "a"}, "Got: True, which is not"),
]


def test_gold_in_all_its_forms():
    for gold, known in GOOD_GOLD:
        assert gold_labels(GOLD, gold).tolist() == known
    for gold, told in BAD_GOLD:
        with pytest.raises(ResponsesError) as error:
            gold_labels(GOLD, gold)
        assert told in str(error.value)


TABLE = bf.Responses.from_matrix([["a", "b"]], classes=["a", "b", "c"])


def test_numbers_in_order_or_by_name():
    known, concentration = read_shares([0.5, 0.3, 0.2], TABLE)
    assert concentration is None and known.tolist() == [0.5, 0.3, 0.2]
    assert read_shares({"c": 0.2, "a": 0.5, "b": 0.3}, TABLE)[0].tolist() == known.tolist()
    assert read_shares(None, TABLE) == (None, None)


def test_intervals_hold_ninety_percent_of_the_prior():
    given = {"a": (0.4, 0.6), "b": (0.2, 0.4), "c": (0.1, 0.3)}
    _, concentration = read_shares(given, TABLE)
    total = concentration.sum()
    assert np.allclose(concentration / total, [0.5, 0.3, 0.2])
    for (low, high), one in zip(given.values(), concentration, strict=True):
        inside = np.diff(stats.beta(one, total - one).cdf([low, high]))[0]
        assert 0.86 < inside < 0.96


@pytest.mark.parametrize(("given", "words"), [
    ([0.5, 0.3, 0.3], "of sum 1.1"),
    ([0.5, 0.5, 0.0], "leave out"),
    ({"a": 0.5, "b": 0.5}, "none for 'c'"),
    ({"a": 0.5, "b": 0.3, "d": 0.2}, "Got: 'd'"),
    ({"a": 0.5, "b": 0.3, "c": (0.1, 0.3)}, "not some of each"),
    ([(0.4, 0.3), (0.2, 0.4), (0.1, 0.3)], "low below high"),
    ([(0.1, 0.2), (0.2, 0.3), (0.1, 0.3)], "sum to one"),
])  # fmt: skip
def test_impossible_shares_are_refused(given, words):
    with pytest.raises(ModelError, match=words):
        read_shares(given, TABLE)
