"""The table of responses: what it keeps and merges, names, the order of classes, odd inputs."""

import array
import collections
import datetime as dt
import decimal
import enum
import uuid

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from films import COLUMNS, TABLE, rows_of
from refusals import refused, refused_table

import bayesfuse as bf
from bayesfuse.data.known import gold_labels
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene


def test_long_table_keeps_names_and_repeats_in_any_order_of_rows():
    for seed in range(5):
        frame = pd.DataFrame(TABLE).sample(frac=1, random_state=seed)
        responses = bf.Responses.from_long(frame, **COLUMNS)
        assert responses.items.tolist() == ["A", "B"]
        assert responses.raters.tolist() == ["x", "y"]
        assert responses.classes.tolist() == ["bad", "good"]
        of_a = [["A", "x", "bad"], ["A", "x", "bad"], ["A", "y", "good"]]
        assert rows_of(responses) == [*of_a, ["B", "x", "bad"], ["B", "y", "good"]]


def test_declared_names_keep_their_order_and_the_unanswered():
    declared = {"items": list("CBA"), "raters": list("zyx"), "classes": ["good", "bad", "?"]}
    responses = bf.Responses.from_long(TABLE, **COLUMNS, **declared)
    assert responses.items.tolist() == ["C", "B", "A"]
    assert responses.per_item.tolist() == [0, 2, 3]
    assert responses.per_rater.tolist() == [0, 2, 3]
    assert responses.classes.tolist() == ["good", "bad", "?"]
    assert sorted(rows_of(responses)) == sorted(rows_of(bf.Responses.from_long(TABLE, **COLUMNS)))


def test_counts_have_exact_sums():
    half = 2**51
    table = bf.Responses.from_counts({"00": half, "01": half - 1})
    assert table.per_rater.tolist() == [2 * half - 1, 2 * half - 1]
    assert 0.5 < table.agreement() < 0.5 + 1e-9
    for counts in ([half, half], [2**63, 1], [2.0**80, 1]):
        refused_table(r"below 2⁵³.*Got: \[", bf.Responses.from_counts, [[0, 0], [0, 1]], counts)


@pytest.mark.parametrize("label", [[0, 5, 1, 1], [0, -1, 1, 1], [0, 1, 1]])
def test_other_labels_must_be_of_the_table(label):
    responses = bf.Responses.from_matrix([[0, 1], [1, 1]])
    assert responses.relabelled(np.array([1, 1, 0, 0])).label.tolist() == [1, 1, 0, 0]
    with pytest.raises(ResponsesError, match=r"0 to 1, one for each of the 4 rows\. Got"):
        responses.relabelled(np.array(label))


def test_counts_expand_and_merge_back():
    responses = bf.Responses.from_counts([[0, 1], [1, -1], [1, 1]], [3, 2, 0])
    assert responses.multiplicity.tolist() == [3, 2, 0]
    assert responses.per_rater.tolist() == [5, 3]
    written = responses.expand()
    assert written.n_items == 5 and written.is_unweighted and written.n_responses == 8
    merged, inverse = written.merged()
    assert merged.multiplicity.tolist() == [3, 2]
    assert inverse.tolist() == [0, 0, 0, 1, 1]
    assert merged.to_frame()["label"].tolist() == [0, 1, 1]
    again, _ = responses.take(np.array([0, 0, 1])).merged()
    assert again.multiplicity.tolist() == [6, 2]


def test_condensed_merges_where_it_pays():
    rng = np.random.default_rng(4)
    few = bf.Responses.from_matrix(rng.integers(2, size=(200, 3)))
    table, inverse = few.condensed()
    assert table.n_items == 8 and table.multiplicity.sum() == 200
    np.testing.assert_array_equal(
        table.cell.reshape(-1, 3)[inverse].ravel(), few.cell
    )  # every item finds its own responses
    many = bf.Responses.from_matrix(rng.integers(2, size=(200, 20)))
    table, inverse = many.condensed()
    assert table is many
    np.testing.assert_array_equal(inverse, np.arange(200))
    apart, _ = few.condensed(np.arange(200))  # a key that keeps all items apart
    assert apart is few


def test_merging_respects_a_key_and_repeats():
    responses = bf.Responses.from_long(
        {"item": [0, 0, 1, 2, 2], "rater": [0, 0, 0, 0, 0], "label": [1, 1, 1, 1, 1]},
        classes=[0, 1],
    )
    assert responses.merged()[1].tolist() == [0, 1, 0]  # answering twice is not answering once
    assert responses.merged(np.array([0, 0, 1]))[1].tolist() == [0, 1, 2]


def test_a_summary_shows_classes_agreement_and_patterns():
    text = repr(bf.Responses.from_long(TABLE, **COLUMNS))
    # pairs: (bad, bad) (bad, good) (bad, good) of A, (bad, good) of B
    assert "bad (3), good (2)" in text and "0.25 of the pairs" in text
    assert "5 items in 2 patterns" in repr(bf.Responses.from_counts({"ab": 2, "bb": 3}))


def test_shipped_tables_have_the_published_sizes():
    caries = bf.datasets.caries()
    assert caries.n_items == 32 and caries.multiplicity.sum() == 3869
    assert bf.datasets.anesthesia().per_rater.tolist() == [135, 45, 45, 45, 45]


@pytest.mark.parametrize("names", [[1, "2"], [(1, 2), (1, 3)], pd.period_range("2020", periods=2)])
def test_names_that_no_file_can_hold_are_refused(names):
    with pytest.raises(ResponsesError, match=r"Names of raters must be all text.*Got"):
        bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]"])
