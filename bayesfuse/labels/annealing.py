"""Labels drawn from the prior on a graph over a range of couplings, from two opposite starts."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.data.names import smallest_integer
from bayesfuse.labels.clusters import swendsen_wang
from bayesfuse.labels.potts_kernels import agreement, gibbs_sweep, once
from bayesfuse.numerics.kernels import Array

MOST_COUPLINGS = 41
FEW, MANY = 4, 100
"""Least and most sweeps at a coupling from one start, by default."""
LABELS = 100_000_000
"""Labels to draw in total, within these limits: about ten seconds."""


@dataclass
class _Rung:
    """Labels at one coupling from both starts, and the agreement S of every sweep (2, sweeps)."""

    labels: list[NDArray[Any]]
    agreement: Array


class Ladder:
    """Couplings at which labels are drawn, refined where their agreement rises most.

    Random labels are annealed upwards from zero coupling, and labels of one class downwards from
    the largest; a coupling between two others starts from their labels. Where the two starts
    differ, the labels have two phases.
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
        """Return the middle and ends of the interval with the widest bounds of the integral.

        The slope is nondecreasing, so its values at the ends bound the integral.
        """
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
