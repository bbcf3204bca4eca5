"""Means and covariances of two-class responses, and their rank-one completion."""

from __future__ import annotations

import numpy as np
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_choice, require_kind
from bayesfuse.numerics.kernels import Array, kernel

METHODS = ("log_linear", "weighted", "sdp", "eigen", "least_squares")
MAX_EXACT_RATERS = 100  # raters above which the starting eigenvector is approximate


def require_binary(responses: Responses) -> None:
    """Raise MomentsError unless there are two classes, ModelError unless these are Responses."""
    require_kind("responses", responses, Responses)
    if responses.n_classes != 2:
        raise MomentsError(
            "Binary moments need two classes, coded as −1 and +1; use one_vs_rest or confusion for "
            f"more. Got: {responses.n_classes} classes "
            f"{responses.classes.tolist()}."
        )


@kernel
def pair_sums(start, cell, multiplicity, n_raters):
    """Sum 1, own answer, the other's answer and their product over the common items of pairs.

    Shape (raters, raters, 4), filled where ``other <= rater``: O(Σ responses-per-item²).
    """
    sums = np.zeros((n_raters, n_raters, 4))
    n_items = multiplicity.size
    max_per_item = np.uint64(0)
    for n in range(n_items):
        max_per_item = max(max_per_item, np.uint64(start[n + 1] - start[n]))
    rater_of = np.empty(max_per_item, np.uint64)
    answer = np.empty(max_per_item)
    for n in range(n_items):
        size = np.float64(multiplicity[n])
        distinct = 0
        r = start[n]
        while r < start[n + 1]:
            rater, total, n_repeats = cell[r] >> 1, 0.0, 0
            while r < start[n + 1] and cell[r] >> 1 == rater:
                total += 2.0 * (cell[r] & 1) - 1.0
                n_repeats += 1
                r += 1
            rater_of[distinct], answer[distinct] = rater, total / n_repeats
            distinct += 1
        for i in range(distinct):
            weighted_answer = size * answer[i]
            for j in range(i + 1):
                entry = sums[rater_of[i], rater_of[j]]
                entry[0] += size
                entry[1] += weighted_answer
                entry[2] += size * answer[j]
                entry[3] += weighted_answer * answer[j]
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
    """Estimate means and covariances of the raters' labels, read as −1 and +1.

    Every pair of raters is compared on the items that both answered, so responses may be missing.
    Repeated answers of a rater to an item are averaged.

    Parameters
    ----------
    responses : Responses of two classes (else MomentsError); the last one is +1

    Returns
    -------
    xarray.Dataset
        ``mean[rater]``: mean label. ``covariance[rater, other]``: with denominator n − 1, NaN where
        a pair shares fewer than two items. ``variance[rater, other]``: the sampling variances of
        these. ``overlap[rater, other]``: number of items that both answered.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, eq. 4, 5 and 9.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.covariance(bf.datasets.caries()).covariance[0].round(3).values
    array([0.32 , 0.161, 0.178, 0.136, 0.157])
    """
    require_binary(responses)
    raters = responses.n_raters
    sums = pair_sums(responses.start, responses.cell, responses.multiplicity, raters)
    lower = np.tril_indices(raters, -1)
    sums[lower[::-1]] = sums[lower][:, [0, 2, 1, 3]]
    overlap, rater_sum, other, product = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):  # pairs that share too few items
        mean, other_mean = rater_sum / overlap, other / overlap
        cov = np.where(overlap >= 2, (product - rater_sum * other_mean) / (overlap - 1), np.nan)
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
    codes, two = (responses.item, responses.rater, responses.label == k), np.array([False, True])
    return responses.with_rows(*codes, classes=two, stated=None)  # moments of hard labels only


def class_moments(responses: Responses) -> list[xr.Dataset]:
    """Return the covariances of every class against the rest, one for two classes."""
    if responses.n_classes == 2:
        return [covariance(responses)]
    return [covariance(against_rest(responses, k)) for k in range(responses.n_classes)]


