"""Odd inputs: every one is read as stated, or refused in one line that says what was given."""

from __future__ import annotations

import array
import collections
import decimal
import enum
import fractions
import uuid

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import bayesfuse as bf
from bayesfuse.data.gold import gold_labels
from bayesfuse.errors import ModelError, ResponsesError

BIG = 2**53
NAT = pd.NaT
Colour = enum.Enum("Colour", ["red", "blue"])
Level = enum.IntEnum("Level", ["low", "high"])
Pair = collections.namedtuple("Pair", "left right")


class Text(str):
    """A kind of text of the user's own."""


def long(**columns):
    return bf.Responses.from_long({"item": [1, 2], "rater": [1, 1], "label": [0, 1]} | columns)


def matrix(given, **settings):
    return bf.Responses.from_matrix(given, **settings)


def counts(given, *more, **settings):
    return bf.Responses.from_counts(given, *more, **settings)


def gold(given):
    return gold_labels(matrix([["a"], ["b"]], items=["x", "y"]), given).tolist()


def edges(given, *more, **settings):
    graph = bf.Graph.from_edges(given, *more, **settings)
    return graph.items[graph.edges].tolist()


def nearest(given, k=1):
    return bf.Graph.nearest_neighbours(given, k).edges.tolist()


def lengths(given, **settings):
    return bf.Sequences.from_lengths(given, **settings).start.tolist()


def order(**columns):
    table = {"item": [1, 2], "sequence": [0, 0], "position": [2, 1]} | columns
    return bf.Sequences.from_table(table).items.tolist()


def told(what, build):
    """Build a table and tell names or answers of it."""
    return getattr(build(), what).tolist()


