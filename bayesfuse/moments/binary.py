"""Two classes: rank raters, fuse their labels, estimate the class imbalance and accuracies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse import errors
from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows
from bayesfuse.moments.pairs import against_rest, covariance, rank_one
from bayesfuse.moments.views import incidence
from bayesfuse.numerics.kernels import Array

EDGE = 0.01  # imbalances within this of ±1 look like a missing class
MIN_RATE = 1e-3  # sensitivities and specificities are kept this far from 0 and 1


def sml(responses: Responses) -> xr.Dataset:
    """Fuse labels by the spectral meta-learner: the sign of the vote weighted by v.

    Parameters
    ----------
    responses : Responses of two classes, the last one +1; as in :func:`rank_one`, also for errors

    Returns
    -------
    xarray.Dataset
        ``score[item]``: sum of the weighted responses. ``label[item]``: class names; for a score of
        zero the more frequent label of the table. ``weight[rater]``: v, zero if undetermined.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, eq. 15.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.sml(bf.datasets.caries()).label.sel(item=["01001", "10011"]).values
    array(['sound', 'carious'], dtype='<U7')
    """
    weight = np.nan_to_num(rank_one(covariance(responses)).values)
    fused = _fuse(responses, np.stack([-weight, weight], axis=1).ravel())
    fused["weight"] = "rater", weight
    return fused.assign_coords(rater=responses.raters)


def accuracies(responses: Responses, prevalence: float | None = None) -> xr.Dataset:
    """Estimate the accuracies of all raters, without true labels.

    Parameters
    ----------
    responses : Responses of two classes; the last one is the positive one
    prevalence : float, optional
        Share of items whose true class is positive, if known, in (0, 1). Default the estimate of
        :func:`class_imbalance`, also for errors.

    Returns
    -------
    xarray.Dataset
        ``sensitivity[rater]``, ``specificity[rater]`` and their mean ``balanced_accuracy[rater]``,
        clipped to [0, 1], NaN for undetermined raters. Attributes: ``prevalence``, ``positive``.

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, eq. 5.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.accuracies(bf.datasets.caries(), prevalence=0.2).sensitivity.round(2).values
    array([0.43, 0.73, 0.6 , 0.49, 0.92])
    """
    moments = covariance(responses)
    return accuracies_of(responses, moments, rank_one(moments), prevalence)


def accuracies_of(
    responses: Responses, moments: xr.Dataset, v: xr.DataArray, prevalence: float | None
) -> xr.Dataset:
    """Return :func:`accuracies` from responses, their covariance and v."""
    if prevalence is None:
        prevalence = estimate_imbalance(responses, moments, v, "likelihood").prevalence
    prevalence = errors.require_probability("prevalence", prevalence)
    rates = quality(moments["mean"].values, v.values, prevalence)
    sensitivity, specificity = np.clip(rates, 0.0, 1.0)
    return xr.Dataset(
        {
            "sensitivity": ("rater", sensitivity),
            "specificity": ("rater", specificity),
            "balanced_accuracy": ("rater", (sensitivity + specificity) / 2),
        },
        coords={"rater": responses.raters},
        attrs={"prevalence": prevalence, "positive": responses.classes.tolist()[-1]},
    )


def improved_sml(
    responses: Responses, prevalence: float | None = None, *, prior: bool = False
) -> xr.Dataset:
    """Fuse labels by i-SML: the maximum-likelihood vote at the estimated accuracies.

    Sensitivities and specificities are clipped to [0.001, 0.999], so that no single response
    decides.

    Parameters
    ----------
    responses, prevalence : as in :func:`accuracies`, also for errors
    prior : bool
        Whether to add the log odds of the prevalence, which minimises the errors. The default is
        the published vote with equal classes, which suits balanced accuracy.

    Returns
    -------
    xarray.Dataset
        ``score[item]``: log odds of the positive class. ``label[item]``: as of :func:`sml`.

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, eq. 8 and 9 (whose score is twice the log odds).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.improved_sml(bf.datasets.caries()).label.sel(item=["01001", "10011"]).values
    array(['carious', 'carious'], dtype='<U7')
    """
    errors.require_flag("prior", prior)
    estimate = accuracies(responses, prevalence)
    share = estimate.attrs["prevalence"]
    votes = log_odds(estimate.sensitivity.values, estimate.specificity.values)
    start = float(np.log(share / (1 - share))) if prior else 0.0
    return _fuse(responses, votes, start).assign_attrs(estimate.attrs)


def _fuse(responses: Responses, vote: Array, start: float = 0.0) -> xr.Dataset:
    """Sum the votes of the (rater, label) cells of every item, and label items by the sign."""
    score = start + np.bincount(responses.item, vote[responses.cell], responses.n_items)
    return xr.Dataset(
        {"label": ("item", labels_by_sign(responses, score)), "score": ("item", score)},
        coords={"item": responses.items},
        attrs={"positive": responses.classes.tolist()[-1]},
    )


def labels_by_sign(responses: Responses, score: Array) -> NDArray[Any]:
    """Return the class of the sign of every score; for zero, the more frequent label."""
    usual = np.argmax(responses.multiplicity @ responses.votes())
    names: NDArray[Any] = responses.classes[np.where(score == 0, usual, score > 0).astype(int)]
    return names


def one_vs_rest(responses: Responses) -> xr.Dataset:
    """Estimate the prevalence of every class and the sensitivity of every rater, class by class.

    The binary estimators compare each class k with the rest. They give the diagonals of the
    confusion matrices; the other entries are not identified (Theorem 2), see :func:`confusion`. If
    some classes are confused with k more than others, the estimates are biased for any number of
    items, because the rest is a mixture of classes.

    Parameters
    ----------
    responses : Responses of two or more classes; as in :func:`accuracies`, also for errors

    Returns
    -------
    xarray.Dataset
        ``prevalence[class]``: scaled to sum to one; the attribute ``total`` is the original sum,
        far from one if the assumptions fail. ``diagonal[rater, class]``: P(rater says k | truth is
        k). ``specificity[rater, class]``: P(rater does not say k | truth is not k).

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, section 5.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.one_vs_rest(bf.datasets.anesthesia()).prevalence.round(2).values
    array([0.37, 0.42, 0.13, 0.07])
    """
    errors.require_kind("responses", responses, Responses)
    by_class = []
    for k, name in enumerate(responses.classes.tolist()):
        try:
            by_class.append(accuracies(against_rest(responses, k)))
        except errors.MomentsError as error:
            raise errors.MomentsError(f"Class {name!r} against the rest: {error}") from error
    prevalence = np.array([part.attrs["prevalence"] for part in by_class])
    classes = pd.Index(responses.classes, name="class")
    rates = xr.concat(by_class, classes, combine_attrs="drop").transpose("rater", "class")
    rates = rates.rename(sensitivity="diagonal").drop_vars("balanced_accuracy")
    rates["prevalence"] = "class", prevalence / prevalence.sum()
    return rates.assign_attrs(total=float(prevalence.sum()))


@dataclass(frozen=True)
class ClassImbalance:
    """Class imbalance of two classes, by a method; ``positive`` is the name of the positive one."""

    imbalance: float  # b = P(positive) − P(negative), between −1 and 1
    prevalence: float  # P(positive) = (1 + b) / 2
    method: str
    positive: Any


def class_imbalance(responses: Responses, method: str = "likelihood") -> ClassImbalance:
    r"""Estimate the prevalence of the positive class, without true labels.

    Parameters
    ----------
    responses : Responses of two classes; the last one is the positive one
    method : str
        ``"likelihood"`` (default): the imbalance b that maximises the likelihood of all responses
        at the first two moments. ``"tensor"``: from the third moments, :math:`T_{ijk} = -2b /
        \sqrt{1 - b^2} v_i v_j v_k`, weighted by the number of items that all three answered; needs
        fewer assumptions (independence in triples) and has a larger error.

    Returns
    -------
    ClassImbalance

    Raises
    ------
    MomentsError : an imbalance within 0.01 of ±1; as :func:`rank_one`

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
    return estimate_imbalance(responses, moments, rank_one(moments), method)


