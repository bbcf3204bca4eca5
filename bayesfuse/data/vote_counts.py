"""Counts of votes by item and class, of voters who are unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, shown
from bayesfuse.data.class_names import positive_last
from bayesfuse.data.names import unique_names
from bayesfuse.data.statements import table_of
from bayesfuse.errors import ResponsesError, require_numbers

VOTERS = "unnamed voters"
"""Name of the only rater of a table of counts, who stands for all voters."""

MIN_ROWS = 5  # rows from which equal sums mean counts: those of few rows may be equal by chance


class ReadsVotes:
    """The method of :class:`bayesfuse.Responses` that reads counts of votes."""

    raters: NDArray[Any]

    @classmethod
    def from_votes(cls, counts: Any, *, items: Any = None, classes: Any = None) -> Any:
        """Read the number of votes for every class on every item, where voters are unknown.

        Parameters
        ----------
        counts : DataFrame or array, shape (items, classes)
            Whole numbers, with names from the index and columns of a frame.
        items, classes : sequence, optional
            Names; by default those of the frame, or 0, 1, 2, … Of two classes the last one is
            positive, and by default one that is certainly positive, such as "yes", is last.

        Returns
        -------
        Responses
            With one rater, who stands for all voters. Items without votes are kept. Models of
            items, such as :class:`bayesfuse.models.ItemTypes`, and :func:`bayesfuse.fuse` take it;
            raters are not judged.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> votes = bf.Responses.from_votes([[7, 3], [0, 10]], classes=["smooth", "disk"])
        >>> votes.n_responses, votes.votes().tolist()
        (20, [[7, 3], [0, 10]])
        """
        declared = classes
        if isinstance(counts, pd.DataFrame):
            items = counts.index if items is None else items
            classes = counts.columns if classes is None else classes
        number = require_numbers("counts", np.asarray(counts))
        is_whole = np.isfinite(number) & (number >= 0) & (number == np.floor(number))
        if number.ndim != 2 or not is_whole.all():
            raise ResponsesError(
                "Counts of votes are whole numbers from 0, a row for every item and a column for "
                f"every class; shares times the number of votes are counts. Got: shape "
                f"{number.shape}, {shown(number[~is_whole], 3) or 'no other numbers'}."
            )
        n_items, n_classes = number.shape
        item_names, class_names = (
            unique_names(np.arange(size) if names is None else as_array(names), noun)
            for names, size, noun in ((items, n_items, "item"), (classes, n_classes, "class"))
        )
        if (len(item_names), len(class_names)) != number.shape:
            raise ResponsesError(
                "items= and classes= must name every row and column of the counts. Got: "
                f"{len(item_names)} and {len(class_names)} names for shape {number.shape}."
            )
        key = np.repeat(np.arange(number.size), number.astype(np.int64).ravel())
        table = table_of(cls, key, item_names, np.array([VOTERS]), class_names)
        return positive_last(table, declared, False, None)

    @property
    def is_of_votes(self) -> bool:
        """Whether voters are unknown: the table is made by :meth:`from_votes`."""
        return self.raters.tolist() == [VOTERS]


def refuse_counts(table: Any) -> None:
    """Raise ResponsesError if a table with a row per item looks like counts of votes."""
    values = np.asarray(table)
    if values.ndim != 2 or min(values.shape) < 2 or len(values) < MIN_ROWS:
        return
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all() or values.min() < 0:
        return
    total = values.sum(axis=1)
    if total[0] > values.shape[1] and np.ptp(total) == 0 and np.ptp(values[:, 0]) > 0:
        raise ResponsesError(
            "A table with the same sum in every row looks like counts of votes by class, whose "
            "voters are unknown: read it by bf.Responses.from_votes(table), or by "
            f"bf.Responses.from_matrix(table) if its columns are raters. Got: {len(values):,} rows "
            f"of sum {shown(total[:1])}."
        )
