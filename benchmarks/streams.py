"""A fit that learns from ten days, one after the other, beside fits of all days so far.

After each day, of all items so far with a known truth: accuracy / log-loss of the labels that
``bf.update`` gave on the day of each ("given"), of those that the fit after this day predicts in a
second pass ("second pass"), and of one ``bf.fit`` of all days so far ("one fit"). Seconds of the
update and of the fit; the first day is a fit in both columns, and a warm-up before it compiles
the kernels.

Two tables: adult2, 92,721 labels by 825 raters, in which 333 of 11,040 items have a known truth
(read from ../shared/data, next to the checkout; left out if it is not there), mean of three random
orders of the items; and a simulated one of 10⁶ responses, 100,000 items by 300 raters.

A third table is for raters who drift: half of twenty raters become worse with every day. Log-loss
of the items of the day and the mean error of the sensitivities of that day, by ``forgetting``.

    python benchmarks/streams.py [--quick]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import xarray as xr
from _shared import DATA, Arguments

import bayesfuse as bf
from bayesfuse.models import DawidSkene

DAYS = 10
DRAWS = 200


def adult2():
    folder = DATA / "adult2"
    responses = bf.Responses.from_long(pd.read_csv(folder / "responses.csv.gz"))
    truth = pd.read_csv(folder / "truth.csv.gz")
    return responses, dict(zip(truth["item"], truth["label"], strict=True))


def simulated(n_items):
    made = bf.datasets.simulate_dawid_skene(
        n_items, 300, 4, per_item=10, prevalence=[0.4, 0.3, 0.2, 0.1], random_seed=1
    )
    return made.responses, dict(enumerate(made.truth.tolist()))


def timed(function, *arguments, **options):
    began = time.perf_counter()
    return function(*arguments, **options), time.perf_counter() - began


def fit(responses):
    return bf.fit(DawidSkene(responses), draws=DRAWS, random_seed=1, log_likelihood=False)


def scores(labels, truth):
    """Return accuracy and log-loss of the items with a truth in several label tables."""
    probability = xr.concat([bf.label_probabilities(each) for each in labels], "item")
    items = set(probability["item"].values.tolist())
    found = bf.checks.label_scores(probability, {n: k for n, k in truth.items() if n in items})
    return found["accuracy"], found["log_loss"]


def in_days(responses, truth, seed):
    """Return by day the scores of the three ways, and the seconds of an update and of a fit."""
    order = np.random.default_rng(seed).permutation(responses.n_items)
    cut = np.array_split(order, DAYS)
    days = [responses.take(items) for items in cut]
    rows, given = [], []
    result = None
    for day, batch in enumerate(days):
        if result is None:
            result, seconds = timed(fit, batch)
        else:
            result, seconds = timed(bf.update, result, batch, draws=DRAWS, random_seed=1)
        given.append(bf.label_probabilities(result))
        again = [bf.predict(result, each, draws=DRAWS) for each in days[: day + 1]]
        so_far = responses.take(np.concatenate(cut[: day + 1]))
        whole, of_fit = (result, seconds) if day == 0 else timed(fit, so_far)
        each = (scores(given, truth), scores(again, truth), scores([whole], truth))
        rows.append([*np.ravel(each), seconds, of_fit])
    return np.array(rows)


def show(name, rows):
    print(f"\n{name}")
    names = " ".join(f"{name:>14}" for name in ("given", "second pass", "one fit"))
    print(f"day {names} {'update, s':>10} {'fit, s':>8}")
    for day, row in enumerate(rows, 1):
        pairs = " ".join(f"{a:>6.3f} / {b:.3f}" for a, b in row[:6].reshape(3, 2))
        print(f"{day:>3} {pairs} {row[6]:>10.2f} {row[7]:>8.2f}")


def drifting(seed, per_day):
    """Return days with their truth and the raters' accuracies, half of which fall day by day."""
    rng = np.random.default_rng(seed)
    days = []
    for day in range(DAYS):
        truth = rng.choice(3, p=[0.5, 0.3, 0.2], size=per_day)
        accuracy = np.full(20, 0.8)
        accuracy[:10] -= 0.05 * day
        item = np.repeat(np.arange(per_day), 4)
        rater = rng.permuted(np.tile(np.arange(20), (per_day, 1)), axis=1)[:, :4].ravel()
        wrong = (truth[item] + rng.integers(1, 3, size=item.size)) % 3
        right = rng.random(item.size) < accuracy[rater]
        label = np.where(right, truth[item], wrong)
        frame = {"item": item + day * per_day, "rater": rater, "label": label}
        batch = bf.Responses.from_long(frame, raters=range(20), classes=range(3))
        days.append((batch, dict(enumerate(truth.tolist(), day * per_day)), accuracy))
    return days


def follow(days, forgetting):
    """Return by day the log-loss of its items and the mean error of the sensitivities."""
    rows, result = [], None
    for batch, truth, accuracy in days:
        if result is None:
            result = fit(batch)
        else:
            result = bf.update(result, batch, forgetting=forgetting, draws=DRAWS, random_seed=1)
        rate = result["posterior"]["sensitivity"].mean(("chain", "draw")).values
        rows.append([scores([result], truth)[1], np.abs(rate - accuracy[:, None]).mean()])
    return np.array(rows)


def main():
    quick = Arguments(__doc__, "small tables, one order, no adult2").parse_args().quick
    warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
    small, _ = simulated(500)
    bf.update(fit(small.head(250)), small.take(np.arange(250, 500)), draws=5)
    seeds = range(1 if quick else 3)
    if (DATA / "adult2").exists() and not quick:
        rows = np.mean([in_days(*adult2(), seed) for seed in seeds], axis=0)
        show(f"adult2 in {DAYS} days, accuracy / log-loss, mean of {len(seeds)} orders", rows)
    n_items = 1000 if quick else 100_000
    responses, truth = simulated(n_items)
    show(f"simulated, {responses.n_responses:,} responses", in_days(responses, truth, 0))
    shares = (0.0, 0.3) if quick else (0.0, 0.1, 0.3, 0.6)
    found = {
        share: np.mean([follow(drifting(seed, 500), share) for seed in seeds], axis=0)
        for share in shares
    }
    print("\nhalf of the raters become worse: log-loss of the day / error of sensitivities")
    print("day " + " ".join(f"forgetting={share:<4}" for share in shares))
    for day in range(DAYS):
        each = " ".join(f"{a:>6.3f} / {b:.3f} " for a, b in (found[s][day] for s in shares))
        print(f"{day + 1:>3} {each}")


if __name__ == "__main__":
    main()
