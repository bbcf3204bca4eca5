"""A file is read alike in Python and in the shell, and its text stands for the same names."""

import pandas as pd
import pytest
from films import rows_of

import bayesfuse as bf
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.data.tables import read_table
from bayesfuse.errors import ResponsesError

LONG = "item,rater,label\n"
FILES = {
    # name of the file: text, items, raters, classes
    "long.csv": (f"{LONG}2,a,x\n1,a,y\n1,b,x\n", [1, 2], ["a", "b"], ["x", "y"]),
    "wide.csv": ("item,b,a\n2,x,y\n1,y,y\n", [2, 1], ["b", "a"], ["x", "y"]),
    "index.csv": (",a,b\nq,x,y\np,y,y\n", ["q", "p"], ["a", "b"], ["x", "y"]),
    "index-of-long.csv": (f",{LONG}0,2,a,x\n1,1,b,y\n", [1, 2], ["a", "b"], ["x", "y"]),
    "numbered.csv": ("a,b\nx,y\ny,\ny,x\n", [0, 1, 2], ["a", "b"], ["x", "y"]),
    "headings.csv": (
        "item,a,b\nR1,10,2\nitem,a,b\nR2,2,10\n",
        ["R1", "R2"],
        ["a", "b"],
        [2, 10],
    ),
    "empty.csv": (f"{LONG}1,a,1\n1,b,\n2,a,0\n3,c,NA\n", [1, 2, 3], ["a"], [0, 1]),
    "empty-item.csv": (f"{LONG}1,a,x\n,b,\n2,b,y\n", [1, 2], ["a", "b"], ["x", "y"]),
    "marks.csv": (f"{LONG}1,a,10\n1,b,?\n2,a,2\n3,b,skip\n", [1, 2, 3], ["a"], [2, 10]),
    "marks-wide.csv": ("item,a,b\n1,10,?\n2,2,10\n3,skip,\n", [1, 2, 3], ["a", "b"], [2, 10]),
    "marks-of-grades.csv": (f"{LONG}1,a,3.5\n1,b,?\n2,a,10\n", [1, 2], ["a"], [3.5, 10.0]),
    "marks-of-grades-wide.csv": ("item,a,b\n1,3.5,?\n2,10,\n", [1, 2], ["a", "b"], [3.5, 10.0]),
    "marks-of-booleans.csv": (f"{LONG}1,a,TRUE\n1,b,?\n2,a,FALSE\n", [1, 2], ["a"], [False, True]),
    "marks-of-booleans-wide.csv": (
        "item,a,b\n1,true,?\n2,False,\n",
        [1, 2],
        ["a", "b"],
        [False, True],
    ),
    "codes.csv": (
        f"{LONG}007,07,x\n7,7,y\n10,7,x\n",
        ["007", "10", "7"],
        ["07", "7"],
        ["x", "y"],
    ),
    "codes-of-classes.csv": (f"{LONG}1,a,01\n1,b,02\n", [1], ["a", "b"], ["01", "02"]),
    "sections.csv": (f"{LONG}1.1,a,x\n1.10,b,y\n", ["1.1", "1.10"], ["a", "b"], ["x", "y"]),
    "long-numbers.csv": (
        f"{LONG}{'9' * 20},a,x\n1,b,y\n",
        ["1", "9" * 20],
        ["a", "b"],
        ["x", "y"],
    ),
    "signs.csv": ("item,a,b\n1,+1,-1\n2,-1,-1\n", [1, 2], ["a", "b"], ["-1", "+1"]),
    "minus-one.csv": ("item,a,b\n1,0,-1\n2,1,0\n", [1, 2], ["a", "b"], [0, 1]),
    "decimals.csv": ("item,a,b\n1,1.0,2\n2,,1\n", [1, 2], ["a", "b"], [1, 2]),
    "grades.csv": (f"{LONG}1,a,3.5\n1,b,10\n2,a,4\n", [1, 2], ["a", "b"], [3.5, 4.0, 10.0]),
    "booleans.csv": ("item,a,b\n1,TRUE,FALSE\n2,TRUE,\n", [1, 2], ["a", "b"], [False, True]),
    "some-text.csv": ("item,a,b\n1,1,2\n2,2,odd\n", [1, 2], ["a", "b"], ["1", "2", "odd"]),
    "columns.csv": ("HITId,WorkerId,Answer\nA,w,x\nA,v,y\n", ["A"], ["v", "w"], ["x", "y"]),
    "semicolons.csv": (f"{LONG}1,a,x\n1,b,y\n".replace(",", ";"), [1], ["a", "b"], ["x", "y"]),
    "tabs.tsv": (f"{LONG}1,a,x\n1,b,y\n".replace(",", "\t"), [1], ["a", "b"], ["x", "y"]),
    "lines.jsonl": (
        '{"item": "007", "rater": "a", "label": 2}\n{"item": "7", "rater": "a", "label": null}\n'
        '{"item": "7", "rater": "b", "label": 10}\n',
        ["007", "7"],
        ["a", "b"],
        [2, 10],
    ),
    "list.json": ('[{"item": 1, "x": "n", "y": "p"}]', [1], ["x", "y"], ["n", "p"]),
    "columns.json": (
        '{"item": {"0": 1, "1": 2}, "x": {"0": "n", "1": "p"}, "y": {"0": "n", "1": null}}',
        [1, 2],
        ["x", "y"],
        ["n", "p"],
    ),
}  # fmt: skip


