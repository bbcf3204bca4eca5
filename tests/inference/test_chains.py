"""Chains: the same seed gives the same draws in any process, labels next to other steps."""

import itertools

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from conjugate_models import MODELS
from scipy import special, stats
from squares import square_of_pixels

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference import chains
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, LatentGroup, MarkovRandomField
from bayesfuse.numerics import rows
from bayesfuse.numerics.kernels import kernel

QUIET = {"progressbar": False, "quiet": True}

ALL = MODELS | {
    "posterior": lambda r: LatentGroup(r, "posterior"),
    "mixture": lambda r: MODELS["confusion"](r, confusion_prior=bf.priors.robust(3)),
    "path": lambda r: MarkovRandomField(r, bf.Graph.grid((r.n_items,), items=r.items)),
    "circles": lambda r: MarkovRandomField(r, bf.Graph.grid((2, r.n_items // 2), items=r.items)),
}


@pytest.mark.parametrize("name", ALL)
def test_steps_accept_copies_of_points(small, name):
    """PyMC keeps it in shared memory where chains have processes of their own."""
    model = ALL[name](small)
    found = []
    for copied in (False, True):
        step, point = bf.build.LabelGibbs(model=model, rng=1), model.initial_point()
        step.setup_chain(np.random.default_rng(3), 10, 30)
        for _ in range(40):
            point, _ = step.step(point)
            if copied:
                point = {key: np.array(value) for key, value in point.items()}
        found.append(point)
    for key, value in found[0].items():
        assert (value == found[1][key]).all(), key


@pytest.mark.parametrize("name", ["rows", "groups", "square"])
def test_draws_do_not_depend_on_the_number_of_cores(small, small_model, name):
    """Labels on a graph go from one draw to the next."""
    model = {
        "rows": lambda: small_model,
        "groups": lambda: LatentGroup(small, groups=[[0, 1, 2], [3, 4]]),
        "square": lambda: square_of_pixels()[0],
    }[name]()
    settings = {"tune": 10, "chains": 3, "random_seed": 7} | QUIET
    one, other = (bf.sample(model, 30, cores=cores, **settings) for cores in (1, 2))
    for group in ("posterior", "label_posterior", "label_draws"):
        if group in one.children:
            xr.testing.assert_equal(one[group].dataset, other[group].dataset)


@pytest.mark.parametrize("backend", ["compiled", "interpreted"])
def test_both_backends_draw_from_the_posterior(backend):
    """Posterior means of all parameters, by enumeration of the labels."""
    answers = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]])
    shares = np.array([1.0, 2.0])
    confusion = np.array([[[3.0, 1.0], [1.5, 4.0]], [[2.0, 2.0], [1.0, 2.0]], [[4.0, 2.0]] * 2])
    labels = np.eye(2)[np.array(list(itertools.product((0, 1), repeat=6)))]
    priors = {
        "prevalence": shares + labels.sum(axis=1),
        "confusion": confusion + np.einsum("snk,nrc->srkc", labels, np.eye(2)[answers]),
    }
    log_beta = {
        n: special.gammaln(a).sum(axis=-1) - special.gammaln(a.sum(axis=-1))
        for n, a in priors.items()
    }
    weight = special.softmax(log_beta["prevalence"] + log_beta["confusion"].sum(axis=(1, 2)))
    model = DawidSkene(
        bf.Responses.from_matrix(answers), prevalence_prior=shares, confusion_prior=confusion
    )
    plan = make_plan(model)
    sweep, start = Sweep.of(plan), {n: p.centre() for n, p in plan.priors().items()}
    sizes = {"tune": 50, "draws": 6000 if backend == "compiled" else 2000, "sweeps": 3}
    chain = chains.Chain(
        sweep, sweep.init(start), np.random.default_rng(1), compiled=backend == "compiled", **sizes
    )
    chains.run([chain], 1, lambda made: None)
    assert chain.complete and chain.backend.state.rotates
    for name, alpha in priors.items():
        exact = np.tensordot(weight, alpha / alpha.sum(axis=-1, keepdims=True), axes=1)
        batches = np.exp(chain.stored[name]).reshape(20, -1, *exact.shape).mean(axis=1)
        error = batches.std(axis=0) / np.sqrt(len(batches))
        assert (np.abs(batches.mean(axis=0) - exact) < 5 * error).all(), name
        assert error.max() < 0.02


@kernel
def split(number, weight, total, rng):
    parts = np.full(weight.size, np.nan)
    rows.split(number, weight, total, rng, parts)
    return parts


@pytest.mark.parametrize("number", [1.0, 7.0])
def test_the_number_of_random_numbers_of_a_split_does_not_depend_on_rounding(number):
    weight = np.array([0.3, 0.0, 0.7, 0.0])
    after = set()
    for total in (np.nextafter(1.0, 0.0), 1.0, np.nextafter(1.0, 2.0), 0.7):
        rng = np.random.default_rng(4)
        parts = split(number, weight, total, rng)
        assert parts.sum() == number and not parts[[1, 3]].any()
        if total != 0.7:
            after.add(rng.random())
    assert len(after) == 1


