"""Item types where populations, covariates or a classifier's word are known of the items."""

import numpy as np
import pandas as pd
import pytensor.tensor as pt
import pytest
import xarray as xr
from typed_crowds import hard_crowd

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, ItemTypes
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}
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


def at_random(model, seed=1):
    """Return a point near PyMC's first, and a function for the values of variables there."""
    rng = np.random.default_rng(seed)
    point = {k: v + rng.normal(0, 0.5, np.shape(v)) for k, v in model.initial_point(3).items()}
    variables = {v.name: v for v in [*model.free_RVs, *model.deterministics]}
    with plain_python():
        return point, value_function(model, variables)(point)


def test_everything_together_by_hand():
    """The density and the shares, from types, tilts and responses one by one."""
    model = ItemTypes(RESPONSES, **KNOWN, **SMALL)
    point, values = at_random(model)
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
    with plain_python():
        found = model.compile_logp([model["responses"]])(point)
    assert float(found) == pytest.approx(total, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["populations"], [*KNOWN]], ids="+".join)
def test_a_fit_predicts_its_own_items_and_others(names, tmp_path):
    """Fitted items from the result, its file and the model; a new one from what is known of it."""
    model = ItemTypes(RESPONSES, **chosen(names), **SMALL)
    result = bf.sample(model, 20, tune=30, chains=2, cores=1, **QUIET)
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
    with pytest.raises(ModelError, match=f"give {names[0]}="):
        bf.predict(result, RESPONSES)
    for check in (bf.checks.item_difficulty, bf.checks.conditional_dependence):
        check(result, model, draws=10, random_seed=1)
    assert bf.difficulty(result, model).sizes["item"] == 60
    with pytest.raises(ModelError, match="sensible maximum"):
        bf.find_map(model)


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
    with plain_python():
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