def names_of(table):
    return [table.items.tolist(), table.raters.tolist(), table.classes.tolist()]


def read_twice(path, *options, **settings):
    """Return the responses as Python and as the shell reads them, and code that reads them."""
    table, _, code, _ = read_table(path, **settings)
    shell = read_tables(parse(["doctor", str(path), *options])).responses
    exec(code, space := {"bf": bf, "pd": pd})
    return table, shell, space["responses"]


@pytest.mark.parametrize("name", FILES)
def test_python_and_the_shell_read_the_same_responses(tmp_path, name):
    text, *names = FILES[name]
    (path := tmp_path / name).write_text(text)
    tables = read_twice(path, "--drop-empty", missing="drop")
    for table in tables:
        assert rows_of(table) == rows_of(tables[0]) and table.ordered == tables[0].ordered
        assert names_of(table) == names
        assert [*map(type, table.classes.tolist())] == [*map(type, names[2])]


@pytest.mark.parametrize("kind", ["text", "grades", "index"])
def test_types_of_parquet_are_kept(tmp_path, kind):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"item": ["1", "2", "2"], "rater": list("aab"), "label": [1, 2, 1]})
    names = [["1", "2"], ["a", "b"], [1, 2]]
    if kind == "grades":
        labels = pd.Categorical(["low", "high", "low"], ["low", "middle", "high"], ordered=True)
        frame["label"], names[2] = labels, ["low", "middle", "high"]
    elif kind == "index":
        frame = pd.DataFrame({"a": [1, 2], "b": [2, 2]}, index=pd.Index(["q", "p"], name="item"))
        names[0] = ["q", "p"]
    frame.to_parquet(path := tmp_path / "t.parquet")
    tables = read_twice(path)
    for table in tables:
        assert names_of(table) == names and rows_of(table) == rows_of(tables[0])
        assert table.ordered


def test_declared_classes_stand_for_what_labels_do(tmp_path):
    (path := tmp_path / "t.csv").write_text(f"{LONG}1,a,4\n1,b,10\n2,a,4\n")
    for declared, classes in (("10,4", [10, 4]), ("4,10,odd", ["4", "10", "odd"])):
        shell = read_tables(parse(["doctor", str(path), "--classes", declared]))
        assert shell.responses.classes.tolist() == classes
    path.write_text(f"{LONG}1,a,TRUE\n1,b,FALSE\n")
    for options, classes in (
        (["--classes", "TRUE,FALSE"], [True, False]),
        (["--positive", "FALSE"], [True, False]),
    ):
        shell = read_tables(parse(["doctor", str(path), *options]))
        assert shell.responses.classes.tolist() == classes


def test_known_labels_may_be_whole_numbers_among_others(tmp_path):
    (path := tmp_path / "t.csv").write_text(f"{LONG}1,a,3.5\n1,b,4\n2,a,4\n")
    (gold := tmp_path / "gold.csv").write_text("item,label\n1,4\n2,3.5\n")
    shell = read_tables(parse(["doctor", str(path), "--gold", str(gold)]))
    assert shell.gold.to_dict() == {1: 4.0, 2: 3.5}


def test_lines_of_several_files_are_named(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text(f"{LONG}007,a,x\n1,b,y\n")
    second.write_text(f"{LONG}{LONG}7,a,x\n7,,y\n")
    with pytest.raises(Exception, match=rf"missing value in line 4 of {second}"):
        read_tables(parse(["doctor", str(first), str(second)]))
    second.write_text(f"{LONG}{LONG}7,a,x\n")
    read = read_tables(parse(["doctor", str(first), str(second)]))
    assert read.responses.items.tolist() == ["007", "1", "7"]  # as if the files were one
    assert "Left out as headings: 1 row." in read.read


def test_nested_cells_lead_to_a_reader(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"model": "a", "judge": ["x", 1], "score": 3}]')
    for read in (read_table, lambda path: read_tables(parse(["doctor", str(path)]))):
        with pytest.raises(ResponsesError, match="read_verdicts reads"):
            read(path)
