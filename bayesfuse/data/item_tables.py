"""What is known about items besides the responses: populations, covariates, a classifier's word.

All are read by item name from a table with one row per item, or in the order of the items.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, plain, shown
from bayesfuse.data.names import encode, listed, places
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.kernels import Array

CLOSE = 1e-3
"""The probabilities of a classifier may sum to one up to this, as single precision has them."""


def read_populations(
    units: NDArray[Any], given: Any, names: NDArray[Any] | None = None, unit: str = "item"
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the names of the populations, and the number of every unit's (units,).

    Parameters
    ----------
    units : ndarray
        Names of items, or of sequences.
    given : mapping, Series or array, shape (units,)
        Population by name (a column of a table of responses with their items as index may say it
        several times), or in the order of ``units``.
    names : ndarray, optional
        The populations there are. Default: those that occur, sorted.
    unit : {"item", "sequence"}

    Raises
    ------
    ResponsesError
        A unit in no population or in two; one that is not there; a population not in ``names``.
    """
    if isinstance(given, Mapping):
        given = pd.Series(dict(given), dtype=object).infer_objects()
    if isinstance(given, pd.Series):
        said = given.reset_index().set_axis([unit, "population"], axis=1).drop_duplicates()
        twice = said[unit][said[unit].duplicated()]
        if len(twice):
            raise ResponsesError(
                f"Every {unit} belongs to one population. Got: several for {unit} "
                f"{plain(twice.iloc[0])!r} ({twice.nunique()} such)."
            )
        order = _order(as_array(said[unit].to_numpy()), units, "populations=", unit)
        values = as_array(said["population"].to_numpy())[order]
    else:
        values = as_array(given)
        if values.ndim != 1 or len(values) != len(units):
            raise ResponsesError(
                f"populations= is a mapping (a dict, a pandas Series) from {unit}s to populations, "
                f"or has one entry for each of the {len(units)} {unit}s in their order. Got: "
                f"{type(given).__name__} of shape {np.shape(values)}."
            )
    if isinstance(values, pd.Categorical):
        values = as_array(values.to_numpy())
    missing = pd.isna(values)
    if missing.any():
        raise ResponsesError(
            f"Every {unit} must belong to a population; those of which it is not known can form "
            f"one of their own. Got: none for {shown(units[missing], 3)} "
            f"({int(missing.sum())} such)."
        )
    if names is None:
        return encode(values, None, "population", "populations=")[::-1]
    codes = places(values, names)
    if (unknown := np.flatnonzero(codes < 0)).size:
        raise ResponsesError(
            f"Populations must be among {shown(names)}. Got: {plain(values[unknown[0]])!r} for "
            f"{unit} {plain(units[unknown[0]])!r} ({len(unknown)} such)."
        )
    return names, codes


def read_covariates(
    responses: Responses, given: Any, names: list[str] | None = None
) -> tuple[list[str], Array]:
    """Return the names of the covariates, and their values (items, covariates).

    Parameters
    ----------
    given : DataFrame, Series or array, shape (items, covariates)
        Named columns, the index holding the items; or in the order of ``responses.items``, which
        names them "x1", "x2", ….
    names : list of str, optional
        The covariates that there must be, in this order.

    Raises
    ------
    ResponsesError
        Items that are missing or unknown; values that are missing, infinite or no numbers;
        columns with one name, or others than ``names``.
    """
    columns, table = _table("covariates=", responses, given)
    columns = [f"x{j + 1}" for j in range(table.shape[1])] if columns is None else columns
    columns = [str(column) for column in columns]
    if len(set(columns)) < len(columns) or not columns:
        raise ResponsesError(f"covariates= must have columns of different names. Got: {columns}.")
    if names is not None:
        if set(columns) != set(names):
            raise ResponsesError(f"covariates= must have the columns {names}. Got: {columns}.")
        table = table[:, [columns.index(name) for name in names]]
        columns = names
    if (broken := np.argwhere(~np.isfinite(table))).size:
        item, column = broken[0]
        raise ResponsesError(
            "covariates= must be finite numbers, none missing: fill gaps or leave the column out. "
            f"Got: {table[item, column]} in {columns[column]!r} for item "
            f"{plain(responses.items[item])!r} ({len(broken)} such)."
        )
    return columns, table


