"""Decisions against brute force: sums over all labels, responses and ranks."""

import sys
from itertools import product

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from scipy import stats
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup
from bayesfuse.observation.model import observed, parameter_variables

QUIET = {"progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def sparse():
    return bf.datasets.simulate_dawid_skene(24, 6, 3, per_item=3, random_seed=2).responses


KINDS = ["independent", "coin", "chain", "groups", "types", "inferred"]


@pytest.fixture(scope="module", params=with_slow(KINDS, "inferred"))
def fit(request, sparse):
    sequences = bf.Sequences.from_lengths([8] * 3)
    model = {
        "independent": lambda: DawidSkene(sparse, gold={0: 1}),
        "coin": lambda: DawidSkene(sparse, raters="coin"),
        "chain": lambda: HiddenMarkov(sparse, sequences, raters="confusion"),
        "groups": lambda: LatentGroup(sparse, [[0, 1, 2]]),
        "types": lambda: ItemTypes(sparse, gold={0: 1}),
        "inferred": lambda: LatentGroup(sparse, "posterior"),
    }[request.param]()
    return model, bf.sample(model, 20, tune=50, chains=2, random_seed=1, **QUIET)


def test_items_are_ranked_by_what_is_asked():
    probability = np.array([[0.5, 0.25, 0.25], [0.45, 0.55, 0.0], [1.0, 0.0, 0.0]])
    posterior = xr.Dataset(
        {"probability": (("item", "class"), probability)},
        {"item": list("abc"), "class": ["x", "y", "z"]},
    )
    result = xr.DataTree.from_dict({"label_posterior": posterior})
    by_error = bf.decisions.rank_items(result)
    assert by_error["item"].tolist() == ["a", "b", "c"]
    assert by_error["label"].tolist() == ["x", "y", "x"]
    assert np.allclose(by_error["error"], [0.5, 0.45, 0])
    assert np.allclose(by_error["entropy"], stats.entropy(probability, axis=1))


def labels_of(probability, **groups):
    """Return a result of label probabilities alone, (items, classes)."""
    variables = {"probability": (("item", "class"), probability)}
    return xr.DataTree.from_dict({"label_posterior": xr.Dataset(variables), **groups})


@pytest.mark.parametrize("ci_prob", [0.5, 0.9])
def test_number_of_errors_is_that_of_enumeration(ci_prob):
    error = np.repeat([0.2, 0.5, 0.05, 0.0], [1, 2, 5, 2])
    exact = np.zeros(len(error) + 1)
    for wrong in product([0, 1], repeat=len(error)):
        exact[sum(wrong)] += np.where(wrong, error, 1 - error).prod()
    found = bf.decisions.expected_errors(
        labels_of(np.column_stack([error, 1 - error])), ci_prob=ci_prob
    )
    ends = np.searchsorted(exact.cumsum(), [0.5 - ci_prob / 2, 0.5 + ci_prob / 2])
    assert [found["low"], found["high"]] == ends.tolist()
    assert float(found["expected"]) == pytest.approx(error.sum())


def interrupted(model):
    """Return the draws until an interruption, after some hundreds in every chain."""
    made = []

    def stop(steps):
        made.append(steps)
        if sum(made) > 2000:
            raise KeyboardInterrupt

    options = {"tune": 0, "chains": 2, "random_seed": 1, "quiet": True}
    try:
        return bf.sample(model, 10**5, progressbar=stop, **options)
    except KeyboardInterrupt:  # would end the process of the tests
        pytest.fail("interrupted before every chain had draws")


FITS = {
    "one draw": lambda model: bf.sample(model, 1, tune=5, chains=1, random_seed=1, **QUIET),
    "few draws": lambda model: bf.sample(model, 3, tune=5, chains=2, random_seed=1, **QUIET),
    "interrupted": interrupted,
    "mode": bf.find_map,
    "approximate": lambda model: bf.fit(model, draws=2, random_seed=1, progressbar=False),
    "votes": lambda model: bf.vote_shares(observed(model)[1].responses),
}


@pytest.mark.parametrize("ci_prob", [None, 0.5])
@pytest.mark.parametrize("kind", FITS)
def test_an_expected_number_is_inside_its_interval(sparse, kind, ci_prob):
    """Few draws, or draws of a part, hold as few different numbers of errors."""
    result = FITS[kind](DawidSkene(sparse))
    found = bf.decisions.expected_errors(result, ci_prob=ci_prob)
    assert found["low"] < found["expected"] < found["high"]
    accepted = bf.decisions.accept_labels(result, 0.2, ci_prob=ci_prob)
    if accepted["expected"] > 0.0:
        assert accepted["low"] < accepted["expected"] < accepted["high"]
    if "label_draws" in result.children:
        shares = bf.class_shares(result, ["a", "b"] * 12, ci_prob=ci_prob).shares
        assert (shares["low"] <= shares["share"]).all()
        assert (shares["share"] <= shares["high"]).all()


def test_draws_that_all_have_the_same_number_of_errors_do_not_make_it_certain():
    drawn = np.zeros((4, 20), dtype=int)
    drawn[:, :5] = 1
    joint = xr.Dataset({"label": (("sample", "item"), drawn)})
    result = labels_of(np.full((20, 2), [0.75, 0.25]), label_draws=joint)
    found = bf.decisions.expected_errors(result, ci_prob=0.95)
    assert found["low"] < 5 < found["high"] and found.attrs["method"] == "independent items"


def test_draws_of_chains_as_on_a_graph_are_joint_ones():
    drawn = np.zeros((2, 50, 20), dtype=int)
    drawn[:, ::4, :10] = 1  # ten labels are wrong together, in a quarter of the draws
    probability = np.repeat([[0.75, 0.25], [1.0, 0.0]], 10, axis=0)
    joint = xr.Dataset({"label": (("chain", "draw", "item"), drawn)})
    result = labels_of(probability, label_draws=joint)
    found = bf.decisions.expected_errors(result, ci_prob=0.9)
    assert found.attrs["method"] == "joint draws of the labels"
    assert (found["low"], found["expected"], found["high"]) == (0, 2.5, 10)


def test_expected_errors_agree_with_drawn_ones(fit):
    model, result = fit
    found = bf.decisions.expected_errors(result, model, draws=800, random_seed=1, ci_prob=0.9)
    probability = bf.label_probabilities(result)
    assert float(found["expected"]) == pytest.approx(float((1 - probability.max("class")).sum()))
    drawn = bf.draw_labels(result, model, 800, random_seed=1)
    wrong = (drawn.values != probability.values.argmax(axis=1)).sum(axis=1)
    assert abs(wrong.mean() - float(found["expected"])) < 4.5 * wrong.std() / np.sqrt(800)
    low, high = float(found["low"]), float(found["high"])
    assert np.mean((wrong >= low) & (wrong <= high)) >= 0.9
    assert np.mean(wrong < low) <= 0.05 and np.mean(wrong > high) <= 0.05


def test_errors_that_come_together_widen_the_interval():
    """Two raters of unknown accuracy: either may be the one who is wrong everywhere they differ."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 200)
    matrix = np.stack([np.where(rng.random(200) < p, truth, 1 - truth) for p in (0.8, 0.7, 0.6)], 1)
    model = DawidSkene(bf.Responses.from_matrix(matrix))
    result = bf.sample(model, 300, chains=2, random_seed=1, **QUIET)
    joint = bf.decisions.expected_errors(result, model, random_seed=1, ci_prob=0.9)
    apart = bf.decisions.expected_errors(result.drop_nodes("label_draws"), ci_prob=0.9)
    assert apart.attrs["method"] == "independent items"
    assert float(joint["expected"]) == float(apart["expected"])
    assert float(joint["high"] - joint["low"]) > 1.5 * float(apart["high"] - apart["low"])


def with_response(responses, item, rater, label):
    frame = responses.to_frame()
    frame.loc[len(frame)] = [responses.items[item], responses.raters[rater], label]
    return bf.Responses.from_long(
        frame, items=responses.items, raters=responses.raters, classes=responses.classes
    )


def joint_by_hand(model, result, item, rater):
    """p(class, response) from the evidence of whole tables with each possible response added."""
    variable, observation = observed(model)
    responses = observation.responses
    n_classes = responses.n_classes
    joint = np.zeros((n_classes, n_classes))
    posterior, names = result["posterior"].dataset, parameter_variables(variable)
    points = [
        observation.rows({role: posterior[v.name].values[0, draw] for role, v in names.items()})
        for draw in range(posterior.sizes["draw"])
    ]
    for c, label in enumerate(responses.classes):
        table = with_response(responses, item, rater, label)
        gold = {
            responses.items[n]: responses.classes[k]
            for n, k in enumerate(observation.gold)
            if k >= 0
        }
        other = type(observation).build(
            table, observation.labels, observation.raters.without_parameters(), gold
        )
        for point in points:
            before, after = observation.marginal(point), other.marginal(point)
            share = np.exp(after.total - before.total)
            joint[:, c] += share * other.by_item(after.probability)[item] / len(points)
    return joint


@pytest.mark.parametrize("of", ["errors", "entropy"])
def test_value_of_a_response_is_that_of_all_tables_with_it(fit, of):
    model, result = fit
    result = result.isel(chain=[0], draw=slice(0, 3))
    responses = observed(model)[1].responses
    found = bf.decisions.value_of_response(result, model, of=of, most=6)
    for item in (0, 17):
        asked = responses.rater[responses.item == item]
        free = [m for m in range(6) if m not in asked]
        value = {}
        for m in free:
            joint = joint_by_hand(model, result, item, m)
            label, said = joint.sum(axis=1), joint.sum(axis=0)
            if of == "errors":
                value[m] = joint.max(axis=0).sum() - label.max()
            else:
                ways, apart = (a[joint > 0] for a in (joint, np.outer(label, said)))
                value[m] = (ways * np.log(ways / apart)).sum()
            now = 1 - label.max() if of == "errors" else stats.entropy(label)
            assert float(found["now"][item]) == pytest.approx(now, abs=1e-9)
        own = found.isel(item=item)
        kept = [name for name in own["rater"].values if name != ""]
        assert sorted(kept) == free
        wanted = sorted(value.values(), reverse=True)
        assert np.allclose(own["value"].values[: len(free)], wanted, atol=1e-9)
        assert np.isnan(own["value"].values[len(free) :]).all()
        assert [value[m] for m in kept] == pytest.approx(wanted, abs=1e-9)


def test_chunks_make_no_difference(fit, monkeypatch):
    model, result = fit
    whole = bf.decisions.value_of_response(result, model, draws=5, repeats=True)
    module = sys.modules["bayesfuse.decisions.value_of_response"]
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 300)
    parts = bf.decisions.value_of_response(result, model, draws=5, repeats=True)
    xr.testing.assert_allclose(whole, parts)


def test_values_of_responses_vary_by_their_monte_carlo_error():
    """Values from single chains, started alike, of one posterior."""
    table = bf.datasets.simulate_dawid_skene(60, 5, 3, per_item=3, random_seed=3).responses
    model = DawidSkene(table)
    result = bf.sample(model, 100, tune=200, chains=24, random_seed=1, **QUIET)
    draws, data = result["posterior"].dataset, result["constant_data"].dataset
    chains = [
        xr.DataTree.from_dict({"posterior": draws.isel(chain=[n]), "constant_data": data})
        for n in range(24)
    ]
    # between two best classes a number of errors varies less than the linear function of its error
    for of, least in (("errors", 0.6), ("entropy", 0.8)):
        values, errors = [], []
        for chain in chains:
            found = bf.decisions.value_of_response(chain, model, most=5, of=of, repeats=True)
            order = np.argsort(found["rater"].values, axis=1)
            values.append(np.take_along_axis(found["value"].values, order, axis=1))
            errors.append(np.take_along_axis(found["mcse"].values, order, axis=1))
        spread, stated = np.std(values, axis=0), np.sqrt(np.mean(np.square(errors), axis=0))
        some = stated > 1e-3
        assert some.any() and least < np.mean(spread[some] / stated[some]) < 1.25
    point = bf.decisions.value_of_response(bf.find_map(model), repeats=True)
    assert point.attrs["draws"] == 1 and not point["mcse"].any()


def test_bad_questions_are_refused(sparse):
    ask = bf.decisions.value_of_response
    model = DawidSkene(sparse)
    refused("Got: 77", ask, bf.find_map(model), model, raters=[77])
    everybody = DawidSkene(bf.Responses.from_matrix([[0, 1, 1], [1, 1, 0]]))
    refused("who has not answered", ask, bf.find_map(everybody), everybody)


def test_ranks_are_those_of_the_draws():
    rng = np.random.default_rng(1)
    draws = xr.DataArray(
        rng.normal([0.0, 1.0, 0.5, -2.0], 1.0, (2, 200, 4)),
        {"rater": list("abcd")},
        ("chain", "draw", "rater"),
    )
    found = bf.decisions.rank_raters(xr.DataTree(), draws, ci_prob=0.8)
    flat = draws.values.reshape(-1, 4)
    rank = 1 + (flat[:, None, :] > flat[:, :, None]).sum(axis=2)
    for m, name in enumerate("abcd"):
        own = found.sel(rater=name)
        assert np.allclose(own["probability"], np.bincount(rank[:, m], minlength=5)[1:] / 400)
        assert float(own["expected_rank"]) == pytest.approx(rank[:, m].mean())
        ends = np.quantile(rank[:, m], [0.1, 0.9], method="inverted_cdf")
        assert [float(own["low"]), float(own["high"])] == ends.tolist()
    assert found["expected_rank"].to_series().is_monotonic_increasing
    assert np.allclose(found["probability"].sum("rater"), 1)


def test_raters_are_ranked_by_what_is_asked():
    made = bf.datasets.simulate_dawid_skene(800, 4, 2, random_seed=1, accuracy=(0.55, 0.95))
    result = bf.sample(DawidSkene(made.responses), 50, chains=1, random_seed=1, **QUIET)
    confusion = made.confusion
    draws = result["posterior"]
    rates = [
        (None, confusion.diagonal(axis1=1, axis2=2).mean(axis=1)),
        (draws["sensitivity"], confusion[:, 1, 1]),
        (draws["specificity"], confusion[:, 0, 0]),
    ]
    for by, values in rates:
        found = bf.decisions.rank_raters(result, by)
        quality = found["quality"].sortby("rater").values
        assert np.allclose(quality, values, atol=0.1), found.attrs
        best = int(found["rater"].values[0])
        assert values[best] > values.max() - 0.1, found.attrs
    refused("by must be", bf.decisions.rank_raters, result, "wit")
    point = bf.decisions.rank_raters(bf.find_map(DawidSkene(made.responses)))
    assert point["expected_rank"].values.tolist() == list(range(1, 5))
