"""Graphs of items whose labels tend to agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.describing import as_text, summarise_graph
from bayesfuse.data.names import encode, names_of, unique_names
from bayesfuse.data.neighbours import (
    adjacency,
    greedy_colours,
    grid_pairs,
    nearest_pairs,
    read_ends,
    read_features,
    read_weights,
    sorted_edges,
)
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Structured
from bayesfuse.errors import ResponsesError, require_kind

__all__ = ["Graph"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Structured):
    """Items with undirected, weighted edges: pixels, citing documents, neighbours in features.

    Items are matched to a table of responses by name, in any order, and may have no edges. Edges
    that are duplicate, join an item to itself or have a weight that is not positive, and names that
    are missing, unknown or of mixed kinds, raise :class:`bayesfuse.errors.ResponsesError`.

    Attributes
    ----------
    items : ndarray, shape (items,)
        Unique names of the items.
    edges : ndarray of int32, shape (edges, 2)
        Indices of the two items of every edge, the lower one first; sorted and unique.
    weights : ndarray of float64, shape (edges,)
        Relative strength of every edge; positive.
    start : ndarray of int64, shape (items + 1,)
        Item ``n`` has the neighbours ``neighbour[start[n]:start[n + 1]]``.
    neighbour, edge : ndarray of int32, shape (2 * edges,)
        Index of every neighbour, ascending within an item, and of the edge to it.

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
    words = "Items of a graph", "the graph (items=…)"

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
            Positive; default one.
        items : sequence, optional
            All names, in order, to keep items without edges; default the sorted names in the edges.
        """
        names = None if items is None else unique_names(items, "item")
        ends = read_ends(edges)
        if names is None:
            codes = [encode(end, None, "item", "edges")[1].tolist() for end in ends]
            _, names = encode(as_array(codes[0] + codes[1]), None, "item", "edges")
        codes = [encode(end, names, "item", "edges")[0] for end in ends]
        return cls._build(names, np.column_stack(codes), weights)

    @classmethod
    def from_scipy(cls, matrix: Any, *, items: Sequence[Any] | None = None) -> Graph:
        """Read a sparse matrix of weights.

        Parameters
        ----------
        matrix : sparse matrix or array, shape (items, items)
            Symmetric, or with one entry per edge on either side of the diagonal; zeros are ignored.
        items : sequence, optional
            Names of the rows; by default 0, 1, 2, …
        """
        return cls._build(*read_weights(matrix, items))

    @classmethod
    def from_networkx(
        cls, graph: Any, *, weight: str = "weight", items: Sequence[Any] | None = None
    ) -> Graph:
        """Read a networkx graph.

        Parameters
        ----------
        graph : networkx.Graph
        weight : str
            Name of the edge attribute that holds the weight; one where it is missing.
        items : sequence, optional
            All names, in order; by default the nodes.
        """
        if not hasattr(graph, "is_directed") or graph.is_directed():
            raise ResponsesError(
                "graph must be an undirected networkx graph, because agreement is symmetric: call "
                ".to_undirected(); from_scipy reads a matrix and from_edges pairs. Got: "
                f"{type(graph).__name__}."
            )
        edges = list(graph.edges(data=weight, default=1.0))
        names = list(graph.nodes) if items is None else items
        pairs, weights = [edge[:2] for edge in edges], [edge[2] for edge in edges]
        return cls.from_edges(pairs, weights, items=names)

    @classmethod
    def grid(
        cls,
        shape: Sequence[int],
        *,
        neighbours: int | None = None,
        items: Sequence[Any] | None = None,
    ) -> Graph:
        """Join neighbouring cells of an image or a volume.

        Parameters
        ----------
        shape : sequence of int
        neighbours : int, optional
            In two dimensions 4, cells that share a side (default), or 8, also cells that share a
            corner; in three dimensions 6 or 26.
        items : sequence, optional
            Names of the cells in C order, as in ``image.ravel()``; by default 0, 1, 2, …

        Examples
        --------
        >>> import bayesfuse as bf
        >>> bf.Graph.grid((2, 2), neighbours=8).edges.tolist()
        [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
        """
        size = np.asarray(shape)
        if size.ndim != 1 or size.size == 0 or size.dtype.kind not in "iu" or size.min() < 1:
            raise ResponsesError(
                f"shape must be positive whole numbers, one per axis. Got: {shape!r}."
            )
        sides, all_round = 2 * len(size), 3 ** len(size) - 1
        if neighbours not in (None, sides, all_round):
            raise ResponsesError(
                f"On a grid with {len(size)} axes, neighbours must be {sides} (cells that share a "
                f"side) or {all_round} (a side or a corner). Got: {neighbours!r}."
            )
        pairs = grid_pairs(tuple(size.tolist()), neighbours == all_round)
        return cls._build(names_of(int(size.prod()), items, "item"), pairs, None)

    @classmethod
    def nearest_neighbours(
        cls, features: Any, k: int, *, items: Sequence[Any] | None = None
    ) -> Graph:
        """Join every two items of which either is among the k nearest neighbours of the other.

        Distances are Euclidean. Scale the features, or normalise their rows, first.

        Parameters
        ----------
        features : array-like, shape (items, features)
            With more than a few features all pairs of items are compared.
        k : int
            From 1 to the number of items minus 1.
        items : sequence, optional
            Names of the rows; by default a frame's index, else 0, 1, 2, …
        """
        if isinstance(features, pd.DataFrame):
            items = features.index if items is None else items
        table = read_features(features)
        n_items = len(table)
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 0 < k < n_items:
            raise ResponsesError(
                f"k must be a whole number from 1 to {n_items - 1}, the number of other items. "
                f"Got: {k!r}."
            )
        names = names_of(n_items, items, "item")
        return cls._build(names, nearest_pairs(table, int(k)), None)

    @classmethod
    def _build(cls, items: NDArray[Any], pairs: NDArray[Any], weights: Any) -> Graph:
        """Build from edges between item indices."""
        edges, weights = sorted_edges(items, pairs, weights)
        return cls(items, edges, weights, *adjacency(edges, len(items)))

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
        """Greedy colouring, shape (items,): neighbours have different colours."""
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
        """Index of the connected component of every item, shape (items,)."""
        return scipy.sparse.csgraph.connected_components(self.to_scipy(), directed=False)[1]

    @property
    def is_forest(self) -> bool:
        """Whether the graph has no cycles, so that labels can be summed out exactly."""
        return bool(self.n_edges == self.n_items - 1 - self.component.max())

    def bethe_coupling(self, n_classes: int) -> float:
        """Return the critical coupling of labels on a tree with the degrees of this graph (Bethe).

        There (e^β − 1) / (e^β + K − 1), the correlation of neighbours, times the mean number of
        further neighbours of a neighbour is one; infinite if that number is at most one.

        References
        ----------
        Dorogovtsev, Goltsev & Mendes (2004), European Physical Journal B 38, 177–182.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> round(bf.Graph.grid((20, 20)).bethe_coupling(2), 2)
        0.73
        """
        degree = self.degree.astype(np.float64)
        branching = (degree * (degree - 1)).sum() / max(degree.sum(), 1.0)
        if branching <= 1:
            return math.inf
        return float(math.log1p(n_classes / (branching - 1)) / self.weights.mean())

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the symmetric sparse matrix of weights, shape (items, items)."""
        # SciPy before 1.18 finds spanning trees with 32-bit indices only
        fits = max(self.n_items, len(self.neighbour)) <= np.iinfo(np.int32).max
        rows = (
            index.astype(np.int32 if fits else np.int64) for index in (self.neighbour, self.start)
        )
        return scipy.sparse.csr_array((self.weight, *rows), shape=(self.n_items, self.n_items))

    def ordered(self, responses: Responses) -> Graph:
        """Return this graph with the items in the order of a table of the same items."""
        place = self.places(responses)
        if np.array_equal(place, np.arange(self.n_items)):
            return self
        return self._build(responses.items, place[self.edges], self.weights)

    def __repr__(self) -> str:
        return as_text("Graph", *summarise_graph(self))


def as_graph(graph: Any) -> Graph:
    """Return a :class:`Graph` from a graph, a sparse matrix or a networkx graph."""
    if scipy.sparse.issparse(graph):
        return Graph.from_scipy(graph)
    if hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph)
    return require_kind("graph=", graph, Graph)
