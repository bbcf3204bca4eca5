"""Weighted votes: against PyMC's density, integrals and NUTS; what they leave as it is."""

import arviz as az
import numpy as np
import pytest
import xarray as xr
from coordinates import coordinates
from refusals import refused
from scipy.special import softmax

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import WeightedVotes

QUIET = {"random_seed": 1, "progressbar": False}


def judges(n_items=300, seed=1):
    """Three judges of whom two err together: the majority is wrong on a third of the items."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    alike = np.where(rng.random(n_items) < 0.6, truth, (truth + 1) % 3)
    good = np.where(rng.random(n_items) < 0.9, truth, rng.integers(3, size=n_items))
    answers = np.column_stack([alike, good, np.where(rng.random(n_items) < 0.9, alike, 0)])
    answers[rng.random(answers.shape) < 0.1] = -1
    return bf.Responses.from_matrix(answers, classes=[0, 1, 2], items=list(range(n_items))), truth


def contrasts(n_classes):
    """Return orthonormal columns that sum to zero, (classes, classes − 1)."""
    return np.linalg.qr(np.eye(n_classes)[:, :-1] - 1.0 / n_classes)[0]


def gold_of(truth, n, seed=0):
    chosen = np.random.default_rng(seed).permutation(len(truth))[:n]
    return {int(item): int(truth[item]) for item in chosen}


def probabilities(result):
    return bf.label_probabilities(result).values


@pytest.mark.parametrize(("error", "lengths"), [(0.0, None), (0.2, None), (0.0, [7, 3, 20, 10])])
def test_the_sampler_has_the_density_of_the_pymc_model(error, lengths):
    responses, truth = judges(40)
    sequences = None if lengths is None else bf.Sequences.from_lengths(lengths)
    other = bf.label_probabilities(bf.vote_shares(responses)) ** 2
    results = {"votes": bf.label_probabilities(bf.vote_shares(responses)), "sure": other}
    gold = gold_of(truth, 12)
    options = {"as_given": 0, "gold_error": error, "sequences": sequences}
    model = WeightedVotes(responses, gold, results, **options)
    density, scales = model.known, model.known.scales
    logp = model.compile_logp(jacobian=False)
    rng, found = np.random.default_rng(1), []
    for _ in range(3):
        point, scale = rng.standard_normal(len(density.mean)), rng.random() + 0.2
        values = {
            "bias": contrasts(3) @ point[:2],
            "trust": point[2],
            "own_trust": point[3:5],
            "weight_slope": point[5],
            "weight_mean": point[6],
            "weight_scale": scale,
            "offset": point[7:],
        }
        own = density.value(density.inputs(scale), point)[0]
        own -= 0.5 * (scale / scales["weight_scale"]) ** 2
        found.append(float(logp(coordinates(model, values))) - own)
    np.testing.assert_allclose(found, found[0], rtol=1e-9)


def in_sequences(spread, seed=1, n_sequences=20, length=100):
    """Return responses of four raters whose accuracy varies among sequences, and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_sequences * length)
    accuracy = np.clip(0.7 + spread * rng.standard_normal((n_sequences, 4)), 0.0, 1.0)
    right = rng.random((len(truth), 4)) < np.repeat(accuracy, length, axis=0)
    answers = np.where(right, truth[:, None], (truth[:, None] + 1 + rng.integers(2)) % 3)
    sequences = bf.Sequences.from_lengths([length] * n_sequences)
    return bf.Responses.from_matrix(answers, classes=range(3)), sequences, truth


