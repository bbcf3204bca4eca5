"""Labels of communities: edges are random given the labels (a stochastic block model)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.labels import potts_kernels
from bayesfuse.labels.partition_function import Edges, planted_log_z, planted_partition
from bayesfuse.labels.potts import Potts, seed_of
from bayesfuse.labels.potts_kernels import (
    LARGEST,
    choose,
    log_weigh,
    pull,
    strongest,
    uniform,
    weigh,
)
from bayesfuse.numerics.kernels import kernel

STRONGEST = 10.0
"""Largest coupling of :class:`PlantedPotts`, per mean weight: one edge in 20,000 joins classes."""


class PlantedPotts(Potts):
    r"""Communities: edges are random given the labels (a stochastic block model).

    A pair of one class has an edge exp(β w) times as often as another pair. Use it if the graph
    results from the classes (citations, friendships, neighbours in features), and :class:`Potts` if
    the graph is fixed (the pixels of an image).

    .. math:: p(y, \text{edges}) \propto \prod_n \pi_{y_n} \prod_{\text{edges } nm}
              \frac{\exp(\beta\, w_{nm}\, 1[y_n = y_m])}{1 + A(y) (\exp(\beta\, w_{nm}) - 1)}

    with :math:`A(y) = \sum_k (n_k / n)^2`, the share of pairs of one class. The difference is large
    on graphs with many cycles: above its critical coupling, Potts expects nearly all items in one
    class, so that communities of similar size imply a weak coupling.

    Parameters
    ----------
    coupling, graph
        As for :class:`Potts`; with a fixed coupling both are the same.
    prevalence : array-like, shape (classes,), optional
        π, the shares of the classes. Default: unknown, under a flat prior.

    Notes
    -----
    Gibbs sampling is as stated. Belief propagation (NUTS, EM), and all on a forest, take A from the
    prevalence, uniform by default, so these fits may give nearly all items one class.

    References
    ----------
    Holland, Laskey & Leinhardt (1983), Social Networks 5, 109–137; Newman (2016), Physical Review
    E 94, 052315.

    Examples
    --------
    >>> import bayesfuse as bf, pymc as pm
    >>> made = bf.datasets.simulate_blocks(300, 4, 3, degree=5, random_seed=1)
    >>> with bf.LabelModel(made.responses) as model:
    ...     labels = bf.PlantedPotts(pm.HalfNormal("coupling", 3.0), made.graph)
    ...     _ = model.observe(labels=labels, raters=model.rater_channel("confusion", None))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bool(result["posterior"]["coupling"].mean() > 2)
    True
    """

    def __init__(self, coupling: Any, graph: Graph, prevalence: ArrayLike | None = None) -> None:
        super().__init__(coupling, graph, prevalence)
        self._edges: Edges | None = None
        if self._fixed is None and not self._drawn_anew:
            self._edges = np.unique(self.graph.weights, return_counts=True)

    def _inferred(self, graph, field):
        if graph.n_edges == 0:
            return super()._inferred(graph, field)
        return planted_partition(graph, field, STRONGEST / float(graph.weights.mean()))

    def _move(self, own, graph, colours, clusters, rng):
        if self._edges is None:
            super()._move(own, graph, colours, clusters, rng)
            return
        labels, prevalence, _ = own
        crowding = self._crowding(labels, graph[0], len(prevalence), rng)
        known = self._prevalence is not None
        if clusters:
            potts_kernels.swendsen_wang(*own, *graph, seed_of(rng), crowding, known)
        crowded_sweep(*own, *graph, colours[0], crowding, known, seed_of(rng))

    def _crowding(
        self,
        labels: NDArray[Any],
        coupling: float,
        n_classes: int,
        rng: np.random.Generator | None = None,
    ) -> float:
        """Return by how much log Z increases with the squares of class sizes.

        It does so linearly given an exponential auxiliary variable for every edge; their mean
        without ``rng``.
        """
        weights, counts = self._edges or (np.ones(0), np.ones(0, dtype=np.int64))
        less = -np.expm1(-coupling * weights)
        share = less / (1.0 - less * (1.0 - _same(labels, n_classes)))
        drawn = counts if rng is None else rng.standard_gamma(counts)
        return float((drawn * share).sum()) / len(labels) ** 2

    def given(self, log_parameters, labels, likelihood, log_scale, structure):
        prevalence, *graph = structure
        if self._edges is not None:
            n_classes = len(prevalence)
            crowding = self._crowding(labels, float(log_parameters[0]), n_classes)
            size, field = np.bincount(labels, minlength=n_classes), np.empty(n_classes)
            crowd(field, prevalence, size, crowding, self._prevalence is not None)
            prevalence = field
        return super().given(log_parameters, labels, likelihood, log_scale, (prevalence, *graph))

    def tally(self, drawn, structure, n_classes):
        (agreement,) = super().tally(drawn, structure, n_classes)
        if self._edges is None or drawn.ndim == 2:
            return (agreement,)
        return (np.array([agreement, _same(drawn, n_classes)]),)

    def log_weight(self, log_parameters, counts, structure):
        if self._edges is None or counts[0].ndim == 0:
            return super().log_weight(log_parameters, counts, structure)
        (agreement, same), coupling = counts[0].tolist(), float(log_parameters[0])
        return coupling * agreement - planted_log_z(self._edges, same, coupling)[0]


def _same(labels: NDArray[Any], n_classes: int) -> float:
    """Return the share of pairs of items that have one label."""
    return float(((np.bincount(labels, minlength=n_classes) / len(labels)) ** 2).sum())


@kernel
def crowd(field, prevalence, size, crowding, known):
    """Write into ``field`` the weights of the classes of one more item, by their sizes n.

    They are those of exp(−crowding · Σ n_k²) and, unless the shares of the classes are known, of
    ∏ n_k!, for a flat prior of the shares.
    """
    least = size.min()
    for k in range(size.size):
        field[k] = prevalence[k] * math.exp(-2.0 * crowding * (size[k] - least))
        if not known:
            field[k] *= size[k] + 1.0


@kernel
def crowded_sweep(
    labels, prevalence, likelihood, coupling, start, neighbour, weight, order, crowding, known, seed
):
    """As :func:`gibbs_sweep`, with the density times the factors of :func:`crowd`."""
    n_classes = prevalence.size
    share, field = np.empty(n_classes), np.empty(n_classes)
    log_scaled = strongest(coupling, start, weight) > LARGEST
    factor = pull(coupling, weight) if not log_scaled else np.empty(0)
    size = np.zeros(n_classes, dtype=np.int64)
    for n in range(labels.size):
        size[labels[n]] += 1
    for i in range(order.size):
        n = order[i]
        size[labels[n]] -= 1
        crowd(field, prevalence, size, crowding, known)
        if log_scaled:
            pulls = coupling, start, neighbour, weight
            total = log_weigh(n, labels, field, likelihood, *pulls, share)
        else:
            total = weigh(n, labels, field, likelihood, factor, start, neighbour, share)
        labels[n] = choose(share, total, uniform(seed, i))
        size[labels[n]] += 1
