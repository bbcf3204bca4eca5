"""Edges of a graph, read and checked or found in space; adjacency, colouring and layout."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, column_names, narrow, refuse, shown
from bayesfuse.data.names import names_of
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.kernels import kernel

Pairs = NDArray[np.int64]

TREE_DIMENSIONS = 15  # with more features than this, a k-d tree visits nearly every point


def read_ends(edges: Any) -> list[Any]:
    """Return the two columns of names of a list or table of edges."""
    if scipy.sparse.issparse(edges) or hasattr(edges, "is_directed"):
        raise ResponsesError(
            "Edges must be a list or a table of pairs; use from_scipy for a matrix and "
            f"from_networkx for a networkx graph. Got: {type(edges).__name__}."
        )
    columns = column_names(edges)
    if columns is not None and len(columns) == 2:
        is_frame = isinstance(edges, pd.DataFrame)  # may have duplicate column names
        return [as_array(edges.iloc[:, n] if is_frame else edges[columns[n]]) for n in (0, 1)]
    pairs = as_array(edges if hasattr(edges, "__array__") else list(edges))
    if columns is None and len(pairs) == 0:
        return [pairs.ravel(), pairs.ravel()]
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        what = f"{len(columns or pairs[0])} columns" if pairs.ndim == 2 else f"shape {pairs.shape}"
        raise ResponsesError(f"Edges must have two columns, one for each end. Got: {what}.")
    return [narrow(end) if end.dtype == object else end for end in pairs.T]


def read_weights(
    matrix: Any, items: Any
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
    """Return item names, pairs (edges, 2) and weights of a sparse matrix, each pair once."""
    if not scipy.sparse.issparse(matrix) or matrix.shape[0] != matrix.shape[1]:
        raise ResponsesError(
            "Weights must be a square sparse matrix, one row and one column per item. Got: "
            f"{type(matrix).__name__} of shape {np.shape(matrix)}."
        )
    symmetric = scipy.sparse.csr_array(matrix, dtype=np.float64)
    symmetric.sum_duplicates()
    symmetric.eliminate_zeros()
    names, weight = names_of(symmetric.shape[0], items, "item"), symmetric.data
    pairs = np.sort(np.column_stack(symmetric.tocoo().coords).astype(np.int64), axis=1)
    key = pairs[:, 0] * len(names) + pairs[:, 1]
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    once = weight[first]
    rule = "A matrix of weights must be symmetric, because edges are undirected."
    message = "{} and {} for {}".format
    unlike = weight != once[number]
    refuse(unlike, rule, lambda n: message(once[number[n]], weight[n], shown(names[pairs[n]])))
    return names, pairs[first], once


def sorted_edges(
    items: NDArray[Any], pairs: NDArray[Any], weights: Any
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return checked edges, sorted and the lower index first, and their weights."""
    if len(items) == 0:
        raise ResponsesError("A graph must have at least one item. Got: no items.")
    weight = np.ones(len(pairs)) if weights is None else as_array(weights)
    if weight.shape != (len(pairs),) or weight.dtype.kind not in "biuf":
        raise ResponsesError(
            f"Weights must be one number for each of the {len(pairs)} edges. Got: "
            f"{weight.dtype} of shape {weight.shape}."
        )
    weight = weight.astype(np.float64)
    sound = np.isfinite(weight) & (weight > 0)
    rule = "Weights of edges must be positive and finite, because an edge means that labels agree."
    refuse(~sound, rule, lambda n: f"{weight[n]} for edge {shown(items[pairs[n]])}")
    rule = "An edge must join two different items, because an item always agrees with itself."
    refuse(pairs[:, 0] == pairs[:, 1], rule, lambda n: shown(items[pairs[n]]))
    low, high = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1)
    key = low * len(items) + high
    order = np.argsort(key)
    is_repeated = np.diff(key[order]) == 0
    rule = "An edge must be given once, in either direction, because it has one weight."
    refuse(is_repeated, rule, lambda n: f"{shown(items[pairs[order[n]]])} more than once")
    return np.column_stack([low[order], high[order]]).astype(np.int32), weight[order]


