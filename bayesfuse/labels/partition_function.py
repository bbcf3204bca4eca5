"""The normalising constant of labels on a graph as a function of their coupling.

Labels y have the prior p(y) = π(y) exp(β S(y)) / Z(β) with S the total weight of the edges whose
items agree. Z has no closed form, but d log Z / dβ = E[S], and Z(0) = 1 if π is normalised, so
log Z is an integral over couplings (thermodynamic integration: Ogata 1989, Numerische Mathematik
55, 137–157; Gelman & Meng 1998, Statistical Science 13, 163–185). E[S] is exact if items can be
summed out (trees, small or narrow graphs), else the mean over labels drawn from the prior.
"""

from __future__ import annotations

import math
from collections import OrderedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.fingerprint import of_arrays
from bayesfuse.data.graph import Graph
from bayesfuse.errors import ModelError
from bayesfuse.labels import couplings
from bayesfuse.labels.elimination import plan, sum_out
from bayesfuse.numerics.kernels import Array, kernel

__all__ = ["PartitionTable", "log_partition", "planted_partition"]

KEPT = 8  # tables kept in memory
NO_ERROR = (0, 0), (0, 2)  # zeros beside the knots of a table in closed form

Edges = tuple[Array, NDArray[np.int64]]
"""Different weights of edges, and how many edges have each."""


