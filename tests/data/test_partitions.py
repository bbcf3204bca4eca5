"""Tables in partitions: names are those of all, and what is wrong is said with its place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.data import partitions
from bayesfuse.errors import ResponsesError

pytest.importorskip("pyarrow", reason="parquet files need pyarrow")

FIRST = {"item": ["a", "a", "b"], "rater": ["x", "y", "x"], "label": ["no", "yes", "no"]}
SECOND = {"item": ["c", "d", "d"], "rater": ["z", "x", "z"], "label": ["maybe", "no", "no"]}


@pytest.fixture
def write(tmp_path):
    def files(*tables):
        for number, table in enumerate(tables):
            pd.DataFrame(table).to_parquet(tmp_path / f"{number}.parquet")
        return tmp_path

    return files


def test_names_are_those_of_all_partitions(write):
    table = bf.Responses.from_parquet(write(FIRST, SECOND))
    assert table.raters.tolist() == ["x", "y", "z"]
    assert table.classes.tolist() == ["maybe", "no", "yes"]
    assert (table.n_items, table.n_responses, table.n_partitions) == (4, 6, 2)
    assert table.per_partition.tolist() == [[2, 3], [2, 3]]
    assert table.head.raters.tolist() == ["x", "y", "z"]
    assert table.head.items.tolist() == ["a", "b"]
    assert "2 of 3 to 3 responses" in repr(table)


@pytest.mark.parametrize("how", ["folder", "pattern", "list"])
def test_files_are_named_in_several_ways(write, how):
    folder = write(FIRST, SECOND)
    given = {
        "folder": folder,
        "pattern": str(folder / "*.parquet"),
        "list": [folder / "0.parquet", folder / "1.parquet"],
    }[how]
    assert bf.Responses.from_parquet(given).n_items == 4


def test_other_columns_and_declared_names(write):
    tables = [
        {"q": t["item"], "who": t["rater"], "said": t["label"], "more": [1, 2, 3]}
        for t in (FIRST, SECOND)
    ]
    table = bf.Responses.from_parquet(
        write(*tables),
        item="q",
        rater="who",
        label="said",
        raters=["z", "y", "x", "w"],
        classes=["yes", "no", "maybe"],
    )
    assert table.raters.tolist() == ["z", "y", "x", "w"]
    assert table.head.classes.tolist() == ["yes", "no", "maybe"]


def test_partitions_without_rows_are_left_out(write):
    nothing = pd.DataFrame(FIRST).iloc[:0]
    table = bf.Responses.from_parquet(write(nothing, FIRST, nothing, SECOND))
    assert table.n_partitions == 2 and table.n_items == 4
    with pytest.raises(ResponsesError, match="2 partitions without rows"):
        bf.Responses.from_parquet([write(nothing, nothing) / f"{n}.parquet" for n in (0, 1)])


def test_an_item_in_two_partitions_is_found(write):
    again = SECOND | {"item": ["c", "b", "d"]}
    with pytest.raises(ResponsesError, match=r"one item must be in one partition.*'b' in.*0.*1"):
        bf.Responses.from_parquet(write(FIRST, again))


def test_items_that_only_lie_between_each_other_are_apart(write, monkeypatch):
    one = FIRST | {"item": ["a", "a", "z"]}
    assert bf.Responses.from_parquet(write(one, SECOND)).n_items == 4
    monkeypatch.setattr(partitions, "AT_ONCE", 1)  # in several goes
    assert bf.Responses.from_parquet(write(one, SECOND)).n_items == 4
    with pytest.raises(ResponsesError, match="'z'"):
        bf.Responses.from_parquet(write(one, SECOND | {"item": ["c", "z", "z"]}))


@pytest.mark.parametrize("column", ["item", "rater", "label"])
def test_columns_of_different_kinds_are_named(write, column):
    numbers = pd.DataFrame(SECOND).assign(**{column: [7, 8, 8]})
    with pytest.raises(ResponsesError, match=rf"'{column}'.*text in partition 0.*whole numbers in"):
        bf.Responses.from_parquet(write(FIRST, numbers))


def test_a_partition_that_cannot_be_read_is_named(write):
    folder = write(FIRST, SECOND)
    (folder / "1.parquet").write_bytes(b"no parquet")
    with pytest.raises(ResponsesError, match=r"partition 1, .*1\.parquet"):
        bf.Responses.from_parquet(folder)
    with pytest.raises(ResponsesError, match=r"must be readable.*nowhere"):
        bf.Responses.from_parquet("nowhere.parquet")
    with pytest.raises(ResponsesError, match=r"columns \['item', 'rater', 'verdict'\]"):
        bf.Responses.from_parquet(write(FIRST, SECOND), label="verdict")


def test_a_folder_without_files_and_other_frames_are_refused(tmp_path):
    with pytest.raises(ResponsesError, match="at least one parquet file"):
        bf.Responses.from_parquet(tmp_path)
    with pytest.raises(ResponsesError, match="from_long reads others"):
        bf.Responses.from_dask(pd.DataFrame(FIRST))


def test_a_label_that_was_not_declared_is_found_where_it_is(write):
    table = bf.Responses.from_parquet(write(FIRST, SECOND), classes=["no", "yes"])
    model = bf.models.DawidSkene(table)
    with pytest.raises(ResponsesError, match=r"'maybe'.*partition 1"):
        bf.find_map(model)


def test_sequences_are_cut_whole(write):
    one = FIRST | {"word": [1, 2, 3], "item": [1, 2, 3], "film": ["f", "f", "f"]}
    two = SECOND | {"word": [2, 1, 1], "item": [4, 5, 6], "film": ["g", "g", "h"]}
    read = {"sequence": "film", "position": "word"}
    table = bf.Responses.from_parquet(write(one, two), **read)
    assert table.sequences.items.tolist() == [1, 2, 3]
    with pytest.raises(ResponsesError, match=r"one sequence must be in one partition.*'f'"):
        bf.Responses.from_parquet(write(one, two | {"film": ["g", "g", "f"]}), **read)
    with pytest.raises(ResponsesError, match="read the table with sequence="):
        _ = bf.Responses.from_parquet(write(one, two)).sequences


def test_numbers_of_different_widths_are_one_kind(write):
    one = pd.DataFrame({"item": [1, 2], "rater": [0, 1], "label": [0, 1]}).astype(np.int8)
    two = pd.DataFrame({"item": [3, 4], "rater": [5, 1], "label": [0, 1]})
    assert bf.Responses.from_parquet(write(one, two)).raters.tolist() == [0, 1, 5]


def test_text_needs_its_order(write):
    with pytest.raises(ResponsesError, match="needs classes= with the lowest"):
        bf.Responses.from_parquet(write(FIRST, SECOND), ordered=True)
    classes = ["no", "maybe", "yes"]
    assert bf.Responses.from_parquet(
        write(FIRST, SECOND), ordered=True, classes=classes
    ).head.ordered
    assert not bf.Responses.from_parquet(write(FIRST, SECOND)).head.ordered
    numbers = [{**table, "label": [1, 2, 3]} for table in (FIRST, SECOND)]
    assert bf.Responses.from_parquet(write(*numbers)).head.ordered
