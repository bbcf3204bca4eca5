"""Repeated responses, and copies of raters: what is kept of them, and how the answer says so."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import QuickAnswerWarning


def judged(seed, accuracy, calls, consistency=None):
    """Return a long table and the truth: judge a is called several times, others once.

    Later calls repeat the first one with probability ``consistency``; None draws them anew.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=200)
    parts = []
    for judge, right, times in zip("abc", accuracy, calls, strict=True):
        first = np.where(rng.random(200) < right, truth, 1 - truth)
        for call in range(times):
            anew = np.where(rng.random(200) < right, truth, 1 - truth)
            if consistency is not None:
                anew = np.where(rng.random(200) < (consistency if call else 1.0), first, 1 - first)
            table = {"item": range(200), "rater": judge, "label": anew, "call": call}
            parts.append(pd.DataFrame(table))
    return pd.concat(parts), truth


def key(table):
    """Return items, raters and labels of a table, by name."""
    return table.to_frame().to_numpy().tolist()


@pytest.mark.parametrize("accuracy", [(0.6, 0.8, 0.8), (0.7, 0.75, 0.8)])
@pytest.mark.parametrize("consistency", [0.75, 0.9, 1.0])
def test_repeats_that_share_errors_count_once(accuracy, consistency):
    frame, _ = judged(1, accuracy, (5, 1, 1), consistency)
    kept, repeats = bf.checks.collapse_repeats(frame.rename(columns={"label": "x"}), label="x")
    assert repeats.index.tolist() == ["a"] and repeats.loc["a", "repeats"] == 800
    assert repeats.loc["a", "independent"] < 0.05
    assert 200 <= kept.per_rater[0] < 240 and kept.per_rater[1:].tolist() == [200, 200]
    if consistency == 1.0:
        once = bf.Responses.from_long(frame[frame["call"] == 0])
        assert key(kept) == key(once)


@pytest.mark.parametrize("accuracy", [(0.8, 0.7, 0.7), (0.9, 0.9, 0.9)])
def test_repeats_that_err_independently_are_kept(accuracy):
    shares = []
    for seed in range(3):
        _, repeats = bf.checks.collapse_repeats(judged(seed, accuracy, (5, 1, 1))[0])
        shares.append(repeats.loc["a", "independent"])
    assert np.mean(shares) > 0.85


@pytest.mark.parametrize("n_repeats", [10, 60])
@pytest.mark.parametrize("is_copy", [True, False])
def test_repeats_of_many_raters_are_judged_together(n_repeats, is_copy):
    """Single responses tell nothing of repeats, and copies of responses are never independent."""
    rng = np.random.default_rng(0)
    accuracy, truth = rng.uniform(0.5, 0.9, 20), rng.integers(3, size=160)
    item, rater = np.repeat(np.arange(160), 5), rng.integers(4, size=(160, 5))
    rater = (rater + 4 * np.arange(5)).ravel()
    is_right = rng.random((2, 800)) < accuracy[rater]
    wrong = (truth[item] + rng.integers(1, 3, (2, 800))) % 3
    once, anew = np.where(is_right, truth[item], wrong)
    again = rng.choice(800, n_repeats, replace=False)
    rows = {"item": np.append(item, item[again]), "rater": np.append(rater, rater[again])}
    rows["label"] = np.append(once, (once if is_copy else anew)[again])
    _, repeats = bf.checks.collapse_repeats(bf.Responses.from_long(rows))
    share = np.average(repeats["independent"], weights=repeats["repeats"])
    assert share < 0.35 if is_copy else share > 0.5


def test_one_repeat_decides_nothing():
    frame, _ = judged(1, (0.8, 0.8, 0.8), (1, 1, 1))
    first = frame.iloc[:1]
    for label in (0, 1):
        _, repeats = bf.checks.collapse_repeats(pd.concat([frame, first.assign(label=label)]))
        assert 0.25 < repeats.loc["a", "independent"] < 0.75


def test_doubled_responses_and_copied_raters_leave_the_table():
    once = bf.Responses.from_long(judged(2, (0.6, 0.8, 0.7), (1, 1, 1))[0])
    frame = once.to_frame()
    doubled, _ = bf.checks.collapse_repeats(pd.concat([frame, frame]))
    assert once.n_responses <= doubled.n_responses < 1.02 * once.n_responses
    copies = [frame[frame["rater"] == "a"].assign(rater=name) for name in ("d", "e")]
    copied, left_out = bf.checks.collapse_repeats(pd.concat([frame, *copies]))
    assert key(copied) == key(once) and copied.raters.tolist() == ["a", "b", "c"]
    assert left_out.loc["a", "copies"] == ["d", "e"]
    kept, _ = bf.checks.collapse_repeats(pd.concat([frame, *copies]), copies=False)
    assert kept.n_raters == 5


