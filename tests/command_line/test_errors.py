"""The command line has one line for everything that goes wrong."""

import gzip
import signal
from pathlib import Path

import pandas as pd
import pytest
from shell import fails, fit, interrupt_in, tables

import bayesfuse as bf
from bayesfuse.__main__ import main


def test_no_command(capsys):
    fails(capsys, main([]), "COMMAND", "--help")


def test_missing_arguments(capsys):
    fails(capsys, main(["fit"]), "FILE")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--draws", "0"], "draws must be a whole number, at least 1. Got: 0"),
        (["--draws", "many"], "invalid int value: 'many'"),
        (["--chains", "0"], "chains must be"),
        (["--robust", "--raters", "coin"], "a DirichletMixture as confusion_prior"),
        (
            ["--robust", "--model", "latent-group", "--groups", "posterior"],
            "needs Dirichlet priors",
        ),
        (["--seed", "-1"], "a seed must be a whole number, at least 0. Got: -1"),
        (["--model", "oracle"], "invalid choice: 'oracle'"),
        (["--sampler", "dice"], "invalid choice: 'dice'"),
        (["--classes", "good"], "Got: 'bad'"),
        (["--classes", "good,ugly"], "Got: 'bad'"),
        (["--classes", "good,bad,bad"], "'bad' more than once"),
        (["--item", "movie"], "no column 'movie'. Got: columns ['film', 'critic', 'verdict'"),
        (["--picture", "picture.txt"], "--picture must end in one of"),
        (["--picture", "result.nc"], "result.nc twice"),
        (["--labels", "films.csv"], "films.csv twice"),
        (["--output", "nowhere/result.nc"], "cannot write nowhere/result.nc: No such file"),
        (["--output", "."], "cannot write .: it is a folder"),
        (["--labels", "."], "cannot write .: Is a directory"),
        (["--gold", "none.csv"], "cannot read none.csv: No such file"),
        (["--items", "none.csv"], "cannot read none.csv: No such file"),
        (["--items", "result.nc"], "result.nc twice"),
        (["--rater", "film"], "a column can be used once only. Got: 'film' for two"),
    ],
)
def test_arguments_that_cannot_be(folder, capsys, arguments, word):
    fails(capsys, fit(*arguments), word)
    assert {path.name for path in folder.iterdir()} == {"films.csv"}


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "as a table: No columns"),
        (b"film,critic,verdict\n", "at least one row"),
        (b"film,critic,verdict\n1,a,good\n1,b,\n", "missing value in row 1"),
        (b"film,critic,verdict\n1,a,good\n1,b,NA\n", "missing value in row 1"),
        (b"film,critic,verdict\n1,a,good\n1,a\n", "missing value in row 1"),
        (b"film,critic,verdict\n1,a,good\n1,b,good\n", "at least two classes"),
        (b"film,critic,verdict\n1,a,good,2\n1,b,bad,2\n", "as a table"),
        (b"film,critic,verdict\n1,a,good\n1,b,bad,2\n", "as a table"),
        (b"film,critic,verdict,verdict\n1,a,good,bad\n1,b,bad,bad\n", "several columns 'verdict'"),
        (b"film,critic,verdict\n1,a,\xff\n", "as a table of UTF-8 text: 'utf-8' codec"),
        (b'film,critic,verdict\n1,"a,good\n2,b,bad\n3,c",good\n4,a,bad\n', "would merge rows"),
        (b'film,critic,verdict\n1,"a,good\r2,b,bad\r3,c",good\r4,a,bad\r', "would merge rows"),
        (
            b'film,critic,verdict,why\n1,a,good,"x\n2,b,bad,y"\n4,a,bad,z\n',
            "in column 'why', row 0",
        ),
        (b'film,why,critic,verdict\n1,"x,a,good\n2,y",b,bad\n', "in column 'why', row 0"),
        (b'film,critic,"verdict\n1,a,good\n"\n2,b,bad\n', "on one line"),
        pytest.param(
            b"film,critic,verdict\n1,a\0,good\n1,a,bad\n",
            "without the character NUL",
            marks=pytest.mark.skipif(
                tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1),
                reason="pandas before 3.1 drops the character from what it reads",
            ),
        ),
    ],
)
def test_files_that_are_no_tables(folder, capsys, content, word):
    Path("bad.csv").write_bytes(content)
    fails(capsys, fit(table="bad.csv"), word)


