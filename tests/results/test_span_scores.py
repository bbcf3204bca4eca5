"""Scores of spans by hand, and votes that keep the spans of raters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.results.joint_labels import add_votes_in_sequence, stored

SEQUENCES = bf.Sequences.from_lengths([4, 2], items=list("bacdfe"))
DRAWS = xr.DataArray(
    [list("OBIOOB"), list("BIIOOB"), list("OOOBOO"), list("OBIOBI")],
    {"item": list("bacdfe")},
    ["draw", "item"],
)
FOUND = pd.DataFrame({"sequence": [0, 1], "start": [1, 1], "stop": [3, 2], "kind": ["", ""]})


def test_exact_scores_and_credit_for_overlap():
    scores = bf.span_scores(DRAWS, SEQUENCES, FOUND)
    # of two spans given, the draws have 2, 1, 0, 1 exactly, among 2, 2, 1, 2
    assert scores.loc["exact", "precision"] == pytest.approx(np.mean([1, 0.5, 0, 0.5]))
    assert scores.loc["exact", "recall"] == pytest.approx(np.mean([1, 0.5, 0, 0.5]))
    # shares covered by spans of the draws: all of both; 2/2, 1; 0; 1, 1
    assert scores.loc["overlap", "precision"] == pytest.approx(np.mean([1, 1, 0, 1]))
    # of their spans covered by these: 1, 1; 2/3, 1; 0; 1, 1/2
    assert scores.loc["overlap", "recall"] == pytest.approx(np.mean([1, 5 / 6, 0, 3 / 4]))
    assert (scores["f1_low"] < scores["f1"]).all() and (scores["f1"] < scores["f1_high"]).all()
    shuffled = DRAWS.isel(item=[3, 5, 0, 1, 4, 2])
    pd.testing.assert_frame_equal(bf.span_scores(shuffled, SEQUENCES, FOUND), scores)


def test_expected_precision_is_the_mean_probability_of_the_spans():
    kept = bf.spans(DRAWS, SEQUENCES).query("probability >= 0.5")
    scores = bf.span_scores(DRAWS, SEQUENCES, kept)["precision"]
    assert scores.tolist() == pytest.approx([kept["probability"].mean(), kept["overlap"].mean()])


def test_spans_beyond_a_sequence_are_refused():
    with pytest.raises(ModelError, match=r"within them. Got: "):
        bf.span_scores(DRAWS, SEQUENCES, FOUND.assign(stop=5))


def test_spans_of_raters_by_hand():
    """The second rater saw the first sequence only, and the third said O throughout."""
    said = [list("OBO"), list("BIO"), list("IIO"), list("OOO"), ["O", None, "O"], ["B", None, "O"]]
    matrix = pd.DataFrame(said, list("bacdfe"), list("xyz"))
    responses = bf.Responses.from_matrix(matrix, classes=["O", "B", "I"])
    result = bf.find_map(bf.models.DawidSkene(responses))
    table = bf.rater_spans(result, SEQUENCES, DRAWS)
    assert table["spans"].tolist() == [2, 1, 0]
    assert table.loc["x", "precision"] == table.loc["x", "recall"] == pytest.approx(0.5)
    assert table.loc["y", ["precision", "recall", "f1"]].tolist() == pytest.approx([0.25] * 3)
    assert np.isnan(table.loc["z", "precision"]) and table.loc["z", "recall"] == 0.0


def test_votes_in_sequence_are_labellings_of_raters():
    said = [[0, 1, 1], [0, 1, -1], [2, 0, -1], [2, 0, -1], [1, 1, 1]]
    responses = bf.Responses.from_matrix(said, items=range(5), classes=range(3))
    sequences = bf.Sequences.from_lengths([4, 1])
    shares = bf.vote_shares(responses, {4: 0})
    add_votes_in_sequence(shares, responses, sequences, 1)
    drawn = stored(shares)
    whole = drawn[(drawn[:, 0] == 0)]  # the first rater alone
    assert (whole[:, 1:4] == [0, 2, 2]).all() and (drawn[:, 4] == 0).all()
    second = (drawn[:, 1:4] == [1, 0, 0]).all(axis=1).mean()  # or the third, by chance
    assert abs(len(whole) / len(drawn) - 1 / 3) < 5 * np.sqrt(2 / 9 / len(drawn))
    assert 1 / 3 - 5 * np.sqrt(2 / 9 / len(drawn)) < second < 2 / 3


def test_one_more_rater_marks_no_span():
    """Two raters mark the span: it has two thirds of the draws, and its tags of the shares."""
    responses = bf.Responses.from_matrix([["B", "B"], ["I", "I"], ["O", "O"]], classes=list("OBI"))
    shares = bf.vote_shares(responses)
    add_votes_in_sequence(shares, responses, bf.Sequences.from_lengths([3]), 1)
    drawn = stored(shares)
    whole = (drawn == [1, 2, 0]).all(axis=1)
    assert (drawn[~whole] == 0).all()
    assert abs(whole.mean() - 2 / 3) < 5 * np.sqrt(2 / 9 / len(drawn))
    expected = [[1 / 3, 2 / 3, 0], [1 / 3, 0, 2 / 3], [1, 0, 0]]
    assert bf.label_probabilities(shares).values == pytest.approx(np.array(expected))
