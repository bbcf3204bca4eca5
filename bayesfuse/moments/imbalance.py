"""Class imbalance, which determines the accuracies of the raters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows
from bayesfuse.errors import MomentsError
from bayesfuse.moments.pairs import covariance, rank_one
from bayesfuse.moments.views import incidence
from bayesfuse.numerics.kernels import Array

EDGE = 0.01  # imbalances within this of ±1 look like a missing class
SMALLEST = 1e-3  # sensitivities and specificities are kept this far from 0 and 1


@dataclass(frozen=True)
class ClassImbalance:
    """Class imbalance of two classes, by a method; ``positive`` is the name of the positive one."""

    imbalance: float  # b = P(positive) − P(negative), between −1 and 1
    prevalence: float  # P(positive) = (1 + b) / 2
    method: str
    positive: Any


def class_imbalance(
    responses: Responses,
    method: str = "likelihood",
    *,
    completion: str = "weighted",
    sign: str = "average",
) -> ClassImbalance:
    r"""Estimate the prevalence of the positive class, without true labels.

    Parameters
    ----------
    responses : Responses
        Of two classes; the last one is the positive one.
    method : str
        ``"likelihood"`` (default): the imbalance that maximises the likelihood of all responses;
        with the first two moments it determines sensitivities and specificities. ``"tensor"``: from
        the third moments, :math:`T_{ijk} = \alpha v_i v_j v_k` with :math:`\alpha = -2b / \sqrt{1 -
        b^2}`, weighted by the number of items that all three answered; needs fewer assumptions
        (independence in triples) and has a larger error.
    completion, sign : str
        Method and sign of :func:`rank_one`.

    Returns
    -------
    ClassImbalance

    Raises
    ------
    MomentsError
        An unknown method, an imbalance within 0.01 of ±1; as :func:`rank_one`.

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, Algorithms 1 and 2, eq. 13, 17, 19, 22–24.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> round(bf.moments.class_imbalance(bf.datasets.caries()).prevalence, 2)
    0.19
    """
    moments = covariance(responses)
    return estimate_imbalance(responses, moments, rank_one(moments, completion, sign=sign), method)


def estimate_imbalance(
    responses: Responses, moments: xr.Dataset, v: xr.DataArray, method: str
) -> ClassImbalance:
    """Estimate the class imbalance from responses, their means and v."""
    known = np.isfinite(v.values)
    mean = np.where(known, moments["mean"].values, 0.0)
    weight = np.where(known, v.values, 0.0)
    if method == "likelihood":
        imbalance = _most_likely(responses, mean, weight)
    elif method == "tensor":
        products, squares = triple_sums(responses, mean, weight)
        if squares == 0:
            raise MomentsError(
                "Third moments need items answered by three raters who are not random. Got: none "
                f"among {responses.n_items} items."
            )
        skew = products / squares
        imbalance = float(-skew / np.sqrt(4 + skew**2))
    else:
        raise MomentsError(
            f"method of class_imbalance must be 'likelihood' or 'tensor'. Got: {method!r}."
        )
    if not abs(imbalance) < 1 - EDGE:
        raise MomentsError(
            "The estimated imbalance must not be at the edge, where one class explains almost all "
            f"responses; pass prevalence= if it is known. Got: imbalance {imbalance:.3f} by method "
            f"{method!r}."
        )
    return ClassImbalance(imbalance, (1 + imbalance) / 2, method, responses.classes.tolist()[-1])


def quality(mean: Array, v: Array, prevalence: float) -> tuple[Array, Array]:
    """Return sensitivity and specificity (raters,) (Jaffe et al. 2015, eq. 5), not clipped."""
    odds = np.sqrt((1 - prevalence) / prevalence)
    return (1 + mean + v * odds) / 2, (1 - mean + v / odds) / 2


def log_table(sensitivity: Array, specificity: Array) -> Array:
    """Return log P(response | class), with clipped rates, (2 raters, 2); zero if unknown (NaN)."""
    says_positive = np.stack([1 - specificity, sensitivity], axis=-1)
    says_positive = np.clip(says_positive, SMALLEST, 1 - SMALLEST)
    table = np.log(np.stack([1 - says_positive, says_positive], axis=1)).reshape(-1, 2)
    return np.nan_to_num(table)


def log_odds(sensitivity: Array, specificity: Array) -> Array:
    """Return the log likelihood ratio of every cell, shape (2 raters,)."""
    table = log_table(sensitivity, specificity)
    return table[:, 1] - table[:, 0]


def _most_likely(responses: Responses, mean: Array, v: Array) -> float:
    table, _ = responses.condensed()  # the likelihood is evaluated about sixty times
    used, share = incidence(table), table.multiplicity / table.multiplicity.sum()

    from scipy.optimize import minimize_scalar  # half a second to import

    def loss(angle: float) -> float:
        prevalence = (1 + (1 - EDGE) * np.sin(angle)) / 2
        return -mixture(used, log_table(*quality(mean, v, prevalence)), prevalence, share)

    # Equal steps of the angle are short in b where sensitivities change fastest.
    scan = np.linspace(-np.pi / 2, np.pi / 2, 41)
    best = int(np.argmin([loss(angle) for angle in scan]))
    if best in (0, len(scan) - 1):
        return float((1 - EDGE) * np.sin(scan[best]))
    around = scan[best - 1], scan[best + 1]
    found = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-8})
    return float((1 - EDGE) * np.sin(found.x))


def mixture(used: Any, table: Array, prevalence: float, share: Array) -> float:
    """Return the weighted log probability of items' responses; ``used`` is :func:`incidence`."""
    negative, positive = (used @ table + np.log([1 - prevalence, prevalence])).T
    return float(share @ np.logaddexp(negative, positive))


def triple_sums(responses: Responses, mean: Array, v: Array) -> list[float]:
    """Sum ``z_i z_j z_k``, with ``z = (f - mean) v``, and ``(v_i v_j v_k)²`` over triples."""
    first = np.flatnonzero(first_rows(responses))  # repeated answers are averaged
    times = np.diff(np.append(first, responses.n_responses))
    answer = np.add.reduceat(2.0 * responses.label - 1.0, first) / times
    item, rater = responses.item[first], responses.rater[first]
    # without three informative raters, power sums would leave rounding errors
    some = np.bincount(item, v[rater] != 0, responses.n_items) >= 3
    found = []
    for each in ((answer - mean[rater]) * v[rater], v[rater] ** 2):
        one, two, three = (np.bincount(item, each**k, responses.n_items) for k in (1, 2, 3))
        triples = (one**3 - 3 * one * two + 2 * three) / 6
        found.append(float(responses.multiplicity @ np.where(some, triples, 0.0)))
    return found
