"""How far one Gibbs sweep is from its arithmetic floor.

The floor is the time in which this machine could do the multiplications, increments and random
numbers of a sweep alone, on the data of ``gibbs_vs_nuts.py``.

    python benchmarks/gibbs_floor.py [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from timeit import repeat
from typing import Any

import numpy as np
from _shared import Arguments
from gibbs_vs_nuts import N_CLASSES, N_ITEMS, N_RATERS, SEED, problem
from numba import njit

import bayesfuse as bf
from bayesfuse.inference import gibbs
from bayesfuse.inference.chains import CompiledChain
from bayesfuse.inference.gibbs import Sweep
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene
from bayesfuse.numerics.rows import draw_dirichlet

# The trivial loops: nothing but multiplications or increments, over arrays in the cache.


@njit(fastmath=True)  # in any order, so that a processor's widest instructions serve
def products(factors):
    products = np.ones(4)  # as many chains of operations as there are classes
    for i in range(0, factors.size, 4):
        for k in range(4):
            products[k] *= factors[i + k]
    return products


@njit
def increments(counts, cells):
    for cell in cells:
        counts[cell] += 1.0


def main() -> None:
    quick = Arguments(__doc__, "few repetitions").parse_args().quick
    timed = partial(_microseconds, repeats=1 if quick else 15)
    given = problem()
    plan = make_plan(DawidSkene(given.responses))
    seen, prior = plan.observation, plan.continuous_priors()
    step, sweep = bf.build.LabelGibbs(model=plan.model), Sweep.of(plan)
    rng = np.random.default_rng(SEED)
    rows = find_start(seen, prior).rows
    (likelihood, _), labels = seen.likelihood(rows), seen.draw(rows, rng)
    counts = seen.sample_counts(rows, labels, rng)
    posterior = {name: (prior[name] + counts[name]).concentration for name in prior}
    point = {block.value: block.coordinates.write(rows[block.parameter]) for block in step.blocks}

    _, named, pairs, _ = seen.rater_structure  # see raters/response_pairs.py
    n_products, n_weights = (len(named) + len(pairs)) * N_CLASSES, N_ITEMS * N_CLASSES
    n_increments = len(named) + 2 * len(pairs) * N_CLASSES + N_ITEMS
    n_gammas = sum(alpha.size for alpha in posterior.values())
    numbers = np.linspace(0.99, 1.01, n_weights)
    cells = given.responses.cell[:n_weights]
    bins = np.zeros(N_RATERS * N_CLASSES)
    product = timed(lambda: products(numbers)) / n_weights
    uniform = timed(lambda: rng.random(N_ITEMS)) / N_ITEMS
    increment = timed(lambda: increments(bins, cells)) / cells.size
    alphas = posterior["confusion"]
    gamma = timed(lambda: rng.standard_gamma(alphas)) / alphas.size

    print(
        "Arithmetic floor of a sweep on one core; trivial loops take, in nanoseconds: a "
        f"multiplication {1000 * product:.2f},\na uniform {1000 * uniform:.2f}, an increment of a "
        f"counter {1000 * increment:.2f}, a gamma {1000 * gamma:.1f}"
    )
    parts: list[tuple[str, Callable[[], Any], float, str]] = [
        (
            "likelihood",
            lambda: seen.likelihood(rows),
            n_products * product,
            f"{n_products:,} multiplications",
        ),
        (
            "draw labels",
            lambda: seen.labels.draw(
                seen.label_tables(rows), likelihood, seen.label_structure, rng
            ),
            n_weights * product + N_ITEMS * uniform,
            f"{n_weights:,} multiplications, {N_ITEMS:,} uniforms",
        ),
        (
            "count",
            lambda: seen.sample_counts(rows, labels, rng),
            n_increments * increment,
            f"{n_increments:,} increments",
        ),
        (
            "Dirichlet",
            lambda: [draw_dirichlet(alpha, rng) for alpha in posterior.values()],
            n_gammas * gamma,
            f"{n_gammas:,} gammas",
        ),
    ]
    print(f"{'':<28}{'µs':>8}{'floor µs':>10}{'ratio':>7}")
    least = 0.0
    for name, part, bound, what in parts:
        least += bound
        _line(name, timed(part), bound, what)
    state = sweep.begin(rows)
    _line("sweep", timed(lambda: gibbs.step(sweep, state, rng)), least, "all of these")
    chain = CompiledChain(sweep, state, rng, tune=0, draws=10**6, sweeps=10)
    _line("compiled sweep", timed(lambda: chain.advance(0.0)) / 10, least, "all of these")
    _line("step (PyMC's coordinates)", timed(lambda: step.step(point)), least, "")


def _line(name: str, taken: float, bound: float, what: str) -> None:
    print(f"{name:<28}{taken:8.1f}{bound:10.1f}{taken / bound:7.1f}  {what}")


def _microseconds(function: Callable[[], Any], repeats: int, number: int = 200) -> float:
    function()
    return 1e6 * min(repeat(function, number=number, repeat=repeats)) / number


if __name__ == "__main__":
    main()