@pytest.mark.parametrize("spread", [0.0, 0.15])
def test_known_labels_of_one_sequence_count_less_where_sequences_differ(spread):
    responses, sequences, truth = in_sequences(spread)
    dims = {"item": responses.items, "class": range(3)}
    given = {"truth": xr.DataArray(np.eye(3)[truth], dims)}
    one = {n: int(truth[n]) for n in range(100)}
    random = gold_of(truth, 100)
    every = {n: int(label) for n, label in enumerate(truth)}
    number = {
        name: WeightedVotes(responses, gold, given, sequences=sequences).known.n_effective
        for name, gold in {"one": one, "random": random, "every": every}.items()
    }
    # of raters' agreement, between and within sequences; 95 % of one sequence differs from all
    odds = spread**2 / (0.7 * 0.3 - spread**2)
    assert number["one"] == pytest.approx(100 / (1 + 95 * odds), rel=0.35)
    assert number["random"] > 85 and number["every"] == pytest.approx(2000)
    without = WeightedVotes(responses, one, given)
    assert without.known.n_effective == 100


def test_the_probability_of_a_correction_is_that_of_an_integral():
    responses = bf.Responses.from_matrix([[0, 0], [1, 1], [0, 1], [1, 0]], classes=[0, 1])
    model = WeightedVotes(responses, {0: 1, 1: 0}, as_given=0.5)  # against both votes
    result = bf.sample(model, 2000, **QUIET)
    rng, scales, n = np.random.default_rng(3), model.known.scales, 200_000
    bias = rng.normal(0, scales["bias"], n)
    weight = rng.normal(0, scales["weight_mean"], (n, 1)) + rng.normal(
        0, scales["weight_slope"], (n, 1)
    ) * (model.terms.competence)
    weight += np.abs(rng.normal(0, scales["weight_scale"], (n, 1))) * rng.standard_normal((n, 2))
    base, trust = model.terms.log_mean[:2], rng.normal(1, scales["trust"], n)
    logits = base[:, :, None] * trust + bias * contrasts(2)[:, :1][None]
    logits[[0, 1], [0, 1]] += weight.sum(axis=1)
    drawn, given = softmax(logits, axis=1), softmax(base[:, :, None], axis=1)
    likelihood, as_given = (each[0, 1] * each[1, 0] for each in (drawn, given))
    expected = likelihood.mean() / (likelihood.mean() + as_given[0])
    share = result["posterior"]["corrected"].mean().item()
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 8000) + 0.003
    trusted = (likelihood * trust).sum() / likelihood.sum()
    kept = result["posterior"]["trust"].values[result["posterior"]["corrected"].values == 1]
    assert abs(kept.mean() - trusted) < 5 * kept.std() / np.sqrt(len(kept))


@pytest.mark.slow
def test_draws_are_those_of_nuts():
    responses, truth = judges(60)
    model = WeightedVotes(responses, gold_of(truth, 20), as_given=0)
    own = bf.sample(model, 1000, chains=2, **QUIET)
    nuts = bf.sample(
        model, 1000, chains=2, cores=1, sampler="nuts", target_accept=0.95, quiet=True, **QUIET
    )
    for name in ("bias", "trust", "weight_mean", "weight_slope", "weight_scale", "weight"):
        one, other = own["posterior"][name], nuts["posterior"][name]
        error = np.hypot(
            *(az.mcse(each.dataset)[name] for each in (own["posterior"], nuts["posterior"]))
        )
        difference = np.abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw")))
        # the spread of weights is drawn on a grid of nine values
        assert (difference < 5 * error + 0.05 * other.std(("chain", "draw"))).all(), name
    np.testing.assert_allclose(probabilities(own), probabilities(nuts), atol=0.02)
    assert own["sample_stats"]["acceptance_rate"].mean() > 0.4