def read_classifier(responses: Responses, given: Any) -> Array:
    """Return a classifier's probabilities (items, classes).

    Parameters
    ----------
    given : DataFrame, DataArray or array, shape (items, classes)
        One column per class, under its name, the index holding the items; or in the order of
        ``responses.items`` and ``responses.classes``.

    Raises
    ------
    ResponsesError
        Items or classes that are missing or unknown; rows that are no probabilities.
    """
    if isinstance(given, xr.DataArray) and given.ndim == 2:
        given = given.transpose("item", "class").to_pandas()
    columns, table = _table("classifier=", responses, given)
    classes = responses.classes
    if columns is not None:
        code = places(as_array(columns), classes)
        if sorted(code) != list(range(len(classes))):
            raise ResponsesError(
                f"classifier= must have one column for each of the classes {shown(classes)}. Got: "
                f"{shown(columns)}."
            )
        table = table[:, np.argsort(code)]
    elif table.shape[1] != len(classes):
        raise ResponsesError(
            f"classifier= must have one column for each of the classes {shown(classes)}. Got: "
            f"{table.shape[1]} columns."
        )
    sound = np.isfinite(table).all(axis=1) & (table >= 0).all(axis=1)
    sound &= np.abs(table.sum(axis=1) - 1) < CLOSE
    if not sound.all():
        item = int(np.argmin(sound))
        raise ResponsesError(
            "Every row of classifier= must be probabilities that sum to one. Got: "
            f"{table[item].tolist()} for item {plain(responses.items[item])!r} "
            f"({int((~sound).sum())} such)."
        )
    return table


def _table(what: str, responses: Responses, given: Any) -> tuple[list[Any] | None, Array]:
    """Return the column names, None for an array, and numbers by item and column."""
    columns = None
    if isinstance(given, pd.Series):
        given = given.to_frame("x1" if given.name is None else given.name)
    if isinstance(given, pd.DataFrame):
        items = as_array(given.index.to_numpy())
        if given.index.has_duplicates:
            raise ResponsesError(
                f"{what} must have one row per item. Got: several for "
                f"{plain(given.index[given.index.duplicated()][0])!r}."
            )
        columns, values = listed(given.columns), given.to_numpy()
        values = values[_order(items, responses.items, what, "item")]
    else:
        values = np.asarray(given)
        if values.ndim != 2 or len(values) != responses.n_items:
            raise ResponsesError(
                f"{what} is a DataFrame whose index holds the items, or has one row for each of "
                f"the {responses.n_items} items in their order. Got: {type(given).__name__} of "
                f"shape {values.shape}."
            )
    try:
        return columns, values.astype(float)
    except (TypeError, ValueError):
        raise ResponsesError(
            f"{what} must hold numbers; make columns of zeros and ones of categories "
            "(pandas.get_dummies). Got: columns of other types."
        ) from None


def _order(given: NDArray[Any], names: NDArray[Any], what: str, unit: str) -> NDArray[np.int64]:
    """Return where every one of ``names`` stands in ``given``, which must be the same."""
    place = places(given, names)
    if (unknown := place < 0).any():
        raise ResponsesError(
            f"{what} must be of {unit}s that are there. Got: {shown(given[unknown], 3)}, which "
            f"are not ({int(unknown.sum())} such)."
        )
    if len(missing := np.setdiff1d(np.arange(len(names)), place)):
        raise ResponsesError(
            f"Every {unit} must be in {what}. Got: {shown(names[missing], 3)} missing "
            f"({len(missing)} such)."
        )
    return np.argsort(place)
