"""Couplings at which log Z of labels on a graph is tabulated, for weights of any spread.

An edge of weight w contributes to the change of E[S] while β w is not large. For equal weights that
is one range of couplings, for weights of several orders of magnitude it is several.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.data.graph import Graph
from bayesfuse.numerics.kernels import Array

EXACT_COUPLINGS = 129
"""Couplings of an exact table: the error of its integral is then about 1e-8 per edge."""
STEP, GROWTH = 6.0 / (EXACT_COUPLINGS - 1), 0.05
"""Largest step of β w, and the share of β to which steps may grow: edges with larger steps of β w
agree already, so interpolation is as accurate."""
TAIL_DRAWN = 8
"""Most initial couplings beyond the largest, if labels are drawn."""
SETTLED = 40.0
"""Value of β w (plus log K) above which the probability of disagreement is below rounding."""


def spread_evenly(weights: Array) -> bool:
    """Return whether all weights are equal, so that couplings can be evenly spaced."""
    return bool(len(weights) == 0 or weights.min() == weights.max())


def weakest_bond(graph: Graph) -> float:
    """Return the smallest weight on a maximum spanning forest.

    Weaker edges agree because of stronger paths; on a forest it is the smallest weight.
    """
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
    """Return the initial couplings for draws: half of them below twice the Bethe coupling.

    With unequal weights they continue until the weakest bond is as strong as the mean.
    """
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


def _growing(first: float, last: float) -> Array:
    count = int(np.ceil(np.log(last / first) / GROWTH)) + 1
    return np.geomspace(first, last, max(count, 2))
