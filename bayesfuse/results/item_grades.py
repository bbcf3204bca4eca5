"""The true grade of every item, where classes are ordered."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import constants
from bayesfuse.results.posterior import ORDERED
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def item_grades(result: xr.DataTree | xr.DataArray, *, ci_prob: float | None = None) -> xr.Dataset:
    """Return the posterior mean and median of the true grade of every item.

    Parameters
    ----------
    result : DataTree or DataArray
        A result for ordered classes, or label probabilities (item, class), the classes in order.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, by item
        ``mean`` and ``sd`` of the grade as a number: the class if classes are numbers, else its
        position from 0. ``median``, and ``low`` to ``high``, its interval, are classes.

    Raises
    ------
    ModelError
        The classes of the result are not ordered; no label probabilities.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> shares = bf.vote_shares(bf.datasets.anesthesia())
    >>> grades = bf.decisions.item_grades(bf.label_probabilities(shares)).sel(item=[1, 3])
    >>> grades["median"].values.tolist(), grades["mean"].values.round(1).tolist()
    ([1, 2], [1.2, 1.7])
    """
    if isinstance(result, xr.DataTree):
        require_ordered(result)
    probability = label_probabilities(result)
    values = class_values(probability["class"].values)
    share = probability.values
    mean = share @ values
    sd = np.sqrt(np.maximum(share @ values**2 - mean**2, 0.0))
    low, high = tails(ci_prob)
    # rounding may leave the last sum a little below one
    up_to = np.minimum(share.cumsum(axis=1) + 1e-12, 1.0)
    columns = {"mean": mean, "sd": sd}
    for name, level in (("median", 0.5), ("low", low), ("high", high)):
        columns[name] = probability["class"].values[(up_to < level).sum(axis=1)]
    return xr.Dataset(
        {name: ("item", column) for name, column in columns.items()},
        {"item": probability["item"].values},
    )


def require_ordered(result: xr.DataTree) -> None:
    """Raise ModelError unless the classes of a result are ordered."""
    known = constants(result)
    if not known.attrs.get(ORDERED, 0):
        names = known["class"].values.tolist() if "class" in known.coords else "no classes"
        raise ModelError(
            "Grades need ordered classes: read the table with classes= in order and ordered=True, "
            f"or from an ordered categorical. Got: {names}, not declared to be ordered."
        )


def class_values(classes: NDArray[np.generic]) -> Array:
    """Return classes as numbers, or the places of others."""
    if classes.dtype.kind in "iuf":
        return classes.astype(float)
    return np.arange(len(classes), dtype=float)
