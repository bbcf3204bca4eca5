"""Inputs besides the responses: true classes, shares of classes, tables by item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, as_python, narrow, quoted, refuse, shown
from bayesfuse.data.class_names import as_spelt
from bayesfuse.data.gold_tables import Names
from bayesfuse.data.names import encode, listed, matched, places
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, ResponsesError, require_numbers
from bayesfuse.numerics.kernels import Array

SHARES = "class_shares must be positive numbers that sum to one, or intervals (low, high) of such"
NORMAL_WIDTH = 3.29  # width of the central 90 % of a normal distribution, in standard deviations
SUM_TOLERANCE = 1e-3  # of sums of a classifier's probabilities, perhaps in single precision


def gold_labels(responses: Responses | Names, gold: Mapping[Any, Any] | None) -> NDArray[np.int64]:
    """Return the index of the known class of every item, −1 where unknown (items,)."""
    known = np.full(len(responses.items), -1)
    if gold is not None:
        require_gold(gold)
    if gold is None or len(gold) == 0:
        return known
    columns = zip(*gold.items(), strict=True)
    items, labels = map(_places, columns, (responses.items, responses.classes))
    for (item, label), index, code in zip(gold.items(), items, labels, strict=True):
        if index < 0:
            raise unknown_item(item, responses.items, int((items < 0).sum()))
        if code < 0:
            raise ResponsesError(
                f"Gold labels must be among the classes {shown(responses.classes)}; leave out "
                f"items whose class is not known{_unlike(label, responses)}. Got: "
                f"{quoted(label)} for item {quoted(item)}."
            )
        if known[index] not in (-1, code):
            raise ResponsesError(
                f"An item has one true class. Got: gold labels {quoted(label)} and "
                f"{quoted(responses.classes[known[index]])} for item {quoted(item)}."
            )
        known[index] = code
    return known


def _unlike(label: Any, responses: Responses | Names) -> str:
    """Return in words that a label differs from a class in spelling only."""
    (spelt,) = as_spelt([label], responses.classes)
    return "" if spelt == label else f", and spell {spelt!r} as the class is (or normalise=True)"


def require_gold(gold: Any) -> None:
    """Raise ResponsesError unless gold labels are a mapping."""
    if not isinstance(gold, Mapping | pd.Series):
        raise ResponsesError(
            "gold= is a mapping (a dict, a pandas Series) from item names to class names. Got: "
            f"{type(gold).__name__}."
        )


def unknown_item(item: Any, names: Any = None, number: int = 1) -> ResponsesError:
    """Return the error for a gold label of an item that is not in the table."""
    example = "" if names is None else f", such as {shown(names, 3)}"
    note = f" ({number:,} such)" if number > 1 else ""
    if names is not None and str(item) in set(map(str, names.tolist())):
        kind = type(names.tolist()[0]).__name__
        note += f": only the type differs, so give items as {kind}, not {type(item).__name__}"
    return ResponsesError(
        f"Gold labels must be of items that are in the table{example}; leave out others, or "
        f"declare items without responses by items= of bf.Responses.from_long. Got: "
        f"{quoted(item)}, which is not{note}."
    )


def is_in_table(responses: Responses, gold: Mapping[Any, Any]) -> NDArray[np.bool_]:
    """Return which of the items with gold labels are in a table."""
    return _places(list(gold.keys()), responses.items) >= 0


def _places(values: Sequence[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    return places(narrow(np.fromiter(values, dtype=object, count=len(values))), names)


def read_shares(shares: Any, responses: Responses) -> tuple[Array | None, Array | None]:
    """Return shares (classes,), or the concentration that intervals of shares stand for."""
    if shares is None:
        return None, None
    classes = responses.classes.tolist()
    if isinstance(shares, Mapping):
        if set(shares) != set(classes):
            raise ModelError(f"{SHARES}, by class, of {classes}. Got: {[*shares]}.")
        shares = [shares[name] for name in classes]
    values = require_numbers("class_shares", shares)
    if values.shape not in ((len(classes),), (len(classes), 2)):
        raise ModelError(f"{SHARES}, one for each of {classes}. Got: shape {values.shape}.")
    if not np.all((values > 0) & (values < 1)):
        raise ModelError(f"{SHARES}; leave out classes that do not occur. Got: {values.tolist()}.")
    low, high = (values - 1e-6, values + 1e-6) if values.ndim == 1 else values.T
    if np.any(low >= high) or low.sum() > 1 or high.sum() < 1:
        raise ModelError(
            f"{SHARES}, low below high, with shares among them that sum to one. Got: "
            f"{values.tolist()}."
        )
    if values.ndim == 1:
        return values / values.sum(), None
    mean = values.mean(axis=1) / values.mean(axis=1).sum()
    concentration = mean * (1 - mean) / ((high - low) / NORMAL_WIDTH) ** 2 - 1.0
    return None, mean * max(float(np.median(concentration)), 1.0)


def read_populations(
    units: NDArray[Any],
    groups: Any,
    names: NDArray[Any] | None = None,
    unit: str = "item",
    *,
    what: str = "populations=",
    group: str = "population",
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return names of populations and the code of every unit, given by name or in order."""
    if isinstance(groups, Mapping):
        groups = pd.Series(dict(groups), dtype=object).infer_objects()
    if isinstance(groups, pd.Series):
        distinct = groups[~groups.reset_index().duplicated().to_numpy()]
        groups = _in_order(distinct, units, what, unit)
    values = as_array(groups)
    if values.ndim != 1 or len(values) != len(units):
        hint, kind = "", f"{type(groups).__name__} of shape {np.shape(values)}"
        if isinstance(groups, str):
            column = quoted(groups)
            hint = f"; for a column of your table, pass frame.groupby({unit!r})[{column}].first()"
            kind = column
        elif hasattr(groups, "free_RVs"):
            kind = f"a model ({type(groups).__name__}), which results make needless here"
        raise ResponsesError(
            f"{what} is a mapping (a dict, a pandas Series) from {unit}s to {group}s, or has one "
            f"entry for each of the {len(units)} {unit}s in their order{hint}. Got: {kind}."
        )
    if isinstance(values, pd.Categorical):
        values = as_array(values.to_numpy())
    missing = pd.isna(values)
    rule = f"Every {unit} must belong to a {group}; {unit}s of an unknown {group} can form one."
    refuse(missing, rule, lambda _: f"none for {shown(units[missing], 3)}")
    if names is None:
        return encode(values, None, group, what)[::-1]
    codes = places(values, names)
    rule = f"Populations of new {unit}s must be among those of the fit, {shown(names)}."
    refuse(codes < 0, rule, lambda n: f"{quoted(values[n])} for {unit} {quoted(units[n])}")
    return names, codes


