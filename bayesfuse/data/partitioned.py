"""How tables of responses that no memory holds are read."""

from __future__ import annotations

from typing import Any


class ReadsPartitions:
    """Tables in partitions, as :class:`bayesfuse.Responses` reads them."""

    @staticmethod
    def from_parquet(
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
    ) -> Any:
        """Read a long table in parquet files, each of which is a partition.

        The files are looked through once now, for names and sizes, and their rows again whenever
        they are needed: on the workers of a Dask cluster if there is a client
        (``dask.distributed.Client()``), else here, one after the other on every core.

        Parameters
        ----------
        paths : str, path or several
            Files, folders of files or patterns such as ``"responses/*.parquet"``. All rows of an
            item (of a sequence, where there are some) are in one file; a few million rows are a
            good size.
        item, rater, label : str
            Names of the columns.
        sequence, position : str, optional
            Columns of every item's sequence and of its position there.
        raters, classes, abstain, ordered
            As in :meth:`from_long`, but for categories: names are sorted unless they are declared.

        Returns
        -------
        Partitions
            For models, in place of responses: ``DawidSkene(table)``,
            ``HiddenMarkov(table, table.sequences)``.

        Raises
        ------
        ResponsesError
            A file that cannot be read; columns that differ in kind between files; an item in two
            files; names that were not declared, if some are.

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
        from bayesfuse.data import partitions

        layout = partitions.Layout(
            item, rater, label, sequence, position, abstain=abstain, ordered=ordered
        )
        return partitions.of_parquet(paths, layout, (raters, classes))

    @staticmethod
    def from_dask(
        frame: Any,
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
    ) -> Any:
        """Read a Dask dataframe with one row per response, partition by partition.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            All rows of an item (of a sequence) are in one partition: ``frame.shuffle("item")``.
        item, rater, label, sequence, position, raters, classes, abstain, ordered
            As in :meth:`from_parquet`.

        Returns
        -------
        Partitions

        Raises
        ------
        ResponsesError
            As in :meth:`from_parquet`; no Dask dataframe.

        Examples
        --------
        >>> import bayesfuse as bf, dask.dataframe as dd, pandas as pd
        >>> table = {"item": [1, 1, 2, 2], "rater": list("xyxy"), "label": [0, 0, 1, 0]}
        >>> frame = dd.from_pandas(pd.DataFrame(table).set_index("item"), npartitions=2)
        >>> bf.Responses.from_dask(frame.reset_index()).per_partition.tolist()
        [[1, 2], [1, 2]]
        """
        from bayesfuse.data import partitions

        layout = partitions.Layout(
            item, rater, label, sequence, position, abstain=abstain, ordered=ordered
        )
        return partitions.of_dask(frame, layout, (raters, classes))
