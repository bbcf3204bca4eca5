"""Read and check the edges of a graph, and features of its items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, column_names, narrow, shown
from bayesfuse.data.names import names_of
from bayesfuse.errors import ResponsesError


def read_ends(edges: Any) -> list[Any]:
    """Return the two columns of names of a list or table of edges."""
    if scipy.sparse.issparse(edges) or hasattr(edges, "is_directed"):
        raise ResponsesError(
            "Edges must be a list or a table of pairs; use from_scipy for a matrix and "
            f"from_networkx for a networkx graph. Got: {type(edges).__name__}."
        )
    columns = column_names(edges)
    if columns is not None and len(columns) == 2:
        whole = isinstance(edges, pd.DataFrame)  # may have duplicate column names
        return [as_array(edges.iloc[:, n] if whole else edges[columns[n]]) for n in (0, 1)]
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
    given = scipy.sparse.csr_array(matrix, dtype=np.float64)
    given.sum_duplicates()
    given.eliminate_zeros()
    pairs = np.sort(np.column_stack(given.tocoo().coords).astype(np.int64), axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, weight = pairs[order], given.data[order]
    again = np.zeros(len(pairs), dtype=bool)
    again[1:] = (pairs[1:] == pairs[:-1]).all(axis=1)
    differs = np.flatnonzero(again[1:] & (weight[1:] != weight[:-1]))
    names = names_of(given.shape[0], items, "item")
    if len(differs):
        row = differs[0]
        raise ResponsesError(
            "A matrix of weights must be symmetric, because edges are undirected. Got: "
            f"{weight[row]} and {weight[row + 1]} for {shown(names[pairs[row]])}."
        )
    return names, pairs[~again], weight[~again]


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
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))
    if len(wrong):
        raise ResponsesError(
            "Weights of edges must be positive and finite, because an edge means that labels tend "
            f"to agree. Got: {weight[wrong[0]]} for edge {shown(items[pairs[wrong[0]]])} "
            f"({len(wrong)} such)."
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(loops):
        raise ResponsesError(
            "An edge must join two different items, because an item always agrees with itself. "
            f"Got: {shown(items[pairs[loops[0]]])} ({len(loops)} such)."
        )
    low, high = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1)
    key = low * len(items) + high
    order = np.argsort(key)
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    if len(twice):
        raise ResponsesError(
            "An edge must be given once, in either direction, because it has one weight. Got: "
            f"{shown(items[pairs[order[twice[0]]]])} more than once ({len(twice)} repeats)."
        )
    return np.column_stack([low[order], high[order]]).astype(np.int32), weight[order]


def read_features(given: Any) -> Any:
    """Return features as floats, dense or sparse, with the distances between items unchanged."""
    dense = not scipy.sparse.issparse(given)
    if dense and (columns := column_names(given)) is not None:
        given = np.asarray(given[columns])
    values = as_array(given) if dense else scipy.sparse.csr_array(given)
    kind, told = values.dtype.kind, f"{values.dtype} of shape {values.shape}"
    if kind in "iu" and dense and values.ndim == 2 and values.size:
        # large integers lose digits as floats, their differences do not
        wide = values.astype(np.uint64 if kind == "u" else np.int64)
        values = (wide - wide.min(axis=0)).astype(np.uint64)
    table = values.astype(np.float64) if kind in "biuf" else np.array(np.nan)
    entries = table if dense else table.data
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(entries).all():
        missing = ", or missing values in it" if kind in "biuf" else ""
        raise ResponsesError(
            "Features must be a matrix of finite numbers with one row per item, because distances "
            f"need them. Got: {told}{missing}."
        )
    return table
