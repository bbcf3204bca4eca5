"""Means and covariances of two-class responses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_kind
from bayesfuse.numerics.kernels import Array, inner, kernel


def require_binary(responses: Responses) -> None:
    """Raise MomentsError unless there are two classes, ModelError unless these are Responses."""
    require_kind("responses", responses, Responses)
    if responses.n_classes != 2:
        raise MomentsError(
            "Binary moments need two classes, coded as −1 and +1; use one_vs_rest or confusion for "
            f"more. Got: {responses.n_classes} classes "
            f"{responses.classes.tolist()}."
        )


@inner
def mean_answer(cell, r, last):
    """Return the rater of row r, their mean answer to the item, and the row of the next rater."""
    rater = cell[r] >> 1
    total, times = 0.0, 0
    while r < last and cell[r] >> 1 == rater:
        total += 2.0 * (cell[r] & 1) - 1.0
        times += 1
        r += 1
    return rater, total / times, r


@kernel
def pair_sums(start, cell, multiplicity, n_raters):
    """Sum 1, own answer, the other's answer and their product over the common items of pairs.

    Shape (raters, raters, 4), filled where ``other <= rater``: O(Σ responses-per-item²).
    """
    sums = np.zeros((n_raters, n_raters, 4))
    n_items = multiplicity.size
    most = np.uint64(0)
    for n in range(n_items):
        most = max(most, np.uint64(start[n + 1] - start[n]))
    who = np.empty(most, np.uint64)
    answer = np.empty(most)
    for n in range(n_items):
        size = np.float64(multiplicity[n])
        distinct = 0
        r = start[n]
        while r < start[n + 1]:
            who[distinct], answer[distinct], r = mean_answer(cell, r, start[n + 1])
            distinct += 1
        for a in range(distinct):
            own = size * answer[a]
            for b in range(a + 1):
                entry = sums[who[a], who[b]]
                entry[0] += size
                entry[1] += own
                entry[2] += size * answer[b]
                entry[3] += own * answer[b]
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
    raters = responses.n_raters
    sums = pair_sums(responses.start, responses.cell, responses.multiplicity, raters)
    lower = np.tril_indices(raters, -1)
    sums[lower[::-1]] = sums[lower][:, [0, 2, 1, 3]]
    overlap, own, other, product = np.moveaxis(sums, -1, 0)
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
