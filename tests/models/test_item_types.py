"""The model of item types: its variables, its labels, and what its results hold."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from item_types import hard_crowd
from typed_crowds import random_crowd, summed

import bayesfuse as bf
from bayesfuse.models import ItemTypes
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
VARIANTS = {
    "default": {},
    "no competence": {"competence": False},
    "rows in common": {"own_rows": False},
    "types only": {"competence": False, "own_rows": False, "every_class": 0},
    "trust given": {"trust": 1.5, "types": 4},
}
ABOVE = {"type_concentration", "type_share", "consensus", "trust", "firmness", "class_of_type"}
COMMON = {"competence_mean", "competence_concentration", "guess_mean", "guess_concentration"}
OF_RATERS = COMMON | {"competence", "guess"}
OWN = {"row_concentration", "type_confusion"}


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
    model = ItemTypes(three, **VARIANTS[name])
    expected = {
        "default": ABOVE | OF_RATERS | OWN,
        "no competence": ABOVE | OWN,
        "rows in common": ABOVE | OF_RATERS,
        "types only": ABOVE,
        "trust given": (ABOVE | OF_RATERS | OWN) - {"trust"},
    }[name]
    assert {variable.name for variable in model.free_RVs} == expected
    step = bf.LabelGibbs(model=model)
    assert {variable.name for variable in step.vars} == {v.name for v in model.value_vars}
    result = bf.sample(model, 20, tune=10, chains=1, sweeps=1, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert all(np.isfinite(values).all() for values in posterior.values())
    follows = {"prevalence", "confusion", "sensitivity", "specificity", "type_of_class"}
    if "competence" in expected:
        follows.add("type_confusion_mean")
    assert expected | follows == set(posterior)
    assert all(len(np.unique(posterior[role])) > 1 for role in expected)  # all are moved
    assert_close(bf.label_probabilities(result).sum("class"), np.ones(31), "labels")
    assert np.isfinite(result["log_likelihood"]["responses"].values).all()


def test_what_follows_from_the_variables(fitted, three):
    """Prevalence, confusion and label probabilities of a draw, in NumPy."""
    _, result = fitted
    at = result["posterior"].dataset.isel(chain=1, draw=7)
    joint = at["type_share"].values[:, None] * at["class_of_type"].values
    prevalence = joint.sum(axis=0)
    share = (joint / prevalence).T
    assert_close(at["prevalence"], prevalence, "prevalence")
    confusion = np.einsum("kz,mzc->mkc", share, at["type_confusion"].values)
    assert_close(at["confusion"], confusion, "confusion")
    assert_close(at["sensitivity"], confusion.diagonal(axis1=1, axis2=2), "sensitivity")
    gold = {3: 2, 5: 0}
    log_lik = np.log(prevalence) + summed(share, at["type_confusion"].values, three, gold)
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


def test_types_of_a_class_that_underflows_have_the_shares_of_all_items(three):
    """With ``every_class=0`` all types may rule a class out; that must not spoil other draws."""
    model = ItemTypes(three, types=3, every_class=0)
    point = model.initial_point(1)
    point["class_of_type_simplex__"] = np.tile([0.0, 1000.0], (3, 1))  # e⁻¹⁰⁰⁰, one, e⁻²⁰⁰⁰
    names = ["type_share", "type_of_class", "prevalence", "confusion"]
    with plain_python(), np.errstate(under="ignore"):
        values = value_function(model, {name: model[name] for name in names})(point)
    assert_close(values["type_of_class"], np.tile(values["type_share"], (3, 1)), "types")
    assert_close(values["prevalence"], [0.0, 1.0, 0.0], "prevalence", atol=1e-12)
    assert np.isfinite(values["confusion"]).all()
    given = {"type_share": np.log(values["type_share"]), "row_concentration": np.ones(3)}
    none = {"class_of_type": np.tile([-np.inf, 0.0, -np.inf], (3, 1))}
    drawn = model.pools[0].implied(given | none)
    assert_close(np.exp(drawn["share"]), values["type_of_class"], "types that Gibbs draws")
