"""The table of responses: what it keeps, and what it refuses."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import sparse

import bayesfuse as bf
from bayesfuse.data.gold import gold_labels
from bayesfuse.errors import ResponsesError
from bayesfuse.models import DawidSkene

TABLE = {
    "film": ["B", "A", "B", "A", "A"],
    "critic": ["y", "x", "x", "y", "x"],
    "verdict": ["good", "bad", "bad", "good", "bad"],
}
COLUMNS = {"item": "film", "rater": "critic", "label": "verdict"}


def rows_of(responses):
    return responses.to_frame().values.tolist()


def test_long_table_keeps_names_and_repeats():
    responses = bf.Responses.from_long(TABLE, **COLUMNS)
    assert responses.items.tolist() == ["A", "B"]
    assert responses.raters.tolist() == ["x", "y"]
    assert responses.classes.tolist() == ["bad", "good"]
    assert rows_of(responses) == [
        ["A", "x", "bad"],
        ["A", "x", "bad"],
        ["A", "y", "good"],
        ["B", "x", "bad"],
        ["B", "y", "good"],
    ]


def test_row_order_does_not_matter():
    frame = pd.DataFrame(TABLE)
    one = bf.Responses.from_long(frame, **COLUMNS)
    for seed in range(5):
        other = bf.Responses.from_long(frame.sample(frac=1, random_state=seed), **COLUMNS)
        assert rows_of(one) == rows_of(other)


def test_declared_names_keep_their_order_and_the_unanswered():
    responses = bf.Responses.from_long(
        TABLE,
        **COLUMNS,
        items=["C", "B", "A"],
        raters=["z", "y", "x"],
        classes=["good", "bad", "?"],
    )
    assert responses.items.tolist() == ["C", "B", "A"]
    assert responses.per_item.tolist() == [0, 2, 3]
    assert responses.per_rater.tolist() == [0, 2, 3]
    assert responses.classes.tolist() == ["good", "bad", "?"]
    assert sorted(rows_of(responses)) == sorted(rows_of(bf.Responses.from_long(TABLE, **COLUMNS)))


def test_categories_declare_classes():
    frame = pd.DataFrame(TABLE)
    frame["verdict"] = pd.Categorical(frame["verdict"], categories=["good", "fair", "bad"])
    assert bf.Responses.from_long(frame, **COLUMNS).classes.tolist() == ["good", "fair", "bad"]


@pytest.mark.parametrize("missing", [-1, 9])
def test_matrix_equals_long_table(missing):
    matrix = np.array([[0, 1, missing], [2, missing, missing], [missing, missing, missing]])
    responses = bf.Responses.from_matrix(matrix, missing=missing, classes=[0, 1, 2])
    assert responses.n_items == 3
    assert rows_of(responses) == [[0, 0, 0], [0, 1, 1], [1, 0, 2]]


def test_matrix_of_floats_with_nan_and_of_strings():
    numbers = bf.Responses.from_matrix([[0.0, np.nan], [1.0, 0.0]])
    assert rows_of(numbers) == [[0, 0, 0], [1, 0, 1], [1, 1, 0]]
    words = bf.Responses.from_matrix(np.array([["no", None], ["yes", "no"]], dtype=object))
    assert rows_of(words) == [[0, 0, "no"], [1, 0, "yes"], [1, 1, "no"]]


def test_frame_gives_its_index_and_columns_as_names():
    frame = pd.DataFrame({"ann": [0, 1], "bob": [1, -1]}, index=["i", "j"])
    assert rows_of(bf.Responses.from_matrix(frame)) == [
        ["i", "ann", 0],
        ["i", "bob", 1],
        ["j", "ann", 1],
    ]


@pytest.mark.parametrize(
    "names",
    [
        [1, "2"],
        [(1, 2), (1, 3)],
        [(1, 2), (1, 2, 3)],
        pd.period_range("2020", periods=2),
        pd.date_range("2020", periods=2, tz="UTC"),
    ],
)
def test_names_that_no_file_can_hold_are_refused(names):
    with pytest.raises(ResponsesError, match=r"Names of raters must be all text.*Got"):
        bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]"])
def test_times_are_names(kind, tmp_path):
    times = np.array(["2020-01-01", "2020-01-03"], dtype=kind)
    for names in (times, list(times), pd.DatetimeIndex(times), pd.DatetimeIndex(times).tolist()):
        responses = bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)
        point = bf.find_map(DawidSkene(responses))
        point.to_netcdf(tmp_path / "point.nc")
        assert (point["point"]["rater"].values == times).all()


def test_mixed_values_are_not_turned_into_text():
    marked = bf.Responses.from_matrix([["a", -1], ["b", "a"]])
    assert rows_of(marked) == [[0, 0, "a"], [1, 0, "b"], [1, 1, "a"]]
    table = {"item": [1, 2, 1], "rater": list("xyy"), "label": ["a", np.nan, "b"]}
    with pytest.raises(ResponsesError, match="missing value in row 1"):
        bf.Responses.from_long(table)
    for column, values in {"item": [1, "1", 1], "label": [0, "0", 1]}.items():
        with pytest.raises(ResponsesError, match="must be of one kind"):
            bf.Responses.from_long(table | {"label": list("aba"), column: values})
    with pytest.raises(ResponsesError, match="must be of one kind"):
        bf.Responses.from_counts({(0, "a"): 3, ("a", 0): 2})


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [
        ([0, 1, None], "Int64", [0, 1]),
        ([0.0, 1.0, None], "Float64", [0, 1]),
        ([True, False, None], "boolean", [False, True]),
        (["x", "y", None], "string", ["x", "y"]),
    ],
)
def test_frames_with_pandas_own_missing_values(values, kind, classes):
    frame = pd.DataFrame({"ann": pd.Series(values, dtype=kind), "bob": values[0]})
    responses = bf.Responses.from_matrix(frame)
    assert responses.classes.tolist() == classes and responses.per_rater.tolist() == [2, 3]


@pytest.mark.parametrize(
    "missing",
    [[-1, -9], {-1, -9}, (-9, None, -1), iter([-9, -1]), pd.Index([-1, -9]), [pd.NA, -1, "?", -9]],
)
def test_several_marks_mean_missing(missing):
    responses = bf.Responses.from_matrix([[0, 1], [-1, -9], [-9, 0]], missing=missing)
    assert rows_of(responses) == [[0, 0, 0], [0, 1, 1], [2, 1, 0]]


def test_a_declared_class_is_not_the_default_mark():
    answers = [[-1, 1, 1], [1, -1, 1], [1, 1, -1]]
    frame = pd.DataFrame(answers).astype(pd.CategoricalDtype([-1, 1]))
    for made in (
        bf.Responses.from_matrix(answers, classes=[-1, 1]),
        bf.Responses.from_matrix(np.array(answers, dtype=float), classes=[1.0, -1.0]),
        bf.Responses.from_matrix(frame),
        bf.Responses.from_counts(answers, [1, 1, 1], classes=[-1, 1]),
    ):
        assert made.n_responses == 9
        assert sorted(made.classes.tolist()) == [-1, 1]
    made = bf.Responses.from_matrix([[-1, 1, 0], [0, -1, 1]], classes=[0, 1])
    assert made.n_responses == 4
    for missing in (-1, [-9, -1], -1.0):
        with pytest.raises(ResponsesError, match=r"must not be a class.* Got: -1"):
            bf.Responses.from_matrix(answers, missing=missing, classes=[-1, 1])


@pytest.mark.parametrize("kind", ["int8", "float32", "str", "object", "datetime64[D]"])
def test_masked_answers_are_missing(kind):
    values = np.array([[10, 20], [20, 30]]).astype(kind)
    masked = np.ma.array(values, mask=[[False, True], [False, True]])
    labels = values[:, 0].tolist() if kind[0] != "d" else list(pd.DatetimeIndex(values[:, 0]))
    for matrix in (masked, list(masked)):
        responses = bf.Responses.from_matrix(matrix)
        assert rows_of(responses) == [[0, 0, labels[0]], [1, 0, labels[1]]]
        assert len(responses.classes) == 2  # 30 was masked
    whole = bf.Responses.from_long({"item": masked[:, 0], "rater": [1, 1], "label": [0, 1]})
    assert whole.items.tolist() == labels
    with pytest.raises(ResponsesError, match=r"'item' must have a value in every row.*row 0"):
        bf.Responses.from_long({"item": masked[:, 1], "rater": [1, 1], "label": [0, 1]})
    with pytest.raises(ResponsesError, match="must not be missing"):
        bf.Responses.from_matrix([[0, 1]], raters=np.ma.array(["a", "b"], mask=[0, 1]))


def arrow(values, categories):
    pyarrow = pytest.importorskip("pyarrow", reason="makes columns of Arrow")
    codes = [None if value is None else categories.index(value) for value in values]
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, "int8"), categories)


def arrow_in_pandas(values, categories):
    pyarrow = pytest.importorskip("pyarrow", reason="makes columns of Arrow")
    kind = pd.ArrowDtype(pyarrow.dictionary(pyarrow.int8(), pyarrow.string()))
    return pd.Series(pd.arrays.ArrowExtensionArray(arrow(values, categories)), dtype=kind)


def enum(values, categories):
    polars = pytest.importorskip("polars", reason="makes columns of Polars")
    pytest.importorskip("pyarrow", reason="reads columns of Polars")
    return polars.Series(values, dtype=polars.Enum(categories))


def pandas(values, categories):
    return pd.Series(pd.Categorical(values, categories=categories))


CATEGORICAL = [arrow, arrow_in_pandas, enum, pandas]


@pytest.mark.parametrize("make", CATEGORICAL)
def test_categories_of_any_library_declare_classes(make):
    labels = make(["good", "bad", "good"], ["good", "fair", "bad"])
    table = {"item": [1, 2, 2], "rater": [1, 1, 2]}
    responses = bf.Responses.from_long(table | {"label": labels})
    assert responses.classes.tolist() == ["good", "fair", "bad"]
    assert responses.label.tolist() == [0, 2, 0]
    turned = bf.Responses.from_long(table | {"label": labels}, classes=["bad", "good"])
    assert turned.label.tolist() == [1, 0, 1]
    with pytest.raises(ResponsesError, match="'bad' in row 1"):
        bf.Responses.from_long(table | {"label": labels}, classes=["fair", "good"])
    gap = make(["good", None, "bad"], ["good", "fair", "bad"])
    with pytest.raises(ResponsesError, match="missing value in row 1"):
        bf.Responses.from_long(table | {"label": gap})


@pytest.mark.parametrize("make", CATEGORICAL)
def test_categories_of_a_frame_declare_classes(make):
    order = ["good", "?", "fair", "bad"]
    parts = {"ann": make(["good", "?"], order), "bob": make(["bad", None], order)}
    if make is arrow:
        frame = pytest.importorskip("pyarrow").table(parts)
    else:
        frame = (
            pytest.importorskip("polars").DataFrame(parts) if make is enum else pd.DataFrame(parts)
        )
    responses = bf.Responses.from_matrix(frame, missing="?")
    assert responses.raters.tolist() == ["ann", "bob"]
    assert responses.classes.tolist() == ["good", "fair", "bad"]
    assert responses.label.tolist() == [0, 2]


def test_categories_that_differ_between_columns_need_an_order():
    one, other = pd.Categorical(["b", "a"]), pd.Categorical(["c", "a"])  # each sorted
    frame = pd.DataFrame({"ann": one, "bob": other, "cat": ["d", "a"]})
    assert bf.Responses.from_matrix(frame).classes.tolist() == list("abcd")
    frame["bob"] = pd.Categorical(["c", "a"], categories=["c", "a"])
    with pytest.raises(ResponsesError, match=r"in one order.*give classes="):
        bf.Responses.from_matrix(frame)
    classes = bf.Responses.from_matrix(frame, classes=list("dbca")).classes
    assert classes.tolist() == list("dbca")


def test_tables_of_any_library():
    expected = rows_of(bf.Responses.from_long(TABLE, **COLUMNS))
    assert rows_of(bf.Responses.from_long(pd.DataFrame(TABLE).to_records(), **COLUMNS)) == expected
    of_xarray = xr.Dataset.from_dataframe(pd.DataFrame(TABLE)).set_coords("film")
    assert rows_of(bf.Responses.from_long(of_xarray, **COLUMNS)) == expected
    pyarrow = pytest.importorskip("pyarrow", reason="makes a table of Arrow")
    for table in (pyarrow.table(TABLE), pyarrow.RecordBatch.from_pydict(TABLE)):
        assert rows_of(bf.Responses.from_long(table, **COLUMNS)) == expected
    polars = pytest.importorskip("polars", reason="makes a table of Polars")
    for table in (polars.DataFrame(TABLE), polars.LazyFrame(TABLE)):
        assert rows_of(bf.Responses.from_long(table, **COLUMNS)) == expected


BIG = 2**53


@pytest.mark.parametrize(
    "names",
    [
        [1, 2**63, 2**63 + 1],
        [BIG, BIG + 1, BIG + 2],
        np.array([BIG, BIG + 1, 2**63], dtype=object),
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
    with pytest.raises(ResponsesError, match="among the declared ones"):
        bf.Responses.from_long(table, items=[BIG + 1, 2])
    with pytest.raises(ResponsesError, match="64 bits must hold each"):
        bf.Responses.from_matrix([[0], [1]], items=[BIG + 1, 0.5])
    with pytest.raises(ResponsesError, match="64 bits must hold each"):
        bf.Responses.from_matrix([[0], [1]], items=[-1, 2**63])
    exact = bf.Responses.from_matrix(
        pd.DataFrame({"x": pd.Series([BIG + 1, None], dtype="Int64")}), classes=[BIG, BIG + 1]
    )
    assert exact.label.tolist() == [1]
    assert bf.Responses.from_matrix([[BIG + 1, np.nan], [0, 1]]).classes.tolist() == [0, 1, BIG + 1]


@pytest.mark.parametrize("name", ["a\0", "a\0b", b"a\0", np.str_("a\0"), "\ud800"])
def test_text_that_no_file_holds_is_refused(name):
    other = name[:1] * 2
    for given in ([name, other], np.array([name, other], dtype=object)):
        with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
            bf.Responses.from_matrix([[0], [1]], items=given)
        with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
            bf.Responses.from_long({"item": given, "rater": [0, 0], "label": [0, 1]})


def test_dates_are_names():
    days = [dt.date(2020, 1, 2), dt.date(2020, 1, 1)]
    responses = bf.Responses.from_long({"item": days, "rater": [0, 0], "label": [0, 1]})
    assert responses.items.tolist() == [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]
    assert gold_labels(responses, {days[0]: 0}).tolist() == [-1, 0]
    sequences = bf.Sequences.from_lengths([2], items=days)
    assert sequences.places(responses).tolist() == [1, 0]
    again = bf.Responses.from_long(responses.to_frame(), items=days)
    assert again.items.tolist() == responses.items.tolist()[::-1]
    with pytest.raises(ResponsesError, match="Got: date, datetime"):
        mixed = [days[0], dt.datetime(2020, 1, 2)]
        bf.Responses.from_long({"item": mixed, "rater": [0, 0], "label": [0, 1]})


@pytest.mark.parametrize("kind", ["float16", "longdouble", "uint8", "bool"])
def test_matrices_of_any_numbers(kind):
    responses = bf.Responses.from_matrix(np.array([[0, 1], [1, 1]], dtype=kind))
    assert responses.label.tolist() == [0, 1, 1, 1]
    names = np.array([0, 1], dtype=kind)
    assert bf.Responses.from_matrix([[0, 1]], raters=names).raters.tolist() == [0, 1]


def test_counts_have_exact_sums():
    half = 2**51
    table = bf.Responses.from_counts({"00": half, "01": half - 1})
    assert table.per_rater.tolist() == [2 * half - 1, 2 * half - 1]
    assert 0.5 < table.agreement() < 0.5 + 1e-9
    assert "4,503,599,627,370,495 items in 2 patterns" in repr(table)
    for counts in ([half, half], [2**63, 1], [2.0**80, 1]):
        with pytest.raises(ResponsesError, match=r"below 2⁵³.*Got: \["):
            bf.Responses.from_counts([[0, 0], [0, 1]], counts)
    few = bf.Responses.from_counts([[0, 0], [0, 1], [-1, 1]], [2, 0, 1])
    assert "responses per item   1 to 2, median 2" in repr(few)


def test_pattern_names_differ():
    responses = bf.Responses.from_counts({("1,1", "1"): 3, ("1", "1,1"): 2})
    assert responses.items.tolist() == ["('1,1', '1')", "('1', '1,1')"]


GOLD = bf.Responses.from_matrix([["a"], ["b"], ["a"]], items=[1, 2, 3])
GOOD_GOLD = {
    "series": (pd.Series(["b"], index=[2]), [-1, 1, -1]),
    "repeated": (pd.Series(["b", "b"], index=[2, 2]), [-1, 1, -1]),
    "categories": (pd.Series(pd.Categorical(["b", "a"]), index=[2.0, 1.0]), [0, 1, -1]),
    "numpy": ({np.int8(3): np.str_("a")}, [-1, -1, 0]),
    "empty": (pd.Series([], dtype=str), [-1, -1, -1]),
}
BAD_GOLD = {
    "frame": (pd.DataFrame({"a": [1]}), "Got: DataFrame"),
    "list": (["a", "b", "a"], "Got: list"),
    "contradiction": (pd.Series(["a", "b"], index=[2, 2]), "'b' and 'a' for item 2"),
    "missing": (pd.Series(["a", None], index=[1, 2]), "leave out items whose class is not known"),
    "missing number": ({1: float("nan")}, "Got: nan for item 1"),
    "tuple": ({(1, 2): "a"}, "Got: (1, 2), which is not"),
    "list of a class": ({1: ["a"]}, "Got: ['a'] for item 1"),
    "truth for a number": ({True: "a"}, "Got: True, which is not"),
}


@pytest.mark.parametrize("case", GOOD_GOLD)
def test_gold_in_all_its_forms(case):
    gold, known = GOOD_GOLD[case]
    assert gold_labels(GOLD, gold).tolist() == known


@pytest.mark.parametrize("case", BAD_GOLD)
def test_gold_that_cannot_be(case):
    gold, told = BAD_GOLD[case]
    with pytest.raises(ResponsesError) as error:
        gold_labels(GOLD, gold)
    assert told in str(error.value)


def test_coordinates_of_a_data_array_are_names():
    matrix = xr.DataArray([[0, 1], [1, 1]], {"film": ["i", "j"]}, ["film", "critic"])
    assert bf.Responses.from_matrix(matrix).items.tolist() == ["i", "j"]
    assert bf.Responses.from_matrix(matrix, items=["k", "l"]).items.tolist() == ["k", "l"]
    assert bf.Responses.from_matrix(matrix).raters.tolist() == [0, 1]


def test_patterns_have_names_of_their_own():
    assert bf.Responses.from_counts({(0, 1): 3, (1, 1): 2}).items.tolist() == ["01", "11"]
    assert bf.Responses.from_counts({(1, 11): 3, (11, 1): 2}).items.tolist() == ["1,11", "11,1"]


@pytest.mark.parametrize("label", [[0, 5, 1, 1], [0, -1, 1, 1], [0, 1, 1], [0.0, 1.0, 1.0, 1.0]])
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
    assert written.n_items == 5 and written.is_plain and written.n_responses == 8
    merged, inverse = written.merged()
    assert merged.multiplicity.tolist() == [3, 2]
    assert inverse.tolist() == [0, 0, 0, 1, 1]
    assert merged.to_frame()["label"].tolist() == [0, 1, 1]


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


def test_repr_says_what_matters():
    text = repr(bf.Responses.from_long(TABLE, **COLUMNS))
    assert "5 responses to 2 items by 2 raters, 2 classes" in text
    assert "bad (3), good (2)" in text
    assert "2 to 3" in text
    # pairs: (bad, bad) (bad, good) (bad, good) of A, (bad, good) of B
    assert "0.25 of the pairs" in text
    html = bf.Responses.from_counts({"<b": 2, "bb": 3})._repr_html_()
    assert "5 items in 2 patterns" in html and "&lt;" in html and "<b (" not in html


def test_classic_tables():
    caries = bf.datasets.caries()
    assert caries.n_items == 32 and caries.multiplicity.sum() == 3869
    anesthesia = bf.datasets.anesthesia()
    assert anesthesia.per_rater.tolist() == [135, 45, 45, 45, 45]


@pytest.mark.parametrize("name", ["anesthesia", "caries"])
def test_shipped_tables_are_the_published_ones(name, development_data):
    published, _ = development_data(name)
    shipped = getattr(bf.datasets, name)().expand()

    def patterns(responses):
        rows = zip(responses.item, responses.rater, responses.label, strict=True)
        found = {}
        for item, rater, label in rows:
            found.setdefault(item, []).append((int(rater), int(label)))
        return sorted(tuple(sorted(answers)) for answers in found.values())

    assert patterns(shipped) == patterns(published)


BAD_TABLES = {
    "unknown column": (lambda: bf.Responses.from_long(TABLE), "'item', which is not among"),
    "empty table": (
        lambda: bf.Responses.from_long({"item": [], "rater": [], "label": []}),
        "at least one row",
    ),
    "columns of different length": (
        lambda: bf.Responses.from_long({"item": [1, 2], "rater": [1], "label": [0, 1]}),
        "same length",
    ),
    "undeclared label": (
        lambda: bf.Responses.from_long(TABLE, **COLUMNS, classes=["good", "fair"]),
        "'bad' in row 1",
    ),
    "missing label": (
        lambda: bf.Responses.from_long({"item": [1, 2], "rater": [1, 1], "label": [0, np.nan]}),
        "missing value in row 1",
    ),
    "missing item": (
        lambda: bf.Responses.from_long({"item": [None, 2], "rater": [1, 1], "label": [0, 1]}),
        "missing value in row 0",
    ),
    "missing label of declared classes": (
        lambda: bf.Responses.from_long(
            {"item": [1, 2], "rater": [1, 1], "label": [0, np.nan]}, classes=[0, 1]
        ),
        "missing value in row 1",
    ),
    "one class": (
        lambda: bf.Responses.from_long({"item": [1, 2], "rater": [1, 1], "label": ["a", "a"]}),
        "at least two classes",
    ),
    "duplicate names": (
        lambda: bf.Responses.from_long(TABLE, **COLUMNS, raters=["x", "y", "x"]),
        "'x' more than once",
    ),
    "mixed names without an order": (
        lambda: bf.Responses.from_long(
            {"item": np.array([1, object()]), "rater": [1, 1], "label": [0, 1]}
        ),
        "int, object",
    ),
    "probabilities": (lambda: bf.Responses.from_matrix([[0.3, 0.7]]), "Got: 0.3|Got: np.float64"),
    "infinity": (lambda: bf.Responses.from_matrix([[0.0, np.inf], [1.0, 0.0]]), "Got: inf"),
    "a set of names": (
        lambda: bf.Responses.from_matrix([[0, 1]], raters={"a", "b"}),
        "must have an order",
    ),
    "a column of lists": (
        lambda: bf.Responses.from_long({"item": [[1, 2]], "rater": [1], "label": [0]}),
        "'item' of shape (1, 2)",
    ),
    "a column that is one value": (
        lambda: bf.Responses.from_long({"item": 1, "rater": [1], "label": [0]}),
        "'item' of shape ()",
    ),
    "two columns of one name": (
        lambda: bf.Responses.from_long(
            pd.DataFrame([[1, 2, 0, 1]], columns=["item", "rater", "label", "label"])
        ),
        "'label' of shape (1, 2)",
    ),
    "counts that are text": (lambda: bf.Responses.from_counts({"01": "3"}), "Got: ['3']"),
    "classes twice": (
        lambda: bf.Responses.from_matrix([[0, 1]], classes=[0, 1, 1]),
        "Names of classes must differ",
    ),
    "ragged rows": (lambda: bf.Responses.from_matrix([[0, 1], [1]]), "rows of lengths [1, 2]"),
    "a sparse matrix": (
        lambda: bf.Responses.from_matrix(sparse.eye_array(3)),
        "dia_array of shape (3, 3)",
    ),
    "a set for a column": (
        lambda: bf.Responses.from_long({"item": {1, 2}, "rater": [1, 1], "label": [0, 1]}),
        "'item' of shape ()",
    ),
    "times of picoseconds": (
        lambda: bf.Responses.from_matrix([[0], [1]], items=np.array([1, 2], dtype="M8[ps]")),
        "whole nanoseconds",
    ),
    "text and bytes": (
        lambda: bf.Responses.from_long(
            {"item": ["a", b"a"], "rater": [1, 1], "label": [0, 1]}, items=["a"]
        ),
        "b'a' in row 1",
    ),
    "truths and numbers": (
        lambda: bf.Responses.from_long({"item": [True, 2], "rater": [1, 1], "label": [0, 1]}),
        "(bool, int)",
    ),
    "patterns of bytes": (lambda: bf.Responses.from_counts({b"01": 1}), "Got: b'01'"),
    "vector": (lambda: bf.Responses.from_matrix([0, 1]), "one row per item"),
    "nothing answered": (lambda: bf.Responses.from_matrix([[-1, -1]]), "all missing"),
    "too few names": (
        lambda: bf.Responses.from_matrix([[0, 1]], raters=["a"]),
        "one rater name for each of the 2 raters. Got: 1 names",
    ),
    "patterns without counts": (lambda: bf.Responses.from_counts([[0, 1]]), "no counts"),
    "broken counts": (lambda: bf.Responses.from_counts([[0, 1]], [1.5]), "1.5"),
    "negative counts": (lambda: bf.Responses.from_counts([[0, 1]], [-1]), "-1"),
    "counts twice": (lambda: bf.Responses.from_counts({"01": 1}, [1]), "given once"),
    "ragged patterns": (lambda: bf.Responses.from_counts({"01": 1, "1": 2}), "[1, 2]"),
    "probability of nan name": (
        lambda: bf.Responses.from_matrix([[0, 1]], items=[np.nan]),
        "must not be missing",
    ),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_with_the_offender(case):
    build, told = BAD_TABLES[case]
    with pytest.raises(ResponsesError) as error:
        build()
    assert any(part in str(error.value) for part in told.split("|"))
    assert "Got" in str(error.value)
