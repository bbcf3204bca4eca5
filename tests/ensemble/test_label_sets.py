"""``bf.fuse`` of label sets: sets, raters by label and over all, and wrong uses."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf


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


def test_raters_are_judged_by_label_and_over_all(fused):
    table, by_label = fused.raters(), fused.raters(by="label")
    assert table["rater"].tolist() == ["a", "b", "c"] and (table["responses"] == 180).all()
    assert by_label["group"].unique().tolist() == ["x", "y", "z"] and len(by_label) == 9
    mean = by_label.groupby("rater")["accuracy"].mean()
    assert np.allclose(table.set_index("rater")["accuracy"], mean)
    assert bf.rater_table(fused).equals(table)
    assert (table["low"] < table["accuracy"]).all() and (table["accuracy"] < table["high"]).all()


def test_answer_is_stored_and_loaded(fused, tmp_path):
    fused.to_netcdf(tmp_path / "sets.nc")
    loaded = bf.load(tmp_path / "sets.nc")
    assert loaded.overview() == fused.overview()
    assert loaded.labels().equals(fused.labels())
    assert "whole sets are expected to be right" in loaded.headline


def test_what_label_sets_do_not_take_is_refused(fused, dependent):
    with pytest.raises(bf.errors.ModelError, match="gold="):
        bf.fuse(dependent[0], gold={1: "x"}, progressbar=False)
    with pytest.raises(bf.errors.ModelError, match="not predicted"):
        bf.predict(fused, dependent[0].questions)
    with pytest.raises(bf.errors.ModelError, match='by="label"'):
        fused.raters(by="item")
    with pytest.raises(bf.errors.ModelError, match="no page"):
        fused.report("page.html")
