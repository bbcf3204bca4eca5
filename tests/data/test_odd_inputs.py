"""Odd tables of responses are read as stated, or refused in one line that says what was given."""

import array
import collections
import decimal
import enum
import uuid

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError

Colour = enum.Enum("Colour", ["red", "blue"])
Level = enum.IntEnum("Level", ["low", "high"])
Pair = collections.namedtuple("Pair", "left right")


class Text(str):
    """A kind of text of the user's own."""


def long(**columns):
    return bf.Responses.from_long({"item": [1, 2], "rater": [1, 1], "label": [0, 1]} | columns)


def items(column):
    return long(item=column).items.tolist()


def matrix(given, **settings):
    return bf.Responses.from_matrix(given, **settings)


def names(what, given):
    return getattr(matrix([[0, 1]], **{what: given}), what).tolist()


def labels(given, **settings):
    return matrix(given, **settings).label.tolist()


def classes(given, **settings):
    return matrix(given, **settings).classes.tolist()


def counts(given, *more, **settings):
    return bf.Responses.from_counts(given, *more, **settings)


LEVELS = pd.MultiIndex.from_product([[1], ["a", "b"]])
SELF = np.empty(2, dtype=object)
SELF[:] = [SELF, 1]
GAP = pd.arrays.SparseArray([0.0, np.nan, 1.0])
READ = [
    (lambda: items(array.array("i", [7, 3])), [3, 7]),
    (lambda: items(memoryview(b"\x07\x03")), [3, 7]),
    (lambda: items(collections.deque("yx")), ["x", "y"]),
    (lambda: items(np.array([3, 1], dtype=">i8")), [1, 3]),
    (lambda: items(np.broadcast_to(np.int64(5), 2)), [5]),
    (lambda: items([Text("b"), Text("a")]), ["a", "b"]),
    (lambda: items(["é", "e\u0301"]), ["e\u0301", "é"]),  # which look alike
    (lambda: items(["名", "😀"]), ["名", "😀"]),
    (lambda: items(["a\nb", "a"]), ["a", "a\nb"]),
    (lambda: items([np.inf, -np.inf]), [-np.inf, np.inf]),
    (lambda: items([2**63 - 1, -(2**63)]), [-(2**63), 2**63 - 1]),
    (lambda: items([Level.high, Level.low]), [1, 2]),
    (
        lambda: items(np.array(["1000", "0001"], dtype="M8[Y]")),  # before those of pandas
        [pd.Timestamp("0001-01-01"), pd.Timestamp("1000-01-01")],
    ),
    (lambda: names("raters", "ab"), ["a", "b"]),
    (lambda: names("classes", range(2, -1, -1)), [2, 1, 0]),
    (lambda: labels([pd.Series([0, 1]), pd.Series([1, -1])]), [0, 1, 1]),
    (lambda: labels([[0, 1]], missing="0"), [0, 1]),
    (lambda: labels(pd.DataFrame({"a": pd.to_datetime(["2021", "2020"])})), [1, 0]),
    (lambda: labels(pd.DataFrame({"a": GAP})), [0, 1]),
    (lambda: classes([[-1, 1]], missing=[]), [-1, 1]),
    (lambda: counts(collections.Counter(["01", "01", "11"])).multiplicity.tolist(), [2, 1]),
]

REFUSED = [
    lambda: items({"y": 1, "x": 2}.keys()),
    lambda: items([Colour.red, Colour.blue]),
    lambda: items([uuid.UUID(int=1), uuid.UUID(int=2)]),
    lambda: items(pd.date_range("2020", periods=2, tz="Asia/Tokyo")),
    lambda: items(np.array(["2020", "NaT"], dtype="M8[s]")),
    lambda: items(np.array([10**13, 1], dtype="M8[Y]")),
    lambda: long(label=[decimal.Decimal(0), decimal.Decimal(1)]),
    lambda: long(label=[len, max]),
    lambda: long(label=pd.interval_range(0, 2)),
    lambda: long(rater=SELF),
    lambda: long(rater=[Pair(1, 2), Pair(1, 3)]),
    lambda: bf.Responses.from_long([(1, 1, 0)]),
    lambda: bf.Responses.from_long("responses.csv"),
    lambda: bf.Responses.from_long({"item": [1]}, item=["item"]),
    lambda: names("raters", [0.0, -0.0]),
    lambda: names("raters", [1, 1.0]),
    lambda: names("classes", []),
    lambda: matrix(np.zeros((2, 2, 2))),
    lambda: matrix({"ann": [0, 1]}),
    lambda: matrix(None),
    lambda: matrix(np.empty((0, 2))),
    lambda: matrix(np.array([[0, 1]], dtype="m8[s]")),
    lambda: matrix(np.ma.masked_all((2, 2))),
    lambda: matrix(pd.DataFrame({"a": ["x", "y"], "b": [0, 1]})),
    lambda: matrix(pd.DataFrame([[0, 1]], columns=["a", "a"])),
    lambda: matrix(pd.DataFrame([[0, 1]], index=LEVELS[:1])),
    lambda: matrix(xr.Dataset({"a": ("x", [0, 1])})),
    lambda: counts([[0, 1]], [True]),
    lambda: counts([[0, 1], [1, 1]], np.ma.array([1, 2], mask=[0, 1])),
    lambda: counts({"": 3}),
    lambda: counts({"01": 1e300}),
]


@pytest.mark.parametrize(("read", "expected"), READ)
def test_odd_inputs_are_read(read, expected):
    assert read() == expected


@pytest.mark.parametrize("read", REFUSED)
def test_odder_inputs_are_refused(read):
    with pytest.raises((ResponsesError, ModelError)) as error:
        read()
    rule, _, given = str(error.value).rpartition("Got")
    assert rule and given and "\n" not in str(error.value)
