"""What users know of classes: gold labels in all their forms, and shares."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesfuse as bf
from bayesfuse.data.known import gold_labels, read_shares
from bayesfuse.errors import ModelError, ResponsesError

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
