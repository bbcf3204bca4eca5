"""Fits with stated probabilities: what they find, predictions, values of responses."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.pymc.model import observed
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
RATERS = ["ann", "bob", "eve"]
CLASSES = ["cat", "dog", "eel"]
OWN = np.array([[0.75, 0.1, 0.15], [0.05, 0.8, 0.15], [0.2, 0.1, 0.7]])


def overconfident(n_items, seed, n_classes=3, skip=0.0):
    """Three raters who are often wrong, and a classifier that is surer than it is right."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_items)
    label = np.where(
        rng.random((n_items, 3)) < [0.6, 0.5, 0.55],
        truth[:, None],
        rng.integers(0, n_classes, (n_items, 3)),
    )
    rows = OWN[:n_classes, :n_classes] / OWN[:n_classes, :n_classes].sum(axis=1, keepdims=True)
    answer = (rows.cumsum(axis=1)[truth] < rng.random((n_items, 1))).sum(axis=1)
    gamma = rng.standard_gamma(0.15 + np.eye(n_classes)[answer])
    said = gamma / gamma.sum(axis=1, keepdims=True)
    names = CLASSES[:n_classes]
    hard = bf.Responses.from_matrix(np.array(names)[label], raters=RATERS, classes=names)
    cells = np.where(rng.random((n_items, 1)) < skip, np.nan, said)[:, None]
    soft = bf.Responses.from_probabilities(cells, raters=["net"], classes=names)
    return truth, hard.joined(soft)


@pytest.fixture(scope="module")
def fitted():
    truth, both = overconfident(120, 6, 2, skip=0.3)
    gold = {n: CLASSES[truth[n]] for n in range(10)}
    model = DawidSkene(both, gold=gold)
    return model, bf.sample(model, 250, chains=2, random_seed=1, **QUIET)


@pytest.mark.slow
def test_a_file_predicts_new_items(fitted, tmp_path):
    """Statements of new items count, whatever the order of their classes."""
    model, gibbs = fitted
    gibbs.to_netcdf(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc") as kept:
        kept = kept.load()
    whole = observed(model)[1].responses
    free = np.arange(10, whole.n_items)
    found, known = (
        bf.label_probabilities(each).values[free] for each in (bf.predict(kept, whole), gibbs)
    )
    assert np.abs(found - known).max() < 0.1 and np.abs(found - known).mean() < 0.01
    table = {"item": ["p", "q"], "rater": ["net"] * 2, "dog": [0.9, 0.3], "cat": [0.1, 0.7]}
    new = bf.predict(kept, bf.Responses.from_probabilities(table), draws=500)
    posterior = gibbs["posterior"].dataset
    rows = posterior["confusion"].sel(rater="net")
    share = posterior["prevalence"] * (0.9 * rows.sel(answer="dog") + 0.1 * rows.sel(answer="cat"))
    share = share.sum(("chain", "draw"))
    expected = share / share.sum()
    one = bf.label_probabilities(new).sel(item="p")
    assert_close(one, expected.sel({"class": one["class"]}), "new item", rtol=1e-6)
    other = bf.predict(kept, bf.Responses.from_probabilities(table | {"rater": ["new"] * 2}))
    assert other["raters"]["source"].values.tolist() == ["prior"]
    point = bf.find_map(DawidSkene(whole.without_statements()))
    with pytest.raises(ModelError, match="without_statements"):
        bf.predict(point, bf.Responses.from_probabilities(table | {"rater": ["ann"] * 2}))


@pytest.mark.slow
def test_results_of_other_statements_are_refused(fitted):
    model, gibbs = fitted
    responses = observed(model)[1].responses
    flipped = bf.Responses.from_probabilities(
        {"item": [50], "rater": ["net"], "cat": [0.5], "dog": [0.5]}
    )
    with pytest.raises(ModelError, match="responses"):
        bf.label_probabilities(gibbs, DawidSkene(responses.joined(flipped)))


def test_the_value_of_a_response_knows_statements():
    """A sure statement leaves less to learn than an even one."""
    hard = bf.Responses.from_matrix([["cat", "dog", None]] * 2, raters=RATERS, classes=CLASSES[:2])
    table = {"item": [0, 1], "rater": ["net"] * 2, "cat": [0.5, 1.0], "dog": [0.5, 0.0]}
    responses = hard.joined(bf.Responses.from_probabilities(table))
    prior = np.array([[90.0, 10.0], [10.0, 90.0]])
    model = DawidSkene(responses, confusion_prior=prior)
    result = bf.find_map(model)
    value = bf.decisions.value_of_response(result, model, raters=["eve"], of="entropy")
    value = value["value"].values[:, 0]
    assert value[0] > 2 * value[1] > 0
