"""Files of responses, long or wide: every common kind is read, what is no table is told."""

import gzip
import io
import os
import re
import sys
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from shell import COLUMNS, FAST, ONE, fails, fit, tables

from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import parse
from bayesfuse.command_line.tables import read_tables
from bayesfuse.data.tables import read_table
from bayesfuse.ensemble import schedule

ROWS = [(item, rater, "yes" if (item + (rater == "r3") * (item % 4)) % 2 else "no")
        for item in range(1, 7) for rater in ("r1", "r2", "r3")]  # fmt: skip
TO = [*ONE, "--no-checks", "--draws", "2", "--chains", "1", "--output", "r.nc"]
HEADER = ("item", "rater", "label")


def table(separator=",", end="\n", header=HEADER, names=str):
    """Return a table with other separators and line ends, and names put through a function."""
    lines = [header, *([names(cell) for cell in map(str, row)] for row in ROWS)]
    return (end.join(separator.join(line) for line in lines) + end).encode()


PLAIN = table()


def packed(kind, *names):
    memory = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(memory, "w") as archive:
            for name in names:
                archive.writestr(name, PLAIN)
    else:
        with tarfile.open(fileobj=memory, mode="w:gz") as archive:
            (info := tarfile.TarInfo(*names)).size = len(PLAIN)
            archive.addfile(info, io.BytesIO(PLAIN))
    return memory.getvalue()


def renamed(**names):
    return table(names=lambda cell: names.get(cell, cell))


def widened(header, cells):
    first, *others = PLAIN.splitlines()
    return b"".join([first + header + b"\n", *(line + cells + b"\n" for line in others)])


def rows(*lines):
    return "\n".join(["item,rater,label", *lines, ""]).encode()


def read(name):
    return read_tables(parse(["fit", name, *TO])).responses.to_frame()


SAME = {
    # compressed
    "t.csv.gz": gzip.compress(PLAIN),
    "t.csv.zip": packed("zip", "t.csv"),
    "t.csv.tar.gz": packed("tar", "t.csv"),
    # separators, line ends, encodings
    "semicolons.csv": table(";"),
    "tabs.csv": table("\t"),
    "commas.tsv": table(","),
    "windows.csv": table(end="\r\n"),
    "oldmac.csv": table(end="\r"),
    "marked.csv": b"\xef\xbb\xbf" + table(";"),
    # other columns
    "twiceother.csv": widened(b",x,x", b",1,1"),
    "spaced.csv": table(header=("item", " rater", "label")),
    "text.csv": widened(b",note", b',"a film, and\nits maker,\nin ""lines"""'),
}


@pytest.mark.parametrize("name", SAME)
def test_files_of_one_content_are_read_alike(folder, name):
    Path("plain.csv").write_bytes(PLAIN)
    Path(name).write_bytes(SAME[name])
    pd.testing.assert_frame_equal(read(name), read("plain.csv"))
    assert len(read(name)) == len(ROWS)


@pytest.mark.parametrize(
    "names",
    [
        {"yes": "None", "no": "null", "r1": "True", "r2": "inf"},
        {"r1": "é", "r2": "e\u0301", "yes": "日本", "no": "🙂"},
        {"r1": "007", "r2": "7", "r3": "10"},
    ],
)
def test_names_stay_as_they_are(folder, names):
    quoted = {name: '"' + new.replace('"', '""') + '"' for name, new in names.items()}
    Path("odd.csv").write_bytes(renamed(**quoted))
    found = read("odd.csv")
    expected = [[names.get(str(cell), str(cell)) for cell in row] for row in ROWS]
    assert sorted(found.astype(str).values.tolist()) == sorted(expected)


def test_names_survive_a_fit_and_have_single_lines_in_its_report(folder, capsys):
    names = {"r1": "\x1b[31mred\x07", "r2": "/", "r3": "x" * 30_000, "yes": "a/b", "no": "class"}
    Path("odd.csv").write_bytes(renamed(**names))
    assert main(["fit", "odd.csv", *TO]) == 0
    posterior = tables("r.nc")["posterior"]
    assert posterior["rater"].values.tolist() == sorted([names["r1"], names["r2"], names["r3"]])
    assert posterior["class"].values.tolist() == ["a/b", "class"]
    assert set(pd.read_csv("r-labels.csv")["label"]) <= {"a/b", "class"}
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() and len(line) < 200 for line in lines)
    assert {"/", "prevalence[a/b]", "prevalence[class]"} <= {line.split("  ")[0] for line in lines}


