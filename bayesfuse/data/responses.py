"""The long table of responses: labels that raters gave to items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.arrays import as_array, column_names, present, shown
from bayesfuse.data.class_names import respelled, with_class_names, with_spellings
from bayesfuse.data.column_roles import assign_roles
from bayesfuse.data.describing import as_text, summarise
from bayesfuse.data.fingerprint import item_patterns
from bayesfuse.data.label_sets import ReadsLabelSets
from bayesfuse.data.names import smallest_integer
from bayesfuse.data.partial_answers import ReadsPartialAnswers
from bayesfuse.data.partitions import ReadsPartitions
from bayesfuse.data.reading import UNDECLARED, read_counts, read_long, read_matrix
from bayesfuse.data.scores import ReadsScores
from bayesfuse.data.silence import ByItem, Silence, rows_of
from bayesfuse.data.statements import KnowsStatements, Statements, table_of, table_of_codes
from bayesfuse.data.vote_counts import ReadsVotes
from bayesfuse.errors import ModelError, ResponsesError, require_kind

__all__ = ["Responses"]


@dataclass(frozen=True, eq=False, repr=False)
class Responses(
    ByItem,
    KnowsStatements,
    ReadsPartitions,
    ReadsLabelSets,
    ReadsVotes,
    ReadsPartialAnswers,
    ReadsScores,
):
    """Responses of imperfect raters to items, with the user's names.

    Rows are sorted by item, rater and label. Repeated responses of a rater to an item all count.
    Tables with missing columns or values, with names that are undeclared, duplicate or of mixed
    kinds, or with fewer than two classes raise :class:`bayesfuse.errors.ResponsesError`.

    Attributes
    ----------
    items, raters, classes : ndarray
        Unique names. Every array over items, raters or classes is in this order.
    start : ndarray of uint32, shape (items + 1,)
        Item ``n`` has the rows ``start[n]:start[n + 1]``.
    cell : ndarray of uint32, shape (responses,)
        ``rater * n_classes + label`` of every row, an index into tables (rater × label, class).
    multiplicity : ndarray of int64, shape (items,)
        Number of identical items that each item represents, of tables of counts.
    silent : Silence, optional
        Which sources were silent on which items (``abstain=``, :meth:`completed`).
    ordered : bool
        Whether the classes are grades, in increasing order.
    stated : Statements, optional
        Probabilities that sources stated, by :meth:`from_probabilities`.
    normalised : bool
        Whether spellings of a class are matched, also in known labels (``normalise=True``).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.Responses.from_matrix([["good", "good"], ["bad", "good"]], raters=["x", "y"])
    Responses: 4 responses to 2 items by 2 raters, 2 classes
      classes              bad (1), good (3)
      positive class       good (the last one)
      responses per item   2
      responses per rater  2
      agreement            0.50 of the pairs of responses to one item
    """

    items: NDArray[Any]
    raters: NDArray[Any]
    classes: NDArray[Any]
    start: NDArray[np.uint32]
    cell: NDArray[np.uint32]
    multiplicity: NDArray[np.int64]
    silent: Silence | None = None
    ordered: bool = False
    stated: Statements | None = None
    normalised: bool = False

    @classmethod
    def from_long(
        cls,
        frame: Any,
        *,
        item: str = "item",
        rater: str = "rater",
        label: str = "label",
        missing: Literal["error", "drop"] = "error",
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        abstain: Any = None,
        ordered: bool | None = None,
        positive: Any = None,
        normalise: bool = False,
    ) -> Responses:
        """Read a long table with one row per response.

        Parameters
        ----------
        frame : dataframe or mapping of arrays
            Of pandas, polars, Arrow or xarray, or a dict of arrays. Rows with labels such as "?",
            "skip" and "abstain" are left out with a warning, unless declared, as in ``bf.fuse``.
        item, rater, label : str
            Names of the columns. By default also other usual names, such as task or question_id;
            worker, annotator or judge; answer, choice or verdict, in any case.
        missing : {"error", "drop"}, default "error"
            What to do with rows without a label: NaN, None or, undeclared, "" and "NA".
        items, raters, classes : sequence, optional
            All names, in order. Declare them to keep items or raters without responses and to fix
            the order of the classes; of two classes the last one is positive. By default the sorted
            names (categories), except for two of which one is certainly positive: "+" and "-".
        abstain : scalar, optional
            The label of a source that was given the item and did not respond: not a class, but kept
            in ``silent``. Pairs without a row stay unknown.
        ordered : bool, optional
            Whether the classes are grades, the lowest first. Default for increasing numbers and
            ordered categoricals; text needs classes= to define the order.
        positive : scalar, optional
            The positive one of two classes, to which sensitivities refer; it becomes the last.
        normalise : bool, default False
            Whether names that differ only in case, spaces or Unicode form are one class, spelt as
            in ``classes``, else most responses, of equals in lower case. Known labels and new
            tables read so match in any spelling. If False, names differ, with a warning.
        """
        frame = present(frame)
        names, wanted = column_names(frame), (item, rater, label)
        columns = wanted if names is None else assign_roles(frame, names, wanted, is_wide=False)
        spelt = with_spellings(as_array(frame[columns[2]]), classes) if normalise else classes
        table = from_key(*read_long(frame, columns, (items, raters, spelt), abstain, missing))
        dtypes = [getattr(frame[columns[2]], "dtype", None)]
        return with_class_names(table, dtypes, classes, ordered, positive, normalise, (abstain,))

    @classmethod
    def from_matrix(
        cls,
        matrix: ArrayLike,
        *,
        missing: Any = UNDECLARED,
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        abstain: Any = None,
        ordered: bool | None = None,
        positive: Any = None,
        normalise: bool = False,
    ) -> Responses:
        """Read a matrix with one row per item and one column per rater.

        Parameters
        ----------
        matrix : array-like, shape (items, raters)
            Labels, with names from the index and columns of a frame or from coordinates. Unless
            ``classes`` are given, columns of a frame must share labels, which names of items and
            long tables do not.
        missing : scalar or collection, default -1
            Entries that mean "no response", besides NaN, None, empty text and masked entries. −1
            and empty text do not if they are declared classes or mean silence. By default also
            texts such as "NA", "?" and "skipped", as in :func:`bayesfuse.fuse`, unless they are
            declared classes or ``abstain``.
        items, raters : sequence, optional
            Names of rows and columns; by default as in the matrix, or 0, 1, 2, …
        classes, abstain, ordered, positive, normalise : optional
            As in :meth:`from_long`; silence is −1 in the matrices of labelling functions.
        """
        names = {"items": items, "raters": raters, "classes": classes, "abstain": abstain}
        spelling = {"ordered": ordered, "positive": positive, "normalise": normalise}
        return _of_matrix(matrix, None, missing=missing, **names, **spelling)

    @classmethod
    def from_counts(
        cls,
        patterns: Mapping[Any, int] | ArrayLike,
        counts: ArrayLike | None = None,
        *,
        items: Sequence[Any] | None = None,
        **settings: Any,
    ) -> Responses:
        """Read response patterns and their counts.

        Parameters
        ----------
        patterns : mapping or array-like, shape (patterns, raters)
            One row of labels per pattern, or a mapping from patterns (tuples of labels, or
            strings with one character per rater) to counts.
        counts : array-like of int, shape (patterns,), optional
            Number of items with each pattern, as ``multiplicity``; not with a mapping.
        items, **settings
            As in :meth:`from_matrix`. Items are patterns; patterns of a mapping are named by their
            labels by default ("01", or "1,11" if a label has several characters).

        Examples
        --------
        >>> import bayesfuse as bf
        >>> table = bf.Responses.from_counts({"00": 40, "01": 7, "11": 13})
        >>> table.n_items, int(table.multiplicity.sum()), table.classes.tolist()
        (3, 60, ['0', '1'])
        """
        matrix, counts, names = read_counts(patterns, counts, items)
        return _of_matrix(matrix, counts.astype(np.int64), items=names, **settings)

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
    def per_rater(self) -> NDArray[np.int64]:
        """Number of responses by every rater, counted with multiplicity, shape (raters,)."""
        weight = None if self.is_unweighted else np.repeat(self.multiplicity, self.per_item)
        return np.bincount(self.rater, weight, minlength=self.n_raters).astype(np.int64)

    @property
    def is_unweighted(self) -> bool:
        """Whether all multiplicities are one."""
        return bool(np.all(self.multiplicity == 1))

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
        """Item and rater index of every row in the smallest integer type, kept."""
        item = np.arange(self.n_items, dtype=smallest_integer(self.n_items))
        rater = self.cell // np.uint32(self.n_classes)
        return np.repeat(item, self.per_item), rater.astype(smallest_integer(self.n_raters))

    def completed(self) -> Responses:
        """Return the table as one in which every source was applied to every item.

        A source without a response to an item was then silent there, which is informative about
        the item. Declare with ``raters=`` sources that may be silent on all items.
        """
        return replace(self, silent=Silence())

    def without_silence(self) -> Responses:
        """Return the table without information about silence, as most models need it."""
        return replace(self, silent=None)

    def votes(self) -> NDArray[Any]:
        """Count the responses of every item by label, shape (items, classes), statements added."""
        flat = self.item
        flat *= self.n_classes  # in place, to save memory
        flat += self.label
        counts = np.bincount(flat, minlength=self.n_items * self.n_classes)
        votes = counts.reshape(self.n_items, self.n_classes)
        return votes if self.stated is None else votes + self.stated.votes()

    def agreement(self) -> float:
        """Share of the pairs of responses to one item that give the same label (NaN if none)."""
        votes = self.without_statements().votes()
        size, weight = votes.sum(axis=1), self.multiplicity.astype(np.float64)
        pairs = (weight * size * (size - 1)).sum()  # as floats: they may overflow integers
        same = (weight * (votes * (votes - 1)).sum(axis=1)).sum()
        return float(same / pairs) if pairs else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Return columns item, rater, label (and count), without ``silent`` and ``stated``."""
        names = self.items[self.item], self.raters[self.rater], self.classes[self.label]
        frame = pd.DataFrame(dict(zip(("item", "rater", "label"), names, strict=True)))
        return frame if self.is_unweighted else frame.assign(count=self.multiplicity[self.item])

    def relabelled(self, label: NDArray[np.int64]) -> Responses:
        """Return the same table with other labels, given by a class index for every row."""
        codes = np.asarray(label)
        is_row = codes.shape == self.cell.shape and codes.dtype.kind in "iu"
        if not is_row or not np.all((codes >= 0) & (codes < self.n_classes)):
            raise ResponsesError(
                f"Labels must be class indices, 0 to {self.n_classes - 1}, one for each of the "
                f"{self.n_responses} rows. Got: {shown(codes.ravel())} of shape {codes.shape}."
            )
        return self.with_rows(self.item, self.rater, codes)

    def merged(self, key: NDArray[np.int64] | None = None) -> tuple[Responses, NDArray[np.int64]]:
        """Merge items with the same responses and ``key`` (items,), adding up multiplicities.

        Return one item per pattern, named by the first, and the pattern of every item (items,).
        """
        first, inverse = item_patterns(self, key)
        size = np.bincount(inverse, self.multiplicity, minlength=len(first)).astype(np.int64)
        return replace(self.take(first), multiplicity=size), inverse

    def condensed(
        self, key: NDArray[np.int64] | None = None
    ) -> tuple[Responses, NDArray[np.int64]]:
        """Return :meth:`merged` if it at least halves the items (of a sample), else this table."""
        sample = min(self.n_items, 10_000)
        few, _ = self.head(sample).merged(None if key is None else key[:sample])
        if few.n_items <= sample / 2:
            table, inverse = self.merged(key)
            if table.n_items <= self.n_items / 2:
                return table, inverse
        return self, np.arange(self.n_items)

    def head(self, n_items: int) -> Responses:
        """Return the first items with their responses."""
        return self.take(np.arange(n_items))

    def take(self, items: NDArray[np.int64]) -> Responses:
        """Return items, by number and in the given order, with their responses."""
        start, row = rows_of(self.start, items)
        return replace(
            self,
            items=self.items[items],
            start=start,
            cell=self.cell[row],
            multiplicity=self.multiplicity[items],
            silent=None if self.silent is None else self.silent.take(items),
            stated=None if self.stated is None else self.stated.take(items),
        )

    def expand(self) -> Responses:
        """Return a table of counts with one item per copy, named ``pattern/1`` and so on."""
        if self.is_unweighted:
            return self
        index = np.repeat(np.arange(self.n_items), self.multiplicity)
        copies = zip(self.items, self.multiplicity, strict=True)
        names = [f"{name}/{copy + 1}" for name, count in copies for copy in range(count)]
        ones = np.ones(len(index), dtype=np.int64)
        return replace(self.take(index), items=np.array(names), multiplicity=ones)

    def __repr__(self) -> str:
        return as_text("Responses", *summarise(self))


