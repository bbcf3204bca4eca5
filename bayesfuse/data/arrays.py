"""Convert columns, lists, masked, lazy and categorical values to arrays, exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_list_like

from bayesfuse.errors import ResponsesError
from bayesfuse.errors.messages import SHORT, abridged, brief, masked

MAX_EXACT_FLOAT = 2**53  # above this, floats do not hold every whole number
NARROWER: dict[str, tuple[type, ...]] = {
    "empty": (np.float64,),
    "boolean": (np.bool_,),
    "integer": (np.int64, np.uint64),
    "floating": (np.float64,),
    "mixed-integer-float": (np.float64,),
}
"""Exact array types for each kind of objects that ``infer_dtype`` names."""

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
"""Text that means a missing label; all else, "None" and "null" included, is a name."""

SKIPPED = {"?", "abstain", "abstained", "ignore", "ignored", "skip", "skipped"}
"""Labels for tasks that an annotator left out, of tools and people, in any case."""

MAX_LETTERS = 40  # letters of a cell that a message shows


def columns(frame: Any, names: Sequence[str], what: str) -> list[Any]:
    """Return columns of a table of ``what``, arrays or Categoricals of one length, not empty."""
    frame = present(frame)
    known = column_names(frame)
    refuse_several(names, known or [])
    if missing := [name for name in names if name not in (known or [])]:
        description = (
            brief(frame) if known is None else f"no column {missing[0]!r} among {shown(known)}"
        )
        raise ResponsesError(
            f"Arguments such as item=, rater= and label= name columns of a table of {what}; "
            "pd.read_csv reads it from a file, and bf.Responses.from_matrix reads responses with a "
            f"column per rater. Got: {description}."
        )
    values = [as_array(frame[name]) for name in names]
    shapes = [array.shape for array in values]
    if len({*shapes}) > 1 or len(shapes[0]) != 1:
        pairs = zip(names, shapes, strict=True)
        shapes_in_words = ", ".join(f"{name!r} of shape {shape}" for name, shape in pairs)
        raise ResponsesError(
            "All columns must have the same length, one value per row and unique names; "
            "pd.DataFrame.from_dict(table, orient='index') reads {item: {rater: label}}. Got: "
            f"{shapes_in_words}."
        )
    if shapes[0] == (0,):
        raise ResponsesError(
            f"A table of {what} must have at least one row. Got: no rows in {names[0]!r}."
        )
    return values


def refuse_several(requested: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise ResponsesError if a column is requested by the names of several."""
    for name in requested:
        several = name.split(",") if isinstance(name, str) and name not in names else name
        if not isinstance(several, list) or (name is not several and {*several} - {*names}):
            continue
        if len(several) > 1 or name is several:
            raise ResponsesError(
                "An item, rater, label or sequence is named by one column; make one of several, as "
                f"in frame['item'] = frame[{several}].astype(str).agg(' / '.join, axis=1), also in "
                f"the table of known labels. Got: {name!r}."
            )


def refuse(wrong: Any, rule: str, describe: Callable[[int], str]) -> None:
    """Raise ResponsesError with the first place that is wrong, if any, and how many there are."""
    if len(rows := np.flatnonzero(wrong)):
        raise ResponsesError(f"{rule} Got: {describe(int(rows[0]))} ({len(rows)} such).")


