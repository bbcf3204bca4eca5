"""Every table, plot and text with a sensitivity names the positive class."""

import re

import numpy as np
import pandas as pd
import pytest
from shell import SHORT

import bayesfuse as bf
from bayesfuse.__main__ import main
from bayesfuse.models import DawidSkene, LatentGroup

NAMES = ["healthy", "diseased"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    truth = rng.random(80) < 0.4
    right = rng.random((80, 4)) < np.where(truth[:, None], 0.95, 0.7)
    frame = pd.DataFrame(np.array(NAMES)[(truth[:, None] == right).astype(int)], columns=[*"wxyz"])
    return frame.melt(var_name="rater", value_name="label", ignore_index=False).reset_index(
        names="item"
    )


@pytest.fixture(scope="module")
def result(table):
    model = DawidSkene(table)
    return bf.sample(model, draws=40, chains=2, random_seed=1, progressbar=False, quiet=True)


def states(table):
    """Return whether a table says which class is positive, in what it prints and in attributes."""
    printed = table.to_string().splitlines()[0], table.to_html(), repr(table.head(3))
    return all("diseased" in text for text in printed) and table.attrs["positive"] == "diseased"


def test_tables_of_sensitivities_name_the_positive_class(result, table, tmp_path):
    result.to_netcdf(tmp_path / "result.nc")
    for each in (result, bf.load(tmp_path / "result.nc")):
        assert states(bf.summary(each)) and states(bf.summary(each, ["sensitivity"]))
        assert states(bf.summary(each, "specificity")[["mean"]])
        assert "positive" not in bf.summary(each, "prevalence").attrs
        assert each["posterior"]["sensitivity"].attrs["positive"] == "diseased"
        assert each["constant_data"].attrs["positive"] == "diseased"
    assert "diseased is positive" in repr(DawidSkene(table))
    point = bf.find_map(DawidSkene(table))
    assert point["point"]["specificity"].attrs["positive"] == "diseased"


def test_plots_of_sensitivities_name_the_positive_class(result):
    axes = bf.plots.plot_raters(result)
    assert [ax.get_title() for ax in axes] == [
        "truth: diseased (positive)",
        "truth: healthy (negative)",
    ]
    assert "diseased" in bf.plots.plot_sensitivity_specificity(result).get_ylabel()


def test_answers_name_the_positive_class(table, tmp_path, few_draws):
    fused = bf.fuse(table, minutes=1, random_seed=1, progressbar=False, checks=False)
    assert states(fused.raters())
    assert states(fused.raters(by=dict.fromkeys(range(80), "all"), ci_prob=0.5))
    assert "sensitivity (diseased)" in fused.overview()
    page = fused.report(tmp_path / "page.html").read_text()
    assert "sensitivity (diseased)" in page and "specificity (healthy)" in page
    with pytest.warns(bf.errors.QuickAnswerWarning):
        quick = bf.fuse(table, positive="healthy", minutes=1e-9, progressbar=False)
    assert "positive='healthy'" in quick.explain()
    assert quick.probabilities().columns.tolist() == ["diseased", "healthy"]


@pytest.mark.filterwarnings("always")
def test_the_shell_names_the_positive_class(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table.assign(label=table["label"].str.upper().where(table["item"] > 5, table["label"])).to_csv(
        "table.csv", index=False
    )
    raters = ["--rater-table", "raters.csv", "--model=dawid-skene", "--no-checks", *SHORT]
    assert main(["fit", "table.csv", "--normalise", *raters]) == 0
    assert "sensitivity (DISEASED)" in capsys.readouterr().out
    assert pd.read_csv("raters.csv")["positive"].unique().tolist() == ["DISEASED"]
    assert main(["fit", "table.csv", "--normalise", "--positive", "healthy", *raters]) == 0
    assert re.search(r"sensitivity \(HEALTHY\)", capsys.readouterr().out)
    assert main(["doctor", "table.csv"]) == 0
    printed = capsys.readouterr()
    assert "--normalise" in printed.err and "'diseased' (" in printed.out


@pytest.mark.slow
def test_verdicts_of_groups_name_the_positive_class(table):
    model = LatentGroup(table, groups={"g": [*"wx"]})
    group = bf.sample(model, draws=10, chains=1, random_seed=1, progressbar=False, quiet=True)
    names = [n for n in group["posterior"].data_vars if "sensitivity" in n]
    assert len(names) > 1 and all(states(bf.summary(group, name)) for name in names)
