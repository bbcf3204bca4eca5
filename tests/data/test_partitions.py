"""Tables in partitions: names are those of all, and what is wrong is said with its place."""

import pandas as pd
import pytest
from refusals import refused_table

import bayesfuse as bf
from bayesfuse.errors import ResponsesError

pytest.importorskip("pyarrow", reason="parquet files need pyarrow")

FIRST = {"item": ["a", "a", "b"], "rater": ["x", "y", "x"], "label": ["no", "yes", "no"]}
SECOND = {"item": ["c", "d", "d"], "rater": ["z", "x", "z"], "label": ["maybe", "no", "no"]}
read = bf.Responses.from_parquet


@pytest.fixture
def write(tmp_path):
    def files(*tables):
        for number, table in enumerate(tables):
            pd.DataFrame(table).to_parquet(tmp_path / f"{number}.parquet")
        return tmp_path

    return files


def test_names_are_those_of_all_partitions(write):
    folder = write(FIRST, SECOND)
    files = [folder / "0.parquet", folder / "1.parquet"]
    for given in (folder, str(folder / "*.parquet"), files):
        table = read(given)
        assert table.raters.tolist() == ["x", "y", "z"]
        assert table.classes.tolist() == ["maybe", "no", "yes"]
        assert (table.n_items, table.n_responses, table.n_partitions) == (4, 6, 2)
    assert table.per_partition.tolist() == [[2, 3], [2, 3]]
    assert table.head.raters.tolist() == ["x", "y", "z"]
    assert table.head.items.tolist() == ["a", "b"]


def test_other_columns_and_declared_names(write):
    other = {"item": "q", "rater": "who", "label": "said"}
    folder = write(*(pd.DataFrame(t).rename(columns=other).assign(more=1) for t in (FIRST, SECOND)))
    declared = {"raters": ["z", "y", "x", "w"], "classes": ["yes", "no", "maybe"]}
    table = read(folder, **other, **declared)
    assert table.raters.tolist() == declared["raters"]
    assert table.head.classes.tolist() == declared["classes"]


def test_categories_without_rows_are_no_classes(write):
    """Also not with ``normalise``, which counts spellings."""
    label = pd.Categorical(["no", "yes", "skip"], ["never", "no", "skip", "yes"])
    folder = write(FIRST | {"label": label})
    for normalise in (False, True):
        assert read(folder, abstain="skip", normalise=normalise).classes.tolist() == ["no", "yes"]


def test_partitions_without_rows_are_left_out(write):
    nothing = pd.DataFrame(FIRST).iloc[:0]
    table = read(write(nothing, FIRST, nothing, SECOND))
    assert table.n_partitions == 2 and table.n_items == 4
    with pytest.raises(ResponsesError, match="2 partitions without rows"):
        read([write(nothing, nothing) / f"{n}.parquet" for n in (0, 1)])


def test_an_item_in_two_partitions_is_found(write):
    with pytest.raises(ResponsesError, match=r"one item must be in one partition.*'b' in.*0.*1"):
        read(write(FIRST, SECOND | {"item": ["c", "b", "d"]}))
    between = FIRST | {"item": ["a", "a", "z"]}  # of which the others lie
    assert read(write(between, SECOND)).n_items == 4
    refused_table("'z'", read, write(between, SECOND | {"item": ["c", "z", "z"]}))


def test_columns_of_different_kinds_are_named(write):
    with pytest.raises(ResponsesError, match=r"'rater'.*text in partition 0.*whole numbers in"):
        read(write(FIRST, SECOND | {"rater": [7, 8, 8]}))


def test_what_cannot_be_read_is_named(write, tmp_path):
    refused_table("at least one parquet file", read, tmp_path)
    refused_table(r"must be readable.*nowhere", read, "nowhere.parquet")
    refused_table("from_long reads others", bf.Responses.from_dask, pd.DataFrame(FIRST))
    folder = write(FIRST, SECOND)
    refused_table(r"columns \['item', 'rater', 'verdict'\]", read, folder, label="verdict")
    model = bf.models.DawidSkene(read(folder, classes=["no", "yes"]))
    refused_table(r"'maybe'.*partition 1", bf.find_map, model)
    (folder / "1.parquet").write_bytes(b"no parquet")
    refused_table(r"partition 1, .*1\.parquet", read, folder)


def test_sequences_are_cut_whole(write):
    one = FIRST | {"word": [1, 2, 3], "item": [1, 2, 3], "film": ["f", "f", "f"]}
    two = SECOND | {"word": [2, 1, 1], "item": [4, 5, 6], "film": ["g", "g", "h"]}
    columns = {"sequence": "film", "position": "word"}
    assert read(write(one, two), **columns).sequences.items.tolist() == [1, 2, 3]
    with pytest.raises(ResponsesError, match=r"one sequence must be in one partition.*'f'"):
        read(write(one, two | {"film": ["g", "g", "f"]}), **columns)
    with pytest.raises(ResponsesError, match="read the table with sequence="):
        _ = read(write(one, two)).sequences


def test_text_needs_its_order(write):
    folder = write(FIRST, SECOND)
    refused_table("needs classes= with the lowest", read, folder, ordered=True)
    assert read(folder, ordered=True, classes=["no", "maybe", "yes"]).head.ordered
    assert not read(folder).head.ordered
    assert read(write(*(table | {"label": [1, 2, 3]} for table in (FIRST, SECOND)))).head.ordered


def test_labels_without_an_answer_are_dropped_before_or_declared(write):
    folder = write(FIRST, SECOND | {"label": ["skip", "no", "no"]})
    refused_table(r"labels \['skip'\], which usually mean", read, folder)
    assert read(folder, classes=["no", "skip", "yes"]).classes.tolist() == ["no", "skip", "yes"]