def rank_one(covariance: xr.Dataset, method: str = "weighted") -> xr.DataArray:
    r"""Estimate v, whose products are the covariances between raters.

    Given the truth, raters answer independently, so that off the diagonal
    :math:`Q = v v^\top` with :math:`v_i = \sqrt{1 - b^2} (2 \pi_i - 1)`, where π is a rater's
    balanced accuracy and b the class imbalance. Covariances do not determine the sign: raters are
    assumed to be better than random on average, weighted by v.

    Parameters
    ----------
    covariance : xarray.Dataset, from :func:`covariance`
    method : str
        ``"weighted"`` (default) and ``"log_linear"`` solve :math:`\log|q_{ij}| = t_i + t_j` for
        the diagonal :math:`\exp 2t_i`, with weights :math:`q^2 / \mathrm{Var}\,q` or over the
        pairs with :math:`|q|` above two standard deviations, and take the leading eigenvector.
        ``"sdp"`` minimises the squared off-diagonal residuals of a positive semidefinite matrix
        plus its trace times twice the root mean square of the sampling standard deviations.
        ``"eigen"`` takes the leading eigenvector of the covariance itself (inconsistent for few
        raters). ``"least_squares"`` minimises :math:`\sum_{i \ne j} n_{ij} (q_{ij} - v_i v_j)^2`
        over :math:`v_i^2 \le q_{ii}`, with the overlaps as weights. The others impute pairs that
        share fewer than two items by it.

    Returns
    -------
    xarray.DataArray
        ``v[rater]``. Blocks of raters without common items are estimated and signed separately.
        Zero for a rater with constant responses; NaN for a rater in a block without a cycle of odd
        length (such as three raters who share items in pairs), which has no unique solution.

    Raises
    ------
    MomentsError
        No three raters who share items in pairs, covariances of these that are not finite.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, supplement B: eq. S5 (log-linear),
    S6 (weighted), S7 (sdp), section B.4 (eigen).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.rank_one(bf.moments.covariance(bf.datasets.caries())).round(2).values
    array([0.34, 0.51, 0.47, 0.36, 0.5 ])
    """
    require_choice("method", method, *METHODS)
    require_kind("covariance", covariance, xr.Dataset)
    q, variance = covariance.covariance.values, covariance.variance.values
    shared = covariance.overlap.values >= 2
    if len(q) < 3:
        raise MomentsError(
            "A rank-one matrix needs at least three raters, because its diagonal is unknown and "
            f"one pair does not determine v. Got: {len(q)} raters."
        )
    if not np.all(np.isfinite(q[shared])):
        raise MomentsError(
            "Covariances must be finite where two raters share items. Got: "
            f"{q[shared & ~np.isfinite(q)][0]}."
        )
    varies = np.diagonal(q) > 0
    weight = np.where(shared & np.outer(varies, varies), covariance.overlap.values, 0).astype(float)
    np.fill_diagonal(weight, 0.0)
    blocks = determined_blocks(weight > 0)
    if not blocks:
        raise MomentsError(
            "Three raters who vary their responses must share at least two items in pairs, because "
            f"three pairs determine v. Got: {len(q)} raters, {int(varies.sum())} of them "
            f"varying, with {int((weight > 0).sum()) // 2} pairs that share two items."
        )
    v = np.full(len(q), np.nan)
    v[np.diagonal(q) == 0] = 0.0
    for block in blocks:
        part = np.ix_(block, block)
        unsigned = _solve(q[part], variance[part], weight[part] / weight.max(), method)
        v[block] = orient(unsigned)
    return xr.DataArray(v, {"rater": covariance.rater}, ("rater",), "v", {"method": method})


