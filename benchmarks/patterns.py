"""What merging items with the same responses gains: sweeps with every item and with patterns.

Where the same responses come back, one row stands for all items that have them: their labels are
drawn by one multinomial. Claim: the cost of a sweep grows with the number of patterns, not items.

    python benchmarks/patterns.py [--quick] [--items 2000000] [--rounds 5]
"""

from __future__ import annotations

import time
from unittest.mock import patch

import numpy as np
from _shared import Arguments

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, ItemTypes, LabellingFunctions, LatentGroup
from bayesfuse.numerics.threads import threads


def whole(table, key=None):
    """Stand in for ``Responses.condensed`` and merge nothing."""
    return table, np.arange(table.n_items)


def five_raters(n_items, n_classes, rng):
    """Return responses of the same five raters to all items."""
    truth = rng.choice(n_classes, p=[0.5, 0.3, 0.2][:n_classes], size=n_items)
    right = rng.random((n_items, 5)) < [0.6, 0.7, 0.75, 0.8, 0.9]
    guess = rng.integers(n_classes, size=(n_items, 5))
    return bf.Responses.from_matrix(np.where(right, truth[:, None], guess))


def rules(n_items, rng):
    """Return the votes of 60 rules that each speak of one to four items in a hundred."""
    truth = rng.random(n_items) < 0.3
    coverage = rng.uniform(0.01, 0.04, 60)
    item, rule = np.nonzero(rng.random((n_items, 60)) < coverage)
    vote = np.where(rule < 30, 1, 0)
    kept = rng.random(item.size) < np.where(vote == truth[item], 1.0, 0.25)
    table = {"item": item[kept], "rater": rule[kept], "label": vote[kept]}
    return bf.Responses.from_long(table, items=range(n_items))


def tables(n_items):
    """Yield names and models."""
    rng = np.random.default_rng(1)
    counts = bf.datasets.caries()
    yield "caries", counts.expand(), DawidSkene
    crowd = five_raters(n_items, 3, rng)
    yield f"5 raters, {crowd.n_responses:,} responses", crowd, DawidSkene
    yield "  types of items", crowd, ItemTypes
    yield "  three of one group", crowd, lambda r: LatentGroup(r, groups=[[0, 1, 2]])
    votes = rules(n_items // 10, rng)
    yield f"60 rules, {votes.n_items:,} items", votes, LabellingFunctions
    yield "  silence counted", votes.completed(), DawidSkene


def sweep(model, rounds):
    """Return the least seconds of a sweep, and the rows that the kernels see."""
    plan = make_plan(model)
    rows = {name: prior.centre() for name, prior in plan.priors().items()}
    rng = np.random.default_rng(2)
    for pooled in plan.pools:
        rows |= pooled.rows(pooled.pool.begin(rng))
        below = pooled.pool.parameter
        if below in plan.blocks:
            rows[below] = pooled.pool.prior(pooled.values(rows)).centre()
    found = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        plan.observation.draw_counts(rows, rng)
        found.append(time.perf_counter() - began)
    return min(found[1:]), plan.observation.table.n_items


def main():
    parser = Arguments(__doc__, "few items, one round")
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.quick:
        given.items, given.rounds = 5_000, 1
    print("labels drawn and counted once, milliseconds, one thread")
    print(f"{'':34} {'items':>10} {'patterns':>9} {'every item':>11} {'patterns':>9}  ratio")
    for name, table, build in tables(given.items):
        with threads(1):
            merged, n_patterns = sweep(build(table), given.rounds)
            with patch.object(bf.Responses, "condensed", whole):
                plain, _ = sweep(build(table), given.rounds)
        print(
            f"{name:34} {table.n_items:10,} {n_patterns:9,} {1e3 * plain:11.2f} "
            f"{1e3 * merged:9.2f} {plain / merged:6.1f}"
        )


if __name__ == "__main__":
    main()
