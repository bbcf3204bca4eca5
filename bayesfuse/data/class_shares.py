"""What a user says of the shares of the classes: numbers, or intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.numerics.kernels import Array

RULE = "class_shares must be positive numbers that sum to one, or intervals (low, high) of such"

WIDTH = 3.29
"""Standard deviations of a normal distribution that hold 90 % of it."""


def read_shares(given: Any, responses: Responses) -> tuple[Array | None, Array | None]:
    """Return known shares (classes,), or the Dirichlet concentration that intervals mean.

    One of both is None; both are if nothing is given. Intervals fix the mean of every share, at
    their middles scaled to sum one, and their widths together the concentration.

    Raises
    ------
    ModelError
        Not a share for every class; shares or intervals outside (0, 1), shares that do not sum to
        one, intervals with low above high or no room for that.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> table = bf.Responses.from_matrix([["ham", "spam"]], classes=["ham", "spam"])
    >>> read_shares({"spam": 0.2, "ham": 0.8}, table)[0]
    array([0.8, 0.2])
    >>> read_shares({"spam": (0.1, 0.3), "ham": (0.7, 0.9)}, table)[1].round()
    array([34.,  8.])
    """
    if given is None:
        return None, None
    values = require_numbers("class_shares", _in_order(given, responses))
    n_classes = responses.n_classes
    if values.shape not in ((n_classes,), (n_classes, 2)):
        raise ModelError(f"{RULE}, one for each of {n_classes} classes. Got: shape {values.shape}.")
    if not np.all((values > 0) & (values < 1)):
        raise ModelError(f"{RULE}; leave out classes that do not occur. Got: {values.tolist()}.")
    if values.ndim == 1:
        if abs(values.sum() - 1.0) > 1e-6:
            raise ModelError(f"{RULE}. Got: {values.tolist()}, of sum {values.sum():.6g}.")
        return values / values.sum(), None
    low, high = values.T
    if np.any(low >= high) or low.sum() > 1 or high.sum() < 1:
        raise ModelError(
            f"{RULE}, low below high, with shares among them that sum to one. Got: "
            f"{values.tolist()}."
        )
    mean = values.mean(axis=1) / values.mean(axis=1).sum()
    concentration = mean * (1 - mean) / ((high - low) / WIDTH) ** 2 - 1.0
    return None, mean * max(float(np.median(concentration)), 1.0)


def _in_order(given: Any, responses: Responses) -> Any:
    """Return the values of a mapping in the order of the classes."""
    if not isinstance(given, Mapping):
        return given
    classes = responses.classes.tolist()
    if unknown := [name for name in given if name not in classes]:
        raise ModelError(f"{RULE}, by class, of {classes}. Got: {unknown[0]!r}.")
    if left := [name for name in classes if name not in given]:
        raise ModelError(f"{RULE}, for every class. Got: none for {left[0]!r}.")
    if len({np.ndim(value) for value in given.values()}) > 1:
        raise ModelError(f"{RULE}, not some of each. Got: {dict(given)}.")
    return [given[name] for name in classes]
