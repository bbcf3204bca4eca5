"""Predictive checks: counts against loops, tails against theory, alarms where they belong."""

from itertools import combinations

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from scipy import stats
from typed_crowds import answers, hard_crowd

import bayesfuse as bf
from bayesfuse.checks import predictive, rater_pairs
from bayesfuse.checks.predictive import _count, _order
from bayesfuse.checks.rater_pairs import _agreement
from bayesfuse.errors import ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup
from bayesfuse.pymc.model import observed

QUIET = {"progressbar": False, "quiet": True, "log_likelihood": False}


def fitted(model, draws=100, **kwargs):
    return bf.sample(model, draws, chains=2, random_seed=1, **QUIET, **kwargs)


def copied(n_items, rng, names="abcdefghij"):
    """Return responses of ten raters of whom the first four report on one noisy source."""
    truth = rng.integers(0, 2, n_items)
    heard = np.where(rng.random(n_items) < 0.75, truth, 1 - truth)
    matrix = np.column_stack([answers(heard, 0.85, 4, rng), answers(truth, 0.85, 6, rng)])
    return bf.Responses.from_matrix(matrix, raters=list(names))


def walk(n_items, rng, stay=0.9):
    truth = np.zeros(n_items, dtype=int)
    for n in range(1, n_items):
        truth[n] = truth[n - 1] if rng.random() < stay else 1 - truth[n - 1]
    return truth


def test_counts_over_pairs_are_those_of_loops(small):
    (first, second), shared, meetings = rater_pairs._pairs(small, 1)
    agree, together = meetings.agree(small), meetings.sums(len(shared))
    same = meetings.sums(len(shared), agree)
    truth = np.arange(small.n_items) % small.n_classes
    wrong = (small.label != truth[small.item])[meetings.first]
    mistakes = meetings.sums(len(shared), agree * wrong)
    rows = list(zip(small.item, small.rater, small.label, strict=True))
    pairs = dict.fromkeys(combinations(range(small.n_raters), 2), 0)
    found = {pair: [set(), 0, 0, 0] for pair in pairs}
    for one in rows:
        for other in rows:
            pair = one[1], other[1]
            if one[0] == other[0] and pair in found:
                entry, equal = found[pair], one[2] == other[2]
                entry[0].add(one[0])
                entry[1] += 1
                entry[2] += equal
                entry[3] += equal and one[2] != truth[one[0]]
    kept = {pair: entry for pair, entry in found.items() if entry[1]}
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == set(kept)
    for p, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        items, times, equal, wrong = kept[pair]
        assert (shared[p], together[p]) == (len(items), times)
        assert (same[p], mistakes[p]) == (equal, pytest.approx(wrong))


