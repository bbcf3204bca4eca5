"""Published numbers: the R package rater on the anesthesia data, with the same priors."""

import arviz as az
import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.models import DawidSkene

# rater's own draws are printed to two or three digits and carry its Monte Carlo error; three
# prints of its prevalence differ by up to .0035.
PRINTED = 0.005

CONFUSION = bf.priors.diagonal(4, weight=8, accuracy=0.6)
QUIET = {"progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def anesthesia():
    """Draws whose Monte Carlo error is a third of what is printed, or less."""
    data = bf.datasets.anesthesia()
    model = DawidSkene(data, prevalence_prior=3, confusion_prior=CONFUSION)
    return bf.sample(model, 2000, sweeps=1, random_seed=1, **QUIET)


def interval(draws, mass):
    tail = (1 - mass) / 2
    return draws.quantile([tail, 1 - tail], ("chain", "draw")).values


def test_prevalence(anesthesia):
    prevalence = anesthesia["posterior"]["prevalence"]
    mean = prevalence.mean(("chain", "draw")).values
    assert np.abs(mean - [0.3758, 0.4075, 0.1428, 0.0745]).max() < PRINTED
    published = [(0.282, 0.480), (0.296, 0.518), (0.072, 0.232), (0.027, 0.138)]
    for k, ends in enumerate(published):
        # ends of 90 % intervals have about twice the Monte Carlo error of means
        assert np.abs(interval(prevalence.isel({"class": k}), 0.9) - ends).max() < 2 * PRINTED


def test_confusion_of_the_first_rater(anesthesia):
    confusion = anesthesia["posterior"]["confusion"].sel(rater=1)
    mean = confusion.mean(("chain", "draw")).values
    assert np.abs(mean[0] - [0.86, 0.10, 0.02, 0.02]).max() < 0.005 + PRINTED
    published = {
        (0, 0): (0.803, 0.916),
        (0, 1): (0.054, 0.154),
        (1, 0): (0.025, 0.107),
        (1, 1): (0.794, 0.907),
    }
    for (k, c), ends in published.items():
        found = interval(confusion.isel({"class": k, "answer": c}), 0.8)
        assert np.abs(found - ends).max() < 2 * PRINTED, (k, c, found)


def test_label_posteriors_and_labels(anesthesia):
    probability = bf.label_probabilities(anesthesia)
    assert probability.sel(item=2)[2] == pytest.approx(0.977, abs=2 * PRINTED)
    assert probability.sel(item=3)[0] == pytest.approx(0.398, abs=4 * PRINTED)
    assert probability.sel(item=3)[1] == pytest.approx(0.601, abs=4 * PRINTED)
    assert probability.sel(item=4)[1] == pytest.approx(0.992, abs=PRINTED)
    published = (
        "1 3 2 2 2 2 1 3 2 2 4 2 1 2 1 1 1 1 2 2 2 2 2 2 1 1 2 1 1 1 1 3 1 2 2 3 2 2 3 1 1 1 2 1 2"
    ).replace(" ", "")
    found = probability["class"].values[probability.argmax("class")]
    assert "".join(str(label) for label in found) == published


@pytest.mark.slow
def test_loo_and_comparison(anesthesia):
    """Dawid-Skene −234.1 (17.0), p 20.2; class-conditional −245.8 (18.1), p 10.4; −11.7 (3.2)."""
    by_class = DawidSkene(
        bf.datasets.anesthesia(), prevalence_prior=3, confusion_prior=[4.8, 3.2], raters="class"
    )
    other = bf.sample(by_class, 5000, random_seed=2, **QUIET)
    full, tied = az.loo(anesthesia), az.loo(other)
    # rater's come from 4,000 draws: fits of ours of that length scatter by .2 around the long one
    assert full.elpd == pytest.approx(-234.1, abs=0.6)
    assert full.se == pytest.approx(17.0, abs=0.2)
    assert full.p == pytest.approx(20.2, abs=0.8)
    assert tied.elpd == pytest.approx(-245.8, abs=0.6)
    assert tied.se == pytest.approx(18.1, abs=0.2)
    assert tied.p == pytest.approx(10.4, abs=0.8)
    table = az.compare({"confusion": anesthesia, "class-conditional": other}, round_to="none")
    assert list(table.index) == ["confusion", "class-conditional"]
    assert abs(table["elpd_diff"]["class-conditional"]) == pytest.approx(11.7, abs=0.6)
    assert table["dse"]["class-conditional"] == pytest.approx(3.2, abs=0.2)
