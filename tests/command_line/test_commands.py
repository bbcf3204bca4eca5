"""The commands: what fit reads and writes, the demo, version and help."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from odd_rater import odd_table
from shell import fit, tables

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.command_line import commands


@pytest.mark.slow
def test_fit_writes_what_it_says(folder, pictures, capsys):
    assert fit() == 0
    printed = capsys.readouterr().out
    assert "60 responses to 20 items by 3 raters, 2 classes" in printed
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


@pytest.mark.slow
def test_gold_classes_and_files_are_those_given(folder, pictures):
    Path("gold.csv").write_text("item,label\n3,bad\n4,good\n3,bad\n")
    files = ["--labels", "a.tsv", "--picture", "b.svg"]
    assert fit("--gold", "gold.csv", "--classes", "good,bad,ugly", *files) == 0
    probability = bf.label_probabilities(tables())
    assert probability["class"].values.tolist() == ["good", "bad", "ugly"]
    assert probability.sel(item=3).values.tolist() == [0, 1, 0]
    assert probability.sel(item=4).values.tolist() == [1, 0, 0]
    assert pd.read_csv("a.tsv", sep="\t").shape == (20, 6)
    assert "<svg" in Path("b.svg").read_text(encoding="utf-8")
    written = {path.name for path in folder.iterdir()}
    assert written == {"films.csv", "gold.csv", "result.nc", "a.tsv", "b.svg"}


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


def test_one_odd_rater_does_not_name_the_classes_of_robust_fits(folder):
    _, truth, responses = odd_table(1)
    responses.to_frame().to_csv("odd.csv", index=False)
    assert fit("--robust", table="odd.csv", columns=[]) == 0
    labels = pd.read_csv("result-labels.csv").set_index("item")["label"]
    assert (labels[np.arange(len(truth))] == truth).mean() > 0.9


@pytest.mark.parametrize("draws", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_demo(folder, pictures, capsys, monkeypatch, draws):
    sample = commands._sample
    monkeypatch.setattr(commands, "_sample", lambda *args, **kw: sample(*args, draws=50, **kw))
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
