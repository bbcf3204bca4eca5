"""``fit`` without ``--model``: the answer of ``bf.fuse`` as text, labels, report and files."""

import io
import re
import sys

import numpy as np
import pandas as pd
import pytest
from shell import COLUMNS, fails, films, tables, write_films

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.answer import budget

SEED = ["--seed", "1", "--time", "10min"]
FILMS = ["fit", "films.csv", *COLUMNS, *SEED]
NAME = "<b>Ada & co</b>"


@pytest.fixture(scope="module")
def fused(few_draws, tmp_path_factory):
    write_films(place := tmp_path_factory.mktemp("films"))
    films = pd.read_csv(place / "films.csv").replace({"critic": {"Ada": NAME}})
    responses = bf.Responses.from_long(films, item="film", rater="critic", label="verdict")
    return bf.fuse(responses, random_seed=1, minutes=10, progressbar=False)


@pytest.fixture
def asked(folder, fused, monkeypatch):
    """What ``bf.fuse`` is asked for, which gives the answer that all tests share."""
    films = (folder / "films.csv").read_text().replace("Ada", NAME)
    (folder / "films.csv").write_text(films)
    given = {}
    monkeypatch.setattr(bf, "fuse", lambda table, **kw: given.update(table=table, **kw) or fused)
    return given


def test_a_table_alone_gives_text_and_labels(folder, fused, asked, capsys):
    assert main(FILMS) == 0
    said = capsys.readouterr().out
    table = asked.pop("table")
    assert table.to_frame().equals(films().to_frame())
    expected = {"random_seed": 1, "minutes": 10.0, "progressbar": True}
    assert asked == expected | dict.fromkeys(("sequences", "graph", "gold"))
    assert {path.name for path in folder.iterdir()} == {"films.csv", "films-labels.csv"}
    assert said.startswith(fused.overview())
    assert "Written: films-labels.csv (labels)" in said
    written, probability = pd.read_csv("films-labels.csv"), bf.label_probabilities(fused)
    assert written.columns.tolist() == [
        "item", "label", "probability", "difficulty", "probability_bad", "probability_good"
    ]  # fmt: skip
    assert written["item"].tolist() == list(range(1, 21))
    np.testing.assert_allclose(written["probability_good"], probability.values[:, 1], rtol=1e-4)
    assert written["label"].tolist() == fused.labels()["label"].tolist()


@pytest.mark.slow
def test_report_posterior_and_picture_where_they_are_sent(folder, pictures, fused, asked, capsys):
    files = ["--report", "r.html", "--output", "r.nc", "--picture", "r.png", "--labels", "l.tsv"]
    assert main([*FILMS, *files, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "data:image/png;base64" in page
    assert not re.search(r'(src|href)="(?!data:)', page)  # needs no other file
    assert "&lt;b&gt;Ada &amp; co&lt;/b&gt;" in page and "<b>Ada" not in page
    result = tables("r.nc")
    assert set(result["models"].children) == set(fused["models"].children)
    assert bf.label_probabilities(result).equals(bf.label_probabilities(fused))
    assert result.attrs["code"] == fused.explain()
    assert bf.summary(result, ["sensitivity"]).shape[0] == 3
    assert pd.read_csv("l.tsv", sep="\t").shape == (20, 6)
    assert (folder / "r.png").read_bytes().startswith(b"\x89PNG")


def test_labels_to_standard_output_and_the_text_aside(folder, asked, capsys):
    assert main([*FILMS, "--labels", "-"]) == 0
    printed = capsys.readouterr()
    table = pd.read_csv(io.StringIO(printed.out))
    assert len(table) == 20 and "Suggested next steps" in printed.err
    assert {path.name for path in folder.iterdir()} == {"films.csv"}


def test_an_interrupted_answer_is_written_and_has_its_exit_status(folder, asked, fused):
    fused.attrs["interrupted"] = 1
    try:
        assert main([*FILMS, "--quiet"]) == 130
    finally:
        fused.attrs["interrupted"] = 0
    assert len(pd.read_csv("films-labels.csv")) == 20


def test_a_filter_from_standard_input(folder, asked, monkeypatch, capsys):
    said = io.BytesIO((folder / "films.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(said))
    assert main(["fit", "-", *COLUMNS, *SEED, "--quiet"]) == 0
    printed = capsys.readouterr()
    assert len(pd.read_csv(io.StringIO(printed.out))) == 20 and printed.err == ""


def test_sequences_and_graphs_need_no_model(folder, asked):
    films = pd.read_csv("films.csv").assign(year=lambda table: table["film"])
    films["studio"] = np.where(films["film"] <= 12, "Alpha", "Beta")
    films.to_csv("films.csv", index=False)
    assert main([*FILMS, "--quiet", "--sequence", "studio", "--position", "year"]) == 0
    assert asked["sequences"].lengths.tolist() == [12, 8] and asked["graph"] is None
    assert pd.read_csv("films-labels.csv")["sequence"].tolist() == ["Alpha"] * 12 + ["Beta"] * 8
    pd.DataFrame({"one": range(1, 20), "other": range(2, 21)}).to_csv("edges.csv", index=False)
    assert main([*FILMS, "--quiet", "--graph", "edges.csv"]) == 0
    assert asked["graph"].n_edges == 19 and asked["sequences"] is None


def test_too_little_time_is_said(folder, capsys, monkeypatch):
    monkeypatch.setattr(budget.Budget, "size", lambda *_: None)
    assert main(FILMS) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("bayesfuse: Fitting a model takes longer")
    assert "vote shares" in printed.out
    votes = pd.read_csv("films-labels.csv")
    assert votes["probability"].between(0.5, 1.0).all() and votes["difficulty"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--report", "films.csv"], "--report must end in .html"),
        (["--report", "nowhere/r.html"], "cannot write nowhere/r.html"),
        (["--gold", "films.csv"], "no column 'item'"),
    ],
)
def test_what_cannot_be_is_said_before_fitting(folder, no_sampling, capsys, arguments, word):
    fails(capsys, main([*FILMS, *arguments]), word)
    assert {path.name for path in folder.iterdir()} == {"films.csv"}
