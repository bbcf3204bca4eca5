"""Predictions with raters that the fit has not seen, held-out items, and what is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from new_items import (
    NAMES,
    NEW_ROWS,
    bayes,
    by_rater,
    coin,
    fitted_table,
    likelihood,
    new_table,
)
from own_factors import ByItem, ByPopulation, Guessing

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField

FIT = {"draws": 9, "tune": 10, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
ITEMS = NAMES["items"]
SEQUENCES = bf.Sequences.from_lengths([24], items=ITEMS)
GRAPH = bf.Graph.grid((4, 6), items=ITEMS)

MORE_ROWS = [*NEW_ROWS, ("a", "zoe", "mid"), ("c", "zoe", "low"), ("b", "yan", "high")]
MORE = {"raters": ["zoe", "dan", "bob", "yan", "ann"]}


def probability(result):
    return bf.label_probabilities(result).values


def by_hand(result, expected_row):
    """Average Bayes' rule over all draws; ``expected_row`` is that of a new rater at a draw."""
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    found = []
    for n in range(draws.sizes["sample"]):
        draw = draws.isel(sample=n)
        row = np.asarray(expected_row(draw))
        rows = by_rater(draw["confusion"]) | {"zoe": row, "yan": row}
        found.append(bayes(draw["prevalence"].values, likelihood(MORE_ROWS, rows)))
    return np.mean(found, axis=0)


HALF = np.array([[8.0, 1.0, 1.0], [2.0, 6.0, 2.0], [1.0, 3.0, 8.0]])
MEAN = HALF / HALF.sum(axis=1, keepdims=True)
MIXED = bf.priors.mixture([0.8, 0.2], [HALF, np.ones((3, 3))])
NEWCOMERS = {
    "pool": ({"pooled": True}, "pool", lambda draw: draw["confusion_mean"]),
    "pool by class": (
        {"pooled": True, "raters": "class"},
        "pool",
        lambda draw: coin(draw["accuracy_mean"].values),
    ),
    "pool of coins": (
        {"pooled": True, "raters": "coin", "name": "inner"},
        "pool",
        lambda draw: coin(draw["accuracy_mean"].item()),
    ),
    "default": ({}, "prior", lambda _: np.where(np.eye(3), 0.6, 0.2)),
    "common prior": ({"confusion_prior": HALF}, "prior", lambda _: MEAN),
    "mixture": ({"confusion_prior": MIXED}, "prior", lambda _: 0.8 * MEAN + 0.2 / 3),
    "classes": (
        {"raters": "class", "confusion_prior": [[3, 1], [2, 2], [7, 3]]},
        "prior",
        lambda _: coin([0.75, 0.5, 0.7]),
    ),
    "coins": ({"raters": "coin", "confusion_prior": [4, 1]}, "prior", lambda _: coin(0.8)),
}


@pytest.mark.parametrize("name", NEWCOMERS)
def test_new_raters_have_the_expected_row(name):
    settings, source, row = NEWCOMERS[name]
    result = bf.sample(model := DawidSkene(fitted_table(), **settings), **FIT)
    plain = result.copy()
    if prefix := settings.get("name"):
        posterior = result["posterior"].dataset
        plain["posterior"] = posterior.rename(
            {own: own.removeprefix(f"{prefix}::") for own in posterior.data_vars}
        )
    expected = by_hand(plain, row)
    for found in (
        bf.predict(result, new_table(MORE_ROWS, **MORE)),
        bf.predict(result, new_table(MORE_ROWS, **MORE), model=model),
    ):
        np.testing.assert_allclose(probability(found), expected, atol=1e-12)
        sources = found["raters"]["source"].to_series().to_dict()
        known = dict.fromkeys(["dan", "bob", "ann"], "fitted")
        assert sources == {"zoe": source, "yan": source} | known


def test_the_expected_row_is_exact_for_one_answer():
    """The mean of the likelihood over rows drawn around the pool is that of the mean row."""
    result = bf.sample(DawidSkene(fitted_table(), pooled=True), **FIT)
    rows = [("a", "zoe", "mid"), ("a", "ann", "low")]
    found = bf.predict(result, new_table(rows, items=["a"], raters=["ann", "zoe"]))
    rng, each = np.random.default_rng(1), []
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    for n in range(18):
        draw = draws.isel(sample=n)
        shape = draw["confusion_concentration"].values[:, None] * draw["confusion_mean"].values
        drawn = rng.standard_gamma(np.maximum(shape, 1e-6), (40_000, 3, 3))
        answer = (drawn / drawn.sum(axis=-1, keepdims=True))[:, :, 2].mean(axis=0)
        own = by_rater(draw["confusion"])["ann"][:, 1]
        each.append(bayes(draw["prevalence"].values, (answer * own)[None]))
    # an entry of a row has a standard deviation below 1/2, so that of 40,000 has 1/400, of which
    # there are 18, and probabilities change at most as much as the logarithm of a likelihood / 4
    mean = draws["confusion_mean"].sel(answer="mid").min().item()
    bound = 4 / 400 / np.sqrt(18) / mean / 4
    np.testing.assert_allclose(probability(found), np.mean(each, axis=0), atol=bound)


