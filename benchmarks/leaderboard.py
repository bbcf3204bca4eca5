"""Simulated pairs of outputs of systems: ranks by ``bf.decisions.leaderboard`` and by votes.

Twenty systems, 2,000 random pairs with ties, five judges: two are near chance and one prefers what
is shown first, or all are equally good. Beside it stand Bradley-Terry models with ties of the
majority vote (ties broken at random), and of all votes as independent comparisons, both with a
Bayesian bootstrap over pairs. A row has means over the tables: Kendall's and Spearman's rank
correlation with the true strengths, how often 90 % intervals hold the true rank and the true
strength, the slope of estimated on true strengths, and seconds of the ranking. Differences of
correlations follow with their standard errors.

    python benchmarks/leaderboard.py [--quick] [--tables 20] [--write]
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from _shared import Arguments
from scipy.stats import kendalltau, spearmanr

import bayesfuse as bf
from bayesfuse.numerics.davidson import Davidson, draw_parameters

CLASSES = ["A", "B", "tie"]
N_SYSTEMS, N_PAIRS, DRAWS = 20, 2000, 1000


def judge(accuracy, prefers_first=0.0):
    """Return the rows of a judge who else guesses, or names the output that is shown first."""
    rows = accuracy * np.eye(3) + (1.0 - accuracy) / 3.0
    return (1.0 - prefers_first) * rows + prefers_first * np.array([1.0, 0.0, 0.0])


PANELS = {
    "two judges near chance, one prefers what is first": [
        judge(0.75),
        judge(0.65),
        judge(0.1),
        judge(0.05),
        judge(0.8, prefers_first=0.5),
    ],
    "equal judges": [judge(0.65)] * 5,
}


def simulate(panel, rng):
    """Return strengths, systems shown first and second, and labels of the judges."""
    strength = rng.normal(0.0, 0.5, N_SYSTEMS)
    first = rng.integers(N_SYSTEMS, size=N_PAIRS)
    second = (first + rng.integers(1, N_SYSTEMS, size=N_PAIRS)) % N_SYSTEMS
    middle = (strength[first] + strength[second]) / 2 + np.log(0.5)
    weight = np.exp(np.stack([strength[first], strength[second], middle], axis=1))
    chance = weight / weight.sum(axis=1, keepdims=True)
    outcome = (chance.cumsum(axis=1) < rng.random((N_PAIRS, 1))).sum(axis=1).clip(max=2)
    drawn = [rows[outcome].cumsum(axis=1) < rng.random((N_PAIRS, 1)) for rows in panel]
    labels = np.stack([below.sum(axis=1) for below in drawn], axis=1).clip(max=2)
    return strength - strength.mean(), first, second, labels


def of_votes(first, second, label, cluster):
    """Return drawn strengths of a Bradley-Terry model of certain outcomes, (draws, systems)."""
    model = Davidson(first, second, np.eye(3)[label], N_SYSTEMS, np.ones(len(first)))
    drawn = draw_parameters(model, cluster, DRAWS, np.random.default_rng(1))[:, :N_SYSTEMS]
    return drawn - drawn.mean(axis=1, keepdims=True)


def measure(strength, estimate, ends, rank_ends):
    """Return correlations, coverage and slope."""
    rank = (-strength).argsort().argsort() + 1
    return [
        kendalltau(estimate, strength)[0],
        spearmanr(estimate, strength)[0],
        np.mean((rank_ends[0] <= rank) & (rank <= rank_ends[1])),
        np.mean((ends[0] <= strength) & (strength <= ends[1])),
        estimate @ strength / (strength @ strength),
    ]


def by_votes(strength, first, second, labels, majority):
    """Return the measures of a ranking by votes, and its seconds."""
    began = time.perf_counter()
    if majority:
        counts = np.stack([(labels == k).sum(axis=1) for k in range(3)], axis=1)
        label = (counts + np.random.default_rng(0).uniform(0, 0.1, counts.shape)).argmax(axis=1)
        drawn = of_votes(first, second, label, np.arange(N_PAIRS))
    else:
        cluster = np.repeat(np.arange(N_PAIRS), labels.shape[1])
        drawn = of_votes(first[cluster], second[cluster], labels.ravel(), cluster)
    seconds = time.perf_counter() - began
    rank = (-drawn).argsort(axis=1).argsort(axis=1) + 1
    rank_ends = np.quantile(rank, [0.05, 0.95], axis=0, method="inverted_cdf")
    ends = np.quantile(drawn, [0.05, 0.95], axis=0)
    return [*measure(strength, drawn.mean(axis=0), ends, rank_ends), seconds]


def by_leaderboard(strength, first, second, result):
    """Return the measures of ``bf.decisions.leaderboard``, and its seconds."""
    pairs = pd.DataFrame({"item": np.arange(N_PAIRS), "first": first, "second": second})
    began = time.perf_counter()
    board = bf.decisions.leaderboard(result, pairs, shown=("A", "B"), ci_prob=0.9, random_seed=1)
    seconds = time.perf_counter() - began
    board = board.sortby("system")
    ends, rank_ends = (
        [board[name].values for name in names]
        for names in (("low", "high"), ("rank_low", "rank_high"))
    )
    return [*measure(strength, board["strength"].values, ends, rank_ends), seconds]


def compare(name, panel, n_tables):
    rows = {"majority vote": [], "all votes": [], "Dawid-Skene": [], "bf.fuse": []}
    for table in range(n_tables):
        strength, first, second, labels = simulate(panel, np.random.default_rng(table))
        for method, majority in (("majority vote", True), ("all votes", False)):
            rows[method].append(by_votes(strength, first, second, labels, majority))
        responses = bf.Responses.from_matrix(np.array(CLASSES)[labels], classes=CLASSES)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bf.errors.PoorFitWarning)
            fitted = bf.fit(bf.models.DawidSkene(responses), draws=200, random_seed=1)
            fused = bf.fuse(responses, checks=False, random_seed=1, progressbar=False)
        for method, result in (("Dawid-Skene", fitted), ("bf.fuse", fused)):
            rows[method].append(by_leaderboard(strength, first, second, result))
    print(f"\n{name}: {n_tables} tables")
    print("                   tau    rho  ranks held  strengths held  slope  seconds")
    table = {method: np.array(values) for method, values in rows.items()}
    for method, values in table.items():
        tau, rho, ranks, held, slope, seconds = values.mean(axis=0)
        print(
            f"  {method:14s} {tau:6.3f} {rho:6.3f} {ranks:11.2f} {held:15.2f} {slope:6.2f} "
            f"{seconds:8.2f}"
        )
    for method in ("majority vote", "all votes"):
        apart = table["bf.fuse"][:, :2] - table[method][:, :2]
        error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else [np.nan] * 2
        (tau, rho), (of_tau, of_rho) = apart.mean(axis=0), error
        print(
            f"  bf.fuse minus {method}: tau {tau:+.3f} (standard error {of_tau:.3f}), "
            f"rho {rho:+.3f} ({of_rho:.3f})"
        )


def main() -> None:
    parser = Arguments(__doc__, "one table of each panel")
    parser.add_argument("--tables", type=int, default=20)
    options = parser.parse_args()
    n_tables = 1 if options.quick else options.tables
    for name, panel in PANELS.items():
        compare(name, panel, n_tables)


if __name__ == "__main__":
    main()
