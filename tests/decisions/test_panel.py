"""Panels of raters, items to label next, and labels to accept."""

import numpy as np
import pytest
import xarray as xr
from drawn_results import drawn_result
from refusals import refused
from scipy.stats import beta

import bayesfuse as bf
from bayesfuse.decisions import accept_labels, errors_after
from bayesfuse.errors import ModelError


def known_truth(said, truth, draws=100, gold=None):
    """A result whose labels are certain: all that is left are responses."""
    responses = bf.Responses.from_matrix(said, classes=[0, 1])
    return drawn_result(np.tile(truth, (draws, 1)), [0, 1], responses, gold)


@pytest.fixture(scope="module")
def copies():
    """Four judges: two independent ones, and two who share nearly all their errors."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=600)
    wrong = rng.random((600, 4)) < [0.1, 0.15, 0.2, 0.2]
    wrong[:, 3] = np.where(rng.random(600) < 0.95, wrong[:, 2], wrong[:, 3])
    said = np.where(wrong, 1 - truth[:, None], truth[:, None])
    return known_truth(said, truth), said, truth


def test_correlations_are_those_of_centred_errors(copies):
    result, said, truth = copies
    found = bf.decisions.select_panel(result, random_seed=1, ci_prob=0.9)
    error = (said != truth[:, None]).astype(float)
    for k in (0, 1):
        error[truth == k] -= error[truth == k].mean(axis=0)
    by_hand = np.corrcoef(error.T)
    np.testing.assert_allclose(found["correlation"], by_hand, atol=0.02)
    assert (found["correlation_low"] <= by_hand + 1e-9).all()
    off = by_hand[~np.eye(4, dtype=bool)].mean()
    assert float(found["effective_votes"]) == pytest.approx(4 / (1 + 3 * off), rel=0.02)
    width = (found["correlation_high"] - found["correlation_low"]).values[0, 1]
    assert width == pytest.approx(2 * 1.645 / np.sqrt(600), rel=0.5)


def test_bad_raters_who_err_alone_do_not_correlate():
    rng = np.random.default_rng(2)
    truth = rng.integers(2, size=2000)
    # both are bad in class 1 only: without centring by class their errors would correlate
    wrong = rng.random((2000, 3)) < np.where(truth == 1, 0.45, 0.05)[:, None]
    said = np.where(wrong, 1 - truth[:, None], truth[:, None])
    said = np.column_stack([said, np.ones(2000, dtype=int), np.full(2000, -1)])
    found = bf.decisions.select_panel(known_truth(said, truth), random_seed=1)
    assert float(found["mean_correlation"]) == pytest.approx(0, abs=0.04)
    assert 2.6 < found["effective_votes"] <= 3  # neither one verdict throughout counts, nor silence
    assert np.corrcoef(wrong.T)[0, 1] > 0.15


def test_the_copy_leaves_first_and_the_best_stays(copies):
    result, said, truth = copies
    found = bf.decisions.select_panel(result, tolerance=0.0, random_seed=1)
    assert found["removed"].values[1] in ("2", "3")
    assert found["raters"].values.tolist() == [4, 3, 2, 1]
    last = found["removed"].values[1:].tolist()
    assert "0" not in last
    wrong = int((said[:, 0] != truth).sum())
    assert found["wrong"].values[-1] == wrong  # the best judge alone
    assert (found["wrong_low"] == found["wrong"]).all()  # labels are certain here
    lost = found["lost"]
    assert lost.values.argmax() == 0 and (found["lost_low"] <= lost).all()
    assert bf.decisions.select_panel(result, tolerance=1.0)["kept"].values.tolist() == [1, 0, 0, 0]


def test_raters_of_few_common_items_are_not_discounted_for_noise():
    """35 independent raters, five an item: their votes are those of raters without correlations."""
    difference = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth, right = rng.integers(3, size=400), np.linspace(0.95, 0.5, 35)
        wrong = (rng.random((400, 35)) > right) * rng.integers(1, 3, (400, 35))
        said = (truth[:, None] + wrong) % 3
        said[rng.random(said.shape).argsort(axis=1) >= 5] = -1
        responses = bf.Responses.from_matrix(said, classes=[0, 1, 2], missing=-1)
        result = drawn_result(np.tile(truth, (100, 1)), [0, 1, 2], responses)
        panel = bf.decisions.select_panel(result, random_seed=1)
        difference += abs(float(panel["wrong"][0]) - _wrong_by_independent_votes(said, truth))
    assert difference <= 1.0  # it is 15 without shrinkage


def _wrong_by_independent_votes(said, truth):
    score = np.log(np.bincount(truth) / len(truth)) * np.ones((len(truth), 1))
    for answers in said.T:
        counts = np.full((3, 3), 1 / 3)
        np.add.at(counts, (truth[answers >= 0], answers[answers >= 0]), 1)
        rows = np.log(counts / counts.sum(axis=1, keepdims=True))
        score += np.where(answers[:, None] >= 0, rows[:, answers].T, 0.0)
    return (score.argmax(axis=1) != truth).sum()


def test_costs_decide_between_equals(copies):
    result = copies[0]
    dear = bf.decisions.select_panel(result, {0: 1, 1: 1, 2: 1, 3: 50}, random_seed=1)
    assert dear["removed"].values[1] == "3" and float(dear["cost"][0]) == 53
    cheap = bf.decisions.select_panel(result, {0: 1, 1: 1, 2: 50, 3: 1}, random_seed=1)
    assert cheap["removed"].values[1] == "2"


def test_missing_and_repeated_responses_and_known_labels():
    truth = np.array([0, 1, 0, 1, 0, 1])
    said = np.array([[0, 0, -1], [1, 1, -1], [1, 0, -1], [1, 0, 1], [0, -1, 0], [1, -1, 1]])
    gold = np.where(np.arange(6) < 3, truth, -1)
    found = bf.decisions.select_panel(known_truth(said, truth, gold=gold), random_seed=1)
    assert np.isnan(found["correlation"].values[0, 2]) and found.attrs == {
        "items": 6,
        "known": 3,
        "expected": 0,
    }
    assert found["known_wrong"].values[-1] in (0, 1)
    always = known_truth(np.zeros((6, 2), dtype=int), truth)  # one verdict throughout
    refused("one label .*bf.rater_table. Got: no others", bf.decisions.select_panel, always)


def test_smaller_panels_are_those_of_weighted_votes_by_hand():
    """Three classes, uncertain labels, missing and repeated responses: every panel by itself."""
    rng = np.random.default_rng(3)
    truth = rng.choice(3, 40, p=[0.5, 0.3, 0.2])
    draws = np.where(rng.random((200, 40)) < 0.8, truth, rng.integers(0, 3, (200, 40)))
    right = rng.random((40, 4)) < [0.9, 0.7, 0.6, 0.8]
    said = np.where(right, truth[:, None], rng.integers(0, 3, (40, 4)))
    item, rater = np.nonzero(rng.random((40, 4)) < 0.8)
    item, rater = np.append(item, item[:9]), np.append(rater, rater[:9])
    label = said[item, rater]
    label[-4:] = (label[-4:] + 1) % 3  # repeats that contradict the first responses
    columns = {"item": item, "rater": rater, "label": label}
    responses = bf.Responses.from_long(columns, items=range(40), raters=range(4), classes=range(3))
    result = drawn_result(draws, [0, 1, 2], responses)
    found = bf.decisions.select_panel(result, random_seed=1)
    probability = bf.label_probabilities(result).values
    answered = np.zeros((40, 4))
    answered[item, rater] = 1
    number, pairs = answered.T @ answered, ~np.eye(4, dtype=bool)
    n, values = number[pairs], found["correlation"].values[pairs]
    mean = (n * values).sum() / n.sum()
    excess = max((n * (values - mean) ** 2).sum() - 11, 0) / (n.sum() - (n**2).sum() / n.sum())
    common = np.zeros((4, 4))  # of the second rater with the first
    common[pairs] = np.maximum(mean + (values - mean) * excess * n / (1 + excess * n), 0)
    common *= number / answered.sum(axis=0)[:, None]
    counts = np.full((4, 3, 3), 1 / 3)
    for n, m, c in zip(item, rater, label, strict=True):
        counts[m, :, c] += probability[n]
    rows = np.log(counts / counts.sum(axis=2, keepdims=True))

    def labels_of(panel):
        score = np.tile(np.log(probability.mean(axis=0)), (40, 1))
        for n, m, c in zip(item, rater, label, strict=True):
            if m in panel:
                repeats = ((item == n) & (rater == m)).sum()
                score[n] += rows[m, :, c] / repeats / (1 + sum(common[m, o] for o in panel))
        return score.argmax(axis=1)

    def wrong(labels):
        return (1 - probability[np.arange(40), labels]).sum()

    panel = [0, 1, 2, 3]
    lost = [wrong(labels_of([o for o in panel if o != m])) - wrong(labels_of(panel)) for m in panel]
    np.testing.assert_allclose(found["lost"], lost, atol=1e-9)
    for step, removed in enumerate(found["removed"].values):
        if step:
            without = {m: wrong(labels_of([o for o in panel if o != m])) for m in panel}
            assert without[int(removed)] == pytest.approx(min(without.values()), abs=1e-6)
            panel.remove(int(removed))
        labels = labels_of(panel)
        assert float(found["wrong"][step]) == pytest.approx(wrong(labels), abs=1e-9)
        drawn = (draws != labels).sum(axis=1)
        assert found["wrong_low"][step] <= drawn.mean() <= found["wrong_high"][step]


def test_position_bias_by_hand():
    #        both A   both B  first shown, twice   last shown
    said = [[0, 0]] * 4 + [[1, 1]] * 3 + [[0, 1]] * 5 + [[1, 0]]
    truth = np.array([0] * 4 + [1] * 3 + [0] * 5 + [1])
    found = bf.decisions.position_bias(known_truth(said, truth), [(0, 1)], random_seed=1)
    (row,) = found.to_dict("records")
    assert (row["items"], row["bias"], row["consistency"]) == (13, (5 - 1) / 26, 7 / 13)
    assert row["low"] < row["bias"] < row["high"]
    # right output shown first: in order where the truth is 0, swapped where it is 1
    assert row["right_first"] == (9 + 3) / 13 and row["right_second"] == (4 + 4) / 13 - 0 / 13
    assert (
        bf.decisions.position_bias(known_truth(said, truth), [(0, 1)], shown=(1, 0))["bias"].item()
        == -row["bias"]
    )
    # three consistent items, asked five times: as one more item of unknown verdicts makes them
    repeats = {"item": np.repeat([0, 1, 2], 10), "rater": ["x", "y"] * 15, "label": [1] * 30}
    responses = bf.Responses.from_long(repeats, classes=[0, 1])
    few = drawn_result(np.ones((10, 3), dtype=int), [0, 1], responses)
    (row,) = bf.decisions.position_bias(
        few, [("x", "y")], draws=4000, ci_prob=0.9, random_seed=1
    ).to_dict("records")
    low, high = beta.ppf([0.05, 0.95], 3.5, 0.5)
    assert row["items"] == 3 and row["consistency"] == 1
    assert row["consistency_low"] == pytest.approx(low, abs=0.02)
    assert row["consistency_high"] == pytest.approx(high, abs=0.02) and row["low"] < 0 < row["high"]


def test_bad_input(copies):
    result = copies[0]
    for cost, words in (
        ({0: 1}, "cost must have the names of all 4 raters"),
        ({0: 1, 1: 1, 2: 1, "x": 1}, "cost must have the names"),
        ({0: 1, 1: 1, 2: 1, 3: 0}, "cost must be a positive"),
    ):
        refused(words, bf.decisions.select_panel, result, cost)
    for size in (1, 3, 4):  # of the panels on the path
        found = bf.decisions.select_panel(result, size=size, random_seed=1)
        left = set(map(str, found["rater"].values)) - set(found["removed"].values[: 5 - size])
        assert set(map(str, found["rater"].values[found["kept"].values])) == left
        assert len(left) == size
    refused(r"panel must be from bf\.decisions\.select_panel", bf.plots.plot_panel, result)
    refused(r"ranks must be from bf\.decisions\.rank_raters", bf.plots.plot_ranks, result)
    refused(
        "size must be at most the number of raters, 4. Got: 5",
        bf.decisions.select_panel,
        result,
        size=5,
    )
    for pairs, words in (
        ([(0, 9)], r"raters of the result \(\[0, 1, 2, 3\]\)\. Got: 9"),
        ([0, 1], r"pairs of names of raters"),
        ([], r"pairs of names of raters"),
        ([(0, 1), (2, 2)], r"two raters, one for each order\. Got: 2 for both"),
    ):
        refused(words, bf.decisions.position_bias, result, pairs)
    with pytest.raises(ModelError, match=r"shown= must be .* Got: \(0, 2\)"):
        bf.decisions.position_bias(result, [(0, 1)], shown=(0, 2))
    with pytest.raises(ModelError, match="must have answered the same items"):
        bf.decisions.position_bias(
            known_truth(np.array([[0, -1], [-1, 1]]), np.array([0, 1])), [(0, 1)]
        )


def a_result(drawn=None, gold=(-1, -1, 1, -1, -1, -1)):
    sure = np.array([0.99, 0.6, 1.0, 0.97, 0.8, 0.995])
    probability = np.column_stack([sure, 1 - sure])
    probability[2] = [0, 1]
    coords = {"item": list("abcdef"), "class": ["no", "yes"]}
    groups = {
        "label_posterior": xr.Dataset({"probability": (("item", "class"), probability)}, coords),
        "constant_data": xr.Dataset(
            {"gold": ("item", list(gold)), "item_index": ("response", [0, 1, 2, 3, 4])}, coords
        ),
    }
    if drawn is not None:
        groups["label_draws"] = xr.Dataset({"label": (("sample", "item"), drawn)})
    return xr.DataTree.from_dict(groups)


def test_items_to_label_next_are_unknown():
    result = a_result()
    least = bf.decisions.next_items(result, 3, aim="correct")
    assert least["item"].tolist() == ["b", "e", "d"] and least["guess"].tolist() == ["no"] * 3
    np.testing.assert_allclose(least["error"], [0.4, 0.2, 0.03])
    next_items = bf.decisions.next_items
    seen = [next_items(result, 2, random_seed=seed)["item"].tolist() for seed in range(60)]
    counts = {item: sum(item in chosen for chosen in seen) for item in "abcdef"}
    assert counts["c"] == counts["f"] == 0  # known; without responses
    assert min(counts[item] for item in "abde") > 15  # of 30 expected
    assert len(next_items(result, 100)) == 4
    assert len(next_items(result, 100, aim="correct")) == 5


def test_labels_are_accepted_up_to_an_expected_share_of_errors():
    found = accept_labels(a_result(), error=0.02, ci_prob=0.9)
    # errors .005, .01, .03, .2, .4: shares .005, .0075, .015, .06125, .129
    assert found["accepted"].values.tolist() == [True, False, True, True, False, True]
    assert int(found["items"]) == 3 and float(found["coverage"]) == 0.6
    np.testing.assert_allclose(found["expected"], 0.015)
    np.testing.assert_allclose(found["risk"], [0.005, 0.0075, 0.015, 0.06125, 0.129])
    assert found["item_of_order"].values.tolist() == ["f", "a", "d", "e", "b"]
    # no wrong label has probability 0.956, but an interval has the expected share inside
    assert found.attrs["method"] == "independent items" and float(found["high"]) == 1 / 3
    strict = accept_labels(a_result(), error=0.001)
    assert int(strict["items"]) == 0 and strict["accepted"].sum() == 1 and strict["high"].isnull()
    counts = bf.Responses.from_counts({"00": 40, "01": 6, "11": 14})
    refused("expand", accept_labels, bf.vote_shares(counts))


def test_intervals_of_accepted_labels_are_those_of_joint_draws():
    drawn = np.zeros((200, 6), dtype=int)
    drawn[:2, 0], drawn[:6, 3], drawn[:1, 5] = 1, 1, 1  # wrong as often as probable, but together
    for few in (drawn, drawn[[*range(6), *range(20, 200)]]):  # and where draws differ from these
        for ci_prob, high in ((0.5, 1), (0.985, 2)):
            found = accept_labels(a_result(few), error=0.02, ci_prob=ci_prob)
            assert found.attrs["method"] == "joint draws of the labels"
            assert float(found["low"]) == 0 and float(found["high"]) == high / 3
    assert float(accept_labels(a_result(), error=0.02, ci_prob=0.985)["high"]) == 1 / 3


def test_further_labels_correct_the_labelled_items():
    drawn = np.zeros((400, 6), dtype=int)
    drawn[:, 2] = 1  # known
    drawn[:200, [1, 4]] = 1  # both wrong in half of the draws
    found = errors_after(a_result(drawn), [0, 1, 100], ci_prob=0.9, random_seed=1)
    assert found["labels"].tolist() == [0, 1, 5] * 2
    learn, correct = (own for _, own in found.groupby("aim", sort=False))
    total = 0.01 + 0.4 + 0.03 + 0.2 + 0.005
    np.testing.assert_allclose(learn["wrong"], [total, total * 4 / 5, 0], atol=1e-12)
    np.testing.assert_allclose(correct["wrong"], [total, total - 0.4, 0], atol=1e-12)
    assert correct["high"].tolist() == [2, 1, 0] and correct["low"].tolist() == [0, 0, 0]
    assert learn["high"].tolist() == [2, 2, 0]
    once = errors_after(a_result(drawn), [5, 20, 50], random_seed=1)  # of five that are unknown
    assert once["labels"].tolist() == [0, 5] * 2
    refused("sizes must be a whole number", errors_after, a_result(), [-1])


def test_known_labels_that_may_be_wrong_stay_doubtful():
    """Labelling other items does not correct them, even where they are nearly all items."""
    drawn = np.tile([0, 1, 0, 1, 0], (100, 1))
    drawn[:40, :2] = 1, 0  # two known items, wrong in 40 of 100 draws
    drawn[::5, 4] = 1  # the only unknown one
    table = bf.Responses.from_matrix(np.tile([[0], [1]], (3, 2))[:5], classes=[0, 1])
    result = drawn_result(drawn, [0, 1], table, gold=[0, 1, 0, 1, -1])
    found = errors_after(result, [1], ci_prob=0.9, random_seed=1)
    assert found["labels"].tolist() == [0, 1] * 2
    np.testing.assert_allclose(found["wrong"], [1.0, 0.8] * 2)
    assert found["high"].tolist() == [3, 2] * 2


def test_judges_are_dropped_only_if_the_loss_on_gold_falls():
    """Of good ones, none is dropped, however little it adds."""
    rng = np.random.default_rng(5)
    truth = rng.integers(2, size=300)
    kept = []
    for worst in (0.5, 0.75):
        right = rng.random((300, 5)) < [0.8, 0.8, 0.78, 0.76, worst]
        said = np.where(right, truth[:, None], 1 - truth[:, None])
        gold = np.where(np.arange(300) < 150, truth, -1)
        result = known_truth(said, truth, gold=gold)
        left_out = np.full((300, 2), np.nan)
        votes = np.column_stack([said == k for k in (0, 1)]).reshape(300, 2, 5).mean(axis=2)
        left_out[:150] = (votes[:150] + 0.1) / 1.2
        labels = result["label_posterior"].dataset
        result["label_posterior"] = xr.DataTree(
            labels.assign(left_out=(labels["probability"].dims, left_out))
        )
        panel = bf.decisions.select_panel(result, random_seed=1)
        assert np.isfinite(panel["loss"]).all()
        kept.append(panel["kept"].values)
        smallest = panel.attrs["smallest"]
        assert 1 <= smallest <= 5 - panel["loss"].values.argmin()
        assert (panel["loss"].values[6 - smallest :] > panel["loss"].values.min()).all()
    assert kept[1].all() and kept[0][:4].all()
    few = bf.decisions.select_panel(known_truth(said, truth), random_seed=1)
    assert few["loss"].isnull().all() and "smallest" not in few.attrs
