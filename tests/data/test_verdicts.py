"""Verdicts of judges, as people write them, become responses."""

import json

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ResponsesError

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
    responses, items, orders = bf.read_verdicts(table, swapped="turned", **HOW)
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
    responses, items, _ = bf.read_verdicts(wide, judges=["x", "y"])
    assert responses.ordered and responses.classes.tolist() == list(range(3, 11))
    np.testing.assert_array_equal(responses.to_frame()["label"], [3, 10, 7])
    assert items["part"].to_dict() == {"a": "p", "b": "q"}
    said = wide.assign(x=["pass", "fail"], y=["C", "n/a"])
    responses, _, orders = bf.read_verdicts(said, judges=["x", "y"])
    assert responses.classes.tolist() == ["C", "fail", "pass"] and not orders
    assert not responses.ordered and responses.n_responses == 3


def test_what_is_refused(tmp_path):
    table = pd.DataFrame(ROWS)
    with pytest.raises(ResponsesError, match=r"no 'item' among"):
        bf.read_verdicts(table)
    with pytest.raises(ResponsesError, match=r"other verdicts have no order"):
        bf.read_verdicts(table.assign(say="good"), swapped="turned", **HOW)
    with pytest.raises(ResponsesError, match=r"At least one verdict"):
        bf.read_verdicts(table.assign(say=None), **HOW)
    with pytest.raises(ResponsesError, match=r"is CSV, JSON or JSONL"):
        bf.read_verdicts(tmp_path / "none.jsonl", **HOW)
    with pytest.raises(ResponsesError, match=r"Got: int"):
        bf.read_verdicts(3)
