"""The model of item types, and what populations, covariates or a classifier add to it."""

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
import xarray as xr
from coordinates import at_random
from new_items import named
from refusals import refused
from typed_crowds import hard_crowd, random_crowd, summed

import bayesfuse as bf
from bayesfuse.inference.chains import compilable
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, ItemTypes
from bayesfuse.parameters.compiled import value_function, without_compilation
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
ABOVE = {"type_share", "trust"}
OF_RATERS = {"competence_mean", "competence_concentration", "competence"}
GUESSES = {"guess_mean", "guess_concentration", "guess"}
VARIANTS = {
    "default": ({}, ABOVE | OF_RATERS | GUESSES, 36),
    "levels, even guesses": ({"consensus": "levels", "guesses": "even"}, ABOVE | OF_RATERS, 18),
    "clean items": (
        {"clean": True, "consensus": "levels"},
        ABOVE | OF_RATERS | GUESSES | {"clean_confusion"},
        21,
    ),
    "trust given": ({"trust": 1.5}, {"type_share"} | OF_RATERS | GUESSES, 36),
}


@pytest.fixture(scope="module")
def three():
    """Named items, raters and classes; repeats, gaps, an item and a rater without responses."""
    frame = random_crowd(30, 3, 3, seed=2).to_frame()
    items, raters = [f"item {n}" for n in range(31)], [f"rater {m}" for m in range(4)]
    return named(frame, items, raters, ["low", "middle", "top"])


@pytest.fixture(scope="module")
def fitted(three):
    model = ItemTypes(three, gold={"item 3": "top", "item 5": "low"})
    return model, bf.sample(model, 20, tune=10, chains=2, cores=1, sweeps=1, random_seed=1, **QUIET)


@pytest.mark.parametrize("name", VARIANTS)
def test_variables_of_every_variant_are_drawn_by_one_step(three, name):
    given, expected, n_types = VARIANTS[name]
    model = ItemTypes(three, **given)
    assert {variable.name for variable in model.free_RVs} == expected
    step = bf.build.LabelGibbs(model=model)
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


def test_deterministics(fitted, three):
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


def test_classes_without_types_remain_possible(three):
    """A trust of e⁶ leaves a class the types of other classes at 1e-290 or so."""
    model = ItemTypes(three, consensus="levels")
    point = model.initial_point(1)
    point["trust_log__"] = np.array(6.0)
    names = ["type_share", "type_of_class", "prevalence", "confusion"]
    with without_compilation(), np.errstate(under="ignore"):
        values = value_function(model, {name: model[name] for name in names})(point)
    assert all(np.isfinite(value).all() for value in values.values())
    assert_close(values["type_of_class"].sum(axis=1), np.ones(3), "types")
    given = {"type_share": np.log(values["type_share"]), "trust": np.exp(6.0)}
    drawn = model.pools[-1].implied(given)
    assert_close(np.exp(drawn["share"]), values["type_of_class"], "types that Gibbs draws")


def test_pairs_of_many_classes_are_those_of_one_item():
    said = np.repeat(np.arange(12), 2)[:, None].repeat(3, axis=1)
    said[3, 0], said[5, 2] = 4, 2  # 1 with 4, 2 with 2
    model = ItemTypes(bf.Responses.from_matrix(said, classes=range(12)))
    names = model.coords["type"]
    assert len(names) == 72 + 6 and names[-6:] == (
        "1|4 (0.50)", "1|4 (0.65)", "1|4 (0.80)", "4|1 (0.50)", "4|1 (0.65)", "4|1 (0.80)",
    )  # fmt: skip


SEEDED = {"progressbar": False, "quiet": True, "random_seed": 1}
RESPONSES, TRUTH = hard_crowd(2, n_items=60, n_raters=5)
RNG = np.random.default_rng(3)
KNOWN = {
    "populations": np.where(RNG.random(60) < 0.2 + 0.5 * TRUTH, "north", "south"),
    "covariates": pd.DataFrame({"height": TRUTH + RNG.normal(size=60), "male": np.arange(60) % 2}),
    "classifier": RNG.dirichlet(np.ones(2), 60) * 0.5 + 0.5 * np.eye(2)[TRUTH],
}
SMALL = {"gold": {0: int(TRUTH[0]), 7: int(TRUTH[7])}}


def chosen(names, rows=slice(None)):
    found = {"populations": pd.Series, "covariates": pd.DataFrame, "classifier": pd.DataFrame}
    return {name: found[name](KNOWN[name]).iloc[rows] for name in names}


@pytest.fixture(scope="module")
def all_known():
    """A model with all that can be known of items, and a point."""
    model = ItemTypes(RESPONSES, **KNOWN, **SMALL)
    return model, *at_random(model)


def test_compiled_chains_draw_item_log_odds(all_known):
    """No variable is left to NUTS; the chain's coordinates are those of PyMC's density."""
    model, point, values = all_known
    plan = make_plan(model)
    assert compilable(plan)
    for block in plan.all_blocks:
        drawn = block.read(point)
        natural = block.support.from_kernel(drawn)
        assert_close(natural, values[block.variable.name], block.parameter)
        assert_close(block.coordinates.write(drawn), point[block.value], block.parameter)


