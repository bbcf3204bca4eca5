"""Scores of judges with levels, spreads and noise of their own: graded raters beside means.

Items have a true quality; judges score each of them on a scale of 1 to 10 or 0 to 100. Log-losses
are of "above the median of the true quality": of means, by a logistic curve fitted to the truth,
which no user has.

    python benchmarks/judge_scores.py [--quick] [--sets 20] [--fuse] [--write]
"""

import time

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import spearmanr

import bayesfuse as bf

KINDS = {  # scale, judges of an item, standard deviation of levels and of log spreads and noises
    "1 to 10, own scales, 4 of 8": (1, 10, 4, 0.7),
    "0 to 100, own scales, 3 of 8": (0, 100, 3, 0.7),
    "1 to 10, equal judges, 4 of 8": (1, 10, 4, 0.0),
}


def simulate(kind, rng, n_items, n_judges=8):
    """Return the true quality (items,) and a long table of scores."""
    lowest, highest, per_item, variety = KINDS[kind]
    quality = rng.normal(size=n_items)
    level = variety * rng.normal(size=n_judges)
    spread = np.exp(0.6 * variety * rng.normal(size=n_judges))
    noise = np.exp(-0.3 + 0.9 * variety * rng.normal(size=n_judges))
    item = np.repeat(np.arange(n_items), per_item)
    judge = rng.permuted(np.tile(np.arange(n_judges), (n_items, 1)), axis=1)[:, :per_item].ravel()
    heard = level[judge] + spread[judge] * (
        quality[item] + noise[judge] * rng.normal(size=len(item))
    )
    score = (lowest + highest) / 2 + (highest - lowest) / 5 * heard
    score = np.clip(np.round(score), lowest, highest)
    return quality, pd.DataFrame({"item": item, "rater": judge, "score": score})


def log_loss(is_high, probability):
    """Return the mean log-loss, probabilities clipped at 10⁻⁴."""
    of_truth = np.where(is_high, probability, 1.0 - probability)
    return -np.log(np.clip(of_truth, 1e-4, 1.0)).mean()


def calibrated(value, is_high):
    """Return probabilities by the logistic curve that fits the truth best."""

    def loss(curve):
        return log_loss(is_high, expit(curve[0] + curve[1] * (value - value.mean()) / value.std()))

    intercept, slope = minimize(loss, np.array([0.0, 1.0]), method="Nelder-Mead").x
    return expit(intercept + slope * (value - value.mean()) / value.std())


def upper_half(result, votes):
    """Return the mean grade of items, and the probability that they are in the upper half."""
    labels = bf.label_probabilities(result).transpose("item", "class").values
    below = votes.sum(axis=0).cumsum() / votes.sum() - 0.5
    share = np.clip(below / (votes.sum(axis=0) / votes.sum()), 0.0, 1.0)  # of a class above
    return bf.decisions.item_grades(result)["mean"].values, labels @ share


def compare(kind, seed, n_items, with_fuse):
    """Return a row of the table for one simulated table."""
    quality, frame = simulate(kind, np.random.default_rng(seed), n_items)
    is_high = quality > np.median(quality)
    by_judge = frame.groupby("rater")["score"]
    standard = (frame["score"] - by_judge.transform("mean")) / by_judge.transform("std")
    row = {"judges": kind}
    for name, score in (("mean", frame["score"]), ("mean of z-scores", standard)):
        value = score.groupby(frame["item"]).mean().to_numpy()
        row[name] = spearmanr(value, quality)[0]
        row[f"log-loss, {name}"] = log_loss(is_high, calibrated(value, is_high))
    table = bf.Responses.from_scores(frame)
    start = time.process_time()
    model = bf.models.DawidSkene(table, raters="graded", pooled=True)
    results = {
        "graded raters": bf.sample(model, 250, tune=200, chains=2, random_seed=seed, **QUIET)
    }
    row["CPU seconds"] = time.process_time() - start
    if with_fuse:
        options = {"random_seed": seed, "progressbar": False, "checks": False}
        results["fuse"] = bf.fuse(table, ordered=True, **options)
    for name, result in results.items():
        value, probability = upper_half(result, table.votes())
        row[name] = spearmanr(value, quality)[0]
        row[f"log-loss, {name}"] = log_loss(is_high, probability)
    return row


def main():
    parser = Arguments(__doc__, "one table of 60 items of every kind")
    parser.add_argument("--sets", type=int, default=20, help="tables of every kind")
    parser.add_argument("--fuse", action="store_true", help="bf.fuse, too")
    options = parser.parse_args()
    n_tables, n_items = (1, 60) if options.quick else (options.sets, 200)
    tables = [(kind, seed) for kind in KINDS for seed in range(n_tables)]
    rows = [compare(*table, n_items, options.fuse) for table in tables]
    table = pd.DataFrame(rows)
    means = table.groupby("judges", sort=False).mean()
    gain = table["graded raters"] - table[["mean", "mean of z-scores"]].max(axis=1)
    by_kind = gain.groupby(table["judges"], sort=False)
    means["gain over the better mean"] = by_kind.mean()
    means["standard error"] = by_kind.sem()
    print(f"Rank correlation with the true quality, and log-losses: means over {n_tables} tables")
    print(means.T.round(3).to_string())


if __name__ == "__main__":
    main()
