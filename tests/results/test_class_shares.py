"""Labels that collapse to one class, and shares of classes by group."""

import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from drawn_results import drawn_result
from refusals import refused, refused_table
from rules import rules
from scipy.special import gammaln
from scipy.stats import beta

import bayesfuse as bf
from bayesfuse.errors import CollapseWarning, ModelError, ResponsesError
from bayesfuse.models import DawidSkene
from bayesfuse.results import group_shares


def of(labels):
    return drawn_result(labels, ["bad", "good"])


def test_shares_of_these_items_are_counted():
    sure = [[0, 1, 1, 1, 0]] * 100
    shares, contrasts = bf.class_shares(of(sure), ["x", "x", "y", "y", "y"], random_seed=1)
    good = shares[shares["class"] == "good"].set_index("group")
    assert good["share"].round(9).to_dict() == {"all items": 0.6, "x": 0.5, "y": round(2 / 3, 9)}
    assert good[["low", "high"]].loc["x"].tolist() == [0.5, 0.5]  # certain labels: no width
    assert good.loc["x", "new_low"] < 0.5 < good.loc["x", "new_high"]
    assert good["items"].tolist() == [5, 2, 3] and good["votes"].isna().all()
    row = contrasts[contrasts["class"] == "good"].iloc[0]
    assert (row["first"], row["second"], row["pairs"]) == ("x", "y", 0)
    assert row[["difference", "ratio", "better"]].tolist() == pytest.approx([-1 / 6, 0.75, 0])
    assert 0 < row["new_better"] < 1
    printed = repr(bf.class_shares(of(sure), list("xxyyy"), random_seed=1))
    assert " good " in printed and " bad " not in printed  # one minus the other
    assert bf.class_shares(of(sure), list("xxyyy"), contrasts=False)[1].empty
    draws = [[0, 1, 1, 1], [0, 1, 1, 0]] * 50
    alone = bf.class_shares(of(draws), ci_prob=0.8, random_seed=1)
    assert alone.shares["group"].tolist() == ["all items"] * 2 and alone.contrasts.empty
    assert alone.shares[["share", "low", "high"]].iloc[1].tolist() == [0.625, 0.5, 0.75]


def test_shares_of_groups_follow_their_own_votes():
    """Raters right with .75 in two groups with shares .9 and .1: one prevalence would pull both."""
    rng = np.random.default_rng(1)
    group = np.repeat(["a", "b"], 1000)
    truth = rng.random(2000) < np.where(group == "a", 0.9, 0.1)
    says = np.where(rng.random(2000) < 0.75, truth, ~truth)
    p = np.where(says, 0.75, 0.25)  # the posterior with even classes
    labels = (rng.random((200, 2000)) < p).astype(int)
    result = of(labels)
    result["label_posterior"]["probability"].values[:] = np.column_stack([1 - p, p])
    good = bf.class_shares(result, group, random_seed=1).shares.iloc[[3, 5]]
    assert np.abs(p[group == "a"].mean() - 0.6) < 0.02  # the bare mean
    assert good["share"].tolist() == pytest.approx([0.9, 0.1], abs=0.04)
    assert ((good["low"] < [0.9, 0.1]) & (good["high"] > [0.9, 0.1])).all()


def test_ratios_of_shares_are_those_of_the_model():
    """Groups of two items: the posterior of the ratios, by enumeration of the labels."""
    share, code = np.array([0.4, 0.6]), np.array([0, 0, 1])
    probability = np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]])
    drawn = group_shares._ratios(4_000, probability, code, np.random.default_rng(1))
    mean, total = np.zeros(2), 0.0
    prior = np.exp(-0.5 * group_shares.SPREAD**2) * np.gradient(group_shares.SPREAD)
    for labels in product((0, 1), repeat=3):
        for spread, weight in zip(group_shares.SPREAD, prior, strict=True):
            a = 4 / spread**2 * share
            count = [
                np.bincount([labels[n] for n in np.flatnonzero(code == g)], minlength=2)
                for g in (0, 1)
            ]
            own = weight * np.prod(probability[range(3), labels] / share[list(labels)])
            for c in count:
                own *= np.exp(
                    (gammaln(a + c) - gammaln(a)).sum() - gammaln((a + c).sum()) + gammaln(a.sum())
                )
            mean += own * np.array([(a[1] + c[1]) / (a + c).sum() for c in count])
            total += own
    np.testing.assert_allclose(drawn[:, :, 1].mean(axis=0) * share[1], mean / total, atol=0.012)


