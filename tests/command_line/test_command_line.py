"""The command line: what it writes and prints, and one line for everything that goes wrong."""

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from odd_rater import odd_table
from shell import SHORT, draw_nothing, fails, fit, interrupt_in, tables, write_films

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line import commands, outputs
from bayesfuse.command_line.report import WIDTH, _advice


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in a folder of its own that holds ``films.csv``, and draw no pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "draw", draw_nothing)
    write_films(tmp_path)
    return tmp_path


@pytest.fixture
def pictures(folder, monkeypatch):
    """Draw the pictures all the same."""
    monkeypatch.setattr(commands, "draw", outputs.draw)


def test_fit_writes_what_it_says(folder, pictures, capsys):
    assert fit() == 0
    printed = capsys.readouterr().out
    assert "60 responses to 20 items by 3 raters, 2 classes" in printed
    assert "2 chains of 40 draws by gibbs" in printed
    assert "Written: result-labels.csv (labels), result.nc (posterior), result.png" in printed
    assert set(folder.iterdir()) == {
        folder / name for name in ("films.csv", "result.nc", "result-labels.csv", "result.png")
    }

    result = tables()
    assert dict(result["posterior"].sizes) == {
        "chain": 2, "draw": 40, "rater": 3, "class": 2, "answer": 2
    }  # fmt: skip
    assert result["posterior"]["rater"].values.tolist() == ["Ada", "Bo", "Cy"]
    probability = bf.label_probabilities(result)
    assert probability["item"].values.tolist() == list(range(1, 21))

    labels = pd.read_csv("result-labels.csv")
    assert labels.columns.tolist() == [
        "item", "label", "probability_bad", "probability_good", "mcse"
    ]  # fmt: skip
    columns = labels[["probability_bad", "probability_good"]].to_numpy()
    np.testing.assert_allclose(columns, probability.values)
    best = probability["class"].values[probability.argmax("class")]
    assert labels["label"].tolist() == best.tolist()
    np.testing.assert_allclose(labels["mcse"], result["label_posterior"]["mcse"].max("class"))
    assert Path("result.png").read_bytes().startswith(b"\x89PNG")


def test_report_has_means_and_intervals_of_the_raters(folder, capsys):
    import arviz as az

    fit()
    lines = capsys.readouterr().out.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("rater "))
    assert lines[header].split("  ")[-2:] == ["sensitivity (good)", "specificity (bad)"]
    draws = tables()["posterior"]
    for name in ("Ada", "Bo", "Cy"):
        (line,) = (line for line in lines[header + 1 :] if line.startswith(f"{name} "))
        expected = []
        for variable in ("sensitivity", "specificity"):
            own = draws[variable].sel(rater=name)
            low, high = az.eti(own).values
            expected.append(f"{float(own.mean()):.2f} ({low:.2f}–{high:.2f})")
        assert line.split(maxsplit=2)[1:] == ["20", "  ".join(f"{x:<18}" for x in expected).strip()]
    best = (draws["sensitivity"] + draws["specificity"]).mean(("chain", "draw")).to_series()
    shown = [line.split()[0] for line in lines[header + 1 : header + 4]]
    assert shown == best.sort_values(ascending=False).index.tolist()


def test_report_has_the_least_certain_items(folder, capsys):
    fit()
    lines = capsys.readouterr().out.splitlines()
    header = next(at for at, line in enumerate(lines) if line.startswith("least certain"))
    probability = bf.label_probabilities(tables())
    item = probability.isel(item=int(probability.max("class").argmin("item")))
    assert lines[header + 1].split()[0] == str(item["item"].item())
    for name in ("bad", "good"):
        assert f"{name}: {float(item.sel({'class': name})):.2f}" in lines[header + 1]
    uncertain = int((probability.max("class") < 0.95).sum())
    assert f"{uncertain} of 20 items have no label of probability 0.95 or more." in lines


def test_of_many_raters_the_best_and_worst_are_printed(folder, capsys):
    rng = np.random.default_rng(0)
    rater, item = np.indices((30, 12)).reshape(2, -1)
    label = np.where(rng.random(360) < 0.8, item % 2, 1 - item % 2)
    frame = pd.DataFrame({"item": item, "rater": [f"r{n:02}" for n in rater], "label": label})
    frame.to_csv("crowd.csv", index=False)
    assert fit(table="crowd.csv", columns=[]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("r") and line[1].isdigit()]) == 10
    assert "… 20 more" in lines


@pytest.mark.parametrize("n_classes", [3, 7])
def test_several_classes(folder, capsys, n_classes):
    label = np.tile(np.arange(n_classes), 6)
    frame = pd.DataFrame({"item": np.repeat(np.arange(2 * n_classes), 3), "label": np.sort(label)})
    frame["rater"] = np.tile([1, 2, 3], 2 * n_classes)
    frame.to_csv("several.csv", index=False)
    assert fit(table="several.csv", columns=[]) == 0
    printed = capsys.readouterr().out
    assert ("sensitivity (2)" in printed) == (n_classes == 3)
    assert ("sensitivity (mean of the classes)" in printed) == (n_classes == 7)
    assert tables()["posterior"]["class"].values.tolist() == list(range(n_classes))


