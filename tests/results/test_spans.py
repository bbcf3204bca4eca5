"""Spans of raters as tables, and back; their scores by hand, and votes that keep them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused, refused_table

import bayesfuse as bf
from bayesfuse.results.joint_labels import add_votes_in_sequence, as_draws, stored

SEQUENCES = bf.Sequences.from_lengths([4, 2], items=list("bacdfe"))
DRAWS = xr.DataArray(
    [list("OBIOOB"), list("BIIOOB"), list("OOOBOO"), list("OBIOBI")],
    {"item": list("bacdfe")},
    ["draw", "item"],
)
FOUND = pd.DataFrame({"sequence": [0, 1], "start": [1, 1], "stop": [3, 2], "kind": ["", ""]})


def test_exact_scores_and_credit_for_overlap():
    scores = bf.checks.span_scores(DRAWS, SEQUENCES, FOUND)
    # of two spans given, the draws have 2, 1, 0, 1 exactly, among 2, 2, 1, 2
    assert scores.loc["exact", "precision"] == pytest.approx(np.mean([1, 0.5, 0, 0.5]))
    assert scores.loc["exact", "recall"] == pytest.approx(np.mean([1, 0.5, 0, 0.5]))
    # shares covered by spans of the draws: all of both; 2/2, 1; 0; 1, 1
    assert scores.loc["overlap", "precision"] == pytest.approx(np.mean([1, 1, 0, 1]))
    # of their spans covered by these: 1, 1; 2/3, 1; 0; 1, 1/2
    assert scores.loc["overlap", "recall"] == pytest.approx(np.mean([1, 5 / 6, 0, 3 / 4]))
    assert (scores["f1_low"] < scores["f1"]).all() and (scores["f1"] < scores["f1_high"]).all()
    shuffled = DRAWS.isel(item=[3, 5, 0, 1, 4, 2])
    pd.testing.assert_frame_equal(bf.checks.span_scores(shuffled, SEQUENCES, FOUND), scores)
    truth = DRAWS[0].to_series().rename("label").reset_index()
    right = bf.checks.span_scores(truth, SEQUENCES, FOUND)["precision"]
    assert (
        right.tolist() == bf.checks.span_scores(DRAWS[:1], SEQUENCES, FOUND)["precision"].tolist()
    )
    twice = bf.checks.span_scores(pd.concat([truth, truth[:2]]), SEQUENCES, FOUND)["precision"]
    assert twice.tolist() == right.tolist()
    refused("compared with the spans found=", bf.checks.span_scores, truth, SEQUENCES)
    part = truth[truth["item"].isin(list("bacdf"))]  # the second sequence is not known whole
    assert bf.checks.span_scores(part, SEQUENCES, FOUND)["recall"].tolist() == [1.0, 1.0]


def test_expected_precision_is_the_mean_probability_of_the_spans():
    kept = bf.spans(DRAWS, SEQUENCES).query("probability >= 0.5")
    scores = bf.checks.span_scores(DRAWS, SEQUENCES, kept)["precision"]
    assert scores.tolist() == pytest.approx([kept["probability"].mean(), kept["overlap"].mean()])


def test_chosen_spans_have_the_largest_expected_f1_of_all_sets_without_overlap():
    rng = np.random.default_rng(1)
    for _ in range(20):
        tags = np.array(list("OBI"))[rng.choice(3, (6, 6), p=[0.5, 0.25, 0.25])]
        draws = xr.DataArray(tags, {"item": list("bacdfe")}, ["draw", "item"])
        found = bf.spans(draws, SEQUENCES)
        p, items = found["probability"].to_numpy(), np.zeros((len(found), 6), dtype=int)
        for row, begin, span in zip(items, 4 * found["sequence"], found.itertuples(), strict=True):
            row[begin + span.start : begin + span.stop] = 1
        every = np.array(list(product([False, True], repeat=len(found))))
        every = every[((every @ items) <= 1).all(axis=1)]
        f1 = 2 * (every @ p) / (every.sum(axis=1) + p.sum())
        chosen = found["chosen"].to_numpy()
        assert (every == chosen).all(axis=1).any()
        assert 2 * p[chosen].sum() / (chosen.sum() + p.sum()) == pytest.approx(f1.max())


def test_spans_beyond_a_sequence_or_without_items_are_refused():
    for stop in (5, 1, 0):
        found = FOUND.assign(stop=stop)
        refused("of one item at least. Got: ", bf.checks.span_scores, DRAWS, SEQUENCES, found)


def test_spans_of_raters_by_hand():
    """The second rater saw the first sequence only, and the third said O throughout."""
    said = [list("OBO"), list("BIO"), list("IIO"), list("OOO"), ["O", None, "O"], ["B", None, "O"]]
    matrix = pd.DataFrame(said, list("bacdfe"), list("xyz"))
    responses = bf.Responses.from_matrix(matrix, classes=["O", "B", "I"])
    model = bf.models.HiddenMarkov(responses, SEQUENCES, raters="confusion")
    result = bf.find_map(model)
    codes = np.array([list("OBI").index(tag) for tag in DRAWS.values.ravel()]).reshape(DRAWS.shape)
    codes = codes[:, DRAWS.indexes["item"].get_indexer(responses.items)]
    result["label_draws"] = as_draws(codes, responses.items, responses.classes)
    table = bf.rater_table(result, columns="all").set_index("rater").sort_index()
    assert table["spans"].tolist() == [2, 1, 0]
    scores = ["span_precision", "span_recall", "span_f1"]
    assert table.loc["x", scores[:2]].tolist() == pytest.approx([0.5] * 2)
    assert table.loc["y", scores].tolist() == pytest.approx([0.25] * 3)
    part = dict(zip("bacd", "OBIO", strict=True))
    known = bf.rater_table(result, truth=part).set_index("rater").sort_index()
    assert known["spans"].tolist() == [1, 1, 0] and known.loc["x", "span_f1"] == 1.0
    assert np.isnan(table.loc["z", "span_precision"])
    assert table.loc["z", scores[1:]].tolist() == [0.0, 0.0]  # spans, and none marked
    few = bf.rater_table(result, truth={"b": "O"}).set_index("rater").sort_index()
    assert few["span_f1"].equals(table["span_f1"])  # no sequence is fully known


@pytest.mark.parametrize("found", [FOUND, FOUND[:1], FOUND[:0], FOUND.assign(start=0, stop=1)])
def test_scores_are_means_over_all_draws(found):
    """Also over draws without spans, where a ratio of zeros is zero (scikit-learn, conlleval)."""
    draws = xr.concat([DRAWS, DRAWS.copy(data=np.full(DRAWS.shape, "O"))], "draw")
    given, of_draws = set(found[["sequence", "start", "stop"]].itertuples(index=False)), []
    for draw in draws.values:
        table = bf.spans(dict(zip("bacdfe", draw, strict=True)), SEQUENCES)
        true = set(table[["sequence", "start", "stop"]].itertuples(index=False))
        right, sizes = len(true & given), (len(given), len(true), (len(given) + len(true)) / 2)
        of_draws.append([right / size if size else 0.0 for size in sizes])
    mean = np.mean(of_draws, axis=0)
    mean[0] = np.nan if found.empty else mean[0]  # nothing is scored in any draw
    scores = bf.checks.span_scores(draws, SEQUENCES, found).loc[
        "exact", ["precision", "recall", "f1"]
    ]
    np.testing.assert_allclose(scores.to_numpy(float), mean)


def test_scores_without_any_span_are_missing():
    none = DRAWS.copy(data=np.full(DRAWS.shape, "O"))
    assert bf.checks.span_scores(none, SEQUENCES, FOUND[:0]).isna().all(axis=None)


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
    """Two raters mark the span: it has two thirds of the draws; tags share the third vote."""
    responses = bf.Responses.from_matrix([["B", "B"], ["I", "I"], ["O", "O"]], classes=list("OBI"))
    shares = bf.vote_shares(responses)
    add_votes_in_sequence(shares, responses, bf.Sequences.from_lengths([3]), 1)
    drawn = stored(shares)
    whole = (drawn == [1, 2, 0]).all(axis=1)
    assert (drawn[~whole] == 0).all()
    assert abs(whole.mean() - 2 / 3) < 5 * np.sqrt(2 / 9 / len(drawn))
    expected = np.eye(3)[[1, 2, 0]] * 2 / 3 + 1 / 9
    assert bf.label_probabilities(shares).values == pytest.approx(expected)


def test_truth_of_spans_is_read_alike_from_a_mapping_and_a_series():
    tags = [["B", "B"], ["I", "O"], ["O", "O"], ["O", "O"], ["B", "B"], ["O", "O"]]
    responses = bf.Responses.from_matrix(tags, items=range(6), classes=list("OBI"))
    sequences = bf.Sequences.from_lengths([4, 2])
    shares = bf.vote_shares(responses)
    add_votes_in_sequence(shares, responses, sequences, 1)
    constants = {
        "item_index": ("response", responses.item),
        "rater_index": ("response", responses.rater),
        "sequence_index": ("item", [0] * 4 + [1] * 2),
        "sequence_place": ("item", range(6)),
        "sequence_name": ("sequence", [0, 1]),
    }
    coords = {"item": range(6), "rater": range(2), "class": list("OBI")}
    shares["constant_data"] = xr.Dataset(constants, coords)
    shares["observed_data"] = xr.Dataset({"label": ("response", responses.label)})
    truth = dict(enumerate("OOBIOO"))  # of which no rater has a span
    by_mapping = bf.rater_table(shares, truth=truth, columns="all")
    assert (by_mapping["span_precision"] == 0.0).all()
    frame = pd.DataFrame({"item": truth.keys(), "label": truth.values()})
    for other in (pd.Series(truth), frame):
        by_other = bf.rater_table(shares, truth=other, columns="all")
        pd.testing.assert_frame_equal(by_other, by_mapping)


NAMED = bf.Sequences.from_lengths([4, 1, 2], items=list("bacdgfe"), names=["s", "t", "u"])
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
    responses = bf.io.read_spans(shuffled, NAMED)
    frame = responses.to_frame().pivot(index="item", columns="rater", values="label")
    told = frame.loc[NAMED.items].astype(object).where(lambda t: t.notna(), None)
    assert told["x"].tolist() == ["O", "B-LOC", "I-LOC", "B-LOC", "O", "B-PER", "I-PER"]
    assert told["y"].tolist() == ["B-PER", "B-LOC", "O", "O", "B-LOC", None, None]
    assert told["z"].tolist() == [None] * 5 + ["O", "O"]
    # a row without a start says the same as an empty span
    missing = shuffled.assign(start=shuffled["start"].where(shuffled["kind"] != ""))
    assert bf.io.read_spans(missing, NAMED).to_frame().equals(responses.to_frame())


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
    refused_table(told, bf.io.read_spans, table, NAMED)
