"""Hidden Markov models as PyMC models: gradients, samplers against each other, refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.observation import Observation
from bayesfuse.testing import (
    assert_close,
    assert_uniform,
    assert_within_mcse,
    sbc_ranks,
    simulate,
)

ALLOWED = np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [3.0, 0.0, 1.0]])


def sequences_of(lengths):
    return bf.Sequences.from_lengths(lengths, names=[f"s{n}" for n in range(len(lengths))])


@pytest.fixture(scope="module")
def table():
    """Who answers what: three raters, 70 %, some twice, some items nobody."""
    rng = np.random.default_rng(3)
    item, rater = np.nonzero(rng.random((60, 3)) < 0.7)
    item, rater = np.append(item, item[:8]), np.append(rater, rater[:8])
    return bf.Responses.from_long(
        {"item": item, "rater": rater, "label": np.arange(len(item)) % 3}, items=range(60)
    )


@pytest.fixture(scope="module")
def data(table):
    """Responses drawn from the model with zeros, and its sequences."""
    sequences = sequences_of([5, 1, 14, 10, 3, 7, 20])
    build = HiddenMarkov(table, sequences, initial_prior=[1, 1, 0], transition_prior=ALLOWED)
    return simulate(build, 4)[2], sequences


# ---------------------------------------------------------------- the model


CASES = {
    "free": {},
    "zeros": {"initial_prior": [1, 1, 0], "transition_prior": ALLOWED},
    "stationary": {"initial": "stationary"},
    "stationary with zeros": {"initial": "stationary", "transition_prior": ALLOWED},
}


@pytest.mark.parametrize(
    ("case", "mode"),
    [
        *((case, "FAST_COMPILE") for case in CASES),
        ("stationary with zeros", "JAX"),
        *(
            pytest.param(case, mode, marks=pytest.mark.slow)
            for mode, cases in {
                "JAX": ("free", "zeros", "stationary"),
                "NUMBA": ("zeros", "stationary"),
            }.items()
            for case in cases
        ),
    ],
)
def test_gradients_are_right_in_every_backend(data, case, mode):
    model = HiddenMarkov(*data, **CASES[case], raters="class")
    rng = np.random.default_rng(3)
    point = {k: v + 0.5 * rng.normal(size=v.shape) for k, v in model.initial_point().items()}
    logp = model.compile_fn(model.logp(), point_fn=True, mode="FAST_COMPILE")
    gradient = np.asarray(model.compile_fn(model.dlogp(), point_fn=True, mode=mode)(point))
    numeric = []
    for value in model.value_vars:
        for place in np.ndindex(point[value.name].shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = point | {value.name: point[value.name].copy()}
                moved[value.name][place] += step
                ends.append(float(logp(moved)))
            numeric.append((ends[0] - ends[1]) / 2e-5)
    # central differences: rounding of a density of some hundreds over the step
    assert np.abs(gradient - np.array(numeric)).max() < 1e-6


@pytest.mark.parametrize("case", CASES)
def test_log_posterior_never_falls(data, case):
    point = bf.find_map(HiddenMarkov(*data, **CASES[case]), tolerance=1e-12)
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and len(trace) > 3
    assert point.attrs["converged"] == 1
    transition = point["point"]["transition"].values
    assert_close(transition.sum(axis=1), np.ones(3), "row sums")
    if "zeros" in case:
        assert (transition[ALLOWED == 0] == 0).all()


def test_the_mode_of_a_stationary_chain_has_no_slope(data):
    """EM is not closed there: its end must still be where the plain density is flat."""
    prior = {"transition_prior": np.full((3, 3), 3.0), "confusion_prior": np.full((3, 3), 2.0)}
    prior["confusion_prior"] += np.eye(3)
    model = HiddenMarkov(*data, initial="stationary", **prior)
    point = bf.find_map(model, tolerance=1e-14, iterations=20_000)["point"]
    observation = make_plan(model).observation
    values = {name: point[name].values for name in ("transition", "confusion")}
    _, counts = observation.expected(observation.rows(values))
    for name, alpha in make_plan(model).continuous_priors().items():
        total = counts[name] + alpha.concentration - 1
        assert np.allclose(total / total.sum(axis=-1, keepdims=True), values[name], atol=1e-5)


def test_short_sequences_may_be_stationary():
    """A step of what is not EM may rule out what was observed; half of it does not."""
    matrix = np.random.default_rng(0).integers(0, 2, (40, 6))
    responses = bf.Responses.from_matrix(matrix)
    point = bf.find_map(HiddenMarkov(responses, sequences_of([1] * 40), initial="stationary"))
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and np.isfinite(point.attrs["log_evidence"])
    assert np.isfinite([v for k, v in point.attrs.items() if "start_log" in k]).all()
    assert_close(point["label_posterior"]["probability"].sum("class").values, np.ones(40), "sums")


def test_rows_that_do_not_look_back_give_the_posterior_of_dawid_and_skene(table):
    """Sequences of one item each: the initial distribution is the prevalence."""
    responses = simulate(DawidSkene(table), 1)[2]
    alone = HiddenMarkov(responses, sequences_of([1] * 60))
    apart = DawidSkene(responses)
    options = dict(tolerance=1e-13, iterations=5000)
    found, expected = bf.find_map(alone, **options), bf.find_map(apart, **options)
    assert np.allclose(found["point"]["initial"], expected["point"]["prevalence"], atol=1e-5)
    assert np.allclose(found["point"]["confusion"], expected["point"]["confusion"], atol=1e-5)
    assert found.attrs["log_evidence"] == pytest.approx(expected.attrs["log_evidence"])


@pytest.mark.parametrize("case", ["zeros", "stationary"])
def test_the_order_of_the_items_never_matters(data, case):
    responses, sequences = data
    frame = responses.to_frame()
    order = np.random.default_rng(2).permutation(60)
    shuffled = bf.Responses.from_long(frame, items=order, classes=range(3))
    table = sequences.to_frame().sample(frac=1, random_state=1)
    one = bf.find_map(HiddenMarkov(responses, sequences, **CASES[case]))
    other = bf.find_map(HiddenMarkov(shuffled, bf.Sequences.from_table(table), **CASES[case]))
    assert np.allclose(one["point"]["transition"], other["point"]["transition"], atol=1e-9)
    probability = bf.label_probabilities(other).sel(item=responses.items)
    assert np.allclose(bf.label_probabilities(one), probability, atol=1e-9)


def test_the_result_has_the_users_names(data):
    responses, sequences = data
    model = HiddenMarkov(responses, sequences, **CASES["zeros"])
    result = bf.sample(model, 100, chains=2, random_seed=1, progressbar=False, quiet=True)
    pointwise = result["log_likelihood"]["responses"]
    assert pointwise.dims == ("chain", "draw", "sequence")
    assert pointwise["sequence"].values.tolist() == sequences.names.tolist()
    posterior = result["posterior"].dataset
    assert posterior["transition"].dims == ("chain", "draw", "class", "next_class")
    assert (posterior["transition"].values[..., ALLOWED == 0] == 0).all()
    assert (posterior["initial"].values[..., 2] == 0).all()
    assert np.allclose(posterior["prevalence"].sum("class"), 1)
    first = bf.label_probabilities(result).sel(item=sequences.items[sequences.start[:-1]])
    assert (first.values[:, 2] == 0).all()
    summary = bf.summary(result, ["transition"], kind="stats")
    assert "transition[0, 2]" in summary.index


def test_an_own_model_with_a_start_that_depends_on_the_transition(data):
    """What reaches the responses by two ways has no Dirichlet conditional: NUTS must draw it."""
    responses, sequences = data
    with pm.Model() as model:
        transition = pm.Dirichlet("transition", np.ones((3, 3)))
        confusion = pm.Dirichlet("confusion", np.ones((3, 3, 3)) + 3 * np.eye(3))
        bf.observe(
            responses,
            labels=bf.MarkovChain(transition.mean(axis=0), transition, sequences),
            raters=bf.Confusion(confusion),
        )
    assert set(make_plan(model).blocks) == {"confusion"}


BAD_MODELS = {
    "unknown start": (dict(initial="anywhere"), "'anywhere'"),
    "negative concentration": (dict(transition_prior=-np.ones((3, 3))), "-1.0"),
    "a prior that is not used": (
        dict(initial="stationary", initial_prior=2.0),
        "initial_prior=2.0",
    ),
    "wrong shape": (dict(transition_prior=np.ones((2, 3))), "shape (2, 3)"),
    "wrong shape of the start": (dict(initial_prior=[1, 1]), "shape (2,)"),
    "a class without successor": (dict(transition_prior=[[1, 1, 1], [0, 0, 0], [1, 1, 1]]), "1"),
    "a class never entered": (
        dict(initial_prior=[1, 1, 0], transition_prior=[[1, 1, 0], [1, 1, 0], [1, 1, 1]]),
        "rule out 2",
    ),
    "no stationary distribution": (
        dict(initial="stationary", transition_prior=[[1, 1, 1], [1, 1, 1], [0, 0, 1]]),
        "separate 2 from 0",
    ),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_models_are_refused_with_the_offender(data, case):
    arguments, told = BAD_MODELS[case]
    with pytest.raises(ModelError) as error:
        HiddenMarkov(*data, **arguments)
    assert told in str(error.value) and "Got" in str(error.value)


def test_counts_of_patterns_have_no_order():
    table = bf.Responses.from_counts({"00": 2, "01": 3})
    with pytest.raises(ModelError, match="expand"):
        HiddenMarkov(table, bf.Sequences.from_lengths([2], items=["00", "01"]))


# ---------------------------------------------------------------- calibration


@pytest.mark.slow
@pytest.mark.parametrize("case", ["zeros", "stationary"])
def test_gibbs_and_nuts_agree(data, case):
    model = HiddenMarkov(*data, **CASES[case])
    settings = dict(random_seed=2, progressbar=False, quiet=True, log_likelihood=False)
    gibbs = bf.sample(model, 4000, chains=2, **settings)
    nuts = bf.sample(model, 1000, chains=2, sampler="nuts", **settings)
    names = ["transition", "confusion", "prevalence"]
    one, other = gibbs["posterior"].dataset[names], nuts["posterior"].dataset[names]
    assert_within_mcse(*(_moving(part, case) for part in (one, other)), names)
    difference = bf.label_probabilities(gibbs) - bf.label_probabilities(nuts)
    error = np.hypot(gibbs["label_posterior"]["mcse"], nuts["label_posterior"]["mcse"])
    assert (np.abs(difference) <= 6 * error + 1e-12).all()


def _moving(posterior, case):
    """Without the entries that are zero for good, which have no Monte Carlo error."""
    if "zeros" not in case:
        return posterior
    kept = posterior["transition"].values[:, :, ALLOWED > 0]
    return posterior.drop_vars("transition").assign(transition=(("chain", "draw", "entry"), kept))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["zeros", "stationary", "stationary with zeros"])
def test_prior_draws_rank_uniformly_among_posterior_draws(table, case):
    sequences, simulations = sequences_of([4, 1, 10, 8, 2, 15, 20]), 200
    ranks = sbc_ranks(
        lambda responses: HiddenMarkov(responses, sequences, **CASES[case]),
        table,
        simulations=simulations,
        draws=99,
        thin=2,
        sweeps=8,
        random_seed=len(case),
        start="prior",
    )
    every = np.arange(simulations)
    for name, values in ranks.items():
        if name == "labels":
            assert_uniform(values.values[:, 7], 1, "label of an item")
            assert_uniform(values.values[every, every % 60], 1, "labels")
            continue
        flat = values.values.reshape(simulations, -1)
        for entry in range(flat.shape[1]):
            if flat[:, entry].any():  # a zero for good is never above a draw
                assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")


def test_dependent_raters_in_sequence():
    """LatentGroups × MarkovChain: evidence by enumeration of labels and verdicts; Gibbs runs."""
    rng = np.random.default_rng(5)
    responses = bf.Responses.from_matrix(rng.integers(-1, 2, (6, 4)), classes=[0, 1])
    sequences = bf.Sequences.from_lengths([4, 2])
    values = {
        "initial": np.array([0.3, 0.7]),
        "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
        "group_confusion": rng.dirichlet([2, 1], (1, 2)),
        "rater_confusion": rng.dirichlet([3, 1], (4, 2)),
    }
    channel = bf.LatentGroups(values["group_confusion"], values["rater_confusion"], [0, -1, 0, -1])
    observation = Observation.build(responses, bf.MarkovChain(None, None, sequences), channel)
    total = 0.0
    for truth in product(range(2), repeat=6):
        p = 1.0
        for n in range(6):
            row = values["initial"] if n in (0, 4) else values["transition"][truth[n - 1]]
            p *= row[truth[n]]
            own = responses.item == n
            by_verdict = values["group_confusion"][0, truth[n]].copy()
            for m, c in zip(responses.rater[own], responses.label[own], strict=True):
                if m in (0, 2):
                    by_verdict *= values["rater_confusion"][m, :, c]
                else:
                    p *= values["rater_confusion"][m, truth[n], c]
            p *= by_verdict.sum()
        total += p
    found = observation.marginal(observation.rows(values))
    assert found.total == pytest.approx(np.log(total), rel=1e-12)
    with pm.Model() as model:
        bf.observe(
            responses,
            labels=bf.MarkovChain(
                pm.Dirichlet("initial", np.ones(2)),
                bf.dirichlet("step", np.ones((2, 2))),
                sequences,
            ),
            raters=bf.LatentGroups(
                bf.dirichlet("outer", np.ones((1, 2, 2)) + np.eye(2)),
                bf.dirichlet("inner", np.ones((4, 2, 2)) + np.eye(2)),
                [0, -1, 0, -1],
            ),
        )
    result = bf.sample(model, 50, chains=2, random_seed=1, progressbar=False, quiet=True)
    assert result["log_likelihood"]["responses"].sizes["sequence"] == 2
