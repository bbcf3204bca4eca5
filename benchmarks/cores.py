"""Sweeps and passes on one thread and on several, in turn.

Claim: from 10⁶ responses on, two threads are nearly twice as fast, for Dawid–Skene, sequences and
(but for the clusters of every fourth sweep, which one thread moves) labels on a graph. Results do
not depend on the number of threads.

    python benchmarks/cores.py [--quick] [--responses 1000000] [--cores 2]
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from _shared import Arguments

import bayesfuse as bf
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField
from bayesfuse.numerics.threads import threads

N_RATERS, N_CLASSES, PER_ITEM = 50, 3, 5
SWEEPS = 8


def crowd(n_items, truth, rng):
    """Return responses of raters at random to items of these classes."""
    item = np.repeat(np.arange(n_items), PER_ITEM)
    rater = rng.integers(N_RATERS, size=item.size)
    right = rng.random(item.size) < rng.uniform(0.45, 0.8, N_RATERS)[rater]
    label = np.where(right, truth[item], rng.integers(N_CLASSES, size=item.size))
    return bf.Responses.from_long({"item": item, "rater": rater, "label": label})


def models(n_responses):
    """Yield the three models of as many responses."""
    rng = np.random.default_rng(1)
    side = round((n_responses / PER_ITEM) ** 0.5)
    n_items = side * side
    responses = crowd(n_items, rng.choice(N_CLASSES, p=[0.5, 0.3, 0.2], size=n_items), rng)
    yield "Dawid–Skene", DawidSkene(responses)
    runs = np.repeat(rng.integers(N_CLASSES, size=n_items), rng.integers(1, 9, n_items))
    lengths = np.full(n_items // 20, 20)
    lengths[-1] += n_items - lengths.sum()
    sequences = bf.Sequences.from_lengths(lengths, items=responses.items)
    yield (
        "sequences",
        HiddenMarkov(crowd(n_items, runs[:n_items], rng), sequences, raters="confusion"),
    )
    tiles = rng.integers(N_CLASSES, size=(side // 12 + 1, side // 12 + 1))
    image = np.kron(tiles, np.ones((12, 12), int))[:side, :side].ravel()
    yield (
        "grid",
        MarkovRandomField(crowd(n_items, image, rng), bf.Graph.grid((side, side)), trust=2),
    )


def fastest(work, cores, rounds):
    """Return the least seconds by number of threads, each measured in turn."""
    best = dict.fromkeys(cores, np.inf)
    for _ in range(rounds):
        for count in cores:
            with threads(count):
                began = time.perf_counter()
                work()
                best[count] = min(best[count], time.perf_counter() - began)
    return best


def main():
    parser = Arguments(__doc__, "few responses, one round")
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.quick:
        given.responses, given.rounds = 20_000, 1
    print(f"{given.responses:,} responses, milliseconds, best of {given.rounds}")
    print(f"{'model':12} {'':18} {'1 thread':>9} {given.cores:>2} threads   ratio")
    for name, model in models(given.responses):
        plan = make_plan(model)
        begun = find_start(plan.initial_response_model(), plan.continuous_priors(), "majority").rows
        sweep, rng = replace(Sweep.of(plan), can_rotate=False), np.random.default_rng(1)

        def sweeps(sweep=sweep, begun=begun, rng=rng):
            state = sweep.init(dict(begun))
            for _ in range(SWEEPS):
                state = step(sweep, state, rng)

        def one_pass(plan=plan, begun=begun):
            plan.observation.expected(begun)

        for what, work, times in (("sweep", sweeps, SWEEPS), ("pass of EM", one_pass, 1)):
            if name == "grid" and times == 1:
                continue  # belief propagation, on one thread
            best = fastest(work, (1, given.cores), given.rounds)
            one, several = (1e3 * best[count] / times for count in (1, given.cores))
            print(f"{name:12} {what:18} {one:9.1f} {several:10.1f} {one / several:9.2f}")


if __name__ == "__main__":
    main()