def test_predictions_for_new_raters_are_those_of_a_fit_that_has_them():
    """Raters without known items are described by their competence alone, as new ones are."""
    rng, n_items, adversary = np.random.default_rng(2), 150, 5
    truth = rng.integers(2, size=n_items)
    accuracy = np.array([0.95, 0.85, 0.75, 0.65, 0.9, 0.2])
    answers = np.where(rng.random((n_items, 6)) < accuracy, truth[:, None], 1 - truth[:, None])
    answers[:50, 4:] = -1
    told = {"classes": [0, 1], "items": list(range(n_items))}
    table = bf.Responses.from_matrix(answers, raters=list("abcdef"), **told)
    renamed = bf.Responses.from_matrix(answers, raters=list("abcdxy"), **told)
    model = WeightedVotes(table, {n: int(truth[n]) for n in range(50)}, as_given=0)
    result = bf.sample(model, 500, chains=2, **QUIET)
    assert result["posterior"]["weight"].mean(("chain", "draw"))[adversary] < -0.2
    fitted = result["label_posterior"].dataset.isel(item=slice(50, None))
    found = bf.label_probabilities(model.predict(result, renamed)).values[50:]
    error = np.sqrt(2) * fitted["mcse"].values  # both have draws of weights of their own
    np.testing.assert_array_less(np.abs(found - fitted["probability"].values), 5 * error + 1e-3)


@pytest.mark.slow
def test_monte_carlo_errors_of_labels_are_those_over_seeds():
    responses, truth = judges(80)
    model = WeightedVotes(responses, gold_of(truth, 30))
    fits = [bf.sample(model, 60, chains=2, random_seed=n, progressbar=False) for n in range(24)]
    spread = np.std([probabilities(fit) for fit in fits], axis=0)
    stated = [fit["label_posterior"]["mcse"].values for fit in fits]
    stated = np.sqrt(np.mean(np.square(stated), axis=0))
    uncertain = stated > 1e-3
    assert uncertain.any() and 0.8 < np.mean(spread[uncertain] / stated[uncertain]) < 1.25


def test_known_labels_raise_the_weight_of_good_raters():
    responses, truth = judges()
    gold = gold_of(truth, 50)
    result = bf.sample(WeightedVotes(responses, gold), 100, **QUIET)
    rest = [item for item in range(300) if item not in gold]
    before = (probabilities(bf.vote_shares(responses)).argmax(1) == truth)[rest].mean()
    after = (probabilities(result).argmax(1) == truth)[rest].mean()
    assert after > before + 0.15
    weight = result["posterior"]["weight"].mean(("chain", "draw")).values
    assert weight[1] > weight[0] + 1 and weight[1] > weight[2] + 1
    loo = az.loo(result)
    assert loo.elpd > 50 * np.log(1 / 3) and len(az.loo(result, pointwise=True).elpd_i) == 50


def test_rater_tables_count_drawn_labels_of_answered_items():
    responses, truth = judges(30)
    gold = {item: int(label) for item, label in enumerate(truth)}
    result = bf.sample(WeightedVotes(responses, gold), 20, **QUIET)
    posterior = result["posterior"]
    frame = responses.to_frame().assign(truth=lambda own: truth[own["item"]])
    right = (frame["label"] == frame["truth"]).groupby(frame["rater"]).mean().to_numpy()
    np.testing.assert_allclose(posterior["accuracy"].mean(("chain", "draw")), right, rtol=1e-5)
    assert posterior["accuracy"].std(("chain", "draw")).max() < 1e-6  # all are known
    table = frame.groupby(["rater", "truth", "label"]).size().unstack(fill_value=0)
    table = table.to_numpy().reshape(3, 3, 3)
    rows = table / table.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(posterior["confusion"][0, 0], rows, atol=1e-6)
    off = table.sum(axis=1) - np.diagonal(table, axis1=1, axis2=2)  # said, and wrong
    others = table.sum(axis=(1, 2))[:, None] - table.sum(axis=2)
    np.testing.assert_allclose(posterior["specificity"][0, 0], 1 - off / others, atol=1e-6)
    np.testing.assert_allclose(posterior["prevalence"][0, 0], np.bincount(truth) / 30, rtol=1e-6)
    assert (result["label_draws"]["label"] == truth).all()
    assert result["label_draws"]["label"].dims == ("sample", "item")