for _reader in Responses.__mro__[1:-1]:
    for _name, _method in vars(_reader).items():
        if isinstance(_method, classmethod):  # errors of arguments have the name that users call
            _method.__func__.__qualname__ = f"Responses.{_name}"

from_key: Callable[..., Responses] = partial(table_of, Responses)
from_codes: Callable[..., Responses] = partial(table_of_codes, Responses)
"""Build tables from keys, or item, rater and label, by row and names: see :func:`table_of`."""


def _of_matrix(
    matrix: Any,
    counts: NDArray[np.int64] | None,
    *,
    missing: Any = UNDECLARED,
    items: Any = None,
    raters: Any = None,
    classes: Any = None,
    abstain: Any = None,
    ordered: bool | None = None,
    positive: Any = None,
    normalise: bool = False,
) -> Responses:
    """Return the responses of a matrix, of which each row stands for a number of items."""
    if normalise and classes is None and isinstance(matrix, pd.DataFrame):
        matrix = respelled(matrix, counts)  # raters with spellings of their own share labels
    spelt = with_spellings(matrix, classes) if normalise else classes
    table = from_key(*read_matrix(matrix, missing, items, raters, spelt, abstain))
    table = table if counts is None else replace(table, multiplicity=counts)
    dtypes, marks = list(getattr(matrix, "dtypes", [])), (abstain, *np.atleast_1d(missing))
    return with_class_names(table, dtypes, classes, ordered, positive, normalise, marks)


def iterate_batches(batches: Any) -> Iterator[Responses]:
    """Return an iterator over tables that checks each, or raise ModelError."""
    if isinstance(batches, str) or not isinstance(batches, Iterable):
        raise ModelError(
            "batches= must be an iterable of bf.Responses, because they are read one by one. Got: "
            f"{type(batches).__name__}."
        )
    return map(partial(require_kind, "Every one of batches=", kind=Responses), batches)
