"""Dependence of raters given the truth: scores of pairs, and a test for a second target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_count, require_kind, require_seed
from bayesfuse.moments.binary import accuracies_of
from bayesfuse.moments.pairs import class_moments, covariance, rank_one, sampling_variance
from bayesfuse.numerics.kernels import Array, kernel

Indices = NDArray[np.int64]

MAX_EXACT_RATERS = 300  # raters up to which all determinants are summed: a second or two
N_SAMPLED_PAIRS = 5_000  # pairs (k, l) above that, drawn with replacement


def score_matrix(responses: Responses) -> xr.DataArray:
    r"""Score the dependence of every two raters given the truth, in O(raters⁴) or less.

    :math:`\hat s_{ij} = \sum_{k,l} |\hat r_{ij} \hat r_{kl} - \hat r_{il} \hat r_{kj}|`, over
    all ordered pairs of other raters; all terms vanish if the four are independent given the truth.
    Of more than 300 raters, 5,000 pairs are drawn at random. With more than two classes, each is
    compared with the rest and the scores are summed.

    Parameters
    ----------
    responses : Responses

    Returns
    -------
    xarray.DataArray
        ``score[rater, other]``, symmetric, zero on the diagonal. If pairs are drawn or covariances
        missing, it is the mean of the known terms times the number of all. NaN if none is known.

    Raises
    ------
    MomentsError : fewer than four raters, or four who do not share items in pairs

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, eq. 15.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.score_matrix(bf.datasets.caries())[0].round(3).values
    array([0.   , 0.03 , 0.036, 0.028, 0.032])
    """
    require_kind("responses", responses, Responses)
    names = responses.raters
    if len(names) < 4:
        raise MomentsError(
            "A score compares two raters with pairs of others, so it needs at least four. Got: "
            f"{len(names)} raters."
        )
    matrices = [moments.covariance.values for moments in class_moments(responses)]
    score = np.sum([scores(matrix) for matrix in matrices], axis=0)
    if np.isnan(score).sum() == score.size - len(score):
        known = int(np.isfinite(matrices[0]).sum() - np.isfinite(np.diagonal(matrices[0])).sum())
        raise MomentsError(
            "A score needs four raters who share items in pairs, because determinants need known "
            f"covariances. Got: {len(names)} raters with {known // 2} known covariances."
        )
    return xr.DataArray(score, {"rater": names, "other": names}, ("rater", "other"), "score")


def scores(covariance: Array) -> Array:
    """Return the scores (raters, raters) of covariances, which are NaN where unknown."""
    n_raters = len(covariance)
    first, second = np.triu_indices(n_raters, 1)
    if n_raters > MAX_EXACT_RATERS:
        rng = np.random.default_rng(0)
        first = rng.integers(n_raters, size=N_SAMPLED_PAIRS)
        second = (first + rng.integers(1, n_raters, size=N_SAMPLED_PAIRS)) % n_raters
    total, used = _sum_determinants(covariance, first, second)
    total, used = total + total.T, used + used.T  # pair (k, l) of (i, j) is (l, k) of (j, i)
    with np.errstate(invalid="ignore"):  # nothing known: 0 / 0
        score: Array = total / used * ((n_raters - 2) * (n_raters - 3))
    np.fill_diagonal(score, 0.0)
    return score


@kernel
def _sum_determinants(covariance, first, second):
    """Sum the known |r_ij r_km - r_im r_kj| over the given (k, m), and count them.

    The inner loop is over j, because it can be vectorised.
    """
    n_raters = len(covariance)
    total = np.zeros((n_raters, n_raters))
    used = np.zeros((n_raters, n_raters))
    for i in range(n_raters):
        row, count, r_i = total[i], used[i], covariance[i]
        for p in range(first.size):
            k, m = first[p], second[p]
            r_k, r_km, r_im = covariance[k], covariance[k, m], r_i[m]
            unknown = r_km != r_km or r_im != r_im
            if unknown or i == k or i == m:
                continue
            replaced = row[k], row[m], count[k], count[m]
            for j in range(n_raters):
                determinant = abs(r_i[j] * r_km - r_im * r_k[j])
                known = determinant == determinant
                row[j] += determinant if known else 0.0
                count[j] += 1.0 if known else 0.0
            row[k], row[m], count[k], count[m] = replaced  # j must differ from both
    return total, used


def spectrum(
    source: Responses | xr.Dataset,
    prevalence: float | None = None,
    *,
    draws: int = 199,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    """Test whether some raters report another target than the truth, as a cartel does.

    With one target the covariances between raters have rank one. The statistic is the largest
    absolute eigenvalue of the residuals :math:`q_{ij} - v_i v_j` divided by their standard
    deviations. Its distribution under one target is simulated at the estimated accuracies.

    Parameters
    ----------
    source : Responses or xarray.Dataset
        Responses of two classes, or their :func:`covariance` (then without p-value).
    prevalence : float, optional
        Of the positive class, if known; see :func:`accuracies`, also for errors.
    draws : int: number of simulated tables
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.Dataset
        ``eigenvalue[component]``: of the covariance matrix with v² on its diagonal (and products of
        v where two raters share no items), in descending order. ``statistic`` and its ``p_value``.
        ``suspicion[rater]``: the leading eigenvector of the residuals, large for raters who share a
        second target.

    Raises
    ------
    MomentsError : fewer than four raters: three always fit rank one

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, Theorem 1 (rank two with a
    cartel); the test is a parametric bootstrap of this package.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> spectrum = bf.moments.spectrum(bf.datasets.caries(), draws=99, random_seed=1)
    >>> float(spectrum.p_value), spectrum.rater[spectrum.suspicion > 0.4].values
    (0.01, array(['dentist 1'], dtype='<U9'))
    """
    require_count("draws", draws)
    rng = require_seed(random_seed)
    moments = source if isinstance(source, xr.Dataset) else covariance(source)
    if moments.sizes["rater"] < 4:
        raise MomentsError(
            "Testing for a second target needs at least four raters, because three covariances "
            f"always fit rank one. Got: {moments.sizes['rater']} raters."
        )
    fitted = rank_one(moments, "least_squares")
    v = np.nan_to_num(fitted.values)
    value, suspicion = _second_direction(moments, v)
    known = moments.overlap.values >= 2
    np.fill_diagonal(known, False)
    completed = np.where(known, moments.covariance.values, np.outer(v, v))
    p_value = np.nan
    if isinstance(source, Responses):
        estimate = accuracies_of(source, moments, fitted, prevalence)
        rates = 1 - estimate.specificity.values, estimate.sensitivity.values
        # covariances of raters of unknown quality are not used, so any draw will do
        chance = np.nan_to_num(np.stack(rates, axis=-1), nan=0.5)
        table = source.expand()
        item, rater, beyond = table.item, table.rater, 0
        for _ in range(draws):  # with the truth as the only target
            truth = (rng.random(table.n_items) < estimate.attrs["prevalence"]).astype(np.int64)
            label = rng.random(len(item)) < chance[rater, truth[item]]
            drawn = covariance(replace(table, cell=(2 * rater + label).astype(np.uint32)))
            try:
                rank_one_fit = np.nan_to_num(rank_one(drawn, "least_squares").values)
                beyond += _second_direction(drawn, rank_one_fit)[0] >= value
            except MomentsError:  # no statistic, so no evidence
                beyond += 1
        p_value = (1 + beyond) / (1 + draws)
    return xr.Dataset(
        {
            "eigenvalue": ("component", scipy.linalg.eigh(completed, eigvals_only=True)[::-1]),
            "statistic": value,
            "p_value": p_value,
            "suspicion": ("rater", suspicion),
        },
        coords={"rater": moments.rater, "component": np.arange(1, len(v) + 1)},
    )


def _second_direction(moments: xr.Dataset, v: Array) -> tuple[float, Array]:
    """Return the largest absolute eigenvalue of the standardised residuals and its vector."""
    mean, overlap = moments["mean"].values, moments.overlap.values
    product = np.outer(v, v)
    variance = sampling_variance(mean[:, None], mean, product, overlap)
    known = variance > 0  # pairs that share items and both vary
    np.fill_diagonal(known, False)
    residual = np.zeros_like(product)
    residual[known] = (moments.covariance.values - product)[known] / np.sqrt(variance[known])
    values, vectors = scipy.linalg.eigh(residual)
    most = int(np.argmax(np.abs(values)))
    vector = vectors[:, most]
    return float(abs(values[most])), vector * np.sign(vector[np.argmax(np.abs(vector))])
