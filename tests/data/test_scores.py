"""Scores of judges as ordered classes: quantiles, ties, names, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import bayesfuse as bf


def judged(n_items=200, n_judges=5, top=100, seed=1):
    """Return true quality, and scores of judges with a level, a spread and noise of their own."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n_items)
    level, spread, noise = rng.normal(0, 0.7, n_judges), *np.exp(rng.normal(0, 0.4, (2, n_judges)))
    item, judge = map(np.ravel, np.indices((n_items, n_judges)))
    heard = quality[item] + noise[judge] * rng.normal(size=len(item))
    score = top / 2 + top / 5 * (level[judge] + spread[judge] * heard)
    score = np.clip(np.round(score), 0, top)
    return quality, pd.DataFrame({"item": item, "rater": judge, "score": score})


def test_classes_are_quantiles_of_all_scores():
    _, frame = judged()
    table = bf.Responses.from_scores(frame, bins=6)
    share = np.bincount(table.label) / len(frame)
    assert table.ordered and np.abs(share - 1 / 6).max() < 0.03
    # rows are in the order of items and raters: classes increase with scores, and equal scores
    # are in one class, whose name is one of them
    by_class = frame.groupby(table.label)["score"]
    assert (by_class.min().to_numpy()[1:] > by_class.max().to_numpy()[:-1]).all()
    assert np.array_equal(by_class.quantile(0.5, "lower"), table.classes)


def test_classes_depend_on_the_order_of_scores_only():
    _, frame = judged(seed=2)
    other = frame.assign(score=np.exp(frame["score"] / 10))
    same = bf.Responses.from_scores(other, bins=5)
    assert np.array_equal(same.label, bf.Responses.from_scores(frame, bins=5).label)


def test_few_scores_are_the_classes_and_frequent_ones_may_join_bins():
    columns = {"item": range(12), "rater": ["x"] * 12}
    few = bf.Responses.from_scores(columns | {"score": [1, 2, 5] * 4}, bins=3)
    assert few.classes.tolist() == [1, 2, 5]
    most_equal = bf.Responses.from_scores(columns | {"score": [7] * 8 + [1, 2, 8, 9]}, bins=3)
    assert most_equal.classes.tolist() == [1, 7, 8]


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ([1.0, np.nan], {}, "drop rows without a score"),
        (["good", "bad"], {}, "finite numbers"),
        ([3, 3], {}, "must differ"),
        ([1, 2], {"score": "rating"}, "'rating'"),
    ],
)
def test_other_scores_are_refused(scores, options, message):
    with pytest.raises(bf.errors.ResponsesError, match=message):
        bf.Responses.from_scores({"item": [1, 2], "rater": ["x", "x"], "score": scores}, **options)


def test_scores_that_are_not_cut_are_refused_with_what_to_do():
    _, frame = judged()
    with pytest.raises(bf.errors.ResponsesError, match=r"bf\.Responses\.from_scores"):
        bf.fuse(frame, label="score", progressbar=False)
    with pytest.raises(bf.errors.ResponsesError, match=r"bf\.Responses\.from_scores"):
        bf.fuse(frame.assign(score=frame["score"] + 0.001 * frame.index), label="score")
    codes = frame[frame["item"] < 30].assign(
        label=frame["item"] % 25
    )  # many classes, on which raters agree
    with pytest.warns(bf.errors.QuickAnswerWarning):
        fused = bf.fuse(codes.drop(columns="score"), minutes=1e-5, progressbar=False)
    assert (fused.labels()["label"] == fused.labels()["item"] % 25).all()


@pytest.mark.slow
def test_graded_judges_rank_items_better_than_the_mean_of_scores():
    quality, frame = judged()
    table = bf.Responses.from_scores(frame)
    model = bf.models.DawidSkene(table, raters="graded", pooled=True)
    result = bf.sample(model, 200, chains=2, random_seed=1, progressbar=False, quiet=True)
    grade = bf.decisions.item_grades(result)["mean"]
    mean = frame.groupby("item")["score"].mean()
    assert spearmanr(grade, quality)[0] > spearmanr(mean, quality)[0] + 0.01
