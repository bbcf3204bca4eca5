"""Labels drawn from the prior on a graph, coupling by coupling, from two opposite starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.graph import Graph
from bayesfuse.labels.potts_kernels import agreement, gibbs_sweep, swendsen_wang
from bayesfuse.reading import smallest_integer
from bayesfuse.simplex import Array

MOST_COUPLINGS = 41
FEW, MANY = 6, 100
"""Sweeps at a coupling from one start: no fewer and no more, if the user does not say."""
LABELS = 100_000_000
"""Labels to draw in all, in between: ten seconds or so."""


@dataclass
class _Rung:
    """Labels at one coupling from both starts, and the agreement S of every sweep (2, sweeps)."""

    labels: list[NDArray[Any]]
    agreement: Array


class Ladder:
    """Couplings at which labels are drawn, refined where their agreement rises most.

    The labels that begin at random climb from zero coupling upwards, those that begin as one class
    down from the largest; a coupling put in between two others takes over their labels. So what
    stays in its phase shows: below a jump of the agreement both starts agree, at it they do not.
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
        self.rng = np.random.default_rng(random_seed)
        equal = graph.n_edges > 0 and bool(np.all(graph.weights == graph.weights[0]))
        weight = graph.weight[:1] if equal else graph.weight
        self.rows = graph.start, graph.neighbour, np.ascontiguousarray(weight)
        self.likelihood = np.ones((graph.n_items, len(prevalence)))
        self.rungs: dict[float, _Rung] = {}

    def climb(self, couplings: Array) -> None:
        """Draw at the couplings given, then between those where the integral is least sure."""
        n_items, n_classes = self.likelihood.shape
        small = smallest_integer(n_classes)
        random = self.rng.choice(n_classes, n_items, p=self.prevalence).astype(small)
        one = np.full(n_items, np.argmax(self.prevalence), dtype=small)
        found = {}
        for start, (labels, order) in enumerate(((random, couplings), (one, couplings[::-1]))):
            for coupling in order.tolist():
                labels, drawn = self._draw(coupling, labels)
                found[start, coupling] = labels, drawn
        for coupling in couplings.tolist():
            both = [found[start, coupling] for start in (0, 1)]
            self.rungs[coupling] = _Rung([b[0] for b in both], np.stack([b[1] for b in both]))
        while len(self.rungs) < MOST_COUPLINGS:
            self._refine()

    def _refine(self) -> None:
        """Halve the interval whose integral is least sure, which a monotone slope bounds."""
        coupling, by_start, _ = self.results()
        worst = int(np.argmax(np.diff(coupling) * np.diff(by_start.mean(axis=0))))
        below, above = coupling[worst], coupling[worst + 1]
        both = [
            self._draw((below + above) / 2, self.rungs[near].labels[start])
            for start, near in enumerate((below, above))
        ]
        labels, drawn = zip(*both, strict=True)
        self.rungs[float((below + above) / 2)] = _Rung(list(labels), np.stack(drawn))

    def _draw(self, coupling: float, begun: NDArray[Any]) -> tuple[NDArray[Any], Array]:
        """Go on from labels at a coupling; returns the last, and S of all after some to settle."""
        labels = begun.astype(np.int32)  # as the sampler has them: kernels compile once
        settle = max(self.sweeps // 4, 2)
        drawn = np.empty(self.sweeps)
        for i in range(-settle, self.sweeps):
            gibbs, clusters = self.rng.integers(0, 2**64, 2, dtype=np.uint64)
            common = self.prevalence, self.likelihood, coupling, *self.rows
            swendsen_wang(labels, *common, clusters)
            gibbs_sweep(labels, *common, self.graph.colour_order, gibbs)
            if i >= 0:
                drawn[i] = agreement(labels, *self.rows)
        return labels.astype(begun.dtype), drawn

    def results(self) -> tuple[Array, Array, Array]:
        """Return the couplings, E[S] from either start (2, couplings) and the mean's error."""
        coupling = np.array(sorted(self.rungs))
        drawn = np.stack([self.rungs[c].agreement for c in coupling.tolist()])
        by_start = drawn.mean(axis=2).T
        own = np.array([[_error(chain) for chain in both] for both in drawn])
        # a few batches may agree by chance: couplings nearby have about the same noise
        padded = np.pad((own**2).sum(axis=1) / 4, 1, mode="edge")
        within = np.sqrt(np.convolve(padded, [0.25, 0.5, 0.25], mode="valid"))
        # two starts that do not agree say more of the error than either's own noise
        error = np.maximum(within, np.abs(np.diff(by_start, axis=0))[0] / 2)
        at_zero = self.total_weight * float((self.prevalence**2).sum())
        by_start[:, 0], error[0] = at_zero, 0.0  # known
        return coupling, by_start, error


def _error(chain: Array) -> float:
    """Return the standard error of a mean by batches, ten or so draws long."""
    n_batches = max(len(chain) // 10, 3)
    means = [batch.mean() for batch in np.array_split(chain, n_batches)]
    return float(np.std(means, ddof=1) / np.sqrt(n_batches))
