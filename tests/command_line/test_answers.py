"""Answers of `fit` without --model: what it asks of ``bf.fuse`` and writes."""

import io
import re
import signal
import sys

import numpy as np
import pandas as pd
import pytest
from shell import COLUMNS, fails, films, tables, write_films

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line.arguments import in_options
from bayesfuse.ensemble import schedule

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
    copied = fused.copy(deep=False)
    answered = lambda table, **own: given.update(table=table, **own) or copied  # noqa: E731
    monkeypatch.setattr(bf, "fuse", answered)
    return given


def test_a_table_alone_gives_text_and_labels(folder, fused, asked, capsys):
    assert main(FILMS) == 0
    said = capsys.readouterr().out
    table = asked.pop("table")
    assert table.to_frame().equals(films().to_frame())
    expected = {"random_seed": 1, "minutes": 10.0, "progressbar": True}
    assert asked == expected | dict.fromkeys(("sequences", "graph", "gold", "ordered"))
    assert {path.name for path in folder.iterdir()} == {"films.csv", "films-labels.csv"}
    read = "Read as a long table, one row per response (columns film, critic and verdict). "
    assert fused.headline in " ".join(said.removeprefix(read).split())
    assert said.startswith(read)
    overview = " ".join(fused.overview().partition("\n\n")[2].split())
    assert in_options(overview) in " ".join(said.split())
    assert not re.search(r"gold=|minutes=|next_items|fused\.raters", said)
    assert "Written: films-labels.csv (labels)" in said
    written, probability = pd.read_csv("films-labels.csv"), bf.label_probabilities(fused)
    names = "film verdict probability difficulty probability_bad probability_good"
    assert written.columns.tolist() == names.split()
    assert written["film"].tolist() == list(range(1, 21))
    np.testing.assert_allclose(written["probability_good"], probability.values[:, 1], rtol=1e-4)
    assert written["verdict"].tolist() == fused.labels()["label"].tolist()


@pytest.mark.slow
def test_report_posterior_and_picture_where_they_are_sent(folder, pictures, fused, asked, capsys):
    files = ["--report", "r.html", "--output", "r.nc", "--picture", "r.png", "--labels", "l.tsv"]
    assert main([*FILMS, *files, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<svg" in page
    assert not re.search(r'(src|href)="(?!#)', page)  # needs no other file
    assert "&lt;b&gt;Ada &amp; co&lt;/b&gt;" in page and "<b>Ada" not in page
    result = tables("r.nc")
    assert set(result["models"].children) == set(fused["models"].children)
    assert bf.label_probabilities(result).equals(bf.label_probabilities(fused))
    assert result.attrs["code"] == fused.explain()
    assert bf.summary(result, ["sensitivity"]).shape[0] == 3
    assert pd.read_csv("l.tsv", sep="\t").shape == (20, 6)
    assert (folder / "r.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_has_the_file_its_columns_its_groups_and_the_command(folder, asked, capsys):
    genres = ["<i>drama", "farce"] * 10
    pd.DataFrame({"film": range(1, 21), "genre": genres}).to_csv("items.csv", index=False)
    command = [*FILMS, "--items", "items.csv", "--by", "genre", "--report", "r.html"]
    assert main(command) == 0
    assert "Written: films-labels.csv (labels), r.html (report)\n" in capsys.readouterr().out
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "<h1>films.csv" in page and "bayesfuse fit films.csv" in page
    assert "Shares by genre</h2>" in page and "&lt;i&gt;drama (10)" in page
    headings = re.findall(r'<th scope="col"[^>]*>(?:<button type="button">)?([^<]+)<', page)
    assert {"film", "critic", "verdict"} <= {*headings} and not {"item", "rater"} & {*headings}


def test_labels_to_standard_output_and_the_text_aside(folder, asked, capsys):
    assert main([*FILMS, "--labels", "-"]) == 0
    printed = capsys.readouterr()
    table = pd.read_csv(io.StringIO(printed.out))
    assert len(table) == 20 and "Suggested next steps" in printed.err
    assert {path.name for path in folder.iterdir()} == {"films.csv"}


def test_an_interrupted_answer_is_written_and_has_its_exit_status(folder, asked):
    bf.fuse(None).attrs["interrupted"] = 1
    assert main([*FILMS, "--quiet"]) == 130
    assert len(pd.read_csv("films-labels.csv")) == 20


def test_raters_need_no_models_which_large_answers_leave_out(folder, asked, capsys, monkeypatch):
    answer = bf.fuse(None)
    monkeypatch.setattr("bayesfuse.command_line.outputs.MAX_BYTES", answer.nbytes - 1)
    assert main([*FILMS, "--output", "r.nc", "--rater-table", "raters.csv"]) == 0
    said = "r.nc (posterior; its models, above 0 MB, which predictions need, are left out)"
    assert said in capsys.readouterr().out and "models" in answer.children
    saved = bf.load("r.nc")
    assert saved.raters().equals(answer.raters())
    assert saved.overview() == answer.overview()
    raters = pd.read_csv("raters.csv").drop(columns="positive")
    alike = {"rtol": 1e-5, "check_dtype": False, "check_names": False}
    pd.testing.assert_frame_equal(raters, answer.raters(columns="all"), **alike)


def test_a_press_while_labels_are_written_leaves_out_the_report(folder, asked, capsys, monkeypatch):
    commands = sys.modules["bayesfuse.command_line.commands"]
    plain = commands.write_labels
    pressed = lambda *given: (plain(*given), signal.raise_signal(signal.SIGINT))  # noqa: E731
    monkeypatch.setattr(commands, "write_labels", pressed)
    assert main([*FILMS, "--report", "r.html"]) == 130
    assert "bayesfuse: not written: r.html (report)" in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == {"films.csv", "films-labels.csv"}


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
    assert pd.read_csv("films-labels.csv")["studio"].tolist() == ["Alpha"] * 12 + ["Beta"] * 8
    pd.DataFrame({"one": range(1, 20), "other": range(2, 21)}).to_csv("edges.csv", index=False)
    assert main([*FILMS, "--quiet", "--graph", "edges.csv"]) == 0
    assert asked["graph"].n_edges == 19 and asked["sequences"] is None


def test_grades_have_an_order(folder, asked, capsys):
    assert main([*FILMS, "--quiet", "--ordered", "--classes", "bad,good"]) == 0
    assert asked["ordered"] and asked["table"].ordered
    fails(capsys, main([*FILMS, "--ordered"]), "so --ordered needs --classes with the lowest")


@pytest.mark.parametrize("time", ["20s", "90s", "10min"])
def test_too_little_time_gives_a_warning(folder, capsys, monkeypatch, time):
    monkeypatch.setattr(schedule.Schedule, "left", lambda *_: -1.0)
    assert main([*FILMS, "--time", time]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("bayesfuse: Fitting a model takes longer")
    assert (
        f"give more --time. Got: --time {time}.\n" in printed.err and "vote shares" in printed.out
    )
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
def test_impossible_requests_fail_before_fitting(folder, no_sampling, capsys, arguments, word):
    fails(capsys, main([*FILMS, *arguments]), word)
    assert {path.name for path in folder.iterdir()} == {"films.csv"}
