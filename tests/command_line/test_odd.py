"""Odd arguments, files, names and surroundings: each works or is told in one line."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from shell import ONE, draw_nothing, tables

from bayesfuse.__main__ import main
from bayesfuse.command_line import commands

ROWS = [(item, rater, "yes" if (item + (rater == "r3") * (item % 4)) % 2 else "no")
        for item in range(1, 7) for rater in ("r1", "r2", "r3")]  # fmt: skip
QUICK = [*ONE, "--no-checks", "--draws", "2", "--chains", "1", "--quiet"]
WORKS = ""


def table(separator=",", end="\n", header=("item", "rater", "label"), names=str, more=""):
    """Write the table: other separators and line ends, names put through a function."""
    lines = [header, *([names(cell) for cell in map(str, row)] for row in ROWS)]
    return (end.join(separator.join(line) for line in lines) + end + more).encode()


PLAIN = table()
PLACED = b"item,rater,label,sequence,position\n" + b"".join(
    b"%d,%s,%s,s,%d\n" % (item, rater.encode(), label.encode(), item) for item, rater, label in ROWS
)


def packed(kind, data=PLAIN, name="t.csv"):
    memory = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(memory, "w") as archive:
            archive.writestr(name, data)
    else:
        with tarfile.open(fileobj=memory, mode="w:gz") as archive:
            (info := tarfile.TarInfo(name)).size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return memory.getvalue()


def two_in_a_zip():
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("a.csv", PLAIN)
        archive.writestr("b.csv", PLAIN)
    return memory.getvalue()


def renamed(**names):
    return table(names=lambda cell: names.get(cell, cell))


FILES = {
    # compressed, whole and not
    "t.csv.gz": (gzip.compress(PLAIN), WORKS),
    "t.csv.bz2": (bz2.compress(PLAIN), WORKS),
    "t.csv.xz": (lzma.compress(PLAIN), WORKS),
    "t.csv.zip": (packed("zip"), WORKS),
    "t.csv.tar.gz": (packed("tar"), WORKS),
    "cut.csv.gz": (gzip.compress(PLAIN)[:-12], "cannot read cut.csv.gz"),
    "cut.csv.bz2": (bz2.compress(PLAIN)[:-12], "cannot read cut.csv.bz2"),
    "cut.csv.xz": (lzma.compress(PLAIN)[:-12], "cannot read cut.csv.xz"),
    "cut.csv.zip": (packed("zip")[:-12], "cannot read cut.csv.zip"),
    "cut.csv.tar.gz": (packed("tar")[:-40], "cannot read cut.csv.tar.gz"),
    "no.csv.gz": (PLAIN, "cannot read no.csv.gz"),
    "no.csv.bz2": (PLAIN, "cannot read no.csv.bz2"),
    "no.csv.xz": (PLAIN, "cannot read no.csv.xz"),
    "no.csv.zip": (PLAIN, "cannot read no.csv.zip"),
    "no.csv.tar.gz": (PLAIN, "cannot read no.csv.tar.gz"),
    "no.csv.zst": (PLAIN, "cannot read no.csv.zst"),
    "flipped.csv.xz": (lzma.compress(PLAIN)[:40] + b"xxxx" + lzma.compress(PLAIN)[44:], "cannot"),
    "two.csv.zip": (two_in_a_zip(), "cannot read two.csv.zip as a table: Multiple files"),
    "packed.csv": (gzip.compress(PLAIN), "as a table of UTF-8 text"),
    # separators, line ends, encodings
    "semicolons.csv": (table(";"), WORKS),
    "tabs.csv": (table("\t"), WORKS),
    "tabs.txt": (table("\t"), WORKS),
    "commas.tsv": (table(","), WORKS),
    "noending": (table(";"), WORKS),
    "windows.csv": (table(end="\r\n"), WORKS),
    "oldmac.csv": (table(end="\r"), WORKS),
    "nolastend.csv": (PLAIN.rstrip(), WORKS),
    "marked.csv": (b"\xef\xbb\xbf" + table(";"), WORKS),
    "utf16.csv": (PLAIN.decode().encode("utf-16"), "as a table of UTF-8 text"),
    "latin1.csv": (renamed(r1="Adélaïde").decode().encode("latin-1"), "as a table of UTF-8 text"),
    "blankends.csv": (PLAIN + b"\n\n\n", WORKS),
    "pipes.csv": (table("|"), "has no column 'item'"),
    # what is in them
    "empty.csv": (b"", "as a table: No columns"),
    "blank.csv": (b"\n \n\n", "as a table: No columns"),
    "header.csv": (b"item,rater,label\n", "at least one row"),
    "headless.csv": (PLAIN.split(b"\n", 1)[1], "has no column 'item'"),
    "twice.csv": (b"item,rater,label,label\n1,a,x,y\n", "several columns 'label'"),
    "twiceother.csv": (table(header=("item", "rater", "label")).replace(b"\n", b",1,1\n"), WORKS),
    "spaced.csv": (table(header=("item", " rater", "label")), "has no column 'rater'"),
    "upper.csv": (table(header=("Item", "rater", "label")), "has no column 'item'"),
    "long.csv": (PLAIN + b"1,2,3,4,5\n", "as a table"),
    "short.csv": (PLAIN + b"1,r1\n", "missing value"),
    "blanks.csv": (PLAIN + b"1,,yes\n", "missing value"),
    "numbers.csv": (renamed(yes="1", no="0") + b"7,r1, \n7,r2,1\n", WORKS),
    "quotes.csv": (PLAIN + b'7,"r1,yes\n', "cannot read quotes.csv"),
    "quoted.csv": (renamed(yes='"a, ""b"";"'), WORKS),
    "lines.csv": (renamed(yes='"a, ""b""\n;"'), "a cell must be on one line"),
    "huge.csv": (renamed(r1="x" * 300_000), WORKS),
    "binary.csv": (bytes(range(256)) * 9, "cannot read binary.csv"),
    "pdf.csv": (b"%PDF-1.4\n%\xe2\xe3\n", "cannot read pdf.csv"),
    "json.csv": (b'[{"item": 1}]\n', "has no column 'item'"),
    "one.csv": (b"item,rater,label\n1,a,x\n", "at least two classes"),
    "bigint.csv": (table(names=lambda cell: cell if cell[0] in "ryn" else cell * 30), WORKS),
    "unicode.csv": (renamed(r1="é", r2="e\u0301", yes="日本", no="🙂"), WORKS),
    "controls.csv": (renamed(r1="\x1b[31mred\x07"), WORKS),
    "formula.csv": (renamed(yes="=1+1", no="-1"), WORKS),
    "words.csv": (renamed(yes="None", no="null", r1="True", r2="inf"), WORKS),
    "paths.csv": (renamed(yes="a/b", no="..", r1="/", r2="."), WORKS),
    "columns.csv": (renamed(yes="class", no="item", r1="chain", r2="draw"), WORKS),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder of its own that holds ``t.csv``, and draw no pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "draw", draw_nothing)
    Path("t.csv").write_bytes(PLAIN)
    return tmp_path


def answers(capfd, arguments, word):
    """Check that a command works, or fails with one line that has a word, and writes nothing."""
    before = set(os.listdir())
    status = main(arguments)
    said = capfd.readouterr()
    if word == WORKS:
        assert (status, said.err) == (0, "")
        assert len(set(os.listdir()) - before) in (0, 3)  # 0 where they are sent elsewhere
    else:
        assert status == 2
        assert said.out == ""
        assert said.err.startswith("bayesfuse: error: ") and said.err.count("\n") == 1
        assert word in said.err
        assert set(os.listdir()) == before


@pytest.mark.parametrize("name", FILES)
def test_files(folder, capfd, name):
    content, word = FILES[name]
    Path(name).write_bytes(content)
    answers(capfd, ["fit", name, *QUICK, "--output", "result.nc"], word)
    if word == WORKS:
        assert tables()["observed_data"].sizes["response"] >= len(ROWS)


FIT = ["fit", "t.csv", *QUICK, "--output"]
TO = [*FIT, "r.nc"]
LONG = "n" * 4000

ARGUMENTS = [
    ([], "the following arguments are required"),
    ([""], "invalid choice: ''"),
    (["-"], "invalid choice: '-'"),
    (["fit"], "required: FILE"),
    (["fit", "t.csv", *ONE], "--model needs a file for the posterior"),
    (["fit", "t.csv", "--draws", "5"], "--draws belongs to a --model"),
    (["fit", "t.csv", "--types", "5"], "--types belongs to --model item-types. Got: no --model"),
    (["fit", "t.csv", "--time", "2"], "a time is written as 90s, 2min or 1h. Got: '2'"),
    (["fit", "t.csv", "--time", "0s"], "a time is written as"),
    ([*TO, "--time", "2min"], "--time belongs to an answer from several models"),
    ([*TO, "--report", "r.html"], "--report belongs to an answer from several models"),
    (["fit", "t.csv", "t.csv", "--output", "r.nc"], "unrecognized arguments: t.csv"),
    (["fit", "", "--output", "r.nc"], "cannot read .: Is a directory"),
    ([*FIT, ""], "cannot write .: it is a folder"),
    ([*FIT, "r.NC"], WORKS),
    ([*FIT, "r.h5"], WORKS),
    ([*FIT, "r.csv"], "must end in .nc"),
    ([*FIT, "r"], "must end in .nc"),
    ([*FIT, ".nc"], "must end in .nc"),
    ([*FIT, "t.csv"], "must end in .nc"),
    ([*FIT, "./a b/../r s.nc"], WORKS),
    ([*FIT, "r  s.nc"], WORKS),
    ([*FIT, "-r.nc"], "expected one argument"),
    ([*FIT[:-1], "--output=-r.nc"], WORKS),
    ([*FIT, f"{LONG}.nc"], "File name too long"),
    ([*FIT, "v1.2.nc"], WORKS),
    ([*FIT, "e\u0301é.nc"], WORKS),
    ([*FIT, os.fsdecode(b"\xff.nc")], WORKS),
    (["fit", f"{LONG}.csv", "--output", "r.nc"], "File name too long"),
    (["fit", "http://localhost/t.csv", "--output", "r.nc"], "No such file"),
    (["fit", "/dev/null", "--output", "r.nc"], "cannot read /dev/null: it is a device"),
    (["fit", "/dev/zero", "--output", "r.nc"], "cannot read /dev/zero: it is a device"),
    (["fit", "/proc/self/mem", "--output", "r.nc"], "cannot read /proc/self/mem"),
    (["fit", "t.csv/t.csv", "--output", "r.nc"], "Not a directory"),
    ([*TO, "--items", "-", "--gold", "-"], "only one table can come from standard input"),
    ([*TO, "--items", "/dev/stdin", "--gold", "-"], "only one table can come from"),
    ([*TO, "--labels", "r.nc"], "r.nc twice"),
    ([*TO, "--labels", "./r.nc"], "r.nc twice"),
    ([*TO, "--labels", "r.png"], "r.png twice"),
    ([*TO, "--labels", "l.csv.gz"], WORKS),
    ([*TO, "--labels", "labels"], WORKS),
    ([*TO, "--picture", "p"], "--picture must end in one of"),
    ([*TO, "--picture", "p.PDF"], WORKS),
    ([*TO, "--random-seed", "-1"], "unrecognized arguments: --random-seed"),
    ([*TO, "--seed", "-1"], "a seed must be a whole number"),
    ([*TO, "--seed", "1.5"], "a seed must be a whole number"),
    ([*TO, "--seed", "\u0663"], WORKS),
    ([*TO, "--seed", "9" * 60], WORKS),
    ([*TO, "--seed", "9" * 5000], "a seed must be a whole number"),
    ([*TO, "--draws", "0"], "draws must be a whole number, at least 1. Got: 0"),
    ([*TO, "--draws", "-5"], "draws must be a whole number, at least 1. Got: -5"),
    ([*TO, "--draws", "1e3"], "invalid int value: '1e3'"),
    ([*TO, "--draws", "9" * 15], "not enough memory"),
    ([*TO, "--draws", "9" * 30], "must be less than 10^15"),
    ([*TO, "--draws", ""], "invalid int value: ''"),
    ([*TO, "--chains", "0"], "chains must be"),
    ([*TO, "--chains", "1000000000"], "at most 10,000 chains"),
    ([*TO, "--chains", "two"], "invalid int value: 'two'"),
    ([*TO, "--thin", "0"], "thin must be"),
    ([*TO, "--thin", "100"], WORKS),
    ([*TO, "--sweeps", "-1"], "sweeps must be"),
    ([*TO, "--sweeps", "3", "--thin", "2"], WORKS),
    ([*TO, "--item", ""], "has no column ''"),
    ([*TO, "--item", "rater"], "a column can be used once only"),
    ([*TO, "--label", "nothing"], "has no column 'nothing'"),
    ([*TO, "--label", "a" * 9000], "has no column"),
    ([*TO, "--classes", ""], "classes must be names"),
    ([*TO, "--classes", "yes,,no"], "classes must be names"),
    ([*TO, "--classes", "yes,no,"], "classes must be names"),
    ([*TO, "--classes", "yes, no"], "Got: 'no'"),
    ([*TO, "--classes", "no,yes,maybe"], WORKS),
    ([*TO, "--classes", os.fsdecode(b"yes,no,\xff")], "classes must be names"),
    ([*TO, "--gold", "t.csv"], "an item has one gold label"),
    ([*TO, "--items", "t.csv"], "an item must have one row"),
    ([*TO, "--mod", "dawid-skene"], WORKS),
    ([*TO, "--model", "Dawid-Skene"], "invalid choice"),
    ([*TO, "--model", "hidden-markov"], "has no column 'sequence'"),
    ([*TO, "--model", "markov-random-field"], "give --graph FILE"),
    ([*TO, "--model", "markov-random-field", "--graph", "t.csv"], "two columns of items"),
    ([*TO, "--graph", "t.csv"], "--graph belongs to --model"),
    ([*TO, "--bio"], "--bio belongs to --model hidden-markov"),
    ([*TO, "--model", "latent-group", "--raters", "coin"], "--raters belongs to --model"),
    ([*TO, "--quiet", "--quiet"], WORKS),
    ([*TO, "@t.csv"], "unrecognized arguments: @t.csv"),
    (["demo", "--output", "t.csv"], "t.csv"),
    (["demo", "--output", "t.csv/x"], "Not a directory"),
    (["demo", "fit"], "unrecognized arguments: fit"),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(ARGUMENTS)))
def test_arguments(folder, capfd, at):
    arguments, word = ARGUMENTS[at]
    answers(capfd, arguments, word)


def test_bio_and_sequences_of_labels_that_are_not(folder, capfd):
    Path("placed.csv").write_bytes(PLACED)
    command = ["fit", "placed.csv", *QUICK, "--output", "r.nc", "--model", "hidden-markov"]
    answers(capfd, [*command, "--bio"], "Got:")
    answers(capfd, command, WORKS)


# ---------------------------------------------------------------- surroundings


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_standard_input(folder, capfd, monkeypatch, name, separator):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table(separator))))
    answers(capfd, ["fit", name, *QUICK, "--seed", "1", "--output", "piped.nc"], WORKS)
    answers(capfd, [*FIT, "plain.nc", "--seed", "1"], WORKS)
    assert Path("piped-labels.csv").read_text() == Path("plain-labels.csv").read_text()


@pytest.mark.parametrize("option", ["--items", "--gold"])
def test_other_tables_from_standard_input(folder, capfd, monkeypatch, option):
    said = io.BytesIO(b"item;label\n" + b"".join(b"%d;yes\n" % item for item in range(1, 9)))
    if option == "--gold":
        said = io.BytesIO(b"item;label\n1;yes\n2;no\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(said))
    answers(capfd, [*TO, option, "-"], WORKS)
    assert tables("r.nc")["label_posterior"].sizes["item"] == (8 if option == "--items" else 6)


@pytest.mark.parametrize(
    ("stdin", "word"),
    [(None, "it is closed"), (b"", "No columns"), (gzip.compress(PLAIN), "of UTF-8 text")],
    ids=["closed", "empty", "compressed"],
)
def test_standard_input_that_is_no_table(folder, capfd, monkeypatch, stdin, word):
    stream = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
    monkeypatch.setattr(sys, "stdin", stream)
    answers(capfd, ["fit", "-", "--output", "r.nc"], word)


def test_a_pipe_that_a_shell_made(folder, capfd):
    """As in ``fit <(zcat responses.csv.gz)``: it can be read once."""
    reading, writing = os.pipe()
    os.write(writing, table(";"))
    os.close(writing)
    answers(capfd, ["fit", f"/dev/fd/{reading}", *QUICK, "--output", "r.nc"], WORKS)
    os.close(reading)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", None),
        ("HOME", "/proc/nowhere"),
        ("COLUMNS", "1"),
        ("TERM", "dumb"),
        ("LANG", "C"),
        ("TMPDIR", "/proc/nowhere"),
        ("MPLCONFIGDIR", "/proc/nowhere"),
    ],
)
def test_environment(folder, capfd, monkeypatch, name, value):
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    answers(capfd, TO, WORKS)


def test_help_in_a_narrow_terminal(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1")
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["fit", "--help"])
    assert "--sweeps" in capfd.readouterr().out


def test_the_folder_is_gone(folder, capfd):
    Path("gone").mkdir()
    os.chdir("gone")
    os.rmdir(folder / "gone")
    assert main(TO) == 2
    said = capfd.readouterr().err
    assert said.startswith("bayesfuse: error: ") and said.count("\n") == 1
    assert main(["fit", str(folder / "t.csv"), *QUICK, "--output", str(folder / "r.nc")]) == 0
