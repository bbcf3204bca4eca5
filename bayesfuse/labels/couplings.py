"""Couplings at which log Z of labels on a graph is tabulated, for weights of any spread.

An edge of weight w takes part in the change of E[S] while β w is not large. With equal weights that
is one range of couplings, with weights of several orders of magnitude it is as many.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.data.graph import Graph
from bayesfuse.numerics.kernels import Array

EXACT_COUPLINGS = 129
"""Couplings of an exact table: its integral is then right to about 1e-8 per edge."""
STEP, GROWTH = 6.0 / (EXACT_COUPLINGS - 1), 0.05
"""Largest step of β w at first, and by which share of β a step may grow: edges for which that is a
large step of β w agree already, so the interpolation of their share is as precise."""
TAIL_DRAWN = 8
"""Couplings at most to begin with beyond the largest, where labels are drawn."""
SETTLED = 40.0
"""Value of β w (plus log K) from which an edge's share of disagreement is below rounding."""


def spread_evenly(weights: Array) -> bool:
    """Return whether all weights are equal, so that evenly spaced couplings do."""
    return bool(len(weights) == 0 or weights.min() == weights.max())


def weakest_bond(graph: Graph) -> float:
    """Return the smallest weight on a maximum spanning forest.

    Weaker edges agree because stronger ones around them do; on a forest it is the smallest weight.
    """
    if graph.is_forest or spread_evenly(graph.weights):
        return float(graph.weights.min()) if graph.n_edges else 1.0
    from scipy.sparse.csgraph import minimum_spanning_tree  # slow to import

    return float(-minimum_spanning_tree(-graph.to_scipy()).data.max())


def table_couplings(weights: Array, max_coupling: float) -> Array:
    """Return couplings from zero to the largest, fine enough for every weight."""
    if spread_evenly(weights):
        return np.linspace(0, max_coupling, EXACT_COUPLINGS)
    step = max_coupling / (EXACT_COUPLINGS - 1)
    step = min(step * weights.mean() / weights.max(), STEP / weights.max())
    if step / GROWTH >= max_coupling:
        return np.linspace(0, max_coupling, EXACT_COUPLINGS)
    first = np.arange(round(1 / GROWTH)) * step
    return np.concatenate([first, _growing(step / GROWTH, max_coupling)])


def tail_couplings(weakest: float, n_classes: int, max_coupling: float) -> Array:
    """Return couplings beyond the largest, up to where the weakest bond agrees."""
    end = (SETTLED + np.log(n_classes)) / weakest
    return _growing(max_coupling, end)[1:] if end > max_coupling else np.empty(0)


def drawn_couplings(graph: Graph, n_classes: int, max_coupling: float) -> Array:
    """Return couplings to begin draws at: half of them below twice where order may set in.

    Where weights differ they go on to where the weakest bond is as strong as the mean at the end.
    """
    twice = min(2 * bethe_coupling(graph, n_classes), max_coupling)
    beyond = np.linspace(twice, max_coupling, 5)[1:]
    begun = np.unique(np.concatenate([np.linspace(0, twice, 9), beyond]))
    further = float(graph.weights.mean()) / weakest_bond(graph) if graph.n_edges else 1.0
    if further < 1 + 1e-9:  # as good as equal
        return begun
    count = min(math.ceil(math.log2(further)), TAIL_DRAWN)
    return np.append(begun, max_coupling * np.geomspace(1, further, count + 1)[1:])


def bethe_coupling(graph: Graph, n_classes: int) -> float:
    r"""Return about where labels on a graph begin to take sides, were it a tree inside.

    One item's label tells its neighbours' by :math:`(e^β - 1) / (e^β + K - 1)`; when the b further
    neighbours of a neighbour make up for what is lost on the way, order spreads through the graph.
    Grids have circles and order later (at log(1 + √K) for four neighbours); a graph in which b ≤ 1
    never does, and the answer is infinite.

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
