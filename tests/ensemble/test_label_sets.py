"""``bf.fuse`` of label sets: sets, raters by label and over all, and wrong uses."""

import io
import json
import re

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.observation.model import observed


@pytest.fixture(scope="module")
def dependent():
    """Return label sets of 60 items: y goes with x, never with z, and the third rater guesses."""
    rng = np.random.default_rng(1)
    first = rng.random(60) < 0.5
    truth = np.column_stack([first, first, ~first])
    right = rng.random((60, 3, 3)) < np.array([0.9, 0.8, 0.5])[None, :, None]
    given = np.where(right, truth[:, None], ~truth[:, None])
    item, rater = map(np.ravel, np.indices((60, 3)))
    columns = {name: given[item, rater, at] * 1 for at, name in enumerate("xyz")}
    frame = pd.DataFrame({"item": item, "rater": np.array(list("abc"))[rater], **columns})
    return bf.Responses.from_label_sets(frame), truth


@pytest.fixture(scope="module")
def fused(dependent):
    return bf.fuse(dependent[0], draws=40, random_seed=1, progressbar=False)


def test_labels_are_sets_with_probabilities(fused, dependent):
    truth = dependent[1]
    labels, probability = fused.labels(), fused.probabilities()
    assert labels.columns.tolist() == ["item", "labels", "probability"] + [
        f"probability[{name}]" for name in "xyz"
    ]
    assert ((probability.to_numpy() > 0.5) == truth).mean() > 0.95
    for row, at in zip(labels.itertuples(), probability.to_numpy(), strict=True):
        assert row.labels == tuple(name for name, p in zip("xyz", at, strict=True) if p > 0.5)
    # the set is at most as probable as its least certain label, up to Monte Carlo error
    least = np.maximum(probability, 1 - probability).min(axis=1)
    assert (labels["probability"].to_numpy() <= least.to_numpy() + 0.12).all()


def test_labels_that_occur_together_inform_each_other(fused, dependent):
    sets, truth = dependent
    votes = sets.questions.votes()
    share = (votes[:, 1] / votes.sum(axis=1)).reshape(truth.shape)
    wrong = (fused.probabilities().to_numpy() > 0.5) != truth
    assert wrong.sum() < 0.5 * ((share > 0.5) != truth).sum()


def test_arviz_summarises_the_draws(fused):
    """ArviZ stacks all entries into a dimension "label", which draws may therefore not have."""
    assert len(az.summary(fused)) == len(bf.summary(fused))
    found = az.summary(fused, var_names="label_rate", kind="stats", round_to="none")["mean"]
    expected = fused["posterior"]["label_rate"].mean(("chain", "draw")).sel(set_label="y")
    np.testing.assert_allclose(
        found[[f"label_rate[{n}, y]" for n in range(10)]], expected, rtol=1e-5
    )


def test_raters_are_judged_by_label_and_over_all(fused):
    table, by_label = fused.raters(), fused.raters(by="label")
    assert table["rater"].tolist() == ["a", "b", "c"] and (table["responses"] == 180).all()
    assert by_label["group"].unique().tolist() == ["x", "y", "z"] and len(by_label) == 9
    mean = by_label.groupby("rater")["accuracy"].mean()
    assert np.allclose(table.set_index("rater")["accuracy"], mean)
    assert (table["low"] < table["accuracy"]).all() and (table["accuracy"] < table["high"]).all()


def test_known_labels_are_certain_and_inform_the_others_of_the_item(fused, dependent):
    doubt = int((fused.probabilities()["y"] - 0.5).abs().argmin())
    other = 0 if doubt else 1
    answers = []
    for has_x in (True, False):
        gold = {doubt: {"x": has_x}, other: ["x", "z"]}
        known = bf.fuse(dependent[0], gold=gold, draws=40, random_seed=1, progressbar=False)
        probability = known.probabilities()
        assert probability.loc[other].tolist() == [1, 0, 1]
        assert probability.loc[doubt, "x"] == has_x
        answers.append(probability.loc[doubt, "y"])
    assert answers[0] > answers[1] + 0.2


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({99: ["x"]}, "item 99"),
        ({1: ["w"]}, "label 'w'"),
        ({1: "x|y"}, r"label 'x\|y'"),
        (3, "mapping from items"),
    ],
)
def test_known_labels_of_other_items_or_labels_are_refused(dependent, gold, message):
    with pytest.raises(bf.errors.ResponsesError, match=message):
        bf.fuse(dependent[0], gold=gold, progressbar=False)


