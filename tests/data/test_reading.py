"""Tables of any library and known labels are read by one rule each, or refused with a remedy."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from films import COLUMNS, TABLE, rows_of
from refusals import refused_as, refused_table
from scipy import sparse

import bayesfuse as bf
from bayesfuse.data.tables import read_table
from bayesfuse.errors import ModelError, ResponsesError


def test_matrices_of_floats_and_of_text_and_frames():
    numbers = bf.Responses.from_matrix([[0.0, np.nan], [1.0, 0.0]])
    assert rows_of(numbers) == [[0, 0, 0], [1, 0, 1], [1, 1, 0]]
    words = bf.Responses.from_matrix(np.array([["no", None], ["yes", "no"]], dtype=object))
    assert rows_of(words) == [[0, 0, "no"], [1, 0, "yes"], [1, 1, "no"]]
    frame = pd.DataFrame({"ann": [0, 1], "bob": [1, -1]}, index=["i", "j"])
    named = [["i", "ann", 0], ["i", "bob", 1], ["j", "ann", 1]]
    assert rows_of(bf.Responses.from_matrix(frame)) == named


def test_mixed_values_are_not_turned_into_text():
    marked = bf.Responses.from_matrix([["a", -1], ["b", "a"]])
    assert rows_of(marked) == [[0, 0, "a"], [1, 0, "b"], [1, 1, "a"]]
    table = {"item": [1, 2, 1], "rater": list("xyy"), "label": ["a", np.nan, "b"]}
    refused_table("missing value in row 1", bf.Responses.from_long, table)
    for column, values in {"item": [1, "1", 1], "label": [0, "0", 1]}.items():
        with pytest.raises(ResponsesError, match="must be of one kind"):
            bf.Responses.from_long(table | {"label": list("aba"), column: values})
    refused_table("must be of one kind", bf.Responses.from_counts, {(0, "a"): 3, ("a", 0): 2})


@pytest.mark.parametrize(
    ("values", "kind", "classes"),
    [([0, 1, None], "Int64", [0, 1]), (["x", "y", None], "string", ["x", "y"])],
)
def test_frames_with_pandas_own_missing_values(values, kind, classes):
    frame = pd.DataFrame({"ann": pd.Series(values, dtype=kind), "bob": values[0]})
    responses = bf.Responses.from_matrix(frame)
    assert responses.classes.tolist() == classes and responses.per_rater.tolist() == [2, 3]
    assert "1 of 6 responses is missing." in read_table(frame)[1]


@pytest.mark.parametrize("missing", [[-1, -9], {-1, -9}, (-9, None, -1), iter([-9, -1])])
def test_several_marks_mean_missing(missing):
    responses = bf.Responses.from_matrix([[0, 1], [-1, -9], [-9, 0]], missing=missing)
    assert rows_of(responses) == [[0, 0, 0], [0, 1, 1], [2, 1, 0]]


def test_a_declared_class_is_not_the_default_mark():
    answers = [[-1, 1, 1], [1, -1, 1], [1, 1, -1]]
    frame = pd.DataFrame(answers).astype(pd.CategoricalDtype([-1, 1]))
    for made in (
        bf.Responses.from_matrix(answers, classes=[-1, 1]),
        bf.Responses.from_matrix(frame),
        bf.Responses.from_counts(answers, [1, 1, 1], classes=[-1, 1]),
    ):
        assert made.n_responses == 9
        assert sorted(made.classes.tolist()) == [-1, 1]
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
    refused_table("missing value in row 1", bf.Responses.from_long, table | {"label": gap})


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
    refused_table(r"in one order.*give classes=", bf.Responses.from_matrix, frame)
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


long, matrix, counts = bf.Responses.from_long, bf.Responses.from_matrix, bf.Responses.from_counts


def with_two(item=(1, 2), label=(0, 1), **names):
    return long({"item": item, "rater": [1, 1], "label": label}, **names)


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: long(TABLE), "'item'"),
        (lambda: long({"item": [], "rater": [], "label": []}), "at least one row"),
        (lambda: long({"item": [1, 2], "rater": [1], "label": [0, 1]}), "same length"),
        (lambda: long(TABLE, **COLUMNS, classes=["good", "fair"]), "'bad' in row 1"),
        (lambda: long(TABLE, **COLUMNS, raters=["x", "y", "x"]), "'x' more than once"),
        (lambda: with_two(label=[0, np.nan]), "missing value in row 1"),
        (lambda: with_two(label=["a", "a"]), "at least two classes"),
        (lambda: with_two(item=np.array([1, object()])), "int, object"),
        (lambda: with_two(item=["a", b"a"], items=["a"]), "b'a' in row 1"),
        (lambda: with_two(item=1), "'item' of shape ()"),
        (lambda: long(TABLE, item="film", rater="film", label="verdict"), "a column each"),
        (lambda: with_two(item=[[1, 2]]), "'item' of shape (1, 2)"),
        (lambda: matrix([0, 1]), "one row per item"),
        (lambda: matrix([[0, 1], [1]]), "rows of lengths [1, 2]"),
        (lambda: matrix(sparse.eye_array(3)), "dia_array of shape (3, 3)"),
        (lambda: matrix([[0.3, 0.7]]), "0.3"),
        (lambda: matrix([[0.0, np.inf], [1.0, 0.0]]), "Got: inf"),
        (lambda: matrix([[-1, -1]]), "all missing"),
        (lambda: matrix([[0, 1]], classes=[0, 1, 1]), "Names of classes must differ"),
        (lambda: matrix([[0, 1]], raters=["a"]), "each of the 2 raters. Got: 1 names"),
        (lambda: matrix([[0]], items=np.array([1], dtype="M8[ps]")), "whole nanoseconds"),
        (lambda: counts([[0, 1]]), "no counts"),
        (lambda: counts([[0, 1]], [1.5]), "1.5"),
        (lambda: counts({"01": 1}, [1]), "given once"),
        (lambda: counts({"01": 1, "1": 2}), "[1, 2]"),
        (lambda: counts({b"01": 1}), "Got: b'01'"),
    ],
)
def test_bad_tables_are_refused_with_the_offender(build, told):
    refused_table(told, build)


def test_a_frame_with_anything_but_raters_is_refused():
    """A column of names of items was a rater, and a long table a matrix of three raters."""
    labels = pd.DataFrame({name: ["no", "yes", "no", "yes"] for name in "abc"})
    numbers = labels.replace({"no": 0, "yes": 1})
    long = bf.Responses.from_matrix(numbers).to_frame()
    renamed = long.set_axis(["task", "worker", "answer"], axis=1)
    numbered = pd.DataFrame({"a": range(8, -1, -1), "b": [0, 1, 4] * 3, "id": range(9)})
    for frame, said in [
        (numbered, "column 'id' which numbers the rows"),
        (labels.assign(doc=["d1", "d2", "d3", "d4"]), "'doc' with 4 labels, 4 of them in no other"),
        (long, r"columns \['item', 'label', 'rater'\]"),
        (renamed.astype({"worker": str}), "column 'worker' with 3 labels"),
    ]:
        with pytest.raises(
            ResponsesError, match=rf"set_index.*from_long.*classes=.* Got: .*{said}"
        ):
            bf.Responses.from_matrix(frame)
    named = labels.assign(doc=["d1", "d2", "d3", "d4"]).set_index("doc")
    assert bf.Responses.from_matrix(named).items.tolist() == ["d1", "d2", "d3", "d4"]
    few = pd.DataFrame({"often": [0, 2, 1, 0], "seldom": [2, 3, None, None]})
    assert bf.Responses.from_matrix(few).n_classes == 4


def test_empty_text_is_no_label_unless_it_is_declared():
    gaps = [["x", "", "y"], ["y", "x", None]]
    table = {"item": [1, 2, 3], "rater": [1, 1, 1], "label": ["x", "", "y"]}
    for labels in (gaps, pd.DataFrame(gaps), pd.DataFrame(gaps, dtype="category")):
        found = bf.Responses.from_matrix(labels)
        assert found.classes.tolist() == ["x", "y"] and found.n_responses == 4
    assert bf.Responses.from_matrix(gaps, abstain="").silent is not None
    assert bf.Responses.from_matrix(gaps, classes=["", "x", "y"]).n_responses == 5
    for labels in (table, pd.DataFrame(table).astype({"label": "category"})):
        refused_table(r"empty text is none .* Got: '' in row 1", bf.Responses.from_long, labels)
    assert bf.Responses.from_long(table, abstain="").n_responses == 2
    assert bf.Responses.from_long(table, classes=["", "x", "y"]).n_classes == 3


LONG = pd.DataFrame(
    {
        "item": ["a", "a", "b", "b", "c"],
        "rater": ["x", "y", "x", "y", "x"],
        "label": ["no", "yes", "no", "no", "yes"],
    }
)
WIDE = pd.DataFrame({"x": ["no", "no", "yes"], "y": ["yes", "no", None]}, index=["a", "b", "c"])
NAMED = {"item": "film", "rater": "critic", "label": "verdict"}
NUMBERS = np.array([[0, 1], [0, 0], [1, -1]])

TABLES = {
    "long": (LONG, {}),
    "long, named": (LONG.rename(columns=NAMED), NAMED),
    "long, usual": (LONG.set_axis(["task_id", "WorkerId", "Answer"], axis=1), {}),
    "long, by index": (LONG.set_index(["item", "rater"]), {}),
    "long, dict": (LONG.to_dict("list"), {}),
    "wide, index": (WIDE, {}),
    "wide, column": (WIDE.rename_axis("item").reset_index(), {}),
    "wide, named": (WIDE.rename_axis("film").reset_index(), {"item": "film"}),
    "wide, usual": (WIDE.rename_axis("Question").reset_index(), {}),
    "long, Series": (LONG.set_index(["item", "rater"])["label"], {}),
    "wide, dict": (WIDE.rename_axis("item").reset_index().to_dict("list"), {}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_long_and_wide_tables_are_the_same(kind, tmp_path):
    given, names = TABLES[kind]
    table, words, code, _ = read_table(given, **names)
    if isinstance(given, pd.DataFrame):
        exec(code, space := {"bf": bf, "frame": given})
        assert rows_of(space["responses"]) == rows_of(table)
    assert rows_of(table) == LONG.to_numpy().tolist()
    for separator in ",;" if isinstance(given, pd.DataFrame) else "":  # and in files
        given.to_csv(tmp_path / "t.csv", sep=separator)
        of_file, _, code, _ = read_table(tmp_path / "t.csv", **names)
        exec(code, space := {"bf": bf, "pd": pd})
        assert rows_of(of_file) == rows_of(space["responses"]) == rows_of(table)
    assert words.startswith(f"Read as a {kind[:4]} table")
    assert ("1 of 6 responses is missing." in words) == (kind[:4] == "wide")


def test_remarks_are_no_rater_and_n_a_no_label(tmp_path):
    said = pd.DataFrame({m: ["no", "yes", "n/a"] for m in "xyz"}, index=[1, 2, 3])
    said.to_csv(tmp_path / "wide.csv")
    assert read_table(tmp_path / "wide.csv")[0].classes.tolist() == ["no", "yes"]
    noted = said.replace("n/a", None).assign(note=[None, "blurry", None])
    refused_table("Got: column 'note' with a name that raters seldom have", read_table, noted)
    noted = noted.rename(columns={"note": "why"})
    refused_table("Got: column 'why' with labels of no other, among", read_table, noted)
    noted = noted.assign(taken=[*"123"])  # after which no column of remarks is the only one
    refused_table("'taken' with 3 .*; column 'why' with labels of no other", read_table, noted)
    refused_table(r"frame.drop\(columns=\['taken', 'why'\]\)", read_table, noted)
    assert read_table(WIDE.rename(columns={"x": "unit"}))[0].raters.tolist() == ["unit", "y"]


def test_every_model_reads_tables_and_records_how():
    model = bf.models.DawidSkene(WIDE)
    assert rows_of(model.responses) == LONG.to_numpy().tolist()
    result = bf.find_map(model)
    assert result.attrs["table"].startswith("Read as a wide table, one row per item (index)")
    sequences = bf.Sequences.from_table(
        {"item": [0, 1, 2], "sequence": [1, 1, 1], "position": [0, 1, 2]}
    )
    edges = bf.Graph.from_edges([(0, 1), (1, 2)])
    gold = pd.DataFrame({"item": [0, 2], "label": [0, 1]})
    models = bf.models
    for made in (
        models.LatentGroup(NUMBERS, [[0, 1]], gold=gold),
        models.HiddenMarkov(NUMBERS, sequences, gold=gold, raters="confusion"),
        models.MarkovRandomField(NUMBERS, edges, gold=gold),
        models.ItemTypes(NUMBERS, gold=gold),
        models.LabellingFunctions(NUMBERS, gold=gold, groups=None, dispersion=1),
        models.WeightedVotes(NUMBERS, gold),
    ):
        assert rows_of(made.responses) == rows_of(bf.Responses.from_matrix(NUMBERS))
        assert made.gold.to_dict() == {0: 0, 2: 1}


def test_gold_of_every_kind(tmp_path):
    table = read_table(NUMBERS)[0]
    path = tmp_path / "gold.csv"
    frame = pd.DataFrame({"item": [0, 2], "label": [0, 1]})
    frame.to_csv(path, index=False)
    series = frame.set_index("item")["label"]
    gaps = series.reindex([2, 1, 0])
    gaps.rename_axis("item").reset_index().to_csv(tmp_path / "gaps.csv", index=False)
    unknown = (gaps, gaps.to_dict(), gaps.rename_axis("task").reset_index(), tmp_path / "gaps.csv")
    for given in (frame, path, str(path), series, series.to_dict(), series.to_frame(), *unknown):
        assert dict(bf.models.DawidSkene(table, gold=given).gold) == {0: 0, 2: 1}
    for item in ("item", "HIT"):  # columns of the table, or the usual ones
        given = frame.rename(columns={"item": item})
        answers = table.to_frame().set_axis(["HIT", "rater", "Answer.bird"], axis=1)
        found = bf.checks.identifiability(answers, given, item="HIT", label="Answer.bird")
        assert found.facts["known"] == 2
    twice = pd.Series([0, 1], index=[0, 0])
    for given in (twice, twice.rename_axis("item").reset_index(name="label")):
        refused_table("An item has one true class", bf.fuse, NUMBERS, gold=given)


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        (LONG.drop(columns="rater"), {}, r"give rater=\..* Got: no column 'rater'"),
        (LONG.rename(columns=NAMED), NAMED | {"rater": "who"}, "Got: no column 'who'"),
        (LONG.rename(columns={"rater": "who", "label": "said"}), {}, "item 'a' in several rows"),
        (WIDE, {"item": "film"}, r"item= names .* Got: 'film'"),
        (LONG, {"missing": "skip"}, 'missing must be "error" or "drop"'),
        (bf.Responses.from_matrix(NUMBERS), {"item": "film"}, "Responses have none"),
        ([0, 1], {}, r"DataFrame or a two-dimensional array.* Got: list"),
        (LONG.assign(label=None), {"missing": "drop"}, "Got: none in 5 rows of 'label'"),
    ],
)
def test_other_tables_are_refused(given, settings, message):
    refused_as((ModelError, ResponsesError), message, read_table, given, **settings)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.csv", r"path of a CSV.*'nowhere.csv' \(No such file"),
        (5, "Got: int"),
        (WIDE, r"Got: columns \['x', 'y'\]"),
    ],
)
def test_other_known_labels_are_refused(given, message):
    refused_as((ModelError, ResponsesError), message, bf.checks.identifiability, WIDE, given)


def test_a_table_that_pandas_wrote_twice_with_its_index_is_read(tmp_path):
    frame = pd.DataFrame({"item": [0, 0, 1], "rater": ["x", "y", "x"], "label": ["a", "b", "a"]})
    path = tmp_path / "twice.csv"
    frame.to_csv(path)
    pd.read_csv(path).to_csv(path)
    assert bf.vote_shares(path).equals(bf.vote_shares(frame))


def test_headings_between_booleans_are_left_out_by_the_code_as_well():
    labels = pd.Series(["True", "False"] * 20).where(np.arange(40) != 20, "label")
    frame = pd.DataFrame({"item": [*range(40)], "rater": "x", "label": labels}).astype(str)
    frame.loc[20, ["item", "rater"]] = "item", "rater"
    table, _, code, _ = read_table(frame)
    space = {"frame": frame, "pd": pd, "bf": bf}
    exec(code, space)
    assert table.classes.tolist() == space["responses"].classes.tolist() == [False, True]


def test_an_object_of_lists_is_a_table(tmp_path):
    file = tmp_path / "table.json"
    file.write_text('{"item": [1, 1, 2], "rater": ["x", "y", "x"], "label": ["no", "yes", "no"]}')
    assert read_table(file)[0].classes.tolist() == ["no", "yes"]