def determined_blocks(linked: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the connected blocks of raters with an odd cycle, which determines v up to sign."""
    from scipy.sparse.csgraph import connected_components  # slow to import, as eigsh below

    links = scipy.sparse.csr_array(linked)
    doubled = scipy.sparse.block_array([[None, links], [links, None]])
    first, second = connected_components(doubled, directed=False)[1].reshape(2, -1)
    odd = np.flatnonzero((first == second) & linked.any(axis=1))
    return [odd[first[odd] == label] for label in np.unique(first[odd])]


def orient(v: Array) -> Array:
    """Choose the sign of v by its sum."""
    return -v if v.sum() < 0 else v


def _solve(q: Array, variance: Array, weight: Array, method: str) -> Array:
    fitted = least_squares(q, weight)
    if method == "least_squares":
        return fitted
    known = weight > 0
    matrix = np.where(known, q, np.outer(fitted, fitted))
    np.fill_diagonal(matrix, np.diagonal(q))
    if method == "eigen":
        return scaled(leading(matrix)[1], q, weight)
    if method == "sdp":
        # zero if all pairs share so few items that their estimated variances vanish
        penalty = 2 * float(np.sqrt(variance[known].mean())) or 1.0
        return scaled(leading(smallest_trace(matrix, known, penalty))[1], q, weight)
    np.fill_diagonal(matrix, log_diagonal(q, variance, fitted, known, method == "weighted"))
    value, vector = leading(matrix)
    return np.sqrt(max(value, 0.0)) * vector


def leading(matrix: Array) -> tuple[float, Array]:
    """Return the largest eigenvalue and its eigenvector."""
    last = [len(matrix) - 1] * 2
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=last)
    return float(values[0]), vectors[:, 0]


def scaled(direction: Array, q: Array, weight: Array) -> Array:
    """Scale a direction so that its products fit the pairs by least squares."""
    observed = np.where(weight > 0, q, 0.0)
    squares = direction**2 @ weight @ direction**2
    fit = direction @ (weight * observed) @ direction / squares if squares > 0 else 0.0
    return np.sqrt(max(fit, 0.0)) * direction


def least_squares(q: Array, weight: Array) -> Array:
    """Minimise the weighted squares of ``q - v vᵀ`` off the diagonal, with ``v² <= diag(q)``.

    Of (raters, raters) returns v (raters,), unsigned: ``-v`` fits as well.
    """
    from scipy.sparse.linalg import eigsh

    observed = np.where(weight > 0, q, 0.0)
    matrix = weight * observed
    if len(q) <= MAX_EXACT_RATERS or not matrix.any():
        direction = leading(matrix)[1]
    else:
        begin = np.random.default_rng(0).standard_normal(len(q))
        sparse = scipy.sparse.csr_array(matrix)
        direction = eigsh(sparse, 1, which="LA", v0=begin, tol=1e-3)[1][:, 0]
    start = scaled(direction, q, weight)
    pairs = np.nonzero(weight)  # few in a sparse crowd
    first = np.searchsorted(pairs[0], np.arange(len(q) + 1))
    bound = np.sqrt(np.diagonal(q))
    return _descend(first, pairs[1], observed[pairs], weight[pairs], bound, start, 10_000, 1e-14)


@kernel
def _descend(first, other, q, weight, bound, start, sweeps, tolerance):
    """Minimise over one rater i at a time; ``other[first[i]:first[i + 1]]`` are in its pairs."""
    v = np.minimum(np.maximum(start, -bound), bound)
    for _ in range(sweeps):
        moved = 0.0
        for i in range(v.size):
            numerator = denominator = 0.0
            for p in range(first[i], first[i + 1]):
                weighted_v = weight[p] * v[other[p]]
                denominator += weighted_v * v[other[p]]
                numerator += weighted_v * q[p]
            if denominator > 0:
                best = min(max(numerator / denominator, -bound[i]), bound[i])
                moved = max(moved, abs(best - v[i]))
                v[i] = best
        if moved <= tolerance:
            break
    return v


def log_diagonal(
    q: Array, variance: Array, fitted: Array, known: NDArray[np.bool_], weighted: bool
) -> Array:
    """Solve ``log|q| = t_i + t_j`` for the diagonal ``exp 2t`` from ``fitted`` (eq. S5, S6)."""
    with np.errstate(invalid="ignore"):  # unknown pairs hold NaN
        used = known & (variance > 0) & (q**2 > (0 if weighted else 4) * variance)
    weight = np.zeros_like(q)
    weight[used] = q[used] ** 2 / variance[used] if weighted else 1.0
    start = np.log(np.maximum(np.abs(fitted), np.finfo(float).tiny ** 0.25))
    residual = np.zeros_like(q)
    residual[used] = np.log(np.abs(q[used])) - np.add.outer(start, start)[used]
    normal = weight + np.diag(weight.sum(axis=1))
    t = start + np.linalg.lstsq(normal, (weight * residual).sum(axis=1))[0]
    return np.exp(2 * t)


def smallest_trace(
    q: Array, known: NDArray[np.bool_], penalty: float, tolerance: float = 1e-9
) -> Array:
    """Minimise ``Σ_{i≠j} (q_ij - R_ij)² + penalty · trace R`` over R ⪰ 0 (eq. S7).

    Alternating direction method of multipliers; with ``rho = penalty / scale`` the diagonal
    converges equally fast for any penalty.
    """
    scale = float(np.abs(q).mean())
    rho = penalty / scale
    curvature = np.where(known, 2.0, 0.0)  # of the squares of pairs
    target = np.where(known, 2 * q, 0.0) - penalty * np.eye(len(q))
    r, dual = q, np.zeros_like(q)
    for _ in range(5_000):
        fitted = (target + rho * (r - dual)) / (curvature + rho)
        values, vectors = scipy.linalg.eigh(fitted + dual)
        previous, r = r, (vectors * np.maximum(values, 0.0)) @ vectors.T
        dual += fitted - r
        if max(np.abs(fitted - r).max(), np.abs(r - previous).max()) <= tolerance * scale:
            break
    return r
