"""Verdicts of judges, as people write them, become responses."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from refusals import refused_as, refused_table

import bayesfuse as bf
from bayesfuse.errors import ModelError

ROWS = [
    {"q": 1, "system": "new", "model": "x", "prompt": "p", "say": "[[A]]", "turned": False},
    {"q": 1, "system": "new", "model": "x", "prompt": "p", "say": "A > B", "turned": True},
    {"q": 1, "system": "old", "model": "y", "prompt": "p", "say": "tie", "turned": False},
    {"q": 2, "system": "old", "model": "y", "prompt": "p", "say": "Abstain", "turned": False},
]
HOW = {"item": ["q", "system"], "judge": ["model", "prompt"], "verdict": "say"}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", None])
def test_preferences_in_both_orders(ending, tmp_path):
    table = pd.DataFrame(ROWS)
    if ending is not None:
        path = tmp_path / f"verdicts.{ending}"
        lines = "\n".join(map(json.dumps, ROWS))
        path.write_text(
            {"csv": table.to_csv(index=False), "jsonl": lines}.get(ending, json.dumps(ROWS))
        )
        table = path
    responses, items, orders = bf.io.read_verdicts(table, swapped="turned", **HOW)
    found = responses.to_frame().to_numpy().tolist()
    assert found == [
        ["1 / new", "x p", "A"],
        ["1 / new", "x p (swapped)", "B"],  # turned back
        ["1 / old", "y p", "tie"],
    ]
    assert responses.classes.tolist() == ["A", "B", "tie"] and not responses.ordered
    assert responses.items.tolist() == ["1 / new", "1 / old", "2 / old"]  # silence keeps the item
    assert items.loc["2 / old", ["q", "system"]].tolist() == [2, "old"]
    assert orders == [("x p", "x p (swapped)")]


def test_scores_are_grades_and_other_verdicts_classes():
    wide = pd.DataFrame({"item": list("ab"), "part": ["p", "q"], "x": [3, 10], "y": [None, 7]})
    wide["silent"] = None
    responses, items, _ = bf.io.read_verdicts(wide, judges=["x", "y", "silent"])
    assert responses.raters.tolist() == ["silent", "x", "y"]
    assert responses.ordered and responses.classes.tolist() == list(range(3, 11))
    np.testing.assert_array_equal(responses.to_frame()["label"], [3, 10, 7])
    assert items["part"].to_dict() == {"a": "p", "b": "q"}
    halves = bf.io.read_verdicts(wide.assign(x=[1.5, 3], y=[2, 1000]), judges="x")
    assert halves.responses.ordered and halves.responses.classes.tolist() == [1.5, 3]
    turned = wide.assign(verdict=["A", "tie"], s=["yes", 0])
    *_, orders = bf.io.read_verdicts(turned, judges=["verdict"], swapped="s")
    assert orders == [("verdict", "verdict (swapped)")]
    said = wide.assign(x=["pass", "fail"], y=["C", "n/a"])
    responses, _, orders = bf.io.read_verdicts(said, judges=["x", "y"])
    assert responses.classes.tolist() == ["C", "fail", "pass"] and not orders
    assert not responses.ordered and responses.n_responses == 3


def verdicts_of(*said, **settings):
    table = pd.DataFrame({"item": range(len(said)), "judge": "x", "verdict": said})
    return bf.io.read_verdicts(table, **settings).responses


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        (["model_a", "tie (inconsistent)", "Tie (bothbad)", "model_b"], ["A", "tie", "tie", "B"]),
        (["Model A", "both bad", "neither", "B is better"], ["A", "tie", "tie", "B"]),
        (["[[A]]", "So: [[C]]", "[[A>>B]]", "[[B>A]]"], ["A", "tie", "A", "B"]),
        (['{"verdict": "A", "why": "[[8]]"}', '{"winner": "B"}'], ["A", "B"]),
        ([{"verdict": "A"}, {"verdict": None}, {"verdict": "tie"}], ["A", None, "tie"]),
        (["Winner: model_a", "**B**", "[[N/A]]"], ["A", "B", None]),
        (["[[8]]", "[[10]]", "Rating: [[9]]"], [8, 10, 9]),
        (["8/10", "7 out of 10", "score: 10/10"], [8, 7, 10]),
        (["8 points", "1 point", "7"], [8, 1, 7]),
        (['{"score": 3}', '{"score": "4"}', '```json\n{"rating": 5}\n```'], [3, 4, 5]),
        (['{"verdict": "safe"}', '{"verdict": "unsafe"}'], ["safe", "unsafe"]),
    ],
)
def test_verdicts_are_read_as_judges_write_them(said, labels):
    responses = verdicts_of(*said)
    assert responses.to_frame()["label"].tolist() == [own for own in labels if own is not None]
    graded = isinstance(labels[0], int)
    assert responses.ordered == graded
    if graded:
        assert responses.classes.tolist() == list(range(min(labels), max(labels) + 1))


@pytest.mark.parametrize("tie", ["tie (inconsistent)", "both bad", "neither", "tie (bothbad)", "C"])
def test_ties_stay_ties_in_the_other_order(tie):
    said = pd.DataFrame({"item": [1, 2], "judge": "x", "verdict": ["[[A]]", f"[[{tie}]]"]})
    table = bf.io.read_verdicts(said.assign(swapped=1), swapped="swapped").responses
    assert table.to_frame()["label"].tolist() == ["B", "tie"]


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (["8/10", "4/5"], r"of several scales.* \['10', '5'\]"),
        (["[[8]]", "good"], r"If verdicts are scores.* also \['good'\]"),
        (["[[A]] or [[B]]"], r"one mark in double brackets.* \['A', 'B'\]"),
        (['{"why": "long"}'], r"JSON text.* keys \['why'\]"),
        (['{"verdict": "A", "score": 1}'], r"JSON text.* keys \['verdict', 'score'\]"),
        (['{"verdict": '], "JSON text"),
        ([f"I prefer the first, {n}" for n in range(30)], "few classes"),
    ],
)
def test_other_verdicts_are_refused_in_one_line(said, match):
    refused_table(match, verdicts_of, *said)


def test_verdicts_that_are_classes_have_one_spelling_and_a_positive_class():
    said = ["Yes", "yes", "YES ", "no", "yes"]
    assert verdicts_of(*said, normalise=True).classes.tolist() == ["no", "yes"]
    assert verdicts_of(*said, normalise=True, positive="no").classes.tolist() == ["yes", "no"]
    with pytest.warns(UserWarning, match="normalise=True"):
        assert verdicts_of(*said).n_classes == 4


def test_what_is_refused(tmp_path):
    table = pd.DataFrame(ROWS)

    def refused(match, table=table, **other):
        refused_table(match, bf.io.read_verdicts, table, **HOW | other)

    refused(r"no 'item' among .* \(did you mean 'prompt'\?\)", item="item")
    refused(r"several 'say' among", pd.concat([table, table["say"]], axis=1))
    refused(r"nothing in row 1, .* of column 'prompt'", table.assign(prompt=["p", None, "p", "p"]))
    refused(r"nothing in row 0, .* of column 'q'", table.assign(q=["", 2, 3, 4]))
    refused(r"other verdicts have no order", table.assign(say="good"), swapped="turned")
    refused(
        r"true, yes or 1, .* \['AB', 'BA'\]",
        table.assign(turned=["AB", "BA"] * 2),
        swapped="turned",
    )
    refused(r"also \['dunno'\]", table.assign(say=["A>B", "B", "dunno", "tie"]))
    refused(r"at most 101.* 3, from 1 to inf", table.assign(say=[1, 2, np.inf, 1]))
    refused(
        r"at most 101.* 200, from 0 to 0.995",
        pd.concat([table] * 50).assign(say=np.arange(200) / 200),
    )
    refused(r"At least one verdict", table.assign(say=None))
    path = tmp_path / "none.jsonl"
    refused_as(
        ModelError, r"path of a CSV.* JSONL .* Got: .*none\.jsonl", bf.io.read_verdicts, path
    )
    refused_as(ModelError, r"must be a pd\.DataFrame.* Got: int", bf.io.read_verdicts, 3)


def test_a_column_of_orders_that_is_not_read_is_warned_of():
    frame = pd.DataFrame({"item": [1, 1, 2, 2], "judge": "x", "verdict": list("ABAB")})
    frame["is_swapped"] = [0, 1, 0, 1]
    with pytest.warns(UserWarning, match='is not read.* swapped="is_swapped"'):
        bf.io.read_verdicts(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bf.io.read_verdicts(frame, swapped="is_swapped")
        bf.io.read_verdicts(frame.assign(is_swapped=0))
        bf.io.read_verdicts(frame.assign(verdict=list("yynn")))


@pytest.mark.parametrize("form", ["frame", "file", "series"])
def test_known_labels_name_items_by_the_same_columns(form, tmp_path):
    rows = [(n // 4, ("new", "old")[n // 2 % 2], "xy"[n % 2], "gb"[n % 3 > 0]) for n in range(16)]
    frame = pd.DataFrame(rows, columns=["question", "system", "judge", "verdict"])
    responses, _, _ = bf.io.read_verdicts(frame, item=["question", "system"])
    known = pd.DataFrame({"system": ["new", "old"], "question": [1, 3], "label": ["g", "b"]})
    gold = known.assign(remark="sure")
    if form == "file":
        gold.to_csv(gold := tmp_path / "gold.csv", index=False)
    if form == "series":
        gold = known.set_index(["question", "system"])["label"]
    model = bf.models.DawidSkene(responses, gold=gold)
    result = bf.find_map(model)
    by_item = bf.label_probabilities(result).to_pandas()
    assert by_item.loc["1 / new", "g"] == by_item.loc["3 / old", "b"] == 1.0
    assert (by_item == 1.0).any(axis=1).sum() == 2


def test_winners_by_name_are_pointed_out():
    rows = [(1, "x", "y", "u", "x"), (1, "x", "y", "v", "tie"), (2, "y", "x", "u", "x")]
    table = pd.DataFrame(rows, columns=["battle", "left", "right", "judge", "winner"])
    with pytest.warns(UserWarning, match="systems of the columns 'left' and 'right'"):
        bf.io.read_verdicts(table, item="battle", verdict="winner")
    named = table.rename(columns={"battle": "question_id", "left": "model_a", "right": "model_b"})
    assert bf.io.read_verdicts(named).responses.classes.tolist() == ["A", "B", "tie"]


def test_places_are_preferences_among_the_two_systems():
    """The second judge prefers what is shown first, whichever system that is."""
    rows = [("p1", "a", "X", "Y", "first"), ("p1", "a", "Y", "X", "second")]
    rows += [("p1", "b", "X", "Y", "First"), ("p1", "b", "Y", "X", "first")]
    names = ["question_id", "judge", "model_a", "model_b", "winner"]
    frame = pd.DataFrame(rows, columns=names)
    responses, items, orders = bf.io.read_verdicts(frame)
    assert len(items) == 1 and orders == [("a", "a (swapped)"), ("b", "b (swapped)")]
    labels = responses.to_frame().set_index("rater")["label"]
    assert labels["a"] == labels["a (swapped)"] and labels["b"] != labels["b (swapped)"]
    frame.columns = ["prompt", "judge", "first", "second", "verdict"]
    with pytest.warns(UserWarning, match="'first' and 'second', which share values, are not read"):
        bf.io.read_verdicts(frame, item="prompt")
