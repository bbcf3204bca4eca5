"""Tables of responses in partitions, which are read one at a time and never held together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import plain, shown
from bayesfuse.data.describing import as_text
from bayesfuse.data.names import unique_names
from bayesfuse.data.reading import EMPTY, read_order
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.cluster import Parts

AT_ONCE = 20_000_000  # items whose names are compared at a time, by their hashes


@dataclass(frozen=True)
class Layout:
    """Columns and settings of a table, shared by all its partitions."""

    kind: Any  # bayesfuse.Responses, whose from_long reads a partition
    item: str = "item"
    rater: str = "rater"
    label: str = "label"
    sequence: str | None = None
    position: str | None = None
    raters: Any = None
    classes: Any = None
    abstain: Any = None
    ordered: bool | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are read."""
        names = [self.item, self.rater, self.label, self.sequence, self.position]
        return [name for name in names if name is not None]

    @property
    def unit(self) -> str:
        """The column whose values may not be in two partitions."""
        return self.sequence or self.item

    def table(self, frame: pd.DataFrame) -> Any:
        """Return a partition as a table of responses."""
        names = ("item", "rater", "label", "raters", "classes", "abstain", "ordered")
        return self.kind.from_long(frame, **{name: getattr(self, name) for name in names})

    def sequences(self, frame: pd.DataFrame) -> Sequences | None:
        """Return the sequences of a partition."""
        if self.sequence is None:
            return None
        rows = frame.drop_duplicates(self.item)
        return Sequences.from_table(
            rows, item=self.item, sequence=self.sequence, position=self.position
        )


@dataclass(frozen=True)
class ParquetFile:
    """A partition in a file."""

    number: int
    path: str

    def __str__(self) -> str:
        return f"partition {self.number}, {self.path}"


class DaskPartition:
    """A partition of a Dask dataframe."""

    def __init__(self, number: int, delayed: Any) -> None:
        self.number, self.delayed = number, delayed
        self._there: tuple[Any, Any] = None, None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_there": (None, None)}

    def future(self, client: Any) -> Any:
        """Return the partition on a cluster, where it stays."""
        if self._there[0] is not client:
            self._there = client, client.compute(self.delayed)
        return self._there[1]

    def __str__(self) -> str:
        return f"partition {self.number}"


def read(layout: Layout, source: Any) -> pd.DataFrame:
    """Return the columns of a partition, or raise ResponsesError that names it."""
    try:
        if isinstance(source, ParquetFile):
            return pd.read_parquet(source.path, columns=layout.columns)
        frame = source if isinstance(source, pd.DataFrame) else source.delayed.compute()
        return frame[layout.columns]
    except ImportError:
        raise
    except Exception as error:  # readers raise errors of any type
        raise ResponsesError(
            "Every partition must be readable and have the columns "
            f"{layout.columns}. Got: {source if not isinstance(source, pd.DataFrame) else 'one'} "
            f"({type(error).__name__}: {error})."
        ) from error


@dataclass(frozen=True)
class Survey:
    """Names and sizes of a partition, before names have numbers; ``dtype`` is of the labels."""

    rows: int
    items: int
    raters: Any
    classes: Any
    range: tuple[Any, Any] | None
    kinds: tuple[str, ...]
    content: int
    dtype: Any


def survey(frame: pd.DataFrame, layout: Layout) -> Survey:
    """Look through a partition."""
    if not len(frame):
        return Survey(0, 0, [], [], None, (), 0, None)
    label, own = frame[layout.label], frame[layout.unit]
    label = label[label != EMPTY]  # refused where the partition is read
    if layout.abstain is not None:
        label = label[label != layout.abstain]
    raters, classes = (each.dropna().unique() for each in (frame[layout.rater], label))
    content = pd.util.hash_pandas_object(frame[layout.columns[:3]], index=False)
    return Survey(
        len(frame),
        int(frame[layout.item].nunique()),
        raters,
        classes,
        (plain(own.min()), plain(own.max())),
        tuple(_kind(frame[name]) for name in layout.columns[:3]),
        int(content.to_numpy().sum(dtype=np.uint64)),
        label.dtype,
    )


def _kind(column: pd.Series) -> str:
    kind = column.dtype.categories.dtype.kind if hasattr(column, "cat") else column.dtype.kind
    names = {"f": "floats", "b": "booleans", "M": "times"} | dict.fromkeys("iu", "whole numbers")
    return names.get(kind, "text")


def _hashed(frame: pd.DataFrame, layout: Layout) -> tuple[pd.Series, NDArray[np.uint64]]:
    """Return the names of the items (or sequences) of a partition, and their hashes."""
    names = pd.Series(frame[layout.unit].unique())
    return names, pd.util.hash_pandas_object(names, index=False).to_numpy()


def hashes(frame: pd.DataFrame, layout: Layout, bucket: int, n_buckets: int) -> NDArray[np.uint64]:
    """Return the hashes of one bucket."""
    _, found = _hashed(frame, layout)
    return found[found % np.uint64(n_buckets) == bucket]


def named(frame: pd.DataFrame, layout: Layout, digest: int) -> Any:
    """Return the name with a hash, None if it is not in the partition."""
    names, found = _hashed(frame, layout)
    same = found == np.uint64(digest)
    return plain(names[same].iloc[0]) if same.any() else None