def test_names_of_digits_are_integers_only_if_they_stay_the_same(folder):
    frame = pd.read_csv("films.csv").assign(verdict=lambda x: (x["verdict"] == "good") * 10)
    frame["critic"] = frame["critic"].map({"Ada": "007", "Bo": "7", "Cy": "10"})
    frame.to_csv("digits.csv", index=False)
    assert fit("--classes", "10,0", table="digits.csv") == 0
    posterior = tables()["posterior"]
    assert posterior["class"].values.tolist() == [10, 0]
    assert posterior["rater"].values.tolist() == ["007", "10", "7"]


PACKED = ["csv.gz", "csv.zip", "csv.tar.gz"]
NO_TABLES = {
    # compressed, but not whole or not at all
    **{f"cut.{name}": (SAME[f"t.{name}"][:-40], f"cannot read cut.{name}") for name in PACKED},
    **{f"no.{name}": (PLAIN, f"cannot read no.{name}") for name in [*PACKED, "csv.zst"]},
    "two.csv.zip": (
        packed("zip", "a.csv", "b.csv"),
        "by --format (label-studio, prodigy, doccano,",
    ),
    # encodings, and files of something else
    "utf16.csv": (PLAIN.decode().encode("utf-16"), "as a table of UTF-8 text"),
    "binary.csv": (bytes(range(256)) * 9, "cannot read binary.csv"),
    # headers
    "empty.csv": (b"", "as a table: No columns"),
    "headless.csv": (PLAIN.split(b"\n", 1)[1], "(--no-header)"),
    "twice.csv": (
        b"item,rater,label,label\n1,a,x,y\n",
        "first line of a file is read as their names. Got: several columns 'label'",
    ),
    "lines.csv": (b'item,rater,"label\n1,a,x\n"\n2,b,y\n', "on one line"),
    # rows
    "one.csv": (rows("1,a,x"), "at least two classes"),
    "gap.csv": (rows("1,a,x", "1,,y"), "missing value in line 3"),
    "long.csv": (rows("1,a,x", "1,b,y,2"), "as a table"),
    # quotes
    "quote.csv": (PLAIN + b'7,"r1,yes\n', "cannot read quote.csv"),
    "cell.csv": (renamed(yes='"a, ""b""\n;"'), "a cell must be on one line"),
    "merged.csv": (rows('1,"a,x', "2,b,y", '3,c",x', "4,a,y"), "would merge rows"),
    "oldmac.csv": (rows('1,"a,x', '3,c",x', "4,a,y").replace(b"\n", b"\r"), "would merge rows"),
    "unused.csv": (
        b'item,rater,label,why\n1,a,x,"p\n2,b,y,q"\n4,a,y,r\n',
        "in column 'why', line 2",
    ),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_files_that_are_no_tables(folder, capsys, name):
    content, word = NO_TABLES[name]
    Path(name).write_bytes(content)
    fails(capsys, main(["fit", name, *TO]), word)


@pytest.mark.skipif(
    tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1),
    reason="pandas before 3.1 drops the character from what it reads",
)
def test_the_character_nul_is_refused(folder, capsys):
    Path("nul.csv").write_bytes(rows("1,a\0,x", "1,a,y"))
    fails(capsys, main(["fit", "nul.csv", *TO]), "without the character NUL")


@pytest.mark.parametrize(
    ("option", "content", "word"),
    [
        ("--gold", "item,label\n99,good\n", "'99'"),
        ("--gold", "item,label\n1,good\n1,bad\n", "labels 'bad' and 'good' for item 1"),
        ("--gold", "item,label\n,good\n", "a gold label needs an item and a label"),
        ("--items", "film\n1\n2\n", "Got: 3 in row 6, counted from 0 (54 such)"),
        ("--items", "film,year\n1,2\n,2\n", "item needs 'film'. Got: a missing value in line 3 of"),
    ],
)
def test_tables_beside_the_responses_that_cannot_be(folder, capsys, option, content, word):
    Path("t.csv").write_text(content)
    fails(capsys, fit(option, "t.csv"), word)


def test_standard_input_and_pipes_are_read_as_files_are(folder, monkeypatch):
    """A pipe, as in ``fit <(zcat responses.csv.gz)``, can be read once only."""
    Path("plain.csv").write_bytes(PLAIN)
    for name in ("-", "/dev/stdin"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table(";"))))
        pd.testing.assert_frame_equal(read(name), read("plain.csv"))
    reading, writing = os.pipe()
    os.write(writing, table(";"))
    os.close(writing)
    pd.testing.assert_frame_equal(read(f"/dev/fd/{reading}"), read("plain.csv"))
    os.close(reading)


