"""Labels of communities: edges are random given the labels (a stochastic block model)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.labels import potts_kernels
from bayesfuse.labels.partition_function import Edges, planted_log_z, planted_partition
from bayesfuse.labels.potts import Potts

MAX_COUPLING = 10.0
"""Largest coupling of :class:`PlantedPotts`, per mean weight: one edge in 20,000 joins classes."""


class PlantedPotts(Potts):
    r"""Communities: edges are random given the labels (a stochastic block model).

    A pair of one class has an edge exp(β w) times as often as another pair. For graphs that result
    from the classes (citations, friendships, neighbours in features), not fixed ones (images).

    .. math:: p(y, \text{edges}) \propto \prod_n \pi_{y_n} \prod_{\text{edges } nm}
              \frac{\exp(\beta\, w_{nm}\, 1[y_n = y_m])}{1 + A(y) (\exp(\beta\, w_{nm}) - 1)}

    with :math:`A(y) = \sum_k (n_k / n)^2`, the share of pairs of one class. Above its critical
    coupling, :class:`Potts` expects nearly all items in one class, so that with many cycles
    communities of similar size imply a weak coupling.

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
    >>> import bayesfuse as bf
    >>> graph = bf.Graph.from_edges([(n, n + step) for n in range(98) for step in (1, 2)])
    >>> made = bf.datasets.simulate_responses(graph.items // 50, 4, 2, random_seed=1)
    >>> model = bf.models.MarkovRandomField(made.responses, graph, edges="drawn")
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bool(result["posterior"]["coupling"].mean() > 2)
    True
    """

    capabilities = Potts.capabilities

    def __init__(self, coupling: Any, graph: Graph, prevalence: ArrayLike | None = None) -> None:
        super().__init__(coupling, graph, prevalence)
        self._edges: Edges | None = None
        if self._fixed is None and not self.graph.is_forest:
            self._edges = np.unique(self.graph.weights, return_counts=True)

    def _inferred(self, graph, prevalence):
        if graph.n_edges == 0:
            return super()._inferred(graph, prevalence)
        return planted_partition(graph, prevalence, MAX_COUPLING / float(graph.weights.mean()))

    def _size_penalty(self, labels, coupling, n_classes, rng=None):
        """Return the penalty at drawn auxiliary variables, or at their means without ``rng``.

        Given an exponential auxiliary variable for every edge, log Z is linear in the squared class
        sizes.
        """
        if self._edges is None:
            return super()._size_penalty(labels, coupling, n_classes, rng)
        weights, counts = self._edges
        bonded = -np.expm1(-coupling * weights)  # probability of a bond, as of Swendsen and Wang
        share = bonded / (1.0 - bonded * (1.0 - _share_of_equal_pairs(labels, n_classes)))
        drawn = counts if rng is None else rng.standard_gamma(counts)
        return float((drawn * share).sum()) / len(labels) ** 2, self._prevalence is not None

    def conditional(self, log_parameters, labels, likelihood, log_scale, structure):
        prevalence, *graph = structure
        if self._edges is not None:
            penalty = self._size_penalty(labels, float(log_parameters[0]), len(prevalence))
            size = np.bincount(labels, minlength=len(prevalence))
            field = np.empty(len(size))
            potts_kernels.write_size_field(field, prevalence, size, *penalty)
            prevalence = field
        return super().conditional(
            log_parameters, labels, likelihood, log_scale, (prevalence, *graph)
        )

    def sample_counts(self, drawn, structure, n_classes):
        (agreement,) = super().sample_counts(drawn, structure, n_classes)
        if self._edges is None or drawn.ndim == 2:
            return (agreement,)
        return (np.array([agreement, _share_of_equal_pairs(drawn, n_classes)]),)

    def log_weight(self, log_parameters, counts, structure):
        if self._edges is None or counts[0].ndim == 0:
            return super().log_weight(log_parameters, counts, structure)
        (agreement, same), coupling = counts[0].tolist(), float(log_parameters[0])
        return coupling * agreement - planted_log_z(self._edges, same, coupling)[0]


def _share_of_equal_pairs(labels: NDArray[Any], n_classes: int) -> float:
    """Return the share of pairs of items that have one label."""
    return float(((np.bincount(labels, minlength=n_classes) / len(labels)) ** 2).sum())
