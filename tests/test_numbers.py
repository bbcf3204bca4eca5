"""Probabilities, weights and starts that are none are refused, by one rule each, everywhere."""

from __future__ import annotations

import inspect
import math

import arviz as az
import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.command_line.report import report
from bayesfuse.errors import ModelError
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True}
TRUTH = {n: n % 2 for n in range(20)}


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(1)
    truth = np.arange(20) % 2
    right = rng.random((20, 4)) < 0.8
    responses = bf.Responses.from_matrix(np.where(right, truth[:, None], 1 - truth[:, None]))
    model = LatentGroup(responses, groups=[[0, 1]])
    return model, bf.sample(model, 20, chains=2, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def typed():
    model = ItemTypes(bf.Responses.from_matrix(np.arange(80).reshape(20, 4) % 3 % 2), types=2)
    return model, bf.sample(model, 20, tune=5, chains=2, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def graded(fitted):
    model = DawidSkene(fitted[0].responses, raters="graded")
    return model, bf.sample(model, 20, tune=5, chains=2, random_seed=1, **QUIET)


@pytest.fixture(scope="module")
def voted(fitted):
    model = LabellingFunctions(fitted[0].responses)
    return model, bf.sample(model, 20, tune=5, chains=2, random_seed=1, **QUIET)


OF_MODEL = {
    "difficulty": "typed",
    "plot_hard_items": "typed",
    "plot_graders": "graded",
    "sources": "voted",
}


def public():
    """Every public function that takes ci_prob, by its name."""
    found = {}
    for module in (bf, bf.checks, bf.decisions, bf.plots):
        for name in dir(module):
            function = getattr(module, name)
            if inspect.isfunction(function) and "ci_prob" in inspect.signature(function).parameters:
                found[name] = function
    return found


def call(function, model, result, **given):
    """Call a function with what its parameters' names ask for."""
    ready = {
        "result": result,
        "results": {"one": result},
        "labels": result,
        "truth": TRUTH,
        "model": model,
        "given": model,
        "sequences": bf.Sequences.from_lengths([20]),
        "graph": bf.Graph.from_edges([(n, n + 1) for n in range(19)]),
        "draws": 5,
        "responses": observed(model)[1].responses,
    }
    if "responses" in inspect.signature(function).parameters:  # whose items stand alone here
        del ready["sequences"]
    wanted = inspect.signature(function).parameters
    return function(**{name: ready[name] for name in wanted if name in ready}, **given)


def test_what_takes_the_probability_of_an_interval_is_known():
    assert {"runs", "group_summary", "calibration", "rank_raters", "plot_raters"} <= set(public())


@pytest.mark.parametrize("name", public())
def test_probabilities_of_intervals(name, request):
    function = public()[name]
    fitted = request.getfixturevalue(OF_MODEL.get(name, "fitted"))
    for wrong in (90, 1, 0, -0.5, math.nan, math.inf, "0.9", True, [0.5]):
        with pytest.raises(ModelError, match=r"ci_prob must be a probability strictly between"):
            call(function, *fitted, ci_prob=wrong)
    call(function, *fitted, ci_prob=np.float32(0.5))
    assert inspect.signature(function).parameters["ci_prob"].default is None


def test_intervals_of_the_report_have_the_probability_it_names(fitted):
    model, result = fitted
    for probability in (0.5, 0.8):
        with az.rc_context({"stats.ci_prob": probability}):
            said = report(model, result, checks=False)
            own = bf.checks.group_summary(result)
        assert f"with {probability:.0%} intervals" in said
        at = bf.checks.group_summary(result, ci_prob=probability)
        assert (own["low"][0], own["high"][0]) == (at["low"][0], at["high"][0])
        assert f"({own['low'][0]:.2f}–{own['high'][0]:.2f})" in said


@pytest.mark.parametrize("wrong", [math.inf, -1.0, math.nan, None, "1"])
def test_weights_of_averages(fitted, wrong):
    _, result = fitted
    with pytest.raises(ModelError, match="weights must be finite and not negative"):
        bf.average({"a": result, "b": result}, weights={"a": 1.0, "b": wrong})
    with pytest.raises(ModelError, match="not all zero"):
        bf.average({"a": result, "b": result}, weights={"a": 0.0, "b": 0})


def test_weights_are_scaled_without_overflow(fitted):
    _, result = fitted
    both = bf.average({"a": result, "b": result}, weights={"b": 1e308, "a": 1.5e308})
    assert both.attrs["weights"] == pytest.approx([0.6, 0.4])


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "2"])
def test_numbers_of_priors(wrong):
    for function in (bf.priors.diagonal, bf.priors.robust):
        with pytest.raises(ModelError, match="weight must be a positive, finite number"):
            function(3, weight=wrong)
        with pytest.raises(ModelError, match="accuracy must be a probability"):
            function(3, accuracy=wrong)
    with pytest.raises(ModelError, match="share must be a probability"):
        bf.priors.robust(3, share=wrong)
    with pytest.raises(ModelError, match="weight must be a positive"):
        bf.bio_transitions(["O", "B-X"], weight=wrong)
    responses = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]])
    with pytest.raises(ModelError, match="share_prior must be a probability"):
        LatentGroup(responses, groups="posterior", share_prior=wrong)
    with pytest.raises(ModelError, match="coupling_scale must be a positive"):
        MarkovRandomField(responses, bf.Graph.from_edges([(0, 1)]), coupling_scale=wrong)


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf])
def test_concentrations_of_priors(wrong):
    responses = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]])
    for name in ("prevalence_prior", "confusion_prior"):
        value = wrong if name == "prevalence_prior" else np.full((2, 2), float(wrong))
        with pytest.raises(ModelError, match=f"{name} must be positive and finite"):
            DawidSkene(responses, **{name: value})
    if wrong != 0:  # zeros rule transitions out
        with pytest.raises(ModelError, match="transition_prior must be positive and finite"):
            HiddenMarkov(responses, bf.Sequences.from_lengths([2]), transition_prior=wrong)


@pytest.mark.parametrize("wrong", [[math.nan, 0.5], [math.inf, 0.5], [-0.5, 1.5], [0.5, 0.7]])
def test_starts(wrong):
    model = DawidSkene(bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]]))
    with pytest.raises(ModelError, match=r"Got: .*0\.5|Got: .*0\.7"):
        bf.sample(model, 5, start={"prevalence": wrong}, **QUIET)


def test_starts_of_couplings():
    responses = bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]])
    model = MarkovRandomField(responses, bf.Graph.from_edges([(0, 1)]))
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ModelError, match=r"coupling|start must be finite"):
            bf.sample(model, 5, start={"coupling": wrong}, **QUIET)


def test_simulated_tables():
    for given in (
        {"prevalence": [0.5, 0.6]},
        {"prevalence": [math.nan, 1.0]},
        {"confusion": np.full((3, 2, 2), 0.6)},
        {"accuracy": (0.5, 1.5)},
        {"accuracy": (math.nan, 0.5)},
    ):
        with pytest.raises(ModelError, match="must hold"):
            bf.datasets.simulate_dawid_skene(10, 3, 2, **given)
    for degree in (math.nan, math.inf, -1):
        with pytest.raises(ModelError, match="degree must be"):
            bf.datasets.simulate_blocks(10, 3, 2, degree=degree)
