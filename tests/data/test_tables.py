"""Long and wide tables, and known labels, are read by one rule each, or refused with a remedy."""

import numpy as np
import pandas as pd
import pytest
from films import rows_of
from refusals import refused_as, refused_table

import bayesfuse as bf
from bayesfuse.data.tables import read_gold, read_table
from bayesfuse.errors import ModelError, ResponsesError

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
    "long, by index": (LONG.set_index(["item", "rater"]), {}),
    "long, dict": (LONG.to_dict("list"), {}),
    "wide, index": (WIDE, {}),
    "wide, column": (WIDE.rename_axis("item").reset_index(), {}),
    "wide, named": (WIDE.rename_axis("film").reset_index(), {"item": "film"}),
    "long, Series": (LONG.set_index(["item", "rater"])["label"], {}),
    "wide, dict": (WIDE.rename_axis("item").reset_index().to_dict("list"), {}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_long_and_wide_tables_are_the_same(kind):
    given, names = TABLES[kind]
    table, words = read_table(given, **names)
    assert rows_of(table) == LONG.to_numpy().tolist()
    assert words.startswith(f"Read as a {kind[:4]} table")
    assert ("1 of 6 responses is missing." in words) == (kind[:4] == "wide")


def test_every_model_reads_tables_and_says_how():
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
        models.HiddenMarkov(NUMBERS, sequences, gold=gold),
        models.MarkovRandomField(NUMBERS, edges, gold=gold),
        models.ItemTypes(NUMBERS, gold=gold),
        models.LabellingFunctions(NUMBERS, gold=gold, groups=None, dispersion=1),
        models.WeightedVotes(NUMBERS, gold),
    ):
        assert rows_of(made.responses) == rows_of(bf.Responses.from_matrix(NUMBERS))
        assert made.gold.to_dict() == {0: 0, 2: 1}


def test_marks_of_missing_responses_are_counted():
    assert "1 of 6 responses is missing, 1 of them marked −1." in read_table(NUMBERS)[1]
    frame = pd.DataFrame({"x": ["no", ""], "y": [None, "yes"], "z": ["no", "yes"]})
    assert "2 of 6 responses are missing, 1 of them empty text." in read_table(frame)[1]


@pytest.mark.parametrize("empty", [None, np.nan, ""])
def test_rows_without_a_label_are_dropped_if_asked(empty):
    rows = {"item": list("abab"), "rater": list("xxyy")}
    with pytest.raises(ResponsesError, match=r'missing="drop".*row 1'):
        read_table(rows | {"label": ["no", empty, "yes", "no"]})
    table, words = read_table(rows | {"label": ["no", empty, "yes", "no"]}, missing="drop")
    assert table.n_responses == 3 and words.endswith(" Dropped rows without a label: 1.")
    frame = pd.DataFrame(rows | {"label": [1, None, 0, 1]})
    assert read_table(frame, missing="drop")[0].classes.tolist() == [0, 1]


def test_gold_of_every_kind(tmp_path):
    table = read_table(NUMBERS)[0]
    path = tmp_path / "gold.csv"
    frame = pd.DataFrame({"item": [0, 2], "label": [0, 1]})
    frame.to_csv(path, index=False)
    series = frame.set_index("item")["label"]
    gaps = series.reindex([2, 1, 0])
    gaps.rename_axis("item").reset_index().to_csv(tmp_path / "gaps.csv", index=False)
    unknown = (gaps, gaps.to_dict(), gaps.rename_axis("item").reset_index(), tmp_path / "gaps.csv")
    for given in (frame, path, str(path), series, series.to_dict(), series.to_frame(), *unknown):
        assert dict(read_gold(given, table).items()) == {0: 0, 2: 1}
    twice = pd.Series([0, 1], index=[0, 0])
    for given in (twice, twice.rename_axis("item").reset_index(name="label")):
        refused_table("An item has one true class", bf.fuse, NUMBERS, gold=given)


@pytest.mark.parametrize(
    ("given", "settings", "message"),
    [
        (LONG.drop(columns="rater"), {}, r"rater= and label= name.* Got: no column 'rater'"),
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
        ("nowhere.csv", r"path of a CSV file .*'nowhere.csv' \(No such file"),
        (5, "Got: int"),
        (WIDE, r"Got: columns \['x', 'y'\]"),
    ],
)
def test_other_known_labels_are_refused(given, message):
    refused_table(message, read_gold, given, read_table(WIDE)[0])
