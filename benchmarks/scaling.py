"""Cost of a Gibbs sweep per response from 10⁴ to 10⁷ responses, and memory at 10⁷.

300 raters, 4 classes, 10 responses per item. Claims: the cost of a sweep per response does not
depend on their number, and from the table of responses to a posterior the process needs at most 80
bytes per response beyond its imports, 4 of them for joint draws of the labels and up to 16 for
kernels that are compiled.

A sweep has one part that grows with the responses (likelihood, draw of labels, count) and one that
does not: drawing 300 × 4 Dirichlet rows and the calls themselves, which is most of the cost of 10⁴
responses. Both are shown. The first reads 4 bytes per response (its cell) and writes and reads a
row of likelihoods per item (32 bytes, 3.2 per response) in order, so the processor prefetches; only
the look-ups in a table of 300 × 4 × 4 numbers (38 kB) are out of order, and the table stays in the
second-level cache whatever the number of responses. So the cost per response is constant, with two
exceptions: below 10⁵ responses the processor predicts the branches of the draw, and the table
competes with the likelihoods for the cache; from 10⁷ on every sweep gets new memory for the
likelihoods from the operating system, which clears it page by page.

    python benchmarks/scaling.py [--quick] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from resource import RUSAGE_SELF, getrusage

import numpy as np
from _shared import QUIET, Arguments

import bayesfuse as bf
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene

N_RATERS, N_CLASSES, PER_ITEM = 300, 4, 10
SEED = 1
SECONDS = 0.3
"""Sweeps are repeated for this long before the next size has its turn."""
LIMIT = 80
"""Bytes per response that the whole way may take at its peak."""


def simulate(n_responses):
    """Return a long table in small integers: PER_ITEM answers per item by raters at random."""
    rng = np.random.default_rng(SEED)
    confusion = rng.dirichlet(np.full(N_CLASSES, 0.5), size=(N_RATERS, N_CLASSES))
    confusion = 0.6 * np.eye(N_CLASSES) + 0.4 * confusion
    cumulative = confusion.cumsum(axis=-1)[..., :-1]
    table = {
        "item": np.empty(n_responses, dtype=np.int32),
        "rater": np.empty(n_responses, dtype=np.int16),
        "label": np.empty(n_responses, dtype=np.int8),
    }
    for first in range(0, n_responses, 100_000):  # in pieces, which keeps the peak of memory low
        rows = slice(first, min(first + 100_000, n_responses))
        item = np.arange(rows.start, rows.stop) // PER_ITEM
        truth = rng.choice(N_CLASSES, p=[0.4, 0.3, 0.2, 0.1], size=item[-1] - item[0] + 1)
        rater = rng.integers(N_RATERS, size=item.size)
        bounds = cumulative[rater, truth[item - item[0]]]
        table["item"][rows], table["rater"][rows] = item, rater
        table["label"][rows] = (rng.random(item.size)[:, None] >= bounds).sum(axis=1)
    return table


# ---------------------------------------------------------------- memory, in a process of its own


def peak():
    """Return the largest amount of memory this process has had, in bytes."""
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory_by_stage(n_responses):
    """Return the peak memory after every stage on the way to a posterior."""
    peaks = {"imports": peak()}

    def sample(responses):
        model = DawidSkene(responses)
        peaks["model"] = peak()
        return bf.sample(
            model,
            3,
            tune=2,
            chains=2,
            cores=1,
            log_likelihood=False,
            random_seed=SEED,
            **QUIET,
        )

    sample(bf.datasets.anesthesia())
    peaks["machine code of the kernels (a tiny posterior)"] = peak()
    table = simulate(n_responses)
    peaks["the table itself, in small integers"] = peak()
    responses = bf.Responses.from_long(table)
    peaks["Responses.from_long"] = peak()
    del peaks["model"]
    sample(responses)
    peaks["bf.sample"] = peak()
    return peaks


def report_memory(n_responses):
    command = [sys.executable, __file__, "--child", str(n_responses)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    stages = json.loads(done.stdout.strip().split("\n")[-1])
    print(f"Peak memory after each stage, {n_responses:,} responses")
    print(f"{'':<50}{'MB':>8}{'bytes per response beyond imports':>36}")
    for stage, most in stages.items():
        print(f"{stage:<50}{most / 1e6:8.0f}{(most - stages['imports']) / n_responses:36.1f}")
    taken = (max(stages.values()) - stages["imports"]) / n_responses
    print(f"{taken:.1f} bytes per response; claim: at most {LIMIT} at 10⁷")


# ---------------------------------------------------------------- time


class Sweeps:
    """Gibbs sweeps over one simulated table, timed whole and by part."""

    def __init__(self, n_responses):
        self.n_responses = n_responses
        plan = make_plan(DawidSkene(bf.Responses.from_long(simulate(n_responses))))
        self.requested, self.prior = plan.observation, plan.continuous_priors()
        self.sweep, self.rng = Sweep.of(plan), np.random.default_rng(SEED)
        self.rows = find_start(self.requested, self.prior).rows
        self.subset = {"sweep": [], "likelihood": [], "draw": [], "count": []}

    def turn(self):
        """Sweep for a while."""
        until = time.perf_counter() + SECONDS
        seen, rng, rows = self.requested, self.rng, self.rows
        label_rows, structure = seen.label_tables(rows), seen.label_structure
        while True:
            self._time("sweep", lambda: step(self.sweep, self.sweep.init(rows), rng))
            likelihood, _ = self._time("likelihood", lambda: seen.likelihood(rows))
            drawn = self._time(
                "draw",
                lambda found=likelihood: seen.labels.draw(label_rows, found, structure, rng),
            )
            self._time("count", lambda labels=drawn: seen.sample_counts(rows, labels, rng))
            if time.perf_counter() > until:
                return

    def _time(self, part, function):
        begun = time.perf_counter()
        found = function()
        self.subset[part].append(time.perf_counter() - begun)
        return found

    def nanoseconds(self):
        """Return the smallest nanoseconds per response of every part, free of other load."""
        parts = {part: min(taken) for part, taken in self.subset.items()}
        parts["all three"] = parts["likelihood"] + parts["draw"] + parts["count"]
        return {part: 1e9 * seconds / self.n_responses for part, seconds in parts.items()}


def report_time(sizes, rounds):
    print(
        f"\nGibbs sweeps, {N_RATERS} raters, {N_CLASSES} classes, {PER_ITEM} responses per item: "
        f"nanoseconds per response and sweep, the "
        "least of many;\nthe last column: what a sweep costs that does "
        "not grow with the responses"
    )
    tables = [Sweeps(size) for size in sizes]
    for _ in range(rounds):
        for table in tables:
            table.turn()
    columns = ("likelihood", "draw", "count", "all three", "sweep")
    print(f"{'responses':>12}" + "".join(f"{name:>12}" for name in columns) + f"{'fixed, µs':>12}")
    grown = []
    for table in tables:
        found = table.nanoseconds()
        fixed = (found["sweep"] - found["all three"]) * table.n_responses / 1000
        cells = "".join(f"{found[name]:12.2f}" for name in columns)
        print(f"{table.n_responses:12,}{cells}{fixed:12.0f}")
        grown.append(found["all three"])
    print(f"largest over smallest cost by size, all three: {max(grown) / min(grown):.2f}")


def main():
    parser = Arguments(__doc__, "to 10⁵ responses only, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(memory_by_stage(given.child)))
        return
    largest = 5 if given.quick else 7
    # First, because a new process counts the memory of the one that started it as its own peak.
    report_memory(10**largest)
    report_time([10**power for power in range(4, largest + 1)], 1 if given.quick else given.rounds)


if __name__ == "__main__":
    main()
