"""The model of item types: its variables, its labels, and what its results hold."""

import numpy as np
import pymc as pm
import pytest
from typed_crowds import hard_crowd, random_crowd, summed

import bayesfuse as bf
from bayesfuse.models import ItemTypes
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
ABOVE = {"type_share", "trust"}
OF_RATERS = {"competence_mean", "competence_concentration", "competence"}
GUESSES = {"guess_mean", "guess_concentration", "guess"}
VARIANTS = {
    "default": ({}, ABOVE | OF_RATERS | GUESSES, 36),
    "levels, even guesses": ({"consensus": "levels", "guesses": "even"}, ABOVE | OF_RATERS, 18),
    "trust given": ({"trust": 1.5}, {"type_share"} | OF_RATERS | GUESSES, 36),
}


@pytest.fixture(scope="module")
def three():
    """Named items, raters and classes; repeats, gaps, an item and a rater without responses."""
    plain = random_crowd(30, 3, 3, seed=2)
    names = np.array(["low", "middle", "top"])
    return bf.Responses.from_long(
        {
            "item": [f"item {n}" for n in plain.item],
            "rater": [f"rater {m}" for m in plain.rater],
            "label": names[plain.label],
        },
        items=[f"item {n}" for n in range(31)],
        raters=[f"rater {m}" for m in range(4)],
        classes=names.tolist(),
    )


@pytest.fixture(scope="module")
def fitted(three):
    model = ItemTypes(three, gold={"item 3": "top", "item 5": "low"})
    return model, bf.sample(model, 20, tune=10, chains=2, cores=1, sweeps=1, random_seed=1, **QUIET)


@pytest.mark.parametrize("name", VARIANTS)
def test_variables_of_every_variant_are_drawn_by_one_step(three, name):
    given, expected, n_types = VARIANTS[name]
    model = ItemTypes(three, **given)
    assert {variable.name for variable in model.free_RVs} == expected
    step = bf.LabelGibbs(model=model)
    assert {variable.name for variable in step.vars} == {v.name for v in model.value_vars}
    result = bf.sample(model, 20, tune=10, chains=1, sweeps=1, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert all(np.isfinite(values).all() for values in posterior.values())
    follows = {"prevalence", "confusion", "sensitivity", "specificity", "type_of_class"}
    assert expected | follows == set(posterior)
    assert all(len(np.unique(posterior[role])) > 1 for role in expected)  # all are moved
    assert result["constant_data"]["consensus"].shape == (n_types, 3)
    assert_close(bf.label_probabilities(result).sum("class"), np.ones(31), "labels")
    assert np.isfinite(result["log_likelihood"]["responses"].values).all()


def test_what_follows_from_the_variables(fitted, three):
    """Prevalence, confusion and label probabilities of a draw, in NumPy."""
    _, result = fitted
    at = result["posterior"].dataset.isel(chain=1, draw=7)
    mu, looks = result["constant_data"]["consensus"].values, at["competence"].values
    said = mu ** float(at["trust"])
    joint = at["type_share"].values[:, None] * said / said.sum(axis=1, keepdims=True)
    prevalence = joint.sum(axis=0)
    share = (joint / prevalence).T
    assert_close(at["prevalence"], prevalence, "prevalence")
    looks = looks[:, None, None]
    rows = looks * mu + (1 - looks) * at["guess"].values[:, None]
    confusion = np.einsum("kz,mzc->mkc", share, rows)
    assert_close(at["confusion"], confusion, "confusion")
    assert_close(at["sensitivity"], confusion.diagonal(axis1=1, axis2=2), "sensitivity")
    gold = {3: 2, 5: 0}
    log_lik = np.log(prevalence) + summed(share, rows, three, gold)
    found = result["log_likelihood"]["responses"].values[1, 7]
    assert_close(found, np.logaddexp.reduce(log_lik, axis=1), "log likelihood", rtol=1e-8)
    probability = bf.label_probabilities(result)
    assert probability.sel(item="item 3").values.tolist() == [0, 0, 1]
    assert probability.sel(item="item 5").values.tolist() == [1, 0, 0]


@pytest.mark.filterwarnings("ignore:The effect of Potentials")  # it is in the parameters' draws
def test_predictive_draws(fitted, three):
    model, result = fitted
    some = result.isel(draw=slice(None, None, 10))
    with model:
        drawn = pm.sample_posterior_predictive(some, progressbar=False, random_seed=1)
    label = drawn["posterior_predictive"]["responses"].values
    assert label.shape == (2, 2, three.n_responses) and set(np.unique(label)) == {0, 1, 2}


def test_two_classes_have_one_sensitivity_per_rater_and_a_name_is_a_prefix():
    responses, _ = hard_crowd(1, n_items=30, n_raters=4)
    model = ItemTypes(responses, name="crowd")
    result = bf.sample(model, 5, tune=5, chains=1, sweeps=1, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert all(name.startswith("crowd::") for name in posterior)
    for name, k in (("crowd::sensitivity", 1), ("crowd::specificity", 0)):
        assert posterior[name].dims == ("chain", "draw", "rater")
        assert_close(posterior[name], posterior["crowd::confusion"][..., k, k], name)
    assert_close(bf.label_probabilities(result).sum("class"), np.ones(30), "labels")


def test_classes_that_no_type_says_are_possible_and_spoil_no_other_draws(three):
    """A trust of e⁶ leaves a class the types of other classes at 1e-290 or so."""
    model = ItemTypes(three, consensus="levels")
    point = model.initial_point(1)
    point["trust_log__"] = np.array(6.0)
    names = ["type_share", "type_of_class", "prevalence", "confusion"]
    with plain_python(), np.errstate(under="ignore"):
        values = value_function(model, {name: model[name] for name in names})(point)
    assert all(np.isfinite(value).all() for value in values.values())
    assert_close(values["type_of_class"].sum(axis=1), np.ones(3), "types")
    given = {"type_share": np.log(values["type_share"]), "trust": np.exp(6.0)}
    drawn = model.pools[-1].implied(given)
    assert_close(np.exp(drawn["share"]), values["type_of_class"], "types that Gibbs draws")


def test_of_many_classes_those_compete_that_raters_give_to_one_item():
    said = np.repeat(np.arange(12), 2)[:, None].repeat(3, axis=1)
    said[3, 0], said[5, 2] = 4, 2  # 1 with 4, 2 with 2
    model = ItemTypes(bf.Responses.from_matrix(said, classes=range(12)))
    names = model.coords["type"]
    assert len(names) == 72 + 6 and names[-6:] == (
        "1|4 (0.50)", "1|4 (0.65)", "1|4 (0.80)", "4|1 (0.50)", "4|1 (0.65)", "4|1 (0.80)",
    )  # fmt: skip
