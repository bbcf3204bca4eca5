"""The table of responses: what it keeps, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
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
        with pytest.raises(ResponsesError, match="all text, all numbers"):
            bf.Responses.from_long(table | {"label": list("aba"), column: values})
    with pytest.raises(ResponsesError, match="Names of classes must be all text"):
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


def test_several_marks_mean_missing():
    responses = bf.Responses.from_matrix([[0, 1], [-1, -9], [-9, 0]], missing=[-1, -9])
    assert rows_of(responses) == [[0, 0, 0], [0, 1, 1], [2, 1, 0]]


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
    with pytest.raises(ResponsesError, match=r"0 to 1, for its 4 rows\. Got"):
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
