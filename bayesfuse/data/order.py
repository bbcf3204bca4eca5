"""Whether classes are grades: the order that users give, or that their names have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, shown
from bayesfuse.data.names import places
from bayesfuse.errors import ResponsesError


def with_order[T: Any](
    table: T, ordered: bool | None, declared: Any, frame: Any, label: str | None = None
) -> T:
    """Return a table of responses that knows whether its classes are ordered.

    ``declared`` are the classes, if the user gives them, ``frame`` is what was read, all of it or
    the column ``label``.
    """
    dtypes = column_dtypes(frame, None if label is None else [label])
    order = read_order(ordered, dtypes, declared, table.classes)
    changed: T = replace(table, ordered=order)
    return changed


def column_dtypes(frame: Any, names: Sequence[str] | None = None) -> list[Any]:
    """Return the types of columns, by default of all of a dataframe."""
    if isinstance(frame, pd.DataFrame):
        return frame.dtypes.tolist() if names is None else [frame[name].dtype for name in names]
    if names is None or not (isinstance(frame, Mapping) or hasattr(frame, "columns")):
        return []
    return [getattr(frame[name], "dtype", None) for name in names]


def read_order(
    ordered: bool | None, dtypes: list[Any], declared: Any, classes: NDArray[Any]
) -> bool:
    """Return whether the classes are ordered.

    Parameters
    ----------
    ordered : bool, optional
        As the user says; None to go by types and names.
    dtypes : list
        Types of the columns of labels, of which ordered categoricals have an order.
    declared : sequence, optional
        Classes, where the user gives them.
    classes : ndarray
        Their names, as they were read.
    """
    if ordered is not None and not isinstance(ordered, bool | np.bool_):
        raise ResponsesError(
            "ordered must be True or False, or left out where the names have an order. Got: "
            f"{ordered!r}."
        )
    if ordered is not None and not ordered:
        return False
    orders = [
        as_array(dtype.categories)
        for dtype in dtypes
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered
    ]
    for order in orders:
        place = places(order, classes)
        if (np.diff(place[place >= 0]) < 0).any():
            if ordered is None:
                return False
            raise ResponsesError(
                "The order of the classes is given twice, by classes= and by an ordered "
                "categorical, and must then be the same. Got: "
                f"{shown(classes)} and {shown(order)}."
            )
    categorical = bool(orders) and len(orders) == len(dtypes)
    by_name = classes.dtype.kind not in "US"  # numbers and times
    if ordered is None:
        return categorical or (by_name and bool((classes[1:] > classes[:-1]).all()))
    if declared is None and not (categorical or by_name):
        raise ResponsesError(
            "Text has no order but the alphabet's, so ordered=True needs classes= with the lowest "
            f"class first, or an ordered categorical. Got: {shown(classes)} and no classes=."
        )
    return True
