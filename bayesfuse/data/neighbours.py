"""Pairs of neighbours on grids and in feature space; adjacency, colouring and layout of graphs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import kernel

Pairs = NDArray[np.int64]

TREE_DIMENSIONS = 15
"""With more features than this, a k-d tree visits nearly every point."""
BLOCK_ENTRIES = 4_000_000
"""Distances between sparse rows in memory at a time."""


def grid_pairs(shape: tuple[int, ...], diagonal: bool) -> Pairs:
    """Return the pairs of touching cells of a grid numbered in C order, shape (pairs, 2)."""
    cell = np.arange(np.prod(shape)).reshape(shape)
    found = []
    for step in product((-1, 0, 1), repeat=len(shape)):
        # only forward steps, so that each pair is found once
        if step <= (0,) * len(shape) or (not diagonal and np.abs(step).sum() > 1):
            continue
        here = tuple(
            slice(max(-s, 0), size - max(s, 0)) for s, size in zip(step, shape, strict=True)
        )
        there = tuple(
            slice(max(s, 0), size - max(-s, 0)) for s, size in zip(step, shape, strict=True)
        )
        found.append(np.column_stack([cell[here].ravel(), cell[there].ravel()]))
    return np.concatenate(found)


def nearest_pairs(features: Any, k: int) -> Pairs:
    """Return the pairs of which either item is among the k nearest of the other, each once."""
    n = features.shape[0]
    if scipy.sparse.issparse(features):
        nearest = _nearest_of_sparse(_scaled(features, features.data), k)
    else:
        from scipy.spatial import cKDTree  # a tenth of a second to import

        table = _scaled(features, features)
        # a single leaf compares all pairs by differences, which do not cancel as products do
        leaf = 16 if table.shape[1] <= TREE_DIMENSIONS else n
        _, nearest = cKDTree(table, leafsize=leaf).query(table, k=k + 1, workers=-1)
        nearest = _without_self(nearest)
    one = np.repeat(np.arange(n), k)
    other = nearest.ravel()
    key = np.unique(np.minimum(one, other) * n + np.maximum(one, other))
    return np.column_stack(np.divmod(key, n))


def _scaled(features: Any, entries: NDArray[np.float64]) -> Any:
    """Scale by a power of two, without rounding, so that no square over- or underflows."""
    _, exponent = np.frexp(np.abs(entries).max(initial=0.0))
    half = int(exponent) // 2  # the power itself may overflow
    return features * 2.0**-half * 2.0 ** (half - int(exponent))


def _without_self(nearest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each item from its neighbours, or the last neighbour if the item is not among them."""
    own = nearest == np.arange(len(nearest))[:, None]
    own[~own.any(axis=1), -1] = True
    return nearest[~own].reshape(len(nearest), -1)


def _nearest_of_sparse(features: Any, k: int) -> NDArray[np.int64]:
    """Compute all distances |x|² − 2 xy + |y|², a block of rows at a time.

    Near ties within rounding error are recomputed from differences.
    """
    square = np.asarray(features.multiply(features).sum(axis=1)).ravel()
    n = len(square)
    height = max(BLOCK_ENTRIES // n, 1)
    # of the dot product, relative to the sum of the absolute terms
    rounding = (np.diff(features.indptr).max() + 4) * np.finfo(np.float64).eps
    error = 2 * rounding * (square + square.max())
    found = np.empty((n, k), dtype=np.int64)
    for first in range(0, n, height):
        rows = np.arange(first, min(first + height, n))
        inner = (features[rows] @ features.T).toarray()
        distance = square[rows, None] + square - 2 * inner
        distance[rows - first, rows] = np.inf
        last = np.partition(distance, k - 1, axis=1)[:, k - 1]
        near = distance <= (last + 2 * error[rows])[:, None]
        for row, candidates in zip(rows, map(np.flatnonzero, near), strict=True):
            if len(candidates) > k:
                apart = features[candidates] - features[np.full(len(candidates), row)]
                exact = np.asarray(apart.multiply(apart).sum(axis=1)).ravel()
                candidates = candidates[np.argsort(exact, kind="stable")[:k]]
            found[row] = candidates
    return found


@kernel
def adjacency(edges, n_items):
    """Return start, neighbour and edge from sorted edges, with neighbours in ascending order.

    One pass is enough: edges with an item second come before those with it first.
    """
    start = np.zeros(n_items + 1, dtype=np.int64)
    for e in range(len(edges)):
        start[edges[e, 0] + 1] += 1
        start[edges[e, 1] + 1] += 1
    for n in range(n_items):
        start[n + 1] += start[n]
    free = start[:-1].copy()
    neighbour = np.empty(2 * len(edges), dtype=np.int32)
    edge = np.empty(2 * len(edges), dtype=np.int32)
    for e in range(len(edges)):
        one, other = edges[e, 0], edges[e, 1]
        neighbour[free[one]], edge[free[one]] = other, e
        neighbour[free[other]], edge[free[other]] = one, e
        free[one] += 1
        free[other] += 1
    return start, neighbour, edge


@kernel
def greedy_colours(start, neighbour):
    """Give each item in turn the first colour that no neighbour has."""
    n_items = len(start) - 1
    colour = np.full(n_items, -1, dtype=np.int32)
    taken = np.full(
        n_items + 1, -1, dtype=np.int64
    )  # by colour: the last item with a neighbour of it
    for n in range(n_items):
        for j in range(start[n], start[n + 1]):
            if colour[neighbour[j]] >= 0:
                taken[colour[neighbour[j]]] = n
        c = 0
        while taken[c] == n:
            c += 1
        colour[n] = c
    return colour


@kernel
def springs(place, start, neighbour, rounds):
    """Force-directed layout: move ``place`` (items, 2) in place.

    Items repel with the inverse of their distance, edges attract with its square, and steps shrink
    (Fruchterman & Reingold 1991, Software: Practice and Experience 21, 1129–1164).
    """
    n_items = len(place)
    room = 1.0 / n_items  # square of the ideal distance on the unit square
    move = np.empty_like(place)
    for r in range(rounds):
        move[:] = 0.0
        for n in range(n_items):
            for m in range(n):
                x, y = place[n, 0] - place[m, 0], place[n, 1] - place[m, 1]
                push = room / max(x * x + y * y, 1e-4 * room)
                move[n, 0] += push * x
                move[n, 1] += push * y
                move[m, 0] -= push * x
                move[m, 1] -= push * y
            for j in range(start[n], start[n + 1]):
                m = neighbour[j]
                x, y = place[n, 0] - place[m, 0], place[n, 1] - place[m, 1]
                pull = np.sqrt((x * x + y * y) / room)
                move[n, 0] -= pull * x
                move[n, 1] -= pull * y
        longest = 0.1 * (1.0 - r / rounds)
        for n in range(n_items):
            length = max(np.sqrt(move[n, 0] ** 2 + move[n, 1] ** 2), longest)
            place[n] += move[n] * longest / max(length, 1e-12)
