"""The long table of responses: which rater gave which label to which item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import column, shown
from bayesfuse.data.describing import as_html, as_text, summarise
from bayesfuse.data.reading import UNDECLARED, encode, read_counts, read_matrix, smallest_integer
from bayesfuse.errors import ResponsesError

__all__ = ["Responses"]


@dataclass(frozen=True, eq=False, repr=False)
class Responses:
    """Responses of imperfect raters to items, with the names their owner gave them.

    Build one with :meth:`from_long`, :meth:`from_matrix` or :meth:`from_counts`. The rows are kept
    sorted by item, rater and label, so the order in which they were given never matters; a rater
    who answers an item twice is counted twice.

    Attributes
    ----------
    items, raters, classes : ndarray
        Names, each unique. Every array over items, raters or classes follows their order.
    start : ndarray of uint32, shape (items + 1,)
        The responses to item ``n`` are the rows ``start[n]:start[n + 1]``.
    cell : ndarray of uint32, shape (responses,)
        ``rater * n_classes + label`` of every row: rater and label in one column, because that
        is the row of a ``(rater × label, class)`` table which the compiled kernels look up.
    multiplicity : ndarray of int64, shape (items,)
        How many identical items each item stands for; all ones but for :meth:`from_counts`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> table = {"film": ["A", "A", "B", "B"], "critic": ["x", "y", "x", "y"],
    ...          "verdict": ["good", "good", "bad", "good"]}
    >>> bf.Responses.from_long(table, item="film", rater="critic", label="verdict")
    Responses: 4 responses to 2 items by 2 raters, 2 classes
      classes              bad (1), good (3)
      responses per item   2
      responses per rater  2
      agreement            0.50 of the pairs of responses to one item
    """

    items: NDArray[Any]
    raters: NDArray[Any]
    classes: NDArray[Any]
    start: NDArray[np.uint32]
    cell: NDArray[np.uint32]
    multiplicity: NDArray[np.int64] = field()

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_long(
        cls,
        frame: Any,
        *,
        item: str = "item",
        rater: str = "rater",
        label: str = "label",
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Responses:
        """Read a long table with one row per response.

        Parameters
        ----------
        frame : dataframe or mapping of arrays
            Anything that gives a column by name: pandas, polars, Arrow, xarray, a dict of arrays.
        item, rater, label : str
            Names of the columns.
        items, raters, classes : sequence, optional
            All names, in the order wanted. Declare them to keep items or raters nobody mentions
            and to fix the order of the classes; the last class is the positive one of a pair.
            By default the sorted names found in the table (the categories of a categorical).

        Returns
        -------
        Responses

        Raises
        ------
        ResponsesError
            Unknown columns, no rows, missing values, names that are not declared or declared
            twice, names that are neither all text nor all numbers nor all times, fewer than two
            classes.
        """
        columns = [column(frame, name) for name in (item, rater, label)]
        sizes = [len(column) for column in columns]
        if len(set(sizes)) > 1:
            raise ResponsesError(
                f"The columns of a table must have the same length. Got: {item!r} with {sizes[0]}, "
                f"{rater!r} with {sizes[1]}, {label!r} with {sizes[2]} rows."
            )
        if sizes[0] == 0:
            raise ResponsesError(
                f"A table of responses must have at least one row. Got: no rows in {item!r}, "
                f"{rater!r}, {label!r}."
            )
        # One column after the other: their codes are the largest arrays on the way.
        code, item_names = encode(columns[0], items, "item", item)
        key = code.astype(np.int64)
        code, rater_names = encode(columns[1], raters, "rater", rater)
        key *= len(rater_names)
        key += code
        code, class_names = encode(columns[2], classes, "class", label)
        key *= len(class_names)
        key += code
        del columns, code
        return cls._from_key(key, item_names, rater_names, class_names, None)

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        *,
        missing: Any = UNDECLARED,
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Responses:
        """Read a matrix with one row per item and one column per rater.

        Parameters
        ----------
        matrix : array-like, shape (items, raters)
            Labels. A frame gives its index and columns as names, a DataArray its coordinates.
        missing : scalar or collection, default -1
            The entries that mean "did not answer"; NaN, None and masked ones always mean it too.
            By default −1 does, unless it is a declared class.
        items, raters : sequence, optional
            Names of rows and columns; by default the matrix's own, else 0, 1, 2, …
        classes : sequence, optional
            The possible labels, in order; by default the sorted labels found (the categories of
            a frame whose columns have the same).

        Returns
        -------
        Responses

        Raises
        ------
        ResponsesError
            Not two-dimensional, no responses, floats that are not labels, wrong numbers of names.
        """
        return cls._from_rows("matrix", matrix, None, missing, items, raters, classes)

    @classmethod
    def from_counts(
        cls,
        patterns: Mapping[Any, int] | ArrayLike,
        counts: ArrayLike | None = None,
        *,
        missing: Any = UNDECLARED,
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Responses:
        """Read response patterns with how often each of them occurred.

        Parameters
        ----------
        patterns : mapping or array-like, shape (patterns, raters)
            One row of labels per pattern, or a mapping from patterns (tuples of labels, or
            strings with one character per rater) to counts.
        counts : array-like of int, shape (patterns,), optional
            How many items answered with each pattern; not with a mapping.
        missing, items, raters, classes
            As in :meth:`from_matrix`; an item is a pattern, those of a mapping by default named
            by their labels ("01", or "1,11" where one is longer).

        Returns
        -------
        Responses
            With one item per pattern and its count as ``multiplicity``.

        Raises
        ------
        ResponsesError
            As :meth:`from_matrix`; counts that are not non-negative integers, one per pattern.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> table = bf.Responses.from_counts({"00": 40, "01": 7, "11": 13})
        >>> table.n_items, int(table.multiplicity.sum()), table.classes.tolist()
        (3, 60, ['0', '1'])
        """
        patterns, counts, items = read_counts(patterns, counts, items)
        return cls._from_rows("patterns", patterns, counts, missing, items, raters, classes)

    @classmethod
    def _from_rows(
        cls,
        what: str,
        matrix: Any,
        counts: Any,
        missing: Any,
        items: Any,
        raters: Any,
        classes: Any,
    ) -> Responses:
        """Read a matrix (items, raters), each of whose rows occurred so often, or once."""
        answers, answered, item_names, rater_names, classes = read_matrix(
            matrix, missing, items, raters, classes
        )
        label, class_names = encode(answers, classes, "class", what)
        item, rater = np.nonzero(answered)
        return cls._build(item, rater, label, item_names, rater_names, class_names, counts)

    @classmethod
    def _build(
        cls,
        item: NDArray[Any],
        rater: NDArray[Any],
        label: NDArray[Any],
        items: NDArray[Any],
        raters: NDArray[Any],
        classes: NDArray[Any],
        multiplicity: NDArray[Any] | None,
    ) -> Responses:
        key = item.astype(np.int64)
        key *= len(raters)
        key += rater
        key *= len(classes)
        key += label
        return cls._from_key(key, items, raters, classes, multiplicity)

    @classmethod
    def _from_key(
        cls,
        key: NDArray[np.int64],
        items: NDArray[Any],
        raters: NDArray[Any],
        classes: NDArray[Any],
        multiplicity: NDArray[Any] | None,
    ) -> Responses:
        """Build from one number per row, ``(item * raters + rater) * classes + label``.

        Sorting it in place needs no permutation, and makes the table the same whatever the order
        of the rows.
        """
        if len(classes) < 2:
            raise ResponsesError(
                "There must be at least two classes, else there is nothing to find out; declare "
                f"classes=… if the others were never used. Got: {shown(classes)}."
            )
        cells = len(raters) * len(classes)
        if len(key) >= 2**32 or cells >= 2**32:
            raise ResponsesError(
                "A table holds fewer than 2³² responses and rater × class cells, because both are "
                f"indexed by 32 bits. Got: {len(key)} responses, {cells} cells."
            )
        key.sort()
        start = np.searchsorted(key, np.arange(len(items) + 1, dtype=np.int64) * cells)
        key %= cells
        if multiplicity is None:
            multiplicity = np.ones(len(items), dtype=np.int64)
        return cls(
            items,
            raters,
            classes,
            start.astype(np.uint32),
            key.astype(np.uint32),
            multiplicity.astype(np.int64),
        )

    # ---------------------------------------------------------------- sizes and columns

    @property
    def n_items(self) -> int:
        """Number of items (patterns, for a table of counts)."""
        return len(self.items)

    @property
    def n_raters(self) -> int:
        """Number of raters."""
        return len(self.raters)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def n_responses(self) -> int:
        """Number of rows."""
        return len(self.cell)

    @property
    def per_item(self) -> NDArray[np.int64]:
        """Number of responses to every item, shape (items,)."""
        return self.start[1:].astype(np.int64) - self.start[:-1]

    @property
    def per_rater(self) -> NDArray[np.int64]:
        """Number of responses by every rater, copies of an item included, shape (raters,)."""
        weight = None if self.is_plain else np.repeat(self.multiplicity, self.per_item)
        return np.bincount(self.rater, weight, minlength=self.n_raters).astype(np.int64)

    @property
    def is_plain(self) -> bool:
        """Whether every item stands for itself only."""
        return bool(np.all(self.multiplicity == 1))

    @property
    def item(self) -> NDArray[np.int64]:
        """Item index of every row, shape (responses,)."""
        return np.repeat(np.arange(self.n_items), self.per_item)

    @property
    def rater(self) -> NDArray[np.int64]:
        """Rater index of every row, shape (responses,)."""
        return (self.cell // self.n_classes).astype(np.int64)

    @property
    def label(self) -> NDArray[np.int64]:
        """Label index of every row, shape (responses,)."""
        return (self.cell % self.n_classes).astype(np.int64)

    @cached_property
    def small_columns(self) -> tuple[NDArray[np.signedinteger], NDArray[np.signedinteger]]:
        """Item and rater of every row in the smallest integers that hold them.

        Kept, because a model and its results all refer to them.
        """
        item = np.arange(self.n_items, dtype=smallest_integer(self.n_items))
        rater = self.cell // np.uint32(self.n_classes)
        return np.repeat(item, self.per_item), rater.astype(smallest_integer(self.n_raters))

    def votes(self) -> NDArray[np.int64]:
        """Count the responses of every item by label, shape (items, classes)."""
        flat = self.item
        flat *= self.n_classes  # in place: these are the largest arrays of a big table
        flat += self.label
        counts = np.bincount(flat, minlength=self.n_items * self.n_classes)
        return counts.reshape(self.n_items, self.n_classes)

    def agreement(self) -> float:
        """Share of the pairs of responses to one item that give the same label (NaN if none)."""
        votes = self.votes()
        size = votes.sum(axis=1)
        weight = self.multiplicity.astype(np.float64)  # whose products with counts may be huge
        pairs = (weight * size * (size - 1)).sum()
        same = (weight * (votes * (votes - 1)).sum(axis=1)).sum()
        return float(same / pairs) if pairs else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Return the long table: columns item, rater, label (and count, for a table of counts)."""
        frame = pd.DataFrame(
            {
                "item": self.items[self.item],
                "rater": self.raters[self.rater],
                "label": self.classes[self.label],
            }
        )
        if not self.is_plain:
            frame["count"] = self.multiplicity[self.item]
        return frame

    def relabelled(self, label: NDArray[np.int64]) -> Responses:
        """Return the same table with other labels, given as numbers row by row.

        Parameters
        ----------
        label : ndarray of int, shape (responses,)
            In the order of :attr:`label`.

        Raises
        ------
        ResponsesError
            Not as many numbers of classes as there are rows.
        """
        given = np.asarray(label)
        if (
            given.shape != self.cell.shape
            or given.dtype.kind not in "iu"
            or not np.all((given >= 0) & (given < self.n_classes))
        ):
            raise ResponsesError(
                f"Labels of a table must be numbers of classes, 0 to {self.n_classes - 1}, for its "
                f"{self.n_responses} rows. Got: {shown(given.ravel())} of shape {given.shape}."
            )
        return self._build(
            self.item,
            self.rater,
            given,
            self.items,
            self.raters,
            self.classes,
            self.multiplicity,
        )

    # ---------------------------------------------------------------- identical items

    def merged(self, key: NDArray[np.int64] | None = None) -> tuple[Responses, NDArray[np.int64]]:
        """Merge items with the same responses into one with their summed multiplicity.

        Parameters
        ----------
        key : ndarray of int, shape (items,), optional
            Items are merged only if they agree in this too (a known truth, say).

        Returns
        -------
        responses : Responses
            One item per different pattern, named by the first item that shows it.
        inverse : ndarray of int64, shape (items,)
            Position of every item's pattern in ``responses``.
        """
        # A sum of random 64-bit words does not depend on the order of the rows and collides for
        # one pair in 2⁶⁴; two of them make exact comparison superfluous at any size that fits.
        words = np.random.default_rng(0).integers(
            0, 2**64, size=(2, self.n_raters * self.n_classes), dtype=np.uint64
        )
        marks = np.empty((self.n_items, 3), dtype=np.uint64)
        for mark, word in zip(marks.T[:2], words, strict=True):
            total = np.concatenate([[np.uint64(0)], np.cumsum(word[self.cell], dtype=np.uint64)])
            mark[:] = total[self.start[1:]] - total[self.start[:-1]]
        marks[:, 2] = 0 if key is None else np.asarray(key).astype(np.uint64)
        rows = np.ascontiguousarray(marks).view([("a", "u8"), ("b", "u8"), ("c", "u8")]).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        order = np.argsort(first)  # patterns in the order in which the items show them
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        inverse = rank[inverse]
        size = np.bincount(inverse, self.multiplicity, minlength=len(order)).astype(np.int64)
        return self._take(first[order], size), inverse

    def condensed(
        self, key: NDArray[np.int64] | None = None
    ) -> tuple[Responses, NDArray[np.int64]]:
        """Return :meth:`merged` if that at least halves the items, judged by a sample first.

        Else the table is returned as it is.
        """
        unchanged = self, np.arange(self.n_items)
        sample = min(self.n_items, 10_000)
        few, _ = self.head(sample).merged(None if key is None else key[:sample])
        if few.n_items > sample / 2:
            return unchanged
        table, inverse = self.merged(key)
        return (table, inverse) if table.n_items <= self.n_items / 2 else unchanged

    def head(self, n_items: int) -> Responses:
        """Return the first items with their responses."""
        rows = slice(0, int(self.start[n_items]))
        return Responses(
            self.items[:n_items],
            self.raters,
            self.classes,
            self.start[: n_items + 1],
            self.cell[rows],
            self.multiplicity[:n_items],
        )

    def take(self, items: NDArray[np.int64]) -> Responses:
        """Return some items, given by number and in that order, with their responses."""
        return self._take(items, self.multiplicity[items])

    def expand(self) -> Responses:
        """Write a table of counts out, one item per copy, named ``pattern/1`` and so on."""
        if self.is_plain:
            return self
        index = np.repeat(np.arange(self.n_items), self.multiplicity)
        names = [
            f"{name}/{copy + 1}"
            for name, count in zip(self.items, self.multiplicity, strict=True)
            for copy in range(count)
        ]
        return self._take(index, np.ones(len(index), dtype=np.int64), np.array(names))

    def _take(
        self, index: NDArray[Any], multiplicity: NDArray[np.int64], names: Any = None
    ) -> Responses:
        size = self.per_item[index]
        start = np.concatenate([[0], np.cumsum(size)])
        # row = where the item's rows began + how far this row is into its item
        row = np.repeat(self.start[index].astype(np.int64) - start[:-1], size)
        row += np.arange(start[-1])
        items = self.items[index] if names is None else names
        return Responses(
            items,
            self.raters,
            self.classes,
            start.astype(np.uint32),
            self.cell[row],
            multiplicity,
        )

    # ---------------------------------------------------------------- how it shows itself

    def __repr__(self) -> str:
        return as_text("Responses", *summarise(self))

    def _repr_html_(self) -> str:
        return as_html("Responses", *summarise(self))
