"""Models as PyMC models: gradients, predictive draws, extension, coordinates, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
from scipy.special import logsumexp

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.pymc.model import observed, one_against_rest
from bayesfuse.testing import assert_close, assert_frequencies

# PyTensor announces that a CustomDist's Python function will not be compiled: as intended here.
python_random = pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")


def test_log_density_is_the_marginal_likelihood(small, small_model):
    """By plain sums over classes, item by item, from the long table."""
    point = pm.draw(small_model.free_RVs, random_seed=1)
    prevalence, confusion = point
    frame = small.to_frame()
    gold = {0: 1, 61: 2}
    expected = 0.0
    for item in small.items.tolist():
        terms = np.log(prevalence)
        for _, row in frame[frame["item"] == item].iterrows():
            terms = terms + np.log(confusion[row["rater"], :, row["label"]])
        expected += terms[gold[item]] if item in gold else logsumexp(terms)
    variable, _ = observed(small_model)
    logp = small_model.logp(vars=variable, sum=True)
    inputs = dict(zip(small_model.free_RVs, point, strict=True))
    values = {}
    for rv, value in inputs.items():
        transform = small_model.rvs_to_transforms[rv]
        values[small_model.rvs_to_values[rv]] = transform.forward(value).eval()
    assert logp.eval(values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "mode",
    ["FAST_COMPILE", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("NUMBA", "JAX"))],
)
@pytest.mark.parametrize("raters", ["confusion", "class", "coin"])
def test_gradients_are_right_in_every_backend(small, raters, mode):
    model = DawidSkene(small, raters=raters, gold={0: 1})
    rng = np.random.default_rng(3)
    point = {k: v + rng.normal(size=v.shape) for k, v in model.initial_point().items()}
    logp = model.compile_fn(model.logp(), point_fn=True, mode="FAST_COMPILE")
    gradient = model.compile_fn(model.dlogp(), point_fn=True, mode=mode)(point)
    flat = np.concatenate([point[v.name].ravel() for v in model.value_vars])
    numeric = np.empty_like(flat)
    step = 1e-5
    for place in range(len(flat)):
        ends = []
        for sign in (1, -1):
            moved, at = flat.copy(), 0
            moved[place] += sign * step
            parts = {}
            for v in model.value_vars:
                size = point[v.name].size
                parts[v.name] = moved[at : at + size].reshape(point[v.name].shape)
                at += size
            ends.append(float(logp(parts)))
        numeric[place] = (ends[0] - ends[1]) / (2 * step)
    # central differences: rounding of a density of some hundreds over the step
    assert np.abs(gradient - numeric).max() < 500 * 1e-15 / step * 100 + 1e-6


def test_a_second_derivative_is_refused_with_a_reason(small_model):
    with pytest.raises(NotImplementedError, match="gradients, not Hessians"):
        small_model.d2logp()


def test_other_data_of_the_same_table_have_their_own_density(small, small_model):
    variable, _ = observed(small_model)
    other = (small.label + 1) % 3
    values = pm.draw(small_model.free_RVs, random_seed=1)
    rebuilt = DawidSkene(
        small.relabelled(other), prevalence_prior=[1.0, 2.0, 3.0], gold={0: 1, 61: 2}
    )
    found = pm.logp(variable, other.astype("int8")).eval(
        dict(zip(small_model.free_RVs, values, strict=True))
    )
    target, _ = observed(rebuilt)
    expected = pm.logp(target, rebuilt.rvs_to_values[target]).eval(
        dict(zip(rebuilt.free_RVs, values, strict=True))
    )
    assert found == pytest.approx(float(expected), rel=1e-12)


@python_random
def test_predictive_draws_have_the_models_frequencies():
    """Patterns of two raters on one item: their exact probabilities sum over the truth."""
    prevalence = np.array([0.7, 0.2, 0.1])
    confusion = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 3))
    responses = bf.Responses.from_matrix(np.zeros((2000, 2), dtype=int), classes=[0, 1, 2])
    with pm.Model():
        answers = bf.observe(
            responses, labels=bf.Independent(prevalence), raters=bf.Confusion(confusion)
        )
        drawn = pm.draw(answers, random_seed=1).reshape(2000, 2)
    seen = np.bincount(drawn[:, 0] * 3 + drawn[:, 1], minlength=9).astype(float)
    exact = np.einsum("k,kc,kd->cd", prevalence, confusion[0], confusion[1]).ravel()
    assert_frequencies(seen, exact, "pairs of answers")


@python_random
def test_prior_and_posterior_predictive(small, small_model, small_gibbs):
    with small_model:
        prior = pm.sample_prior_predictive(draws=20, random_seed=1)
        after = pm.sample_posterior_predictive(
            small_gibbs.isel(draw=slice(0, 5)), random_seed=1, progressbar=False
        )
    assert prior["prior_predictive"]["responses"].shape == (1, 20, small.n_responses)
    drawn = after["posterior_predictive"]["responses"]
    assert drawn.dims == ("chain", "draw", "response")
    assert set(np.unique(drawn)) == {0, 1, 2}


@python_random
def test_predictive_draws_of_a_table_of_counts_warn():
    with DawidSkene(bf.datasets.caries()), pytest.warns(UserWarning, match="expand"):
        pm.sample_prior_predictive(draws=2)


def test_names_reach_the_model():
    model = DawidSkene(bf.datasets.caries())
    assert model.coords["class"] == ("sound", "carious")
    assert model.named_vars_to_dims["confusion"] == ("rater", "class", "answer")
    assert model.named_vars_to_dims["sensitivity"] == ("rater",)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sensitivity_and_specificity_are_shares_of_a_simulated_crowd(n_classes):
    made = bf.datasets.simulate_dawid_skene(200_000, 2, n_classes, random_seed=1)
    model = DawidSkene(made.responses.head(10))
    values = dict(zip(["prevalence", "confusion"], (made.prevalence, made.confusion), strict=True))
    function = pytensor.function(
        [model["prevalence"], model["confusion"]],
        [model["sensitivity"], model["specificity"]],
        on_unused_input="ignore",
    )
    sensitivity, specificity = function(*values.values())
    label = made.responses.label.reshape(-1, 2)
    for m in range(2):
        for k in [1] if n_classes == 2 else range(n_classes):
            is_k, says_k = made.truth == k, label[:, m] == k
            place = (m,) if n_classes == 2 else (m, k)
            # standard error of a share of at least 10,000 items is below .005
            assert sensitivity[place] == pytest.approx(says_k[is_k].mean(), abs=0.025)
            assert specificity[place] == pytest.approx((~says_k)[~is_k].mean(), abs=0.025)


def test_priors_can_be_given_for_all_for_each_and_by_name(small):
    own = np.full((3, 3), 2.0)
    everyone = DawidSkene(small, confusion_prior=own)
    assert (alpha_of(everyone) == 2).all()
    named = alpha_of(DawidSkene(small, confusion_prior={4: own}))
    assert (named[4] == 2).all() and (named[0] == bf.priors.diagonal(3)).all()
    each = np.arange(1.0, 6 * 9 + 1).reshape(6, 3, 3)
    assert (alpha_of(DawidSkene(small, confusion_prior=each)) == each).all()


def alpha_of(model):
    from bayesfuse.inference.plan import make_plan

    return make_plan(model).continuous_priors()["confusion"].concentration


BAD_MODELS = {
    "prior of the wrong shape": (dict(confusion_prior=np.ones((2, 2))), "shape (2, 2)"),
    "negative prior": (dict(confusion_prior=-np.ones((3, 3))), "-1.0"),
    "zero prior": (dict(prevalence_prior=0.0), "0.0"),
    "prior that is not finite": (dict(prevalence_prior=[1, np.inf, 1]), "inf"),
    "prior of an unknown rater": (dict(confusion_prior={"nobody": np.ones((3, 3))}), "'nobody'"),
    "prior by name of the wrong shape": (dict(confusion_prior={1: [1, 2]}), "rater 1"),
    "prevalence prior of the wrong length": (dict(prevalence_prior=[1, 1]), "shape (2,)"),
    "unknown channel": (dict(raters="quorum"), "'quorum'"),
    "gold for an unknown item": (dict(gold={"x": 1}), "'x'"),
    "gold of an unknown class": (dict(gold={1: 7}), "7"),
    "gold that is no mapping": (dict(gold=[1, 2]), "list"),
    "gold that is a list of classes": (dict(gold={0: [1]}), "[1]"),
    "two true classes": (dict(gold=pd.Series([0, 1], index=[3, 3])), "1 and 0 for item 3"),
    "prior that is a word": (dict(prevalence_prior="flat"), "'flat'"),
    "prior by name that is a word": (dict(confusion_prior={1: "flat"}), "rater 1"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_models_are_refused_with_the_offender(small, case):
    arguments, told = BAD_MODELS[case]
    with pytest.raises((ModelError, ResponsesError)) as error:
        DawidSkene(small, **arguments)
    assert told in str(error.value) and "Got" in str(error.value)


def test_gold_may_say_the_same_twice(small):
    model = DawidSkene(small, gold=pd.Series([1, 1], index=[3, 3]))
    assert bf.label_probabilities(bf.find_map(model)).sel(item=3).values.tolist() == [0, 1, 0]


def test_arguments_of_another_kind_are_refused(small):
    flat = np.ones(3) / 3
    labels, raters = bf.Independent(flat), bf.OneCoin(np.ones(6) / 2)
    for build, told in (
        (lambda: DawidSkene(small.to_frame()), "responses must be a bf.Responses.*DataFrame"),
        (lambda: bf.sample(small), "model must be a pm.Model.*Responses"),
        (lambda: bf.observe(small, labels=raters, raters=labels), "bf.LabelPrior.*OneCoin"),
        (lambda: bf.observe(small, labels=labels, raters=labels), "bf.RaterChannel.*Independent"),
        (lambda: HiddenMarkov(small, [20, 42]), "sequences must be a bf.Sequences.*list"),
        (
            lambda: bf.observe(small, labels=bf.MarkovChain(flat, flat, [20]), raters=raters),
            "sequences must be a bf.Sequences.*list",
        ),
        (lambda: bf.priors.diagonal(1), "n_classes must be .* at least 2.*Got: 1"),
    ):
        with pm.Model(), pytest.raises(ModelError, match=told):
            build()


BAD_CONSTANTS = {
    "prevalence": (bf.Independent([5.0, 5.0, 5.0]), bf.OneCoin(np.full(6, 0.5))),
    "accuracy": (bf.Independent(np.ones(3) / 3), bf.OneCoin(np.full(6, 1.2))),
    "confusion": (
        bf.Independent(np.ones(3) / 3),
        bf.Confusion(np.tile([[0.9, 0.05, 0.15], [0.1, 0.8, 0.1], [0, 0, 1]], (6, 1, 1))),
    ),
}


@pytest.mark.parametrize("name", BAD_CONSTANTS)
def test_constants_must_be_probabilities(small, name):
    labels, raters = BAD_CONSTANTS[name]
    with pm.Model(), pytest.raises(ModelError, match=f"{name} must hold.*Got"):
        bf.observe(small, labels=labels, raters=raters)


def test_constants_may_be_rounded(small):
    rows = np.tile([[0.3333333, 0.3333333, 0.3333333], [0, 1, 0], [0, 0, 1]], (6, 1, 1))
    with pm.Model():
        bf.observe(small, labels=bf.Independent(np.ones(3) / 3), raters=bf.Confusion(rows))


def test_specificity_is_a_share_where_one_class_has_all_the_prevalence():
    rng = np.random.default_rng(1)
    confusion = rng.dirichlet(np.ones(3), (4, 3))
    for rare in (1e-12, 1e-290, 1e-320, 0.0):
        prevalence = np.array([1.0, rare, 3 * rare])
        _, found = one_against_rest(confusion, prevalence / prevalence.sum(), 3)
        if rare > 1e-300:  # below, the ratio of the others has no digits
            assert_close(
                found[:, 0], 1 - confusion[:, 1:, 0] @ [0.25, 0.75], "specificity", rtol=1e-9
            )
        assert_close(found[:, 1], 1 - confusion[:, 0, 1], "specificity of the second", rtol=1e-9)
        assert ((found >= 0) & (found <= 1)).all()


def test_two_models_in_one_context_keep_apart(small):
    other = bf.Responses.from_matrix(np.zeros((7, 6), dtype=int), classes=range(3))
    with pm.Model():
        for name, responses in (("one", small), ("two", other)):
            DawidSkene(responses, name=name)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Numba will use object mode")
            drawn = pm.sample_prior_predictive(2, random_seed=1)
    for name, responses in (("one", small), ("two", other)):
        values = drawn["observed_data"][f"{name}::responses"]
        assert values.dims == (f"{name}::responses_row",)
        assert np.array_equal(values.values, responses.label)


def test_results_call_the_responses_what_the_model_does(small):
    settings = {"draws": 3, "tune": 3, "chains": 1, "progressbar": False, "quiet": True}
    for name, variable, rows in (
        ("", "responses", "response"),
        ("ds", "ds::responses", "ds::responses_row"),
    ):
        result = bf.sample(DawidSkene(small, name=name), **settings)
        for group in ("log_likelihood", "observed_data"):
            assert list(result[group].data_vars) == [variable]
        assert result["observed_data"][variable].dims == (rows,)
        assert result["constant_data"]["item_index"].dims == (rows,)


def test_parameters_must_fit_the_responses(small):
    with pm.Model(), pytest.raises(ModelError, match="6 raters, 3 classes, 3 answers"):
        bf.observe(
            small, labels=bf.Independent(np.ones(3) / 3), raters=bf.Confusion(np.ones((2, 3, 3)))
        )
    with pm.Model(), pytest.raises(ModelError, match="prevalence"):
        bf.observe(small, labels=bf.Independent(np.ones(4) / 4), raters=bf.OneCoin(np.ones(6) / 2))
    with pm.Model(), pytest.raises(ModelError, match="one number per rater"):
        bf.observe(small, labels=bf.Independent(np.ones(3) / 3), raters=bf.OneCoin(0.5))


def test_gold_may_be_a_series(small):
    model = DawidSkene(small, gold=pd.Series({0: 1, 3: 2}))
    gold = observed(model)[1].gold
    assert gold[[0, 3]].tolist() == [1, 2] and (np.delete(gold, [0, 3]) == -1).all()
