"""Grades of items, and the bias of raters, against their definitions."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene

QUIET = {"draws": 20, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}


def table(classes, ordered=None):
    rng = np.random.default_rng(1)
    names = np.array(classes)[rng.integers(0, 3, (20, 4))]
    return bf.Responses.from_matrix(names, classes=classes, ordered=ordered)


def test_grades_of_known_probabilities():
    share = [[0.5, 0.5, 0.0], [0.04, 0.95, 0.01], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]
    labels = xr.DataArray(
        share, dims=("item", "class"), coords={"item": list("abcd"), "class": [10, 20, 40]}
    )
    found = bf.grades(labels, ci_prob=0.8)
    assert found["mean"].values == pytest.approx([15, 19.8, 33, 40])
    assert found["sd"].values[0] == pytest.approx(5)
    assert found["median"].values.tolist() == [10, 20, 40, 40]
    assert found["low"].values.tolist() == [10, 20, 10, 40]
    assert found["high"].values.tolist() == [20, 20, 40, 40]


def test_bias_is_the_mean_of_given_minus_true_grades():
    words = ["low", "middle", "high"]
    result = bf.sample(DawidSkene(table(words, ordered=True)), **QUIET)
    found = bf.rater_grades(result)
    share = bf.label_probabilities(result).values.mean(axis=0)
    rows = result["posterior"]["confusion"].mean(("chain", "draw")).values
    gap = np.arange(3) - np.arange(3)[:, None]
    assert found["bias"].values == pytest.approx(np.einsum("k,mkc,kc->m", share, rows, gap))
    error = np.einsum("k,mkc,kc->m", share, rows, np.abs(gap))
    assert found["error"].values == pytest.approx(error)
    assert (found["bias_low"] < found["bias"]).all() and (found["bias"] < found["bias_high"]).all()
    assert "precision" not in found
    with pytest.raises(ModelError, match=r'raters="graded".* Got: '):
        bf.plots.plot_graders(result)


def test_classes_without_an_order_are_refused():
    result = bf.sample(DawidSkene(table(["low", "middle", "high"])), **QUIET)
    for function in (bf.grades, bf.rater_grades):
        with pytest.raises(ModelError, match=r"need ordered classes.* Got: "):
            function(result)
