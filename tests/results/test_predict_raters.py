"""Predictions with new raters, for items of which something is known, and what is refused."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from new_items import NAMES, NEW_ROWS, bayes, by_rater, coin, fitted_table, likelihood, new_table
from own_factors import ByItem, Guessing
from refusals import refused, refused_as, refused_table

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField
from bayesfuse.testing import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.NewRatersWarning")
FIT = {"draws": 9, "tune": 10, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
ITEMS = NAMES["items"]
SEQUENCES = bf.Sequences.from_lengths([24], items=ITEMS)
GRAPH = bf.Graph.grid((4, 6), items=ITEMS)

MORE_ROWS = [*NEW_ROWS, ("a", "zoe", "mid"), ("c", "zoe", "low"), ("b", "yan", "high")]
MORE = {"raters": ["zoe", "dan", "bob", "yan", "ann"]}


def more_table():
    return new_table(MORE_ROWS, **MORE)


def probability(result):
    return bf.label_probabilities(result).values


def by_hand(result, expected_row, prefix=""):
    """Sum joint probabilities over all draws; ``expected_row`` is that of a new rater at a draw."""
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    found = []
    for n in range(draws.sizes["sample"]):
        draw = draws.isel(sample=n)
        row = np.asarray(expected_row(draw))
        rows = by_rater(draw[f"{prefix}confusion"]) | {"zoe": row, "yan": row}
        prevalence = draw[f"{prefix}prevalence"].values
        found.append(prevalence * likelihood(MORE_ROWS, rows))
    return bayes(1.0, np.sum(found, axis=0))


HALF = np.array([[8.0, 1.0, 1.0], [2.0, 6.0, 2.0], [1.0, 3.0, 8.0]])
MEAN = HALF / HALF.sum(axis=1, keepdims=True)
MIXED = bf.priors.mixture([0.8, 0.2], [HALF, np.ones((3, 3))])
NEWCOMERS = {
    "pool": ({"pooled": True}, lambda draw: draw["confusion_mean"]),
    "pool of coins": (
        {"pooled": True, "raters": "coin", "name": "inner"},
        lambda draw: coin(draw["inner::accuracy_mean"].item()),
    ),
    "default": ({}, lambda _: np.where(np.eye(3), 0.6, 0.2)),
    "mixture": ({"confusion_prior": MIXED}, lambda _: 0.8 * MEAN + 0.2 / 3),
    "classes": (
        {"raters": "class", "confusion_prior": [[3, 1], [2, 2], [7, 3]]},
        lambda _: coin([0.75, 0.5, 0.7]),
    ),
}


@pytest.mark.parametrize("name", NEWCOMERS)
def test_new_raters_have_the_expected_row(name):
    """Exactly so where a new rater answers once: the mean of likelihoods is that of rows."""
    settings, row = NEWCOMERS[name]
    result = bf.sample(model := DawidSkene(fitted_table(), **settings), **FIT)
    expected = by_hand(result, row, "inner::" if "name" in settings else "")
    source = "pool" if "pooled" in settings else "prior"
    for given in ({}, {"model": model}):
        found = bf.predict(result, more_table(), **given)
        np.testing.assert_allclose(probability(found), expected, atol=1e-12)
        sources = found["raters"]["source"].values.tolist()
        assert sources == [source, "fitted", "fitted", source, "fitted"]


@pytest.mark.parametrize(("guesses", "clean"), [("own", False), ("even", False), ("own", True)])
def test_new_raters_of_item_types(guesses, clean):
    result = bf.sample(ItemTypes(fitted_table(), guesses=guesses, clean=clean), **FIT)
    mu = result["constant_data"]["consensus"].values
    draws = result["posterior"].dataset.stack(sample=("chain", "draw"))
    each = []
    for n in range(18):
        draw = draws.isel(sample=n)
        said = mu ** draw["trust"].item()
        joint = draw["type_share"].values[:, None] * said / said.sum(axis=1, keepdims=True)
        looks = draw["competence"].values
        guess = np.full((len(looks), mu.shape[1]), 1 / mu.shape[1])
        mean = guess[0]
        if guesses == "own":
            guess, mean = (
                draw["guess"].transpose("rater", "answer").values,
                draw["guess_mean"].values,
            )
        looks, guess = looks[:, None, None], guess[:, None]
        rows = by_rater(looks * mu + (1 - looks) * guess)
        looks = draw["competence_mean"].item()
        row = looks * mu + (1 - looks) * mean
        if clean:
            of_raters = by_rater(draw["clean_confusion"].transpose("rater", "class", "answer"))
            for rater, own in of_raters.items():
                rows[rater][-3:] = own
            prior = bf.priors.diagonal(3)
            row[-3:] = prior / prior.sum(axis=1, keepdims=True)
        by_type = likelihood(MORE_ROWS, rows | {"zoe": row, "yan": row})
        each.append(by_type @ joint)
    found = bf.predict(result, more_table())
    expected = bayes(1.0, np.sum(each, axis=0))
    np.testing.assert_allclose(probability(found), expected, atol=1e-12)
    new = "prior" if clean else "pool"
    sources = found["raters"]["source"].values.tolist()
    assert sources == [new, "fitted", "fitted", new, "fitted"]


def drawn(**values):
    """Return a result of PyMC alone, in which all draws are the same."""
    of = {name: ([f"{name}_{at}" for at in range(v.ndim)], v) for name, v in values.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(of).expand_dims(chain=2, draw=3)})


SHARES, COIN = bf.build.Independent([0.5, 0.2, 0.3]), bf.build.OneCoin([0.9, 0.8, 0.7, 0.6, 0.8])


def test_data_and_constants_are_found():
    confusion = np.tile([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], (5, 1, 1))
    with pm.Model() as model:
        labels = bf.build.Independent(pm.Data("shares", [0.5, 0.2, 0.3]))
        pm.Normal("unused", shape=2)
        bf.build.observe(fitted_table(), labels=labels, raters=bf.build.Confusion(confusion))
    rows = dict.fromkeys(NAMES["raters"], confusion[0])
    expected = bayes([0.5, 0.2, 0.3], likelihood(NEW_ROWS, rows))
    found = bf.predict(drawn(unused=np.zeros(2)), new_table(), model=model)
    np.testing.assert_allclose(probability(found), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: bf.build.OneCoin(pm.math.sigmoid(pm.Normal("logit", 1, 1, shape=5))),
            r"give model=. Got: a result without accuracy, an expr",
        ),
        (
            lambda: Guessing(pm.Beta("ease", 2, 2), pm.Uniform("skill", 1 / 3, 1, shape=5)),
            r"Got: a result without its raters, not of this package",
        ),
    ],
)
def test_expressions_and_user_defined_channels_need_the_model(make, told):
    with pm.Model() as model:
        bf.build.observe(fitted_table(), labels=SHARES, raters=make())
    result = bf.find_map(model, iterations=3)
    refused(told, bf.predict, result, fitted_table())
    found = bf.predict(result, fitted_table(), model=model)
    np.testing.assert_allclose(probability(found), probability(result), rtol=0, atol=1e-12)
    with pytest.raises(ModelError, match=r"'zoe' \(2 such\); for .*, the model has no rows"):
        bf.predict(result, more_table(), model=model)


class GuessingMore(Guessing):
    def __init__(self, ease, skill, more):
        super().__init__(ease, skill)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: (ByItem(pm.Normal("odds", shape=(24, 3))), COIN), "Got: log_odds, which belongs"),
        (lambda: (SHARES, Guessing(pm.Beta("ease", 2, 2, shape=24), np.full(5, 0.8))), "Got: ease"),
        (
            lambda: (SHARES, GuessingMore(0.5, np.full(5, 0.8), 1)),
            r"settings\(\) or rebuild_for\(\).* GuessingMore, which cannot",
        ),
    ],
)
def test_factors_without_inputs_of_new_items_are_refused(make, told):
    """Also for a table of as many items."""
    with pm.Model() as model:
        labels, raters = make()
        bf.build.observe(fitted_table(), labels=labels, raters=raters)
    result = drawn(ease=np.full(24, 0.5), odds=np.zeros((24, 3)))
    refused(told, bf.predict, result, fitted_table(), model=model)


def test_new_raters_are_in_no_group():
    """With a rule for their rows, as LatentGroup has where there are no groups."""
    table, steps = fitted_table(), {"iterations": 5, "tolerance": 0}
    result = bf.find_map(LatentGroup(table, []), **steps)
    plain = bf.find_map(DawidSkene(table), **steps)
    one, other = (bf.predict(fit, more_table()) for fit in (result, plain))
    np.testing.assert_allclose(probability(one), probability(other), atol=1e-9)


@pytest.fixture(scope="module")
def points():
    responses = fitted_table()
    return {
        "plain": bf.find_map(DawidSkene(responses)),
        "by name": bf.find_map(DawidSkene(responses, confusion_prior={"bob": HALF})),
        "groups": bf.find_map(LatentGroup(responses, [["ann", "bob"], ["cyd", "dan"]])),
        "chain": bf.find_map(HiddenMarkov(responses, SEQUENCES, raters="confusion")),
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
        more_table,
        {},
        r"Got: rater 'zoe' \(2 such\); for confusion, the priors of the fitted raters differ",
    ),
    "a new rater beside groups": (
        "groups",
        more_table,
        {},
        r"Got: rater 'zoe' .* rater_confusion, the group of a new rater is unknown",
    ),
    "no sequences": ("chain", new_table, {}, "needs sequences="),
    "no graph": ("graph", new_table, {}, "needs graph="),
    "sequences in vain": ("plain", new_table, {"sequences": SEQUENCES}, "Got: sequences="),
    "other items": ("chain", new_table, {"sequences": SEQUENCES}, "must be items of the responses"),
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
    refused_as((ModelError, ResponsesError), told, bf.predict, points[kind], table(), **given)


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
SOME = [
    ["populations"],
    pytest.param(["covariates", "classifier"], marks=pytest.mark.slow),
    [*KNOWN],
]


def chosen(names, rows=slice(None)):
    """Return arguments for some of the items, by name."""
    found = {"populations": pd.Series, "covariates": pd.DataFrame, "classifier": pd.DataFrame}
    return {name: found[name](KNOWN[name]).iloc[rows] for name in names}


@pytest.fixture(scope="module", params=SOME, ids="+".join)
def fitted(request):
    model = DawidSkene(RESPONSES, **chosen(request.param))
    return request.param, model, bf.find_map(model, iterations=2)


@pytest.mark.slow
def test_fitted_items_have_their_label_probabilities(fitted, tmp_path, monkeypatch):
    """From the result, its file, the model, and in batches."""
    names, model, result = fitted
    expected = bf.label_probabilities(result)
    result.to_netcdf(tmp_path / "result.nc")
    stored, given = xr.load_datatree(tmp_path / "result.nc"), chosen(names)
    for fit, how, most in ((result, {}, 1000), (stored, {}, 1000), (result, {"model": model}, 7)):
        monkeypatch.setattr("bayesfuse.results.probabilities.BATCH", most)
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


def test_missing_and_superfluous_inputs_are_refused(fitted):
    names, _, result = fitted
    given = chosen(names)
    with pytest.raises(ModelError, match=f"needs .*{names[0]}="):
        bf.predict(result, RESPONSES, **{n: v for n, v in given.items() if n != names[0]})
    if vain := [name for name in KNOWN if name not in names]:
        with pytest.raises(ModelError, match=f"needs .* Got: .*{vain[0]}="):
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
def test_populations_numbered_by_a_user_defined_model():
    number = np.arange(N) % 2
    rows = np.ones((4, 3, 3)) + 2 * np.eye(3)
    with pm.Model() as model:
        labels = bf.build.Independent(pm.Dirichlet("share", np.ones((2, 3))), population=number)
        bf.build.observe(
            RESPONSES, labels=labels, raters=bf.build.Confusion(bf.build.dirichlet("rows", rows))
        )
    point = bf.find_map(model)
    expected = bf.label_probabilities(point).values
    found = bf.predict(point, RESPONSES, populations=number)
    assert_close(bf.label_probabilities(found).values, expected, "labels", atol=1e-9)
    refused_table("among", bf.predict, point, RESPONSES, populations=number + 1)
    with pm.Model() as model:
        labels = bf.build.Independent(log_odds=pm.Normal("odds", shape=(N, 3)))
        bf.build.observe(
            RESPONSES, labels=labels, raters=bf.build.Confusion(bf.build.dirichlet("rows", rows))
        )
    refused("log_odds of 60 single items", bf.predict, bf.find_map(model, iterations=2), RESPONSES)
