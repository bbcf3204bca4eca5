"""Scores of label probabilities against known labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_python
from bayesfuse.data.gold_tables import Names, read_gold
from bayesfuse.data.known import gold_labels
from bayesfuse.errors import (
    ResponsesError,
    require_choice,
    require_count,
    require_number,
    warn,
)
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import known_classes
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

FLOOR = 1e-4  # probability of a true class that a log-loss counts at least


def label_scores(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
    *,
    bins: int = 10,
    floor: float = FLOOR,
) -> dict[str, float]:
    r"""Score label probabilities against known labels, but for those that were given to the result.

    Parameters
    ----------
    labels : DataTree, or label probabilities, a DataArray or DataFrame, dims (item, class)
    truth : mapping of item to class, DataFrame or path, as ``gold`` in :func:`bayesfuse.fuse`
    bins : int, default 10: bins of equal width for the calibration error
    floor : float, default 1e-4
        Smallest probability of a true class in the log-loss, which the hard labels of a mode would
        otherwise determine alone; 0 for none.

    Returns
    -------
    dict
        ``accuracy`` of the most probable labels (ties count in part); ``log_loss``, the mean of
        :math:`-\log \max(p(\text{truth}), \text{floor})` in nats; ``brier``, the mean of
        :math:`\sum_k (p_k - 1[k = \text{truth}])^2`, from 0 to 2; ``ece``, the expected
        calibration error (Naeini, Cooper & Hauskrecht 2015, AAAI) of these labels; ``items``, their
        number; ``floor``; and ``clipped``, the number of items whose true class has a probability
        below the floor. Without a floor, the log-loss is infinite (with a warning) if a true class
        has probability zero.

    Examples
    --------
    >>> import xarray as xr, bayesfuse as bf
    >>> sure = xr.DataArray([[0.9, 0.1], [0.2, 0.8]], {"item": ["a", "b"], "class": ["no", "yes"]})
    >>> scores = bf.checks.label_scores(sure, {"a": "no", "b": "no"})
    >>> scores["accuracy"], round(scores["log_loss"], 3), scores["clipped"]
    (0.5, 0.857, 0)
    """
    probability, true, items = of_known(labels, truth)
    require_number("floor", floor, most=0.5)
    zeros = np.flatnonzero(probability[np.arange(len(true)), true] == 0.0)
    if len(zeros) and floor == 0.0:
        warn(
            "A single true class of probability zero makes the log-loss infinite: vote shares may "
            "have zeros, or the model forbids the class (a transition, for example). Got: item "
            f"{as_python(items[zeros[0]])!r} ({len(zeros):,} such of {len(true):,})."
        )
    return _scores(probability, true, bins, floor)


def _scores(
    probability: Array, true: NDArray[np.int64], bins: int, floor: float = FLOOR
) -> dict[str, float]:
    """Return the scores of probabilities (items, classes) of items of known class."""
    require_count("bins", bins)
    every = np.arange(len(true))
    true_probability = probability[every, true]
    top = probability.max(axis=1)
    tied = np.isclose(probability, top[:, None], rtol=1e-12, atol=0)
    right = tied[every, true] / tied.sum(axis=1)
    filled = _reliability(top, right, np.arange(bins) / bins)
    error = np.abs(filled.stated - filled.right)
    with np.errstate(divide="ignore"):
        log_loss = -np.log(np.maximum(true_probability, floor)).mean()
    residual = probability - np.eye(probability.shape[1])[true]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(log_loss),
        "brier": float((residual**2).sum(axis=1).mean()),
        "ece": float((filled.count * error).sum() / filled.count.sum()),
        "items": len(true),
        "floor": float(floor),
        "clipped": int((true_probability < floor).sum()),
    }


def calibration(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
    *,
    bins: int = 10,
    equal: Literal["width", "count"] = "width",
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare the probabilities of the most probable labels with the share that is right.

    Parameters
    ----------
    labels, truth, bins : as in :func:`label_scores`
    equal : {"width", "count"}
        Bins of equal width, or of nearly equal numbers of items (of one probability in one bin).
        Most probabilities of labels are near 1, where only the latter have several bins.
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset, dims (bin,)
        Of the items whose most probable label has a probability between ``lower`` and ``upper``:
        their number ``count``, mean probability ``stated``, share of right labels ``right`` with
        its Jeffreys interval (posterior under Beta(½, ½)) from ``low`` to ``high``. Empty bins are
        omitted. The attributes are those of :func:`label_scores`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> table = bf.checks.calibration(point, dict(enumerate(made.truth.tolist())))
    >>> int(table["count"].sum()), table.attrs["ece"] < 0.05
    (500, True)
    """
    require_choice("equal", equal, "width", "count")
    probability, true, _ = of_known(labels, truth)
    top = probability.max(axis=1)
    right = probability.argmax(axis=1) == true
    scores, lower = _scores(probability, true, bins), np.arange(bins) / bins
    if equal == "count":  # bins with about the same number of items each
        lower = np.unique(np.sort(top)[np.arange(bins) * len(top) // bins])
    filled = _reliability(top, right, lower)
    hits = filled.right * filled.count
    misses = filled.count - hits
    low, high = (scipy.stats.beta.ppf(q, hits + 0.5, misses + 0.5) for q in tails(ci_prob))
    bins_of = {
        "lower": lower[filled.index],
        "upper": np.append(lower, 1.0)[filled.index + 1],
        "count": filled.count,
        "stated": filled.stated,
        "right": filled.right,
        "low": np.where(hits > 0, low, 0.0),
        "high": np.where(misses > 0, high, 1.0),
    }
    by_bin = {name: ("bin", values) for name, values in bins_of.items()}
    return xr.Dataset(by_bin, {"bin": filled.index}, scores)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of probabilities that are not empty."""

    index: NDArray[np.int64]
    count: NDArray[np.int64]
    stated: Array  # mean probability
    right: Array  # share of right labels


def _reliability(top: Array, right: NDArray[Any], lower: Array) -> Reliability:
    bin_of = np.searchsorted(lower, top, side="right") - 1
    count = np.bincount(bin_of)
    used = np.flatnonzero(count)
    means = (np.bincount(bin_of, values)[used] / count[used] for values in (top, right))
    return Reliability(used, count[used], *means)


def of_known(labels: Any, truth: Any) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return probability, true class and name of the known items that were not gold in the fit."""
    probability = label_probabilities(labels)
    items = probability["item"].values
    names = Names(items, probability["class"].values)
    known = gold_labels(names, read_gold(truth, names))
    n_known = np.count_nonzero(known >= 0)
    if isinstance(labels, xr.DataTree):
        known[known_classes(labels, len(items)) >= 0] = -1
    at = np.flatnonzero(known >= 0)
    if not len(at):
        raise ResponsesError(
            f"Scores need known labels that were not given (gold=). Got: none of {n_known}."
        )
    return probability.values[at], known[at], items[at]
