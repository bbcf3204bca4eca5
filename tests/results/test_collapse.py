"""Labels that collapsed to one class against the votes are told of; rare classes are not."""

import warnings

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.command_line.report import report
from bayesfuse.errors import CollapseWarning, ModelError
from bayesfuse.models import DawidSkene

CROWDS = ["rte", "bluebird", "zencrowd_in", "weather_amt"]


def labelled(model, probability):
    """A result with these label probabilities, and no more."""
    responses = model.responses
    posterior = xr.Dataset(
        {"probability": (("item", "class"), np.asarray(probability, dtype=float))},
        {"item": responses.items, "class": responses.classes},
    )
    return xr.DataTree.from_dict({"label_posterior": posterior})


@pytest.fixture(scope="module")
def habits():
    """Labelling functions: each gives one label only, to some items, mostly of its class."""
    rng = np.random.default_rng(2)
    truth = np.arange(1500) % 2
    matrix = np.full((1500, 6), -1)
    for rater in range(6):
        label = rater % 2
        fires = rng.random(1500) < np.where(truth == label, 0.3, 0.1)
        matrix[fires, rater] = label
    return bf.Responses.from_matrix(matrix), truth


def test_numbers_by_hand():
    """25 items for 0, 24 for 1, two ties, one known, one nobody answered."""
    matrix = [[0, 0, -1]] * 25 + [[1, 1, 0]] * 24 + [[0, 1, -1]] * 2 + [[1, 1, 1], [-1, -1, -1]]
    responses = bf.Responses.from_matrix(matrix)
    model = DawidSkene(responses, gold={51: 1})
    all_a = np.tile([1.0, 0.0], (53, 1))
    all_a[51] = all_a[52] = [0, 1]
    found = bf.checks.collapse(labelled(model, all_a), model)
    assert found["favoured"].values.tolist() == [26, 25]
    assert found["expected"].values.tolist() == [51, 0]
    assert found["lost"].values.tolist() == [False, True]
    assert found["one_label"].values.tolist() == [False, False, False]
    assert found.attrs["collapsed"]
    assert "class 1: 0, though most responses name it for 25" in found.attrs["verdict"]
    model = DawidSkene(bf.Responses.from_counts([[0, 0], [1, 1], [0, 1]], [500, 300, 20]))
    copies = bf.checks.collapse(labelled(model, np.tile([1.0, 0.0], (3, 1))), model)
    assert copies["favoured"].values.tolist() == [510, 310]
    assert copies["lost"].values.tolist() == [False, True]
    model = DawidSkene(responses, gold={51: 1})
    for share, collapsed in ((0.03, False), (0.015, True)):  # 1.5 items of 51, and 0.8
        some = np.tile([1 - share, share], (53, 1))
        assert bf.checks.collapse(labelled(model, some), model).attrs["collapsed"] == collapsed


@pytest.mark.slow
def test_every_fit_warns_and_the_report_says_so(habits):
    responses, truth = habits
    settings = {"random_seed": 1, "progressbar": False}
    model = DawidSkene(responses)
    with pytest.warns(CollapseWarning, match=r"have collapsed.* give such a label: 3;"):
        point = bf.find_map(model)
    with pytest.raises(ModelError, match=r"same responses.* Got: a result of 1500 item names"):
        bf.checks.collapse(point, DawidSkene(responses.head(40)))
    verdict = bf.checks.collapse(point, model).attrs["verdict"]
    assert "prevalence_prior=" in verdict and "gold=" in verdict
    assert "models.LabellingFunctions" in verdict and "ItemTypes" not in verdict
    with pytest.warns(CollapseWarning) as caught:
        # one chain: others may lose the other class
        result = bf.sample(model, 20, chains=1, compute_convergence_checks=True, **settings)
    assert [w.filename for w in caught if w.category is CollapseWarning] == [__file__]
    with pytest.warns(UserWarning) as caught:
        bf.fit(model, draws=60, **settings)
    assert CollapseWarning in [w.category for w in caught]
    assert "Labels have collapsed" in report(model, result, checks=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        bf.sample(model, 20, chains=1, quiet=True, **settings)
        told = DawidSkene(responses, prevalence_prior=[750, 750])  # what the warning advises
        better = bf.find_map(told)
    assert not bf.checks.collapse(better, told).attrs["collapsed"]
    scores = [
        bf.checks.label_scores(each, dict(enumerate(truth.tolist()))) for each in (point, better)
    ]
    assert scores[0]["accuracy"] < 0.55 < 0.65 < scores[1]["accuracy"]


@pytest.mark.parametrize("prevalence", [[0.98, 0.02], [0.6, 0.38, 0.02]], ids=str)
@pytest.mark.parametrize("per_item", [2, 5])
def test_rare_classes_are_healthy(prevalence, per_item):
    """Two per cent of the items, most votes for which are mistakes; warnings are errors here."""
    settings = {"per_item": per_item, "prevalence": prevalence, "accuracy": (0.65, 0.9)}
    made = bf.datasets.simulate_dawid_skene(1500, 10, len(prevalence), random_seed=1, **settings)
    model = DawidSkene(made.responses)
    found = bf.checks.collapse(bf.find_map(model), model)
    assert not found["lost"].any() and found["favoured"][-1] > 20


@pytest.mark.parametrize("name", CROWDS)
def test_real_crowds_are_healthy(development_data, name):
    responses, _ = development_data(name)
    bf.find_map(DawidSkene(responses))  # warnings are errors here