def read_covariates(
    responses: Responses, covariates: Any, names: list[str] | None = None
) -> tuple[list[str], Array]:
    """Return names of covariates, those given if any, and values (items, covariates)."""
    columns, table = _table("covariates=", responses, covariates)
    columns = [f"x{j + 1}" for j in range(table.shape[1])] if columns is None else columns
    columns = [str(column) for column in columns]
    if len(set(columns)) < len(columns) or not columns:
        raise ResponsesError(f"covariates= must have columns of different names. Got: {columns}.")
    if names is not None:
        if set(columns) != set(names):
            raise ResponsesError(f"covariates= must have the columns {names}. Got: {columns}.")
        table = table[:, [columns.index(name) for name in names]]
        columns = names
    n_columns = len(columns)
    refuse(
        ~np.isfinite(table),
        "covariates= must be finite numbers, none missing: fill gaps or leave the column out.",
        lambda n: (
            f"{table.flat[n]} in {columns[n % n_columns]!r} for item "
            f"{as_python(responses.items[n // n_columns])!r}"
        ),
    )
    return columns, table


def read_classifier(responses: Responses, classifier: Any) -> Array:
    """Return a classifier's probabilities (items, classes), given by item and class or in order."""
    if isinstance(classifier, xr.DataArray) and classifier.ndim == 2:
        classifier = classifier.transpose("item", "class").to_pandas()
    columns, table = _table("classifier=", responses, classifier)
    classes, order = responses.classes, np.arange(table.shape[1])
    if columns is not None:
        code = places(as_array(columns), classes)
        order = np.argsort(code) if sorted(code) == list(range(len(classes))) else order[:0]
    if len(order) != len(classes):
        raise ResponsesError(
            f"classifier= must have one column for each of the classes {shown(classes)}. Got: "
            f"{f'{table.shape[1]} columns' if columns is None else shown(columns)}."
        )
    table = table[:, order]
    is_valid = np.isfinite(table).all(axis=1) & (table >= 0).all(axis=1)
    is_valid &= np.abs(table.sum(axis=1) - 1) < SUM_TOLERANCE
    rule = "Every row of classifier= must be probabilities that sum to one."
    refuse(
        ~is_valid, rule, lambda n: f"{table[n].tolist()} for item {as_python(responses.items[n])!r}"
    )
    return table


def _table(what: str, responses: Responses, table: Any) -> tuple[list[Any] | None, Array]:
    """Return the column names, None for an array, and numbers by item and column."""
    columns = None
    if isinstance(table, pd.Series):
        table = table.to_frame("x1" if table.name is None else table.name)
    if isinstance(table, pd.DataFrame):
        columns = listed(table.columns)
        values = _in_order(table, responses.items, what, "item").to_numpy()
    else:
        values = np.asarray(table)
        if values.ndim != 2 or len(values) != responses.n_items:
            raise ResponsesError(
                f"{what} is a DataFrame whose index holds the items, or has one row for each of "
                f"the {responses.n_items} items in their order. Got: {type(table).__name__} of "
                f"shape {values.shape}."
            )
    try:
        return columns, values.astype(float)
    except (TypeError, ValueError):
        raise ResponsesError(
            f"{what} must hold numbers; convert categories to columns of zeros and ones "
            "(pandas.get_dummies). Got: columns of other types."
        ) from None


def _in_order[T: (pd.Series, pd.DataFrame)](table: T, names: Any, what: str, unit: str) -> T:
    """Return the rows in the order of ``names``, which must be those of the index, each once."""
    index = table.index
    if index.has_duplicates:
        raise ResponsesError(
            f"Every {unit} has one value or row in {what}. Got: several for "
            f"{quoted(index[index.duplicated()][0])}."
        )
    rule = (
        f"{what} must be of {unit}s that are in the table, because rows are matched by their index "
        f"(.to_numpy() leaves it out, and has the order of the {unit}s)."
    )
    index_of_row = matched(
        as_array(index.to_numpy()), names, rule, f"Every {unit} must be in {what}."
    )
    return table.iloc[np.argsort(index_of_row)]
