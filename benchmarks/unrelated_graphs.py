"""Graphs whose neighbours are alike, unrelated or opposite: what a graph gains, and what it costs.

600 items of two or three classes, three responses each of eight raters with accuracies of .5 to
.8, four neighbours each. ``bf.fuse`` with and without the graph: accuracy, log-loss (nats,
probabilities at least 10⁻⁶), wrong labels expected over actual, the mean weight of models with the
graph, and the mean difference in log-loss with its standard error over tables.

    python benchmarks/unrelated_graphs.py [--quick] [--tables 10] [--kinds alike unrelated opposite]
"""

from __future__ import annotations

import time

import numpy as np
from _shared import Arguments

import bayesfuse as bf

KINDS = "alike", "unrelated", "opposite"
N_ITEMS, N_EDGES, N_RATERS, PER_ITEM = 600, 1200, 8, 3
UNUSUAL = 0.15  # probability that an edge of the less usual kind is kept


def simulate(kind, seed):
    """Return responses, a graph and the true labels."""
    rng = np.random.default_rng([51, seed])
    n_classes = 2 if seed % 2 else 3
    truth = rng.integers(n_classes, size=N_ITEMS)
    edges = set()
    while len(edges) < N_EDGES:
        first, second = sorted(rng.integers(N_ITEMS, size=2).tolist())
        is_unusual = {
            "alike": truth[first] != truth[second],
            "unrelated": False,
            "opposite": truth[first] == truth[second],
        }[kind]
        if first != second and (not is_unusual or rng.random() < UNUSUAL):
            edges.add((first, second))
    accuracy = rng.uniform(0.5, 0.8, N_RATERS)
    right = rng.random((N_ITEMS, N_RATERS)) < accuracy
    wrong = (truth[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    answers = np.where(right, truth[:, None], wrong)
    for row in answers:
        row[rng.permutation(N_RATERS)[PER_ITEM:]] = -1
    responses = bf.Responses.from_matrix(answers, classes=range(n_classes))
    return responses, bf.Graph.from_edges(sorted(edges), items=range(N_ITEMS)), truth


def score(fused, truth):
    """Return accuracy, log-loss, and wrong labels expected over actual."""
    probability = np.clip(bf.label_probabilities(fused).values, 1e-6, None)
    probability /= probability.sum(axis=1, keepdims=True)
    wrong = probability.argmax(axis=1) != truth
    loss = -np.log(probability[np.arange(len(truth)), truth]).mean()
    return 1.0 - wrong.mean(), loss, (1.0 - probability.max(axis=1)).sum() / max(wrong.sum(), 1)


def report(kind, n_tables, minutes):
    """Print the means over tables without and with the graph, and their difference."""
    rows = []
    for seed in range(n_tables):
        responses, graph, truth = simulate(kind, seed)
        options = {"minutes": minutes, "checks": False, "random_seed": seed, "progressbar": False}
        alone = score(bf.fuse(responses, **options), truth)
        begun = time.process_time()
        fused = bf.fuse(responses, graph=graph, **options)
        seconds = time.process_time() - begun
        weights = fused["comparison"]["weight"].to_series()
        of_graph = weights[weights.index.str.startswith("graph")].sum()
        rows.append((*alone, *score(fused, truth), of_graph, seconds))
    table = np.array(rows)
    difference = table[:, 4] - table[:, 1]
    error = difference.std(ddof=1) / np.sqrt(n_tables) if n_tables > 1 else np.nan
    numbers = "".join(f"{number:>9.3f}" for number in table.mean(axis=0)[:7])
    seconds = table[:, 7].mean()
    print(
        f"{kind:<10}{numbers}{difference.mean():>+10.4f} ± {error:.4f}{seconds:>6.0f}", flush=True
    )


def main() -> None:
    parser = Arguments(__doc__, "one table of each kind")
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    print(f"{'':<10}{'bf.fuse':^27}{'bf.fuse(graph=)':^27}{'weight of':>9}  difference")
    columns = ("accuracy", "log-loss", "ratio") * 2
    print(f"{'':<10}{''.join(f'{name:>9}' for name in columns)}{'graph':>9}  in log-loss     CPU s")
    for kind in options.kinds:
        tables, minutes = (1, 0.3) if options.quick else (options.tables, options.minutes)
        report(kind, tables, minutes)


if __name__ == "__main__":
    main()
