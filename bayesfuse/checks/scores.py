"""Scores and calibration of label probabilities against known labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, ResponsesError, require_count, require_mapping
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def label_scores(
    labels: xr.DataTree | xr.DataArray, truth: Mapping[Any, Any], *, bins: int = 10
) -> dict[str, float]:
    r"""Score label probabilities against known labels.

    Parameters
    ----------
    labels : DataTree or DataArray, dims (item, class)
        A result, or its label probabilities.
    truth : mapping of item name to class name
        A dict or a pandas Series, for some or all items.
    bins : int, default 10
        Bins of equal width for the calibration error.

    Returns
    -------
    dict
        ``accuracy`` of the most probable labels (ties count in part); ``log_loss``, the mean of
        :math:`-\log p(\text{truth})` in nats, infinite if a true class has probability zero;
        ``brier``, the mean over items of :math:`\sum_k (p_k - 1[k = \text{truth}])^2`, between 0
        and 2; ``ece``, the expected calibration error of the most probable labels; ``items``, the
        number of items.

    Raises
    ------
    ModelError
        A result without label probabilities.
    ResponsesError
        Labels of other items or classes, or none.

    Warns
    -----
    UserWarning
        The log-loss is infinite.

    References
    ----------
    Gneiting & Raftery (2007), Journal of the American Statistical Association 102, 359–378.
    Naeini, Cooper & Hauskrecht (2015), AAAI, 2901–2907 (calibration error).

    Examples
    --------
    >>> import xarray as xr, bayesfuse as bf
    >>> sure = xr.DataArray([[0.9, 0.1], [0.2, 0.8]], {"item": ["a", "b"], "class": ["no", "yes"]})
    >>> scores = bf.checks.label_scores(sure, {"a": "no", "b": "no"})
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'accuracy': 0.5, 'log_loss': 0.857, 'brier': 0.65, 'ece': 0.45, 'items': 2}
    """
    probability, true = _known(labels, truth)
    if zeros := int((probability[np.arange(len(true)), true] == 0.0).sum()):
        warnings.warn(
            "A single true class of probability zero, as vote shares may give it, makes the "
            f"log-loss infinite. Got: {zeros:,} of {len(true):,} items.",
            stacklevel=2,
        )
    return _scores(probability, true, bins)


def _scores(probability: Array, true: NDArray[np.int64], bins: int) -> dict[str, float]:
    """Return the scores of probabilities (items, classes) of items of known class."""
    every = np.arange(len(true))
    own = probability[every, true]
    top = probability.max(axis=1)
    tied = np.isclose(probability, top[:, None], rtol=1e-12, atol=0)
    right = tied[every, true] / tied.sum(axis=1)
    _, count, stated, found = _reliability(top, right, bins)
    with np.errstate(divide="ignore"):
        log_loss = -np.log(own).mean()
    apart = probability - np.eye(probability.shape[1])[true]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(log_loss),
        "brier": float((apart**2).sum(axis=1).mean()),
        "ece": float((count * np.abs(stated - found)).sum() / count.sum()),
        "items": len(true),
    }


def calibration(
    labels: xr.DataTree | xr.DataArray,
    truth: Mapping[Any, Any],
    *,
    bins: int = 10,
    equal: Literal["width", "count"] = "width",
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare the probabilities of the most probable labels with the share that is right.

    Parameters
    ----------
    labels, truth, bins
        As in :func:`label_scores`.
    equal : {"width", "count"}
        Bins of equal width, or of as nearly as possible equal numbers of items (items of the same
        probability are in one bin). Most probabilities of labels are near 1, where only the latter
        have several bins.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, dims (bin,)
        Of the items whose most probable label has a probability between ``lower`` and ``upper``:
        their number ``count``, mean probability ``stated``, share of right labels ``right`` with
        its Jeffreys interval (posterior under Beta(½, ½)) from ``low`` to ``high``. Empty bins are
        omitted. The attributes are those of :func:`label_scores`; its calibration error is always
        that of bins of equal width.

    Raises
    ------
    ModelError
        A result without label probabilities; another ``equal``.
    ResponsesError
        Labels of other items or classes, or none.

    References
    ----------
    DeGroot & Fienberg (1983), The Statistician 32, 12–22. Brown, Cai & DasGupta (2001),
    Statistical Science 16, 101–133 (the interval).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> found = bf.checks.calibration(point, dict(enumerate(made.truth.tolist())))
    >>> int(found["count"].sum()), found.attrs["ece"] < 0.05
    (500, True)
    """
    from scipy import stats

    if equal not in ("width", "count"):
        raise ModelError(f"Bins are of equal 'width' or 'count'. Got: {equal!r}.")
    probability, true = _known(labels, truth)
    top = probability.max(axis=1)
    right = probability.argmax(axis=1) == true
    require_count("bins", bins)
    ends = None
    if equal == "count":  # lower ends of bins with about the same number of items each
        ends = np.unique(np.sort(top)[np.arange(bins) * len(top) // bins])
    number, count, stated, share = _reliability(top, right.astype(float), bins, ends)
    edges = np.arange(bins + 1) / bins if ends is None else np.append(ends, 1.0)
    hits = share * count
    low, high = (stats.beta.ppf(q, hits + 0.5, count - hits + 0.5) for q in tails(ci_prob))
    found = {
        "lower": edges[number],
        "upper": edges[number + 1],
        "count": count,
        "stated": stated,
        "right": share,
        "low": np.where(hits > 0, low, 0.0),
        "high": np.where(hits < count, high, 1.0),
    }
    return xr.Dataset(
        {name: ("bin", values) for name, values in found.items()},
        {"bin": number},
        _scores(probability, true, bins),
    )


def _reliability(
    top: Array, right: Array, bins: int, ends: Array | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]:
    """Return index, count, mean probability and share of right labels of the non-empty bins."""
    require_count("bins", bins)
    if ends is None:
        own = np.minimum((top * bins).astype(np.int64), bins - 1)
    else:
        own = np.searchsorted(ends, top, side="right") - 1
    count = np.bincount(own, minlength=bins)
    used = np.flatnonzero(count)
    stated, share = (np.bincount(own, values, bins)[used] / count[used] for values in (top, right))
    return used, count[used], stated, share


def _known(
    labels: xr.DataTree | xr.DataArray, truth: Mapping[Any, Any]
) -> tuple[Array, NDArray[np.int64]]:
    """Return probabilities and true classes of the items with a known label."""
    require_mapping("truth", truth)
    probability = label_probabilities(labels)
    place = {name: n for n, name in enumerate(listed(probability["item"].values))}
    number = {name: k for k, name in enumerate(listed(probability["class"].values))}
    items, classes = [], []
    for item, label in truth.items():
        if item not in place or label not in number:
            what = "items" if item not in place else "classes"
            raise ResponsesError(
                f"truth= must name {what} that have probabilities. Got: {item!r}: {label!r}."
            )
        items.append(place[item])
        classes.append(number[label])
    if not items:
        raise ResponsesError("Scores need at least one known label. Got: none.")
    return probability.values[items], np.array(classes)
