"""Strengths of ``bf.decisions.leaderboard`` if verdicts of judges are drawn in other ways.

Three systems of strengths .6, .1 and -.7, five judges, 600 pairs. The better output is drawn by
Bradley-Terry, and judges find it by .7 to .9, independently or, on half of the pairs, with shared
errors; or every vote is drawn by Bradley-Terry; or qualities differ by the strengths and normal
noise of the pair, to which each judge adds noise of their own. Beside the strengths of the labels
by Dawid and Skene's model and by ``bf.fuse`` are those of the true labels. Means over the tables.

    python benchmarks/strength_scales.py [--quick] [--tables 3] [--write]
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from _shared import Arguments

import bayesfuse as bf

STRENGTH = np.array([0.6, 0.1, -0.7])
ACCURACY = np.array([0.9, 0.85, 0.8, 0.75, 0.7])
N_PAIRS = 600
SHAPE = N_PAIRS, len(ACCURACY)


def is_first(log_odds, rng):
    """Return whether the first system wins, by Bradley-Terry."""
    return rng.random(log_odds.shape) < 1.0 / (1.0 + np.exp(-log_odds))


def independent_errors(apart, rng):
    truth = is_first(apart, rng)
    right = rng.random(SHAPE) < ACCURACY
    return truth, np.where(right, truth[:, None], ~truth[:, None])


def shared_errors(apart, rng):
    truth, shared = is_first(apart, rng), rng.random((N_PAIRS, 1)) < 0.5
    luck = np.where(shared, rng.random((N_PAIRS, 1)), rng.random(SHAPE))
    return truth, np.where(luck < ACCURACY, truth[:, None], ~truth[:, None])


def every_vote(apart, rng):
    return None, is_first(np.tile(apart[:, None], SHAPE[1]), rng)


def noise_of_pairs(apart, rng):
    apart = apart + rng.normal(size=N_PAIRS)
    return apart > 0.0, apart[:, None] + rng.normal(size=SHAPE) > 0.0


KINDS = {
    "independent errors": independent_errors,
    "shared errors": shared_errors,
    "every vote": every_vote,
    "noise of pairs and judges": noise_of_pairs,
}


def strengths(result, pairs):
    board = bf.decisions.leaderboard(result, pairs, random_seed=1)
    return board["strength"].sortby("system").values


def estimates(kind, seed):
    """Return the strengths of true labels, of Dawid and Skene's model, and of ``bf.fuse``."""
    rng = np.random.default_rng(seed)
    first = rng.integers(3, size=N_PAIRS)
    second = (first + rng.integers(1, 3, size=N_PAIRS)) % 3
    truth, first_wins = KINDS[kind](STRENGTH[first] - STRENGTH[second], rng)
    pairs = pd.DataFrame({"item": np.arange(N_PAIRS), "first": first, "second": second})
    responses = bf.Responses.from_matrix(np.where(first_wins, "A", "B"))
    known = np.full(3, np.nan)
    if truth is not None:
        gold = dict(enumerate(np.where(truth, "A", "B")))
        known = strengths(bf.find_map(bf.models.DawidSkene(responses, gold=gold)), pairs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
        fitted = bf.fit(bf.models.DawidSkene(responses), draws=200, random_seed=1)
    fused = bf.fuse(responses, checks=False, random_seed=1, progressbar=False)
    return np.array([known, strengths(fitted, pairs), strengths(fused, pairs)])


def main() -> None:
    parser = Arguments(__doc__, "one table of one kind")
    parser.add_argument("--tables", type=int, default=3)
    options = parser.parse_args()
    n_tables, kinds = (1, list(KINDS)[:1]) if options.quick else (options.tables, list(KINDS))
    print(f"{n_tables} tables of each kind; strengths {STRENGTH.tolist()}")
    for kind in kinds:
        found = np.mean([estimates(kind, seed) for seed in range(n_tables)], axis=0)
        print(f"\n{kind}")
        for method, row in zip(("true labels", "Dawid-Skene", "bf.fuse"), found, strict=True):
            print(f"  {method:12s}" + "".join(f"{strength:7.2f}" for strength in row))


if __name__ == "__main__":
    main()