def test_of_very_many_meetings_those_of_evenly_spaced_items_are_kept(small, monkeypatch):
    every = rater_pairs._pairs(small, 1)[2]
    monkeypatch.setattr(rater_pairs, "MAX_MEETINGS", len(every.pair) // 2)
    some = rater_pairs._pairs(small, 1)[2]
    assert 0 < len(some.pair) < len(every.pair)
    assert set(small.item[some.first]) <= set(range(0, small.n_items, 2)) | set(
        range(0, small.n_items, 3)
    )


@pytest.mark.parametrize("kind", ["groups of two classes", "groups of three", "types"])
def test_common_mistakes_are_as_probable_as_simulated_ones(kind):
    """Two raters of one group, one of another, one alone; or four where items have types."""
    rng = np.random.default_rng(4)
    n_items, n_classes = 20_000, 2 + (kind != "groups of two classes")
    responses = bf.Responses.from_matrix(
        np.zeros((n_items, 4), dtype=int), classes=range(n_classes)
    )
    values = {"prevalence": rng.dirichlet(np.ones(n_classes))}
    if kind == "types":
        observation = predictive.expanded(observed(ItemTypes(responses))[1])
        values["share"] = rng.dirichlet(np.ones(36), n_classes)
        values["competence"] = rng.uniform(0.2, 0.95, 4)
        values["guess"] = rng.dirichlet(np.ones(n_classes), 4)
    else:
        model = LatentGroup(responses, {"g": [0, 1], "h": [2, 3]})
        observation = predictive.expanded(observed(model)[1])
        # a group of one rater is a rater alone, so the second group is taken apart by hand
        observation.raters.assignment[:] = [0, 0, 1, -1]
        values["group_confusion"] = rng.dirichlet(np.ones(n_classes), (2, n_classes))
        values["rater_confusion"] = rng.dirichlet(np.ones(n_classes), (4, n_classes))
    rows = observation.rows(values)
    truth, label = observation.simulate(rows, rng)
    first, second = pairs = tuple(np.array(list(combinations(range(4), 2))).T)
    chance = rater_pairs._common_mistake(observation, rows, pairs)
    said = label.reshape(n_items, 4)
    for p, (a, b) in enumerate(zip(first, second, strict=True)):
        for k in range(n_classes):
            own = truth == k
            seen = np.sum((said[own, a] == said[own, b]) & (said[own, a] != k))
            assert stats.binomtest(int(seen), int(own.sum()), chance[p, k]).pvalue > 1e-5


def test_tails_of_means_are_those_of_counts():
    seen, rate = np.array([3.0, 8.0, 0.0, 30.0]), np.array([1.5, 9.0, 0.7, 12.0])
    exact = stats.poisson.sf(seen, rate) + stats.poisson.pmf(seen, rate) / 2
    assert np.allclose(rater_pairs._more(seen, rate, rate), exact)
    # counts of thirds of events
    assert np.allclose(rater_pairs._more(seen / 3, rate / 3, rate / 9), exact)
    # where there is much of it, a normal distribution
    found = rater_pairs._more(np.array([5100.0]), np.array([5000.0]), np.array([2500.0]))
    assert found[0] == pytest.approx(stats.norm.sf(2), rel=0.05)
    assert rater_pairs._more(np.zeros(1), np.zeros(1), np.zeros(1))[0] > 0.5


def test_replicated_mistakes_are_those_expected():
    """The excess over the mean is zero on average, whatever the labels' posterior."""
    made = bf.datasets.simulate_dawid_skene(60, 4, 3, random_seed=1, accuracy=(0.4, 0.7))
    observation = predictive.expanded(observed(DawidSkene(made.responses))[1])
    rows = observation.rows({"prevalence": made.prevalence, "confusion": made.confusion})
    pairs = tuple(np.array(list(combinations(range(4), 2))).T)
    chance = rater_pairs._common_mistake(observation, rows, pairs)
    meetings = rater_pairs._pairs(observation.responses, 1)[2]
    rng = np.random.default_rng(1)
    excess = []
    for _ in range(400):
        other = predictive.relabelled(observation, observation.simulate(rows, rng)[1])
        seen, mean = rater_pairs._mistakes(other, rows, chance, meetings)
        excess.append(seen - mean)
    z = np.mean(excess, axis=0) / (np.std(excess, axis=0) / np.sqrt(400))
    assert np.abs(z).max() < 4.5


def test_agreement_of_items_by_hand():
    responses = bf.Responses.from_matrix([[0, 0, 1], [1, 1, 1], [0, -1, -1], [0, 1, -1]])
    assert np.allclose(_agreement(responses), [1 / 3, 1, 0])


def test_runs_by_hand():
    """Two sequences, the first with an item that nobody answered, and a tie."""
    matrix = [[0, 0], [-1, -1], [0, 0], [1, 1], [1, 1], [0, 1], [1, 1]]
    responses = bf.Responses.from_matrix(matrix, items=list("abcdefg"))
    sequences = bf.Sequences.from_lengths([5, 2], items=list("abcdefg"))
    place, first = _order(responses, sequences)
    assert place.tolist() == [0, 2, 3, 4, 5, 6]
    assert first.tolist() == [True, False, False, False, True, False]
    counts = _count(responses, place, first, 3)  # 00 11 | 0 1: the tie is of the first class
    assert counts.tolist() == [2, 2, 0]


def test_tails_of_counts_are_binomial_where_replications_are():
    rng = np.random.default_rng(1)
    total, share = np.array([20.0, 200.0, 40.0]), np.array([0.9, 0.3, 0.02])
    drawn = rng.binomial(total.astype(int), share, (100_000, 3)).astype(float)
    seen = np.array([13.0, 80.0, 3.0])
    below, above = predictive._tails(seen, drawn.mean(0), drawn.var(0), total, len(drawn))
    exactly = stats.binom.pmf(seen, total, share) / 2
    assert np.allclose(below, stats.binom.cdf(seen, total, share) - exactly, rtol=0.1)
    assert np.allclose(above, stats.binom.sf(seen, total, share) + exactly, rtol=0.1)
    assert np.allclose(below + above, 1)


def test_data_like_their_replications_are_seldom_unusual():
    """Overall p-values are uniform, and the rate of any false alarm is at most one in twenty."""
    rng = np.random.default_rng(2)
    overall, alarms = [], 0
    for _ in range(150):
        share = rng.uniform(0.2, 0.95, (1, 30))
        drawn = rng.binomial(50, share, (101, 30)).astype(float)
        entries, total = ("x", range(30)), np.full(30, 50.0)
        found = predictive.compare(drawn[0], drawn[1:], entries, total)
        overall.append(found.attrs["p_value"])
        alarms += bool(found["unusual"].any())
    assert stats.kstest(overall, "uniform").pvalue > 1e-4
    assert alarms <= stats.binom.ppf(0.9999, 150, 0.05)


def test_entries_that_never_vary():
    drawn = np.tile([3.0, 0.0], (50, 1))
    same = predictive.compare(np.array([3.0, 0.0]), drawn, ("x", [0, 1]))
    assert same["p_value"].values.tolist() == [1, 1]
    assert same.attrs["p_value"] == 1
    other = predictive.compare(np.array([3.0, 1.0]), drawn, ("x", [0, 1]))
    assert other["unusual"].values.tolist() == [False, True]


@pytest.fixture(scope="module")
def good():
    made = bf.datasets.simulate_dawid_skene(300, 8, 3, random_seed=3)
    model = DawidSkene(made.responses)
    return model, fitted(model)


@pytest.fixture(scope="module")
def cartel():
    model = DawidSkene(copied(400, np.random.default_rng(0)))
    return model, fitted(model)


@pytest.mark.slow
def test_raters_who_copy_are_named(cartel):
    model, result = cartel
    pairs = bf.checks.pairwise_agreement(result, model, random_seed=1)
    both = pairs["first"].isin(list("abcd")) & pairs["second"].isin(list("abcd"))
    assert (pairs["unusual"] == both).all()
    assert (pairs["observed"] > pairs["high"])[both].all()
    assert pairs.attrs["p_value"] < 0.01
    found = bf.checks.conditional_dependence(result, model, random_seed=1)
    assert found.attrs["groups"] == [list("abcd")]
    assert found["cluster"].values.tolist() == [0] * 4 + [-1] * 6
    assert "LatentGroup" in found.attrs["verdict"]


def test_items_of_different_difficulty_are_noticed():
    model = DawidSkene(hard_crowd(5)[0])
    found = bf.checks.item_difficulty(fitted(model), model, random_seed=1)
    assert found.attrs["p_value"] < 0.02
    assert found.attrs["observed"] > found.attrs["replicated"]
    assert found["unusual"].any()
    assert found.attrs["verdict"].endswith("Try bayesfuse.models.ItemTypes.")
    assert np.isclose(found["observed"].sum(), 1) and np.isclose(found["replicated"].sum(), 1)


@pytest.mark.slow
def test_sequences_are_noticed_by_models_without_them():
    rng = np.random.default_rng(6)
    responses = bf.Responses.from_matrix(answers(walk(400, rng), 0.8, 5, rng))
    sequences = bf.Sequences.from_lengths([40] * 10)
    independent, chain = DawidSkene(responses), HiddenMarkov(responses, sequences)
    ignored = bf.checks.runs(fitted(independent), independent, sequences, random_seed=1)
    assert ignored.attrs["p_value"] < 0.02
    assert ignored.attrs["observed"] > ignored.attrs["replicated"] + 0.1
    assert ignored["unusual"].any()
    known = bf.checks.runs(fitted(chain), chain, random_seed=1)
    assert known.attrs["p_value"] > 0.05
    assert known.attrs["observed"] == ignored.attrs["observed"]
    assert not known["unusual"].any()


@pytest.mark.slow
def test_a_table_of_counts_is_checked_as_expanded():
    model = DawidSkene(bf.datasets.caries())
    result = fitted(model)
    found = bf.checks.pairwise_agreement(result, model, draws=30, random_seed=1)
    assert (found["items"] == 3869).all()
    frame = bf.datasets.caries().expand().to_frame().pivot(index="item", columns="rater")["label"]
    one = frame["dentist 1"] == frame["dentist 2"]
    assert found["observed"][0] == pytest.approx(one.mean())


def test_known_truths_stay_in_replications():
    matrix = [[0, 0, 1]] * 30
    responses = bf.Responses.from_matrix(matrix, classes=[0, 1])
    model = DawidSkene(responses, gold={n: 1 for n in range(30)})
    observation = predictive.expanded(observed(model)[1])
    rows = observation.rows({"prevalence": [0.9, 0.1], "confusion": np.tile(np.eye(2), (3, 1, 1))})
    truth, label = observation.simulate(rows, np.random.default_rng(1))
    assert (truth == 1).all() and (label == 1).all()


def test_the_same_seed_gives_the_same_numbers_also_of_a_point(good):
    model, result = good
    for check in (bf.checks.pairwise_agreement, bf.checks.conditional_dependence):
        one, other = (check(result, model, draws=20, random_seed=7) for _ in range(2))
        xr.testing.assert_identical(one, other)
    found = bf.checks.pairwise_agreement(bf.find_map(model), model, random_seed=1)
    assert not found["unusual"].any()


def test_bad_input_is_refused(good, small):
    model, result = good
    few, many = (rater_pairs._pairs(small, least)[1] for least in (1, 20))
    assert many.min() >= 20 > few.min()
    refused(r"least=.* Got: no pair of 6 raters with 1000", rater_pairs._pairs, small, 1000)
    refused("sequences=", bf.checks.runs, result, model)
    with pytest.raises(ResponsesError, match="not among them"):
        bf.checks.runs(result, model, bf.Sequences.from_lengths([400]))
    alone = DawidSkene(bf.Responses.from_matrix([[0, -1], [-1, 1]]))
    refused("two responses", bf.checks.item_difficulty, bf.find_map(alone), alone)
