"""The first posterior of a new process: from ``import bayesfuse`` to label probabilities.

4 chains × 1,000 draws by Gibbs on the RTE crowd (800 items, 164 raters, 8,000 responses), or on a
simulated crowd of its size where the data are not available. "Cold" has empty compilation caches,
as after installing: numba's and PyTensor's are new directories. "Warm" is the next process with the
same caches. Both alternate with a new process that only runs ``import pymc``. Claim: a cold first
posterior takes at most twice that import plus 5 s. With ``--quick`` no cache is emptied.

    python benchmarks/first_posterior.py [--quick] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import wraps
from tempfile import TemporaryDirectory

import numpy as np
from _shared import DATA, Arguments

N_ITEMS, N_RATERS, N_CLASSES, PER_ITEM = 800, 164, 2, 10  # of RTE, for the simulated crowd
DRAWS, CHAINS, SEED = 1000, 4, 1
ALLOWANCE = 5.0
"""Seconds that a first posterior may take on top of twice the import of PyMC."""

# What bf.sample calls, one after the other, and what the table names it.
PARTS = {
    "make_plans": "find what is conjugate",
    "ChainInitializer": "start",
    "sample_gibbs": "around the loop",
    "with_deterministics": "sensitivity, specificity",
    "check_convergence": "convergence checks",
    "evaluate": "joint draws of labels",
    "build": "groups of the result",
}


def main() -> None:
    parser = Arguments(__doc__, "one round, caches as they are")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(first_posterior()))
        return
    imports, cold, warm = [], [], []
    for _ in range(1 if given.quick else given.rounds):
        imports.append(timed([sys.executable, "-c", "import pymc"], os.environ)[0])
        if given.quick:
            warm.append(child(None))
            cold.append(dict(warm[0]))
            continue
        with TemporaryDirectory() as caches:
            cold.append(child(caches))
            warm.append(child(caches))
    print(f"{cold[0].pop('data')}, {CHAINS} chains × {DRAWS:,} draws")
    print(f"Seconds, median (min–max) of {len(cold)} round(s)\n{'':<34}{'cold':>22}{'warm':>22}")
    for part in cold[0]:
        cells = [spread([run[part] for run in runs]) for runs in (cold, warm)]
        print(f"{part:<34}" + "".join(f"{cell:>22}" for cell in cells))
    totals = np.array([run["whole process"] for run in cold])
    bounds = 2 * np.array(imports) + ALLOWANCE
    print(f"\nimport pymc, whole process: {spread(imports)} s")
    print(f"cold / (2 × import + {ALLOWANCE:.0f} s), claim: at most 1: {spread(totals / bounds)}")


def spread(values):
    return f"{np.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def timed(command, environment):
    """Return the seconds that a new process takes, and the last line it prints."""
    begun = time.perf_counter()
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - begun, done.stdout.strip().split("\n")[-1]


def child(caches):
    """Run a first posterior with its caches in the directory ``caches``, if one is given."""
    environment = dict(os.environ)
    if caches:
        flags = [os.environ.get("PYTENSOR_FLAGS", ""), f"base_compiledir={caches}/pytensor"]
        environment |= {
            "NUMBA_CACHE_DIR": f"{caches}/numba",
            "PYTENSOR_FLAGS": ",".join(filter(None, flags)),
        }
    whole, line = timed([sys.executable, __file__, "--child"], environment)
    return json.loads(line) | {"whole process": whole}


def first_posterior():
    """Return the seconds of every part of a first posterior."""
    clock = Clock()
    with clock("import bayesfuse"):
        import bayesfuse as bf
        from bayesfuse.inference import completion, sample as steps
        from bayesfuse.models import DawidSkene
    from numba.core import event

    logging.getLogger("pymc").setLevel(logging.WARNING)
    with clock("read the table"):
        if (DATA / "rte").exists():
            import pandas as pd

            data = "RTE"
            responses = bf.Responses.from_long(pd.read_csv(DATA / "rte/responses.csv.gz"))
        else:
            data = "A simulated crowd of RTE's size"
            responses = bf.datasets.simulate_dawid_skene(
                N_ITEMS, N_RATERS, N_CLASSES, per_item=PER_ITEM, random_seed=SEED
            ).responses
    with clock("model"):
        model = DawidSkene(responses)
    for name, part in PARTS.items():
        module = steps if hasattr(steps, name) else completion
        setattr(module, name, clock.watch(getattr(module, name), part))
    recorder = event.RecordingListener()
    with event.install_listener("numba:compile", recorder), clock("bf.sample, the rest"):
        result = bf.sample(model, DRAWS, chains=CHAINS, random_seed=SEED, progressbar=False)
    loop = result["posterior"].attrs["sampling_time"]
    clock.spent["around the loop"] -= loop
    size = f"{responses.n_responses:,} responses to {responses.n_items:,} items"
    return {
        "data": f"{data}: {size} by {responses.n_raters} raters, {responses.n_classes} classes",
        "sampling loop": loop,
        **clock.spent,
        "(numba compiling, in the above)": outermost(recorder.buffer),
    }


class Clock:
    """Seconds by part; those of an inner part are subtracted from the outer one."""

    def __init__(self):
        self.spent = {}
        self._inner = [0.0]

    @contextmanager
    def __call__(self, part):
        self._inner.append(0.0)
        begun = time.perf_counter()
        try:
            yield
        finally:
            taken = time.perf_counter() - begun
            own = taken - self._inner.pop()
            self._inner[-1] += taken
            self.spent[part] = self.spent.get(part, 0.0) + own

    def watch(self, function, part):
        """Return the function with its calls timed."""

        @wraps(function)
        def watched(*args, **kwargs):
            with self(part):
                return function(*args, **kwargs)

        return watched


def outermost(buffer):
    """Return the seconds of numba's compilations, without counting nested ones twice."""
    total, depth = 0.0, 0
    for at, event in buffer:
        depth += 1 if event.is_start else -1
        if event.is_start and depth == 1:
            total -= at
        elif event.is_end and depth == 0:
            total += at
    return total


if __name__ == "__main__":
    main()