@pytest.mark.parametrize(
    ("name", "separator"), [("films.tsv", "\t"), ("films.csv.gz", ","), ("films.tsv.gz", "\t")]
)
def test_formats_give_the_same_posterior(folder, name, separator):
    fit(output="plain.nc")
    pd.read_csv("films.csv").to_csv(name, sep=separator, index=False)
    fit(table=name, output="other.nc")
    assert Path("plain-labels.csv").read_text() == Path("other-labels.csv").read_text()


def test_spreadsheet_mark_is_no_part_of_a_name(folder):
    Path("marked.csv").write_text(Path("films.csv").read_text(), encoding="utf-8-sig")
    assert fit(table="marked.csv") == 0


def test_names_of_digits_are_integers_only_if_they_stay_the_same(folder):
    frame = pd.read_csv("films.csv").assign(verdict=lambda x: (x["verdict"] == "good") * 10)
    frame["critic"] = frame["critic"].map({"Ada": "007", "Bo": "7", "Cy": "10"})
    frame.to_csv("digits.csv", index=False)
    assert fit("--classes", "10,0", table="digits.csv") == 0
    posterior = tables()["posterior"]
    assert posterior["class"].values.tolist() == [10, 0]
    assert posterior["rater"].values.tolist() == ["007", "10", "7"]


def test_none_is_a_name(folder):
    text = Path("films.csv").read_text()
    Path("films.csv").write_text(text.replace("good", "None").replace("bad", "null"))
    assert fit() == 0
    assert tables()["posterior"]["class"].values.tolist() == ["None", "null"]


def test_gold_and_classes(folder):
    Path("gold.csv").write_text("item,label\n3,bad\n4,good\n3,bad\n")
    assert fit("--gold", "gold.csv", "--classes", "good,bad,ugly") == 0
    probability = bf.label_probabilities(tables())
    assert probability["class"].values.tolist() == ["good", "bad", "ugly"]
    assert probability.sel(item=3).values.tolist() == [0, 1, 0]
    assert probability.sel(item=4).values.tolist() == [1, 0, 0]


def test_all_items_are_kept_in_their_order(folder):
    """One that nobody answered has the prevalence for its probability."""
    names = [7, 21, *(n for n in range(1, 21) if n != 7)]
    pd.DataFrame({"year": 1999, "film": names}).to_csv("all.csv", index=False)
    assert fit("--items", "all.csv") == 0
    labels = pd.read_csv("result-labels.csv")
    assert labels["item"].tolist() == names
    prevalence = tables()["posterior"]["prevalence"].mean(("chain", "draw"))
    kept = labels.loc[labels["item"] == 21, ["probability_bad", "probability_good"]]
    np.testing.assert_allclose(kept.to_numpy()[0], prevalence)


def test_labels_and_picture_go_where_they_are_sent(folder, pictures):
    assert fit("--labels", "a.tsv", "--picture", "b.svg") == 0
    assert pd.read_csv("a.tsv", sep="\t").shape == (20, 5)
    assert "<svg" in Path("b.svg").read_text()
    assert {path.name for path in folder.iterdir()} == {"films.csv", "result.nc", "a.tsv", "b.svg"}


def test_same_seed_same_draws(folder):
    fit(output="one.nc")
    fit(output="two.nc")
    fit("--seed", "2", output="three.nc")
    one, two, three = (tables(f"{name}.nc")["posterior"]["confusion"] for name in
                       ("one", "two", "three"))  # fmt: skip
    assert one.equals(two)
    assert not one.equals(three)


def test_raters_of_one_accuracy(folder):
    assert fit("--raters", "coin") == 0
    assert tables()["posterior"]["accuracy"].dims == ("chain", "draw", "rater")


def test_one_odd_rater_does_not_name_the_classes(folder):
    _, truth, responses = odd_table(1)
    responses.to_frame().to_csv("odd.csv", index=False)
    right = []
    for more in ([], ["--robust"]):
        assert fit(*more, table="odd.csv", columns=[]) == 0
        labels = pd.read_csv("result-labels.csv").set_index("item")["label"]
        right.append((labels[np.arange(len(truth))] == truth).mean())
    assert right[0] < 0.3 and right[1] > 0.9


def test_report_has_the_checks_unless_told_not_to(folder, capsys):
    for arguments, shown in (([], True), (["--no-checks"], False)):
        assert fit(*arguments, settings=SHORT) == 0
        printed = capsys.readouterr().out
        assert ("Posterior predictive checks:" in printed) == shown
        assert ("* The agreement of raters has standard" in printed) == shown