def as_array(values: Any) -> Any:
    """Return values unchanged as an array (masked entries missing) or, if so, a Categorical."""
    values = present(values)
    if isinstance(values, xr.DataArray):
        values = values.data
    if isinstance(values, pd.MultiIndex):
        values = values.to_numpy()
    if isinstance(values, pd.Index | pd.api.extensions.ExtensionArray):
        values = pd.Series(values)
    arrow = hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")
    if isinstance(values, pd.DataFrame | pd.Series):
        arrow = isinstance(getattr(values, "dtype", None), pd.ArrowDtype)
    if arrow:
        values = _from_arrow(values)
    if isinstance(values, pd.Series):
        if isinstance(values.dtype, pd.CategoricalDtype):
            return pd.Categorical(values)
        # pandas turns nullable integers with missing values into floats
        exact = pd.api.types.is_extension_array_dtype(values.dtype) and values.hasnans
        values = values.to_numpy(dtype=object if exact else None)
    elif isinstance(values, Mapping) or not hasattr(values, "__array__"):
        values = _objects(values)
    if isinstance(values, np.ma.MaskedArray):
        values = _unmasked(values)
    array = np.asarray(values)
    if not array.dtype.isnative:  # foreign byte order
        array = array.astype(array.dtype.newbyteorder("="))
    kind = array.dtype.kind
    if kind == "M":
        return _times(array)
    if kind in "OT" or (kind == "f" and array.dtype.itemsize not in (4, 8)):
        return narrow(array.astype(object))
    return array


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as an array of booleans, numbers or times if no value changes."""
    kind = infer_dtype(values.ravel(), skipna=False)
    if kind == "datetime64":
        return _times(np.array(values.tolist()))  # in the finest unit
    if kind in ("date", "datetime"):  # pandas reads a date as midnight
        days = {isinstance(value, datetime) for value in values.flat}
        return _times(values) if len(days) == 1 else values
    for dtype in NARROWER.get(kind, ()):
        try:
            array: NDArray[Any] = values.astype(dtype)
        except OverflowError:
            continue
        if np.all((array.astype(object) == values) | (values != values)):
            return array
    return values


def _times(values: NDArray[Any]) -> NDArray[Any]:
    """Return dates or times in a unit of pandas (s to ns), objects with a time zone unchanged."""
    objects, array = values.dtype == object, None
    with suppress(ValueError, TypeError):  # out of bounds or several time zones
        times = pd.DatetimeIndex(values.ravel())
        if times.tz is not None:
            return values
        array = times.to_numpy().reshape(values.shape)
    if array is None and objects:
        return values
    if array is None or not (objects or np.all((array == values) | np.isnat(values))):
        raise ResponsesError(
            "Times must be whole nanoseconds, the finest unit in files, and fit 64 bits. Got: "
            f"{values.dtype}."
        )
    return array


def _objects(values: Any) -> NDArray[Any]:
    """Return a (nested) list as an array of objects, anything else as a scalar array."""
    is_scalar = not is_list_like(values) or isinstance(values, Set | Mapping)
    if is_scalar or scipy.sparse.issparse(values):
        array = np.empty((), dtype=object)
        array[()] = values
        return array
    rows = [
        _unmasked(row).tolist() if isinstance(row, np.ma.MaskedArray) else row for row in values
    ]
    try:
        return np.array(rows, dtype=object)
    except ValueError:  # of several lengths
        return np.fromiter(rows, dtype=object, count=len(rows))


def _unmasked(values: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Return the values with NaN, NaT or None for masked ones."""
    mask, data = np.ma.getmaskarray(values), np.asarray(values.data)
    if not mask.any():
        return data
    absent: Any = {"f": np.nan, "M": np.datetime64("NaT", "s")}.get(data.dtype.kind)
    data = data.astype(object) if absent is None else data.copy()
    data[mask] = absent
    return data


def present(values: Any) -> Any:
    """Compute lazy Dask or Polars values."""
    for fetch in ("compute", "collect"):
        values = getattr(values, fetch)() if hasattr(values, fetch) else values
    return values


def _from_arrow(values: Any) -> Any:
    """Convert a column with the Arrow interface (pyarrow, Polars, …) to pandas."""
    kind = str(values.dtype) if hasattr(values, "dtype") else ""
    if kind.startswith("Categorical"):  # Polars sorts these as text, unlike an Enum
        values = values.cast(str)
    try:
        import pyarrow as pa
    except ImportError:
        if kind.startswith("Enum"):
            raise ResponsesError(
                "Reading an Enum column needs pyarrow, which keeps the order of its categories: "
                f"install it, or give text. Got: {kind[:40]}."
            ) from None
        return values.to_numpy()
    if isinstance(values, pd.Series):
        values = values.array
    read = pa.chunked_array if hasattr(values, "__arrow_c_stream__") else pa.array
    return pd.Series(read(values).to_pandas(integer_object_nulls=True))


def column_names(frame: Any) -> list[Any] | None:
    """Return the column names of a table, None for anything else."""
    if isinstance(frame, Mapping):
        return [*frame, *getattr(frame, "coords", ())]  # including coordinates of a Dataset
    names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None:
        names = getattr(getattr(frame, "dtype", None), "names", None)  # an array of records
    return None if names is None else list(names)


def as_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python value."""
    return value.item() if isinstance(value, np.generic) else value


def quoted(value: Any, most: int = MAX_LETTERS) -> str:
    """Return a cell or name as a message shows it: masked, then abridged."""
    return abridged(masked(repr(as_python(value))), most)


def shown(values: Any, most: int = 8) -> str:
    """Format the first values, for an error."""
    listed = [quoted(value) for value in list(values)[:most]]
    while len(listed) > 1 and sum(map(len, listed)) > SHORT:
        listed.pop()
    return "[" + ", ".join(listed) + (", …]" if len(values) > len(listed) else "]")


def fit_floats(arrays: Sequence[NDArray[Any]]) -> bool:
    """Return whether floats hold all these numbers exactly."""
    integers = [array for array in arrays if array.dtype.kind != "f" and array.size]
    return all(
        array.min() >= -MAX_EXACT_FLOAT and array.max() <= MAX_EXACT_FLOAT for array in integers
    )
