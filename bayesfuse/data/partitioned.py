"""Tables of responses that do not fit into memory: methods that read them."""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Any

from bayesfuse.data.arrays import shown
from bayesfuse.data.partitions import DaskPartition, Layout, ParquetFile, Partitions
from bayesfuse.errors import ResponsesError


class ReadsPartitions:
    """Methods of :class:`bayesfuse.Responses` that read tables in partitions."""

    @classmethod
    def from_parquet(
        cls,
        paths: Any,
        *,
        item: str = "item",
        rater: str = "rater",
        label: str = "label",
        sequence: str | None = None,
        position: str | None = None,
        raters: Any = None,
        classes: Any = None,
        abstain: Any = None,
        ordered: bool | None = None,
    ) -> Partitions:
        """Read a long table in parquet files, each of which is a partition.

        The files are read once now, for names and sizes, and again whenever their rows are needed:
        on the workers of a Dask cluster if there is a client (``dask.distributed.Client()``),
        otherwise here, one after the other on every core.

        Parameters
        ----------
        paths : str, path or several
            Files, folders of files or patterns such as ``"responses/*.parquet"``. All rows of an
            item (or of a sequence) must be in one file; a few million rows are a good size.
        item, rater, label : str
            Names of the columns.
        sequence, position : str, optional
            Columns of every item's sequence and of its position there.
        raters, classes, abstain, ordered
            As in :meth:`from_long`, except that undeclared names are always sorted.

        Returns
        -------
        Partitions
            For models, in place of responses: ``DawidSkene(table)``,
            ``HiddenMarkov(table, table.sequences)``.

        Raises
        ------
        ResponsesError
            Unreadable files; columns that differ in kind between files; an item in two files;
            names that are not among the declared ones.

        Examples
        --------
        >>> import bayesfuse as bf, pandas as pd, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(2):
        ...     table = {"item": [part, part], "rater": ["x", "y"], "label": ["good", "bad"]}
        ...     pd.DataFrame(table).to_parquet(f"{folder}/{part}.parquet")
        >>> bf.Responses.from_parquet(folder)
        Responses in partitions: 4 responses to 2 items by 2 raters, 2 classes
          partitions  2 of 2 to 2 responses
          classes     ['bad', 'good']
        """
        given = [str(each) for each in ([paths] if isinstance(paths, str | Path) else paths)]
        files: list[str] = []
        for each in given:
            folder = Path(each)
            inside = folder.glob("*.parquet") if folder.is_dir() else glob(each) or [each]
            files += sorted(map(str, inside))
        if not files:
            raise ResponsesError(
                f"There must be at least one parquet file. Got: none in {shown(given)}."
            )
        columns = item, rater, label, sequence, position
        layout = Layout(cls, *columns, raters, classes, abstain, ordered)
        return Partitions(layout, [ParquetFile(n, path) for n, path in enumerate(files)])

    @classmethod
    def from_dask(cls, frame: Any, **columns: Any) -> Partitions:
        """Read a Dask dataframe with one row per response, partition by partition.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            All rows of an item (or of a sequence) must be in one partition:
            ``frame.shuffle("item")``.
        **columns
            Names of columns, raters and classes, ``abstain`` and ``ordered``, as in
            :meth:`from_parquet`.

        Returns
        -------
        Partitions

        Raises
        ------
        ResponsesError
            As :meth:`from_parquet`; not a Dask dataframe.

        Examples
        --------
        >>> import bayesfuse as bf, dask.dataframe as dd, pandas as pd
        >>> table = {"item": [1, 1, 2, 2], "rater": list("xyxy"), "label": [0, 0, 1, 0]}
        >>> frame = dd.from_pandas(pd.DataFrame(table).set_index("item"), npartitions=2)
        >>> bf.Responses.from_dask(frame.reset_index()).per_partition.tolist()
        [[1, 2], [1, 2]]
        """
        if not hasattr(frame, "to_delayed"):
            raise ResponsesError(
                "from_dask reads a Dask dataframe; from_long reads others. Got: "
                f"{type(frame).__name__}."
            )
        layout = Layout(cls, **columns)
        if missing := set(layout.columns) - set(frame.columns):
            raise ResponsesError(
                f"The frame must have the columns {layout.columns}. Got: no {sorted(missing)}."
            )
        parts = enumerate(frame[layout.columns].to_delayed())
        return Partitions(layout, [DaskPartition(*each) for each in parts])
