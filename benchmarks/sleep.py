"""Stages of sleep: 25 nights in epochs of 30 s, five people and six networks, five classes.

Two tasks. Four people predict the fifth, whose own errors are in the scores; six networks predict
the stage on which most people agree. Accuracy, log-loss (nats, probabilities at least 10⁻⁶), wrong
labels expected : actual, and CPU seconds, of methods with and without the order of the epochs. The
last tables are simulated: chains of classes with independent errors, where a chain is true.

    python benchmarks/sleep.py [--quick] [--seeds 1] [--minutes 3]
"""

from __future__ import annotations

import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments, data
from traganitis2020 import LENGTH, simulate

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes

PEOPLE = 5  # raters 0 to 4; the others are networks
FIFTH = 4
STAGES = np.array(["W", "N1", "N2", "N3", "REM"])


def read(task, nights, epochs=None):
    """Return the responses of a task in its first nights, their order, and the true labels.

    Of every night, all epochs or the first so many.
    """
    folder = data("sleep_h")
    items = pd.read_csv(folder / "items.csv.gz")
    table = pd.read_csv(folder / "responses.csv.gz")
    items = items[items["sequence"].isin(items["sequence"].unique()[:nights])]
    items = items.groupby("sequence").head(epochs or len(items))
    table = table[table["item"].isin(items["item"])]
    if task == "people":
        truth = table[table["rater"] == FIFTH].set_index("item")["label"]
        table = table[table["rater"] < FIFTH]
    else:
        truth = pd.read_csv(folder / "truth.csv.gz").set_index("item")["label"]
        table = table[table["rater"] >= PEOPLE]
    items = items[items["item"].isin(table["item"])]
    responses = bf.Responses.from_long(table, classes=range(len(STAGES)))
    return responses, bf.Sequences.from_table(items), truth[truth.index.isin(items["item"])]


def from_chain(seed):
    """Simulate ten raters with independent errors of labels in a chain of four classes."""
    _, _, _, truth, responses = simulate(np.random.default_rng(seed), 2000, 10)
    sequences = bf.Sequences.from_lengths([LENGTH] * (2000 // LENGTH))
    return responses, sequences, pd.Series(truth, responses.items)


def by_draws(make, responses, sequences, seed):
    return bf.sample(make(responses, sequences), 100, tune=100, random_seed=seed, **QUIET)


def by_mode(make, responses, sequences, seed):
    return bf.find_map(make(responses, sequences))


def fused(has_order, minutes, responses, sequences, seed):
    order = {"sequences": sequences} if has_order else {}
    options = {"minutes": minutes, "checks": False, "random_seed": seed, "progressbar": False}
    return bf.fuse(responses, **order, **options)


def methods(minutes):
    """Return the methods by name: functions of responses, sequences and seed to labels."""

    def chain(raters):
        return lambda responses, sequences: HiddenMarkov(responses, sequences, raters=raters)

    return {
        "vote": lambda responses, *_: bf.vote_shares(responses),
        "Dawid–Skene": partial(by_draws, lambda responses, _: DawidSkene(responses)),
        "item types": partial(by_draws, lambda responses, _: ItemTypes(responses)),
        "chain of classes": partial(by_draws, chain("confusion")),
        "rows by previous answer": partial(by_draws, chain("sequential")),
        "HiddenMarkov, default": partial(by_draws, chain(None)),
        "the same, find_map": partial(by_mode, chain(None)),
        "fuse without order": partial(fused, False, minutes),
        "fuse(sequences=)": partial(fused, True, minutes),
    }


def score(result, truth):
    """Return accuracy, log-loss, and wrong labels expected and actual."""
    labels = bf.label_probabilities(result).transpose("item", "class").sel(item=truth.index.values)
    probability = np.clip(labels.values, 1e-6, None)
    probability /= probability.sum(axis=1, keepdims=True)
    code = pd.Index(labels["class"].values).get_indexer(truth.to_numpy())
    wrong = probability.argmax(axis=1) != code
    loss = -np.log(probability[np.arange(len(code)), code]).mean()
    return 1.0 - wrong.mean(), loss, (1.0 - probability.max(axis=1)).sum(), wrong.sum()


def report(title, tables, seeds, minutes):
    """Print the means over tables and seeds of all methods."""
    print(f"\n{title}\n{'':<26} accuracy  log-loss  expected : actual   ratio  CPU s")
    for name, method in methods(minutes).items():
        rows = []
        for responses, sequences, truth in tables:
            for seed in range(seeds):
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = method(responses, sequences, seed)
                rows.append((*score(result, truth), time.process_time() - start))
        accuracy, loss, expected, actual, seconds = np.mean(rows, axis=0)
        numbers = f"{accuracy:>9.4f}{loss:>10.3f}{expected:>11,.0f} : {actual:<7,.0f}"
        print(f"{name:<26}{numbers}{expected / actual:>6.2f}{seconds:>7.0f}", flush=True)


def main() -> None:
    parser = Arguments(__doc__, "200 epochs of two nights, one simulated table")
    parser.add_argument("--nights", type=int, default=25)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0)
    given = parser.parse_args()
    nights, epochs, minutes = (2, 200, 0.2) if given.quick else (given.nights, None, given.minutes)
    for task, title in (
        ("people", "Four people predict the fifth"),
        ("networks", "Six networks, truth by people"),
    ):
        report(title, [read(task, nights, epochs)], given.seeds, minutes)
    simulated = [from_chain(seed) for seed in range(1 if given.quick else 5)]
    report("Simulated chains, independent errors", simulated, 1, minutes)


if __name__ == "__main__":
    main()
