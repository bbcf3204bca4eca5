"""Chains of Gibbs steps begin where PyMC would put them, without what it compiles for that."""

from __future__ import annotations

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.inference.chains import as_begun, begin, initial_values
from bayesfuse.inference.gibbs import LabelGibbs
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup

RESPONSES = bf.datasets.simulate_dawid_skene(30, 5, 3, random_seed=2).responses
TWO = bf.datasets.simulate_dawid_skene(30, 5, 2, random_seed=3).responses
MODELS = {
    "rows": lambda: DawidSkene(RESPONSES),
    "zeros": lambda: HiddenMarkov(
        RESPONSES,
        bf.Sequences.from_lengths([10] * 3),
        transition_prior=np.array([[2.0, 1, 0], [1, 2, 1], [1, 1, 2]]),
    ),
    "numbers": lambda: DawidSkene(TWO, raters="coin"),
    "groups": lambda: LatentGroup(TWO, groups="posterior"),
}


@pytest.mark.parametrize("name", MODELS)
def test_first_points_are_those_of_pymc(name):
    model = MODELS[name]()
    plan = make_plan(model)
    streams = np.random.default_rng(1).spawn(2)
    step = LabelGibbs(model=model, plan=plan)
    for values in initial_values(plan, None, begin(plan, None, "majority"), streams):
        own = as_begun(model, step.blocks)._make_initial_point(overrides=values)(0)
        theirs = model._make_initial_point(overrides=values)(0)
        assert list(own) == list(theirs)
        for value, point in theirs.items():
            np.testing.assert_allclose(own[value], point, rtol=1e-9, atol=1e-12, err_msg=value)


def test_no_density_is_derived_for_gibbs_alone(monkeypatch):
    def derive(*args, **kwargs):
        raise AssertionError("the density was derived")

    model = DawidSkene(TWO)
    monkeypatch.setattr(type(model), "logp", derive)
    settings = {"draws": 3, "tune": 2, "chains": 2, "progressbar": False, "quiet": True}
    bf.sample(model, **settings)
    with pytest.raises(AssertionError, match="was derived"):
        bf.sample(model, sampler="nuts", nuts_sampler="pymc", **settings)


def test_a_start_may_give_some_of_the_variables():
    start = {"confusion": np.tile([[0.9, 0.1], [0.2, 0.8]], (5, 1, 1))}
    settings = {"tune": 2, "chains": 1, "progressbar": False, "quiet": True, "random_seed": 1}
    result = bf.sample(DawidSkene(TWO), 3, start=start, **settings)
    assert result.attrs["start"] == "given"
    assert np.isfinite(result["posterior"]["prevalence"]).all()