@pytest.mark.parametrize("consistency", [0.97, None])
def test_a_near_copy_of_a_rater_does_not_confirm_repeated_errors(consistency):
    """The verdict of two raters is no evidence of the class, whether calls err together or not."""
    shares = []
    for seed in range(3):
        frame, truth = judged(seed, (0.75, 0.75, 0.75), (3, 1, 1), consistency)
        once = frame[(frame["rater"] == "a") & (frame["call"] == 0)]
        rng = np.random.default_rng(seed)
        nearly = np.where(rng.random(200) < 0.98, once["label"], 1 - once["label"])
        right = np.where(rng.random(200) < 0.75, truth, 1 - truth)
        more = [once.assign(rater="like a", label=nearly), once.assign(rater="d", label=right)]
        _, repeats = bf.checks.collapse_repeats(pd.concat([frame, *more]))
        shares.append(repeats.loc["a", "independent"])
    assert np.mean(shares) > 0.85 if consistency is None else np.mean(shares) < 0.1


def test_repeats_count_once_if_dependence_is_not_identified():
    frame, _ = judged(1, (0.8, 0.7, 0.7), (5, 1, 1))
    kept, _ = bf.checks.collapse_repeats(frame[frame["rater"] < "c"])
    assert kept.per_rater.tolist() == [200, 200]


def test_few_equal_responses_are_no_copy():
    """In a crowd, raters with one or two responses often agree on all of them."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=300)
    item = np.repeat(np.arange(300), 4)
    label = np.where(rng.random(1200) < 0.8, truth[item], 1 - truth[item])
    crowd = bf.Responses.from_long({"item": item, "rater": np.arange(1200), "label": label})
    kept, repeats = bf.checks.collapse_repeats(crowd)
    assert kept.n_raters > 1190 and not (repeats["repeats"] > 0).any()


def test_the_overview_states_the_weight_of_repeats():
    frame, _ = judged(1, (0.6, 0.8, 0.8), (5, 1, 1), 0.9)
    with pytest.warns(QuickAnswerWarning):
        fused = bf.fuse(
            frame[["item", "rater", "label"]], minutes=1e-4, random_seed=1, progressbar=False
        )
    words = " ".join(fused.overview().split())
    assert "those of a are alike in 83% of the pairs, and five count as about 1.0" in words
    assert "bf.checks.collapse_repeats(" in fused.attrs["code"]


def test_few_repeats_are_counted_and_no_rater_is_judged_by_them():
    rows = [(n, rater, "no") for n in range(20) for rater in "abc"] + [(0, "a", "yes")]
    frame = pd.DataFrame(rows, columns=["item", "rater", "label"])
    with pytest.warns(QuickAnswerWarning):
        fused = bf.fuse(frame, minutes=1e-4, random_seed=1, progressbar=False)
    words = " ".join(fused.overview().split())
    assert "of 1 repeated response is left out: one is kept, at random" in words
    assert "are alike in" not in words


def test_order_and_names_of_classes_do_not_matter():
    """Equal tables are collapsed equally, with ties and with repeats that are in doubt."""
    frame, _ = judged(3, (0.7, 0.75, 0.8), (4, 2, 1), 0.7)
    frame["label"] = frame["label"].map({0: "no", 1: "yes"})
    kept, _ = bf.checks.collapse_repeats(frame)
    shuffled, _ = bf.checks.collapse_repeats(frame.sample(frac=1.0, random_state=1))
    assert sorted(key(kept)) == sorted(key(shuffled))


def test_spellings_of_known_labels_are_still_matched():
    frame, _ = judged(1, (0.6, 0.8, 0.8), (2, 1, 1))
    frame["label"] = frame["label"].map({0: "no", 1: "yes"})
    copy = frame[frame["rater"] == "b"].assign(rater="d")
    for repeated in (frame, pd.concat([frame[frame["call"] == 0], copy])):
        table = bf.Responses.from_long(repeated, normalise=True)
        kept, repeats = bf.checks.collapse_repeats(table)
        assert len(repeats) == 1 and kept.n_responses < table.n_responses
        labels = bf.label_probabilities(bf.vote_shares(kept, gold={7: "YES"}))
        assert labels.sel(item=7).values.tolist() == [0.0, 1.0]
