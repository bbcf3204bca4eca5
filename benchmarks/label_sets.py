"""Several labels an item: ``bf.fuse`` of label sets beside a Dawid–Skene model for every label.

Tables of 500 items, 8 labels and 6 raters, of whom each answers 60 % of the items, are simulated
with labels that depend on each other through profiles of items, through pairwise log-odds, or not.

    python benchmarks/label_sets.py [--quick] [--sets 20] [--write]
"""

import time
from itertools import product

import numpy as np
import pandas as pd
from _shared import QUIET, Arguments
from scipy.special import expit

import bayesfuse as bf

KINDS = "profiles", "pairs", "independent"


def simulate(kind, rng, n_items, n_labels=8, n_raters=6):
    """Return label sets, the truth (items, labels), sensitivities and specificities."""
    if kind == "profiles":
        rate = rng.beta(0.4, 0.8, (4, n_labels))
        profile = rng.choice(4, n_items, p=rng.dirichlet(np.full(4, 5.0)))
        truth = rng.random((n_items, n_labels)) < rate[profile]
    elif kind == "pairs":
        sets = np.array(list(product([0, 1], repeat=n_labels)))
        coupling = np.triu(rng.normal(0, 1.2, (n_labels, n_labels)), 1)
        log_weight = sets @ rng.normal(-1, 0.7, n_labels) + ((sets @ coupling) * sets).sum(axis=1)
        weight = np.exp(log_weight - log_weight.max())
        truth = sets[rng.choice(len(sets), n_items, p=weight / weight.sum())] > 0
    else:
        truth = rng.random((n_items, n_labels)) < rng.beta(1.5, 3, n_labels)
    rates = []
    for mean in (0.8, 1.5):
        of_rater = rng.normal(mean, 0.6, (n_raters, 1))
        rates.append(expit(of_rater + rng.normal(0, 0.5, (n_raters, n_labels))))
    sensitivity, specificity = rates
    yes = np.where(truth[:, None], sensitivity, 1.0 - specificity)
    answers = rng.random(yes.shape) < yes
    answered = rng.random((n_items, n_raters)) < 0.6
    answered[np.arange(n_items), rng.integers(0, n_raters, n_items)] = True
    item, rater = np.nonzero(answered)
    columns = {f"label {label}": answers[item, rater, label] * 1 for label in range(n_labels)}
    frame = pd.DataFrame({"item": item, "rater": rater, **columns})
    return bf.Responses.from_label_sets(frame), truth, sensitivity, specificity


def log_loss(truth, probability):
    """Return the mean log-loss, probabilities clipped at 10⁻⁴."""
    of_truth = np.where(truth, probability, 1.0 - probability)
    return -np.log(np.clip(of_truth, 1e-4, 1.0)).mean()


def covered(posterior, sensitivity, specificity):
    """Return the share of sensitivities and specificities inside their 90 % intervals."""
    inside = []
    for name, truth in (("sensitivity", sensitivity), ("specificity", specificity)):
        drawn = posterior[name].transpose("chain", "draw", "rater").values
        low, high = np.quantile(drawn.reshape(-1, truth.size), [0.05, 0.95], axis=0)
        inside.append((low <= truth.ravel()) & (truth.ravel() <= high))
    return np.mean(inside)


def label_by_label(sets, shape):
    """Return label probabilities by a Dawid–Skene model for every label."""
    probability = np.empty(shape)
    for label in range(shape[1]):
        chosen = np.flatnonzero(sets.label == label)
        frame = sets.questions.take(chosen).to_frame()
        table = bf.Responses.from_long(frame, items=sets.questions.items[chosen].tolist())
        model = bf.models.DawidSkene(table)
        result = bf.sample(model, 250, random_seed=1, **QUIET)
        posterior = bf.label_probabilities(result).sel({"class": "yes"})
        probability[:, label] = posterior.values
    return probability


def compare(kind, seed, n_items):
    """Return a row of the table for one simulated table."""
    sets, truth, sensitivity, specificity = simulate(kind, np.random.default_rng(seed), n_items)
    votes = sets.questions.votes()
    share = (votes[:, 1] / np.maximum(votes.sum(axis=1), 1)).reshape(truth.shape)
    start = time.process_time()
    fused = bf.fuse(sets, random_seed=seed, progressbar=False)
    seconds = time.process_time() - start
    probability = fused.probabilities().values
    separate = label_by_label(sets, truth.shape)
    right = ((probability > 0.5) == truth).all(axis=1)
    return {
        "labels": kind,
        "votes": log_loss(truth, share),
        "label by label": log_loss(truth, separate),
        "fuse": log_loss(truth, probability),
        "accuracy, label by label": ((separate > 0.5) == truth).mean(),
        "accuracy": ((probability > 0.5) == truth).mean(),
        "expected : real errors": (
            np.minimum(probability, 1 - probability).sum() / ((probability > 0.5) != truth).sum()
        ),
        "sets right": right.mean(),
        "sets expected": fused["label_sets"]["set_probability"].values.mean(),
        "coverage": covered(fused["posterior"], sensitivity, specificity),
        "CPU seconds": seconds,
    }


def main():
    parser = Arguments(__doc__, "one table of 60 items of every kind")
    parser.add_argument("--sets", type=int, default=20, help="tables of every kind")
    options = parser.parse_args()
    n_tables, n_items = (1, 60) if options.quick else (options.sets, 500)
    rows = [compare(kind, seed, n_items) for kind in KINDS for seed in range(n_tables)]
    table = pd.DataFrame(rows).groupby("labels", sort=False).mean()
    table["log-loss ratio"] = table["fuse"] / table["label by label"]
    print(f"Means over {n_tables} tables of {n_items} items")
    print(table.T.round(3).to_string())


if __name__ == "__main__":
    main()
