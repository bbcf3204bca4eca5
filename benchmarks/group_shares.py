"""Shares of groups: coverage of the 90 % intervals of ``bf.class_shares``, and their widths.

First, simulated tables of two groups, of which the model knows by populations, covariates, a
classifier, the order of the items or a graph, or of which it knows nothing. In half of the tables
the shares of the groups are equal. Then prediction-powered inference by itself, and with the real
fit, where few known labels are of one class.

    python benchmarks/group_shares.py [--quick] [--sets 200] [--write]
"""

from __future__ import annotations

import warnings

import numpy as np
from _shared import QUIET, Arguments
from scipy.stats import beta

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField, WeightedVotes
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.results.group_shares import by_differences

N_ITEMS, N_RATERS, LENGTH, SIDE = 120, 5, 15, 12
GROUP = np.repeat([0, 1], N_ITEMS // 2)
FIT = QUIET | {"chains": 2, "log_likelihood": False, "compute_convergence_checks": False}


def independent(shares, rng):
    return (rng.random(N_ITEMS) < shares[GROUP]).astype(int)


def in_sequence(shares, rng):
    """Draw chains of which a label stays with probability .7, else is drawn anew."""
    fresh, stays = independent(shares, rng), rng.random(N_ITEMS) < 0.7
    stays[::LENGTH] = False
    return fresh[np.maximum.accumulate(np.where(stays, -1, np.arange(N_ITEMS)))]


def on_grid(shares, rng):
    """Smooth independent labels on a grid, each half of which has its share."""
    rows, columns = N_ITEMS // SIDE, SIDE
    noise = rng.standard_normal((rows + 2, columns + 2))
    smooth = sum(noise[i : i + rows, j : j + columns] for i in range(3) for j in range(3))
    found = np.empty(N_ITEMS, dtype=int)
    for group, share in enumerate(shares):
        own = smooth.ravel()[group == GROUP]
        count = rng.binomial(len(own), share)
        found[group == GROUP] = np.argsort(np.argsort(-own)) < count
    return found


def neighbours():
    place = np.arange(N_ITEMS).reshape(-1, SIDE)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    return np.concatenate([down, np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)])


def classifier(y, rng):
    """Return probabilities of a classifier of the items that is right on three in four."""
    logit = 2.0 * y - 1.0 + rng.normal(0, 1.4, len(y))
    p = 1.0 / (1.0 + np.exp(-logit))
    return np.column_stack([1 - p, p])


TYPES = {"confusion_prior": [[4.0, 1.5], [1.5, 4.0]]}
SEQUENCES = bf.Sequences.from_lengths([LENGTH] * (N_ITEMS // LENGTH))
ROWS = {
    "nothing": (independent, lambda r, y, rng: DawidSkene(r, **TYPES)),
    "populations": (independent, lambda r, y, rng: DawidSkene(r, populations=GROUP, **TYPES)),
    "finer populations": (
        independent,
        lambda r, y, rng: DawidSkene(r, populations=np.arange(N_ITEMS) // 30, **TYPES),
    ),
    "coarser populations": (
        independent,
        lambda r, y, rng: DawidSkene(r, populations=np.arange(N_ITEMS) % 2, **TYPES),
    ),
    "covariates": (independent, lambda r, y, rng: DawidSkene(r, covariates=GROUP[:, None], **TYPES)),
    "noisy covariates": (
        independent,
        lambda r, y, rng: DawidSkene(
            r, covariates=(GROUP + rng.normal(0, 0.5, N_ITEMS))[:, None], **TYPES
        ),
    ),
    "classifier": (
        independent,
        lambda r, y, rng: DawidSkene(r, classifier=classifier(y, rng), **TYPES),
    ),
    "chain": (in_sequence, lambda r, y, rng: HiddenMarkov(r, SEQUENCES, **TYPES)),
    "graph": (on_grid, lambda r, y, rng: MarkovRandomField(r, neighbours(), **TYPES)),
}
SLOW = "covariates", "noisy covariates", "classifier"


def respond(y, rng):
    """Return responses of raters whose rows are drawn from the prior of the models."""
    right = rng.beta(4.0, 1.5, (2, N_RATERS))
    correct = rng.random((len(y), N_RATERS)) < right[y]
    return bf.Responses.from_matrix(np.where(correct, y[:, None], 1 - y[:, None]), classes=[0, 1])


def one_table(name, differ, seed, draws):
    """Return whether intervals hold the two shares, the contrast, and all; and their widths."""
    rng = np.random.default_rng(seed)
    draw, build = ROWS[name]
    shares = rng.uniform(0.1, 0.9, 2) if differ else np.repeat(rng.uniform(0.1, 0.9), 2)
    y = draw(shares, rng)
    responses = respond(y, rng)
    with plain_python(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build(responses, y, rng)
        result = bf.sample(model, draws, tune=100, random_seed=seed, **FIT)
    found = bf.class_shares(result, GROUP, ci_prob=0.9, random_seed=seed)
    table = found.shares[found.shares["class"] == 1]
    real = np.array([y.mean(), y[GROUP == 0].mean(), y[GROUP == 1].mean()])
    inside = (table["low"] <= real + 1e-9) & (real - 1e-9 <= table["high"])
    row = found.contrasts[found.contrasts["class"] == 1].iloc[0]
    holds = row["low"] - 1e-9 <= real[1] - real[2] <= row["high"] + 1e-9
    new = (table["new_low"] <= [shares.mean(), *shares]) & (
        [shares.mean(), *shares] <= table["new_high"]
    )
    labels = bf.label_probabilities(result).values[:, 1]
    bare = np.array([labels.mean(), labels[GROUP == 0].mean(), labels[GROUP == 1].mean()])
    error = np.abs(table["share"] - real)[1:].mean(), np.abs(bare - real)[1:].mean()
    width = (table["high"] - table["low"])[1:].mean()
    return [*inside, holds, new[1:].mean(), width, row["high"] - row["low"], *error]


def coverage(names, sets, draws):
    print("Coverage of 90 % intervals; errors: mean absolute error of shares, and of mean")
    print("label probabilities. Shares of the two groups, equal in half of the tables.")
    print(
        f"{'model knows':<20}{'tables':>6}  {'all':>4} {'group':>6} {'differ':>6}{'equal':>6}"
        f" {'contrast':>8} {'differ':>6}{'equal':>6} {'new':>5} {'width':>6} {'error':>6}{'bare':>6}"
    )
    for name in names:
        size = max(sets // 2, 3) if name in SLOW else sets
        found = np.array(
            [one_table(name, seed % 2 == 0, seed, draws // 2 if name in SLOW else draws)
             for seed in range(size)], dtype=float,
        )
        groups = found[:, 1:3].mean(axis=1)
        print(
            f"{name:<20}{size:>6} {found[:, 0].mean():>5.2f} {groups.mean():>6.3f} "
            f"{groups[::2].mean():>6.2f}{groups[1::2].mean():>6.2f} {found[:, 3].mean():>8.3f} "
            f"{found[::2, 3].mean():>6.2f}{found[1::2, 3].mean():>6.2f} {found[:, 4].mean():>5.2f} "
            f"{found[:, 5].mean():>6.3f} {found[:, 7].mean():>6.3f}{found[:, 8].mean():>6.3f}"
        , flush=True)
