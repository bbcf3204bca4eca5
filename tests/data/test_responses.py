"""The table of responses: what it keeps, counts and merges."""

import numpy as np
import pandas as pd
import pytest
from films import COLUMNS, TABLE, rows_of

import bayesfuse as bf
from bayesfuse.errors import ResponsesError


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
        with pytest.raises(ResponsesError, match=r"below 2⁵³.*Got: \["):
            bf.Responses.from_counts([[0, 0], [0, 1]], counts)


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
    assert written.n_items == 5 and written.is_plain and written.n_responses == 8
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


def test_a_summary_says_what_matters():
    text = repr(bf.Responses.from_long(TABLE, **COLUMNS))
    # pairs: (bad, bad) (bad, good) (bad, good) of A, (bad, good) of B
    assert "bad (3), good (2)" in text and "0.25 of the pairs" in text
    html = bf.Responses.from_counts({"<b": 2, "bb": 3})._repr_html_()
    assert "5 items in 2 patterns" in html and "&lt;" in html and "<b (" not in html


def test_shipped_tables_have_the_published_sizes():
    caries = bf.datasets.caries()
    assert caries.n_items == 32 and caries.multiplicity.sum() == 3869
    assert bf.datasets.anesthesia().per_rater.tolist() == [135, 45, 45, 45, 45]
