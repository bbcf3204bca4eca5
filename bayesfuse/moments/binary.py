"""Two classes: rank raters, fuse their labels and estimate their accuracies."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_flag, require_kind, require_probability
from bayesfuse.moments.imbalance import estimate_imbalance, log_odds, quality
from bayesfuse.moments.pairs import against_rest, covariance, rank_one
from bayesfuse.numerics.kernels import Array


def rank_raters(
    responses: Responses, method: str = "weighted", *, sign: str = "average"
) -> xr.DataArray:
    """Rank raters by balanced accuracy, best first, without true labels.

    Parameters
    ----------
    responses : Responses
        Of two classes.
    method, sign : str
        As in :func:`rank_one`, also for errors.

    Returns
    -------
    xarray.DataArray
        ``v[rater]``, proportional to 2 × balanced accuracy − 1, in descending order; undetermined
        raters (NaN) come last.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, eq. 8.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.rank_raters(bf.datasets.caries()).rater.values[:2]
    array(['dentist 2', 'dentist 5'], dtype='<U9')
    """
    v = rank_one(covariance(responses), method, sign=sign)
    return v[np.argsort(-v.values, kind="stable")]


def sml(responses: Responses, method: str = "weighted", *, sign: str = "average") -> xr.Dataset:
    """Fuse labels by the spectral meta-learner: the sign of the vote weighted by v.

    Parameters
    ----------
    responses : Responses
        Of two classes; the last one is +1.
    method, sign : str
        As in :func:`rank_one`, also for errors.

    Returns
    -------
    xarray.Dataset
        ``score[item]``: sum of the weighted responses, repeats included. ``label[item]``: class
        names; a score of zero gets the more frequent label of the table. ``weight[rater]``: v, zero
        for undetermined raters.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, eq. 15.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.sml(bf.datasets.caries()).label.sel(item=["01001", "10011"]).values
    array(['sound', 'carious'], dtype='<U7')
    """
    weight = np.nan_to_num(rank_one(covariance(responses), method, sign=sign).values)
    fused = _fuse(responses, np.stack([-weight, weight], axis=1).ravel())
    fused["weight"] = "rater", weight
    return fused.assign_coords(rater=responses.raters)


def accuracies(
    responses: Responses,
    prevalence: float | None = None,
    method: str = "likelihood",
    *,
    completion: str = "weighted",
    sign: str = "average",
) -> xr.Dataset:
    """Estimate the accuracies of all raters, without true labels.

    Parameters
    ----------
    responses : Responses
        Of two classes; the last one is the positive one.
    prevalence : float, optional
        Share of items whose true class is positive, if known, in (0, 1).
    method : str
        Method of :func:`class_imbalance`, which estimates the prevalence otherwise.
    completion, sign : str
        Method and sign of :func:`rank_one`.

    Returns
    -------
    xarray.Dataset
        ``sensitivity[rater]``, ``specificity[rater]`` and their mean ``balanced_accuracy[rater]``,
        clipped to [0, 1], NaN for undetermined raters. Attributes: ``prevalence``, ``method``
        (``"given"`` for a known prevalence) and ``positive``.

    Raises
    ------
    MomentsError
        As :func:`class_imbalance`.

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
    v = rank_one(moments, completion, sign=sign)
    if prevalence is None:
        estimate = estimate_imbalance(responses, moments, v, method)
        prevalence = estimate.prevalence
    else:
        method = "given"
        prevalence = require_probability("prevalence", prevalence)
    raw = quality(moments["mean"].values, v.values, prevalence)
    sensitivity, specificity = np.clip(raw, 0.0, 1.0)
    return xr.Dataset(
        {
            "sensitivity": ("rater", sensitivity),
            "specificity": ("rater", specificity),
            "balanced_accuracy": ("rater", (sensitivity + specificity) / 2),
        },
        coords={"rater": responses.raters},
        attrs={
            "prevalence": prevalence,
            "method": method,
            "positive": responses.classes.tolist()[-1],
        },
    )


def improved_sml(
    responses: Responses,
    prevalence: float | None = None,
    method: str = "likelihood",
    *,
    completion: str = "weighted",
    sign: str = "average",
    prior: bool = False,
) -> xr.Dataset:
    """Fuse labels by i-SML: the maximum-likelihood vote at the estimated accuracies.

    Sensitivities and specificities are clipped to [0.001, 0.999], so that no single response
    decides.

    Parameters
    ----------
    responses, prevalence, method, completion, sign
        As in :func:`accuracies`, also for errors.
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
    require_flag("prior", prior)
    found = accuracies(responses, prevalence, method, completion=completion, sign=sign)
    share = found.attrs["prevalence"]
    start = float(np.log(share / (1 - share))) if prior else 0.0
    fused = _fuse(responses, log_odds(found.sensitivity.values, found.specificity.values), start)
    return fused.assign_attrs(found.attrs)


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


def one_vs_rest(
    responses: Responses,
    method: str = "likelihood",
    *,
    completion: str = "weighted",
    sign: str = "average",
) -> xr.Dataset:
    """Estimate the prevalence of every class and the sensitivity of every rater, class by class.

    The binary estimators compare each class k with the rest. They give the diagonals of the
    confusion matrices; the other entries are not identified (Theorem 2), see :func:`confusion`. If
    some classes are confused with k more than others, the estimates are biased for any number of
    items, because the rest is a mixture of classes.

    Parameters
    ----------
    responses : Responses
        Of two or more classes.
    method, completion, sign : str
        As in :func:`accuracies`, also for errors.

    Returns
    -------
    xarray.Dataset
        ``prevalence[class]``: scaled to sum to one; the attribute ``total`` is the original sum,
        far from one if the assumptions fail. ``diagonal[rater, class]``: P(rater says k | truth is
        k). ``specificity[rater, class]``: P(rater does not say k | truth is not k). NaN for
        undetermined raters.

    References
    ----------
    Jaffe, Nadler & Kluger (2015), AISTATS, section 5.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.one_vs_rest(bf.datasets.anesthesia()).prevalence.round(2).values
    array([0.37, 0.42, 0.13, 0.07])
    """
    require_kind("responses", responses, Responses)
    how: dict[str, Any] = {"method": method, "completion": completion, "sign": sign}
    found = []
    for k, name in enumerate(responses.classes.tolist()):
        try:
            found.append(accuracies(against_rest(responses, k), **how))
        except MomentsError as error:
            raise MomentsError(f"Class {name!r} against the rest: {error}") from error
    prevalence = np.array([part.attrs["prevalence"] for part in found])
    diagonal, specificity = (
        (("rater", "class"), np.stack([part[name].values for part in found], axis=1))
        for name in ("sensitivity", "specificity")
    )
    return xr.Dataset(
        {
            "prevalence": ("class", prevalence / prevalence.sum()),
            "diagonal": diagonal,
            "specificity": specificity,
        },
        coords={"rater": responses.raters, "class": responses.classes},
        attrs={"method": method, "total": float(prevalence.sum())},
    )
