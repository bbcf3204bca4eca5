"""Tables of responses in partitions, which are read one at a time and never held together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_python, shown
from bayesfuse.data.class_names import has_order, spelt_once
from bayesfuse.data.describing import as_text
from bayesfuse.data.missing_text import EMPTY, left_out
from bayesfuse.data.names import unique_names
from bayesfuse.data.positive_class import with_positive_last
from bayesfuse.data.reading import read_order
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.cluster import Parts


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
    positive: Any = None
    normalise: bool = False

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
        names = "item", "rater", "label", "raters", "classes", "abstain", "ordered", "normalise"
        return self.kind.from_long(frame, **{name: getattr(self, name) for name in names})

    def sequences(self, frame: pd.DataFrame) -> Sequences | None:
        """Return the sequences of a partition."""
        if self.sequence is None:
            return None
        names = {name: getattr(self, name) for name in ("item", "sequence", "position")}
        return Sequences.from_table(frame.drop_duplicates(self.item), **names)


class Source:
    """A partition: the path of a file, or a delayed frame of Dask."""

    def __init__(self, number: int, origin: Any) -> None:
        self.number, self.origin = number, origin
        self._submitted: tuple[Any, Any] = None, None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_submitted": (None, None)}

    def future(self, client: Any) -> Any:
        """Return a file as it is, and a frame on a cluster, where it stays."""
        if isinstance(self.origin, str):
            return self
        if self._submitted[0] is not client:
            self._submitted = client, client.compute(self.origin)
        return self._submitted[1]

    def __str__(self) -> str:
        path = f", {self.origin}" if isinstance(self.origin, str) else ""
        return f"partition {self.number}{path}"


def read(layout: Layout, source: Any) -> pd.DataFrame:
    """Return the columns of a partition, or raise ResponsesError that names it."""
    try:
        if isinstance(source, pd.DataFrame):
            return source[layout.columns]
        if isinstance(source.origin, str):
            return pd.read_parquet(source.origin, columns=layout.columns)
        return source.origin.compute()[layout.columns]
    except ImportError:
        raise
    except Exception as error:  # readers raise errors of any type
        raise ResponsesError(
            "Every partition must be readable and have the columns "
            f"{layout.columns}. Got: {source if isinstance(source, Source) else 'one'} "
            f"({type(error).__name__}: {error})."
        ) from error


class Survey(NamedTuple):
    """Names and sizes of a partition, before names have numbers."""

    rows: int
    items: int
    raters: Any
    classes: Any
    number: Mapping[Any, int]  # of rows by class
    range: tuple[Any, Any]
    kinds: tuple[str, ...]
    content: int


def survey(frame: pd.DataFrame, layout: Layout) -> Survey | None:
    """Look through a partition; None if it has no rows."""
    if not len(frame):
        return None
    label, unit = frame[layout.label], frame[layout.unit]
    label = label[label != EMPTY]  # refused where the partition is read
    if layout.abstain is not None:
        label = label[label != layout.abstain]
    content = pd.util.hash_pandas_object(frame[layout.columns[:3]], index=False)
    return Survey(
        rows=len(frame),
        items=int(frame[layout.item].nunique()),
        raters=frame[layout.rater].dropna().unique(),
        classes=label.dropna().unique(),
        number=label.astype(object).value_counts().to_dict() if layout.normalise else {},
        range=(as_python(unit.min()), as_python(unit.max())),
        kinds=tuple(_kind(frame[name]) for name in layout.columns[:3]),
        content=int(content.to_numpy().sum(dtype=np.uint64)),
    )


def _kind(column: pd.Series) -> str:
    kind = column.dtype.categories.dtype.kind if hasattr(column, "cat") else column.dtype.kind
    names = {"f": "floats", "b": "booleans", "M": "times"} | dict.fromkeys("iu", "whole numbers")
    return names.get(kind, "text")


def hashes(frame: pd.DataFrame, layout: Layout) -> pd.Series:
    """Return hashes of items (or sequences), by name."""
    names = pd.Series(frame[layout.unit].unique())
    return pd.util.hash_pandas_object(names, index=False).set_axis(names)


class Partitions:
    """A table read by ``Responses.from_parquet`` or ``from_dask``, for models in its place.

    Partitions that cannot be read, columns that differ in kind between partitions and an item in
    two of these raise :class:`bayesfuse.errors.ResponsesError`.

    Attributes
    ----------
    raters, classes : ndarray
        Unique names, of all partitions.
    n_partitions, n_items, n_responses : int
        Partitions with rows, items and responses (silence included) of all.
    per_partition : ndarray of int64, shape (partitions, 2)
        Items and responses of every partition.
    head : Responses
        The first partition: models take their names and their start from it.

    Examples
    --------
    >>> import bayesfuse as bf, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> bf.datasets.anesthesia().to_frame().to_parquet(f"{folder}/1.parquet")
    >>> bf.Responses.from_parquet(folder)
    Responses in partitions: 315 responses to 45 items by 5 raters, 4 classes
      partitions           1 of 315 to 315 responses
      classes              [1, 2, 3, 4]
    """

    def __init__(self, layout: Layout, origins: Sequence[Any]) -> None:
        sources = [Source(*origin) for origin in enumerate(origins)]
        surveys: list[Survey | None] = _parts(layout, sources).map(survey, (layout,))
        if not (nonempty := [part for part in surveys if part is not None]):
            raise ResponsesError(
                f"A table must have at least one row. Got: {len(sources)} partitions without rows."
            )
        self.sources = [source for source, part in zip(sources, surveys, strict=True) if part]
        _require_kinds(nonempty, self.sources, layout)
        self.raters = _names([part.raters for part in nonempty], layout.raters, "rater")
        self.classes = _names([part.classes for part in nonempty], layout.classes, "class")
        if layout.classes is None:
            _require_answers(self.classes)
        dtypes, graded = [nonempty[0].classes.dtype], bool(layout.ordered)
        if layout.normalise and layout.classes is None and self.classes.dtype.kind == "U":
            number: Counter[Any] = Counter()
            for part in nonempty:
                number.update(part.number)
            self.classes = unique_names(sorted(spelt_once(number).values()), "class")
        self.classes = with_positive_last(
            self.classes, layout.classes, has_order(dtypes), layout.positive, graded
        )
        ordered = read_order(layout.ordered, dtypes, layout.classes, self.classes)
        self.layout = replace(layout, raters=self.raters, classes=self.classes, ordered=ordered)
        self.per_partition = np.array(
            [(part.items, part.rows) for part in nonempty], dtype=np.int64
        )
        self.n_partitions = len(self.sources)
        self.n_items, self.n_responses = self.per_partition.sum(axis=0).tolist()
        self.content = f"{sum(part.content for part in nonempty) % 2**64:016x}"
        _require_disjoint(nonempty, self.sources, self.layout)

    @cached_property
    def _first(self) -> pd.DataFrame:
        return _parts(self.layout, self.sources[:1]).map(pd.DataFrame.copy, ())[0]

    @cached_property
    def head(self) -> Any:
        """The first partition."""
        return self.layout.table(self._first)

    @cached_property
    def sequences(self) -> Sequences:
        """The sequences of the first partition: ``HiddenMarkov(table, table.sequences)``."""
        sequences = self.layout.sequences(self._first)
        if sequences is None:
            raise ResponsesError(
                "Sequences in partitions come from a column: read the table with sequence= and "
                "position=. Got: a table without."
            )
        return sequences

    def __repr__(self) -> str:
        sizes = self.per_partition[:, 1]
        title = (
            f"{self.n_responses:,} responses to {self.n_items:,} items by {len(self.raters):,} "
            f"raters, {len(self.classes):,} classes"
        )
        parts = f"{self.n_partitions:,} of {sizes.min():,} to {sizes.max():,} responses"
        rows = [("partitions", parts), ("classes", shown(self.classes))]
        return as_text("Responses in partitions", title, rows)


def _parts(layout: Layout, sources: Sequence[Any]) -> Parts:
    return Parts(read, layout, sources, [2**62] * len(sources))  # too large to be kept in memory


def _names(names: list[Any], declared: Any, noun: str) -> NDArray[Any]:
    """Return the declared names, or the sorted ones of all partitions."""
    if declared is None:
        declared = np.unique(np.concatenate([np.asarray(part) for part in names]))
    return unique_names(declared, noun)


def _require_answers(classes: NDArray[Any]) -> None:
    """Raise ResponsesError if a label means that there is no answer, as in other tables."""
    marks, skips = left_out(pd.Series(classes), None)
    if marks or skips:
        raise ResponsesError(
            "Rows without an answer are left out before a table is written in partitions, or all "
            "classes are declared with classes=, because partitions are read one by one. Got: "
            f"labels {shown([*marks, *skips])}, which usually mean that an answer is missing."
        )


def _require_kinds(surveys: list[Survey], sources: list[Any], layout: Layout) -> None:
    for part, source in zip(surveys, sources, strict=True):
        for name, first, kind in zip(layout.columns, surveys[0].kinds, part.kinds, strict=False):
            if kind != first:
                raise ResponsesError(
                    f"Column {name!r} must be of one kind in all partitions, because names are "
                    f"compared. Got: {first} in {sources[0]}, {kind} in {source}."
                )


def _require_disjoint(surveys: list[Survey], sources: list[Any], layout: Layout) -> None:
    """Raise ResponsesError if an item, or a sequence, is in two partitions."""
    spans = sorted(part.range for part in surveys)
    if all(before[1] < after[0] for before, after in pairwise(spans)):
        return
    by_partition = _parts(layout, sources).map(hashes, (layout,))
    digests, count = np.unique(np.concatenate(by_partition), return_counts=True)
    if (count > 1).any():
        names_of = [part[part == digests[count > 1][0]].index for part in by_partition]
        partitions = [
            str(source) for source, names in zip(sources, names_of, strict=True) if len(names)
        ]
        name = next(names[0] for names in names_of if len(names))
        unit = "item" if layout.sequence is None else "sequence"
        raise ResponsesError(
            f"All rows of one {unit} must be in one partition; Dask's "
            f"frame.shuffle({layout.unit!r}) brings them together. Got: {name!r} in "
            f"{' and in '.join(partitions)} ({int((count > 1).sum())} such)."
        )


class ReadsPartitions:
    """Methods of :class:`bayesfuse.Responses` that read tables in partitions."""

    @classmethod
    def from_parquet(cls, paths: Any, **columns: Any) -> Partitions:
        """Read a long table in parquet files, each a partition of :class:`bayesfuse.io.Partitions`.

        Parameters
        ----------
        paths : str, path or several
            Files, folders of files or patterns such as ``"responses/*.parquet"``. All rows of an
            item (or of a sequence) must be in one file; a few million rows are a good size.
        **columns
            ``item``, ``rater``, ``label`` (default by these names) and optionally ``sequence`` and
            ``position``: names of columns. ``raters``, ``classes``, ``abstain``, ``ordered``,
            ``positive``, ``normalise``: as in :meth:`from_long`, except that undeclared names are
            always sorted.
        """
        patterns = list(map(str, [paths] if isinstance(paths, str | Path) else paths))
        files: list[str] = []
        for pattern in patterns:
            if Path(pattern).is_dir():
                files += sorted(glob(str(Path(pattern, "*.parquet"))))
            else:
                files += sorted(glob(pattern)) or [pattern]
        if not files:
            raise ResponsesError(
                f"There must be at least one parquet file. Got: none in {shown(patterns)}."
            )
        return Partitions(Layout(cls, **columns), files)

    @classmethod
    def from_dask(cls, frame: Any, **columns: Any) -> Partitions:
        """Read a Dask dataframe with one row per response, partition by partition.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            All rows of an item (or of a sequence) are in one partition: ``frame.shuffle("item")``.
        **columns
            As in :meth:`from_parquet`.
        """
        if not hasattr(frame, "to_delayed"):
            raise ResponsesError(
                "from_dask reads a Dask dataframe; from_long reads others. Got: "
                f"{type(frame).__name__}."
            )
        layout = Layout(cls, **columns)
        return Partitions(layout, frame[layout.columns].to_delayed())
