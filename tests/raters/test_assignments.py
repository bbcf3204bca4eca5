"""Groups whose raters are known: the channel of inferred groups at a fixed assignment."""

from __future__ import annotations

import importlib.util

import numpy as np
import pymc as pm
import pytest
from grouped_crowds import grouped

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import LatentGroup
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


def own_model(responses, assignment):
    n_raters = responses.n_raters
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(2))
        outer = pm.Dirichlet("outer", np.tile(bf.priors.diagonal(2), (1, 1, 1)))
        inner = pm.Dirichlet("inner", np.tile(bf.priors.diagonal(2), (n_raters, 1, 1)))
        channel = bf.InferredGroups(outer, inner, assignment)
        bf.observe(responses, labels=bf.Independent(prevalence), raters=channel)
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")  # a fit on purpose poor
def test_an_assignment_that_is_known_gives_the_results_of_known_groups():
    responses, _ = grouped(np.random.default_rng(2), 100, 5, 3)
    assignment = [0, 0, 0, -1, -1]
    own, known = own_model(responses, assignment), LatentGroup(responses, [[0, 1, 2]])
    for use in (
        bf.find_map,
        lambda model: bf.fit(model, draws=20, sweeps=1, random_seed=1, progressbar=False),
    ):
        one, other = (bf.label_probabilities(use(model)) for model in (own, known))
        assert_close(one.values, other.values, "labels", rtol=1e-9, atol=1e-9)
    one, other = (
        bf.sample(model, 2000, chains=2, random_seed=1, **QUIET)["label_posterior"]
        for model in (own, known)
    )
    error = np.hypot(one["mcse"], other["mcse"])
    assert (np.abs(one["probability"] - other["probability"]) < 5 * error).all()


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ([0, 0, 70_000_000, -1, -1], "-1 to 70000000 and 1 groups"),
        ([0, 0, -2, -1, -1], "-2 to 0"),
        ([0, 0, 0.5, -1, -1], "whole number"),
    ],
)
def test_known_assignments_must_be_of_groups_there_are(assignment, told):
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    with pytest.raises(ModelError, match=told):
        own_model(responses, assignment)


def test_assignments_to_groups_that_do_not_exist_are_impossible():
    """As steps propose that know nothing of groups."""
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int))
    rows = [np.log(np.full((n, 2, 2), 0.5)) for n in (1, 5)]
    channel = bf.InferredGroups(None, None, np.full(5, -1))
    structure = channel.structure(responses, np.full(5, -1))
    for wrong in (np.array([0, 0, 1, -1, -1]), np.array([0, 0, -2, -1, 7_000_000])):
        likelihood, log_scale = channel.likelihood_kernel(*rows, wrong, *structure)
        assert not likelihood.any() and np.isfinite(log_scale).all()
        counts = channel.expected_kernel(*rows, np.ones((5, 2)), wrong, *structure)
        assert not any(each.any() for each in counts)
        if importlib.util.find_spec("jax"):
            assert (np.asarray(channel.log_lik_jax(*rows, wrong, *structure)) == -np.inf).all()
