"""Models of item types with Dirichlet priors of one's own: samplers against enumeration."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from typed_crowds import posterior_means, random_crowd, summed

import bayesfuse as bf
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_close, assert_frequencies, assert_within_mcse

QUIET = {"progressbar": False, "quiet": True}
PRIORS = {
    "prevalence": np.array([3.0, 1.5]),
    "share": np.array([[4.0, 1.0, 2.0], [0.7, 2.0, 1.0]]),
    "type_confusion": np.array(
        [[[5.0, 1.0], [1.0, 3.0], [1.0, 1.0]], [[2.0, 1.0], [0.5, 2.0], [2.0, 2.0]]]
    ),
}
"""Two raters, three types, two classes."""

GOLD = {1: 1}


def table():
    """Four items, of which one has no answer, one a missing and one a repeated one."""
    item, rater, label = [0, 0, 1, 1, 1, 2, 0], [0, 1, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1]
    columns = {"item": item, "rater": rater, "label": label}
    return bf.Responses.from_long(columns, items=range(4), raters=range(2), classes=range(2))


def build(responses, gold=None):
    with pm.Model() as model:
        rows = {name: pm.Dirichlet(name, alpha) for name, alpha in PRIORS.items()}
        labels = bf.Independent(rows["prevalence"])
        channel = bf.TypedConfusion(rows["share"], rows["type_confusion"])
        bf.observe(responses, labels=labels, raters=channel, gold=gold)
    return model


def assert_exact(result):
    """Fail unless means are those by enumeration, within five Monte Carlo errors."""
    exact = posterior_means(table(), PRIORS, GOLD)
    posterior = result["posterior"].dataset
    for name in PRIORS:
        error = az.mcse(posterior[[name]])[name].values
        gap = posterior[name].mean(("chain", "draw")).values - exact[name]
        assert (np.abs(gap) <= 5 * error + 1e-12).all(), (name, gap / error)
    found = result["label_posterior"].dataset
    gap = found["probability"].values - exact["labels"]
    assert (np.abs(gap) <= 5 * found["mcse"].values + 1e-9).all(), gap


@pytest.fixture(scope="module")
def fitted():
    model = build(table(), GOLD)
    return model, bf.sample(model, 5000, chains=2, sweeps=1, random_seed=1, **QUIET)


def test_gibbs_has_the_means_by_enumeration(fitted):
    _, result = fitted
    assert result.attrs["sampler"] == "gibbs"
    assert_exact(result)


@pytest.mark.slow
def test_nuts_has_them_too():
    settings = {"chains": 1, "random_seed": 2, "nuts_sampler": "pymc", "target_accept": 0.95}
    result = bf.sample(build(table(), GOLD), 3000, sampler="nuts", **settings, **QUIET)
    assert_exact(result)


def test_log_likelihoods_by_item_are_summed_over_types(fitted):
    """At some of the draws, in NumPy; they are what ``az.loo`` takes."""
    _, result = fitted
    posterior = result["posterior"].dataset
    found = result["log_likelihood"]["responses"]
    assert found.dims == ("chain", "draw", "item")
    for chain, draw in [(0, 0), (1, 17), (1, 4999)]:
        at = posterior.isel(chain=chain, draw=draw)
        with np.errstate(divide="ignore"):
            own = np.log(at["prevalence"].values)
        joint = own + summed(at["share"].values, at["type_confusion"].values, table(), GOLD)
        expected = logsumexp(joint, axis=1)
        assert_close(found.values[chain, draw], expected, "log likelihood", rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_leave_one_out_by_item(fitted):
    _, result = fitted
    left_out = az.loo(result, pointwise=True)
    by_item = left_out.elpd_i.values
    logs = result["log_likelihood"]["responses"].values.reshape(-1, 4)
    harmonic = np.log(len(logs)) - logsumexp(-logs, axis=0)
    assert by_item.shape == (4,)
    # four items say little about each other, so plain importance weights are good enough
    assert_close(by_item, harmonic, "leave-one-out", rtol=0, atol=0.1)


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_predictive_draws_are_of_the_answers_to_come():
    """At fixed parameters: joint frequencies of the two answers to an item, which has a type."""
    share = np.array([[0.7, 0.1, 0.2], [0.05, 0.6, 0.35]])
    confusion = np.array(
        [[[0.95, 0.05], [0.1, 0.9], [0.5, 0.5]], [[0.8, 0.2], [0.3, 0.7], [0.9, 0.1]]]
    )
    responses = bf.Responses.from_matrix(np.zeros((2000, 2), dtype=int), classes=[0, 1])
    with pm.Model():
        channel = bf.TypedConfusion(share, confusion)
        answers = bf.observe(responses, labels=bf.Independent([0.6, 0.4]), raters=channel)
        drawn = pm.draw(answers, draws=5, random_seed=1).reshape(-1, 2)
    joint = np.einsum("k,kz,za,zb->ab", [0.6, 0.4], share, *confusion)
    seen = np.bincount(2 * drawn[:, 0] + drawn[:, 1], minlength=4).astype(float)
    assert_frequencies(seen, joint.ravel(), "answers")


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_predictive_draws_and_files(fitted, tmp_path):
    model, result = fitted
    with model:
        drawn = pm.sample_posterior_predictive(
            result.isel(draw=slice(None, None, 500)), progressbar=False, random_seed=1
        )
    label = drawn["posterior_predictive"]["responses"]
    assert label.shape == (2, 10, 7) and set(np.unique(label)) == {0, 1}
    path = tmp_path / "types.nc"
    result.to_netcdf(path)
    read = az.from_netcdf(path)
    for group in ("posterior", "label_posterior", "log_likelihood"):
        for name, values in result[group].dataset.items():
            np.testing.assert_array_equal(read[group][name].values, values.values)
    assert read.attrs == result.attrs


def of_one_type(responses, prior, gold):
    """Dawid and Skene's model as types of which every class has one of its own."""
    size = responses.n_raters
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 2.0, 3.0])
        confusion = pm.Dirichlet("confusion", np.tile(prior, (size, 1, 1)))
        channel = bf.TypedConfusion(np.eye(3), confusion)
        bf.observe(responses, labels=bf.Independent(prevalence), raters=channel, gold=gold)
    return model


