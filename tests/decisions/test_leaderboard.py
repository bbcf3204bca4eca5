"""Strengths and ranks of systems from judged pairs."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.optimize import minimize
from scipy.stats import kendalltau

import bayesfuse as bf

CLASSES = ["A", "B", "tie"]


def probabilities(strength, first, second, advantage=0.0, tie=-0.7):
    """Davidson's, as he writes them: strengths are not logarithms."""
    one, other = np.exp(strength[first] + advantage), np.exp(strength[second])
    weight = np.stack(
        [one, other, np.exp(tie) * np.sqrt(np.exp(strength)[[first, second]].prod(0))]
    )
    return (weight / weight.sum(axis=0)).T


def simulate(seed, n_pairs=400, n_systems=6, sd=0.8, advantage=0.0, ties=True):
    """Return strengths, pairs and outcomes."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, sd, n_systems)
    first = rng.integers(n_systems, size=n_pairs)
    second = (first + rng.integers(1, n_systems, size=n_pairs)) % n_systems
    chance = probabilities(strength, first, second, advantage, -0.7 if ties else -np.inf)
    outcome = (chance.cumsum(axis=1) < rng.random((n_pairs, 1))).sum(axis=1)
    names = np.array([f"system {k}" for k in range(n_systems)])
    pairs = pd.DataFrame({"item": np.arange(n_pairs), "first": names[first]})
    return strength, pairs.assign(second=names[second]), outcome


def judged(outcome, accuracies, seed=0):
    """Return a fit of judges who are right with these probabilities, else give any label."""
    rng = np.random.default_rng(seed)
    right = rng.random((len(outcome), len(accuracies))) < accuracies
    labels = np.where(right, outcome[:, None], rng.integers(3, size=right.shape))
    responses = bf.Responses.from_matrix(np.array(CLASSES)[labels], classes=CLASSES)
    return bf.fit(bf.models.DawidSkene(responses), draws=50, random_seed=1)


def board_of(result, pairs, **options):
    options = {"shown": ("A", "B"), "draws": 400, "random_seed": 1} | options
    return bf.decisions.leaderboard(result, pairs, **options)


@pytest.fixture(scope="module")
def example():
    strength, pairs, outcome = simulate(0)
    return strength, pairs, judged(outcome, [0.9, 0.8, 0.7, 0.2])


def result_of(probability):
    """Return a result with these label probabilities (items, classes), and no more."""
    labels = xr.Dataset({"probability": (("item", "class"), probability)})
    labels = labels.assign_coords(item=np.arange(len(probability)), **{"class": CLASSES})
    return xr.DataTree.from_dict({"label_posterior": labels})


PRIOR_SD = np.array([1.5] * 4 + [0.5, 2.0])  # of strengths, advantage, and log weight of a tie


def test_strengths_are_those_of_outcomes_summed_out():
    """Against a general optimiser on probabilities that are written out; labels are uncertain."""
    _, pairs, _ = simulate(1, 60, 4)
    first, second = (pairs[name].str[-1].astype(int).to_numpy() for name in ("first", "second"))
    probability = np.random.default_rng(2).dirichlet([0.6, 0.4, 0.3], 60)
    ratio = probability / probability.mean(axis=0)

    def loss(x):
        chance = probabilities(x[:4], first, second, x[4], x[5])
        return 0.5 * ((x / PRIOR_SD) ** 2).sum() - np.log((chance * ratio).sum(axis=1)).sum()

    expected = minimize(loss, np.zeros(6), tol=1e-10).x
    board = board_of(result_of(probability), pairs, draws=4000).sortby("system")
    error = 4 * (board["high"] - board["low"]).values / 3.2 / np.sqrt(4000)
    away = np.abs(board["strength"].values - (expected[:4] - expected[:4].mean()))
    assert (away < error + 2e-3).all()
    assert board.attrs["first_advantage"] == pytest.approx(expected[4], abs=0.03)


def test_without_information_draws_are_of_the_prior():
    pairs = pd.DataFrame({"item": range(3), "first": ["x", "y", "z"], "second": ["y", "z", "y"]})
    board = board_of(result_of(np.full((3, 3), 1 / 3)), pairs, draws=4000, ci_prob=0.9)
    sd = (board["high"] - board["low"]).values / (2 * 1.645)
    assert np.allclose(sd, 1.5 * np.sqrt(2 / 3), rtol=0.06)
    assert np.allclose(board["probability"], 1 / 3, atol=0.04)


def test_strong_systems_lead(example):
    strength, pairs, result = example
    board = board_of(result, pairs)
    place = [int(name[-1]) for name in board["system"].values]
    assert kendalltau(board["strength"], strength[place])[0] > 0.7
    assert (np.diff(board["expected_rank"]) >= 0).all()
    assert np.allclose(board["probability"].sum("rank"), 1.0)
    assert np.allclose(board["better"] + board["better"].T.values, 1.0)
    assert (board["rank_low"] <= board["expected_rank"]).all()
    compared = board["compared"].values
    assert (compared == compared.T).all() and compared.sum() == 2 * len(pairs)
    wins = board["wins"].fillna(0.5).values
    assert np.allclose(wins + wins.T, 1.0) and not board["in_cycle"].any()


def test_more_judges_are_no_more_pairs():
    """Strengths and their intervals are those of the pairs, however many judges agree on them."""
    _, pairs, outcome = simulate(2)
    few, many = (board_of(judged(outcome, [0.95] * n), pairs, draws=1500) for n in (3, 9))
    many = many.sel(system=few["system"].values)
    assert np.allclose(few["strength"], many["strength"], atol=0.12)
    widths = [float((board["high"] - board["low"]).mean()) for board in (few, many)]
    assert widths[0] == pytest.approx(widths[1], rel=0.12)


def test_vote_shares_are_no_labels_of_a_model(example):
    _, pairs, result = example
    votes = result.copy()
    votes.attrs["models"] = ["vote shares"]
    with pytest.warns(bf.errors.PoorFitWarning, match="Got: vote shares"):
        board_of(votes, pairs)


def test_names_and_the_order_of_rows_do_not_matter(example):
    _, pairs, result = example
    board = board_of(result, pairs)
    renamed = pairs.replace({"first": {"system 0": "z"}, "second": {"system 0": "z"}})
    same = board_of(result, renamed.sample(frac=1.0, random_state=1))
    names = ["z" if name == "system 0" else name for name in board["system"].values]
    at = same.sel(system=names)
    assert np.allclose(board["strength"], at["strength"], atol=0.05)


def test_swapped_pairs_and_classes_are_the_same(example):
    _, pairs, result = example
    swapped = pairs.rename(columns={"first": "second", "second": "first"})
    board, same = board_of(result, pairs), board_of(result, swapped, shown=("B", "A"))
    at = same.sel(system=board["system"].values)
    assert np.allclose(board["strength"], at["strength"], atol=0.06)
    assert board.attrs["first_advantage"] == pytest.approx(-same.attrs["first_advantage"], abs=0.05)


def test_the_advantage_of_being_first_is_found():
    _, pairs, outcome = simulate(3, 800, advantage=0.8)
    board = board_of(judged(outcome, [0.95] * 3), pairs)
    assert board.attrs["first_advantage_low"] < 0.8 < board.attrs["first_advantage_high"] + 0.1
    assert board.attrs["first_advantage_low"] > 0.3


def test_pairs_of_one_question_count_once():
    """Pairs that are repeated have the interval of single ones if they are of one question."""
    _, pairs, outcome = simulate(4, 150, ties=False)
    labels = np.array(["A", "B"])[np.tile(outcome, 2)]
    responses = bf.Responses.from_matrix(labels[:, None])
    known = bf.find_map(bf.models.DawidSkene(responses, gold=dict(enumerate(labels))))
    twice = pd.concat([pairs, pairs.assign(item=pairs["item"] + 150)], ignore_index=True)
    twice["question"] = twice["item"] % 150
    boards = [
        board_of(known, twice, shown=None, draws=2000, question=question)
        for question in ("question", None)
    ]
    together, apart = (float((board["high"] - board["low"]).mean()) for board in boards)
    assert together / apart == pytest.approx(np.sqrt(2.0), rel=0.12)


def test_systems_apart_and_cycles_are_stated(tmp_path):
    outcome = np.tile([0, 0, 0], 40)  # x beats y, y beats z, z beats x
    pairs = pd.DataFrame({"item": range(120), "first": ["x", "y", "z"] * 40})
    pairs["second"] = ["y", "z", "x"] * 40
    result = judged(outcome, [0.95, 0.95])
    with pytest.warns(bf.errors.PoorFitWarning, match="a cycle among"):
        board = board_of(result, pairs)
    assert board["in_cycle"].all() and board.sizes["system"] == 3
    pairs["first"] = ["a", "c", "b"] * 40
    pairs["second"] = ["b", "d", "a"] * 40
    with pytest.warns(bf.errors.PoorFitWarning, match="2 groups"):
        board = board_of(result, pairs)
    members = board["system"].groupby(board["group"])
    assert sorted(sorted(systems.values.tolist()) for _, systems in members) == [
        ["a", "b"],
        ["c", "d"],
    ]
    board.to_netcdf(tmp_path / "board.nc")
    assert xr.load_dataset(tmp_path / "board.nc").equals(board)


def test_refusals(example):
    _, pairs, result = example
    for wrong, words in (
        (pairs.iloc[1:], "every item of the result"),
        (pairs.assign(second=pairs["first"]), "two systems"),
        (pd.concat([pairs, pairs[:1]]), "more than once"),
        (pairs.rename(columns={"item": "pair"}), "no column 'item'"),
    ):
        with pytest.raises(ValueError, match=words):
            board_of(result, wrong)
    with pytest.raises(bf.errors.ModelError, match="two of"):
        board_of(result, pairs, shown=("A", "C"))
    assert board_of(result, pairs, shown=None).equals(board_of(result, pairs))
    named = bf.Responses.from_matrix([["x", "y", "tie"]] * 400)
    result = bf.find_map(bf.models.DawidSkene(named))
    with pytest.raises(bf.errors.ModelError, match=r"Got: none, and the classes \['tie', 'x', 'y'"):
        board_of(result, pairs, shown=None)


def test_wins_are_those_of_the_strengths():
    """Labels of uncertain pairs are drawn to one half, and wins are not."""
    _, pairs, outcome = simulate(5, 1500, 3, ties=False)
    likelihood = np.where(outcome[:, None] == [0, 1, 2], 0.6, 0.4) * [1.0, 1.0, 0.0]
    board = board_of(result_of(likelihood), pairs).sortby("system").sortby("other")
    assert np.allclose(board["wins"] + board["wins"].values.T, 1.0)
    difference = board["strength"].values[:, None] - board["strength"].values
    assert np.allclose(board["wins"], 1.0 / (1.0 + np.exp(-difference)), atol=0.02)


def verdicts_in_both_orders(names):
    """Return verdicts of two judges, one of whom often prefers what is shown first."""
    rng = np.random.default_rng(2)
    first, second = rng.permuted(np.tile(np.arange(4), (300, 1)), axis=1)[:, :2].T
    strength = np.array([0.9, 0.3, -0.3, -0.9])
    first_wins = rng.random(300) < 1 / (1 + np.exp(strength[second] - strength[first]))
    rows = []
    for judge, habit in (("x", 0.0), ("y", 0.4)):
        for one, other, wins in ((first, second, first_wins), (second, first, ~first_wins)):
            wins = np.where(rng.random(300) < 0.85, wins, ~wins) | (rng.random(300) < habit)
            table = pd.DataFrame({"model_a": names[one], "model_b": names[other]})
            table["winner"] = np.where(wins, "model_a", "model_b")
            rows.append(table.assign(judge=judge, question_id=range(300)))
    return pd.concat(rows)


def test_the_alphabet_of_systems_that_were_shown_in_both_orders_does_not_matter():
    """What a judge saw first is in the table, and neither order has an advantage of its own."""
    strengths = []
    for names in (np.array([*"abcd"]), np.array([*"dcba"])):
        responses, items, orders = bf.io.read_verdicts(verdicts_in_both_orders(names))
        assert orders == [("x", "x (swapped)"), ("y", "y (swapped)")]
        result = bf.fit(bf.models.DawidSkene(responses), draws=50, random_seed=1)
        board = board_of(result, items, shown=None)
        assert np.isnan(board.attrs["first_advantage"])
        strengths.append(board["strength"].sel(system=names).values)
    assert np.allclose(*strengths, atol=0.12) and (np.diff(strengths[0]) < 0).all()


@pytest.mark.slow
def test_intervals_of_ranks_and_strengths_cover():
    """With two good judges and two who guess."""
    inside_rank, inside, slopes = [], [], []
    for seed in range(20):
        strength, pairs, outcome = simulate(seed, 600, 8, 0.5)
        board = board_of(judged(outcome, [0.8, 0.7, 0.1, 0.0], seed), pairs, ci_prob=0.9)
        board = board.sortby("system")
        rank = (-strength).argsort().argsort() + 1
        inside_rank += ((board["rank_low"] <= rank) & (rank <= board["rank_high"])).values.tolist()
        centred = strength - strength.mean()
        inside += ((board["low"] <= centred) & (centred <= board["high"])).values.tolist()
        slopes.append(board["strength"].values @ centred / (centred @ centred))
    error = 4 * np.sqrt(0.9 * 0.1 / len(inside))
    assert np.mean(inside_rank) > 0.9 - error and abs(np.mean(inside) - 0.9) < error
    assert np.mean(slopes) == pytest.approx(1.0, abs=4 * np.std(slopes) / np.sqrt(20) + 0.05)


@pytest.mark.parametrize(
    ("first", "second", "is_estimated"),
    [("xx", "yy", False), ("xyx", "yzw", False), ("xyx", "yzz", True), ("xxy", "yyx", True)],
)
def test_the_advantage_of_being_first_needs_another_order(first, second, is_estimated):
    """If a system that is shown first is always ahead by one strength, the prior decides."""
    n_pairs = 30 * len(first)
    pairs = pd.DataFrame({"item": np.arange(n_pairs), "first": [*first] * 30})
    pairs["second"] = [*second] * 30
    probability = np.tile([0.9, 0.1, 0.0], (n_pairs, 1))
    probability[::4] = [0.1, 0.9, 0.0]
    if is_estimated:
        assert np.isfinite(board_of(result_of(probability), pairs).attrs["first_advantage"])
        return
    with pytest.warns(bf.errors.PoorFitWarning, match="shown in both orders"):
        board = board_of(result_of(probability), pairs, ci_prob=0.9)
    low, high = (board.attrs[f"first_advantage_{end}"] for end in ("low", "high"))
    assert np.isnan(board.attrs["first_advantage"])
    assert 1.2 < high - low < 1.9  # 1.64 a priori, and strengths have a prior, too