def test_draws_of_labels_have_their_probabilities(monkeypatch):
    responses, truth = judges(30)
    gold = gold_of(truth, 8)
    model = WeightedVotes(responses, gold)
    result = bf.sample(model, 100, **QUIET)
    drawn = result["label_draws"]["label"].values
    shares = np.stack([(drawn == k).mean(axis=0) for k in range(3)], axis=1)
    assert np.abs(shares - probabilities(result)).max() < 5 * np.sqrt(0.25 / 400)
    known = list(gold)
    np.testing.assert_array_equal(probabilities(result)[known], np.eye(3)[list(gold.values())])
    assert (drawn[:, known] == list(gold.values())).all()
    monkeypatch.setattr("bayesfuse.inference.weighted_votes.VALUES", 40)  # in parts
    again = bf.sample(WeightedVotes(responses, gold), 100, **QUIET)
    np.testing.assert_allclose(probabilities(again), probabilities(result), atol=1e-12)


def test_items_without_responses_keep_given_probabilities():
    answers = [[0, 0, 1], [1, 1, 1], [0, 0, 0], [-1, -1, -1], [1, 0, 1]]
    responses = bf.Responses.from_matrix(answers, items=list("abcde"))
    given = xr.DataArray(
        [[0.9, 0.1], [0.2, 0.8], [0.99, 0.01], [0.6, 0.4], [0.3, 0.7]],
        {"item": list("abcde"), "class": [0, 1]},
        ("item", "class"),
    )
    result = bf.sample(WeightedVotes(responses, {"a": 0}, {"some": given}), 500, **QUIET)
    found = probabilities(result)
    np.testing.assert_allclose(found[3], [0.6, 0.4])
    np.testing.assert_allclose(found[[1, 2, 4]], given[[1, 2, 4]], atol=0.12)
    assert (found[0] == [1, 0]).all()
    other = given.isel(item=[4, 2, 0, 1, 3], **{"class": [1, 0]})  # the same in another order
    again = bf.sample(WeightedVotes(responses, {"a": 0}, {"some": other}), 500, **QUIET)
    np.testing.assert_array_equal(probabilities(again), found)


def test_known_labels_may_be_wrong_and_are_left_out_one_by_one():
    responses, truth = judges()
    gold = gold_of(truth, 60)
    # a label that all three judges deny
    answers = responses.to_frame().groupby("item")["label"].nunique()
    wrong = next(item for item in gold if answers.get(item, 2) == 1)
    gold[wrong] = (gold[wrong] + 1) % 3
    result = bf.sample(WeightedVotes(responses, gold, gold_error=0.1), 200, **QUIET)
    without = {item: label for item, label in gold.items() if item != wrong}
    apart = bf.sample(WeightedVotes(responses, without, gold_error=0.1), 200, **QUIET)
    honest = result["label_posterior"]["left_out"].values
    known = np.isin(np.arange(300), list(gold))
    assert (np.isfinite(honest).all(axis=1) == known).all()
    np.testing.assert_allclose(honest[wrong], probabilities(apart)[wrong], atol=0.05)
    chance = np.full(3, 0.05)
    chance[gold[wrong]] = 0.9
    expected = honest[wrong] * chance / (honest[wrong] @ chance)
    np.testing.assert_allclose(probabilities(result)[wrong], expected, atol=0.02)
    drawn = result["label_draws"]["label"].values[:, wrong]
    assert abs((drawn == gold[wrong]).mean() - expected[gold[wrong]]) < 0.1
    assert probabilities(result)[wrong, gold[wrong]] < 0.9