def test_missing_and_broken_files(folder, capsys):
    fails(capsys, fit(table="none.csv"), "cannot read none.csv: No such file or directory")
    fails(capsys, fit(table="."), "cannot read .: Is a directory")
    Path("films.csv.gz").write_bytes(gzip.compress(Path("films.csv").read_bytes())[:-20])
    fails(capsys, fit(table="films.csv.gz"), "cannot read films.csv.gz")
    Path("plain.csv.gz").write_bytes(Path("films.csv").read_bytes())
    fails(capsys, fit(table="plain.csv.gz"), "cannot read plain.csv.gz")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("item,label\n99,good\n", "'99'"),
        ("item,label\n1,ugly\n", "'ugly'"),
        ("item,label\n1,good\n1,bad\n", "an item has one gold label. Got: two for item '1'"),
        ("item,label\n1,\n", "a gold label needs an item and a label"),
        ("film,label\n1,good\n", "gold.csv has no column 'item'"),
    ],
)
def test_gold_that_cannot_be(folder, capsys, content, word):
    Path("gold.csv").write_text(content)
    fails(capsys, fit("--gold", "gold.csv"), word)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("film\n1\n2\n", "Got: 3 in row 6 (the first is 0; 54 such rows)"),
        (
            "film\n1\n2\n1\n",
            "must have one row in the table of items. Got: several for item '1'",
        ),
        (
            "film,year\n1,2\n,2\n",
            "item needs 'film'. Got: a missing value in row 1 of all.csv",
        ),
        ("item\n1\n", "all.csv has no column 'film'"),
    ],
)
def test_items_that_cannot_be(folder, capsys, content, word):
    Path("all.csv").write_text(content)
    fails(capsys, fit("--items", "all.csv"), word)


def test_outputs_are_tried_before_sampling_and_left_as_they_are(folder, capsys, monkeypatch):
    monkeypatch.setattr(bf, "sample", lambda *_, **__: pytest.fail("sampled"))
    Path("result.nc").write_text("precious")
    Path("taken").mkdir()
    fails(capsys, fit("--labels", "taken"), "cannot write taken: Is a directory")
    assert Path("result.nc").read_text() == "precious"
    assert {path.name for path in folder.iterdir()} == {"films.csv", "result.nc", "taken"}


def test_a_failure_to_write_is_told_in_one_line(folder, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    fails(capsys, fit("--quiet"), "No space left on device")


def test_interrupted_draws_are_written(folder, capsys, monkeypatch):
    """The second chain is ended with its 30th draw, and the third and fourth as they begin."""
    before = signal.getsignal(signal.SIGINT)
    tune = bf.LabelGibbs.default_tune_steps
    interrupt_in(monkeypatch, tune + 40 + tune + 30)
    assert fit("--chains", "4") == 130
    printed = capsys.readouterr()
    assert "bayesfuse: interrupted; written: 2 chains of 30 draws\n" in printed.err
    assert "2 chains of 30 draws by gibbs" in printed.out
    assert tables()["posterior"].sizes["draw"] == 30
    assert len(pd.read_csv("result-labels.csv")) == 20
    assert signal.getsignal(signal.SIGINT) is before


def test_interrupted_before_the_first_draw(folder, capsys, monkeypatch):
    interrupt_in(monkeypatch, 7)
    assert fit() == 130
    assert "interrupted before there were draws to write" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == {"films.csv"}


def test_demo_without_a_place_for_its_picture(folder, capsys):
    fails(capsys, main(["demo", "--output", "films.csv"]), "films.csv")
