"""Predictions for items of which populations, covariates or a classifier's word are known."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup
from bayesfuse.testing import assert_close

RNG = np.random.default_rng(0)
N = 60
TRUTH = RNG.integers(0, 3, N)
TABLE = np.where(RNG.random((N, 4)) < 0.75, TRUTH[:, None], RNG.integers(0, 3, (N, 4)))
TABLE[RNG.random((N, 4)) < 0.3] = -1
RESPONSES = bf.Responses.from_matrix(TABLE, classes=[0, 1, 2], raters=list("abcd"))
KNOWN = {
    "populations": np.array(["north", "south", "west"])[np.arange(N) % 3],
    "covariates": pd.DataFrame({"height": TRUTH + RNG.normal(size=N), "male": np.arange(N) % 2}),
    "classifier": RNG.dirichlet(np.ones(3), N) * 0.5 + 0.5 * np.eye(3)[TRUTH],
}
SOME = [["populations"], ["covariates", "classifier"], [*KNOWN]]


def chosen(names, rows=slice(None)):
    """Return arguments for some of the items, by name."""
    found = {}
    for name in names:
        value = KNOWN[name]
        if name == "covariates":
            found[name] = value.iloc[rows]
        elif name == "classifier":
            found[name] = pd.DataFrame(value, columns=[0, 1, 2]).iloc[rows]
        else:
            found[name] = pd.Series(value).iloc[rows]
    return found


@pytest.fixture(scope="module", params=SOME, ids="+".join)
def fitted(request):
    model = DawidSkene(RESPONSES, **chosen(request.param))
    return request.param, model, bf.find_map(model, iterations=2)


@pytest.mark.slow
def test_fitted_items_have_their_label_probabilities(fitted, tmp_path):
    """From the result, its file, the model, and in batches."""
    names, model, result = fitted
    expected = bf.label_probabilities(result)
    result.to_netcdf(tmp_path / "result.nc")
    stored, given = xr.load_datatree(tmp_path / "result.nc"), chosen(names)
    for fit, how in ((result, {}), (stored, {}), (result, {"model": model, "batch_size": 7})):
        found = bf.label_probabilities(bf.predict(fit, RESPONSES, **how, **given))
        assert_close(found.values, expected.values, "labels", atol=1e-9)


def test_new_items_by_hand(fitted):
    """Some items in another order, of other names, without responses: what is known decides."""
    names, _, result = fitted
    rows = np.array([5, 2, 40])
    given = {n: v.set_axis(["x", "y", "z"]) for n, v in chosen(names, rows).items()}
    blank = bf.Responses.from_long(
        {"item": ["x"], "rater": ["a"], "label": [1]}, items=["z", "x", "y"], classes=[0, 1, 2]
    )
    found = bf.label_probabilities(bf.predict(result, blank, **given))
    at = result["point"].dataset
    share = at["population_prevalence" if "populations" in names else "average_prevalence"].values
    odds = np.log(share[rows % 3] if "populations" in names else np.tile(share, (3, 1)))
    if "covariates" in names:
        x = KNOWN["covariates"].to_numpy()
        slope = at["slope"].values
        odds[:, 3 - slope.shape[1] :] += (x[rows] - x.mean(axis=0)) @ slope
    if "classifier" in names:
        word = np.log(KNOWN["classifier"])
        odds += float(at["classifier_scale"]) * (word[rows] - word.mean(axis=0))
    weight = np.exp(odds)
    weight[0] *= at["confusion"].sel(rater="a", answer=1).values
    total = weight / weight.sum(axis=1, keepdims=True)
    assert_close(found.sel(item=["x", "y", "z"]).values, total, "labels", atol=1e-9)


def test_what_is_missing_or_given_in_vain(fitted):
    names, _, result = fitted
    given = chosen(names)
    with pytest.raises(ModelError, match=f"give {names[0]}=. Got: no {names[0]}"):
        bf.predict(result, RESPONSES, **{n: v for n, v in given.items() if n != names[0]})
    if vain := [name for name in KNOWN if name not in names]:
        with pytest.raises(ModelError, match=f"{vain[0]}= is for labels that depend on it"):
            bf.predict(result, RESPONSES, **given, **chosen(vain[:1]))
    if "populations" in names:
        with pytest.raises(ResponsesError, match=r"among .*'west'.*Got: 'east'"):
            bf.predict(result, RESPONSES, **given | {"populations": ["east"] * N})
    if "covariates" in names:
        other = KNOWN["covariates"].rename(columns={"male": "female"})
        with pytest.raises(ResponsesError, match=r"columns \['height', 'male'\]"):
            bf.predict(result, RESPONSES, **given | {"covariates": other})


@pytest.mark.slow
def test_groups_of_raters_and_sequences_of_populations():
    twins = LatentGroup(RESPONSES, {"twins": ["a", "b"]}, **chosen(["populations"]))
    ten = bf.Sequences.from_lengths([10] * 6)
    town = dict(enumerate(["day", "night", "day", "day", "night", "night"]))
    chain = HiddenMarkov(RESPONSES, ten, populations=town)
    for model, given in (
        (twins, {"model": twins} | chosen(["populations"])),
        (chain, {"sequences": ten, "populations": town}),
    ):
        point = bf.find_map(model)
        found = bf.label_probabilities(bf.predict(point, RESPONSES, **given))
        assert_close(found.values, bf.label_probabilities(point).values, "labels", atol=1e-9)
    night = bf.Sequences.from_table(
        {"item": range(10, 20), "sequence": ["n"] * 10, "position": range(10)}
    )
    alone = {"sequences": night, "populations": {"n": "night"}}
    part = bf.predict(point, RESPONSES.take(np.arange(10, 20)), **alone)
    assert_close(bf.label_probabilities(part).values, found.values[10:20], "a night", atol=1e-9)


@pytest.mark.slow
def test_populations_that_a_model_of_ones_own_numbers():
    number = np.arange(N) % 2
    rows = np.ones((4, 3, 3)) + 2 * np.eye(3)
    with pm.Model() as model:
        labels = bf.Independent(pm.Dirichlet("share", np.ones((2, 3))), population=number)
        bf.observe(RESPONSES, labels=labels, raters=bf.Confusion(bf.dirichlet("rows", rows)))
    point = bf.find_map(model)
    expected = bf.label_probabilities(point).values
    found = bf.predict(point, RESPONSES, populations=number)
    assert_close(bf.label_probabilities(found).values, expected, "labels", atol=1e-9)
    with pytest.raises(ResponsesError, match="among"):
        bf.predict(point, RESPONSES, populations=number + 1)
    with pm.Model() as model:
        labels = bf.Independent(log_odds=pm.Normal("odds", shape=(N, 3)))
        bf.observe(RESPONSES, labels=labels, raters=bf.Confusion(bf.dirichlet("rows", rows)))
    with pytest.raises(ModelError, match="log_odds of 60 single items"):
        bf.predict(bf.find_map(model, iterations=2), RESPONSES)