@pytest.mark.slow
def test_a_type_per_class_is_dawid_and_skene():
    """Modes to rounding, posteriors within Monte Carlo error."""
    made = bf.datasets.simulate_dawid_skene(60, 5, 3, per_item=3, random_seed=5)
    prior, gold = bf.priors.diagonal(3), {0: 1, 7: 2}
    typed = of_one_type(made.responses, prior, gold)
    plain = DawidSkene(
        made.responses, prevalence_prior=[1.0, 2.0, 3.0], confusion_prior=prior, gold=gold
    )
    results = [
        bf.sample(model, 1500, chains=2, sweeps=2, random_seed=seed, **QUIET)
        for seed, model in enumerate((typed, plain))
    ]
    assert_within_mcse(
        *(result["posterior"].dataset for result in results), ["prevalence", "confusion"]
    )
    one, other = (result["label_posterior"].dataset for result in results)
    allowed = 5 * np.hypot(one["mcse"].values, other["mcse"].values) + 1e-9
    assert (np.abs(one["probability"].values - other["probability"].values) <= allowed).all()
    modes = [bf.find_map(model, tolerance=1e-12) for model in (typed, plain)]
    for name in ("prevalence", "confusion"):
        values = [mode["point"][name].values for mode in modes]
        assert_close(*values, name, rtol=1e-4, atol=1e-5)


def test_em_climbs_to_a_mode():
    """Steps from the mode found lower the density, in the prevalence, the shares and the rows."""
    responses = random_crowd(60, 2, 2, seed=5)
    responses = responses.take(np.arange(60))
    alpha = {name: 1.0 + prior for name, prior in PRIORS.items()}
    alpha["type_confusion"] = np.concatenate([alpha["type_confusion"], np.full((1, 3, 2), 2.0)])
    with pm.Model() as model:
        rows = {name: pm.Dirichlet(name, each) for name, each in alpha.items()}
        channel = bf.TypedConfusion(rows["share"], rows["type_confusion"])
        bf.observe(responses, labels=bf.Independent(rows["prevalence"]), raters=channel)
    point = bf.find_map(model, tolerance=1e-13)
    assert point.attrs["converged"]
    logp = model.compile_logp(jacobian=False)

    def density(values):
        inside = {
            model.rvs_to_values[v].name: model.rvs_to_transforms[v].forward(values[v.name]).eval()
            for v in model.free_RVs
        }
        return logp(inside)

    at = {name: point["point"][name].values for name in alpha}
    best, rng = density(at), np.random.default_rng(1)
    for name, value in at.items():
        for _ in range(5):
            near = value * np.exp(0.02 * rng.standard_normal(value.shape))
            near /= near.sum(axis=-1, keepdims=True)
            assert density({**at, name: near}) < best + 1e-7, name
