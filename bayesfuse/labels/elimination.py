"""The exact normalising constant of labels on a graph, by variable elimination.

For every coupling β of a grid, it is log Z(β), Z = Σ_y ∏_n π[y_n] ∏_edges exp(β w 1[y_n = y_m]),
with its derivative, the expected weight of the edges whose items agree. All is analytic in β, so
that is the imaginary part at β + ih, divided by h, without differences that would lose digits
(Squire & Trapp 1998, SIAM Review 40, 110–112). Trees are summed from their leaves, by compiled
code; items on cycles in an order that keeps the tables over remaining neighbours small, unless
these are too large. Edges have the factor exp(−β w) if their items differ and 1 if they agree, and
tables are scaled to a largest entry of one, with the scale in logarithms: nothing overflows.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph
from bayesfuse.numerics.kernels import Array, kernel

MOST_CORE = 20_000
"""Maximum number of items on cycles to be ordered: more would take seconds in Python."""
MOST_WORK = 100_000_000  # maximum number of table entries, over items and couplings
STEP = 1e-30  # h of the derivatives: its square is lost to rounding


class Plan(NamedTuple):
    """The order in which items are summed out."""

    leaf: NDArray[np.int64]  # items of the trees, each a leaf in its turn (leaves,)
    parent: NDArray[np.int64]  # the last neighbour of every leaf, −1 if none is left
    edge: NDArray[np.int64]  # the edge to it
    core: list[int]  # the items on and between cycles, in order
    work: int  # number of table entries of the core, per coupling


@kernel
def peel(start, neighbour, edge):
    """Remove leaves until none is left; return them in turn, their parents, and edges to those."""
    n_items = len(start) - 1
    degree = np.empty(n_items, dtype=np.int64)
    leaf = np.empty(n_items, dtype=np.int64)
    parent = np.full(n_items, -1, dtype=np.int64)
    through = np.full(n_items, -1, dtype=np.int64)
    gone = np.zeros(n_items, dtype=np.bool_)
    last = 0
    for n in range(n_items):
        degree[n] = start[n + 1] - start[n]
        if degree[n] <= 1:
            leaf[last] = n
            last += 1
    at = 0
    while at < last:
        n = leaf[at]
        gone[n] = True
        for j in range(start[n], start[n + 1]):
            m = neighbour[j]
            if not gone[m]:
                parent[at], through[at] = m, edge[j]
                degree[m] -= 1
                if degree[m] == 1:
                    leaf[last] = m
                    last += 1
        at += 1
    return leaf[:last], parent[:last], through[:last]


@kernel
def sum_leaves(leaf, parent, weight, prevalence, coupling, n_items, place, n_core):
    """Sum leaves out: log Z, and what remains for the core (couplings, core, classes)."""
    n_classes = prevalence.shape[-1]
    log_z = np.zeros(len(coupling), dtype=np.complex128)
    left = np.empty((len(coupling), n_core, n_classes), dtype=np.complex128)
    value = np.empty((n_items, n_classes), dtype=np.complex128)
    for g in range(len(coupling)):
        value[:] = prevalence
        for i in range(len(leaf)):
            n, p, w = leaf[i], parent[i], weight[i]
            total = value[n].sum()
            if p < 0:
                log_z[g] += np.log(total)
                continue
            # exp(−β w), whose imaginary part is small: no sine and cosine
            differ = math.exp(-coupling[g].real * w) * (1.0 - coupling[g].imag * w * 1j)
            top = 0.0
            for k in range(n_classes):
                value[p, k] *= value[n, k] + differ * (total - value[n, k])
                top = max(top, value[p, k].real)
            for k in range(n_classes):
                value[p, k] *= 1.0 / top
            log_z[g] += math.log(top) + coupling[g] * w
        for n in range(n_items):
            if place[n] >= 0:
                left[g, place[n]] = value[n]
    return log_z, left


def trees_of(graph: Graph, unit: NDArray[np.int64]) -> list[tuple[NDArray[Any], ...]]:
    """Return the trees that contain each of several sets of items of a forest (``unit``).

    Per set: the items of its trees, which of them are in the set, the leaves in turn and their
    parents, by position among these items, and the weights of the edges between.
    """
    leaf, parent, through = peel(graph.start, graph.neighbour, graph.edge)
    weight = graph.weights[through] if graph.n_edges else np.ones(len(through))
    tree = graph.component
    by_tree = np.argsort(tree[leaf], kind="stable")
    start = np.searchsorted(tree[leaf][by_tree], np.arange(tree.max() + 2))
    by_unit = np.argsort(unit, kind="stable")
    begin = np.searchsorted(unit[by_unit], np.arange(unit.max() + 2))
    place = np.empty(graph.n_items, dtype=np.int64)
    found: list[tuple[NDArray[Any], ...]] = []
    for u in range(unit.max() + 1):
        trees = np.unique(tree[by_unit[begin[u] : begin[u + 1]]])
        rows = np.concatenate([by_tree[start[t] : start[t + 1]] for t in trees])
        item = leaf[rows]  # in a forest every item is a leaf in its turn
        place[item] = np.arange(len(item))
        above = np.where(parent[rows] < 0, -1, place[parent[rows]])
        found.append((item, unit[item] == u, np.arange(len(item)), above, weight[rows]))
    return found


def evidence(
    trees: list[tuple[NDArray[Any], ...]],
    prevalence: Array,
    likelihood: Array,
    log_scale: Array,
    coupling: float,
) -> Array:
    """Return the log evidence of sets of items (:func:`trees_of`), each given all other sets."""
    field, at = prevalence * likelihood, np.array([coupling], dtype=complex)
    found = np.empty(len(trees))
    for u, (item, own, *order) in enumerate(trees):
        left = np.full(len(item), -1), 0  # no item is left
        seen = field[item]
        unseen = np.where(own[:, None], prevalence, seen)
        one, other = (sum_leaves(*order, each, at, len(item), *left)[0] for each in (seen, unseen))
        found[u] = (one[0] - other[0]).real + log_scale[item[own]].sum()
    return found


def plan(graph: Graph, n_classes: int, n_couplings: int) -> Plan | None:
    """Find an elimination order, or None if the tables are too large."""
    leaf, parent, through = peel(graph.start, graph.neighbour, graph.edge)
    remains = np.ones(graph.n_items, dtype=bool)
    remains[leaf] = False
    core = np.flatnonzero(remains)
    if len(core) > MOST_CORE:
        return None
    near = {
        int(n): {int(m) for m in graph.neighbour[graph.start[n] : graph.start[n + 1]] if remains[m]}
        for n in core
    }
    queue = [(len(found), n) for n, found in near.items()]
    heapq.heapify(queue)
    order, work = [], 0
    while queue:  # the item with the fewest neighbours left
        size, n = heapq.heappop(queue)
        if n not in near or len(near[n]) != size:
            continue
        work += n_classes ** (size + 1)
        if work * n_couplings > MOST_WORK:
            return None
        around = near.pop(n)
        for m in around:  # summing n out joins its neighbours
            near[m] |= around
            near[m] -= {n, m}
            heapq.heappush(queue, (len(near[m]), m))
        order.append(n)
    return Plan(leaf, parent, through, order, work)


def sum_out(graph: Graph, prevalence: Array, coupling: Array, by: Plan) -> tuple[Array, Array]:
    """Return log Z and its derivative at every coupling, (couplings,) each."""
    at = coupling + STEP * 1j
    place = np.full(graph.n_items, -1, dtype=np.int64)
    place[by.core] = np.arange(len(by.core))
    weight = graph.weights[by.edge] if graph.n_edges else np.ones(len(by.edge))
    trees = by.leaf, by.parent, weight, prevalence, at
    log_z, value = sum_leaves(*trees, graph.n_items, place, len(by.core))
    ends = place[graph.edges]
    inside = (ends >= 0).all(axis=1)
    ends, weights = np.sort(ends[inside], axis=1), graph.weights[inside]
    log_z = log_z + at * weights.sum()
    tables: list[list[Table]] = [[((c,), value[:, c])] for c in range(len(by.core))]
    same = np.eye(len(prevalence))
    for (one, other), w in zip(ends.tolist(), weights.tolist(), strict=True):
        factor = same + np.exp(-at * w)[:, None, None] * (1 - same)
        tables[one].append(((one, other), factor))
    for held in tables:
        (_, *items), joined = _product(held)
        top = joined.real.max(axis=tuple(range(1, joined.ndim)), keepdims=True)
        total = (joined / top).sum(axis=1)
        log_z = log_z + np.log(top.ravel())
        if items:
            tables[items[0]].append((tuple(items), total))
        else:
            log_z = log_z + np.log(total)
        held.clear()
    return log_z.real, log_z.imag / STEP


Table = tuple[tuple[int, ...], NDArray[np.complex128]]
"""A function (couplings, classes, …) of the labels of some items, ascending."""


def _product(tables: list[Table]) -> Table:
    """Multiply tables, over the union of their items."""
    items = tuple(sorted({n for own, _ in tables for n in own}))
    found: Any = 1.0
    for own, value in tables:
        missing = [axis for axis, n in enumerate(items, 1) if n not in own]
        found = found * np.expand_dims(value, tuple(missing))
    return items, found
