"""Which item follows which: read from tables and lengths, and what is asked of them."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ResponsesError


def test_sequences_from_a_table_in_any_order():
    columns = {"token": list("cadbe"), "line": list("xxwxw"), "at": [30, 10, 2, 20, 1]}
    frame = pd.DataFrame(columns)
    found = bf.Sequences.from_table(frame, item="token", sequence="line", position="at")
    assert found.items.tolist() == ["e", "d", "a", "b", "c"]
    assert found.names.tolist() == ["w", "x"] and found.lengths.tolist() == [2, 3]
    again = bf.Sequences.from_table(found.to_frame())
    assert again.items.tolist() == found.items.tolist()
    rows = {name: frame[name].to_numpy() for name in frame}
    by_row = bf.Sequences.from_table(rows, item="token", sequence="line", position=None)
    assert by_row.items.tolist() == ["d", "e", "c", "a", "b"]


def test_raters_split_by_their_last_answer():
    """Row by row in Python: another order of items, missing and repeated answers."""
    rng = np.random.default_rng(6)
    item, rater = rng.integers(0, 12, 40), rng.integers(0, 3, 40)
    label = np.array(list("pqr"))[rng.integers(0, 3, 40)]
    order = rng.permutation(12)
    frame = pd.DataFrame({"item": item, "rater": rater, "label": label})
    responses = bf.Responses.from_long(frame, items=order)
    sequences = bf.Sequences.from_lengths([5, 1, 6])
    split = sequences.split_raters(responses)
    expected = []
    for _, row in frame.iterrows():
        last = frame[(frame["item"] == row["item"] - 1) & (frame["rater"] == row["rater"])]
        begins = row["item"] in (0, 5, 6)
        tail = "first" if begins or last.empty else f"after {last['label'].max()}"
        expected.append((row["item"], f"{row['rater']} {tail}", row["label"]))
    found = split.to_frame().itertuples(index=False, name=None)
    assert sorted(found) == sorted(expected)
    assert split.items.tolist() == order.tolist()
    assert split.classes.tolist() == responses.classes.tolist()


def test_split_raters_have_different_names():
    """As plain text, rater "x" after "y after z" and "x after y" after "z" would have one name."""
    responses = bf.Responses.from_matrix(
        [["y after z", "z"], ["z", "z"]], raters=["x", "x after y"], classes=["z", "y after z"]
    )
    split = bf.Sequences.from_lengths([2]).split_raters(responses)
    names = ["'x' first", "'x' after 'y after z'", "'x after y' first", "'x after y' after 'z'"]
    assert split.raters.tolist() == names
    assert split.per_rater.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["uint8", "Int64", "object"])
def test_lengths_of_any_whole_numbers(kind):
    lengths = pd.Series([100, 100, 1]).astype(kind)
    sequences = bf.Sequences.from_lengths(lengths)
    assert sequences.start.dtype == np.int64 and sequences.start.tolist() == [0, 100, 200, 201]
    assert sequences.to_frame()["position"].tolist()[199:] == [99, 0]


TABLE = {"item": [0, 1, 2], "sequence": [0, 0, 1], "position": [0, 1, 0]}


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"item": [0, 1, 1]}, "Got: 1 in several rows"),
        ({"position": [1, 1, 0]}, "0 and 1 at one position"),
        ({"position": [1, "a", 0]}, "Got"),
        ({"sequence": ["x", None, "x"]}, "missing value in row 1"),
        ({"item": [], "sequence": [], "position": []}, "no rows"),
        ({"sequence": [0, 1]}, "'sequence' with 2"),
    ],
)
def test_bad_tables_of_sequences_are_refused(columns, told):
    with pytest.raises(ResponsesError, match=told):
        bf.Sequences.from_table(TABLE | columns)


@pytest.mark.parametrize(
    ("lengths", "names", "told"),
    [
        ([2, 0], {}, "length 0 of sequence number 1"),
        ([1.5], {}, "float64"),
        ([], {}, r"shape \(0,\)"),
        ([2**62, 2**62], {}, "Got: 9223372036854775808"),
        (np.ma.array([1, 2], mask=[0, 1]), {}, "object"),
        ([2, 1], {"items": ["a"]}, "1 names"),
        ([2, 1], {"names": ["a", "a"]}, "'a' more than once"),
    ],
)
def test_bad_lengths_are_refused(lengths, names, told):
    with pytest.raises(ResponsesError, match=told):
        bf.Sequences.from_lengths(lengths, **names)
