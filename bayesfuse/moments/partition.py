"""Indices of dependent raters, found from covariances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy
import xarray as xr

from bayesfuse.data.fingerprint import first_occurrences
from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_choice, require_count, require_kind
from bayesfuse.moments.pairs import class_moments, least_squares, orient
from bayesfuse.moments.score import Indices, score_matrix
from bayesfuse.numerics.kernels import Array

MAX_CLUSTERS = 100  # tried
DENSE_SIZES = 30  # every number of clusters up to this is tried


def find_groups(
    responses: Responses,
    *,
    min_groups: int = 4,
    criterion: str = "penalised",
) -> xr.Dataset:
    r"""Find groups of raters that follow a common hidden verdict instead of the truth.

    Spectral clustering of the score matrix (Ward's linkage of its leading eigenvectors) gives an
    assignment for every number of groups. Two vectors are fitted to each,
    :math:`\hat r_{ij} \approx v^{on}_i v^{on}_j` within groups and :math:`v^{off}_i v^{off}_j`
    between them, and the best assignment is kept. O(raters⁴) in total.

    Parameters
    ----------
    responses : Responses
        With more than two classes, each is compared with the rest and the errors are summed: with
        many items, raters whose errors differ much between classes are grouped.
    min_groups : int, default 4
        Smallest number of clusters tried, up to that of raters, at most 100 (above 30 in steps of a
        tenth). The data cannot reject two or three.
    criterion : {"penalised", "residual"}
        ``"penalised"`` (default): squared errors over their sampling variances, plus an extended
        BIC penalty. Clusters that are not worth their penalty are dissolved into single raters.
        ``"residual"`` is the published rule, the smallest eq. 14 over fewer clusters than raters
        (published with ``min_groups=2``). It also groups independent raters.

    Returns
    -------
    xarray.Dataset
        ``group[rater]``: index of the group, 0, 1, … in order of the raters.
        ``residual[n_groups]``: eq. 14 for every number of clusters, with pairs weighted by the
        number of shared items. ``criterion[n_groups]``: the minimised criterion. Attributes:
        ``n_groups`` (of the result), ``criterion``, ``dispersion`` (squared errors relative to
        those expected from sampling; at least 1).

    Raises
    ------
    MomentsError : as :func:`score_matrix`; ``min_groups`` above the number of raters

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, Algorithm 1 and eq. 14.
    Chen & Chen (2008), Biometrika 95, 759–771 (extended BIC).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.find_groups(bf.datasets.caries(), criterion="residual").group.values
    array([0, 1, 0, 2, 3])
    """
    require_kind("responses", responses, Responses)
    require_choice("criterion", criterion, "penalised", "residual")
    score = score_matrix(responses)
    sizes = _sizes(responses.n_raters, min_groups, criterion)
    pair = PairMoments.of(responses, equal=criterion == "residual")
    clusters = _clusters(np.nan_to_num(score.values), sizes)

    @cache  # many clusterings dissolve to the same groups
    def fit(group: bytes) -> GroupFit:
        return fit_groups(pair, np.frombuffer(group, dtype=np.int64))

    fitted = [fit(group.tobytes()) for group in clusters]
    residual = value = np.array([group_fit.residual for group_fit in fitted])
    dispersion = 1.0
    if criterion == "penalised":
        dispersion = max(
            1.0, min(group_fit.error / max(group_fit.freedom, 1) for group_fit in fitted)
        )
        fitted = [_dissolve(group_fit, fit, dispersion) for group_fit in fitted]
        value = np.array(
            [group_fit.error / dispersion + group_fit.cost.sum() for group_fit in fitted]
        )
    best = fitted[int(np.argmin(value))]
    return xr.Dataset(
        {
            "group": ("rater", best.group),
            "residual": ("n_groups", residual),
            "criterion": ("n_groups", value),
        },
        coords={"rater": responses.raters, "n_groups": sizes},
        attrs={
            "n_groups": int(best.group.max()) + 1,
            "criterion": criterion,
            "dispersion": dispersion,
        },
    )


def _sizes(n_raters: int, min_groups: int, criterion: str) -> Indices:
    """Return the numbers of clusters to try, with "all independent" for the penalised criterion."""
    require_count("min_groups", min_groups, least=2)  # one group means independent raters
    if min_groups > min(MAX_CLUSTERS, n_raters):
        raise MomentsError(
            f"min_groups must not exceed {MAX_CLUSTERS} or the number of raters. Got: "
            f"{min_groups} for {n_raters} raters."
        )
    sizes = np.arange(min_groups, min(MAX_CLUSTERS, n_raters - 1) + 1)
    tenths = np.floor(np.log(sizes / DENSE_SIZES) / np.log(1.1))
    sizes = sizes[(sizes <= DENSE_SIZES) | np.append(np.diff(tenths) > 0, True)]
    return sizes if criterion == "residual" and len(sizes) else np.append(sizes, n_raters)


def _clusters(score: Array, sizes: Indices) -> list[Indices]:
    """Cluster raters by the leading eigenvectors of the normalised Laplacian of their scores."""
    from scipy.cluster.hierarchy import fcluster, linkage  # slow to import

    degree = score.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    _, vectors = np.linalg.eigh(score * np.outer(scale, scale))
    partitions = []
    for size in sizes:
        partition = np.arange(size)
        if size < len(score):
            partition = fcluster(linkage(vectors[:, -size:], "ward"), size, "maxclust")
        partitions.append(first_occurrences(partition)[1])
    return partitions


@dataclass(frozen=True)
class PairMoments:
    """Covariances and weights, shape (1 or classes, raters, raters); zero where unknown."""

    q: Array
    precision: Array  # inverse sampling variances; zero on the diagonal
    share: Array  # overlaps relative to the largest: the weights of eq. 14
    equal: bool  # whether to weight fits by share instead of precision

    @classmethod
    def of(cls, responses: Responses, *, equal: bool = False) -> PairMoments:
        """Estimate the moments of responses."""
        moments = class_moments(responses)
        q = np.stack([np.nan_to_num(by_class.covariance.values) for by_class in moments])
        variance = np.stack([by_class.variance.values for by_class in moments])
        overlap = moments[0].overlap.values.astype(float)
        np.fill_diagonal(overlap, 0.0)
        spread = np.diagonal(q, axis1=1, axis2=2)
        product = spread[:, :, None] * spread[:, None, :]
        known = (overlap >= 2) & (product > 0)
        # Near perfect agreement the estimated variance vanishes; without dependence it does not.
        least = product / np.maximum(overlap, 1.0)
        precision = np.where(known, 1.0 / np.where(known, np.maximum(variance, least), 1.0), 0.0)
        if len(q) > 1:  # the last class follows from the others
            precision *= 1 - 1 / len(q)
        share = np.where(known, overlap / max(overlap.max(), 1.0), 0.0)
        return cls(q, precision, share, equal)


@dataclass(frozen=True)
class GroupFit:
    """An assignment and the two vectors fitted to it, shape (1 or classes, raters)."""

    group: Indices
    v_on: Array
    v_off: Array
    residual: float  # eq. 14
    error: float  # squared errors over their variances, every pair once
    saved: Array  # reduction of the error by v_on of every group, shape (groups,)
    cost: Array  # penalty for the parameters of every group, then between groups
    freedom: int


def fit_groups(pair: PairMoments, group: Indices) -> GroupFit:
    """Fit v_on and v_off to an assignment by least squares."""
    weight = pair.share if pair.equal else pair.precision
    together = group[:, None] == group
    v_on, v_off = np.zeros((2, *pair.q.shape[:2]))
    members = [np.flatnonzero(group == g) for g in range(group.max() + 1)]
    for c, (q, w) in enumerate(zip(pair.q, weight, strict=True)):
        v_off[c] = orient(least_squares(q, np.where(together, 0.0, w)))
        for raters in members:
            if len(raters) > 1:
                part = np.ix_(raters, raters)
                v_on[c, raters] = orient(least_squares(q[part], w[part]))
    on, off = (pair.q - v[:, :, None] * v[:, None, :] for v in (v_on, v_off))
    left = np.where(together, on, off) ** 2
    saved = (pair.precision * np.where(together, off**2 - on**2, 0.0)).sum(axis=(0, 2)) / 2
    cost, parameters = _cost(pair, np.array([len(raters) for raters in members]))
    return GroupFit(
        group,
        v_on,
        v_off,
        float((pair.share * left).sum()),
        float((pair.precision * left).sum() / 2),
        np.bincount(group, saved),
        cost,
        int(np.count_nonzero(pair.precision)) // 2 - parameters,
    )


def _cost(pair: PairMoments, size: Indices) -> tuple[Array, int]:
    """Return the extended BIC of every group and of v_off, and the number of parameters."""
    n_pairs = max(int(np.count_nonzero(pair.precision[0])) // 2, 1)
    n_raters = int(size.sum())
    # Two raters have one parameter; between two groups, v_off has no scale.
    n_within = np.where(size > 2, size, size - 1)
    between = {1: 0, 2: n_raters - 1}.get(len(size), n_raters)
    parameters = np.append(n_within, between) * max(len(pair.q) - 1, 1)
    choices = -scipy.special.betaln(size + 1, n_raters - size + 1) - np.log(n_raters + 1)
    ways = np.append(np.where(size > 1, choices, 0.0), 0.0)
    return parameters * np.log(n_pairs) + 2 * ways, int(parameters.sum())


def _dissolve(fitted: GroupFit, fit: Callable[[bytes], GroupFit], dispersion: float) -> GroupFit:
    """Dissolve every group that is not worth its cost into single raters."""
    while True:
        size = np.bincount(fitted.group)
        poor = (size > 1) & (fitted.saved / dispersion < fitted.cost[:-1])
        if len(size) == 2 or not poor.any():  # with two groups, v_off cannot replace v_on
            return fitted
        alone = poor[fitted.group]
        group = np.where(alone, len(size) + np.arange(len(alone)), fitted.group)
        fitted = fit(first_occurrences(group)[1].tobytes())