class Partitions:
    """A table of responses in partitions, made by ``Responses.from_parquet`` or ``from_dask``.

    Models take it in place of :class:`bayesfuse.Responses`. The rows of an item, or of a sequence,
    are in one partition.

    Attributes
    ----------
    raters, classes : ndarray
        Unique names, of all partitions.
    per_partition : ndarray of int64, shape (partitions, 2)
        Items and responses of every partition.
    head : Responses
        The first partition: models take their names and their start from it.

    Examples
    --------
    >>> import bayesfuse as bf, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> bf.datasets.anesthesia().to_frame().to_parquet(f"{folder}/responses.parquet")
    >>> table = bf.Responses.from_parquet(folder)
    >>> table.n_partitions, table.n_items, table.n_responses
    (1, 45, 315)
    """

    raters: NDArray[Any]
    classes: NDArray[Any]

    def __init__(self, layout: Layout, sources: Sequence[Any]) -> None:
        if not sources:
            raise ResponsesError("A table must have at least one partition. Got: none.")
        found: list[Survey] = _parts(layout, sources).map(survey, (layout,))
        kept = [index for index, one in enumerate(found) if one.rows]
        if not kept:
            raise ResponsesError(
                f"A table must have at least one row. Got: {len(sources)} partitions without rows."
            )
        self.sources, found = [sources[index] for index in kept], [found[index] for index in kept]
        _require_kinds(found, self.sources, layout)
        self.raters = _names([one.raters for one in found], layout.raters, "rater")
        self.classes = _names([one.classes for one in found], layout.classes, "class")
        ordered = read_order(layout.ordered, [found[0].dtype], layout.classes, self.classes)
        self.layout = replace(layout, raters=self.raters, classes=self.classes, ordered=ordered)
        self.per_partition = np.array([(one.items, one.rows) for one in found], dtype=np.int64)
        self.content = f"{sum(one.content for one in found) % 2**64:016x}"
        _require_apart(found, self.sources, self.layout)

    @property
    def n_partitions(self) -> int:
        """Number of partitions that have rows."""
        return len(self.sources)

    @property
    def n_items(self) -> int:
        """Number of items of all partitions."""
        return int(self.per_partition[:, 0].sum())

    @property
    def n_responses(self) -> int:
        """Number of responses of all partitions, silence included."""
        return int(self.per_partition[:, 1].sum())

    @cached_property
    def _first(self) -> pd.DataFrame:
        return _parts(self.layout, self.sources[:1]).map(pd.DataFrame.copy, ())[0]

    @cached_property
    def head(self) -> Any:
        """The first partition."""
        return self.layout.table(self._first)

    @cached_property
    def sequences(self) -> Sequences:
        """The sequences of the first partition: ``HiddenMarkov(table, table.sequences)``.

        Raises
        ------
        ResponsesError
            The table was read without ``sequence=``.
        """
        found = self.layout.sequences(self._first)
        if found is None:
            raise ResponsesError(
                "Sequences in partitions come from a column: read the table with sequence= and "
                "position=. Got: a table without."
            )
        return found

    def __repr__(self) -> str:
        least, most = self.per_partition[:, 1].min(), self.per_partition[:, 1].max()
        title = (
            f"{self.n_responses:,} responses to {self.n_items:,} items by {len(self.raters):,} "
            f"raters, {len(self.classes):,} classes"
        )
        sizes = f"{self.n_partitions:,} of {least:,} to {most:,} responses"
        rows = [("partitions", sizes), ("classes", shown(self.classes))]
        return as_text("Responses in partitions", title, rows)


def _parts(layout: Layout, sources: Sequence[Any]) -> Parts:
    return Parts(read, layout, sources, [2**62] * len(sources))  # too large to be kept in memory


def _names(found: list[Any], declared: Any, what: str) -> NDArray[Any]:
    """Return the declared names, or the sorted ones of all partitions."""
    if declared is not None:
        return unique_names(declared, what)
    every = pd.unique(np.concatenate([np.asarray(each) for each in found]))
    return unique_names(np.sort(every), what)


def _require_kinds(found: list[Survey], sources: list[Any], layout: Layout) -> None:
    for at, name in enumerate(layout.columns[:3]):
        first = found[0].kinds[at]
        for one, source in zip(found, sources, strict=True):
            if one.kinds[at] != first:
                raise ResponsesError(
                    f"Column {name!r} must be of one kind in all partitions, because names are "
                    f"compared. Got: {first} in {sources[0]}, {one.kinds[at]} in {source}."
                )


def _require_apart(found: list[Survey], sources: list[Any], layout: Layout) -> None:
    """Raise ResponsesError if an item, or a sequence, is in two partitions."""
    spans = sorted(one.range for one in found if one.range is not None)
    if all(before[1] < after[0] for before, after in pairwise(spans)):
        return
    n_buckets = -(-sum(one.items for one in found) // AT_ONCE)
    parts = _parts(layout, sources)
    for bucket in range(n_buckets):
        every = np.concatenate(parts.map(hashes, (layout, bucket, n_buckets)))
        digests, count = np.unique(every, return_counts=True)
        if (count > 1).any():
            which = parts.map(named, (layout, int(digests[count > 1][0])))
            held = [at for at, name in enumerate(which) if name is not None]
            what = "item" if layout.sequence is None else "sequence"
            raise ResponsesError(
                f"All rows of one {what} must be in one partition; Dask's "
                f"frame.shuffle({layout.unit!r}) brings them together. Got: "
                f"{which[held[0]]!r} in {' and in '.join(str(sources[at]) for at in held)} "
                f"({int((count > 1).sum())} such)."
            )