def estimate_imbalance(
    responses: Responses, moments: xr.Dataset, v: xr.DataArray, method: str
) -> ClassImbalance:
    """Estimate the class imbalance from responses, their means and v."""
    errors.require_choice("method", method, "likelihood", "tensor")
    known = np.isfinite(v.values)
    mean = np.where(known, moments["mean"].values, 0.0)
    weight = np.where(known, v.values, 0.0)
    if method == "likelihood":
        imbalance = _most_likely(responses, mean, weight)
    else:
        products, squares = triple_sums(responses, mean, weight)
        if squares == 0:
            raise errors.MomentsError(
                "Third moments need items answered by three raters who are not random. Got: none "
                f"among {responses.n_items} items."
            )
        skew = products / squares
        imbalance = float(-skew / np.sqrt(4 + skew**2))
    if not abs(imbalance) < 1 - EDGE:
        raise errors.MomentsError(
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
    says_positive = np.clip(says_positive, MIN_RATE, 1 - MIN_RATE)
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
    optimum = minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-8})
    return float((1 - EDGE) * np.sin(optimum.x))


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
    sums = []
    for value in ((answer - mean[rater]) * v[rater], v[rater] ** 2):
        one, two, three = (np.bincount(item, value**k, responses.n_items) for k in (1, 2, 3))
        triples = (one**3 - 3 * one * two + 2 * three) / 6
        sums.append(float(responses.multiplicity @ np.where(some, triples, 0.0)))
    return sums
