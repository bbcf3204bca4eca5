"""Errors and checks of arguments. Messages name the rule, the reason and what was given."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesfuse.errors.messages import brief, discreet

SUM_TOLERANCE = 1e-6  # of sums of probabilities, which may be read from printed numbers

__all__ = [
    "ClusterError",
    "CollapseWarning",
    "ImpossibleDataError",
    "InapplicableError",
    "IncompleteWarning",
    "LargeResultWarning",
    "ModelError",
    "MomentsError",
    "NewRatersWarning",
    "NoGroupsWarning",
    "PoorFitWarning",
    "QuickAnswerWarning",
    "ResponsesError",
]
__dir__ = __all__.copy


class Refusal(Exception):
    """Base class of errors whose message may show data of the user."""

    def __init__(self, message: object = "", *details: object) -> None:
        super().__init__(discreet(str(message)), *details)


class ResponsesError(Refusal, ValueError):
    """Invalid responses, sequences, graphs or gold labels.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.Responses.from_matrix([[0, 1], [1, 2]], classes=[0, 1])
    Traceback (most recent call last):
        ...
    bayesfuse.errors.ResponsesError: Every class in 'labels' must be among ... Got: 2 ...
    """


class ModelError(Refusal, ValueError):
    """Invalid or incompatible priors, parameters or data of a model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.models.DawidSkene(bf.datasets.caries(), raters="experts")
    Traceback (most recent call last):
        ...
    bayesfuse.errors.ModelError: raters must be 'confusion', ... Got: 'experts'.
    """


class ImpossibleDataError(ModelError):
    """The responses to some item have probability zero under every class.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> with bf.build.LabelModel([[0, 1]]) as model:
    ...     raters = bf.build.Confusion([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    ...     _ = model.observe(labels=bf.build.Independent([0.5, 0.5]), raters=raters)
    >>> bf.find_map(model)
    Traceback (most recent call last):
        ...
    bayesfuse.errors.ImpossibleDataError: Every item must be possible under some labels, ...
    """


class InapplicableError(ModelError):
    """The table does not allow a check, for the reason that the message gives.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene([[0, None], [None, 1]])
    >>> bf.checks.item_difficulty(bf.find_map(model), model)
    Traceback (most recent call last):
        ...
    bayesfuse.errors.InapplicableError: Agreement needs items with two responses. Got: no such item.
    """


MAX_SHOWN = 8  # numbers that a message shows

MADE_BY = {
    "Responses": " (bf.fuse and models also take a DataFrame or a two-dimensional array): "
    "bf.Responses.from_long reads a table with one row per response (pd.read_csv reads it from a "
    "file), bf.Responses.from_matrix one with a column per rater",
    "DataArray": ", such as bf.draw_labels(result)",
    "DataTree": " as bf.sample, bf.fit or bf.find_map returns it, with all groups (bf.load reads a "
    "saved one)",
    "Model": ", such as bf.models.DawidSkene(responses)",
    "Sequences": ": bf.Sequences.from_table(frame) reads the columns item, sequence and position, "
    "bf.Sequences.from_lengths([3, 2]) cuts items in order",
    "Graph": ", such as bf.Graph.from_edges(pairs)",
    "LabelPrior": ", such as bf.build.Independent(prevalence)",
    "RaterChannel": ", such as bf.build.Confusion(rows)",
}
"""Text of messages on how to make arguments of a class."""


def _refuse(name: str, rule: str, value: object) -> NoReturn:
    raise ModelError(f"{name} must be {rule}. Got: {brief(value)}.")


def require_shape(name: str, shape: tuple[int | None, ...], **expected: int) -> None:
    """Raise ModelError unless ``shape`` is the expected one; None matches any size."""
    sizes = tuple(expected.values())
    known = [size if actual is None else actual for actual, size in zip(shape, sizes, strict=False)]
    if len(shape) != len(sizes) or tuple(known) != sizes:
        axes = ", ".join(f"{size} {axis}" for axis, size in expected.items())
        raise ModelError(f"{name} must have shape ({axes}). Got: shape {shape}.")


def require_kind(name: str, value: Any, kind: type) -> Any:
    """Return an instance of ``kind``, or raise ModelError."""
    if not isinstance(value, kind):
        home = kind.__module__.partition(".")[0]
        package = {"LabelPrior": "bf.labels", "RaterChannel": "bf.raters"}.get(kind.__name__, "bf")
        module = {"pymc": "pm", "xarray": "xr", "pandas": "pd"}.get(home, package)
        hint = MADE_BY.get(kind.__name__, "")
        text = brief(value) if isinstance(value, str) else type(value).__name__
        raise ModelError(f"{name} must be a {module}.{kind.__name__}{hint}. Got: {text}.")
    return value


def require_name(noun: str, value: object) -> None:
    """Raise ModelError unless ``value`` can be the name of a variable in a file."""
    if not isinstance(value, str) or "/" in value or not value.isprintable():
        raise ModelError(
            f"The name of a {noun} must be text of printable characters other than '/', so that "
            f"results can be saved. Got: {brief(value)}."
        )


def require_names(name: str, value: Any) -> list[Any]:
    """Return names as a list, or raise ModelError if they are text, empty or not iterable."""
    if isinstance(value, str) or not np.iterable(value) or not (names := list(value)):
        _refuse(name, "a list of at least one name", value)
    return names


def require_mapping(name: str, value: Any) -> None:
    """Raise ModelError unless ``value`` is a mapping, which a frame of columns is not."""
    if not callable(getattr(value, "items", None)) or hasattr(value, "columns"):
        _refuse(name, 'a mapping from names, as in {"name": …}', value)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, whatever calls of this package and of PyMC lie between."""
    package = Path(__file__).parents[1]
    folders = [package, package.parent / "models"]
    if pymc := sys.modules.get("pymc"):
        folders.append(Path(str(pymc.__file__)).parent)
    # prefixes: Python 3.12 does not compare the last character of a path
    skipped = (
        contextlib.__file__.removesuffix(".py"),
        *(f"{folder}{os.sep}" for folder in folders),
    )
    warnings.warn(discreet(message), category, skip_file_prefixes=skipped)


def require_flag(name: str, value: object) -> None:
    """Raise ModelError unless ``value`` is a boolean."""
    if not isinstance(value, bool | np.bool_):
        _refuse(name, "True or False", value)


def require_choice(name: str, value: object, *choices: str) -> None:
    """Raise ModelError unless ``value`` is one of the choices."""
    if not (isinstance(value, str) and value in choices):
        *first, last = map(repr, choices)
        raise ModelError(f"{name} must be {', '.join(first)} or {last}. Got: {value!r}.")


def require_count(name: str, value: object, least: int = 1) -> None:
    """Raise ModelError unless ``value`` is a whole number, at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        _refuse(name, f"a whole number, at least {least}", value)


def require_seed(random_seed: Any) -> np.random.Generator:
    """Return the generator of a seed, or raise ModelError."""
    try:
        return np.random.default_rng(random_seed)
    except (TypeError, ValueError):
        _refuse("random_seed", "a whole number, zero or more, or a Generator", random_seed)


def require_probability(name: str, value: object) -> float:
    """Return a probability strictly between 0 and 1, or raise ModelError."""
    if not 0 < (number := _number(value)) < 1:
        _refuse(name, "a probability strictly between 0 and 1 (0.9, not 90)", value)
    return number


def require_number(name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """Return a finite number from ``least`` to ``most``, or raise ModelError."""
    number = _number(value)
    if not (least <= number <= most and number < math.inf):
        ends = f", {least:g} or more" if most == math.inf else f" from {least:g} to {most:g}"
        _refuse(name, f"a finite number{ends}", value)
    return number


def require_positive(name: str, value: object) -> float:
    """Return a positive, finite number, or raise ModelError."""
    if not 0 < (number := _number(value)) < math.inf:
        _refuse(name, "a positive, finite number", value)
    return number


def require_numbers(name: str, value: Any) -> NDArray[np.float64]:
    """Return numbers as an array of floats, or raise ModelError."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"{name} must hold numbers only. Got: {brief(value)}.") from None


def require_probabilities(name: str, value: Any, *, rows: bool = False) -> None:
    """Raise ModelError unless numbers are probabilities, or ``rows`` of these that sum to one."""
    values = require_numbers(name, value)
    is_valid, rule, remedy = (values >= 0) & (values <= 1), "probabilities", "sigmoid"
    if rows:
        is_valid &= np.abs(values.sum(axis=-1, keepdims=True) - 1) < SUM_TOLERANCE
        rule, remedy = "rows of probabilities that sum to one", "softmax"
    if is_valid.all():
        return
    require_no_nan(name, values)
    row = values[~is_valid.all(axis=-1)][0] if values.ndim > 1 else values
    shown = ", ".join(f"{number:.4g}" for number in np.atleast_1d(row)[:MAX_SHOWN])
    ellipsis = ", …" if row.size > MAX_SHOWN else ""
    raise ModelError(
        f"{name} must hold {rule}, because it is used as probabilities (pm.math.{remedy} turns any "
        f"numbers into such). Got: [{shown}{ellipsis}]."
    )


def require_no_nan(name: str, values: Any) -> None:
    """Raise ModelError if a number of a model is NaN."""
    if n_missing := int(np.isnan(values).sum()):
        raise ModelError(
            f"{name} must hold numbers, and NaN is none: does a covariate lack a value? Got: NaN "
            f"in {n_missing:,} of {values.size:,} entries."
        )


def require_weights(name: str, weights: Mapping[Any, Any]) -> list[float]:
    """Return weights scaled to sum to one, or raise ModelError."""
    numbers = [_number(weight) for weight in weights.values()]
    largest = max(numbers, default=0.0)
    if not all(0 <= weight < math.inf for weight in numbers) or largest == 0:
        rule = "finite and not negative, and not all zero, to be scaled to sum one"
        _refuse(name, rule, dict(weights))
    total = math.fsum(weight / largest for weight in numbers)  # the plain sum may overflow
    return [weight / largest / total for weight in numbers]


def _number(value: object) -> float:
    """Return a real number as a float, NaN for anything else."""
    try:
        return math.nan if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


class MomentsError(Refusal, ValueError):
    """The responses do not determine the requested moments.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.sml(bf.Responses.from_matrix([[0, 1], [1, 1]]))
    Traceback (most recent call last):
        ...
    bayesfuse.errors.MomentsError: A rank-one matrix needs at least three raters, ...
    """


class ClusterError(RuntimeError):
    """The Dask cluster is not available.

    Examples
    --------
    >>> import contextlib, bayesfuse as bf
    >>> with contextlib.suppress(bf.errors.ClusterError):
    ...     point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    """


class PoorFitWarning(UserWarning):
    """A variational fit is far from the posterior or did not converge, or errors go on in a chain.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("ignore", bf.errors.PoorFitWarning)  # a rough answer will do
    """


class IncompleteWarning(UserWarning):
    """Post-processing of the draws was interrupted: the result is incomplete.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("error", bf.errors.IncompleteWarning)  # no incomplete results
    """


class LargeResultWarning(UserWarning):
    """All draws would take much memory: single precision, or fewer of them, are stored.

    There is none if ``precision=`` and ``thin=`` are given.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("error", bf.errors.LargeResultWarning)  # do not begin such a fit
    """


class CollapseWarning(UserWarning):
    """The labels collapsed: a class with many votes has no items.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("error", bf.errors.CollapseWarning)  # refuse such results
    """


class QuickAnswerWarning(UserWarning):
    """The time was too short for any model: labels are vote shares.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("ignore", bf.errors.QuickAnswerWarning)  # vote shares will do
    """


class NewRatersWarning(UserWarning):
    """Raters of new responses are not in the result: nothing is known of how good they are.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("ignore", bf.errors.NewRatersWarning)  # they are new indeed
    """


class NoGroupsWarning(UserWarning):
    """No raters seem to share a source, so the model has no groups.

    Examples
    --------
    >>> import warnings, bayesfuse as bf
    >>> warnings.simplefilter("ignore", bf.errors.NoGroupsWarning)  # models without groups will do
    """