def test_times_are_names(kind, tmp_path):
    times = np.array(["2020-01-01", "2020-01-03"], dtype=kind)
    for names in (times, list(times), pd.DatetimeIndex(times), pd.DatetimeIndex(times).tolist()):
        responses = bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)
        assert responses.raters.tolist() == pd.DatetimeIndex(times).tolist()
    point = bf.find_map(DawidSkene(responses))
    point.to_netcdf(tmp_path / "point.nc")
    assert (point["point"]["rater"].values == times).all()


BIG = 2**53


@pytest.mark.parametrize(
    "names",
    [
        [BIG, BIG + 1, BIG + 2],
        np.array([1, 2**63, 2**63 + 1], dtype=np.uint64),
        [np.datetime64(1, "ns"), np.datetime64(2, "ns"), np.datetime64("2020")],
        [True, False],
        [0.25, 1, BIG],
    ],
)
def test_names_stay_as_they_are(names):
    """Found in a column, declared, and looked up by another type of number."""
    long = bf.Responses.from_long(
        {"item": list(names) * 2, "rater": [0] * len(names) * 2, "label": [0, 1] * len(names)}
    )
    assert sorted(long.items.tolist()) == sorted(list(names)) and len(long.items) == len(names)
    declared = bf.Responses.from_matrix([[n % 2] for n in range(len(names))], items=names)
    assert declared.items.tolist() == list(names)
    gold = {name: n % 2 for n, name in enumerate(declared.items.tolist())}
    known = gold_labels(declared, gold)
    assert known.tolist() == [n % 2 for n in range(len(names))]


def test_numbers_are_compared_exactly():
    table = {"item": [float(BIG), 2.0], "rater": [0, 0], "label": [0, 1]}
    found = bf.Responses.from_long(table, items=[BIG + 1, BIG, 2])
    assert found.per_item.tolist() == [0, 1, 1]
    refused_table("among the declared ones", bf.Responses.from_long, table, items=[BIG + 1, 2])
    refused_table("64 bits must hold each", bf.Responses.from_matrix, [[0], [1]], items=[-1, 2**63])
    assert bf.Responses.from_matrix([[BIG + 1, np.nan], [0, 1]]).classes.tolist() == [0, 1, BIG + 1]


@pytest.mark.parametrize("name", ["a\0", "a\0b", b"a\0", np.str_("a\0"), "\ud800"])
def test_text_that_no_file_holds_is_refused(name):
    other = name[:1] * 2
    with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
        bf.Responses.from_matrix([[0], [1]], items=[name, other])
    with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
        bf.Responses.from_long({"item": [name, other], "rater": [0, 0], "label": [0, 1]})


def test_dates_are_names():
    days = [dt.date(2020, 1, 2), dt.date(2020, 1, 1)]
    responses = bf.Responses.from_long({"item": days, "rater": [0, 0], "label": [0, 1]})
    assert responses.items.tolist() == [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]
    assert gold_labels(responses, {days[0]: 0}).tolist() == [-1, 0]
    sequences = bf.Sequences.from_lengths([2], items=days)
    assert sequences.places(responses).tolist() == [1, 0]
    with pytest.raises(ResponsesError, match="Got: date, datetime"):
        mixed = [days[0], dt.datetime(2020, 1, 2)]
        bf.Responses.from_long({"item": mixed, "rater": [0, 0], "label": [0, 1]})


def test_coordinates_of_a_data_array_are_names():
    matrix = xr.DataArray([[0, 1], [1, 1]], {"film": ["i", "j"]}, ["film", "critic"])
    assert bf.Responses.from_matrix(matrix).items.tolist() == ["i", "j"]
    assert bf.Responses.from_matrix(matrix, items=["k", "l"]).items.tolist() == ["k", "l"]
    assert bf.Responses.from_matrix(matrix).raters.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        ({(0, 1): 3, (1, 1): 2}, ["01", "11"]),
        ({(1, 11): 3, (11, 1): 2}, ["1,11", "11,1"]),
        ({("1,1", "1"): 3, ("1", "1,1"): 2}, ["('1,1', '1')", "('1', '1,1')"]),
    ],
)
def test_patterns_have_names_of_their_own(counts, names):
    assert bf.Responses.from_counts(counts).items.tolist() == names


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
        (lambda: bf.Responses.from_long(frame(UP), classes=WORDS, ordered=True), True),
        (lambda: bf.Responses.from_matrix(frame(ORDER)[["label"]]), True),
        (lambda: bf.Responses.from_counts({"01": 3, "12": 2}), False),
        (lambda: bf.Responses.from_counts({"01": 3, "12": 2}, classes="012", ordered=True), True),
    ],
)
def test_what_is_ordered(read, ordered):
    assert read().ordered is ordered


def test_the_categories_give_the_order_of_the_classes():
    assert bf.Responses.from_long(frame(UP)).classes.tolist() == ["good", "fair", "bad"]


def test_orders_that_make_no_sense():
    refused_table(
        r"ordered=True needs classes=.* Got: ", bf.Responses.from_long, frame(), ordered=True
    )
    refused(
        "ordered must be True or False. Got: 'yes'", bf.Responses.from_long, frame(), ordered="yes"
    )


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


def test_tables_of_other_rows_have_all_other_attributes():
    table = bf.Responses.from_counts(
        [["Low", "low"], ["mid", "top"]], [2, 3], classes=["low", "mid", "top"], normalise=True
    ).completed()
    changed = table.with_rows(table.item, table.rater, 2 - table.label)
    assert changed.label.tolist() == [2, 2, 1, 0] and changed.silent is table.silent
    names = "multiplicity", "ordered", "normalised"
    assert all(np.all(getattr(changed, name) == getattr(table, name)) for name in names)
    others = table.with_rows(table.item, table.rater, table.label, raters=np.array(["x", "y"]))
    assert others.silent is None and others.normalised
