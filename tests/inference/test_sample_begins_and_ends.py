"""Where chains begin, whatever the sampler, and what an interrupted end leaves."""

from __future__ import annotations

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import IncompleteWarning, ModelError
from bayesfuse.inference import sample as sampling
from bayesfuse.models import DawidSkene
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True}


@pytest.mark.slow
def test_nutpie_begins_every_chain_elsewhere(small_model, monkeypatch):
    nutpie = pytest.importorskip("nutpie")
    compiled, points = [], []
    sample = nutpie.sample
    monkeypatch.setattr(nutpie, "sample", lambda m, **kw: compiled.append(m) or sample(m, **kw))
    settings = {"sampler": "nuts", "nuts_sampler": "nutpie", "random_seed": 1}
    bf.sample(small_model, 5, tune=5, chains=2, **settings, **QUIET)
    points = [compiled[0].initial_point_func(seed) for seed in (1, 2, 3, 1)]
    assert (points[0] == points[3]).all()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (points[one] != points[other]).all()


@pytest.mark.slow
def test_numpyro_begins_every_chain_elsewhere(small_model, monkeypatch):
    pytest.importorskip("numpyro")
    import pymc.sampling.jax as pymc_jax

    begun = []
    points = pymc_jax._get_batched_jittered_initial_points
    monkeypatch.setattr(
        pymc_jax,
        "_get_batched_jittered_initial_points",
        lambda **kw: begun.append(points(**kw)) or begun[-1],
    )
    settings = {"sampler": "nuts", "nuts_sampler": "numpyro", "random_seed": 1}
    bf.sample(small_model, 5, tune=5, chains=2, **settings, **QUIET)
    assert all((value[0] != value[1]).all() for value in begun[0])


def test_numbers_of_numpy_are_numbers(small_model):
    counts = {"draws": np.int64(5), "tune": np.uint8(2), "chains": np.int32(2)}
    result = bf.sample(small_model, **counts, cores=np.int64(1), random_seed=np.int64(3), **QUIET)
    assert dict(result["posterior"].sizes)["draw"] == 5


@pytest.mark.parametrize("step", ["add_deterministics", "evaluate", "complete"])
def test_an_interrupted_end_keeps_the_draws(small_model, monkeypatch, step):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, step, interrupt)
    with pytest.warns(IncompleteWarning, match="label_posterior"):
        result = bf.sample(small_model, 20, tune=5, chains=2, random_seed=1, **QUIET)
    whole = {"confusion", "prevalence"}
    assert whole <= set(result["posterior"].data_vars)
    assert dict(result["posterior"].sizes)["draw"] == 20
    assert "label_posterior" in result.attrs["missing"]
    assert ("sensitivity" in result.attrs["missing"]) == (step == "add_deterministics")
    assert result.attrs["sampler"] == "gibbs"
    frame = observed(small_model)[1].responses.to_frame()
    frame["label"] = (frame["label"] + frame["item"] % 2) % 3
    names = {"items": range(62), "raters": range(6), "classes": range(3)}
    responses = bf.Responses.from_long(frame, **names)
    other = DawidSkene(responses, prevalence_prior=[1.0, 2.0, 3.0], gold={0: 1, 61: 2})
    with pytest.raises(ModelError, match="Got: a result of other responses"):
        bf.label_probabilities(result, other)
    assert bf.label_probabilities(result, small_model).shape == (62, 3)