def test_density_by_hand(all_known):
    """The density and the shares, from types, tilts and responses one by one."""
    model, point, values = all_known
    x = KNOWN["covariates"].to_numpy(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    word = np.log(KNOWN["classifier"])
    tilt = values["classifier_scale"] * (word - word.mean(axis=0))
    tilt += x @ values["standard_slope"]
    population = np.unique(KNOWN["populations"], return_inverse=True)[1]
    tilt += values["population_shift"][population]
    mu = model["consensus"].get_value() ** values["trust"]
    joint = values["type_share"][:, None] * mu / mu.sum(axis=1, keepdims=True)
    average = joint.sum(axis=0)
    assert_close(values["average_prevalence"], average, "share of average items")
    by_item = joint * np.exp(tilt)[:, None]  # (items, types, classes)
    by_item /= by_item.sum(axis=(1, 2), keepdims=True)
    assert_close(values["prevalence"], by_item.sum(axis=1).mean(axis=0), "share over all items")
    odds = np.log(average) + values["population_shift"]
    share = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    assert_close(values["population_prevalence"], share, "shares by population")
    looks = values["competence"][:, None, None]
    by_rater = looks * model["consensus"].get_value() + (1 - looks) * values["guess"][:, None]
    total = 0.0
    for n in range(60):
        own = RESPONSES.item == n
        rows = by_rater[RESPONSES.rater[own], :, RESPONSES.label[own]]
        each = (by_item[n] * rows.prod(axis=0)[:, None]).sum(axis=0)
        total += np.log(each[SMALL["gold"][n]] if n in SMALL["gold"] else each.sum())
    with without_compilation():
        found = model.compile_logp([model["responses"]])(point)
    assert float(found) == pytest.approx(total, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["populations"], [*KNOWN]], ids="+".join)
def test_a_fit_predicts_its_own_items_and_others(names, tmp_path):
    """Fitted items from the result, its file and the model; a new one from what is known of it."""
    model = ItemTypes(RESPONSES, **chosen(names), **SMALL)
    result = bf.sample(model, 20, tune=30, chains=2, cores=1, **SEEDED)
    known, free = chosen(names), [n for n in range(60) if n not in SMALL["gold"]]
    expected = bf.label_probabilities(result).values[free]
    assert_close(bf.label_probabilities(result, model).values[free], expected, "again", atol=1e-9)
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as stored:
        for found in (
            bf.predict(result, RESPONSES, draws=40, **known),
            bf.predict(stored, RESPONSES, draws=40, **known),
            bf.predict(result, RESPONSES, draws=40, model=model, **known),
        ):
            probability = bf.label_probabilities(found).values[free]
            assert_close(probability, expected, "labels", atol=1e-9)
    new = {"item": ["other"], "rater": [0], "label": [1]}
    blank = bf.Responses.from_long(new, items=["new", "other"], classes=[0, 1])
    given = {name: each.set_axis(["new", "other"]) for name, each in chosen(names, [4, 9]).items()}
    found = bf.label_probabilities(bf.predict(result, blank, draws=40, **given)).values[0, 1]
    if names == ["populations"]:
        own = result["posterior"]["population_prevalence"].sel(population=KNOWN["populations"][4])
        assert found == pytest.approx(float(own[..., 1].mean()), abs=1e-9)
    refused(f"needs {names[0]}=", bf.predict, result, RESPONSES)
    for check in (bf.checks.item_difficulty, bf.checks.conditional_dependence):
        check(result, model, draws=10, random_seed=1)
    assert bf.decisions.difficulty(result, model).sizes["item"] == 60
    refused("sensible maximum", bf.find_map, model)


@pytest.mark.parametrize("name", ["covariates", "classifier"])
@pytest.mark.parametrize("make", [DawidSkene, ItemTypes])
def test_other_values_are_another_model(make, name):
    """Values of one pattern, by which items are merged alike; rounding makes no difference."""
    values = np.asarray(KNOWN[name], dtype=float)

    def digest(given):
        model = make(RESPONSES, **{name: given})
        return model["responses"].owner.op.observation.fingerprint["structure"]

    other = values + [[0.3, 0.0]] * TRUTH[:, None] if name == "covariates" else values[:, ::-1]
    assert digest(values) == digest(values * (1 + 1e-14)) != digest(other)


@pytest.mark.parametrize("make", [DawidSkene, ItemTypes])
def test_the_order_of_the_classes_does_not_matter(make):
    """The density is the same where all that belongs to classes is permuted with them."""
    rng, order = np.random.default_rng(4), [2, 0, 1]
    said, word = rng.integers(0, 3, (20, 4)), rng.dirichlet(np.ones(3), 20)
    known = {"populations": np.arange(20) % 2, "covariates": rng.normal(size=(20, 2))}
    one, other = (
        make(bf.Responses.from_matrix(said, classes=classes), classifier=word[:, classes], **known)
        for classes in ([0, 1, 2], order)
    )
    point, values = at_random(one)
    places = {
        dim: [one.coords[dim].index(name) for name in other.coords[dim]]
        for dim in ("class", "answer", "type")
        if dim in one.coords
    }
    moved = {}
    with without_compilation():
        for variable in other.free_RVs:
            value = values[variable.name]
            for axis, dim in enumerate(other.named_vars_to_dims.get(variable.name, ())):
                value = np.take(value, places[dim], axis) if dim in places else value
            if (transform := other.rvs_to_transforms[variable]) is not None:
                value = transform.forward(pt.as_tensor(value), *variable.owner.inputs).eval()
            moved[other.rvs_to_values[variable].name] = value
        expected = one.compile_logp(jacobian=False)(point)
        found = other.compile_logp(jacobian=False)(moved)
    assert found == pytest.approx(float(expected), rel=1e-9)