@pytest.mark.parametrize("option", ["--items", "--gold"])
def test_other_tables_from_standard_input(folder, monkeypatch, option):
    order = [3, 1, 2, 6, 5, 4]
    said = io.BytesIO(b"item;label\n" + b"".join(b"%d;yes\n" % item for item in order))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(said))
    Path("t.csv").write_bytes(PLAIN)
    found = read_tables(parse(["fit", "t.csv", *TO, option, "-"]))
    if option == "--items":
        assert found.responses.items.tolist() == order
    else:
        assert found.gold.to_dict() == dict.fromkeys(order, "yes")


def test_groups_of_items_may_come_from_standard_input_and_several_files(folder, monkeypatch):
    lines = [
        f"{line},{'year' if n == 0 else n < 10}" for n, line in enumerate(PLAIN.decode().split())
    ]
    text = "\n".join(lines)
    Path("t.csv").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for files in (["-"], ["t.csv", "t.csv"]):
        found = read_tables(parse(["fit", *files, *TO[:0], "--by", "year"]))
        assert found.groups.to_dict() == {item: str(item < 4) for item in range(1, 7)}


def test_standard_input_that_is_closed(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    fails(capsys, main(["fit", "-", *TO]), "it is closed")


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
    assert capsys.readouterr().err == ""  # --quiet
    assert main(["doctor", "wide.csv", "--wide", "--item", "film", "--ignore", "year"]) == 0
    said = " ".join(capsys.readouterr().out.split())  # as in Python
    assert said.startswith(read_table(wide)[1].replace("(index)", "(column film)"))
    assert main(["fit", "long.csv", *COLUMNS, *quiet]) == 0
    one, other = (pd.read_csv(f"{name}-labels.csv") for name in ("wide", "long"))
    pd.testing.assert_frame_equal(one, other.rename(columns={"verdict": "label"}))


def test_items_of_wide_tables_keep_their_order(folder):
    wide = write_wide().sample(frac=1.0, random_state=1)
    wide.to_csv("wide.csv")
    assert main(["fit", "wide.csv", "--wide", "--item", "film", *ONE, *FAST, "--quiet"]) == 0
    assert pd.read_csv("wide-labels.csv")["film"].tolist() == wide.index.tolist()


def test_minus_one_is_empty_among_whole_numbers_alone(folder, capsys):
    Path("codes.csv").write_text("Task_ID,a,b,c\n1,0,1,-1\n2,1,1,0\n3,0,-1,0\n")
    Path("texts.csv").write_text("item,a,b,c\n1,no,yes,-1\n2,yes,yes,no\n3,no,-1,no\n")
    Path("plain.csv").write_text("a,b,c\n0,1,-1\n1,1,0\n0,-1,0\n")  # no column of items
    for name, said in (
        ("codes", "2 of 9 responses are missing, 2 of them marked −1. "),
        ("plain", "(numbered from 0) and one column per rater (a, b, c); 2 of 9 responses are"),
        ("texts", "(column item) and one column per rater (a, b, c). "),
    ):
        assert main(["doctor", f"{name}.csv", "--wide"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert said in printed
        assert f"responses {9 if name == 'texts' else 7} " in printed


COMMENTS = "item,a,b,why\n" + "".join(f"{n},x,y,no. {n}\n" for n in range(6)) + "6,x,x,\n"


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        ("film,a,b\n1,x,y\n", [], "Got: column 'film' of numbers, where others have text"),
        (COMMENTS, ["--wide"], "Got: column 'why' with 6 labels, 6 of them in no other"),
        ("film,a,b\n1,x,y\n", ["--wide", "--item", "name"], "column of the items"),
        ("item,a,b\n1,x,y\n1,x,x\n", ["--wide"], "Got: item '1' in several rows"),
        ("item,a,b\n,x,y\n", ["--wide"], "every row needs 'item'"),
        ("item,rater,label\n1,a,x\n1,b,\n2,b,\n", [], "in line 3 of t.csv, and in 1 others"),
    ],
)
def test_tables_that_cannot_be_read(folder, capsys, content, options, word):
    Path("t.csv").write_text(content)
    fails(capsys, main(["doctor", "t.csv", *options]), word)


def test_rows_without_a_label_are_left_out_if_asked(folder, capsys):
    Path("t.csv").write_text("item,rater,label\n1,a,x\n1,b,\n2,a,y\n2,c,x\n")
    assert main(["doctor", "t.csv", "--drop-empty"]) == 0
    printed = capsys.readouterr()
    assert "Dropped rows without a label: 1; no others have the raters b, who" in " ".join(
        printed.out.split()
    )
    assert "responses 3\n" in " ".join(re.split(" +", printed.out))
    Path("t.csv").write_text("item,rater,label\n1,a,x\n1,b,y\n1,b,x\n2,a,\n2,b,x\n3,a,\n")
    assert main(["doctor", "t.csv", "--drop-empty"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Items without responses: 1 (3)." in printed
    assert "before (with another label: 1)" in printed
    found = read_table("t.csv", missing="drop")[0]
    assert found.items.tolist() == [1, 2, 3] and found.per_item.tolist() == [3, 1, 0]


def test_columns_that_are_no_raters_are_ignored(folder, capsys):
    Path("t.csv").write_text(COMMENTS + "9,,,\n")
    assert main(["doctor", "t.csv", "--wide", "--ignore", "why"]) == 0
    printed = capsys.readouterr()
    assert "one column per rater (a, b); 2 of 16 responses" in " ".join(printed.out.split())
    assert "Items without responses: 1 (9)." in printed.out
    fails(capsys, main(["doctor", "t.csv", "--wide", "--ignore", "a,c"]), "no column 'c'")
    fails(capsys, main(["doctor", "t.csv", "--ignore", "a"]), "Got: column 'why'")
    fails(capsys, main(["doctor", "films.csv", *COLUMNS, "--ignore", "note"]), "Got: --ignore note")


def test_one_object_a_line_is_a_table(folder, capsys):
    frame = pd.read_csv("films.csv")
    frame.to_json("films.jsonl", orient="records", lines=True)
    endings = ["csv", "jsonl"]
    if find_spec("pyarrow"):  # which the oldest dependencies lack
        frame.to_parquet("films.parquet")
        endings.append("parquet")
    printed = set()
    for ending in endings:
        assert main(["doctor", f"films.{ending}", *COLUMNS]) == 0
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1
    if "parquet" in endings:  # rows of any index are counted, not named
        for index in (range(9, 9 + 3 * len(frame), 3), [f"x{n}" for n in range(len(frame))]):
            gap = frame.set_axis(list(index))
            gap.iloc[4, gap.columns.get_loc(COLUMNS[-1])] = None
            gap.to_parquet("gap.parquet")
            fails(capsys, main(["fit", "gap.parquet", *COLUMNS]), "in line 5 of gap.parquet")
    Path("t.jsonl").write_text('{"item": 1, "rater": "a", "label": "x"}\n{"item": 1')
    fails(capsys, main(["doctor", "t.jsonl"]), "cannot read t.jsonl as a table")


def test_items_to_label_next_are_read_back_as_known(folder, capsys, monkeypatch):
    monkeypatch.setattr(schedule.Schedule, "size", lambda *_: None)  # vote shares will do
    films = ["fit", "films.csv", *COLUMNS, "--seed", "1"]
    assert main([*films, "--ask", "3", "--quiet"]) == 0
    asked = pd.read_csv("films-ask.csv")
    assert asked.columns.tolist() == ["film", "verdict"] and asked["verdict"].isna().all()
    assert asked["film"].nunique() == 3
    asked["verdict"] = ["good", None, "bad"]
    asked.to_csv("next.csv", index=False)
    assert main([*films, "--gold", "next.csv", "--ask", "40", "--ask-file", "more.csv"]) == 0
    printed = capsys.readouterr()
    assert "bayesfuse: 1 rows of next.csv have no label and are left out\n" in printed.err
    assert f"only {len(pd.read_csv('more.csv'))} items have unknown labels" in printed.err
    assert "; 2 are known." in printed.out.replace("\n", " ")
    fails(capsys, main([*films, "--ask", "3", "--ask-file", "more.csv"]), "more.csv, which exists")
    known = asked.loc[[0, 2], "film"]
    assert not pd.read_csv("more.csv")["film"].isin(known).any()


def test_one_model_without_an_output_writes_labels_alone(folder, capsys):
    model = ["fit", "films.csv", *COLUMNS, *ONE, *FAST, "--quiet"]
    assert main([*model, "--labels", "-"]) == 0
    assert capsys.readouterr().out.startswith("film,verdict,probability,probability_bad,")
    assert main(model) == 0
    assert Path("films-labels.csv").exists() and not list(Path().glob("*.n*"))
