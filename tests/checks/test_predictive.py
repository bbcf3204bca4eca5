"""Predictive checks: counts against loops, tails against theory, alarms where they belong."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
import xarray as xr
from refusals import refused
from scipy import stats
from typed_crowds import answers, hard_crowd

import bayesfuse as bf
from bayesfuse.errors import ResponsesError
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup

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


def at(point, **values):
    """Return a result of one draw with other values of its parameters."""
    changed = point["point"].dataset.copy(deep=True)
    for name, value in values.items():
        changed[name][:] = value
    result = point.copy()
    result["point"] = xr.DataTree(changed)
    return result


def test_checks_of_counts_are_those_of_their_copies():
    """Also by populations; two tests cannot show shared errors in two, but in three they can."""
    counts, people = bf.datasets.tuberculosis()
    copies = np.repeat([people[name] for name in counts.items], counts.multiplicity)
    model = DawidSkene(counts, populations=people)
    point = bf.find_map(model)
    one_by_one = DawidSkene(counts.expand(), populations=copies)
    expanded = bf.find_map(one_by_one)
    for check in (bf.checks.pairwise_agreement, bf.checks.conditional_dependence):
        first = check(point, model, draws=20, random_seed=1)
        second = check(expanded, one_by_one, draws=20, random_seed=1)
        name = "agreement" if "agreement" in first else "observed"
        assert np.allclose(first[name], second[name])
    assert first.attrs["verdict"].startswith("2 raters cannot show shared mistakes")
    three = np.arange(counts.n_items) % 3
    model = DawidSkene(counts, populations=three)
    check = bf.checks.conditional_dependence(bf.find_map(model), model, draws=2, random_seed=1)
    assert check.attrs["verdict"].startswith("The pair of raters shares no more mistakes")


def test_counts_over_pairs_are_those_of_loops(small):
    truth = np.arange(small.n_items) % small.n_classes
    model = DawidSkene(small, gold=dict(enumerate(truth.tolist())))
    point = bf.find_map(model)
    pairs = bf.checks.pairwise_agreement(point, model, least=1, draws=2, random_seed=1)
    mistakes = bf.checks.conditional_dependence(point, model, least=1, draws=2, random_seed=1)
    rows = list(zip(small.item, small.rater, small.label, strict=True))
    found = {pair: [set(), 0, 0, 0] for pair in combinations(range(small.n_raters), 2)}
    for one in rows:
        for other in rows:
            pair = one[1], other[1]
            if one[0] == other[0] and pair in found:
                entry, equal = found[pair], one[2] == other[2]
                entry[0].add(one[0])
                entry[1] += 1
                entry[2] += equal
                entry[3] += equal and one[2] != truth[one[0]]
    expected = {
        pair: [len(items), equal / times, pytest.approx(wrong)]
        for pair, (items, times, equal, wrong) in found.items()
        if times
    }
    names = list(zip(pairs["first"].values.tolist(), pairs["second"].values.tolist(), strict=True))
    columns = pairs["items"], pairs["observed"], mistakes["observed"]
    counted = np.stack([column.values for column in columns], axis=1).tolist()
    assert dict(zip(names, counted, strict=True)) == expected


@pytest.mark.parametrize("kind", ["groups of two classes", "groups of three", "types", "unknown"])
def test_common_mistakes_are_as_frequent_as_expected(kind):
    """Two raters of one group, two of another, two alone; or where items have types."""
    n_classes = 2 + (kind != "groups of two classes")
    build = {"types": ItemTypes, "unknown": DawidSkene}.get(
        kind, lambda responses, **known: LatentGroup(responses, [[0, 1], [2, 3]], **known)
    )
    blank = bf.Responses.from_matrix(np.zeros((3000, 6), dtype=int), classes=range(n_classes))
    _, truth, responses = bf.testing.simulate(build(blank), 4)
    known = {} if kind == "unknown" else {"gold": dict(enumerate(truth.tolist()))}
    model = build(responses, **known)
    result = fitted(model, 10, tune=60) if kind == "types" else bf.find_map(model)
    found = bf.checks.conditional_dependence(result, model, draws=20, random_seed=1)
    excess = (found["observed"] - found["expected"]) / np.sqrt(found["expected"])
    assert found["expected"].min() > 10 and np.abs(excess).max() < 4


def test_agreement_of_items_by_hand():
    """Of two items with agreement 1/3 and 1, and one of 0; one response shows nothing."""
    matrix = [[0, 0, 1], [1, 1, 1], [0, -1, -1], [0, 1, -1]]
    point = bf.find_map(DawidSkene(bf.Responses.from_matrix(matrix)))
    found = bf.checks.item_difficulty(point, draws=2)
    (where,) = np.nonzero(found["observed"].values)
    assert where.tolist() == [0, 3, 9]
    assert np.allclose(found["observed"][where], 1 / 3)
    assert found.attrs["mean_observed"] == pytest.approx(4 / 9)


def test_runs_by_hand():
    """Two sequences, the first with an item that nobody answered, and a tie."""
    matrix = [[0, 0], [-1, -1], [0, 0], [1, 1], [1, 1], [0, 1], [1, 1]]
    responses = bf.Responses.from_matrix(matrix, items=list("abcdefg"))
    sequences = bf.Sequences.from_lengths([5, 2], items=list("abcdefg"))
    point = bf.find_map(DawidSkene(responses))
    found = bf.checks.runs(point, None, sequences, longest=3, draws=2)
    # 00 11 | 0 1: the tie is of the first class
    assert (found["observed"] * 6).values.tolist() == pytest.approx([2, 2, 0])
    assert found.attrs["observed"] == pytest.approx(2 / 4)


def test_tails_of_counts_are_binomial_where_replications_are():
    """All items are known to be of one class, so the agreements of a pair are independent."""
    rng = np.random.default_rng(1)
    said = answers(np.zeros(60, dtype=int), 0.8, 3, rng)
    model = DawidSkene(
        bf.Responses.from_matrix(said, classes=[0, 1]), gold=dict.fromkeys(range(60), 0)
    )
    right = np.array([0.7, 0.75, 0.9])
    rows = np.stack([np.stack([right, 1 - right], axis=1)] * 2, axis=1)
    point = at(bf.find_map(model), confusion=rows)
    found = bf.checks.pairwise_agreement(point, model, draws=2000, random_seed=1)
    for p, (one, other) in enumerate(combinations(range(3), 2)):
        share = right[one] * right[other] + (1 - right[one]) * (1 - right[other])
        seen = np.sum(said[:, one] == said[:, other])
        half = stats.binom.pmf(seen, 60, share) / 2
        tails = stats.binom.cdf(seen, 60, share) - half, stats.binom.sf(seen, 60, share) + half
        assert found["p_value"][p] == pytest.approx(min(2 * min(tails), 1), rel=0.15, abs=0.01)


def test_known_truths_stay_in_replications_which_may_never_vary():
    """The second rater is wrong of the other class alone, of which no item is."""
    matrix = np.tile([1, 1, 1], (30, 1))
    matrix[:3, 2] = 0
    model = DawidSkene(bf.Responses.from_matrix(matrix), gold=dict.fromkeys(range(30), 1))
    rows = np.stack([np.eye(2), [[0, 1], [0, 1]], np.eye(2)])
    point = at(bf.find_map(model), prevalence=[0.9, 0.1], confusion=rows)
    found = bf.checks.pairwise_agreement(point, model, draws=50, random_seed=1)
    assert (found["replicated"] == 1).all() and found["p_value"][0] > 0.9
    assert found["unusual"].values.tolist() == [False, True, True]


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
    independent, chain = (
        DawidSkene(responses),
        HiddenMarkov(responses, sequences, raters="confusion"),
    )
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


def test_the_same_seed_gives_the_same_numbers_also_of_a_point(good):
    model, result = good
    for check in (bf.checks.pairwise_agreement, bf.checks.conditional_dependence):
        one, other = (check(result, model, draws=20, random_seed=7) for _ in range(2))
        xr.testing.assert_identical(one, other)
    found = bf.checks.pairwise_agreement(bf.find_map(model), model, random_seed=1)
    assert not found["unusual"].any()


def test_bad_input_is_refused(good, small):
    model, result = good
    pairs = partial(bf.checks.pairwise_agreement, bf.find_map(DawidSkene(small)), draws=2)
    few, many = (pairs(least=least)["items"] for least in (1, 20))
    assert many.min() >= 20 > few.min()
    refused(r"least=.* Got: no pair of 6 raters with 1000", pairs, least=1000)
    refused("sequences=", bf.checks.runs, result, model)
    with pytest.raises(ResponsesError, match="not among them"):
        bf.checks.runs(result, model, bf.Sequences.from_lengths([400]))
    alone = DawidSkene(bf.Responses.from_matrix([[0, -1], [-1, 1]]))
    refused("two responses", bf.checks.item_difficulty, bf.find_map(alone), alone)
