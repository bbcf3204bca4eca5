"""Model comparison: common units, and weights that are ArviZ's."""

import arviz as az
import numpy as np
import pytest
import xarray as xr
from refusals import refused
from typed_crowds import answers

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, LabellingFunctions, MarkovRandomField
from bayesfuse.results.build import rebuild

pytestmark = pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of few draws

QUIET = {"progressbar": False, "quiet": True}


def fitted(models, draws=100):
    return {
        name: bf.sample(model, draws, chains=2, random_seed=1, **QUIET)
        for name, model in models.items()
    }


@pytest.fixture(scope="module")
def chain():
    """Labels in sequence, items of the table in another order than the sequences."""
    rng = np.random.default_rng(6)
    truth = np.cumsum(rng.random(600) < 0.1) % 2
    order = rng.permutation(600)
    responses = bf.Responses.from_matrix(answers(truth, 0.75, 4, rng)[order], items=order)
    sequences = bf.Sequences.from_lengths([30] * 20)
    results = fitted(
        {
            "chain": HiddenMarkov(responses, sequences, raters="confusion"),
            "independent": DawidSkene(responses),
        }
    )
    return results, sequences


@pytest.mark.slow
def test_items_are_summed_to_the_sequences_they_are_in(chain):
    results, sequences = chain
    common = bf.checks.common_units(results)
    assert common["chain"] is results["chain"]
    item = results["independent"]["log_likelihood"]["responses"]
    total = common["independent"]["log_likelihood"]["responses"]
    assert total.dims == ("chain", "draw", "sequence")
    for s in (0, 7, 19):
        members = sequences.items[sequences.start[s] : sequences.start[s + 1]]
        assert np.allclose(total.sel(sequence=s), item.sel(item=members).sum("item"))
    assert np.allclose(total.sum("sequence"), item.sum("item"))
    assert "item" in results["independent"]["log_likelihood"].dims  # as it was


@pytest.fixture(scope="module")
def channels():
    """Raters with different accuracies by class: one coin each is too little."""
    confusion = np.array([[[0.95, 0.05], [0.4, 0.6]]] * 3 + [[[0.6, 0.4], [0.1, 0.9]]] * 3)
    made = bf.datasets.simulate_dawid_skene(
        250, 6, 2, confusion=confusion, prevalence=[0.6, 0.4], random_seed=1
    )
    kinds = ("confusion", "class", "coin")
    return fitted({kind: DawidSkene(made.responses, raters=kind) for kind in kinds})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["stacking", "bb-pseudo-bma", "pseudo-bma"])
def test_weights_are_those_of_arviz(channels, method):
    table = az.compare(channels, method=method, round_to="none")
    found = bf.average(channels, method)
    for name, weight in zip(found.attrs["models"], found.attrs["weights"], strict=True):
        assert weight == pytest.approx(float(table.loc[name, "weight"]), abs=2e-3)
    assert np.allclose(found["comparison"]["elpd"].sel(model="coin"), az.loo(channels["coin"]).elpd)
    assert table.index[-1] == "coin" and found.attrs["weights"][2] < 0.1


@pytest.mark.slow
def test_weights_of_long_sequences_do_not_underflow(chain):
    """e to the power of −1,400 is zero, ratios of such densities are not."""
    results, _ = chain
    longer = {name: each.copy() for name, each in results.items()}
    for name, per_sequence in (("chain", 1), ("independent", 30)):
        values = results[name]["log_likelihood"].dataset - 1400.0 / per_sequence
        longer[name]["log_likelihood"] = xr.DataTree(values)
    one, other = bf.average(results), bf.average(longer)
    assert one.attrs["weights"][0] > 0.9  # labels follow each other
    assert other["comparison"]["elpd"].max() < -20 * 1400
    assert np.allclose(other.attrs["weights"], one.attrs["weights"], atol=1e-3)


def test_the_average_is_one(channels, tmp_path):
    given = {"coin": 1, "class": 0, "confusion": 3}
    found = bf.average(channels, given)
    parts = [bf.label_probabilities(channels[name]) for name in ("confusion", "coin")]
    xr.testing.assert_allclose(bf.label_probabilities(found), 0.75 * parts[0] + 0.25 * parts[1])
    errors = [channels[name]["label_posterior"]["mcse"] for name in ("confusion", "coin")]
    both = np.hypot(0.75 * errors[0], 0.25 * errors[1])
    assert np.allclose(found["label_posterior"]["mcse"], both)
    assert found.attrs["weights"] == [0.75, 0.0, 0.25]
    assert bf.average({"only": channels["coin"]}).attrs["weights"] == [1.0]
    found.to_netcdf(tmp_path / "average.nc")
    back = xr.load_datatree(tmp_path / "average.nc")
    xr.testing.assert_allclose(bf.label_probabilities(back), bf.label_probabilities(found))
    assert list(back.attrs["models"]) == found.attrs["models"]
    assert bf.decisions.rank_items(back)["item"].size == 250