def test_repeats_and_stated_probabilities_are_inputs():
    frame = {"item": [0, 0, 0, 1], "rater": ["a", "a", "b", "b"], "label": [0, 1, 1, 1]}
    responses = bf.Responses.from_long(frame)
    np.testing.assert_allclose(
        WeightedVotes(responses, {0: 1}).terms.votes.toarray(), [[0.5, 0], [0.5, 1], [0, 0], [0, 1]]
    )
    stated = bf.Responses.from_probabilities(
        {"item": [0, 1, 2], "rater": ["m"] * 3, "no": [0.9, 0.2, 0.5], "yes": [0.1, 0.8, 0.5]}
    )
    model = WeightedVotes(stated, {0: "no", 1: "yes"})
    half = np.log(9) / 2
    np.testing.assert_allclose(model.terms.votes.toarray()[:2, 0], [half, -half])
    result = bf.sample(model, 50, **QUIET)
    assert result["posterior"]["accuracy"].shape == (4, 50, 1)


def test_predictions_of_new_items_match_a_joint_fit():
    responses, truth = judges(200)
    gold = gold_of(truth[:150], 60)
    model = WeightedVotes(responses, gold)
    whole = probabilities(bf.sample(model, 100, **QUIET))
    first = WeightedVotes(responses.take(np.arange(150)), gold)
    result = bf.sample(first, 400, **QUIET)
    found = first.predict(result, responses.take(np.arange(150, 200)))
    np.testing.assert_allclose(probabilities(found), whole[150:], atol=0.08)
    with pytest.raises(ModelError, match=r"from the results of the model\. Got: \['x'\] for \[\]"):
        first.predict(result, responses, {"x": bf.vote_shares(responses)})


def test_invalid_input_is_refused():
    responses, truth = judges(30)
    gold = gold_of(truth, 8)
    for nothing in (None, {}):
        refused(r"from known labels only.*ItemTypes", WeightedVotes, responses, nothing)
    told = bf.vote_shares(responses, gold)
    with pytest.raises(ModelError, match=r"without the known labels.*8 known labels in 'votes'"):
        WeightedVotes(responses, gold, {"votes": told})
    with pytest.raises(ModelError, match="item names of the responses"):
        WeightedVotes(responses, gold, {"votes": bf.vote_shares(responses.take(np.arange(20)))})
    refused("below one", WeightedVotes, responses, gold, as_given=1)
    refused("or 'nuts'", bf.sample, WeightedVotes(responses, gold), sampler="gibbs", **QUIET)
    with pytest.raises(ModelError, match=r"known labels given the responses.*model\.predict"):
        bf.find_map(WeightedVotes(responses, gold))
    for sampler in ("auto", "nuts"):
        settings = {"thin": 2, "sampler": sampler, **QUIET}
        refused("Got: thin=", bf.sample, WeightedVotes(responses, gold), **settings)
    counts = bf.Responses.from_counts({"00": 40, "01": 6, "11": 14})
    refused("expand", WeightedVotes, counts, {counts.items[0]: counts.classes[0]})
    alone = bf.Responses.from_matrix([[0, 1], [-1, -1]], items=["a", "b"])
    refused("none of such an item", WeightedVotes, alone, {"b": 0})


def test_known_labels_of_one_class_are_noted():
    responses, truth = judges(60)
    gold = {item: 0 for item in range(60) if truth[item] == 0}
    result = bf.sample(WeightedVotes(responses, gold), 100, **QUIET)
    assert "All known labels are 0" in result.attrs["known_labels"]
    rest = np.setdiff1d(np.arange(60), list(gold))
    assert probabilities(result)[rest].max() < 0.999 and np.isfinite(probabilities(result)).all()
    whole = responses.take(np.flatnonzero(truth == 0))  # no item of the other classes
    every = bf.sample(WeightedVotes(whole, dict.fromkeys(whole.items.tolist(), 0)), 20, **QUIET)
    posterior = every["posterior"].dataset
    assert all(np.isfinite(values).all() for values in posterior.data_vars.values())
    np.testing.assert_allclose(posterior["confusion"].sum("answer"), 1.0, rtol=1e-6)
