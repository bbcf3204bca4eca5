"""The commands: what fit reads and writes, the demo, version and help."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from odd_rater import odd_table
from shell import fit, tables

import bayesfuse as bf
from bayesfuse.__main__ import main


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
    np.testing.assert_allclose(kept.to_numpy()[0], prevalence, rtol=1e-6)


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


def test_sampler(folder):
    assert fit("--sampler", "gibbs") == 0
    assert tables().attrs["sampler"] == "gibbs"


@pytest.mark.slow
def test_nuts(folder):
    assert fit("--sampler", "nuts") == 0
    assert tables().attrs["sampler"] == "nuts"


def test_text_of_several_lines_beside_the_columns(folder):
    fit(output="plain.nc")
    text = 'a film, and\nits maker,\nin "lines"'
    pd.read_csv("films.csv").assign(note=text).to_csv("long.csv", index=False)
    fit(table="long.csv", output="other.nc")
    assert Path("plain-labels.csv").read_text() == Path("other-labels.csv").read_text()


def test_demo(folder, pictures, capsys):
    assert main(["demo", "--output", "new/folder"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Five anaesthetists judged")
    assert "315 responses to 45 items by 5 raters, 4 classes" in printed
    assert "4 chains of 1,000 draws" in printed
    assert "should run longer" not in printed
    assert f"Written: {Path('new/folder/anesthesia.png')} (picture)" in printed
    assert Path("new/folder/anesthesia.png").read_bytes().startswith(b"\x89PNG")


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
