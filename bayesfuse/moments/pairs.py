"""Means and covariances of two-class responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_kind
from bayesfuse.numerics.kernels import Array


def require_binary(responses: Responses) -> None:
    """Raise MomentsError unless there are two classes, ModelError unless these are Responses."""
    require_kind("responses", responses, Responses)
    if responses.n_classes != 2:
        raise MomentsError(
            "Binary moments need two classes, coded as −1 and +1; use one_vs_rest or confusion for "
            f"more. Got: {responses.n_classes} classes "
            f"{responses.classes.tolist()}."
        )


def mean_answers(responses: Responses) -> scipy.sparse.csr_array:
    """Return every rater's mean answer of ±1 to every item, explicit if zero, (items, raters)."""
    at, shape = (responses.item, responses.rater), (responses.n_items, responses.n_raters)
    sums = scipy.sparse.csr_array((2.0 * responses.label - 1.0, at), shape=shape)
    sums.data /= scipy.sparse.csr_array((np.ones(responses.n_responses), at), shape=shape).data
    return sums


def sampling_variance(mean: Array, other: Array, covariance: Array, overlap: Array) -> Array:
    """Return the sampling variance of covariances of ±1 labels (Parisi et al. 2014, eq. 9).

    Arguments broadcast; NaN where two raters share fewer than two items.
    """
    overlap = np.where(overlap >= 2, overlap, np.nan)
    spread = (1 - mean**2) * (1 - other**2)
    shrunk = (overlap - 2) / (overlap - 1) * covariance
    variance = spread / (overlap - 1) + covariance / overlap * (4 * mean * other - shrunk)
    return np.maximum(variance, 0.0)  # negative for covariances that the means do not allow


def covariance(responses: Responses) -> xr.Dataset:
    r"""Estimate means and covariances of the raters' labels, read as −1 and +1.

    Every pair of raters is compared on the items that both answered, so responses may be missing.
    Repeated answers of a rater to an item are averaged, which leaves the covariances between raters
    unbiased (and their sampling variances a little too large).

    Parameters
    ----------
    responses : Responses
        Of two classes; the last one is +1.

    Returns
    -------
    xarray.Dataset
        ``mean[rater]``: mean label, NaN for a rater without responses. ``covariance[rater,
        other]``: with denominator n − 1, the diagonal included; NaN where a pair shares fewer than
        two items. ``variance[rater, other]``: sampling variance of every covariance, given
        conditionally independent items. ``overlap[rater, other]``: number of items that both
        answered.

    Raises
    ------
    MomentsError
        Not two classes.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, eq. 4, 5 and 9.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_counts({"000": 40, "010": 10, "110": 20, "111": 30})
    >>> bf.moments.covariance(responses).covariance.round(3).values
    array([[1.01 , 0.808, 0.606],
           [0.808, 0.97 , 0.485],
           [0.606, 0.485, 0.848]])
    """
    require_binary(responses)
    answers = mean_answers(responses)
    answered = answers.copy()
    answered.data[:] = 1.0
    counted = scipy.sparse.diags_array(responses.multiplicity.astype(float))
    overlap = (answered.T @ counted @ answered).toarray()
    own = (answers.T @ counted @ answered).toarray()
    product = (answers.T @ counted @ answers).toarray()
    other = own.T
    with np.errstate(invalid="ignore", divide="ignore"):  # pairs that share too few items
        mean, other_mean = own / overlap, other / overlap
        cov = np.where(overlap >= 2, (product - own * other_mean) / (overlap - 1), np.nan)
    pair = ("rater", "other")
    return xr.Dataset(
        {
            "mean": ("rater", np.diagonal(mean).copy()),
            "covariance": (pair, cov),
            "variance": (pair, sampling_variance(mean, other_mean, cov, overlap)),
            "overlap": (pair, overlap.astype(np.int64)),
        },
        coords={"rater": responses.raters, "other": responses.raters},
        attrs={"positive": responses.classes.tolist()[-1]},
    )


def against_rest(responses: Responses, k: int) -> Responses:
    """Return the table with two classes: not class ``k``, and class ``k``."""
    key = responses.item
    key *= 2 * responses.n_raters
    key += 2 * responses.rater + (responses.label == k)
    key.sort()  # repeated answers may change order
    key %= 2 * responses.n_raters
    table = responses.without_statements()  # moments of hard labels only
    return replace(table, classes=np.array([False, True]), cell=key.astype(np.uint32))


def class_moments(responses: Responses) -> list[xr.Dataset]:
    """Return the covariances of every class against the rest, one for two classes."""
    if responses.n_classes == 2:
        return [covariance(responses)]
    return [covariance(against_rest(responses, k)) for k in range(responses.n_classes)]
