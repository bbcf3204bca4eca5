"""Site updates per second of labels on graphs, and the cost of a large image.

One process, one core, compiled before the clock starts: Gibbs sweeps and Swendsen–Wang moves on a
grid with two classes and on a graph like Cora with seven; a plain NumPy checkerboard on the same
grid; PyMC's CategoricalGibbsMetropolis on a grid small enough for it; then whole sweeps of a model
(likelihoods, labels, confusion rows, coupling) with an image and seven raters.

    python benchmarks/graph_speed.py [--quick]
"""

from __future__ import annotations

import logging
import resource
import time
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from _shared import QUIET, Arguments, communities

import bayesfuse as bf
from bayesfuse.labels.potts_kernels import gibbs_sweep, swendsen_wang
from bayesfuse.models import MarkovRandomField

COUPLING = 0.8


def timed(work, seconds):
    """Return the time of one call, averaged over as many as fit; the first is not counted."""
    work()
    calls, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        work()
        calls += 1
    return (time.perf_counter() - begun) / calls


def say(name, size, seconds):
    print(f"{name:<58}{size / seconds / 1e6:>10.2f}{1e3 * seconds:>12.3f}", flush=True)


def kernels(name, graph, n_classes, seconds):
    """Time sweeps over labels with moderately informative likelihoods."""
    rng = np.random.default_rng(0)
    likelihood = rng.dirichlet(np.full(n_classes, 1.0), size=graph.n_items)
    prevalence = np.full(n_classes, 1 / n_classes)
    labels = rng.integers(0, n_classes, graph.n_items).astype(np.int32)
    model = prevalence, likelihood, COUPLING, graph.start, graph.neighbour, graph.weight[:1]
    seed = np.uint64(1)

    def gibbs():
        nonlocal seed
        seed += np.uint64(1)
        gibbs_sweep(labels, *model, graph.colour_order, seed)

    def clusters():
        nonlocal seed
        seed += np.uint64(1)
        swendsen_wang(labels, *model[:2], model[2:], seed)

    say(f"Gibbs, {name}", graph.n_items, timed(gibbs, seconds))
    say(f"Swendsen–Wang, {name}", graph.n_items, timed(clusters, seconds))


def checkerboard(side, seconds):
    """Time Gibbs sweeps in plain NumPy: two classes, every other cell at once."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=(side, side))
    labels = rng.integers(0, 2, (side, side))
    white = np.add.outer(np.arange(side), np.arange(side)) % 2 == 0

    def sweep():
        for cells in (white, ~white):
            spin = np.pad(2 * labels - 1, 1)
            pull = spin[:-2, 1:-1] + spin[2:, 1:-1] + spin[1:-1, :-2] + spin[1:-1, 2:]
            one = rng.random((side, side)) < 1 / (1 + np.exp(-(odds + COUPLING * pull)))
            labels[cells] = one[cells]

    say(f"plain NumPy checkerboard, {side} × {side}, K = 2", side * side, timed(sweep, seconds))


def pymc_gibbs(side, seconds):
    """Time PyMC's own Gibbs step, which evaluates the whole density for every proposed label."""
    graph = bf.Graph.grid((side, side))
    field = np.random.default_rng(0).normal(size=graph.n_items)
    with pm.Model():
        labels = pm.Categorical("labels", p=[0.5, 0.5], shape=graph.n_items)
        same = pt.eq(labels[graph.edges[:, 0]], labels[graph.edges[:, 1]])
        pm.Potential("field", COUPLING * same.sum() + (field * labels).sum())
        step = pm.CategoricalGibbsMetropolis(labels)
        point = {"labels": np.zeros(graph.n_items, dtype=np.int64)}
        logging.getLogger("pymc").setLevel(logging.ERROR)

        def sweep():
            nonlocal point
            point, _ = step.step(point)

        taken = timed(sweep, seconds)
    say(f"PyMC CategoricalGibbsMetropolis, {side} × {side}, K = 2", graph.n_items, taken)


def image(side, n_raters, draws):
    """Time whole sweeps of a model of an image, and the memory it takes."""
    truth = np.zeros((side, side), dtype=int)
    truth[side // 4 : -side // 4, side // 4 : -side // 4] = 1
    made = bf.datasets.simulate_responses(truth, n_raters, 2, random_seed=1)
    graph = bf.Graph.grid((side, side))
    begun = time.perf_counter()
    model = MarkovRandomField(made.responses, graph)
    built = time.perf_counter() - begun
    options = QUIET | {"chains": 1, "cores": 1, "random_seed": 1}
    taken = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws of one chain
        for many in (draws, draws, 2 * draws):  # the first compiles
            begun = time.perf_counter()
            result = bf.sample(model, many, tune=draws, log_likelihood=False, **options)
            taken.append(time.perf_counter() - begun)
    right = bf.label_probabilities(result).values.argmax(axis=1) == truth.ravel()
    print(
        f"\n{side} × {side} pixels, {n_raters} raters: model with log Z {built:.1f} s, start and "
        f"{2 * draws} sweeps {taken[1]:.1f} s, {draws} more {taken[2] - taken[1]:.1f} s: 1,000 in "
        f"{1000 * (taken[2] - taken[1]) / draws:.0f} s on one core; accuracy {right.mean():.4f}; "
        f"coupling {result['posterior']['coupling'].values.mean():.3f}\n"
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


def main() -> None:
    """Print the tables."""
    parser = Arguments(__doc__, "small sizes, short times")
    options = parser.parse_args()
    side, seconds = (60, 0.1) if options.quick else (1000, 5.0)
    print(f"{'':<58}{'million':>10}{'ms per':>12}\n{'':<58}{'sites/s':>10}{'sweep':>12}")
    kernels(f"{side} × {side}, K = 2", bf.Graph.grid((side, side)), 2, seconds)
    rng = np.random.default_rng(0)
    edges = communities(rng.integers(0, 7, 2708), 3.9, 0.9, rng)
    blocks = bf.Graph.from_edges(edges, items=range(2708))
    kernels("2,708 items of mean degree 3.9, K = 7", blocks, 7, seconds)
    checkerboard(side, seconds)
    pymc_gibbs(*((4, seconds) if options.quick else (16, 2.0)))
    image(side, 7, 20 if options.quick else 100)


if __name__ == "__main__":
    main()