@pytest.mark.parametrize("competence", [True, False])
def test_new_raters_of_item_types(competence):
    result = bf.sample(ItemTypes(fitted_table(), types=4, competence=competence), **FIT)
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    each = []
    for n in range(18):
        draw = draws.isel(sample=n)
        joint = draw["type_share"].values[:, None] * draw["class_of_type"].values  # type, class
        row = draw["consensus"].values
        if competence:
            looks = draw["competence_mean"].item()
            row = looks * row + (1 - looks) * draw["guess_mean"].values
        rows = by_rater(draw["type_confusion"].transpose("rater", "type", "answer"))
        by_type = likelihood(MORE_ROWS, rows | {"zoe": row, "yan": row})
        each.append(bayes(1.0, by_type @ joint))
    found = bf.predict(result, new_table(MORE_ROWS, **MORE))
    np.testing.assert_allclose(probability(found), np.mean(each, axis=0), atol=1e-12)
    source = found["raters"]["source"]
    assert source.values.tolist() == ["pool", "fitted", "fitted", "pool", "fitted"]


def test_all_raters_may_be_new():
    result = bf.sample(DawidSkene(fitted_table()), **FIT)
    rows = [("a", "zoe", "low"), ("b", "yan", "high")]
    table = new_table(rows, raters=["yan", "zoe"], items=["a", "b"])
    found = bf.predict(result, table)
    assert found["raters"]["source"].values.tolist() == ["prior", "prior"]
    shares = result["posterior"]["prevalence"].values.reshape(-1, 3)
    given = np.array([[0.2, 0.6, 0.2], [0.6, 0.2, 0.2]])
    expected = np.mean([bayes(share, given) for share in shares], axis=0)
    np.testing.assert_allclose(probability(found), expected, atol=1e-12)


def test_held_out_items_have_nearly_the_labels_of_a_fit_of_all():
    """The estimates from n and n + m items differ by m / (n + m) of the posterior variance.

    (Of estimates that use one sample more, V(n) − V(n + m), if the variance falls as 1 / n.)
    """
    n, m = 2000, 200
    share = [0.55, 0.3, 0.15]
    confusion = np.array(
        [
            [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]],
            [[0.6, 0.1, 0.3], [0.2, 0.75, 0.05], [0.05, 0.05, 0.9]],
            [[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.3, 0.6]],
            [[0.9, 0.05, 0.05], [0.25, 0.5, 0.25], [0.1, 0.1, 0.8]],
            [[0.5, 0.3, 0.2], [0.05, 0.9, 0.05], [0.2, 0.2, 0.6]],
        ]
    )
    made = bf.datasets.simulate_dawid_skene(
        n + m, 5, 3, per_item=4, prevalence=share, confusion=confusion, random_seed=7
    )
    settings = FIT | {"draws": 400, "tune": 200, "log_likelihood": False}
    table = made.responses
    first, later = table.take(np.arange(n)), table.take(np.arange(n, n + m))
    result = bf.sample(DawidSkene(first), **settings)
    whole = bf.sample(DawidSkene(table), **settings)["label_posterior"].dataset
    found = bf.predict(result, later, draws=800)["label_posterior"].dataset
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    rows = draws["confusion"].transpose("sample", "rater", "class", "answer").values
    given = np.ones((800, m, 3))
    for item, rater, label in zip(later.item, later.rater, later.label, strict=True):
        given[:, item] *= rows[:, rater, :, label]
    given *= draws["prevalence"].transpose("sample", "class").values[:, None]
    spread = (given / given.sum(axis=-1, keepdims=True)).std(axis=0)
    whole = whole.isel(item=slice(n, None))
    error = np.sqrt(spread**2 * m / (n + m) + found["mcse"].values ** 2 + whole["mcse"] ** 2)
    off = np.abs(found["probability"] - whole["probability"]) / (error + 1e-6)
    assert off.max() < 5, off.argmax(...)
    assert spread.mean() < 0.03  # so all this says something
    truth = np.asarray(made.truth)[n:]
    assert (found["probability"].values.argmax(axis=1) == truth).mean() > 0.8


# ---------------------------------------------------------------- factors and models of one's own