@pytest.mark.parametrize("groups", ["moments", pytest.param("posterior", marks=pytest.mark.slow)])
def test_report_says_who_shares_a_source(folder, capfd, groups):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    heard = np.where(rng.random(400) < 0.75, truth, 1 - truth)
    source = np.column_stack([*[heard] * 3, *[truth] * 5])
    said = np.where(rng.random(source.shape) < 0.85, source, 1 - source)
    film, critic = np.indices(said.shape).reshape(2, -1)
    table = pd.DataFrame({"film": film, "critic": critic, "verdict": said.ravel()})
    table.to_csv("many.csv", index=False)
    arguments = ["--model", "latent-group", "--groups", groups]
    assert fit(*arguments, table="many.csv") == 0
    assert "Raters who share a source" in (printed := capfd.readouterr().out)
    assert "* 0, 1, 2\n    probability" in printed
    assert fit(*arguments, "--quiet") == 0  # of three critics nobody can tell
    assert capfd.readouterr() == ("", "")
    assert fit(*arguments) == 0
    if groups == "moments":
        assert "No raters were found to share a source" in capfd.readouterr().out


def test_sampler(folder):
    assert fit("--sampler", "gibbs") == 0
    assert tables().attrs["sampler"] == "gibbs"


@pytest.mark.slow
def test_nuts(folder):
    assert fit("--sampler", "nuts") == 0
    assert tables().attrs["sampler"] == "nuts"


def test_quiet_prints_nothing(folder, capfd):
    assert fit("--quiet") == 0
    assert capfd.readouterr() == ("", "")
    assert Path("result.nc").exists()


def test_few_draws_are_no_ground_to_judge_convergence(folder, capsys):
    assert fit("--draws", "1", "--chains", "1") == 0
    assert "Convergence cannot be assessed" in capsys.readouterr().out


def test_of_very_many_parameters_some_are_checked(folder, capsys, monkeypatch):
    assert fit() == 0
    assert "was checked" not in capsys.readouterr().out
    monkeypatch.setattr("bayesfuse.command_line.report.CHECKED", 7)  # of 2 + 3 × 4
    assert fit() == 0
    assert "One in 2 raters was checked." in capsys.readouterr().out


def test_a_short_run_is_told_to_be_longer(folder, capsys):
    fit()
    assert "more sweeps per draw (--sweeps)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rhat", "ess", "sampler", "words"),
    [
        (1.005, 900, "gibbs", [""]),
        (1.5, 900, "gibbs", ["The chains disagree", "more sweeps per draw", "another model"]),
        (1.5, 900, "nuts", ["The chains disagree", "more draws", "another model"]),
        (
            1.02,
            300,
            "gibbs",
            ["should run longer", "(--sweeps), in a result of the same size, or more draws"],
        ),
        (1.005, 300, "nuts", ["should run longer", "more draws (--draws)."]),
    ],
)
def test_advice_is_what_helps(rhat, ess, sampler, words):
    advice = _advice(rhat, ess, sampler)
    assert all(word in " ".join(advice.split()) for word in words)
    assert bool(advice) == bool(words[0])
    assert ("--sweeps" in advice) == (sampler == "gibbs" and bool(advice))  # NUTS has none
    assert all(len(line) <= WIDTH for line in advice.splitlines())


# ---------------------------------------------------------------- what goes wrong


def test_no_command(capsys):
    fails(capsys, main([]), "COMMAND", "--help")


def test_missing_arguments(capsys):
    fails(capsys, main(["fit"]), "FILE, --output")


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
        (b"film,critic,verdict\n1,a\0,good\n1,a,bad\n", "without the character NUL"),
    ],
)
def test_files_that_are_no_tables(folder, capsys, content, word):
    Path("bad.csv").write_bytes(content)
    fails(capsys, fit(table="bad.csv"), word)


def test_text_of_several_lines_beside_the_columns(folder):
    fit(output="plain.nc")
    text = 'a film, and\nits maker,\nin "lines"'
    pd.read_csv("films.csv").assign(note=text).to_csv("long.csv", index=False)
    fit(table="long.csv", output="other.nc")
    assert Path("plain-labels.csv").read_text() == Path("other-labels.csv").read_text()


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


# ---------------------------------------------------------------- demo, version, help


def test_demo(folder, pictures, capsys):
    assert main(["demo", "--output", "new/folder"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Five anaesthetists judged")
    assert "315 responses to 45 items by 5 raters, 4 classes" in printed
    assert "4 chains of 1,000 draws" in printed
    assert "should run longer" not in printed
    assert f"Written: {Path('new/folder/anesthesia.png')} (picture)" in printed
    assert Path("new/folder/anesthesia.png").read_bytes().startswith(b"\x89PNG")


def test_demo_without_a_place_for_its_picture(folder, capsys):
    fails(capsys, main(["demo", "--output", "films.csv"]), "films.csv")


def test_version(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"bayesfuse {bf.__version__}\n"


@pytest.mark.parametrize("command", ["fit", "demo"])
def test_help_of_a_command(capsys, command):
    with pytest.raises(SystemExit, match=r"^0$"):
        main([command, "--help"])
    assert f"usage: python -m bayesfuse {command}" in capsys.readouterr().out


def test_help_in_a_process_of_its_own():
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bayesfuse", "--help"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert "usage: python -m bayesfuse" in run.stdout
    assert "fit" in run.stdout
    assert "demo" in run.stdout
