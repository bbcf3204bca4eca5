"""Errors quote little of the user's data, and neither addresses nor keys, by every reader."""

import pickle

import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.errors import ModelError, ResponsesError, warn

SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
VALUES = {
    "long": "The patient was seen on several days and says that " * 100,
    "one word": "x" * 4000,
    "html": "<table><tr><td onclick='run()'>yes</td></tr></table>\n" * 60,
    "address": "jane.doe@example.org",
    "named": "Jane Doe <jane.doe+crowd@mail.example.co.uk>",
    "key": SECRET,
    "header": f"Authorization: Bearer {SECRET}, password=correct-horse-battery",
}


def long(**columns):
    return pd.DataFrame({"item": [1, 1, 2], "rater": [*"xyx"], "label": [*"aba"]} | columns)


CALLS = {
    "class": lambda v: bf.Responses.from_long(long(label=["a", v, "b"]), classes=["a", "b"]),
    "classes": lambda v: bf.Responses.from_long(long(), classes=[v, v + "2"]),
    "positive": lambda v: bf.Responses.from_long(long(), positive=v),
    "column": lambda v: bf.Responses.from_long(long(), label=v),
    "columns": lambda v: bf.Responses.from_long(pd.DataFrame({f"{v}{n}": [1] for n in range(9)})),
    "missing": lambda v: bf.Responses.from_long(
        long(label=["a", None, "b"]).rename(columns={"label": v}), label=v
    ),
    "order": lambda v: bf.Responses.from_long(long(label=["a", v, "b"]), ordered=True),
    "raters": lambda v: bf.Responses.from_long(long(rater=[v, v, "z"]), raters=["z"]),
    "one class": lambda v: bf.Responses.from_long(long(label=v)),
    "matrix": lambda v: bf.Responses.from_matrix([["a", v], ["b", "a"]], classes=["a", "b"]),
    "remarks": lambda v: bf.Responses.from_matrix(
        pd.DataFrame({"x": [*"abab"], "y": [*"abba"], v: [f"{v}{n}" for n in range(4)]})
    ),
    "path": lambda v: bf.Responses.from_matrix(v),
    "counts": lambda v: bf.Responses.from_counts({v: -1, "b": 2}),
    "statements": lambda v: bf.Responses.from_probabilities(
        {"item": [1], "rater": [v], "a": [v], "b": [0.1]}
    ),
    "verdicts": lambda v: bf.io.read_verdicts(
        pd.DataFrame({"item": [1, 2, 3], "judge": "x", "verdict": ["[[A]]", v, "[[B]]"]})
    ),
    "json": lambda v: bf.io.read_verdicts(
        pd.DataFrame({"item": [1], "judge": "x", "verdict": [{v: 1}]})
    ),
    "sequences": lambda v: bf.Sequences.from_table(
        {"item": [v, v], "sequence": [v, v], "position": [1, 1]}
    ),
    "edges": lambda v: bf.Graph.from_edges([(v, 1), (2, v)], items=[1, 2]),
    "gold": lambda v: bf.models.DawidSkene(long(), gold={1: v}),
    "gold item": lambda v: bf.models.DawidSkene(long(), gold={v: "a"}),
    "frame": lambda v: bf.fuse(long().rename(columns={"rater": v}), gold=3),
    "groups": lambda v: bf.models.LatentGroup(long(), groups={"g": [v, v]}),
    "populations": lambda v: bf.models.DawidSkene(long(), populations={v: "a"}),
    "choice": lambda v: bf.models.DawidSkene(long(), raters=v),
}


def check(message, value):
    assert len(message) < 1100
    assert not any(value[at : at + 101] in message for at in (0, 50, len(value) // 2, -101)
                   if len(value[at : at + 101]) == 101)  # fmt: skip
    assert "example" not in message and SECRET[8:] not in message and "horse" not in message


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_errors_are_discreet(call):
    for value in VALUES.values():
        with pytest.raises((ResponsesError, ModelError)) as caught:
            call(value)
        check(str(caught.value), value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("place", ["name", "cell", "gold", "option"])
def test_errors_of_the_shell_are_discreet(value, place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = long(note=value)
    table = {"name": table.rename(columns={"label": value}), "cell": table.assign(label=value)}.get(
        place, table
    )
    table.to_csv("table.csv", index=False)
    pd.DataFrame({"item": [1], "label": [value]}).to_csv("gold.csv", index=False)
    more = {"gold": ["--gold", "gold.csv"], "option": [f"--positive={value}"]}.get(place, [])
    assert main(["fit", "table.csv", *more]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    check(printed, value)


def test_our_words_stay_as_they_are():
    rule = "The raters' rows must hold 'x' and \"y\", as in frame[\"label\"]. Got: 'z' in row 3."
    assert str(ModelError(rule)) == rule
    names = ", ".join(repr(f"class number {n}") for n in range(8))
    assert str(ModelError(f"Classes are [{names}].")) == f"Classes are [{names}]."
    with pytest.warns(UserWarning, match=r"\[address\]"):
        warn("Got: jane.doe@example.org")
    assert str(ModelError(f"Got: {'word ' * 1000}")).count("word") < 61
