"""Predictions of new items: against the fit, Bayes' rule and enumeration; in batches."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from new_items import (
    NAMES,
    NEW_ROWS,
    bayes,
    by_enumeration,
    by_rater,
    fitted_table,
    likelihood,
    new_table,
)
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup, MarkovRandomField

# Small tables: what is asked here is not how near a fit is to the posterior.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")

FIT = {"draws": 4, "tune": 5, "chains": 2, "random_seed": 1, "progressbar": False, "quiet": True}
ITEMS = NAMES["items"]
SEQUENCES = bf.Sequences.from_lengths([5, 1, 11, 7], items=ITEMS[12:] + ITEMS[:12])
TREE = bf.Graph.from_edges([(ITEMS[n], ITEMS[n // 2]) for n in range(1, 20)], items=ITEMS)
INSIDE = bf.priors.diagonal(3, weight=12)  # whose mode has no zeros
NEW_ITEMS = ["a", "b", "c", "d"]
RATERS = {"raters": NAMES["raters"], "classes": NAMES["classes"]}
EDGES = [("a", "b"), ("b", "c"), ("b", "d")]
NEW_TREE = bf.Graph.from_edges(EDGES, items=NEW_ITEMS)


def probability(result):
    return bf.label_probabilities(result).values


PLACED = {"sequences": SEQUENCES}
OWN = {
    "confusion": (DawidSkene, {}),
    "coin": (lambda r: DawidSkene(r, raters="coin", name="inner"), {}),
    "pooled": (lambda r: DawidSkene(r, pooled=True), {}),
    "given groups": (lambda r: LatentGroup(r, [["ann", "bob"], ["cyd", "dan"]]), {}),
    "inferred groups": (lambda r: LatentGroup(r, "posterior"), {}),
    "chain": (lambda r: HiddenMarkov(r, SEQUENCES, raters="confusion"), PLACED),
    "stationary": (lambda r: HiddenMarkov(r, SEQUENCES, initial="stationary"), PLACED),
    "forest": (lambda r: MarkovRandomField(r, TREE), {"graph": TREE}),
    "types": (ItemTypes, {}),
    "clean types": (lambda r: ItemTypes(r, clean=True), {}),
    "types, even guesses": (lambda r: ItemTypes(r, consensus="levels", guesses="even"), {}),
}


@pytest.mark.parametrize("name", with_slow(OWN, "inferred groups"))
def test_the_fitted_items_have_the_fitted_labels(name, tmp_path):
    """With all draws, from the result, from its file and by the model; raters in another order."""
    make, places = OWN[name]
    responses = fitted_table()
    model = make(responses)
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    raters = ["dan", "eve", "ann", "cyd", "bob"]
    shuffled = bf.Responses.from_long(responses.to_frame(), items=ITEMS, raters=raters)
    expected = result["label_posterior"].dataset
    for predicted in (
        bf.predict(result, responses, draws=1000, **places),
        bf.predict(loaded, responses, draws=8, **places),
        bf.predict(result, shuffled, draws=8, model=model, **places),
    ):
        found = predicted["label_posterior"].dataset
        assert found["class"].values.tolist() == NAMES["classes"]
        for of in ("probability", "mcse"):
            np.testing.assert_allclose(found[of], expected[of], rtol=0, atol=1e-12)
        for said in ("exact", "method"):
            assert found.attrs[said] == expected.attrs[said]
        assert predicted.attrs["draws"] == 8
        assert set(predicted["raters"]["source"].values.tolist()) == {"fitted"}


@pytest.fixture(scope="module")
def point():
    return bf.find_map(DawidSkene(fitted_table(), confusion_prior=INSIDE))


@pytest.mark.parametrize("gold", [None, {"old 0": "low", "old 1": "high"}])
def test_a_point_is_bayes_rule(gold):
    """Known labels inform the parameters; new items with the same responses are not known."""
    responses = fitted_table()
    point = bf.find_map(DawidSkene(responses, confusion_prior=INSIDE, gold=gold))
    rows = by_rater(point["point"]["confusion"])
    prevalence = point["point"]["prevalence"].values
    for table, given in ((new_table(), NEW_ROWS), (responses, responses.to_frame().values)):
        found = bf.predict(point, table)
        items = table.items.tolist()
        expected = bayes(prevalence, likelihood(given, rows, items=items))
        labels = found["label_posterior"].dataset
        assert labels["item"].values.tolist() == items
        np.testing.assert_allclose(labels["probability"], expected, atol=1e-12)
        assert "mcse" not in labels and found.attrs["draws"] == 1


def test_draws_are_of_all_chains():
    result = bf.sample(DawidSkene(fitted_table()), **(FIT | {"draws": 9, "chains": 3}))
    found = bf.predict(result, new_table(), draws=7)  # three of each
    draws = result["posterior"].dataset.isel(draw=[0, 3, 6])
    joint = joint_of_new(draws)
    assert found.attrs["draws"] == 9
    np.testing.assert_allclose(probability(found), bayes(1.0, joint.sum((0, 1))), atol=1e-12)
    alone = bf.predict(result.isel(chain=1), new_table(), draws=3)
    np.testing.assert_allclose(probability(alone), bayes(1.0, joint[1].sum(0)), atol=1e-12)


def joint_of_new(draws):
    """Return p(y, x | θ) of the new items, (chain, draw, item, class)."""
    sizes = draws.sizes["chain"], draws.sizes["draw"]
    joint = np.empty((*sizes, len(NEW_ITEMS), 3))
    for chain, draw in np.ndindex(sizes):
        at = draws.isel(chain=chain, draw=draw)
        given = likelihood(NEW_ROWS, by_rater(at["confusion"]))
        joint[chain, draw] = at["prevalence"].values * given
    return joint


def test_draws_count_as_much_as_they_expect_a_new_item():
    """As in a fit with the item; those of the fit, by name and responses, have informed all."""
    responses = fitted_table()
    result = bf.sample(DawidSkene(responses), **(FIT | {"draws": 36}))
    old = responses.to_frame().values.tolist()
    rows = [row for row in old if row[0] in ("old 1", "old 2")] + [("old 2", "ann", "low")]
    table = new_table([*NEW_ROWS, *rows], items=["old 2", *NEW_ITEMS, "old 1"], **RATERS)
    found = bf.predict(result, table)["label_posterior"].dataset
    fitted = result["label_posterior"]["probability"].sel(item="old 1")
    assert abs(found["probability"].sel(item="old 1") - fitted).max() < 1e-12
    joint = joint_of_new(result["posterior"].dataset)
    new = found.sel(item=NEW_ITEMS)
    expected = bayes(1.0, joint.sum((0, 1)))
    np.testing.assert_allclose(new["probability"], expected, atol=1e-12)
    changed = found["probability"].sel(item="old 2").values
    assert np.abs(changed - result["label_posterior"]["probability"].sel(item="old 2")).max() > 1e-3
    weight = joint.sum(axis=-1, keepdims=True) / joint.sum(axis=-1, keepdims=True).mean((0, 1))
    gap = weight * (joint / joint.sum(axis=-1, keepdims=True) - expected)
    batches = gap.reshape(12, 6, *gap.shape[2:]).mean(axis=1)  # six draws each
    np.testing.assert_allclose(new["mcse"], batches.std(axis=0, ddof=1) / np.sqrt(12), atol=1e-12)


@pytest.mark.parametrize("trust", ["infer", 1.8, "paper"])
def test_graphs_against_all_labellings(trust):
    shares = np.array([0.5, 0.2, 0.3])
    model = MarkovRandomField(
        fitted_table(), TREE, trust=trust, prevalence=shares, confusion_prior=INSIDE
    )
    result = bf.find_map(model)
    halves = {
        1.8: 0.9,
        "paper": 5 / 2,
    }  # trust is twice the coupling, of the paper as many as raters
    coupling = halves[trust] if trust in halves else result["point"]["coupling"].item()
    given = likelihood(NEW_ROWS, by_rater(result["point"]["confusion"]))
    place = {name: n for n, name in enumerate(NEW_ITEMS)}

    def weight(labels):
        agree = sum(labels[place[a]] == labels[place[b]] for a, b in EDGES)
        return (shares[list(labels)] * given[np.arange(4), labels]).prod() * np.exp(
            coupling * agree
        )

    found = bf.predict(result, new_table(), graph=NEW_TREE)
    np.testing.assert_allclose(probability(found), by_enumeration(weight, 4), atol=1e-9)
    assert found["label_posterior"].attrs["exact"] == 1
    circle = bf.Graph.from_edges([*EDGES, ("c", "d")])
    loopy = bf.predict(result, new_table(), graph=circle)["label_posterior"]
    assert (loopy.attrs["exact"], loopy.attrs["converged"]) == (0, 1)
    assert loopy.attrs["method"] == "belief propagation"


def test_some_classes_and_raters(point):
    """The answer does not depend on which other names the new table has."""
    rows = [row for row in NEW_ROWS if row[2] != "high"]
    full = bf.predict(point, new_table(rows, raters=NAMES["raters"], classes=NAMES["classes"]))
    few = bf.predict(point, new_table(rows, classes=["mid", "low"]))
    np.testing.assert_array_equal(probability(few), probability(full))
    frame = pd.DataFrame(rows, columns=["who", "by", "said"])
    named = bf.predict(point, frame, item="who", rater="by", label="said")
    answered = bf.label_probabilities(full).sel(item=["a", "b", "d"])
    xr.testing.assert_equal(bf.label_probabilities(named), answered)
    assert few["label_posterior"]["class"].values.tolist() == NAMES["classes"]
    assert few["raters"]["rater"].values.tolist() == ["dan", "bob", "ann"]
    with pytest.warns(UserWarning, match=r"Got: new raters \['Ann'\] \(1 of 2; the"):
        rows = [("a", "Ann", "low"), ("a", "ann", "low")]
        bf.predict(point, new_table(rows, classes=["mid", "low"], raters=["Ann", "ann", "zed"]))


@pytest.fixture(scope="module")
def many():
    return bf.datasets.simulate_dawid_skene(200, 5, 3, per_item=4, random_seed=3).responses


@pytest.mark.slow
def test_batches_change_nothing(many, monkeypatch):
    first = bf.datasets.simulate_dawid_skene(60, 5, 3, random_seed=4).responses
    lengths = [7] * 20 + [60]
    sequences = bf.Sequences.from_lengths(lengths, items=np.roll(np.arange(200), 100))
    chain = HiddenMarkov(first, bf.Sequences.from_lengths([6] * 10), raters="confusion")
    for model, places in ((DawidSkene(first), {}), (chain, {"sequences": sequences})):
        result = bf.sample(model, **FIT)
        whole = bf.predict(result, many, draws=6, **places)["label_posterior"].dataset
        for most in (1, 64, 199):
            monkeypatch.setattr("bayesfuse.results.probabilities.BATCH", most)
            found = bf.predict(result, many, draws=6, **places)
            xr.testing.assert_allclose(found["label_posterior"].dataset, whole, atol=1e-14)


def test_tables_of_counts(many):
    result = bf.find_map(DawidSkene(many))
    patterns, counts = ["00122", "11200", "22222"], [40, 1, 3]
    labels = [[int(label) for label in pattern] for pattern in patterns]
    table = bf.Responses.from_counts(labels, counts, items=patterns)
    found = probability(bf.predict(result, table))
    separate = bf.predict(result, table.expand())
    np.testing.assert_allclose(np.repeat(found, counts, axis=0), probability(separate), atol=1e-14)


def test_draws_that_rule_out_responses_do_not_count():
    rows = np.tile(np.eye(3) * 0.7 + 0.1, (2, 1, 1, 1, 1))  # chain, draw, rater, class, answer
    rows[1, 0, 0] = np.eye(3)[[1, 1, 1]]
    result = bf.sample(DawidSkene(new_table([("a", "ann", "low")], raters=["ann"])), **FIT)
    posterior = result["posterior"].dataset.isel(draw=[0]).copy(deep=True)
    posterior["confusion"] = (posterior["confusion"].dims, rows)
    posterior["prevalence"] = (("chain", "draw", "class"), np.tile([0.5, 0.2, 0.3], (2, 1, 1)))
    result["posterior"] = xr.DataTree(posterior)
    table = new_table([("a", "ann", "mid")], raters=["ann"], items=["a"])
    expected = bayes([0.5, 0.2, 0.3], np.array([[0.8, 0.1, 0.1]]))  # of the first draw alone
    np.testing.assert_allclose(probability(bf.predict(result, table)), expected, atol=1e-12)
    with pytest.raises(ImpossibleDataError, match=r"at some draw.* Got: .* item 'a'"):
        bf.predict(result.isel(chain=[1]), table)
