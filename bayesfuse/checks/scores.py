"""Scores and calibration of label probabilities against known labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, plain
from bayesfuse.data.names import places
from bayesfuse.data.tables import Names, read_gold
from bayesfuse.errors import ResponsesError, require_choice, require_count, warn
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import known_classes
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def label_scores(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame, truth: Any, *, bins: int = 10
) -> dict[str, float]:
    r"""Score label probabilities against known labels.

    Parameters
    ----------
    labels : DataTree, or label probabilities, a DataArray or DataFrame, dims (item, class)
    truth : mapping of item name to class name, DataFrame or path
        Of some or all items, as ``gold`` in :func:`bayesfuse.fuse`. Items whose label was given to
        the result are left out, because they are right by assumption.
    bins : int, default 10
        Bins of equal width for the calibration error.

    Returns
    -------
    dict
        ``accuracy`` of the most probable labels (ties count in part); ``log_loss``, the mean of
        :math:`-\log p(\text{truth})` in nats, infinite (with a warning) if a true class has
        probability zero; ``brier``, the mean of :math:`\sum_k (p_k - 1[k = \text{truth}])^2`, from
        0 to 2; ``ece``, the expected calibration error of these labels; ``items``, their number.

    Raises
    ------
    ModelError
        A result without label probabilities.
    ResponsesError
        Labels of other items or classes, or none that was not given to the result.

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
    probability, true, items = of_known(labels, truth)
    if len(zeros := np.flatnonzero(probability[np.arange(len(true)), true] == 0.0)):
        warn(
            "A single true class of probability zero makes the log-loss infinite: vote shares may "
            "have zeros, or the model forbids the class (a transition, for example). Got: item "
            f"{plain(items[zeros[0]])!r} ({len(zeros):,} such of {len(true):,})."
        )
    return _scores(probability, true, bins)


def _scores(probability: Array, true: NDArray[np.int64], bins: int) -> dict[str, float]:
    """Return the scores of probabilities (items, classes) of items of known class."""
    require_count("bins", bins)
    every = np.arange(len(true))
    own = probability[every, true]
    top = probability.max(axis=1)
    tied = np.isclose(probability, top[:, None], rtol=1e-12, atol=0)
    right = tied[every, true] / tied.sum(axis=1)
    _, count, stated, found = _reliability(top, right, np.arange(bins) / bins)
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
    labels, truth, bins
        As in :func:`label_scores`.
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
        omitted. The attributes are those of :func:`label_scores`, with bins of equal width.

    Raises
    ------
    ModelError, ResponsesError
        As :func:`label_scores`; another ``equal``.

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

    require_choice("equal", equal, "width", "count")
    probability, true, _ = of_known(labels, truth)
    top = probability.max(axis=1)
    right = probability.argmax(axis=1) == true
    scores, lower = _scores(probability, true, bins), np.arange(bins) / bins
    if equal == "count":  # bins with about the same number of items each
        lower = np.unique(np.sort(top)[np.arange(bins) * len(top) // bins])
    number, count, stated, share = _reliability(top, right, lower)
    hits = share * count
    low, high = (stats.beta.ppf(q, hits + 0.5, count - hits + 0.5) for q in tails(ci_prob))
    found = {
        "lower": lower[number],
        "upper": np.append(lower, 1.0)[number + 1],
        "count": count,
        "stated": stated,
        "right": share,
        "low": np.where(hits > 0, low, 0.0),
        "high": np.where(hits < count, high, 1.0),
    }
    by_bin = {name: ("bin", values) for name, values in found.items()}
    return xr.Dataset(by_bin, {"bin": number}, scores)


def _reliability(
    top: Array, right: NDArray[Any], lower: Array
) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]:
    """Return index, count, mean probability and share of right labels of the non-empty bins."""
    own = np.searchsorted(lower, top, side="right") - 1
    count = np.bincount(own)
    used = np.flatnonzero(count)
    stated, share = (np.bincount(own, values)[used] / count[used] for values in (top, right))
    return used, count[used], stated, share


def of_known(labels: Any, truth: Any) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return probability, true class and name of the known items that the result was not told."""
    probability = label_probabilities(labels)
    names, told = Names(probability["item"].values, probability["class"].values), set[Any]()
    if isinstance(labels, xr.DataTree):
        told = set(names.items[known_classes(labels, len(probability)) >= 0].tolist())
    known = [] if (given := read_gold(truth, names)) is None else list(given.items())
    pairs = [pair for pair in known if pair[0] not in told]
    if not pairs:
        raise ResponsesError(
            f"Scores need known labels that were not given (gold=). Got: none of {len(known)}."
        )
    columns = zip(("item", "class"), zip(*pairs, strict=True), strict=True)
    item, code = (places(as_array(list(own)), probability[dim].values) for dim, own in columns)
    for what, place in (("items", item), ("classes", code)):
        if place.min() < 0:
            name, label = pairs[place.argmin()]
            raise ResponsesError(
                f"truth= must name {what} that have probabilities. Got: {name!r}: {label!r}."
            )
    return probability.values[item], code, probability["item"].values[item]
