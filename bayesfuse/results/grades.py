"""Ordered classes: the grade of every item, and how strict and precise every rater is."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import all_draws, constants, named
from bayesfuse.results.posterior import ORDERED
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import interval, posterior_draws, responses_per_rater, tails


def grades(result: xr.DataTree | xr.DataArray, *, ci_prob: float | None = None) -> xr.Dataset:
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
        position, 0 for the lowest. ``median``, ``low`` and ``high`` are classes: the lowest with a
        cumulative probability of at least a half, and the ends of the interval, which has at least
        its nominal probability.

    Raises
    ------
    ModelError
        The classes of the result are not ordered; no label probabilities.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> shares = bf.vote_shares(bf.datasets.anesthesia())
    >>> found = bf.grades(bf.label_probabilities(shares)).sel(item=[1, 3])
    >>> found["median"].values.tolist(), found["mean"].values.round(1).tolist()
    ([1, 2], [1.2, 1.7])
    """
    if isinstance(result, xr.DataTree):
        _require_ordered(result)
    probability = label_probabilities(result)
    values = _values(probability["class"].values)
    share = probability.values
    mean = share @ values
    sd = np.sqrt(np.maximum(share @ values**2 - mean**2, 0.0))
    low, high = tails(ci_prob)
    # rounding may leave the last sum a little below one
    up_to = np.minimum(share.cumsum(axis=1) + 1e-12, 1.0)
    found = {"mean": mean, "sd": sd}
    for name, level in (("median", 0.5), ("low", low), ("high", high)):
        found[name] = probability["class"].values[(up_to < level).sum(axis=1)]
    return xr.Dataset(
        {name: ("item", column) for name, column in found.items()},
        {"item": probability["item"].values},
    )


def rater_grades(result: xr.DataTree, *, ci_prob: float | None = None) -> xr.Dataset:
    """Return how strict and how precise every rater is.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``, of any model of ordered classes.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, by rater
        ``bias``, the mean difference between given and true grade over the items of the table:
        negative for strict raters, in units of the classes if these are numbers, else of one class.
        ``error``, the mean absolute difference. With ``raters="graded"`` also ``strictness``, the
        mean shift of the rater's thresholds, and ``precision``, both in distances of neighbouring
        classes, and ``guess_rate``. Each is a posterior mean, with the ends of its interval,
        ``bias_low``, ``bias_high`` and so on. ``responses`` is the number of responses.

    Raises
    ------
    ModelError
        The classes of the result are not ordered; no confusion matrices.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia(), raters="graded")
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.rater_grades(result)
    >>> found["rater"].values[found["bias"].values.argmax()].item()
    2
    """
    _require_ordered(result)
    draws = posterior_draws(result, "confusion")["confusion"]
    draws = draws.transpose("chain", "draw", "rater", "class", "answer")
    values, known = _values(draws["class"].values), constants(result)
    copies = known["multiplicity"].values if "multiplicity" in known else None
    share = np.average(label_probabilities(result).values, axis=0, weights=copies)
    gap = values - values[:, None]  # given minus true, (class, answer)
    found = {}
    for name, cost in (("bias", gap), ("error", np.abs(gap))):
        weight = xr.DataArray(share[:, None] * cost, dims=("class", "answer"))
        found[name] = (draws * weight).sum(("class", "answer"))
    for name in ("strictness", "precision", "guess_rate"):
        own = named(all_draws(result), name)
        if own is not None and own.dims[2:] == ("rater",):
            found[name] = own
    columns = {}
    for name, drawn in found.items():
        columns[name] = drawn.mean(("chain", "draw"))
        columns[f"{name}_low"], columns[f"{name}_high"] = interval(drawn, ci_prob)
    columns["responses"] = xr.DataArray(responses_per_rater(result), dims="rater")
    return xr.Dataset(columns)


def _require_ordered(result: xr.DataTree) -> None:
    known = constants(result)
    if not known.attrs.get(ORDERED, 0):
        names = known["class"].values.tolist() if "class" in known.coords else "no classes"
        raise ModelError(
            "Grades need ordered classes: read the table with classes= in order and ordered=True, "
            f"or from an ordered categorical. Got: {names}, not declared to be ordered."
        )


def _values(classes: NDArray[np.generic]) -> Array:
    """Return classes as numbers, or the places of others."""
    if classes.dtype.kind in "iuf":
        return classes.astype(float)
    return np.arange(len(classes), dtype=float)