class PartitionTable:
    """log Z of labels on one graph (couplings,), with its derivative E[S] and standard errors.

    ``coupling`` ascends from zero, denser where E[S] increases fast; there ``log_z`` is zero if the
    prevalence sums to one. ``slope`` is E[S], the expected weight of the edges whose items agree,
    with the limit ``total_weight``; ``bend`` its derivative, the variance of S; ``error`` and
    ``slope_error`` are zero in closed form. Where E[S] differs by start (``by_start``, (2,
    couplings)), from random labels and from labels of one class, the labels have two phases.
    ``method`` is "elimination", "thermodynamic integration" or "planted partition".

    They are ``columns`` (couplings, 6) up to ``n_table``. The rest, the ``tail``, continues until
    edges of the smallest weight agree; ``knots`` (couplings, 4) of both are for
    :func:`interpolate`.
    """

    def __init__(
        self,
        columns: Array,
        n_table: int,
        graph: Graph,
        method: str,
        by_start: Array | None = None,
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


@kernel
def interpolate(coupling, knots, total_weight):
    """Return log Z and its derivative, by a cubic through slopes and bends and its integral."""
    last = len(knots) - 1
    if coupling >= knots[last, 0]:
        step = coupling - knots[last, 0]
        log_z, slope, bend = knots[last, 1], knots[last, 2], knots[last, 3]
        missing = total_weight - slope
        if bend <= 0.0:  # slopes that noise made equal
            back = last // 2
            bend = (slope - knots[back, 2]) / (knots[last, 0] - knots[back, 0])
        if missing <= 1e-9 * total_weight or bend <= 0.0:
            return log_z + step * slope, slope
        rate = bend / missing
        left = missing * math.exp(-rate * step)
        return log_z + total_weight * step - (missing - left) / rate, total_weight - left
    i = np.searchsorted(knots[:, 0], coupling, side="right") - 1
    h = knots[i + 1, 0] - knots[i, 0]
    t = (coupling - knots[i, 0]) / h
    s0, s1, b0, b1 = knots[i, 2], knots[i + 1, 2], h * knots[i, 3], h * knots[i + 1, 3]
    c2, c3 = 3 * (s1 - s0) - 2 * b0 - b1, 2 * (s0 - s1) + b0 + b1
    slope = s0 + t * (b0 + t * (c2 + t * c3))
    return knots[i, 1] + h * t * (s0 + t * (b0 / 2 + t * (c2 / 3 + t * c3 / 4))), slope


_tables: OrderedDict[str, PartitionTable] = OrderedDict()


def log_partition(
    graph: Graph,
    log_field: ArrayLike,
    max_coupling: float,
    *,
    exact: bool = True,
    sweeps: int | None = None,
    random_seed: int = 0,
) -> PartitionTable:
    """Tabulate log Z over couplings, items summed out if feasible and ``exact``."""
    field = _checked(log_field, max_coupling)
    how = max_coupling, exact, sweeps, random_seed
    key = of_arrays([graph.edges, graph.weights, field, np.array(graph.n_items)]) + repr(how)
    if key not in _tables:
        _tables[key] = _tabulate(graph, field, *how)
        if len(_tables) > KEPT:
            _tables.popitem(last=False)
    _tables.move_to_end(key)
    return _tables[key]


def planted_partition(graph: Graph, log_field: ArrayLike, max_coupling: float) -> PartitionTable:
    r"""Tabulate the normalising constant of edges given labels, instead of labels given edges.

    If the edges are random (a stochastic block model, see ``PlantedPotts``), each of them joins a
    pair of one class exp(β w) times as often as another pair, and the log normaliser is

    .. math:: \sum_{\text{edges}} \log(1 + q\,(e^{β w} - 1)),\quad q = \sum_k \pi_k^2 ,

    with q the share of pairs of one class, from the field instead of the labels. On a forest with
    a uniform field both are the same (Karrer & Newman 2011, Physical Review E 83, 016107; Newman
    2016, ibid. 94, 052315).
    """
    field = _checked(log_field, max_coupling)
    log_total = float(np.logaddexp.reduce(field))
    q = float((np.exp(field - log_total) ** 2).sum())
    weakest = float(graph.weights.min(initial=np.inf))  # edges are independent
    coupling, n_table = couplings.table_couplings(graph.weights, max_coupling, weakest, len(field))
    edges = np.unique(graph.weights, return_counts=True)
    found = [planted_log_z(edges, q, beta) for beta in coupling.tolist()]
    knots = np.column_stack([coupling, found])
    knots[:, 1] += graph.n_items * log_total
    return PartitionTable(np.pad(knots, NO_ERROR), n_table, graph, "planted partition")


def planted_log_z(edges: Edges, q: float, coupling: float) -> tuple[float, float, float]:
    """Return log Z of independent edges, its slope and bend; ``edges`` are weights and numbers."""
    weights, counts = edges
    pull = np.exp(-coupling * weights)
    share = q / (q + (1 - q) * pull)  # of edges that agree
    log_z = (coupling * weights + np.log(q + (1 - q) * pull)) @ counts
    bend = (share * (1 - share)) @ (weights**2 * counts)
    return float(log_z), float(share @ (weights * counts)), float(bend)


def _checked(log_field: ArrayLike, max_coupling: float) -> Array:
    field = np.asarray(log_field, dtype=np.float64)
    if not (np.isfinite(max_coupling) and max_coupling > 0):
        raise ModelError(f"max_coupling must be positive and finite. Got: {max_coupling!r}.")
    if field.ndim != 1 or len(field) < 2 or not np.isfinite(np.logaddexp.reduce(field)):
        raise ModelError(
            "log_field must hold the log prevalence of at least two classes, finite for one of "
            f"them. Got: {log_field!r}."
        )
    return field


def _tabulate(
    graph: Graph,
    field: Array,
    max_coupling: float,
    exact: bool,
    sweeps: int | None,
    random_seed: int,
) -> PartitionTable:
    from scipy.interpolate import CubicSpline  # slow to import

    log_total = float(np.logaddexp.reduce(field))  # a field need not be normalised
    prevalence = np.exp(field - log_total)
    at_zero = graph.n_items * log_total
    by = plan(graph, len(field), couplings.EXACT_COUPLINGS) if exact else None
    if by is None:
        drawn = couplings.drawn_agreement(graph, prevalence, max_coupling, sweeps, random_seed)
        return _integrated(graph, prevalence, max_coupling, at_zero, drawn)
    weakest = couplings.weakest_bond(graph)
    coupling, n_table = couplings.table_couplings(graph.weights, max_coupling, weakest, len(field))
    at_once = couplings.EXACT_COUPLINGS  # to limit memory
    parts = np.split(coupling, range(at_once, len(coupling), at_once))
    log_z, slope = np.hstack([sum_out(graph, prevalence, part, by) for part in parts])
    bend = CubicSpline(coupling, slope)(coupling, 1)
    # evenly spaced couplings have their own spline, unaffected by the other steps
    own = slice(n_table)
    bend[own] = CubicSpline(coupling[own], slope[own])(coupling[own], 1)
    knots = np.column_stack([coupling, log_z + at_zero, slope, np.maximum(bend, 0.0)])
    return PartitionTable(np.pad(knots, NO_ERROR), n_table, graph, "elimination")


def _integrated(
    graph: Graph, prevalence: Array, max_coupling: float, at_zero: float, drawn: tuple[Array, ...]
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
    log_z, log_z_error = at_zero + smooth.antiderivative()(coupling), np.hypot(sampling, bent)
    columns = np.column_stack([coupling, log_z, slope, smooth(coupling, 1), log_z_error, error])
    n_table = int(np.searchsorted(coupling, max_coupling, side="right"))
    by_start = by_start[:, :n_table]
    return PartitionTable(columns, n_table, graph, "thermodynamic integration", by_start)
