"""How items hang together: a graph of items whose labels tend to agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from bayesfuse.data.arrays import as_array, column_names, narrow, shown
from bayesfuse.data.describing import as_html, as_text, summarise_graph
from bayesfuse.data.names import encode, names_of, unique_names
from bayesfuse.data.neighbours import adjacency, greedy_colours, grid_pairs, nearest_pairs
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import item_places
from bayesfuse.errors import ResponsesError, require_kind

__all__ = ["Graph"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """Items with undirected, weighted edges: pixels, documents that cite, neighbours in features.

    Build one with :meth:`from_edges`, :meth:`from_scipy`, :meth:`from_networkx`, :meth:`grid` or
    :meth:`nearest_neighbours`. Items are known by name, so their order here and in a table of
    responses need not be the same; an item may be without any edge.

    Attributes
    ----------
    items : ndarray, shape (items,)
        Names of the items, each unique.
    edges : ndarray of int32, shape (edges, 2)
        Numbers of the two items of every edge, the lower one first, sorted, each edge once.
    weights : ndarray of float64, shape (edges,)
        How strongly every edge pulls, relative to the others; positive.
    start : ndarray of int64, shape (items + 1,)
        Item ``n`` has the neighbours ``neighbour[start[n]:start[n + 1]]``.
    neighbour, edge : ndarray of int32, shape (2 * edges,)
        Number of every neighbour, ascending by item, and of the edge that leads to it.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> graph = bf.Graph.from_edges([("a", "b"), ("b", "c")], items=["a", "b", "c", "d"])
    >>> graph
    Graph: 4 items, 2 edges
      neighbours per item  0 to 2, median 1
      weights              1
      components           2, the largest of 3 items
      kind                 forest: labels can be summed out exactly
    >>> graph.neighbour[graph.start[1]:graph.start[2]].tolist()
    [0, 2]
    """

    items: NDArray[Any]
    edges: NDArray[np.int32]
    weights: NDArray[np.float64]
    start: NDArray[np.int64]
    neighbour: NDArray[np.int32]
    edge: NDArray[np.int32]

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        weights: ArrayLike | None = None,
        *,
        items: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Graph:
        """Read a list of edges between named items.

        Parameters
        ----------
        edges : array-like or dataframe, shape (edges, 2)
            Names of the two items of every edge, in any order.
        weights : array-like, shape (edges,), optional
            Positive; by default all one.
        items : sequence, optional
            All names, in the order wanted. Declare them to keep items without edges; by default
            the sorted names found in the edges.

        Raises
        ------
        ResponsesError
            Not two columns, missing or unknown names, self-loops, an edge given twice, weights
            that are not positive numbers, no items.
        """
        names = None if items is None else unique_names(items, "item")
        ends = _ends(edges)
        if names is None:
            found = [encode(end, None, "item", "edges")[1].tolist() for end in ends]
            _, names = encode(as_array(found[0] + found[1]), None, "item", "edges")
        codes = [encode(end, names, "item", "edges")[0] for end in ends]
        return cls._build(names, np.column_stack(codes), weights)

    @classmethod
    def from_scipy(cls, matrix: Any, *, items: Sequence[Any] | None = None) -> Graph:
        """Read a sparse matrix of weights.

        Parameters
        ----------
        matrix : sparse matrix or array, shape (items, items)
            Symmetric, or with one entry per edge, on either side of the diagonal. Stored zeros
            are no edges.
        items : sequence, optional
            Names of the rows; by default 0, 1, 2, …

        Raises
        ------
        ResponsesError
            Not sparse, not square, two different weights for one edge, self-loops, weights that
            are not positive numbers, a wrong number of names.

        Examples
        --------
        >>> import bayesfuse as bf, scipy.sparse
        >>> bf.Graph.from_scipy(scipy.sparse.eye_array(3, k=1)).edges.tolist()
        [[0, 1], [1, 2]]
        """
        if not sparse.issparse(matrix) or matrix.shape[0] != matrix.shape[1]:
            raise ResponsesError(
                "Weights must be a square sparse matrix, one row and one column per item. Got: "
                f"{type(matrix).__name__} of shape {np.shape(matrix)}."
            )
        given = sparse.csr_array(matrix, dtype=np.float64)
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
                "A matrix of weights must be symmetric, because edges have no direction. Got: "
                f"{weight[row]} and {weight[row + 1]} for {_pair(names, pairs[row])}."
            )
        return cls._build(names, pairs[~again], weight[~again])

    @classmethod
    def from_networkx(
        cls, graph: Any, *, weight: str = "weight", items: Sequence[Any] | None = None
    ) -> Graph:
        """Read a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
            Its nodes are the items, in their order.
        weight : str
            Name of the edges' attribute that holds the weight; one where an edge has none.
        items : sequence, optional
            All names, in the order wanted; by default the graph's nodes in theirs.

        Raises
        ------
        ResponsesError
            A directed graph, parallel edges, and what :meth:`from_edges` refuses.
        """
        if not hasattr(graph, "is_directed"):
            raise ResponsesError(
                "A graph of networkx must have nodes and edges; a matrix is read by from_scipy, "
                f"pairs by from_edges. Got: {type(graph).__name__}."
            )
        if graph.is_directed():
            raise ResponsesError(
                "Edges must have no direction, because agreement is mutual: call "
                f".to_undirected(). Got: a {type(graph).__name__}."
            )
        found = list(graph.edges(data=weight, default=1.0))
        names = unique_names(list(graph.nodes) if items is None else items, "item")
        pairs = [edge[:2] for edge in found]
        return cls.from_edges(pairs, [edge[2] for edge in found], items=names)

    @classmethod
    def grid(
        cls,
        shape: Sequence[int],
        *,
        neighbours: int | None = None,
        items: Sequence[Any] | None = None,
    ) -> Graph:
        """Return the graph of the cells of an image or a volume.

        Parameters
        ----------
        shape : sequence of int
            Rows and columns (or one size per axis, however many axes).
        neighbours : int, optional
            In a plane 4, cells that share a side (the default), or 8, with those that share a
            corner; in space 6 or 26.
        items : sequence, optional
            Names of the cells in C order (row by row), as ``image.ravel()`` gives them; by
            default 0, 1, 2, …

        Raises
        ------
        ResponsesError
            Sizes that are not positive integers, neighbours that no grid of these axes has, a
            wrong number of names.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> bf.Graph.grid((2, 2), neighbours=8).edges.tolist()
        [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
        """
        size = np.asarray(shape)
        if size.ndim != 1 or size.size == 0 or size.dtype.kind not in "iu" or size.min() < 1:
            raise ResponsesError(
                f"The shape of a grid must be positive whole numbers, one per axis. Got: {shape!r}."
            )
        sides, all_round = 2 * len(size), 3 ** len(size) - 1
        if neighbours not in (None, sides, all_round):
            raise ResponsesError(
                f"A cell of a grid with {len(size)} axes has {sides} neighbours that share a side "
                f"and {all_round} with those that share a corner. Got: {neighbours!r}."
            )
        pairs = grid_pairs(tuple(size.tolist()), neighbours == all_round)
        return cls._build(names_of(int(size.prod()), items, "item"), pairs, None)

    @classmethod
    def nearest_neighbours(
        cls, features: Any, k: int, *, items: Sequence[Any] | None = None
    ) -> Graph:
        """Join every item to the k items nearest to it in features.

        An edge joins two items if either is among the k nearest (Euclidean) of the other, so an
        item may have more neighbours than k. Scale the features, or norm their rows, as the
        distance between them should mean.

        Parameters
        ----------
        features : array-like or sparse matrix, shape (items, features)
            Beyond a few features all pairs of items are looked at, a block at a time.
        k : int
            From 1 to the number of items less one.
        items : sequence, optional
            Names of the rows; by default a frame's index, else 0, 1, 2, …

        Raises
        ------
        ResponsesError
            Features that are no matrix of finite numbers, k out of range, a wrong number of names.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> bf.Graph.nearest_neighbours([[0.0], [1.0], [5.0]], k=1).edges.tolist()
        [[0, 1], [1, 2]]
        """
        if isinstance(features, pd.DataFrame):
            items = features.index if items is None else items
        table = _features(features)
        n_items = table.shape[0]
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 < k < n_items:
            raise ResponsesError(
                f"k must be a whole number from 1 to {n_items - 1}, one less than there are items. "
                f"Got: {k!r}."
            )
        names = names_of(n_items, items, "item")
        return cls._build(names, nearest_pairs(table, int(k)), None)

    @classmethod
    def _build(cls, items: NDArray[Any], pairs: NDArray[Any], weights: Any) -> Graph:
        """Check edges given by numbers, sort them and list every item's neighbours."""
        if len(items) == 0:
            raise ResponsesError("A graph must have at least one item. Got: no items.")
        weight = np.ones(len(pairs)) if weights is None else as_array(weights)
        if weight.shape != (len(pairs),) or weight.dtype.kind not in "biuf":
            raise ResponsesError(
                f"There must be one number for each of the {len(pairs)} edges, its weight. Got: "
                f"{weight.dtype} of shape {weight.shape}."
            )
        weight = weight.astype(np.float64)
        wrong = np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))
        if len(wrong):
            raise ResponsesError(
                "Weights of edges must be positive and finite: an edge says that labels tend to "
                f"agree, and no edge that it is not known. Got: {weight[wrong[0]]} for edge "
                f"{_pair(items, pairs[wrong[0]])} ({len(wrong)} such)."
            )
        loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(loops):
            raise ResponsesError(
                "An edge must join two different items, because an item always agrees with "
                f"itself. Got: {_pair(items, pairs[loops[0]])} ({len(loops)} such)."
            )
        low, high = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1)
        key = low * len(items) + high
        order = np.argsort(key)
        twice = np.flatnonzero(np.diff(key[order]) == 0)
        if len(twice):
            raise ResponsesError(
                "An edge must be given once, in either direction, else its weight is not known. "
                f"Got: {_pair(items, pairs[order[twice[0]]])} more than once ({len(twice)} "
                "repeats)."
            )
        edges = np.column_stack([low[order], high[order]]).astype(np.int32)
        return cls(items, edges, weight[order], *adjacency(edges, len(items)))

    # ---------------------------------------------------------------- what follows from the edges

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    @property
    def n_edges(self) -> int:
        """Number of edges, each counted once."""
        return len(self.edges)

    @property
    def degree(self) -> NDArray[np.int64]:
        """Number of neighbours of every item, shape (items,)."""
        return np.diff(self.start)

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """Weight of the edge to every neighbour, in the order of ``neighbour``."""
        return self.weights[self.edge]

    @cached_property
    def colour(self) -> NDArray[np.int32]:
        """A colour for every item such that no two neighbours share one, shape (items,).

        Greedy: at most one colour more than an item has neighbours; two on a grid of sides.
        Given the labels of all other colours, those of one colour are independent.
        """
        return greedy_colours(self.start, self.neighbour)

    @cached_property
    def colour_order(self) -> NDArray[np.int32]:
        """The items of colour 0, then those of colour 1, and so on, shape (items,)."""
        return np.argsort(self.colour, kind="stable").astype(np.int32)

    @cached_property
    def colour_start(self) -> NDArray[np.int64]:
        """Colour ``c`` holds ``colour_order[colour_start[c]:colour_start[c + 1]]``."""
        return np.concatenate([[0], np.cumsum(np.bincount(self.colour))])

    @cached_property
    def component(self) -> NDArray[np.int32]:
        """Number of the connected component of every item, shape (items,)."""
        return csgraph.connected_components(self.to_scipy(), directed=False)[1]

    @property
    def n_components(self) -> int:
        """Number of connected components; an item without edges is one by itself."""
        return int(self.component.max()) + 1

    @property
    def is_forest(self) -> bool:
        """Whether no edges form a circle, so that labels can be summed out exactly."""
        return self.n_edges == self.n_items - self.n_components

    def to_scipy(self) -> sparse.csr_array:
        """Return the symmetric sparse matrix of weights, shape (items, items)."""
        shape = (self.n_items, self.n_items)
        return sparse.csr_array((self.weight, self.neighbour, self.start), shape=shape)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per edge: columns item, neighbour, weight."""
        first, second = self.items[self.edges.T]
        return pd.DataFrame({"item": first, "neighbour": second, "weight": self.weights})

    # ---------------------------------------------------------------- beside a table of responses

    def places(self, responses: Responses) -> NDArray[np.int64]:
        """Return where every item stands in a table of responses, shape (items,).

        Raises
        ------
        ResponsesError
            The two do not have the same items.
        """
        return item_places(self.items, responses, "Items of a graph", "the graph (items=…)")

    def ordered(self, responses: Responses) -> Graph:
        """Return this graph with its items in the order of a table of responses.

        Raises
        ------
        ResponsesError
            The two do not have the same items.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> responses = bf.Responses.from_matrix([[0], [1], [0]], items=["c", "a", "b"])
        >>> bf.Graph.from_edges([("a", "b"), ("b", "c")]).ordered(responses).edges.tolist()
        [[0, 2], [1, 2]]
        """
        place = self.places(responses)
        if np.array_equal(place, np.arange(self.n_items)):
            return self
        return self._build(responses.items, place[self.edges], self.weights)

    # ---------------------------------------------------------------- how it shows itself

    def __repr__(self) -> str:
        return as_text("Graph", *summarise_graph(self))

    def _repr_html_(self) -> str:
        return as_html("Graph", *summarise_graph(self))


def as_graph(given: Any) -> Graph:
    """Return a graph, read from a sparse matrix or from networkx if it is one of these.

    Raises
    ------
    ModelError
        Anything else.
    """
    if sparse.issparse(given):
        return Graph.from_scipy(given)
    if hasattr(given, "is_directed"):
        return Graph.from_networkx(given)
    require_kind("graph=", given, Graph)
    return given


def _ends(edges: Any) -> list[Any]:
    """Return the two columns of names that edges have."""
    if sparse.issparse(edges) or hasattr(edges, "is_directed"):
        raise ResponsesError(
            "Edges must be a list or a table of pairs; a matrix is read by from_scipy, a graph of "
            f"networkx by from_networkx. Got: {type(edges).__name__}."
        )
    columns = column_names(edges)
    if columns is not None and len(columns) == 2:
        whole = isinstance(edges, pd.DataFrame)  # in which both may have one name
        return [as_array(edges.iloc[:, n] if whole else edges[columns[n]]) for n in (0, 1)]
    pairs = as_array(edges if hasattr(edges, "__array__") else list(edges))
    if columns is None and len(pairs) == 0:
        return [pairs.ravel(), pairs.ravel()]
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        what = f"{len(columns or pairs[0])} columns" if pairs.ndim == 2 else f"shape {pairs.shape}"
        raise ResponsesError(f"Edges must have two columns, one for each end. Got: {what}.")
    return [narrow(end) if end.dtype == object else end for end in pairs.T]


def _features(given: Any) -> Any:
    """Return features as floats, dense or sparse, that keep the distances between the items."""
    dense = not sparse.issparse(given)
    if dense and (columns := column_names(given)) is not None:
        given = np.asarray(given[columns])
    values = as_array(given) if dense else sparse.csr_array(given)
    kind, told = values.dtype.kind, f"{values.dtype} of shape {values.shape}"
    if kind in "iu" and dense and values.ndim == 2 and values.size:
        # whole numbers of 64 bits lose digits as floats: far from zero, not their differences
        wide = values.astype(np.uint64 if kind == "u" else np.int64)
        values = (wide - wide.min(axis=0)).astype(np.uint64)
    table = values.astype(np.float64) if kind in "biuf" else np.array(np.nan)
    entries = table if dense else table.data
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(entries).all():
        missing = ", or missing values in it" if kind in "biuf" else ""
        raise ResponsesError(
            "Features must be a matrix of finite numbers with one row per item, else there is "
            f"no distance. Got: {told}{missing}."
        )
    return table


def _pair(items: NDArray[Any], pair: NDArray[Any]) -> str:
    return shown(items[pair])
