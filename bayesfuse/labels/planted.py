"""Labels on a graph whose edges follow the labels: communities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.labels.partition_function import planted_partition
from bayesfuse.labels.potts import Potts

STRONGEST = 10.0
"""Where the table ends, per mean weight: an edge that joins classes is then one in 20,000."""


class PlantedPotts(Potts):
    r"""Communities: labels that neighbours tend to share because edges were drawn that way.

    Given the coupling the labels are those of :class:`Potts`. Its posterior is another: every edge
    is taken for drawn, given the labels, a pair of one class being exp(β w) times as probable as
    another pair (a stochastic block model with classes of the prevalence's shares). Take it where
    the graph grew out of the classes, as citations, friendships and neighbours in features do;
    :class:`Potts` where the graph was there before, as the pixels of an image.

    The difference is large on graphs with many circles: there Potts, above its critical coupling,
    expects nearly all items in one class, and takes communities of similar size for a weak
    coupling.

    Parameters
    ----------
    coupling, graph, prevalence
        As for :class:`Potts`; a fixed coupling makes the two the same.

    Notes
    -----
    The normaliser is that of the prevalence, not of the shares that the labels themselves have.
    Labels drawn from this prior alone are Potts's, most of them of one class, so predictive draws
    of labels and checks by them say little.

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
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
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
