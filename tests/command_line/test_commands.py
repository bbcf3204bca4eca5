"""The commands: what fit with --model reads and writes, reports, demo and help."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from odd_rater import odd_table
from rules import rules
from shell import COLUMNS, SETTINGS, SHORT, fails, films, fit, tables

import bayesfuse as bf
from bayesfuse import models
from bayesfuse.__main__ import main


@pytest.mark.slow
def test_fit_writes_the_files_that_it_names(folder, pictures, capsys):
    assert fit() == 0
    printed = capsys.readouterr().out
    assert "60 responses to 20 items by 3 raters, 2 classes" in printed
    assert "Written: result-labels.csv (labels), result.nc (posterior), result.png" in printed
    assert "If the model is right, " in printed
    files = "films.csv result.nc result-labels.csv result.png".split()
    assert {path.name for path in folder.iterdir()} == set(files)

    result = tables()
    sizes = {"chain": 2, "draw": 40, "rater": 3, "class": 2, "answer": 2}
    assert dict(result["posterior"].sizes) == sizes
    assert result["posterior"]["rater"].values.tolist() == ["Ada", "Bo", "Cy"]
    probability = bf.label_probabilities(result)
    assert probability["item"].values.tolist() == list(range(1, 21))

    labels = pd.read_csv("result-labels.csv")
    names = "film verdict probability probability_bad probability_good mcse"
    assert labels.columns.tolist() == names.split()
    columns = labels[["probability_bad", "probability_good"]].to_numpy()
    np.testing.assert_allclose(columns, probability.values)
    np.testing.assert_allclose(labels["probability"], probability.values.max(axis=1))
    best = probability["class"].values[probability.argmax("class")]
    assert labels["verdict"].tolist() == best.tolist()
    np.testing.assert_allclose(labels["mcse"], result["label_posterior"]["mcse"].max("class"))
    assert Path("result.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_gold_classes_and_files_are_those_given(folder, pictures):
    Path("gold.csv").write_text("item,label\n3,bad\n4,good\n3,bad\n")
    files = ["--labels", "a.tsv", "--picture", "b.svg"]
    assert fit("--gold", "gold.csv", "--classes", "good,bad,ugly", *files) == 0
    probability = bf.label_probabilities(tables())
    assert probability["class"].values.tolist() == ["good", "bad", "ugly"]
    assert probability.sel(item=3).values.tolist() == [0, 1, 0]
    assert probability.sel(item=4).values.tolist() == [1, 0, 0]
    assert pd.read_csv("a.tsv", sep="\t").shape == (20, 7)
    assert "<svg" in Path("b.svg").read_text(encoding="utf-8")
    written = {path.name for path in folder.iterdir()}
    assert written == {"films.csv", "gold.csv", "result.nc", "a.tsv", "b.svg"}


def test_all_items_are_kept_in_their_order(folder):
    """One that nobody answered has the prevalence for its probability."""
    names = [7, 21, *(n for n in range(1, 21) if n != 7)]
    pd.DataFrame({"year": 1999, "film": names}).to_csv("all.csv", index=False)
    assert fit("--items", "all.csv") == 0
    labels = pd.read_csv("result-labels.csv")
    assert labels["film"].tolist() == names
    prevalence = tables()["posterior"]["prevalence"].mean(("chain", "draw"))
    kept = labels.loc[labels["film"] == 21, ["probability_bad", "probability_good"]]
    np.testing.assert_allclose(kept.to_numpy()[0], prevalence, rtol=1e-6)


def test_one_odd_rater_does_not_name_the_classes_of_robust_fits(folder):
    _, truth, responses = odd_table(1)
    responses.to_frame().to_csv("odd.csv", index=False)
    assert fit("--robust", table="odd.csv", columns=[]) == 0
    labels = pd.read_csv("result-labels.csv").set_index("item")["label"]
    assert (labels[np.arange(len(truth))] == truth).mean() > 0.9


@pytest.mark.parametrize("draws", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_demo(folder, pictures, capsys, monkeypatch, draws):
    monkeypatch.setattr("bayesfuse.command_line.commands.DRAWS", draws)
    assert main(["demo", "--output", "new/folder"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Five anaesthetists judged")
    assert "315 responses to 45 items by 5 raters, 4 classes" in printed
    assert Path("new/folder/anesthesia.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--version"], f"bayesfuse {bf.__version__}\n"), (["fit", "--help"], "usage: bayesfuse fit")],
)
def test_version_and_help(capsys, arguments, said):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(arguments)
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        (["--model", "item-types"], models.ItemTypes),
        (["--raters", "coin"], lambda table: models.DawidSkene(table, raters="coin")),
    ],
    ids=["types", "coins"],
)
def test_fits_are_those_of_python(folder, arguments, model):
    assert fit(*arguments, "--quiet") == 0
    own = bf.sample(model(films()), **SETTINGS)
    found = tables()
    np.testing.assert_allclose(bf.label_probabilities(found), bf.label_probabilities(own))
    assert set(found["posterior"].data_vars) == set(own["posterior"].data_vars)


@pytest.mark.slow
def test_labelling_functions_are_those_of_python_and_the_report_has_them(folder, pictures, capsys):
    responses, _ = rules(1)
    responses.to_frame().to_csv("votes.csv", index=False)
    given = {"table": "votes.csv", "columns": [], "settings": SHORT}
    model = ["--model", "labelling-functions"]
    assert fit(*model, **given) == 0
    said = capsys.readouterr().out
    for row in bf.rater_table(tables()).nlargest(3, "accuracy").itertuples():
        assert re.search(rf"^{row.rater} .* {row.accuracy:.2f}", said, re.MULTILINE), row
    assert (folder / "result.png").stat().st_size > 1000
    covered = bf.Responses.from_long(responses.to_frame())
    own = bf.sample(models.LabellingFunctions(covered), **SETTINGS)
    np.testing.assert_allclose(bf.label_probabilities(tables()), bf.label_probabilities(own))


def test_report_has_intervals_of_the_raters_and_the_least_certain_items(folder, capsys):
    fit("--rater-table", "raters.csv")
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("rater "))
    assert lines[header].split("  ")[-1] == "specificity (bad)"
    raters = pd.read_csv("raters.csv")
    assert raters.pop("positive").unique().tolist() == ["good"]
    alike = {"rtol": 1e-5, "check_dtype": False, "check_names": False}
    pd.testing.assert_frame_equal(raters, bf.rater_table(tables(), columns="all"), **alike)
    for row in raters.itertuples():
        (line,) = (line for line in lines[header + 1 :] if line.startswith(f"{row.rater} "))
        assert line.split()[1] == "20"
        assert f" {row.accuracy:.2f} ({row.low:.2f}–{row.high:.2f})" in line

    header = next(at for at, line in enumerate(lines) if line.startswith("least certain"))
    probability = bf.label_probabilities(tables())
    item = probability.isel(item=int(probability.max("class").argmin("item")))
    assert lines[header + 1].split()[0] == str(item["item"].item())


@pytest.mark.slow
def test_report_has_the_checks_unless_switched_off(folder, capsys):
    for arguments, shown in (([], True), (["--no-checks"], False)):
        assert fit(*arguments, settings=SHORT) == 0
        printed = capsys.readouterr().out
        assert ("Posterior predictive checks:" in printed) == shown
        assert ("* The agreement of raters has standard" in printed) == shown


def test_convergence_is_reported_for_the_stored_draws(folder, capsys):
    assert fit("--draws", "1", "--chains", "1") == 0
    assert "Convergence cannot be assessed" in capsys.readouterr().out
    assert fit() == 0
    said = capsys.readouterr().out
    assert "more sweeps per draw (--sweeps)" in said


GROUPED = "grouped.csv"


def write_groups(of):
    films = pd.read_csv("films.csv")
    films.assign(year=films["film"].map(of)).to_csv(GROUPED, index=False)


def test_shares_are_printed_by_a_column_of_the_responses(folder, capsys):
    write_groups(lambda film: "old" if film <= 8 else "new")
    assert fit("--by", "year", table=GROUPED) == 0
    said = capsys.readouterr().out.split("group ")[1]
    rows = [line.split() for line in said.splitlines()]
    assert " ".join(rows[0]) == "class items known votes share low high new_low new_high"
    assert rows[1][:3] == ["all", "items", "good"] and rows[2][:3] == ["new", "good", "12"]
    assert ["new", "old", "good"] in [row[:3] for row in rows]


def test_groups_of_the_table_of_items(folder, capsys):
    films = pd.DataFrame({"film": range(1, 21), "genre": ["a", "b"] * 10})
    films.to_csv("items.csv", index=False)
    assert fit("--by", "genre", "--items", "items.csv") == 0
    assert ["a", "b"] in [line.split()[:2] for line in capsys.readouterr().out.splitlines()]


def test_the_report_counts_the_draws_that_were_made(folder, capsys):
    assert fit("--thin", "3") == 0
    assert "2 chains of 40 draws (one in 3 stored)" in capsys.readouterr().out
    assert bf.load("result.nc")["posterior"].sizes["draw"] == 14


def test_populations_are_a_column(folder, capsys):
    write_groups(lambda film: "old" if film <= 8 else "new")
    command = [GROUPED, *COLUMNS, "--populations", "year"]
    assert main(["doctor", *command]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "populations 2 " in printed and not re.search(r"bf\.|\w=", printed)
    assert fit("--populations", "year", table=GROUPED) == 0
    printed = capsys.readouterr().out
    expected = bf.summary(bf.load("result.nc"), ["prevalence", "population_prevalence"])
    for name, mean in expected["mean"].items():
        (line,) = [line for line in printed.splitlines() if line.startswith(name)]
        assert line.removeprefix(name).split()[0] == f"{float(mean):.2f}"
    fails(capsys, main(["fit", *command]), "--populations belongs to --model dawid-skene or")


def test_advice_has_the_words_of_the_shell(folder, capsys):
    Path("two.csv").write_text("item,rater,label\n1,a,x\n1,b,y\n2,a,y\n2,b,y\n3,a,x\n")
    assert main(["doctor", "two.csv"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "known labels (--gold)" in printed and "--populations COLUMN" in printed
    assert not re.search(r"bf\.|\w=", printed)


def test_bad_groups(folder, capsys, no_sampling):
    fails(capsys, fit("--by", "year"), "films.csv has no column 'year'")
    write_groups(lambda film: None if film == 3 else "x")
    fails(capsys, fit("--by", "year", table=GROUPED), "every item needs a group for --by year")
    films = pd.read_csv("films.csv")
    films.assign(year=films["critic"]).to_csv(GROUPED, index=False)
    fails(capsys, fit("--by", "year", table=GROUPED), "an item has one group in all its rows")
    fails(capsys, main("fit films.csv --format mturk --by year".split()), "HITId")


@pytest.mark.slow
def test_labels_of_least_cost_are_written(folder, capsys):
    Path("costs.csv").write_text(",bad,good,reject\nbad,0,9,1\ngood,1,0,1\n")
    assert fit("--costs", "costs.csv", "--no-checks", "--draws", "5", "--chains", "1") == 0
    labels = pd.read_csv("result-labels.csv")
    best = bf.decisions.best_labels(tables(), "costs.csv")
    assert labels["verdict"].tolist() == best["label"].values.tolist()
    assert labels["cost"].sum() == pytest.approx(float(best["expected"]))
    assert f"cost is {float(best['expected']):.4g}" in capsys.readouterr().out


def test_costs_are_refused_before_the_fit(folder, capsys, no_sampling):
    Path("costs.csv").write_text(",bad\nbad,0\n")
    fails(capsys, fit("--costs", "costs.csv"), "row for every class")
    fails(capsys, fit("--costs", "none.csv"), "cannot read none.csv")
