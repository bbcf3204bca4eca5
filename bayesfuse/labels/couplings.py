"""Couplings at which log Z of labels on a graph is tabulated, and labels drawn from the prior.

An edge of weight w contributes to the change of E[S] while β w is not large. For equal weights that
is one range of couplings, for weights of several orders of magnitude it is several.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.data.names import smallest_integer
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.labels.potts_kernels import agreement, gibbs_sweep, once, swendsen_wang
from bayesfuse.numerics.kernels import Array

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
FEW, MANY = 4, 100  # limits of the default number of sweeps at a coupling from one start
LABELS = 100_000_000  # labels to draw in total, within these limits: about ten seconds


def spread_evenly(weights: Array) -> bool:
    """Return whether all weights are equal, so that couplings can be evenly spaced."""
    return bool(len(weights) == 0 or weights.min() == weights.max())


def weakest_bond(graph: Graph) -> float:
    """Return the smallest weight on a maximum spanning forest; weaker edges agree by its paths."""
    if graph.is_forest or spread_evenly(graph.weights):
        return float(graph.weights.min()) if graph.n_edges else 1.0
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import

    return float(-minimum_spanning_tree(-graph.to_scipy()).data.max())


def table_couplings(weights: Array, max_coupling: float) -> Array:
    """Return couplings from zero to the largest, with steps for every weight."""
    if spread_evenly(weights):
        return np.linspace(0, max_coupling, EXACT_COUPLINGS)
    step = max_coupling / (EXACT_COUPLINGS - 1)
    step = min(step * weights.mean() / weights.max(), STEP / weights.max())
    if step / GROWTH >= max_coupling:
        return np.linspace(0, max_coupling, EXACT_COUPLINGS)
    first = np.arange(round(1 / GROWTH)) * step
    return np.concatenate([first, _growing(step / GROWTH, max_coupling)])


def tail_couplings(weakest: float, n_classes: int, max_coupling: float) -> Array:
    """Return couplings beyond the largest, until the weakest bond agrees."""
    end = (SETTLED + np.log(n_classes)) / weakest
    return _growing(max_coupling, end)[1:] if end > max_coupling else np.empty(0)


def drawn_couplings(graph: Graph, n_classes: int, max_coupling: float) -> Array:
    """Return initial couplings for draws, up to where the weakest bond is as strong as the mean."""
    twice = min(2 * bethe_coupling(graph, n_classes), max_coupling)
    beyond = np.linspace(twice, max_coupling, 5)[1:]
    begun = np.unique(np.concatenate([np.linspace(0, twice, 9), beyond]))
    further = float(graph.weights.mean()) / weakest_bond(graph) if graph.n_edges else 1.0
    if further < 1 + 1e-9:  # practically equal
        return begun
    count = min(math.ceil(math.log2(further)), TAIL_DRAWN)
    return np.append(begun, max_coupling * np.geomspace(1, further, count + 1)[1:])


def bethe_coupling(graph: Graph, n_classes: int) -> float:
    r"""Return the critical coupling of labels on a graph in the Bethe (tree) approximation.

    The correlation of neighbours is :math:`(e^β - 1) / (e^β + K - 1)`; order spreads through the
    graph when that times b, the mean number of further neighbours of a neighbour, is one. Grids
    have cycles and a larger critical coupling (log(1 + √K) for four neighbours). If b ≤ 1 it is
    infinite.

    Parameters
    ----------
    graph : Graph
    n_classes : int

    Returns
    -------
    float
        Coupling per unit of weight.

    References
    ----------
    Dorogovtsev, Goltsev & Mendes (2004), Potts model on complex networks, European Physical
    Journal B 38, 177–182.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> round(bethe_coupling(bf.Graph.grid((50, 50)), n_classes=2), 2)
    0.71
    """
    degree = graph.degree.astype(np.float64)
    branching = (degree * (degree - 1)).sum() / max(degree.sum(), 1.0)
    if branching <= 1:
        return math.inf
    return float(math.log1p(n_classes / (branching - 1)) / graph.weights.mean())


def reach(graph: Graph, n_classes: int) -> float:
    """Return the largest coupling of a table of log Z: there, nearly all neighbours agree."""
    mean = float(graph.weights.mean()) if graph.n_edges else 1.0
    return min(REACH * bethe_coupling(graph, n_classes), TABULATED / mean)


def paper_coupling(trust: Any, responses: Responses) -> float:
    """Return the coupling δ / 2 of the paper's δ; "paper" is the number of raters.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.labels.paper_coupling("paper", bf.datasets.anesthesia())
    2.5
    """
    delta = responses.n_raters if trust == "paper" else trust
    number = isinstance(delta, int | float | np.number) and not isinstance(delta, bool)
    if not (number and 0 < delta < np.inf):
        raise ModelError(
            f"trust must be 'infer', 'paper' or a positive number, the paper's δ. Got: {trust!r}."
        )
    return float(delta) / 2


def _growing(first: float, last: float) -> Array:
    count = int(np.ceil(np.log(last / first) / GROWTH)) + 1
    return np.geomspace(first, last, max(count, 2))


@dataclass
class _Rung:
    """Labels at one coupling from both starts, and the agreement S of every sweep (2, sweeps)."""

    labels: list[NDArray[Any]]
    agreement: Array


class Ladder:
    """Couplings at which labels are drawn, refined where their agreement rises most.

    Random labels are annealed upwards, and labels of one class downwards; other couplings start
    from neighbouring ones. Where the two starts differ, the labels have two phases.
    """

    def __init__(
        self,
        graph: Graph,
        prevalence: Array,
        max_coupling: float,
        sweeps: int | None,
        random_seed: int,
    ) -> None:
        self.graph, self.prevalence = graph, prevalence
        self.total_weight = float(graph.weights.sum())
        if sweeps is None:
            per_sweep = 2 * MOST_COUPLINGS * graph.n_items
            sweeps = int(np.clip(LABELS // per_sweep, FEW, MANY))
        self.sweeps = sweeps
        # a stream per start, because they are drawn in parallel
        self.rngs = np.random.default_rng(random_seed).spawn(2)
        self.rows = graph.start, graph.neighbour, once(graph.weight)
        self.likelihood = np.ones((graph.n_items, len(prevalence)))
        self.colours = graph.colour_order
        self.rungs: dict[float, _Rung] = {}

    def climb(self, couplings: Array) -> None:
        """Draw at the given couplings, then between those where the integral is least certain."""
        n_items, n_classes = self.likelihood.shape
        small = smallest_integer(n_classes)
        random = self.rngs[0].choice(n_classes, n_items, p=self.prevalence).astype(small)
        one = np.full(n_items, np.argmax(self.prevalence), dtype=small)
        with ThreadPoolExecutor(2) as threads:  # kernels release the GIL
            walks = threads.map(self._walk, (0, 1), (couplings, couplings[::-1]), (random, one))
            up, down = walks
            for coupling in couplings.tolist():
                self._keep(coupling, [up[coupling], down[coupling]])
            while len(self.rungs) < MOST_COUPLINGS:
                middle, near = self._least_sure()
                begun = [self.rungs[c].labels[start] for start, c in enumerate(near)]
                self._keep(middle, threads.map(self._draw, (0, 1), (middle,) * 2, begun))

    def _walk(
        self, start: int, couplings: Array, labels: NDArray[Any]
    ) -> dict[float, tuple[NDArray[Any], Array]]:
        """Draw at successive couplings, each from the last labels."""
        found = {}
        for coupling in couplings.tolist():
            found[coupling] = self._draw(start, coupling, labels)
            labels = found[coupling][0]
        return found

    def _keep(self, coupling: float, both: Iterable[tuple[NDArray[Any], Array]]) -> None:
        labels, drawn = zip(*both, strict=True)
        self.rungs[coupling] = _Rung(list(labels), np.stack(drawn))

    def _least_sure(self) -> tuple[float, tuple[float, float]]:
        """Return middle and ends of the interval where the slopes, which increase, differ most."""
        coupling, by_start, _ = self.results()
        worst = int(np.argmax(np.diff(coupling) * np.diff(by_start.mean(axis=0))))
        below, above = coupling[worst : worst + 2].tolist()
        return (below + above) / 2, (below, above)

    def _draw(self, start: int, coupling: float, begun: NDArray[Any]) -> tuple[NDArray[Any], Array]:
        """Continue from labels at a coupling; return the last, and S of sweeps after a burn-in."""
        labels = begun.astype(np.int32)  # as in sampling, so that kernels compile once
        settle = max(self.sweeps // 4, 2)
        drawn = np.empty(self.sweeps)
        for i in range(-settle, self.sweeps):
            gibbs, clusters = self.rngs[start].integers(0, 2**64, 2, dtype=np.uint64)
            common = self.prevalence, self.likelihood, coupling, *self.rows
            swendsen_wang(labels, *common, clusters)
            gibbs_sweep(labels, *common, self.colours, gibbs)
            if i >= 0:
                drawn[i] = agreement(labels, *self.rows)
        return labels.astype(begun.dtype), drawn

    def results(self) -> tuple[Array, Array, Array]:
        """Return the couplings, E[S] from either start (2, couplings) and the mean's error."""
        coupling = np.array(sorted(self.rungs))
        drawn = np.stack([self.rungs[c].agreement for c in coupling.tolist()])
        by_start = drawn.mean(axis=2).T
        own = np.array([[_error(chain) for chain in both] for both in drawn])
        # smoothed, because a few batches may agree by chance
        padded = np.pad((own**2).sum(axis=1) / 4, 1, mode="edge")
        within = np.sqrt(np.convolve(padded, [0.25, 0.5, 0.25], mode="valid"))
        # two starts that differ by more than noise are in different phases
        apart = np.abs(np.diff(by_start, axis=0))[0] / 2
        error = np.where(apart > 2 * within, apart, within)
        at_zero = self.total_weight * float((self.prevalence**2).sum())
        by_start[:, 0], error[0] = at_zero, 0.0  # known
        return coupling, by_start, error


def _error(chain: Array) -> float:
    """Return the standard error of a mean by batches, ten or so draws long."""
    n_batches = max(len(chain) // 10, 3)
    means = [batch.mean() for batch in np.array_split(chain, n_batches)]
    return float(np.std(means, ddof=1) / np.sqrt(n_batches))