def test_known_labels_correct_groups_in_which_raters_err():
    """In group b, nine labels in ten are wrong, as the known items show."""
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b"], 400)
    truth = rng.integers(2, size=800)
    p = np.where(truth == 1, 0.9, 0.1)
    p[group == "b"] = np.where(rng.random(400) < 0.9, 0.9, 0.1)  # says good, whatever is true
    gold = np.where(np.arange(800) % 8 == 0, truth, -1)
    labels = np.where(gold >= 0, gold, (rng.random((200, 800)) < p).astype(int))
    honest = np.where((gold >= 0)[:, None], np.column_stack([1 - p, p]), np.nan)
    result = of(labels)
    posterior = result["label_posterior"]
    posterior["left_out"] = xr.DataArray(honest, dims=("item", "class"))
    posterior["probability"].values[:] = np.column_stack([1 - p, p])
    posterior["probability"].values[gold >= 0] = np.eye(2)[gold[gold >= 0]]
    result["constant_data"] = xr.DataTree(xr.Dataset({"gold": ("item", gold)}))
    good = bf.class_shares(result, group, random_seed=1).shares.iloc[[3, 5]]
    assert p[group == "b"].mean() > 0.75
    assert ((good["low"] < 0.5) & (good["high"] > 0.5)).all(), good
    powered = bf.class_shares(result, group, method="ppi", random_seed=1).shares.iloc[[3, 5]]
    assert ((powered["low"] < 0.55) & (powered["high"] > 0.45)).all(), powered
    # the known items of group b were chosen because they are wrong: nothing is learnt from them
    typical = bf.class_shares(result, group, chosen=np.flatnonzero(gold >= 0), random_seed=1)
    assert typical.shares["share"][5] > 0.65
    refused_table(r"chosen= must be items", bf.class_shares, result, chosen=[-1])
    del posterior["left_out"]
    refused(r"ppi' compares known labels", bf.class_shares, result, method="ppi")
    assert bf.class_shares(result, group, random_seed=1).shares["share"][5] > 0.65


def test_differences_are_those_of_ppi_by_hand():
    rng = np.random.default_rng(3)
    p, group = rng.random(400), np.repeat([0, 1, 2], [300, 98, 2])
    truth = (rng.random(400) < p).astype(int)
    known = np.flatnonzero(np.arange(400) % 2 == 0)[:-1]  # none in the last group
    honest = np.full((400, 2), np.nan)
    honest[known] = np.column_stack([1 - p, p])[known]
    probability = np.column_stack([1 - p, p])
    probability[known] = np.eye(2)[truth[known]]
    drawn = group_shares.by_differences(20_000, probability, honest, group, rng)[..., 1]
    at = known[known < 300]
    power = np.cov(truth[at], p[at])[0, 1] / p[at].var(ddof=1)  # that of all items is alike
    left = truth[at] - power * p[at]
    mean = left.mean() + power * p[:300].mean()
    error = np.sqrt(left.var(ddof=1) / 150 * (1 - 150 / 300))
    assert drawn[:, 0].mean() == pytest.approx(mean, abs=0.005)
    assert drawn[:, 0].std() == pytest.approx(error, rel=0.05)
    assert drawn[:, 2].std() == pytest.approx(np.sqrt(1 / 12), rel=0.2)  # almost any share


@pytest.mark.parametrize("ones", [0, 1, 10])
def test_ppi_without_information_is_as_wide_as_the_posterior_of_known_items(ones):
    """With equal predictions: the variance of the Beta posterior with a uniform prior."""
    truth = np.arange(20) < ones
    probability = np.full((10_000, 2), 0.5)
    probability[:20] = np.eye(2)[truth.astype(int)]
    honest = np.full_like(probability, np.nan)
    honest[:20] = 0.5
    code, rng = np.zeros(10_000, dtype=int), np.random.default_rng(1)
    drawn = group_shares.by_differences(4000, probability, honest, code, rng)[:, 0, 1]
    posterior = beta(ones + 1, 21 - ones)
    assert drawn.std() == pytest.approx(posterior.std(), rel=0.09)
    assert drawn.mean() == pytest.approx(max(ones / 20, 0.045), abs=0.02)


def test_the_bootstrap_of_new_items_has_the_binomial_spread():
    labels = np.repeat([[1] * 30 + [0] * 70], 4000, axis=0)
    (_, good), _ = (
        t.to_dict("records") for t in bf.class_shares(of(labels), ci_prob=0.9, random_seed=1)
    )
    wide = 2 * 1.645 * np.sqrt(0.3 * 0.7 / 101)  # Dirichlet(30, 70)
    assert good["new_high"] - good["new_low"] == pytest.approx(wide, rel=0.06)
    assert good["low"] == good["high"] == 0.3
    # three items, or questions of two items, all of one class: with half an item of each class
    for size, question in ((3, None), (6, [0, 0, 1, 1, 2, 2])):
        alike = of(np.ones((4000, size), dtype=int))
        row = bf.class_shares(alike, pairs=question, ci_prob=0.9, random_seed=1).shares.iloc[1]
        assert row["new_low"] == pytest.approx(beta.ppf(0.05, 3.5, 0.5), abs=0.02)
        assert row["low"] == 1 and row["new_high"] > 0.999