def test_what_cannot_be_compared_is_refused(channels, chain):
    first, other = channels["coin"], chain[0]["chain"]
    bare, crossed = first.copy(), other.copy()
    del bare["log_likelihood"]
    constants = other["constant_data"].dataset
    shifted = (constants["sequence_index"] + (constants["item"] % 30 == 0)) % 20
    crossed["constant_data"] = xr.DataTree(constants.assign(sequence_index=shifted))
    for results, weights, said in [
        ({}, "stacking", "no results"),
        ({"a": first, "b": bare}, "stacking", "none in 'b'"),
        ({"a": first, "b": other}, "stacking", "same item names"),
        ({"a": first}, "bma", "weights must be 'stacking'"),
        ({"a": first}, {"b": 1}, "weights must have the names"),
        ({"a": first}, {"a": -1}, "not negative"),
        ({"a": first}, {"a": 0}, "not all zero"),
    ]:
        refused(said, bf.average, results, weights)
    for results, said in (
        ({"a": first, "b": other}, "the same responses"),
        ({}, "no results"),
        ({"a": other, "b": crossed}, "span several"),
    ):
        refused(said, bf.checks.common_units, results)


@pytest.mark.slow
def test_a_field_on_paths_is_compared_as_the_chain_it_equals():
    """Equal shares and a coupling β on paths: a chain that stays with probability e^β / (1 + e^β).

    Parameters are the same draws, so log likelihoods by sequence must agree to rounding; sums of
    items' own, each given all others, do not.
    """
    beta, lengths = 1.2, [4, 7, 5, 6, 3, 8, 5, 4]
    stay = np.exp(beta) / (1 + np.exp(beta))
    rng = np.random.default_rng(8)
    order = rng.permutation(sum(lengths))
    truth = rng.integers(0, 2, len(order))
    responses = bf.Responses.from_matrix(answers(truth, 0.8, 5, rng), items=order)
    sequences = bf.Sequences.from_lengths(lengths)
    inner = np.setdiff1d(np.arange(len(order)), sequences.start)
    edges = zip(sequences.items[inner - 1], sequences.items[inner], strict=True)
    graph = bf.Graph.from_edges([(int(a), int(b)) for a, b in edges], items=order.tolist())

    def built(labels):
        with bf.build.LabelModel(responses, gold={int(order[3]): 1}) as model:
            raters = model.rater_channel("coin", None)
            bf.build.observe(responses, labels=labels, raters=raters, gold=model.gold)
        return model

    models = {
        "chain": built(
            bf.build.MarkovChain([0.5, 0.5], [[stay, 1 - stay], [1 - stay, stay]], sequences)
        ),
        "field": built(bf.build.Potts(beta, graph)),
    }
    results = fitted(models)
    drawn = results["chain"]["posterior"]["accuracy"].values
    results["field"]["posterior"]["accuracy"].values[:] = drawn
    results["field"] = rebuild(results["field"], results["field"]["posterior"].dataset)
    refused(
        r"is not that of a sequence.* Got: no model of 'field'", bf.checks.common_units, results
    )
    refused("no model of 'field'", bf.average, results, models={"chain": models["chain"]})
    common = bf.checks.common_units(results, models=models)
    found, exact = (common[name]["log_likelihood"]["responses"] for name in ("field", "chain"))
    assert found.dims == exact.dims == ("chain", "draw", "sequence")
    assert np.allclose(found, exact, rtol=1e-10)
    summed = results["field"]["log_likelihood"]["responses"].sum("item")
    assert not np.allclose(summed, exact.sum("sequence"), atol=1.0)
    assert bf.average(results, models=models)["comparison"].attrs["unit"] == "sequence"