INDEX = pd.Index(["u", "v"], name="who")
SELF = np.empty(2, dtype=object)
SELF[:] = [SELF, 1]
READ = {
    # columns
    "an array of Python's": (
        lambda: told("items", lambda: long(item=array.array("i", [7, 3]))),
        [3, 7],
    ),
    "a memoryview": (lambda: told("items", lambda: long(item=memoryview(b"\x07\x03"))), [3, 7]),
    "a deque": (lambda: told("items", lambda: long(item=collections.deque("yx"))), ["x", "y"]),
    "keys of a dict": (lambda: told("items", lambda: long(item={"y": 1, "x": 2}.keys())), None),
    "values of a dict": (
        lambda: told("items", lambda: long(item={1: "y", 2: "x"}.values())),
        ["x", "y"],
    ),
    "an index": (lambda: told("raters", lambda: long(rater=INDEX)), ["u", "v"]),
    "a level of an index": (
        lambda: told(
            "items",
            lambda: long(item=pd.MultiIndex.from_product([[1], ["a", "b"]]).get_level_values(1)),
        ),
        ["a", "b"],
    ),
    "big-endian numbers": (
        lambda: told("items", lambda: long(item=np.array([3, 1], dtype=">i8"))),
        [1, 3],
    ),
    "every other entry": (lambda: told("items", lambda: long(item=np.arange(4)[::-2])), [1, 3]),
    "a read-only view": (
        lambda: told("items", lambda: long(item=np.broadcast_to(np.int64(5), 2))),
        [5],
    ),
    "text of one's own class": (
        lambda: told("items", lambda: long(item=[Text("b"), Text("a")])),
        ["a", "b"],
    ),
    "text that looks alike": (
        lambda: told("items", lambda: long(item=["é", "e\u0301"])),
        ["e\u0301", "é"],
    ),
    "text of other scripts": (lambda: told("items", lambda: long(item=["名", "😀"])), ["名", "😀"]),
    "empty text": (lambda: told("items", lambda: long(item=["", " "])), ["", " "]),
    "text 'nan' and 'None'": (
        lambda: told("items", lambda: long(item=["nan", "None"])),
        ["None", "nan"],
    ),
    "a line break": (lambda: told("items", lambda: long(item=["a\nb", "a"])), ["a", "a\nb"]),
    "numbers as text": (lambda: told("items", lambda: long(item=["10", "9"])), ["10", "9"]),
    "infinite names": (
        lambda: told("items", lambda: long(item=[np.inf, -np.inf])),
        [-np.inf, np.inf],
    ),
    "the least float": (lambda: told("items", lambda: long(item=[5e-324, 0.0])), [0.0, 5e-324]),
    "least and greatest number": (
        lambda: told("items", lambda: long(item=[2**63 - 1, -(2**63)])),
        [-(2**63), 2**63 - 1],
    ),
    "number of a whole enum": (
        lambda: told("items", lambda: long(item=[Level.high, Level.low])),
        [1, 2],
    ),
    "an enum": (lambda: long(item=[Colour.red, Colour.blue]), None),
    "UUIDs": (lambda: long(item=[uuid.UUID(int=1), uuid.UUID(int=2)]), None),
    "decimals": (lambda: long(label=[decimal.Decimal(0), decimal.Decimal(1)]), None),
    "fractions": (lambda: long(label=[fractions.Fraction(1, 3), fractions.Fraction(1, 2)]), None),
    "functions": (lambda: long(label=[len, max]), None),
    "classes themselves": (lambda: long(label=[int, str]), None),
    "ellipsis": (lambda: long(rater=[..., 1]), None),
    "an array in itself": (lambda: long(rater=SELF), None),
    "dicts": (lambda: long(rater=[{}, {}]), None),
    "named tuples": (lambda: long(rater=[Pair(1, 2), Pair(1, 3)]), None),
    "intervals": (lambda: long(label=pd.interval_range(0, 2)), None),
    "intervals of pd.cut": (lambda: long(label=pd.cut([1, 9], 2)), None),
    "times of zones": (lambda: long(item=pd.date_range("2020", periods=2, tz="Asia/Tokyo")), None),
    "no time": (lambda: long(item=[NAT, pd.Timestamp("2020")]), None),
    "no time in NumPy": (lambda: long(item=np.array(["2020", "NaT"], dtype="M8[s]")), None),
    "years before pandas": (
        lambda: told("items", lambda: long(item=np.array(["1000", "0001"], dtype="M8[Y]"))),
        [pd.Timestamp("0001-01-01"), pd.Timestamp("1000-01-01")],
    ),
    "years beyond pandas": (lambda: long(item=np.array([10**13, 1], dtype="M8[Y]")), None),
    "a string for a column": (lambda: long(item="ab"), None),
    "None for a column": (lambda: long(item=None), None),
    "a frame for a column": (lambda: long(item=pd.DataFrame({"a": [1, 2]})), None),
    "None for a table": (lambda: bf.Responses.from_long(None), None),
    "a list of rows for a table": (lambda: bf.Responses.from_long([(1, 1, 0)]), None),
    "a path for a table": (lambda: bf.Responses.from_long("responses.csv"), None),
    "a series for a table": (lambda: bf.Responses.from_long(pd.Series([1, 2])), None),
    "a list for the name of a column": (
        lambda: bf.Responses.from_long({"item": [1]}, item=["item"]),
        None,
    ),
    # declared names
    "one name as text": (
        lambda: long().from_matrix([[0, 1]], raters="ab").raters.tolist(),
        ["a", "b"],
    ),
    "a number for names": (lambda: matrix([[0, 1]], raters=2), None),
    "a dict of names": (
        lambda: told("raters", lambda: matrix([[0, 1]], raters={"a": 1, "b": 2})),
        ["a", "b"],
    ),
    "ranges": (
        lambda: told("classes", lambda: matrix([[0, 1]], classes=range(2, -1, -1))),
        [2, 1, 0],
    ),
    "iterators": (
        lambda: told("classes", lambda: matrix([[0, 1]], classes=reversed([0, 1]))),
        [1, 0],
    ),
    "zero and minus zero": (lambda: matrix([[0, 1]], raters=[0.0, -0.0]), None),
    "one and one": (lambda: matrix([[0, 1]], raters=[1, 1.0]), None),
    "no names": (lambda: matrix([[0, 1]], classes=[]), None),
    "two axes of names": (lambda: matrix([[0, 1]], raters=[["a"], ["b"]]), None),
    # matrices
    "one item": (lambda: told("label", lambda: matrix([[0, 1]])), [0, 1]),
    "three axes": (lambda: matrix(np.zeros((2, 2, 2))), None),
    "a dict": (lambda: matrix({"ann": [0, 1]}), None),
    "text rows": (lambda: matrix(["01", "10"]), None),
    "a number": (lambda: matrix(1), None),
    "None": (lambda: matrix(None), None),
    "rows of tuples": (lambda: told("label", lambda: matrix(((0, 1), (1, 1)))), [0, 1, 1, 1]),
    "rows of series": (
        lambda: told("label", lambda: matrix([pd.Series([0, 1]), pd.Series([1, -1])])),
        [0, 1, 1],
    ),
    "no row": (lambda: matrix(np.empty((0, 2))), None),
    "no column": (lambda: matrix(np.empty((2, 0))), None),
    "complex numbers": (lambda: matrix([[0j, 1j]]), None),
    "durations": (lambda: matrix(np.array([[0, 1]], dtype="m8[s]")), None),
    "masked altogether": (lambda: matrix(np.ma.masked_all((2, 2))), None),
    "a mark of text among numbers": (
        lambda: told("label", lambda: matrix([[0, 1]], missing="0")),
        [0, 1],
    ),
    "no mark": (lambda: told("classes", lambda: matrix([[-1, 1]], missing=[])), [-1, 1]),
    "None for a mark": (lambda: told("classes", lambda: matrix([[-1, 1]], missing=None)), [-1, 1]),
    "NaN for a mark": (
        lambda: told("classes", lambda: matrix([[-1.0, np.nan, 1]], missing=np.nan)),
        [-1, 1],
    ),
    "bytes": (lambda: told("classes", lambda: matrix([[b"a", b"b"]])), [b"a", b"b"]),
    "a frame of dates": (
        lambda: told(
            "label", lambda: matrix(pd.DataFrame({"a": pd.to_datetime(["2021", "2020"])}))
        ),
        [1, 0],
    ),
    "a frame of several kinds": (
        lambda: matrix(pd.DataFrame({"a": ["x", "y"], "b": [0, 1]})),
        None,
    ),
    "equal columns": (lambda: matrix(pd.DataFrame([[0, 1]], columns=["a", "a"])), None),
    "names of levels": (
        lambda: matrix(pd.DataFrame([[0, 1]], index=pd.MultiIndex.from_tuples([(1, 2)]))),
        None,
    ),
    "a DataArray of three axes": (lambda: matrix(xr.DataArray(np.zeros((1, 2, 3)))), None),
    "a Dataset": (lambda: matrix(xr.Dataset({"a": ("x", [0, 1])})), None),
    "a sparse frame with gaps": (
        lambda: told(
            "label", lambda: matrix(pd.DataFrame({"a": pd.arrays.SparseArray([0.0, np.nan, 1.0])}))
        ),
        [0, 1],
    ),
    # counts
    "a Counter": (
        lambda: told("multiplicity", lambda: counts(collections.Counter(["01", "01", "11"]))),
        [2, 1],
    ),
    "counts as truths": (lambda: counts([[0, 1]], [True]), None),
    "counts in a matrix": (lambda: counts([[0, 1]], [[1]]), None),
    "masked counts": (lambda: counts([[0, 1], [1, 1]], np.ma.array([1, 2], mask=[0, 1])), None),
    "one pattern by number": (lambda: counts({1: 3}), None),
    "empty patterns": (lambda: counts({"": 3}), None),
    "counts of nothing": (lambda: counts([], []), None),
    "a huge float": (lambda: counts({"01": 1e300}), None),
    "text of two alphabets": (
        lambda: told("items", lambda: counts({"é1": 2, "1é": 1})),
        ["é1", "1é"],
    ),
    # gold
    "gold of an OrderedDict": (lambda: gold(collections.OrderedDict(y="b")), [-1, 1]),
    "gold of one's own text": (lambda: gold({Text("x"): Text("a")}), [0, -1]),
    "gold by bytes": (lambda: gold({b"x": "a"}), None),
    "gold of None": (lambda: gold({None: "a"}), None),
    "gold of several levels": (
        lambda: gold(pd.Series(["a"], index=pd.MultiIndex.from_tuples([("x", 1)]))),
        None,
    ),
    "gold in a set": (lambda: gold({"x"}), None),
    "gold in text": (lambda: gold("xa"), None),
    "gold by an array": (lambda: gold({"x": np.array(["a", "b"])}), None),
    # graphs
    "edges in a set": (lambda: edges({(1, 2)}), [[1, 2]]),
    "edges that are made": (lambda: edges((n, n + 1) for n in range(2)), [[0, 1], [1, 2]]),
    "edges as text": (lambda: edges(["ab", "bc"]), None),
    "edges of three": (lambda: edges([(1, 2), (1, 2, 3)]), None),
    "edges of numbers": (lambda: edges([1, 2]), None),
    "edges of text and numbers": (lambda: edges([("a", 1)]), None),
    "edges of NaN": (lambda: edges([(1, np.nan)]), None),
    "masked edges": (lambda: edges(np.ma.array([[1, 2]], mask=[[0, 1]])), None),
    "edges of equal floats": (lambda: edges([(1, 2.0), (2, 3)]), [[1, 2], [2, 3]]),
    "weights as text": (lambda: edges([(1, 2)], ["heavy"]), None),
    "complex weights": (lambda: edges([(1, 2)], [1j]), None),
    "masked weights": (lambda: edges([(1, 2)], np.ma.array([1.0], mask=[1])), None),
    "infinite weights": (lambda: edges([(1, 2)], [np.inf]), None),
    "features of text": (lambda: nearest(pd.DataFrame({"a": ["x", "y"]})), None),
    "features of truths": (lambda: nearest([[True], [False], [True]]), [[0, 1], [0, 2]]),
    "features with gaps": (lambda: nearest(pd.DataFrame({"a": [1, 2, pd.NA]})), None),
    "features of several kinds": (
        lambda: nearest(pd.DataFrame({"a": [0.0, 1, 5], "b": [0, 0, 0]})),
        [[0, 1], [1, 2]],
    ),
    "features at both ends": (
        lambda: nearest([[-1.7e308], [1.7e308], [1.6e308]]),
        [[0, 2], [1, 2]],
    ),
    "sparse features of NaN": (lambda: nearest(sparse.csr_array([[np.nan], [1.0]])), None),
    "sparse features of nothing": (lambda: nearest(sparse.csr_array((2, 3))), [[0, 1]]),
    "dates for features": (lambda: nearest(np.array([["2020"], ["2021"]], dtype="M8[Y]")), None),
    "truth for k": (lambda: nearest([[1], [2]], True), None),
    # sequences
    "truths for lengths": (lambda: lengths([True, True]), None),
    "one length": (lambda: lengths(3), None),
    "lengths of text": (lambda: lengths("12"), None),
    "negative lengths": (lambda: lengths(np.array([2, -1], dtype=np.int8)), None),
    "positions of text": (lambda: order(position=["b", "a"]), [2, 1]),
    "positions of one's order": (
        lambda: order(position=pd.Categorical(["hi", "lo"], categories=["lo", "hi"])),
        [2, 1],
    ),
    "positions of two kinds": (lambda: order(position=[1, "a"]), None),
    "positions far away": (lambda: order(position=[BIG + 1, BIG]), [2, 1]),
    "a position of NaN": (lambda: order(position=[np.nan, 1]), None),
}


@pytest.mark.parametrize("case", READ)
def test_odd_inputs_are_read_or_refused(case):
    read, expected = READ[case]
    if expected is not None:
        assert read() == expected
        return
    with pytest.raises((ResponsesError, ModelError)) as error:
        read()
    rule, _, given = str(error.value).rpartition("Got")
    assert rule and given and "\n" not in str(error.value)