def test_pairs_keep_what_groups_have_in_common():
    """Two systems on the same hard and easy questions: paired, their difference is narrow."""
    rng = np.random.default_rng(1)
    easy = rng.random(200) < 0.5
    one, other = easy, easy.copy()
    other[:10] = ~other[:10]
    labels = np.repeat([np.concatenate([one, other]).astype(int)], 500, axis=0)
    by, question = ["a"] * 200 + ["b"] * 200, np.tile(np.arange(200), 2)
    apart = bf.class_shares(of(labels), by, random_seed=1).contrasts.iloc[1]
    paired = bf.class_shares(of(labels), by, question, random_seed=1).contrasts.iloc[1]
    assert paired["pairs"] == 200 and paired["difference"] == pytest.approx(apart["difference"])
    width = [row["new_high"] - row["new_low"] for row in (apart, paired)]
    assert width[1] < 0.35 * width[0]
    # only questions that both answered are compared
    some = np.concatenate([np.arange(200), 300 + np.arange(200)])
    some[200:205] = np.arange(5)
    few = bf.class_shares(of(labels), by, some, random_seed=1).contrasts.iloc[1]
    by_hand = one[:5].mean() - other[:5].mean()
    assert few["pairs"] == 5 and few["difference"] == pytest.approx(by_hand)
    none = bf.class_shares(of(labels), by, np.arange(400), random_seed=1).contrasts.iloc[1]
    assert none["pairs"] == 0 and none["difference"] == pytest.approx(apart["difference"])


def test_votes_and_known_labels_stand_beside():
    responses = bf.Responses.from_long(
        {"item": [0, 0, 0, 1, 2], "rater": list("xyzxx"), "label": [0, 1, 1, 1, 0]},
        items=range(4),
        classes=[0, 1],
    )
    model = bf.models.DawidSkene(responses, gold={2: 0})
    result = bf.sample(model, 20, tune=20, chains=2, random_seed=1, progressbar=False, quiet=True)
    shares = bf.class_shares(result, {0: "a", 1: "a", 2: "b", 3: "c"}, random_seed=1).shares
    one = shares[shares["class"] == 1].set_index("group")
    assert one["votes"].round(4).tolist()[:3] == [round(5 / 9, 4), round(5 / 6, 4), 0]
    assert np.isnan(one.loc["c", "votes"])  # nobody answered
    assert one["known"].tolist() == [1, 0, 1, 0] and one.loc["b", "share"] == 0
    low, high = one.loc["c", ["low", "high"]]
    assert low == 0 and high == 1  # a single item of which nothing is known


def test_bad_input():
    result = of([[0, 1]])
    with pytest.raises(ResponsesError, match=r"by= must be of items that are in the table"):
        bf.class_shares(result, {0: "a", 1: "b", 2: "c"})
    refused_table(r"Every item must be in by=", bf.class_shares, result, pd.Series({0: "a"}))
    with pytest.raises(ResponsesError, match=r"pairs= is a mapping .* from items to questions"):
        bf.class_shares(result, pairs=[1])
    with pytest.raises(ModelError, match=r"keep joint draws of the labels"):
        bf.class_shares(bf.vote_shares(bf.datasets.anesthesia()))
    refused(r"A result must be a xr.DataTree", bf.class_shares, [0, 1])


CROWDS = ["rte", "bluebird", "zencrowd_in", "weather_amt"]


def labelled(model, probability):
    """A result with these label probabilities, and no more."""
    responses = model.responses
    posterior = xr.Dataset(
        {"probability": (("item", "class"), np.asarray(probability, dtype=float))},
        {"item": responses.items, "class": responses.classes},
    )
    return xr.DataTree.from_dict({"label_posterior": posterior})