@pytest.fixture(scope="module")
def circled():
    """A graph with a circle, whose model has its items in an order of its own."""
    rng = np.random.default_rng(5)
    table = answers(rng.integers(0, 2, 12), 0.8, 5, rng)
    order = rng.permutation(12)
    graph = bf.Graph.from_edges([(n, (n + 1) % 12) for n in range(12)], items=list(range(12)))
    models = {
        "mrf": MarkovRandomField(bf.Responses.from_matrix(table), graph),
        "ds": DawidSkene(bf.Responses.from_matrix(table[order], items=order)),
    }
    return models, fitted(models, 60)


@pytest.mark.slow
def test_items_in_another_order_are_the_same_units_whoever_is_first(circled):
    _, results = circled
    turned = dict(reversed(results.items()))
    one, other = bf.checks.common_units(results), bf.checks.common_units(turned)
    for name in results:
        found, same = (each[name]["log_likelihood"]["responses"] for each in (one, other))
        own = results[name]["log_likelihood"]["responses"]
        assert found["item"].values.tolist() != same["item"].values.tolist()
        for each in (found, same):
            assert np.array_equal(each, own.sel(item=each["item"]))
    weights = [bf.average(each)["comparison"]["weight"] for each in (results, turned)]
    xr.testing.assert_allclose(*(each.sel(model=["mrf", "ds"]) for each in weights))


@pytest.mark.slow
def test_thinned_results_are_averaged_with_their_models(circled):
    models, results = circled
    thinned = {name: each.isel(draw=slice(None, None, 2)) for name, each in results.items()}
    refused(r"label_probabilities\(result, model\)", bf.average, thinned, {"mrf": 0.25, "ds": 0.75})
    found = bf.average(thinned, {"mrf": 0.25, "ds": 0.75}, models=models)
    parts = {name: bf.label_probabilities(thinned[name], models[name]) for name in models}
    wanted = 0.25 * parts["mrf"] + 0.75 * parts["ds"].sel(item=parts["mrf"]["item"])
    xr.testing.assert_allclose(bf.label_probabilities(found), wanted)
    assert (found["label_posterior"]["mcse"] > 0).all()
    assert bf.average(thinned, models=models)["comparison"]["weight"].sum() == pytest.approx(1)


def test_densities_of_different_data_are_not_compared(tmp_path):
    """Votes given their number, labels given who responded, and labels with silence."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 60)
    votes = np.where(rng.random((60, 4)) < 0.5, answers(truth, 0.8, 4, rng), -1)
    votes[:, 1] = votes[:, 0]
    table = bf.Responses.from_matrix(votes)
    completed = table.completed()
    models = {
        "labels": DawidSkene(table),
        "votes": LabellingFunctions(table, groups=None),
        "copies": LabellingFunctions(table, groups=[[0, 1]]),
        "completed votes": LabellingFunctions(completed),
        "silence": DawidSkene(completed),
    }
    results = fitted(models, 20)
    results["votes"].to_netcdf(tmp_path / "votes.nc")
    results["votes"] = xr.open_datatree(tmp_path / "votes.nc").load()
    for pair, said in [
        (("labels", "votes"), "for 'labels' that of the labels, given who responded"),
        (("votes", "copies"), "the votes on every item, given their number"),
        (("silence", "completed votes"), "for 'silence' that of labels and silence"),
    ]:
        two = {name: results[name] for name in pair}
        for compare in (bf.checks.common_units, bf.average):
            refused(said, compare, two)
        assert bf.average(two, dict.fromkeys(pair, 1)).attrs["weights"] == [0.5, 0.5]


def test_too_few_draws_for_leave_one_out_are_refused():
    few = fitted({0: DawidSkene(bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1]]))}, 5)
    refused(r"at least 25 draws.* Got: 10 draws in 0", bf.average, few)
    assert bf.average(few, {0: 1})["label_posterior"].attrs["method"] == "average of 0"


def test_joint_draws_do_not_depend_on_the_last_digits_of_a_sum():
    """Seeds were hashes of all digits, so another order of summation drew other labels."""
    responses = bf.datasets.simulate_dawid_skene(60, 4, 2, random_seed=1).responses
    models = {kind: DawidSkene(responses, raters=kind) for kind in ("class", "coin", "confusion")}
    results = {
        name: bf.fit(model, draws=40, random_seed=1, progressbar=False)
        for name, model in models.items()
    }
    weights = np.full(3, 1 / 3)
    mixed = [
        bf.average(results, dict(zip(results, each, strict=True)))["label_draws"]["label"]
        for each in (weights, weights + np.array([1e-16, 0.0, -2e-16]))
    ]
    assert np.array_equal(*mixed)
