"""Tables with a column per rater, empty labels, what a table can tell, and items to label next."""

from pathlib import Path

import pandas as pd
import pytest
from shell import COLUMNS, FAST, ONE, fails

from bayesfuse.__main__ import main
from bayesfuse.answer import budget


def write_wide(**others):
    films = pd.read_csv("films.csv")
    wide = films.pivot_table(index="film", columns="critic", values="verdict", aggfunc="first")
    wide.reset_index().assign(**others).to_csv("wide.csv", index=False)
    return wide


def test_wide_tables_are_those_of_their_cells(folder, capsys):
    wide = write_wide(year=[1, 2] * 10)
    long = wide.reset_index().melt("film", var_name="critic", value_name="verdict").dropna()
    long.to_csv("long.csv", index=False)
    quiet = [*ONE, *FAST, "--quiet"]
    assert main(["fit", "wide.csv", "--wide", "--item", "film", "--by", "year", *quiet]) == 0
    empty = wide.isna().sum().sum()
    said = f"bayesfuse: {wide.shape[1]} raters in columns; {empty} of their cells are empty\n"
    assert capsys.readouterr().err == said
    assert main(["fit", "long.csv", *COLUMNS, *quiet]) == 0
    one, other = (pd.read_csv(f"{name}-labels.csv") for name in ("wide", "long"))
    pd.testing.assert_frame_equal(one, other)


def test_minus_one_is_empty_among_whole_numbers_alone(folder, capsys):
    Path("codes.csv").write_text("item,a,b,c\n1,0,1,-1\n2,1,1,0\n3,0,-1,0\n")
    Path("texts.csv").write_text("item,a,b,c\n1,no,yes,-1\n2,yes,yes,no\n3,no,-1,no\n")
    for name, empty in (("codes", 2), ("texts", 0)):
        assert main(["doctor", f"{name}.csv", "--wide"]) == 0
        printed = capsys.readouterr()
        assert f"; {empty} of their cells" in printed.err
        assert f"responses           {9 - empty}\n" in printed.out


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        ("task,a,b\n1,x,y\n", [], "no column 'item': give the names of columns by --item"),
        ("task,a,b\n1,x,y\n", ["--wide"], "no column 'item': --item names the column"),
        ("item,a,b\n1,x,y\n1,x,x\n", ["--wide"], "one row with --wide. Got: several for '1'"),
        ("item,a,b\n,x,y\n", ["--wide"], "every row needs 'item'"),
        ("item,rater,label\n1,a,\n1,b,x\n", [], "--drop-empty leaves out those without"),
    ],
)
def test_tables_that_cannot_be_read(folder, capsys, content, options, word):
    Path("t.csv").write_text(content)
    fails(capsys, main(["doctor", "t.csv", *options]), word)


def test_rows_without_a_label_are_left_out_if_asked(folder, capsys):
    Path("t.csv").write_text("item,rater,label\n1,a,x\n1,b,\n2,a,y\n2,b,x\n")
    assert main(["doctor", "t.csv", "--drop-empty"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "bayesfuse: 1 rows without a label are left out\n"
    assert "responses           3\n" in printed.out


def test_one_object_a_line_is_a_table(folder, capsys):
    frame = pd.read_csv("films.csv")
    frame.to_json("films.jsonl", orient="records", lines=True)
    printed = []
    for ending in ("csv", "jsonl"):
        assert main(["doctor", f"films.{ending}", *COLUMNS]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    Path("t.jsonl").write_text('{"item": 1, "rater": "a", "label": "x"}\n{"item": 1')
    fails(capsys, main(["doctor", "t.jsonl"]), "cannot read t.jsonl as a table")


def test_items_to_label_next_are_read_back_as_known(folder, capsys, monkeypatch):
    monkeypatch.setattr(budget.Budget, "size", lambda *_: None)  # vote shares will do
    films = ["fit", "films.csv", *COLUMNS, "--seed", "1"]
    assert main([*films, "--ask", "3", "--quiet"]) == 0
    asked = pd.read_csv("films-ask.csv")
    assert asked.columns.tolist() == ["item", "label"] and asked["label"].isna().all()
    assert asked["item"].nunique() == 3
    asked["label"] = ["good", None, "bad"]
    asked.to_csv("next.csv", index=False)
    assert main([*films, "--gold", "next.csv", "--ask", "40", "--ask-file", "more.csv"]) == 0
    printed = capsys.readouterr()
    assert "bayesfuse: 1 rows of next.csv have no label and are left out\n" in printed.err
    assert "; 2 are known." in printed.out.replace("\n", " ")
    known = asked.loc[[0, 2], "item"]
    assert not pd.read_csv("more.csv")["item"].isin(known).any()


def test_one_model_without_an_output_writes_labels_alone(folder, capsys):
    model = ["fit", "films.csv", *COLUMNS, *ONE, *FAST, "--quiet"]
    assert main([*model, "--labels", "-"]) == 0
    assert capsys.readouterr().out.startswith("item,label,probability_bad,probability_good,mcse\n")
    assert main(model) == 0
    assert Path("films-labels.csv").exists() and not list(Path().glob("*.n*"))