def test_numbers_by_hand():
    """25 items for 0, 24 for 1, two ties, one known, one nobody answered."""
    matrix = [[0, 0, -1]] * 25 + [[1, 1, 0]] * 24 + [[0, 1, -1]] * 2 + [[1, 1, 1], [-1, -1, -1]]
    responses = bf.Responses.from_matrix(matrix)
    model = DawidSkene(responses, gold={51: 1})
    all_a = np.tile([1.0, 0.0], (53, 1))
    all_a[51] = all_a[52] = [0, 1]
    found = bf.checks.collapse(labelled(model, all_a), model)
    assert found["favoured"].values.tolist() == [26, 25]
    assert found["expected"].values.tolist() == [51, 0]
    assert found["lost"].values.tolist() == [False, True]
    assert found["one_label"].values.tolist() == [False, False, False]
    assert found.attrs["collapsed"]
    assert "class 1: 0, though most responses name it for 25" in found.attrs["verdict"]
    model = DawidSkene(bf.Responses.from_counts([[0, 0], [1, 1], [0, 1]], [500, 300, 20]))
    copies = bf.checks.collapse(labelled(model, np.tile([1.0, 0.0], (3, 1))), model)
    assert copies["favoured"].values.tolist() == [510, 310]
    assert copies["lost"].values.tolist() == [False, True]
    model = DawidSkene(responses, gold={51: 1})
    for share, collapsed in ((0.03, False), (0.015, True)):  # 1.5 items of 51, and 0.8
        some = np.tile([1 - share, share], (53, 1))
        assert bf.checks.collapse(labelled(model, some), model).attrs["collapsed"] == collapsed


@pytest.mark.slow
def test_every_fit_warns_of_collapse_and_the_report_has_it():
    responses, truth = rules(2, n_items=1500, n_rules=14)
    settings = {"random_seed": 1, "progressbar": False}
    model = DawidSkene(responses)
    with pytest.warns(CollapseWarning, match=r"have collapsed.* give such a label: 7\."):
        point = bf.find_map(model)
    with pytest.raises(ModelError, match=r"same responses.* Got: a result of 1500 item names"):
        bf.checks.collapse(point, DawidSkene(responses.head(40)))
    verdict = bf.checks.collapse(point, model).attrs["verdict"]
    assert "prevalence_prior=" in verdict and "gold=" in verdict
    assert "models.LabellingFunctions" in verdict and "ItemTypes" not in verdict
    # chains permute the classes of such a table, so that every item has probabilities near one half
    with pytest.warns(CollapseWarning, match="permuted between draws.* only give one label: 14"):
        result = bf.sample(model, 100, chains=1, **settings)
    assert bf.label_probabilities(result).max("class").max() < 0.95
    checked = bf.checks.collapse(result, model)
    assert checked.attrs["collapsed"] and checked.attrs["lost_share"] > 0.9
    assert not checked["lost"].any()
    with pytest.warns(UserWarning) as caught:
        bf.fit(model, draws=60, **settings)
    assert CollapseWarning in [w.category for w in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapseWarning)
        bf.sample(model, 20, chains=1, quiet=True, **settings)
        told = DawidSkene(responses, prevalence_prior=[750, 750])  # what the warning advises
        better = bf.find_map(told)
    assert not bf.checks.collapse(better, told).attrs["collapsed"]
    scores = [
        bf.checks.label_scores(each, dict(enumerate(truth.tolist()))) for each in (point, better)
    ]
    assert scores[0]["accuracy"] < 0.55 < 0.65 < scores[1]["accuracy"]


@pytest.mark.parametrize("prevalence", [[0.98, 0.02], [0.6, 0.38, 0.02]], ids=str)
@pytest.mark.parametrize("per_item", [2, 5])
def test_rare_classes_are_healthy(prevalence, per_item):
    """Two per cent of the items, most votes for which are mistakes; warnings are errors here."""
    settings = {"per_item": per_item, "prevalence": prevalence, "accuracy": (0.65, 0.9)}
    made = bf.datasets.simulate_dawid_skene(1500, 10, len(prevalence), random_seed=1, **settings)
    model = DawidSkene(made.responses)
    found = bf.checks.collapse(bf.find_map(model), model)
    assert not found["lost"].any() and found["favoured"][-1] > 20


@pytest.mark.parametrize("name", CROWDS)
def test_real_crowds_are_healthy(development_data, name):
    responses, _ = development_data(name)
    bf.find_map(DawidSkene(responses))  # warnings are errors here


def test_shares_of_new_items_follow_the_seed():
    """Also the response more that shares of few items have, of which weights say nothing."""

    class EqualWeights(np.random.Generator):
        def standard_exponential(self, size):
            return np.ones(size)

    result = drawn_result(np.tile([0, 1], (50, 1)), ["no", "yes"])
    lows = []
    for seed in (1, 2):
        rng = EqualWeights(np.random.default_rng(seed).bit_generator)
        lows.append(bf.class_shares(result, random_seed=rng)[0]["new_low"].to_numpy())
    assert (lows[0] != lows[1]).all()
