"""The normalising constant of labels on a graph as a function of their coupling.

Labels y have the prior p(y) = π(y) exp(β S(y)) / Z(β) with S the total weight of the edges whose
items agree. Z has no closed form, but d log Z / dβ = E[S] and Z(0) = 1, so log Z is an integral
over couplings (thermodynamic integration: Ogata 1989, Numerische Mathematik 55, 137–157; Gelman &
Meng 1998, Statistical Science 13, 163–185). E[S] is exact if items can be summed out (forests,
small or narrow graphs), else the mean over labels drawn from the prior.

Items are summed out from the leaves of a forest, else in an order that keeps the tables over
remaining neighbours small. All is analytic in β, so E[S] is the imaginary part at β + ih, divided
by h, without differences that would lose digits (Squire & Trapp 1998, SIAM Review 40, 110–112).
Edges have the factor exp(−β w) if their items differ and 1 if they agree, and tables are scaled to
a largest entry of one, with the scale in logarithms: nothing overflows.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.fingerprint import of_arrays
from bayesfuse.data.graph import Graph
from bayesfuse.labels import couplings
from bayesfuse.labels.potts_kernels import MIN_DISAGREEMENT, interpolate, pick_class, uniform
from bayesfuse.numerics.kernels import Array, kernel
from bayesfuse.parameters.factor import Integers, Tables

MAX_STORED_TABLES = 8  # tables kept in memory
NO_ERROR = (0, 0), (0, 2)  # zeros beside the knots of a table in closed form
MAX_ELIMINATED_ITEMS = 20_000
"""Maximum number of items in components with cycles: more would take seconds in Python."""
MAX_TABLE_ENTRIES = 100_000_000  # maximum number of table entries, over items and couplings
STEP = 1e-30  # h of the derivatives: its square is lost to rounding

Edges = tuple[Array, Integers]
"""Different weights of edges, and how many edges have each."""


class PartitionTable:
    """log Z of labels on one graph (couplings,), with its derivative E[S] and standard errors.

    ``coupling`` ascends from zero, denser where E[S] increases fast. ``slope`` is E[S], with the
    limit ``total_weight``; ``bend`` its derivative, the variance of S; ``error`` and
    ``slope_error`` are zero in closed form. Where E[S] differs by start (``by_start``, (2,
    couplings)), from random labels and from labels of one class, the labels have two phases.
    These are ``columns`` (couplings, 6) up to ``n_table``. The rest, the ``tail``, continues until
    edges of the smallest weight agree; ``knots`` (couplings, 4) of both are for
    :func:`interpolate`.
    """

    def __init__(
        self, columns: Array, n_table: int, graph: Graph, method: str, by_start: Array | None = None
    ) -> None:
        table = columns[:n_table].T.copy()
        self.coupling, self.log_z, self.slope, self.bend, self.error, self.slope_error = table
        self.knots, self.tail = columns[:, :4].copy(), columns[n_table:, :5]
        self.by_start = np.stack([self.slope] * 2) if by_start is None else by_start
        self.total_weight = float(graph.weights.sum())
        self.exact, self.method = by_start is None, method

    def at(self, coupling: ArrayLike) -> tuple[Array, Array]:
        """Return log Z and E[S] at nonnegative couplings."""
        asked = np.asarray(coupling, dtype=np.float64)
        both = [interpolate(one, self.knots, self.total_weight) for one in asked.ravel()]
        log_z, slope = np.array(both).T.reshape(2, *asked.shape)
        return log_z, slope

    @property
    def critical(self) -> float:
        """The coupling at which E[S] increases fastest, and labels become mostly of one class."""
        fine = np.linspace(0, self.coupling[-1], 2001)
        _, slope = self.at(fine)
        # over a twentieth of the table, because estimated slopes are noisy
        top = int(np.argmax(slope[100:] - slope[:-100]))
        return float(fine[top + 50])

    def __repr__(self) -> str:
        most = np.append(self.error, self.tail[:, 4]).max()
        error = "exact" if self.exact else f"standard error up to {most:.2g}"
        return (
            f"PartitionTable: couplings 0 to {self.coupling[-1]:.3g} by {self.method}, {error}, "
            f"critical at {self.critical:.3g}"
        )


_tables: OrderedDict[str, PartitionTable] = OrderedDict()


def log_partition(graph: Graph, prevalence: Array, max_coupling: float) -> PartitionTable:
    """Tabulate log Z over couplings, items summed out if that is feasible."""
    sizes: NDArray[Any] = np.array([graph.n_items, max_coupling])
    key = of_arrays([graph.edges, graph.weights, prevalence, sizes])
    if key not in _tables:
        table = _summed_out(graph, prevalence, max_coupling)
        if table is None:
            drawn = couplings.drawn_agreement(graph, prevalence, max_coupling)
            table = integrated(graph, prevalence, max_coupling, drawn)
        _tables[key] = table
        if len(_tables) > MAX_STORED_TABLES:
            _tables.popitem(last=False)
    _tables.move_to_end(key)
    return _tables[key]


def planted_partition(graph: Graph, prevalence: Array, max_coupling: float) -> PartitionTable:
    r"""Tabulate the normalising constant of edges given labels, instead of labels given edges.

    If the edges are random (a stochastic block model, see ``PlantedPotts``), each of them joins a
    pair of one class exp(β w) times as often as another pair, and the log normaliser is

    .. math:: \sum_{\text{edges}} \log(1 + q\,(e^{β w} - 1)),\quad q = \sum_k \pi_k^2 ,

    with q the share of pairs of one class, from the prevalence instead of the labels. On a forest
    with equal classes both are the same (Karrer & Newman 2011, Physical Review E 83, 016107; Newman
    2016, ibid. 94, 052315).
    """
    q, n_classes = float((prevalence**2).sum()), len(prevalence)
    weakest = float(graph.weights.min(initial=np.inf))  # edges are independent
    coupling, n_table = couplings.table_couplings(graph, n_classes, max_coupling, weakest)
    edges = np.unique(graph.weights, return_counts=True)
    log_z = [planted_log_z(edges, q, beta) for beta in coupling.tolist()]
    knots = np.column_stack([coupling, log_z])
    return PartitionTable(np.pad(knots, NO_ERROR), n_table, graph, "planted partition")


def planted_log_z(edges: Edges, q: float, coupling: float) -> tuple[float, float, float]:
    """Return log Z of independent edges, its slope and bend; ``edges`` are weights and numbers."""
    weights, counts = edges
    pull = np.exp(-coupling * weights)
    share = q / (q + (1 - q) * pull)  # of edges that agree
    log_z = (coupling * weights + np.log(q + (1 - q) * pull)) @ counts
    bend = (share * (1 - share)) @ (weights**2 * counts)
    return float(log_z), float(share @ (weights * counts)), float(bend)


def _summed_out(graph: Graph, prevalence: Array, max_coupling: float) -> PartitionTable | None:
    """Return the exact table, or None if that would take too long."""
    from scipy.interpolate import CubicSpline  # slow to import

    n_classes, weakest = len(prevalence), couplings.weakest_bond(graph)
    coupling, n_table = couplings.table_couplings(graph, n_classes, max_coupling, weakest)
    exact = exact_log_z(graph, prevalence, coupling)
    if exact is None:
        return None
    log_z, slope = exact
    bend = CubicSpline(coupling, slope)(coupling, 1)
    # evenly spaced couplings have their own spline, unaffected by the other steps
    tabulated = slice(n_table)
    bend[tabulated] = CubicSpline(coupling[tabulated], slope[tabulated])(coupling[tabulated], 1)
    knots = np.column_stack([coupling, log_z, slope, np.maximum(bend, 0.0)])
    return PartitionTable(np.pad(knots, NO_ERROR), n_table, graph, "elimination")


def exact_log_z(graph: Graph, prevalence: Array, coupling: Array) -> tuple[Array, Array] | None:
    """Return log Z and its derivative at every coupling, or None if that would take too long."""
    n_at_once = couplings.EXACT_COUPLINGS  # to limit memory
    n_items = np.bincount(graph.component)
    n_edges = np.bincount(graph.component[graph.edges[:, 0]], minlength=len(n_items))
    on_tree = (n_edges < n_items)[graph.component]
    elimination_order = _elimination_order(
        graph, np.flatnonzero(~on_tree), len(prevalence), n_at_once
    )
    if elimination_order is None:
        return None
    order, *above = rooted(graph)
    trees, field = (order[on_tree[order]], *above), np.tile(prevalence, (graph.n_items, 1))
    points: NDArray[Any] = coupling + STEP * 1j
    log_z: Any = np.array([sum_leaves(*trees, field, at)[0].sum() for at in points])
    for first in range(0, len(points), n_at_once):
        part = slice(first, first + n_at_once)
        log_z[part] += _eliminate(graph, prevalence, points[part], elimination_order)
    return log_z.real, log_z.imag / STEP


def rooted(graph: Graph) -> tuple[NDArray[np.int32], NDArray[np.int32], Array]:
    """Return the items in breadth-first order, from the first item of every component.

    With their parents, −1 for roots, and the weights of the edges to these, (items,) each.
    """
    roots = np.unique(graph.component, return_index=True)[1]
    rows = np.concatenate([graph.start, [len(graph.neighbour) + len(roots)]])
    ends = np.concatenate([graph.neighbour, roots]).astype(np.int32)  # a root above all, at the end
    adjacency = scipy.sparse.csr_array((np.ones(len(ends)), ends, rows), shape=(len(rows) - 1,) * 2)
    order, above = scipy.sparse.csgraph.breadth_first_order(adjacency, graph.n_items)
    parent = np.where(above[:-1] == graph.n_items, -1, above[:-1]).astype(np.int32)
    weight, below = np.ones(graph.n_items), np.flatnonzero(parent >= 0)
    if len(below):
        weight[below] = graph.to_scipy()[below, parent[below]]
    return order[1:], parent, weight


@kernel
def sum_leaves(order, parent, weight, field, coupling):
    """Sum out a forest of items with a ``field`` (items, classes), at a complex coupling.

    Returns log Z in parts by item, and the weights of every item given what is below it (items,
    classes).
    """
    part, value = np.zeros(len(parent), dtype=np.complex128), field.astype(np.complex128)
    for i in range(len(order) - 1, -1, -1):
        n, p, w = order[i], parent[order[i]], weight[order[i]]
        total = value[n].sum()
        if p < 0:
            part[n] = np.log(total)
            continue
        # exp(−β w), whose imaginary part is small: no sine and cosine
        differ = max(math.exp(-coupling.real * w), MIN_DISAGREEMENT) * (
            1.0 - coupling.imag * w * 1j
        )
        scale, top = 1.0 / total.real, 0.0
        for k in range(field.shape[1]):
            value[p, k] *= scale * (value[n, k] + differ * (total - value[n, k]))
            top = max(top, value[p, k].real)
        for k in range(field.shape[1]):
            value[p, k] *= 1.0 / top
        part[n] = math.log(top) - math.log(scale) + coupling * w
    return part, value


@kernel
def draw_forest(order, parent, weight, field, coupling, seed):
    """Draw the labels of a forest jointly, from its roots; all items must be possible."""
    value = sum_leaves(order, parent, weight, field, coupling)[1].real
    labels, share = np.empty(len(order), dtype=np.int32), np.empty(field.shape[1])
    for n in order:
        differ, total = max(math.exp(-coupling.real * weight[n]), MIN_DISAGREEMENT), 0.0
        for k in range(share.size):
            agrees = parent[n] < 0 or labels[parent[n]] == k
            share[k] = value[n, k] * (1.0 if agrees else differ)
            total += share[k]
        labels[n] = pick_class(share, total, uniform(seed, n))
    return labels


def _elimination_order(
    graph: Graph, items: Integers, n_classes: int, n_couplings: int
) -> list[int] | None:
    """Return whole components in an order to be summed out, or None if tables are too large."""
    if len(items) > MAX_ELIMINATED_ITEMS:
        return None
    start, neighbour = graph.start, graph.neighbour
    neighbours_left = {n: set(neighbour[start[n] : start[n + 1]].tolist()) for n in items.tolist()}
    queue = [(len(neighbours), n) for n, neighbours in neighbours_left.items()]
    heapq.heapify(queue)
    order, work = [], 0
    while queue:  # the item with the fewest neighbours left
        size, n = heapq.heappop(queue)
        if n not in neighbours_left or len(neighbours_left[n]) != size:
            continue
        work += n_classes ** (size + 1)
        if work * n_couplings > MAX_TABLE_ENTRIES:
            return None
        joined = neighbours_left.pop(n)
        for m in joined:  # summing n out joins its neighbours
            neighbours_left[m] |= joined
            neighbours_left[m] -= {n, m}
            heapq.heappush(queue, (len(neighbours_left[m]), m))
        order.append(n)
    return order


Table = tuple[tuple[int, ...], NDArray[np.complex128]]
"""A function (couplings, classes, …) of the labels of some items, ascending by turn."""


def _eliminate(
    graph: Graph, prevalence: Array, coupling: NDArray[np.complex128], order: list[int]
) -> NDArray[np.complex128]:
    """Return log Z at complex couplings, items being summed out in turn."""
    turn = np.full(graph.n_items, -1)
    turn[order] = np.arange(len(order))
    first_factor = np.tile(prevalence.astype(complex), (len(coupling), 1))
    tables: list[list[Table]] = [[((t,), first_factor)] for t in range(len(order))]
    later: list[list[tuple[int, float]]] = [[] for _ in order]
    ends, identity, log_z = (
        np.sort(turn[graph.edges], axis=1),
        np.eye(len(prevalence)),
        0 * coupling,
    )
    for (earlier, later_turn), w in zip(ends.tolist(), graph.weights.tolist(), strict=True):
        if earlier >= 0:
            later[earlier].append((later_turn, w))
    for t, factors in enumerate(tables):
        for later_turn, w in later[t]:
            factor: Any = identity + np.exp(-coupling * w)[:, None, None] * (1 - identity)
            factors.append(((t, later_turn), factor))
            log_z = log_z + coupling * w
        (_, *items), joined = _product(factors)
        top = joined.real.max(axis=tuple(range(1, joined.ndim)), keepdims=True)
        total = (joined / top).sum(axis=1)
        log_z = log_z + np.log(top.ravel())
        if items:
            tables[items[0]].append((tuple(items), total))
        else:
            log_z = log_z + np.log(total)
        factors.clear()
    return log_z


def _product(tables: list[Table]) -> Table:
    """Multiply tables, over the union of their items."""
    items = tuple(sorted({n for axes, _ in tables for n in axes}))
    product: Any = 1.0
    for axes, value in tables:
        missing = [axis for axis, n in enumerate(items, 1) if n not in axes]
        product = product * np.expand_dims(value, tuple(missing))
    return items, product


def integrated(
    graph: Graph, prevalence: Array, max_coupling: float, drawn: Tables
) -> PartitionTable:
    """Integrate the slopes of :func:`couplings.drawn_agreement` by a monotone cubic."""
    coupling, by_start, error = drawn
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import isotonic_regression

    # E[S] is nondecreasing; isotonic regression keeps one error from flattening the cubic
    weight = 1 / np.maximum(error, 1e-6 * max(graph.weights.sum(), 1.0)) ** 2
    slope = isotonic_regression(by_start.mean(axis=0), weights=weight).x
    smooth = PchipInterpolator(coupling, slope)
    # weight of every slope in the integral up to every coupling, by the trapezoidal rule
    share = np.zeros((len(coupling), len(coupling)))
    for i, h in enumerate(np.diff(coupling)):
        share[i + 1 :, i : i + 2] += h / 2
    sampling = np.sqrt((share**2) @ error**2)
    # the error of the cubic itself is about that for independent edges
    edges, q = np.unique(graph.weights, return_counts=True), (prevalence**2).sum()
    known, slopes, _ = np.transpose([planted_log_z(edges, float(q), x) for x in coupling.tolist()])
    bent = PchipInterpolator(coupling, slopes).antiderivative()(coupling) - known
    log_z, log_z_error = smooth.antiderivative()(coupling), np.hypot(sampling, bent)
    columns = np.column_stack([coupling, log_z, slope, smooth(coupling, 1), log_z_error, error])
    n_table = int(np.searchsorted(coupling, max_coupling, side="right"))
    by_start = by_start[:, :n_table]
    return PartitionTable(columns, n_table, graph, "thermodynamic integration", by_start)
