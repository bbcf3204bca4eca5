"""Spans of raters as tables, and back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ResponsesError

SEQUENCES = bf.Sequences.from_lengths([4, 1, 2], items=list("bacdgfe"), names=["s", "t", "u"])
TABLE = pd.DataFrame(
    [
        ("s", "x", 1, 3, "LOC"),
        ("s", "x", 3, 4, "LOC"),  # touches the one before
        ("u", "x", 0, 2, "PER"),
        ("s", "y", 0, 1, "PER"),
        ("s", "y", 1, 2, "LOC"),
        ("t", "y", 0, 1, "LOC"),
        ("t", "x", 0, 0, ""),  # read, without spans
        ("u", "z", 0, 0, ""),
    ],
    columns=["sequence", "rater", "start", "stop", "kind"],
)


def test_spans_of_several_raters_come_back():
    shuffled = TABLE.sample(frac=1.0, random_state=1)
    responses = bf.read_spans(shuffled, SEQUENCES)
    frame = responses.to_frame().pivot(index="item", columns="rater", values="label")
    told = frame.loc[SEQUENCES.items].astype(object).where(lambda t: t.notna(), None)
    assert told["x"].tolist() == ["O", "B-LOC", "I-LOC", "B-LOC", "O", "B-PER", "I-PER"]
    assert told["y"].tolist() == ["B-PER", "B-LOC", "O", "O", "B-LOC", None, None]
    assert told["z"].tolist() == [None] * 5 + ["O", "O"]
    pd.testing.assert_frame_equal(bf.response_spans(responses, SEQUENCES), TABLE)
    # a row without a start says the same as an empty span
    missing = shuffled.assign(start=shuffled["start"].where(shuffled["kind"] != ""))
    assert bf.read_spans(missing, SEQUENCES).to_frame().equals(responses.to_frame())


def test_spans_without_kinds_and_with_gaps():
    """Unlabelled items end spans, and items are in the order of the sequences, not of the table."""
    matrix = pd.DataFrame({"x": ["I", "B", None, "I", "I", "O", "B"]}, list("gabcdef"))
    responses = bf.Responses.from_matrix(matrix, classes=["I", "O", "B"])
    table = bf.response_spans(responses, SEQUENCES)
    assert table.drop(columns="rater").values.tolist() == [
        ["s", 1, 4, ""], ["t", 0, 1, ""], ["u", 0, 1, ""],
    ]  # fmt: skip
    again = bf.read_spans(table, SEQUENCES)
    assert again.classes.tolist() == ["O", "B", "I"] and again.n_responses == 7


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("s", "x", 2, 4, "PER"), "overlap.* item 'c'"),
        (("t", "z", 0, 2, "PER"), "within their sequence. Got: start 0 and stop 2"),
        (("u", "z", 1, 0, "PER"), "start 1 and stop 0"),
        (("s", "z", 0.5, 2, "PER"), "whole items"),
        (("s", "z", 0, np.nan, "PER"), "stop nan"),
        (("v", "z", 0, 1, "PER"), "sequence.*'v'"),
        (("s", "z", 0, 1, None), "kind"),
    ],
)
def test_wrong_spans(row, told):
    table = pd.concat([TABLE, pd.DataFrame([row], columns=TABLE.columns)])
    with pytest.raises(ResponsesError, match=told):
        bf.read_spans(table, SEQUENCES)
