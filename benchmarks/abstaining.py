"""Time and memory of sources that abstain: rules that speak of few items, applied to all.

A million items and a hundred rules of a coverage of 5 % (five million votes among a hundred million
pairs): reading, one sweep of the Gibbs sampler on one core, and a thousand sweeps extrapolated from
twenty; then ten thousand rules on as many items.

    python benchmarks/abstaining.py [--quick]
"""

from __future__ import annotations

import resource
import time

import numpy as np
from _shared import Arguments

import bayesfuse as bf
from bayesfuse.inference.em import centre
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene

SWEEPS = 20


def votes(n_items, n_rules, coverage, n_classes, seed):
    """Return the truth and a complete table of rules that are right in four cases of five."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, n_items)
    n_votes = rng.binomial(n_items * n_rules, coverage)
    item = rng.integers(0, n_items, n_votes)
    guess = rng.integers(0, n_classes, n_votes)
    label = np.where(rng.random(n_votes) < 0.8, truth[item], guess)
    frame = {"item": item, "rater": rng.integers(0, n_rules, n_votes), "label": label}
    names = {"items": range(n_items), "raters": range(n_rules), "classes": range(n_classes)}
    return truth, lambda: bf.Responses.from_long(frame, **names).completed()


def sweep(n_items, n_rules, coverage, n_classes):
    """Print how long reading and sweeps take, and how many labels are right after them."""
    truth, read = votes(n_items, n_rules, coverage, n_classes, 1)
    begun = time.perf_counter()
    responses = read()
    reading = time.perf_counter() - begun
    plan, rng = make_plan(DawidSkene(responses)), np.random.default_rng(1)
    gibbs = Sweep.of(plan)
    rows = centre(plan.continuous_priors())
    share = bf.priors.diagonal(n_classes, weight=coverage, accuracy=0.7)
    known = np.column_stack([share, np.full(n_classes, 1 - coverage)])
    rows["speech"] = np.log(np.tile(known, (n_rules, 1, 1)))
    state = step(gibbs, gibbs.init(rows), rng)
    begun = time.perf_counter()
    for _ in range(SWEEPS):
        state = step(gibbs, state, rng)
    each = (time.perf_counter() - begun) / SWEEPS
    probability = plan.observation.by_item(plan.observation.marginal(state.rows).probability)
    right = (probability.argmax(axis=1) == truth).mean()
    print(
        f"{n_items:>11,}{n_rules:>8,}{responses.n_responses:>12,}{n_classes:>9}{reading:>10.1f}"
        f"{1e3 * each:>10.1f}{1000 * each:>12.0f}{right:>8.3f}",
        flush=True,
    )


def main():
    quick = Arguments(__doc__, "a fiftieth of the items").parse_args().quick
    print("      items   rules       votes  classes  read (s)     (ms)  1,000 in s   right")
    scale = 50 if quick else 1
    for n_classes in (2, 5):
        sweep(1_000_000 // scale, 100, 0.05, n_classes)
    sweep(1_000_000 // scale, 10_000, 0.0005, 2)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")


if __name__ == "__main__":
    main()