def drawn(**values):
    """Return a result of PyMC alone, in which all draws are the same."""
    of = {name: ([f"{name}_{at}" for at in range(v.ndim)], v) for name, v in values.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(of).expand_dims(chain=2, draw=3)})


def regression(responses):
    with pm.Model(coords={"rater": responses.raters.tolist()}) as model:
        shares = pm.Dirichlet("shares", np.ones(3))
        logit = pm.Normal("logit", 1.0, 1.0, dims="rater")
        channel = bf.OneCoin(pm.math.sigmoid(logit))
        bf.observe(responses, labels=bf.Independent(shares), raters=channel)
    return model


@pytest.mark.slow
def test_models_of_ones_own():
    model = regression(fitted_table())
    result = bf.sample(model, **FIT)
    with pytest.raises(ModelError, match=r"give model=. Got: accuracy, and no model"):
        bf.predict(result, new_table())
    found = bf.predict(result, fitted_table(), model=model)
    np.testing.assert_allclose(probability(found), probability(result), rtol=0, atol=1e-12)
    with pytest.raises(
        ModelError, match=r"rater 'zoe' \(2 such\); for accuracy, the model says no"
    ):
        bf.predict(result, new_table(MORE_ROWS, **MORE), model=model)


def test_data_and_constants_are_found():
    responses = fitted_table()
    confusion = np.tile([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], (5, 1, 1))
    with pm.Model() as model:
        shares = pm.Data("shares", [0.5, 0.2, 0.3])
        pm.Normal("unused")
        bf.observe(responses, labels=bf.Independent(shares), raters=bf.Confusion(confusion))
    result = bf.sample(model, sampler="nuts", nuts_sampler="pymc", **FIT)
    rows = dict.fromkeys(NAMES["raters"], confusion[0])
    expected = bayes([0.5, 0.2, 0.3], likelihood(NEW_ROWS, rows))
    for given in ({}, {"model": model}):
        found = bf.predict(result, new_table(), **given)
        np.testing.assert_allclose(probability(found), expected, atol=1e-12)


def test_channels_of_ones_own_need_the_model():
    responses = fitted_table()
    with pm.Model() as model:
        ease = pm.Beta("ease", 2, 2)
        skill = pm.Uniform("skill", 1 / 3, 1, shape=5)
        bf.observe(responses, labels=bf.Independent([0.5, 0.2, 0.3]), raters=Guessing(ease, skill))
    result = bf.sample(model, **FIT)
    with pytest.raises(ModelError, match=r"not of this package.* Got: such raters, and no model"):
        bf.predict(result, responses)
    found = bf.predict(result, responses, model=model)
    np.testing.assert_allclose(probability(found), probability(result), rtol=0, atol=1e-12)


def test_priors_of_ones_own_say_how_they_are_made():
    responses = fitted_table()
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones((2, 3)))
        population = np.arange(24) % 2
        bf.observe(
            responses,
            labels=ByPopulation(shares, population),
            raters=bf.OneCoin([0.9, 0.8, 0.7, 0.6, 0.8]),
        )
    result = drawn(shares=np.full((2, 3), 1 / 3))
    with pytest.raises(ModelError, match=r"settings\(\) or anew\(\).* ByPopulation, which cannot"):
        bf.predict(result, responses, model=model)


@pytest.mark.parametrize("of", ["labels", "raters"])
def test_parameters_of_single_items_are_refused(of):
    """Also for a table of as many items."""
    responses = fitted_table()
    with pm.Model() as model:
        ease = pm.Beta("ease", 2, 2, shape=24)
        raters = Guessing(ease, np.full(5, 0.8)) if of == "raters" else bf.OneCoin(np.full(5, 0.8))
        odds = pm.Normal("odds", shape=(24, 3))
        labels = ByItem(odds) if of == "labels" else bf.Independent([0.5, 0.2, 0.3])
        bf.observe(responses, labels=labels, raters=raters)
    result = drawn(ease=np.full(24, 0.5), odds=np.zeros((24, 3)))
    name = {"labels": "log_odds", "raters": "ease"}[of]
    with pytest.raises(ModelError, match=f"Got: {name}, which belongs to single items"):
        bf.predict(result, responses, model=model)


def test_large_values_need_the_model(monkeypatch):
    """Those of many numbers, which a file has no room for among its attributes."""
    monkeypatch.setattr("bayesfuse.pymc.described.LARGEST", 8)
    model, table = DawidSkene(fitted_table()), new_table(MORE_ROWS, **MORE)
    result = bf.find_map(model)
    with pytest.raises(ModelError, match=r"'zoe' .*; for confusion, they .* so give model="):
        bf.predict(result, table)
    expected = np.where(np.eye(3), 0.6, 0.2)
    rows = by_rater(result["point"]["confusion"]) | {"zoe": expected, "yan": expected}
    given = bayes(result["point"]["prevalence"].values, likelihood(MORE_ROWS, rows))
    found = probability(bf.predict(result, table, model=model))
    np.testing.assert_allclose(found, given, atol=1e-12)