def test_known_sets_are_read_from_every_form():
    frame = {"item": [1, 1, 2], "rater": ["a", "b", "a"], "label": ["x; y", "y", "z"]}
    sets = bf.Responses.from_label_sets(frame, separator=";")
    forms = [
        {1: ["x", "z"], 2: []},
        {1: "x;z", 2: ""},
        pd.DataFrame({"item": [1, 2], "label": ["z; x", ""]}),
        pd.DataFrame({"item": [1, 2], "x": [1, 0], "y": [0, 0], "z": [1, 0]}),
        # a row for every label, as those of raters may be
        pd.DataFrame({"item": [1, 2, 1], "label": ["z", "", "x"]}),
        pd.DataFrame({"item": [1, 2, 1], "x": [1, 0, 0], "y": 0, "z": [np.nan, 0, 1]}),
        pd.Series(["z", "", "x"], [1, 2, 1]),
    ]
    known = [bf.models.LabelProfiles(sets, profiles=2, gold=gold) for gold in forms]
    codes = [observed(model)[1].gold.tolist() for model in known]
    assert codes == [[1, 0, 1, 0, 0, 0]] * 7


def test_costs_of_labels_move_the_least_certain_ones(fused):
    probability = fused.probabilities()
    table = fused.labels(costs={"x": (9.0, 1.0)})
    assert [("x" in labels) for labels in table["labels"]] == (probability["x"] > 0.1).tolist()
    same = fused.labels(costs=pd.DataFrame({"missed": [2.0] * 3, "wrong": 2.0}, list("xyz")))
    expected = 2.0 * np.minimum(probability, 1.0 - probability).sum(axis=1)
    assert np.allclose(same["cost"], expected)
    assert same.drop(columns="cost").equals(fused.labels())
    assert f"sets is {table['cost'].sum():.4g}." in fused.overview(costs={"x": (9.0, 1.0)})
    for costs in ({"w": (1, 1)}, {"x": 3.0}, [1.0, 2.0], {"x": (-1.0, 1.0)}):
        with pytest.raises(bf.errors.ModelError, match=r"[cC]osts"):
            fused.labels(costs=costs)


def test_answer_is_stored_and_loaded(fused, tmp_path):
    fused.to_netcdf(tmp_path / "sets.nc")
    loaded = bf.load(tmp_path / "sets.nc")
    assert loaded.overview() == fused.overview()
    assert loaded.labels().equals(fused.labels())
    assert "whole sets are expected to be right" in loaded.headline


def test_notebooks_show_escaped_text_and_groups(fused):
    named = fused.copy()
    named.attrs["headline"] = "<b>x & y</b>"
    assert "&lt;b&gt;x &amp; y" in named._repr_html_()
    assert "set_probability" in fused["label_sets"]._repr_html_()
    assert "set_probability" in repr(fused["label_sets"])


def test_what_label_sets_do_not_take_is_refused(fused, dependent):
    with pytest.raises(bf.errors.ModelError, match="ordered="):
        bf.fuse(dependent[0], ordered=True, progressbar=False)
    ignored = {"item": "task", "missing": "drop", "normalise": True, "gold_error": 0.1}
    for name, value in ignored.items():
        with pytest.raises(bf.errors.ModelError, match=f"Got: label sets and {name}="):
            bf.fuse(dependent[0], progressbar=False, **{name: value})
    with pytest.raises(bf.errors.ModelError, match="more time"):
        bf.fuse(dependent[0], minutes=1e-6, progressbar=False)
    with pytest.raises(bf.errors.ModelError, match="not predicted"):
        bf.predict(fused, dependent[0].questions)
    with pytest.raises(bf.errors.ModelError, match='by="label"'):
        fused.raters(by="item")
    with pytest.raises(bf.errors.ModelError, match=r"ends in \.html"):
        fused.report("page.pdf")
    with pytest.raises(bf.errors.ModelError, match="Shares by group"):
        fused.report("page.html", by="x")


def test_page_has_shares_sets_raters_and_all_labels_as_a_file(fused, dependent, tmp_path):
    page = fused.report(tmp_path / "page.html").read_text()
    share = fused.probabilities().mean()
    assert all(f'aria-label="{name}: {100 * p:.0f}%"' in page for name, p in share.items())
    questions = dependent[0].questions
    votes = questions.label[questions.item % 3 == 0].mean()
    assert f'class="votes" x1="{100 * votes:.1f}%"' in page
    rows = json.loads(re.search(r'id="csv">(.*?)</script>', page, re.DOTALL)[1])
    table = pd.read_csv(io.StringIO(rows), keep_default_na=False)
    assert table["labels"].tolist() == [", ".join(labels) for labels in fused.labels()["labels"]]
    # three raters, over all labels and for every one
    assert page.count("<circle") == 3 + 9
