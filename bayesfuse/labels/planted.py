"""Labels on a graph whose edges depend on the labels: communities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.labels.partition_function import planted_partition
from bayesfuse.labels.potts import Potts

STRONGEST = 10.0
"""Largest tabulated coupling, per mean weight: one edge in 20,000 then joins two classes."""


class PlantedPotts(Potts):
    r"""Communities: edges are random given the labels (a stochastic block model).

    Given the coupling, the labels are distributed as in :class:`Potts`. The posterior of the
    coupling differs: edges are random given the labels, and a pair of one class has an edge
    exp(β w) times as often as another pair. Use it if the graph results from the classes
    (citations, friendships, neighbours in features), and :class:`Potts` if the graph is fixed (the
    pixels of an image).

    The difference is large on graphs with many cycles: above its critical coupling, Potts expects
    nearly all items in one class, so that communities of similar size imply a weak coupling.

    Parameters
    ----------
    coupling, graph, prevalence
        As for :class:`Potts`; with a fixed coupling both are the same.

    Notes
    -----
    The normalising constant depends on the prevalence, not on the shares of the labels. Prior draws
    of labels are those of Potts, most of them of one class, so prior predictive checks are not
    informative.

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

    def _tabulate(
        self, graph: Graph, arrays: tuple[NDArray[Any], ...]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        if self._fixed is not None or graph.n_edges == 0:
            return super()._tabulate(graph, arrays)
        most = STRONGEST / float(graph.weights.mean())
        self.table = planted_partition(graph, np.log(arrays[0]), most)
        return self.table.knots, np.asarray(self.table.total_weight)