def test_splits_are_multinomial():
    rng, weight = np.random.default_rng(5), np.array([0.4, 0.0, 1.0, 0.6])
    parts = np.array([split(6.0, weight, 2.0, rng) for _ in range(5000)])
    share = weight / 2
    error = np.sqrt(share * (1 - share) / (6 * len(parts)))
    assert (np.abs(parts.mean(axis=0) / 6 - share) <= 4.5 * error).all()
    spread = 6 * share * (1 - share)
    # the variance of a variance, generously
    assert np.abs(parts.var(axis=0) - spread).max() < 4.5 * spread.max() * np.sqrt(3 / len(parts))


ANSWERS = [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]]
CIRCLES, PATH = bf.Graph.grid((2, 4)), bf.Graph.grid((8,))


def observe(coupling, graph):
    raters = bf.build.Confusion(pm.Dirichlet("confusion", np.ones((3, 2, 2))))
    responses = bf.Responses.from_matrix(ANSWERS)
    bf.build.observe(responses, labels=bf.build.Potts(coupling, graph), raters=raters)


def test_labels_of_a_markov_chain_must_not_depend_on_variables_of_nuts():
    with pm.Model() as model:
        observe(pm.LogNormal("coupling", pm.Normal("middle"), 0.7), CIRCLES)
    with pytest.raises(ModelError, match=r"Potts .* Got: \['coupling'\] left to other steps"):
        bf.build.LabelGibbs([model["confusion"]], model=model)
    with pm.Model() as model:
        observe(pm.math.exp(pm.Normal("log_coupling")), CIRCLES)
    with pytest.raises(ModelError, match="sampler='nuts'"):
        bf.sample(model, 10, **QUIET)


def test_a_coupling_with_a_variable_bound_is_left_to_other_steps():
    """In PyMC's coordinate the number moves with its bound."""
    with pm.Model():
        observe(pm.Uniform("coupling", 0.0, pm.HalfNormal("most")), PATH)
        assert [v.name for v in bf.build.LabelGibbs().vars] == ["confusion_simplex__"]


def complete_graph():
    """Six items, all neighbours, of three known raters; the coupling's prior has a variable."""
    answers = [[0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]]
    graph = bf.Graph.from_edges(list(itertools.combinations(range(6), 2)), items=range(6))
    raters = np.array([[[0.6, 0.4], [0.4, 0.6]]] * 3)
    with pm.Model() as model:
        coupling = pm.HalfNormal("coupling", pm.Gamma("scale", 20.0, 20.0))
        bf.build.observe(
            bf.Responses.from_matrix(answers),
            labels=bf.build.Potts(coupling, graph),
            raters=bf.build.Confusion(raters),
        )
    return model, np.log(raters)[np.arange(3), :, answers].sum(axis=1)


@pytest.mark.slow
def test_labels_drawn_next_to_nuts_are_those_of_the_result():
    """Belief propagation, which would take their place, is 0.17 off."""
    model, log_lik = complete_graph()
    settings = {"tune": 200, "chains": 2, "cores": 1, "random_seed": 1}
    result = bf.sample(model, 600, thin=2, **settings, **QUIET)
    assert result.attrs["sampler"] == "gibbs" and np.ptp(result["posterior"]["scale"].values) > 0
    every = np.array(list(itertools.product([0, 1], repeat=6)))
    ones = every.sum(axis=1)
    agree = ones * (ones - 1) / 2 + (6 - ones) * (5 - ones) / 2
    scale, z = np.meshgrid(np.linspace(0.2, 3.0, 57), np.linspace(0.025, 4.5, 90), indexing="ij")
    prior = np.exp(np.outer((scale * z).ravel(), agree))
    prior *= (stats.gamma.pdf(scale, 20, scale=1 / 20) * stats.norm.pdf(z)).ravel()[:, None] / (
        prior.sum(axis=1, keepdims=True)
    )
    weight = prior.sum(axis=0) * np.exp(log_lik[np.arange(6), every].sum(axis=1))
    exact = weight @ every / weight.sum()
    found = result["label_posterior"]
    assert found.attrs["exact"] == 1 and "Swendsen" in found.attrs["method"]
    one = found.sel({"class": 1})
    assert (one["mcse"] < 0.03).all()
    assert (np.abs(one["probability"] - exact) < 5 * one["mcse"]).all()
    kept = result["label_draws"]["label"]
    assert dict(kept.sizes) == {"chain": 2, "draw": 300, "item": 6}


@pytest.fixture(scope="module")
def square():
    return square_of_pixels()


def test_interrupted_chains_keep_draws_and_labels_together(square, monkeypatch):
    """Ctrl-C in one of the chains."""
    settings = {"tune": 10, "chains": 4, "cores": 1, "sweeps": 1, "random_seed": 5} | QUIET
    whole = bf.sample(square[0], 20, **settings)
    monkeypatch.setattr(chains, "SLICE", 0.0)
    sweep, done = chains.step, []

    def interrupted(*arguments):
        done.append(1)
        if len(done) == 4 * 24 + 2:
            raise KeyboardInterrupt
        return sweep(*arguments)

    monkeypatch.setattr(chains, "step", interrupted)
    cut = bf.sample(square[0], 20, **settings)
    assert dict(cut["posterior"].sizes)["chain"] == 4 and cut["posterior"].sizes["draw"] == 14
    for group in ("posterior", "log_likelihood", "label_draws"):
        for name, values in cut[group].dataset.data_vars.items():
            expected = whole[group].dataset[name].isel(draw=slice(14))
            assert (values.values == expected.values).all(), name
