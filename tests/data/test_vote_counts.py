"""Counts of votes: reading, recognition, and answers without raters."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf

COUNTS = pd.DataFrame(
    [[7, 3, 0], [0, 9, 1], [4, 4, 2], [0, 0, 10], [5, 5, 0], [1, 1, 8]],
    index=list("uvwxyz"),
    columns=["smooth", "disk", "star"],
)


def test_counts_are_votes_and_names_those_of_the_table():
    table = bf.Responses.from_votes(COUNTS)
    assert table.votes().tolist() == COUNTS.to_numpy().tolist() and table.is_of_votes
    assert table.items.tolist() == list("uvwxyz") and table.classes.tolist() == [*COUNTS]
    assert repr(table).startswith("Responses: 60 votes on 6 items, 3 classes")
    assert bf.Responses.from_votes(COUNTS.to_numpy()).classes.tolist() == [0, 1, 2]
    assert table.take(np.array([3, 0])).is_of_votes
    shares = bf.label_probabilities(bf.vote_shares(table))
    assert np.allclose(shares.sel(item="u"), np.array([22, 10, 1]) / 33)  # 1/3 added to every count


def test_items_without_votes_are_kept():
    table = bf.Responses.from_votes([[2, 1], [0, 0]], items=["a", "b"], classes=["x", "y"])
    assert table.per_item.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("counts", "settings", "message"),
    [
        ([[0.5, 0.5]], {}, "whole numbers"),
        ([[1, -1]], {}, "whole numbers"),
        ([1, 2], {}, "whole numbers"),
        ([[1, 2]], {"classes": ["x"]}, "name every row"),
        ([[1], [2]], {}, "class"),
    ],
)
def test_what_is_no_table_of_counts_is_refused(counts, settings, message):
    with pytest.raises(bf.errors.ResponsesError, match=message):
        bf.Responses.from_votes(counts, **settings)


def test_a_table_of_counts_given_to_fuse_is_asked_about():
    for table in (COUNTS, COUNTS.to_numpy(), COUNTS.reset_index(names="item")):
        with pytest.raises(bf.errors.ResponsesError, match="from_votes"):
            bf.fuse(table, progressbar=False)
    raters = pd.DataFrame(np.random.default_rng(1).integers(0, 3, (20, 4)))
    assert bf.rater_table(raters)["responses"].tolist() == [20] * 4


def test_raters_are_refused_with_the_reason():
    result = bf.find_map(bf.models.DawidSkene(bf.Responses.from_votes(COUNTS)))
    with pytest.raises(bf.errors.ModelError, match="are unknown, so they are not judged"):
        bf.rater_table(result)


@pytest.mark.slow
def test_answer_has_labels_and_expected_errors_but_no_raters():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 150)
    probability = np.full((150, 3), 0.15)
    probability[np.arange(150), truth] = np.where(rng.random(150) < 0.3, 0.4, 0.9)
    probability /= probability.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(10, row) for row in probability])
    table = bf.Responses.from_votes(counts)
    fused = bf.fuse(table, draws=60, random_seed=1, progressbar=False)
    wrong = (fused.labels()["label"].to_numpy() != truth).sum()
    errors = bf.decisions.expected_errors(fused, ci_prob=0.99)
    assert errors["low"] <= wrong <= errors["high"]
    assert bf.class_shares(fused, random_seed=1)[0]["share"].sum() == pytest.approx(1.0)
    text = fused.overview()
    assert "1,500 votes on 150 items" in text
    assert "copies" not in text and "\nrater " not in text and "accuracy" not in text
    with pytest.raises(bf.errors.ModelError, match="not judged"):
        fused.raters()


def test_the_positive_class_is_the_last():
    counts = pd.DataFrame([[3, 1], [2, 5]], columns=["yes", "no"])
    table = bf.Responses.from_votes(counts)
    assert table.classes.tolist() == ["no", "yes"] and table.votes().tolist() == [[1, 3], [5, 2]]
    assert bf.Responses.from_votes(counts, classes=["yes", "no"]).classes.tolist() == ["yes", "no"]
