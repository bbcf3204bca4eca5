"""Missing and skipped responses are read by one rule, whatever the table."""

import re

import numpy as np
import pandas as pd
import pytest
from films import rows_of
from refusals import refused_as, refused_table

import bayesfuse as bf
from bayesfuse.data.tables import read_table
from bayesfuse.errors import ModelError, ResponsesError


def test_marks_of_missing_responses_are_counted():
    numbers = np.array([[0, 1], [0, 0], [1, -1]])
    assert "1 of 6 responses is missing, 1 of them marked −1." in read_table(numbers)[1]
    mixed = pd.DataFrame({"a": [0, 1, -1, 0], "b": ["", 1, 0, None]})
    said = "3 of 8 responses are missing, 1 of them empty text, 1 of them marked −1."
    assert said in read_table(mixed)[1]
    scores = bf.Responses.from_matrix([[1, 2.5], [3.5, np.nan]])
    assert scores.classes.tolist() == [1, 2.5, 3.5] and scores.ordered
    refused_table(
        "probabilities are not responses", bf.Responses.from_matrix, [[0.5, 1.0], [0.0, 0.5]]
    )
    frame = pd.DataFrame({"x": ["no", ""], "y": [None, "yes"], "z": ["no", "yes"]})
    assert "2 of 6 responses are missing, 1 of them empty text." in read_table(frame)[1]


@pytest.mark.parametrize("empty", [None, np.nan, ""])
def test_rows_without_a_label_are_dropped_if_asked(empty):
    rows = {"item": list("abab"), "rater": list("xxyy")}
    with pytest.raises(ResponsesError, match=r'missing="drop".*row 1'):
        read_table(rows | {"label": ["no", empty, "yes", "no"]})
    frame = pd.DataFrame(rows | {"label": ["no", empty, "yes", "no"]})
    table, words, *_ = read_table(frame, missing="drop")
    assert table.n_responses == 3 and words.endswith(" Dropped rows without a label: 1.")
    frame = pd.DataFrame(rows | {"rater": list("xyxz"), "label": [1, None, 0, None]})
    table, words, code, _ = read_table(frame, missing="drop")
    assert table.classes.tolist() == [0, 1] and table.items.tolist() == ["a", "b"]
    assert "label: 2; no others have the raters y, z, who are left out." in words
    exec(code, space := {"bf": bf, "frame": frame})
    assert rows_of(space["responses"]) == rows_of(table)
    assert space["responses"].items.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "label", [[1, None, 0, None], ["no", "NA", "yes", ""], pd.Categorical(["n", None, "y", None])]
)
def test_rows_without_a_label_are_dropped_alike_by_the_reader_and_by_an_answer(label):
    frame = pd.DataFrame({"item": list("abac"), "rater": list("xyxz"), "label": label})
    table = bf.Responses.from_long(frame, missing="drop")
    assert rows_of(table) == rows_of(read_table(frame, missing="drop")[0])
    assert table.items.tolist() == ["a", "b", "c"] and table.raters.tolist() == ["x"]
    refused_table('missing="drop".*row 1', bf.Responses.from_long, frame)
    refused_table("none in 2 rows", bf.Responses.from_long, frame[1::2], missing="drop")
    refused_as(ModelError, "'error' or 'drop'", bf.Responses.from_long, frame, missing="?")


@pytest.mark.parametrize(("dtype", "skip"), [("object", "skip"), ("category", "?")])
def test_skipped_items_are_read_alike_from_every_table(dtype, skip):
    """As by bf.fuse: unless a label is declared, "skip" is no class, and "NA" no response."""
    labels = ["x", "y", skip, "y", "x", "y", "Abstain", skip]
    frame = pd.DataFrame({"item": [1, 1, 1, 2, 2, 2, 3, 3], "rater": list("abcabaca")})
    frame["label"] = pd.Series(labels, dtype=dtype)
    with pytest.warns(UserWarning, match=rf"2 responses '{re.escape(skip)}' are read as missing"):
        table = bf.Responses.from_long(frame)
    wide = frame.iloc[[0, 1, 2, 3, 4, 6]].pivot(index="item", columns="rater", values="label")
    for declared in (None, ["x", "y"]):
        with pytest.warns(UserWarning, match=rf"'{re.escape(skip)}' is read as missing"):
            matrix = bf.Responses.from_matrix(wide.astype(object), classes=declared)
        assert matrix.classes.tolist() == ["x", "y"] and matrix.n_responses == 4
    of_fuse, words, *_ = read_table(frame)
    # the third rater only skips, and the third item is skipped by all
    assert table.raters.tolist() == ["a", "b"] and table.items.tolist() == [1, 2, 3]
    assert rows_of(table) == rows_of(of_fuse) and table.n_responses == 5
    assert of_fuse.items.tolist() == [1, 2, 3] and f"2 responses {skip!r}" in words
    declared = bf.Responses.from_long(frame, classes=["x", "y", skip, "Abstain"])
    assert declared.n_responses == 8
    frame["label"] = pd.Series(["x", "NA", *labels[2:]], dtype=dtype)
    refused_table("nor is NA.* Got: 'NA' in row 1,", bf.Responses.from_long, frame)
    with pytest.warns(UserWarning, match="are read as missing"):
        silent = bf.Responses.from_long(frame, abstain="NA")
    assert silent.silent is not None and silent.n_responses == 4