def test_new_raters_are_in_no_group():
    """With a rule for their rows, as LatentGroup has where there are no groups."""
    result = bf.find_map(LatentGroup(fitted_table(), []))
    plain = bf.find_map(DawidSkene(fitted_table()))
    one, other = (bf.predict(fit, new_table(MORE_ROWS, **MORE)) for fit in (result, plain))
    np.testing.assert_allclose(probability(one), probability(other), atol=1e-6)


# ---------------------------------------------------------------- what is refused


@pytest.fixture(scope="module")
def points():
    responses = fitted_table()
    return {
        "plain": bf.find_map(DawidSkene(responses)),
        "by name": bf.find_map(DawidSkene(responses, confusion_prior={"bob": HALF})),
        "groups": bf.find_map(LatentGroup(responses, [["ann", "bob"], ["cyd", "dan"]])),
        "chain": bf.find_map(HiddenMarkov(responses, SEQUENCES)),
        "graph": bf.find_map(MarkovRandomField(responses, GRAPH)),
    }


REFUSED = {
    "other classes": (
        "plain",
        lambda: new_table([("a", "ann", "top")], classes=["top", "low"]),
        {},
        r"classes of the result.* Got: 'top' \(1 such\), .* \['high', 'low', 'mid'\]",
    ),
    "priors that differ": (
        "by name",
        lambda: new_table(MORE_ROWS, **MORE),
        {},
        r"Got: rater 'zoe' \(2 such\); for confusion, the priors of the fitted raters differ",
    ),
    "a new rater beside groups": (
        "groups",
        lambda: new_table(MORE_ROWS, **MORE),
        {},
        r"Got: rater 'zoe' .* rater_confusion, nothing tells which raters they share",
    ),
    "no sequences": ("chain", new_table, {}, r"give sequences=. Got: no sequences"),
    "no graph": ("graph", new_table, {}, r"give graph=. Got: no graph"),
    "sequences in vain": (
        "plain",
        new_table,
        {"sequences": SEQUENCES},
        "Got: sequences for a result of Independent labels",
    ),
    "a graph in vain": (
        "chain",
        new_table,
        {"sequences": SEQUENCES, "graph": GRAPH},
        "Got: graph for a result of MarkovChain labels",
    ),
    "no Sequences": ("chain", new_table, {"sequences": [4]}, r"bf.Sequences.*Got: list"),
    "no Responses": ("plain", lambda: [[0, 1]], {}, r"bf.Responses.*Got: list"),
    "draws": ("plain", new_table, {"draws": 0}, r"draws must be .* Got: 0"),
    "batches": ("plain", new_table, {"batch_size": 0.5}, r"batch_size must be .* Got: 0.5"),
    "counts in sequence": (
        "chain",
        lambda: bf.Responses.from_counts([["low", "mid"]], [3], raters=["ann", "bob"]),
        {"sequences": bf.Sequences.from_lengths([1])},
        r"responses.expand\(\). Got: a table of counts",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(points, name):
    kind, table, given, told = REFUSED[name]
    with pytest.raises(ModelError, match=told):
        bf.predict(points[kind], table(), **given)


def test_structures_of_other_items_are_refused(points):
    with pytest.raises(ResponsesError, match="Items in sequence must be items of the responses"):
        bf.predict(points["chain"], new_table(), sequences=SEQUENCES)
    with pytest.raises(ResponsesError, match="items of the responses"):
        bf.predict(points["graph"], new_table(), graph=GRAPH)


def test_results_that_do_not_know_their_parameters(points):
    without = {name: points["plain"].copy() for name in ("point", "constant_data")}
    for name, result in without.items():
        del result[name]
    for what, told in (
        (bf.predict(points["plain"], new_table()), "without this note, and no model"),
        ({"a": 1}, r"xarray.DataTree.* Got: dict"),
        (without["point"], r"group posterior or point.* Got: no 'prevalence' among \[\]"),
        (without["constant_data"], "group constant_data of results"),
    ):
        with pytest.raises(ModelError, match=told):
            bf.predict(what, new_table())
    less = points["plain"].copy()
    less["point"] = less["point"].dataset.drop_vars("prevalence")
    with pytest.raises(ModelError, match=r"all parameters.* Got: no 'prevalence' among"):
        bf.predict(less, new_table())
    with pytest.raises(ModelError, match="another rater channel"):
        other = DawidSkene(fitted_table(), raters="coin")
        bf.predict(points["plain"], new_table(), model=other)
