"""Scores of judges, such as 1 to 10 or 0 to 100, as ordered classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import columns, present, refuse, shown
from bayesfuse.data.names import encode
from bayesfuse.data.statements import table_of_codes
from bayesfuse.errors import ResponsesError, require_count

BINS = 8  # graded raters rank items better with eight classes than with fewer


class ReadsScores:
    """The method of :class:`bayesfuse.Responses` that reads scores."""

    @classmethod
    def from_scores(
        cls,
        frame: Any,
        *,
        bins: int = BINS,
        item: str = "item",
        rater: str = "rater",
        score: str = "score",
    ) -> Any:
        """Read scores on a scale, such as 1 to 10 or 0 to 100, as ordered classes.

        Classes are cut at quantiles of all scores, so that they are about equally frequent; equal
        scores are in one class. Raters with a level or spread of their own have thresholds between
        the classes: :class:`bayesfuse.models.DawidSkene` with ``raters="graded"``.

        Parameters
        ----------
        frame : dataframe or mapping of arrays
            Columns of items, raters and scores, which are numbers; one row per score.
        bins : int, default 8
            Largest number of classes. Fewer distinct scores are the classes themselves.
        item, rater, score : str
            Names of the columns.

        Returns
        -------
        Responses
            The name of a class is the median of its scores, so the grades of
            :func:`bayesfuse.decisions.item_grades` are on the scale of the scores.
            :func:`bayesfuse.fuse` needs ``ordered=True``, because numbers may be codes.

        Raises
        ------
        ResponsesError
            Scores that are missing, not numbers, or all equal; missing columns.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> frame = {"item": [1, 2, 3, 4], "rater": ["x"] * 4, "score": [10, 40, 45, 90]}
        >>> bf.Responses.from_scores(frame, bins=2).classes
        array([10., 45.])
        """
        require_count("bins", bins, 2)
        item_column, rater_column, cells = columns(present(frame), (item, rater, score), "scores")
        number = pd.to_numeric(pd.Series(cells), errors="coerce").to_numpy(dtype=float)
        refuse(
            ~np.isfinite(number),
            "Scores must be finite numbers; drop rows without a score.",
            lambda n: f"{shown([cells[n]])} in row {n}, counted from 0",
        )
        item_code, items = encode(item_column, None, "item", item)
        rater_code, raters = encode(rater_column, None, "rater", rater)
        label, names = _classes(number, bins)
        codes = item_code, rater_code, label
        return replace(table_of_codes(cls, *codes, items, raters, names), ordered=True)


def _classes(score: NDArray[np.float64], bins: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the class of every score, and the names of the classes."""
    values, code, number = np.unique(score, return_inverse=True, return_counts=True)
    if len(values) < 2:
        raise ResponsesError(f"Scores must differ. Got: {shown(values.tolist())} in every row.")
    if len(values) <= bins:
        return code, values
    middle = (number.cumsum() - 0.5 * number) / number.sum()  # quantile of the middle of ties
    class_of = np.unique((bins * middle).astype(np.int64), return_inverse=True)[1]  # (values,)
    label = class_of[code]
    # medians are scores, so classes have short names
    ordered = np.sort(score)
    end = np.bincount(label).cumsum()
    return label, ordered[(np.append(0, end[:-1]) + end - 1) // 2]
