"""Couplings at which log Z of labels on a graph is tabulated, and labels drawn from the prior.

An edge of weight w contributes to the change of E[S] while β w is not large. For equal weights that
is one range of couplings, for weights of several orders of magnitude it is several.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.data.names import smallest_integer
from bayesfuse.labels.potts_kernels import agreement, gibbs_sweep, swendsen_wang, without_repeats
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import check, limited

EXACT_COUPLINGS = 129
"""Couplings of an exact table: the error of its integral is then about 1e-8 per edge."""
STEP, GROWTH = 6.0 / (EXACT_COUPLINGS - 1), 0.05
"""Largest step of β w, and the share of β to which steps may grow: edges with larger steps of β w
agree already, so interpolation is as accurate."""
REACH, TABULATED = 4.0, 6.0
"""Tables of log Z end at this multiple of the Bethe coupling, and at most at this coupling."""
TAIL_DRAWN = 8  # maximum number of initial couplings beyond the largest, if labels are drawn
SETTLED = 40.0
"""Value of β w (plus log K) above which the probability of disagreement is below rounding."""

MOST_COUPLINGS = 41
MIN_SWEEPS, MAX_SWEEPS = 4, 100  # by default, at a coupling from one start
MAX_LABELS = 100_000_000  # labels to draw in total, within these limits: about ten seconds


def weakest_bond(graph: Graph) -> float:
    """Return the smallest weight on a maximum spanning forest; weaker edges agree by its paths."""
    if graph.is_forest or len(without_repeats(graph.weights)) < 2:
        return float(graph.weights.min()) if graph.n_edges else 1.0
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import

    return float(-minimum_spanning_tree(-graph.to_scipy()).data.max())


def table_couplings(
    graph: Graph, n_classes: int, max_coupling: float, weakest: float
) -> tuple[Array, int]:
    """Return couplings in steps suited to every weight, and how many are below the largest.

    Those above continue until the weakest bond agrees.
    """
    weights = graph.weights
    grid = np.linspace(0, max_coupling, EXACT_COUPLINGS)
    if len(without_repeats(weights)) > 1:
        step = min(grid[1] * weights.mean() / weights.max(), STEP / weights.max())
        if step / GROWTH < max_coupling:
            first = np.arange(round(1 / GROWTH)) * step
            grid = np.concatenate([first, _growing(step / GROWTH, max_coupling)])
    end = (SETTLED + np.log(n_classes)) / weakest
    tail = _growing(max_coupling, end)[1:] if end > max_coupling else grid[:0]
    return np.append(grid, tail), len(grid)


def drawn_couplings(graph: Graph, n_classes: int, max_coupling: float) -> Array:
    """Return initial couplings for draws, up to where the weakest bond is as strong as the mean."""
    twice = min(2 * graph.bethe_coupling(n_classes), max_coupling)
    beyond = np.linspace(twice, max_coupling, 5)[1:]
    grid = np.unique(np.concatenate([np.linspace(0, twice, 9), beyond]))
    further = float(graph.weights.mean()) / weakest_bond(graph) if graph.n_edges else 1.0
    if further < 1 + 1e-9:  # practically equal
        return grid
    count = min(math.ceil(math.log2(further)), TAIL_DRAWN)
    return np.append(grid, max_coupling * np.geomspace(1, further, count + 1)[1:])


def reach(graph: Graph, n_classes: int) -> float:
    """Return the largest coupling of a table of log Z: there, nearly all neighbours agree."""
    mean = float(graph.weights.mean()) if graph.n_edges else 1.0
    return min(REACH * graph.bethe_coupling(n_classes), TABULATED / mean)


def _growing(first: float, last: float) -> Array:
    count = int(np.ceil(np.log(last / first) / GROWTH)) + 1
    return np.geomspace(first, last, max(count, 2))


def drawn_agreement(
    graph: Graph,
    prevalence: Array,
    max_coupling: float,
    sweeps: int | None = None,
    random_seed: int = 0,
) -> tuple[Array, Array, Array]:
    """Draw labels at couplings, refined where their agreement S rises most.

    Random labels are annealed upwards, and labels of one class downwards; other couplings start
    from neighbouring ones. Where the two starts differ, the labels have two phases. Returns the
    couplings, E[S] from either start (2, couplings), and the error of their mean.
    """
    n_items, n_classes = graph.n_items, len(prevalence)
    by_default = np.clip(MAX_LABELS // (2 * MOST_COUPLINGS * n_items), MIN_SWEEPS, MAX_SWEEPS)
    n_sweeps = int(by_default) if sweeps is None else sweeps
    # a stream per start, because they are drawn in parallel
    rngs = np.random.default_rng(random_seed).spawn(2)
    small = smallest_integer(n_classes)
    random = rngs[0].choice(n_classes, n_items, p=prevalence).astype(small)
    one = np.full(n_items, np.argmax(prevalence), dtype=small)
    independent = float(graph.weights.sum() * (prevalence**2).sum())  # E[S] without coupling
    rungs: dict[float, list[Any]] = {}  # labels and S of sweeps, by start

    def draw(start: int, coupling: float, initial: NDArray[Any]) -> tuple[NDArray[Any], Array]:
        return _draw_at(graph, prevalence, coupling, initial, n_sweeps, rngs[start])

    def walk(start: int, couplings: Array, labels: NDArray[Any]) -> dict[float, Any]:
        """Draw at successive couplings, each from the last labels."""
        by_coupling = {}
        for coupling in couplings.tolist():
            by_coupling[coupling] = draw(start, coupling, labels)
            labels = by_coupling[coupling][0]
        return by_coupling

    ascending = drawn_couplings(graph, n_classes, max_coupling)
    with ThreadPoolExecutor(2) as threads:  # kernels release the GIL
        orders = ascending, ascending[::-1]
        up, down = threads.map(limited(walk), (0, 1), orders, (random, one))
        rungs |= {c: [up[c], down[c]] for c in ascending.tolist()}
        while len(rungs) < MOST_COUPLINGS:
            # between ends whose slopes, which increase, differ most
            coupling, by_start, _ = _expectations(rungs, independent)
            worst = int(np.argmax(np.diff(coupling) * np.diff(by_start.mean(axis=0))))
            ends = coupling[worst : worst + 2].tolist()
            near = [rungs[c][start][0] for start, c in enumerate(ends)]
            middle = sum(ends) / 2
            rungs[middle] = list(threads.map(limited(draw), (0, 1), (middle, middle), near))
    return _expectations(rungs, independent)


def _draw_at(
    graph: Graph,
    prevalence: Array,
    coupling: float,
    initial: NDArray[Any],
    n_sweeps: int,
    rng: np.random.Generator,
) -> tuple[NDArray[Any], Array]:
    """Continue from labels at a coupling; return the last, and S of sweeps after a burn-in."""
    rows = graph.start, graph.neighbour, without_repeats(graph.weight)
    labels = initial.astype(np.int32)  # as in sampling, so that kernels compile once
    flat, agreements = np.ones((len(labels), len(prevalence))), np.empty(n_sweeps)
    for i in range(-max(n_sweeps // 4, 2), n_sweeps):
        check()
        gibbs, clusters = rng.integers(0, 2**64, 2, dtype=np.uint64)
        swendsen_wang(labels, prevalence, flat, (coupling, *rows), clusters)
        gibbs_sweep(labels, prevalence, flat, coupling, *rows, graph.colour_order, gibbs)
        if i >= 0:
            agreements[i] = agreement(labels, *rows)
    return labels.astype(initial.dtype), agreements


def _expectations(rungs: dict[float, list[Any]], independent: float) -> tuple[Array, Array, Array]:
    """Return couplings, E[S] from either start (2, couplings), and the error of their mean."""
    coupling = np.array(sorted(rungs))
    # (couplings, starts, sweeps)
    drawn = np.array([np.stack(list(zip(*rungs[c], strict=True))[1]) for c in coupling.tolist()])
    by_start = drawn.mean(axis=2).T
    chain_errors = np.apply_along_axis(_error, 2, drawn)
    # smoothed, because a few batches may agree by chance
    padded = np.pad((chain_errors**2).sum(axis=1) / 4, 1, mode="edge")
    within = np.sqrt(np.convolve(padded, [0.25, 0.5, 0.25], mode="valid"))
    # two starts that differ by more than noise are in different phases
    start_gap = np.abs(np.diff(by_start, axis=0))[0] / 2
    error = np.where(start_gap > 2 * within, start_gap, within)
    by_start[:, 0], error[0] = independent, 0.0  # known
    return coupling, by_start, error


def _error(chain: Array) -> float:
    """Return the standard error of a mean by batches, ten or so draws long."""
    n_batches = max(len(chain) // 10, 3)
    means = [batch.mean() for batch in np.array_split(chain, n_batches)]
    return float(np.std(means, ddof=1) / np.sqrt(n_batches))
