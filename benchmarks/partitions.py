"""Responses in partitions: a cluster of two processes here against one process, and growth.

Claims: on the same cores a sweep by Dask takes at most 1.5 times that of one process with all in
memory; and the time of a pass grows as the number of responses does, also where the workers'
memory holds a small part of them and the rest is read from parquet in every pass.

    python benchmarks/partitions.py [--quick] [--responses 10000000] [--grow 1 3 10] [--memory 1GB]
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from _shared import Arguments, extras

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene
from bayesfuse.numerics.threads import threads

N_RATERS, N_CLASSES, PER_ITEM = 300, 4, 10


def write(folder, n_responses, per_file):
    """Write files of so many responses."""
    rng = np.random.default_rng(1)
    right = rng.uniform(0.4, 0.9, N_RATERS)
    for number in range(n_responses // per_file):
        path = folder / f"{number:05d}.parquet"
        if path.exists():
            continue
        n_items = per_file // PER_ITEM
        item = np.repeat(np.arange(n_items, dtype=np.int32) + number * n_items, PER_ITEM)
        rater = rng.integers(N_RATERS, size=per_file).astype(np.int16)
        truth = np.repeat(rng.choice(N_CLASSES, p=[0.4, 0.3, 0.2, 0.1], size=n_items), PER_ITEM)
        guess = rng.integers(N_CLASSES, size=per_file)
        label = np.where(rng.random(per_file) < right[rater], truth, guess).astype(np.int8)
        pd.DataFrame({"item": item, "rater": rater, "label": label}).to_parquet(path)
    return sorted(folder.glob("*.parquet"))[: n_responses // per_file]


def seconds(work, rounds):
    """Return the least seconds of some rounds, after one that is not counted."""
    work()
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def sweep_of(model, rounds=5):
    """Return the seconds of drawing and counting all labels once."""
    plan = make_plan(model)
    rows = {name: prior.centre() for name, prior in plan.priors().items()}
    rng = np.random.default_rng(2)
    with threads(2):
        return seconds(lambda: plan.observation.draw_counts(rows, rng), rounds)


def main():
    with extras():
        from dask.distributed import Client, LocalCluster
    parser = Arguments(__doc__, "two small files, workers in this process")
    parser.add_argument("--responses", type=int, default=10_000_000)
    parser.add_argument("--grow", type=int, nargs="*", default=[1, 3, 10])
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--folder")
    given = parser.parse_args()
    per_file = 1_000_000
    if given.quick:
        given.responses, given.grow, per_file = 20_000, [1], 10_000
        given.memory = 0  # no limit: workers share this process and all it has loaded
    folder = Path(given.folder or tempfile.mkdtemp())
    files = write(folder, given.responses, per_file)
    whole = bf.Responses.from_long(pd.concat(map(pd.read_parquet, files)))
    one = sweep_of(DawidSkene(whole))
    del whole
    here = sweep_of(DawidSkene(bf.Responses.from_parquet(files)))
    print(f"sweep over {given.responses:,} responses, two cores, in seconds")
    print(f"  one table, two threads          {one:7.3f}")
    print(f"  partitions, two threads         {here:7.3f}   {here / one:5.2f} times")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    options["processes"] = not given.quick
    with LocalCluster(**options) as cluster, Client(cluster):
        spread = sweep_of(DawidSkene(bf.Responses.from_parquet(files)))
        print(f"  Dask, two workers               {spread:7.3f}   {spread / one:5.2f} times")
    print(f"passes by two workers of {given.memory or 'any memory'}")
    first = None
    for times in given.grow:
        n_responses = times * given.responses
        files = write(folder, n_responses, per_file)
        with LocalCluster(**options, memory_limit=given.memory) as cluster, Client(cluster):
            began = time.perf_counter()
            table = bf.Responses.from_parquet(files)
            read = time.perf_counter() - began
            took = sweep_of(DawidSkene(table), rounds=2)
            first = first or took / n_responses
            each = took / n_responses
            print(
                f"  {n_responses:13,} responses: survey {read:6.1f} s, pass {took:7.2f} s, "
                f"{1e9 * each:5.1f} ns a response, {each / first:4.2f} times the first"
            )


if __name__ == "__main__":
    main()