def read_features(features: Any) -> NDArray[np.float64]:
    """Return features as floats, with the distances between items unchanged."""
    columns = None if scipy.sparse.issparse(features) else column_names(features)
    values = as_array(features if columns is None else np.asarray(features[columns]))
    kind, description = values.dtype.kind, f"{values.dtype} of shape {values.shape}"
    if kind == "i" and values.ndim == 2 and values.size:
        # large integers lose digits as floats, their differences do not
        values = values.astype(np.int64) - values.min(axis=0)
    table = values.astype(np.float64) if kind in "biuf" else np.array(np.nan)
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        missing = ", or missing values in it" if kind in "biuf" else ""
        raise ResponsesError(
            "Features must be a matrix of finite numbers with one row per item, because distances "
            f"need them (of a sparse matrix its toarray()). Got: {description}{missing}."
        )
    return table


def grid_pairs(shape: tuple[int, ...], diagonal: bool) -> Pairs:
    """Return the pairs of touching cells of a grid numbered in C order, shape (pairs, 2)."""
    cell = np.arange(np.prod(shape)).reshape(shape)
    pairs = []
    for step in product((-1, 0, 1), repeat=len(shape)):
        # only forward steps, so that each pair is found once
        if step <= (0,) * len(shape) or (not diagonal and np.abs(step).sum() > 1):
            continue
        ends = []
        for way in (1, -1):
            moved = zip(np.multiply(step, way).tolist(), shape, strict=True)
            inside = tuple(slice(max(-s, 0), size - max(s, 0)) for s, size in moved)
            ends.append(cell[inside].ravel())
        pairs.append(np.column_stack(ends))
    return np.concatenate(pairs)


def nearest_pairs(features: NDArray[np.float64], k: int) -> Pairs:
    """Return pairs of items of which either is among the k nearest of the other."""
    from scipy.spatial import cKDTree  # a tenth of a second to import

    n = len(features)
    # scaled by a power of two, without rounding, so that no square over- or underflows
    exponent = int(np.frexp(np.abs(features).max())[1])
    half = exponent // 2  # the power itself may overflow
    table = features * 2.0**-half * 2.0 ** (half - exponent)
    # a single leaf compares all pairs by differences, which do not cancel as products do
    leaf = 16 if table.shape[1] <= TREE_DIMENSIONS else n
    _, nearest = cKDTree(table, leafsize=leaf).query(table, k=k + 1, workers=-1)
    is_self = nearest == np.arange(n)[:, None]
    is_self[~is_self.any(axis=1), -1] = True  # the last neighbour, of an item that is not its own
    one = np.repeat(np.arange(n), k)
    other = nearest[~is_self]
    key = np.unique(np.minimum(one, other) * n + np.maximum(one, other))
    return np.column_stack(np.divmod(key, n))


def adjacency(edges: NDArray[Any], n_items: int) -> tuple[Pairs, NDArray[Any], NDArray[Any]]:
    """Return start, neighbour (ascending within an item) and edge, from edges between items."""
    rows, columns = np.concatenate([edges[:, ::-1], edges]).T
    number = np.tile(np.arange(len(edges), dtype=np.int32), 2)
    table = scipy.sparse.coo_array((number, (rows, columns)), shape=(n_items, n_items)).tocsr()
    return table.indptr.astype(np.int64), table.indices.astype(np.int32), table.data


@kernel
def greedy_colours(start, neighbour):
    """Give each item in turn the first colour that no neighbour has (items,)."""
    n_items = len(start) - 1
    colour = np.full(n_items, -1, dtype=np.int32)
    taken = np.full(n_items + 1, -1, dtype=np.int64)  # the last item with a neighbour of a colour
    for n in range(n_items):
        for j in range(start[n], start[n + 1]):
            if colour[neighbour[j]] >= 0:
                taken[colour[neighbour[j]]] = n
        c = 0
        while taken[c] == n:
            c += 1
        colour[n] = c
    return colour
