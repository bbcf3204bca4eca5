"""Which raters depend on each other: groups that share a hidden source, found from covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numba import njit
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import gammaln

from bayesfuse.errors import MomentsError
from bayesfuse.moments.completion import least_squares, orient
from bayesfuse.moments.pairs import Array, covariance
from bayesfuse.responses import Responses

Groups = NDArray[np.int64]

EXACT = 300  # raters up to which every determinant is summed: a second or two
SAMPLED = 10_000  # pairs (k, l) above that
MOST_CLUSTERS = 100  # tried unless told otherwise

CRITERIA = ("penalised", "residual")

# -------------------------------------------------------------------- the score matrix


def score_matrix(
    responses: Responses | xr.Dataset | xr.DataArray | Array,
    *,
    pairs: int | None = None,
    random_seed: int = 0,
) -> xr.DataArray:
    r"""Score how strongly every two raters depend on each other beyond the truth they share.

    The score of raters i and j sums, over all ordered pairs (k, l) of other raters, the
    determinants that vanish where the four answer independently given the truth,
    :math:`\hat s_{ij} = \sum_{k,l} |\hat r_{ij} \hat r_{kl} - \hat r_{il} \hat r_{kj}|`.

    Parameters
    ----------
    responses : Responses, Dataset, DataArray or ndarray, shape (raters, raters)
        Responses, what :func:`covariance` says about them, or a symmetric covariance matrix, NaN
        where it is not known; its diagonal is not used. More than two classes are compared one
        against the rest and their scores summed.
    pairs : int, optional
        How many unordered pairs {k, l} to draw at random (with replacement, the same for all i
        and j). By default all of them for up to 300 raters, 10,000 above.
    random_seed : int, default 0
        Of the draw.

    Returns
    -------
    xarray.DataArray
        ``score[rater, other]``, symmetric, zero on the diagonal. Where pairs were drawn or
        covariances are missing it is the mean determinant over what is known, times the number
        of all (k, l): an unbiased estimate of the full sum over a random draw. NaN where nothing
        is known.

    Raises
    ------
    MomentsError
        Fewer than four raters, a matrix that is not square and symmetric, no pairs.

    Notes
    -----
    O(raters² × pairs): 124 raters take 0.03 s, 300 raters 1 s.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, eq. 15.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.moments import score_matrix
    >>> v = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    >>> covariance = np.outer(v, v)
    >>> covariance[0, 1] = covariance[1, 0] = 0.9  # more than they would share as 3 and 4 do
    >>> score_matrix(covariance).round(2).values[0]
    array([0.  , 0.38, 0.11, 0.11, 0.11])
    """
    if isinstance(responses, Responses):
        matrices = [moments.covariance.values for moments in class_moments(responses)]
        names = responses.raters
    else:
        matrices, names = [_matrix(responses)], _names(responses)
    if len(names) < 4:
        raise MomentsError(
            "A score compares two raters with pairs of others, so it needs at least four. Got: "
            f"{len(names)} raters."
        )
    first, second = _pairs(len(names), pairs, random_seed)
    score = sum(_score(matrix, first, second) for matrix in matrices)
    return xr.DataArray(score, {"rater": names, "other": names}, ("rater", "other"), "score")


def class_moments(responses: Responses) -> list[xr.Dataset]:
    """Return the covariances of every class against the rest; two classes have one in common."""
    if responses.n_classes == 2:
        return [covariance(responses)]
    return [covariance(_against_rest(responses, k)) for k in range(responses.n_classes)]


def _against_rest(responses: Responses, k: int) -> Responses:
    cell = 2 * responses.rater + (responses.label == k)
    return Responses(
        responses.items,
        responses.raters,
        np.array(["rest", str(responses.classes[k])]),
        responses.start,
        cell.astype(np.uint32),
        responses.multiplicity,
    )


def _matrix(given: Any) -> Array:
    if isinstance(given, xr.Dataset):
        given = given.covariance
    matrix = np.array(given, dtype=float)
    if matrix.ndim != 2 or not np.allclose(matrix, matrix.T, equal_nan=True):
        raise MomentsError(
            "A covariance matrix must be symmetric, with one row and one column per rater. Got: "
            f"shape {matrix.shape}."
        )
    return matrix


def _names(given: Any) -> NDArray[Any]:
    if isinstance(given, xr.Dataset | xr.DataArray) and "rater" in given.coords:
        return np.asarray(given.coords["rater"].values)
    return np.arange(len(given))


def _pairs(n_raters: int, pairs: int | None, random_seed: int) -> tuple[Groups, Groups]:
    if pairs is None:
        if n_raters <= EXACT:
            return np.triu_indices(n_raters, 1)
        pairs = SAMPLED
    if pairs < 1:
        raise MomentsError(f"A score needs at least one pair of other raters. Got: pairs={pairs}.")
    rng = np.random.default_rng(random_seed)
    first = rng.integers(n_raters, size=pairs)
    return first, (first + rng.integers(1, n_raters, size=pairs)) % n_raters


def _score(covariance: Array, first: Groups, second: Groups) -> Array:
    total, used = _sum_determinants(covariance, first, second)
    total, used = total + total.T, used + used.T  # (k, l) of (i, j) is (l, k) of (j, i)
    all_pairs = (len(covariance) - 2) * (len(covariance) - 3)
    with np.errstate(invalid="ignore"):  # nothing known: 0 / 0
        score = total / used * all_pairs
    np.fill_diagonal(score, 0.0)
    return score


@njit(cache=True, nogil=True)
def _sum_determinants(covariance, first, second):
    """Sum the known |r_ij r_kl - r_il r_kj| over the given (k, l), and count them.

    All j are summed at once, because that loop alone can be vectorised in order.
    """
    n_raters = len(covariance)
    total = np.zeros((n_raters, n_raters))
    used = np.zeros((n_raters, n_raters))
    for i in range(n_raters):
        row, count, r_i = total[i], used[i], covariance[i]
        for p in range(first.size):
            k, l = first[p], second[p]
            if i == k or i == l:
                continue
            r_k, r_kl, r_il = covariance[k], covariance[k, l], r_i[l]
            kept = row[k], row[l], count[k], count[l]
            for j in range(n_raters):
                determinant = abs(r_i[j] * r_kl - r_il * r_k[j])
                known = determinant == determinant
                row[j] += determinant if known else 0.0
                count[j] += 1.0 if known else 0.0
            row[k], row[l], count[k], count[l] = kept  # j must differ from both
    return total, used


# -------------------------------------------------------------------- the assignment


def find_groups(
    responses: Responses,
    *,
    max_groups: int | None = None,
    criterion: str = "penalised",
    pairs: int | None = None,
    random_seed: int = 0,
) -> xr.Dataset:
    r"""Find the groups of raters that follow a common hidden verdict instead of the truth itself.

    Spectral clustering of the score matrix proposes an assignment for every number of groups.
    To each, two vectors are fitted: :math:`\hat r_{ij} \approx v^{on}_i v^{on}_j` within groups and
    :math:`v^{off}_i v^{off}_j` between them; the best assignment by ``criterion`` is kept.

    Parameters
    ----------
    responses : Responses
        With more than two classes, each is compared with the rest and the errors are summed: an
        approximation, because raters who are independent given the truth are then only nearly so.
    max_groups : int, optional
        Clusters tried at most; by default as many as raters, but not more than 100.
    criterion : {"penalised", "residual"}
        ``"penalised"`` (default): squared errors over their sampling variances, plus what the
        parameters and the choice of the members cost (an extended BIC). Clusters that do not earn
        their parameters are dissolved into raters of their own, and "all independent" competes.
        ``"residual"`` is the published rule, the smallest eq. 14 over 2, …, raters − 1 clusters.
        It prefers more parameters whatever they explain, so it groups independent raters too.
    pairs, random_seed
        Of :func:`score_matrix`.

    Returns
    -------
    xarray.Dataset
        ``group[rater]``: number of the group, 0, 1, … in the order of the raters.
        ``v_on[rater]``, ``v_off[rater]``: the fitted vectors (with an axis class for more than
        two classes). v_on is zero for the only rater of a group; with two groups, v_off has no
        scale between them.
        ``residual[n_groups]``: eq. 14 for every number of clusters, pairs that share fewer items
        counting less in proportion. ``criterion[n_groups]``: what was minimised; clusters may
        have been dissolved since.
        Attributes: ``n_groups`` (of the result), ``criterion``, ``dispersion`` (how many times
        larger than by sampling alone the squared errors of the best clustering are; at least 1).

    Raises
    ------
    MomentsError
        Fewer than four raters, an unknown criterion, fewer than two groups allowed.

    Notes
    -----
    The decomposition is computed once; clusters are those of Ward's linkage of the leading
    eigenvectors, which unlike k-means needs neither restarts nor random numbers. O(raters⁴) in
    all with a small constant.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, Algorithm 1 and eq. 14.
    Chen & Chen (2008), Biometrika 95, 759–771 (extended BIC).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> from bayesfuse.moments import find_groups
    >>> rng = np.random.default_rng(1)
    >>> truth = rng.random(5000) < 0.5
    >>> source = truth ^ (rng.random(5000) < 0.3)  # three raters copy a source, four do not
    >>> copies = source[:, None] ^ (rng.random((5000, 3)) < 0.1)
    >>> others = truth[:, None] ^ (rng.random((5000, 4)) < 0.3)
    >>> responses = bf.Responses.from_matrix(np.hstack([copies, others]).astype(int))
    >>> find_groups(responses).group.values
    array([0, 0, 0, 1, 2, 3, 4])
    """
    sizes = _sizes(responses.n_raters, max_groups, criterion)
    score = score_matrix(responses, pairs=pairs, random_seed=random_seed)
    pair = PairMoments.of(responses, equal=criterion == "residual")
    clusters = _clusters(np.nan_to_num(score.values), sizes)
    fitted = [fit_groups(pair, group) for group in clusters]
    residual = value = np.array([fit.residual for fit in fitted])
    dispersion = 1.0
    if criterion == "penalised":
        dispersion = max(1.0, min(fit.error / max(fit.freedom, 1) for fit in fitted))
        fitted = [_dissolve(pair, fit, dispersion) for fit in fitted]
        value = np.array([fit.error / dispersion + fit.cost.sum() for fit in fitted])
    best = fitted[int(np.argmin(value))]
    dims = ("rater",) if len(pair.q) == 1 else ("class", "rater")
    coords = {"rater": responses.raters, "n_groups": sizes}
    if len(pair.q) > 1:
        coords["class"] = responses.classes
    return xr.Dataset(
        {
            "group": ("rater", best.group),
            "v_on": (dims, best.v_on.squeeze() if dims == ("rater",) else best.v_on),
            "v_off": (dims, best.v_off.squeeze() if dims == ("rater",) else best.v_off),
            "residual": ("n_groups", residual),
            "criterion": ("n_groups", value),
        },
        coords=coords,
        attrs={
            "n_groups": int(best.group.max()) + 1,
            "criterion": criterion,
            "dispersion": dispersion,
        },
    )


def _sizes(n_raters: int, max_groups: int | None, criterion: str) -> Groups:
    """Numbers of clusters to try; penalised, "all independent" always competes."""
    if criterion not in CRITERIA:
        raise MomentsError(
            f"The criteria of find_groups are {', '.join(map(repr, CRITERIA))}. Got: {criterion!r}."
        )
    if max_groups is None:
        max_groups = MOST_CLUSTERS
    if max_groups < 2:
        raise MomentsError(
            "At least two groups must be allowed, because a single one cannot be told from "
            f"independent raters. Got: max_groups={max_groups}."
        )
    sizes = np.arange(2, min(max_groups, n_raters - 1) + 1)
    return sizes if criterion == "residual" else np.append(sizes, n_raters)


def number(group: NDArray[Any]) -> Groups:
    """Number the groups 0, 1, … in the order of their first rater."""
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _clusters(score: Array, sizes: Groups) -> list[Groups]:
    """Cluster raters by the leading eigenvectors of the normalised Laplacian of their scores."""
    degree = score.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    _, vectors = np.linalg.eigh(score * np.outer(scale, scale))
    return [
        number(fcluster(linkage(vectors[:, -size:], "ward"), size, "maxclust"))
        if size < len(score)
        else np.arange(size)
        for size in sizes
    ]


# -------------------------------------------------------------------- fitting an assignment


@dataclass(frozen=True)
class PairMoments:
    """Covariances with their weights, shape (1 or classes, raters, raters); zero where unknown.

    Attributes
    ----------
    q : ndarray
        Covariances.
    precision : ndarray
        One over their sampling variances; zero on the diagonal.
    share : ndarray
        Overlaps relative to the largest: the weights of eq. 14.
    equal : bool
        Whether fits weight by share, not by precision.
    """

    q: Array
    precision: Array
    share: Array
    equal: bool

    @classmethod
    def of(cls, responses: Responses, *, equal: bool = False) -> PairMoments:
        """Estimate them from responses."""
        moments = class_moments(responses)
        q = np.stack([np.nan_to_num(each.covariance.values) for each in moments])
        variance = np.stack([each.variance.values for each in moments])
        overlap = moments[0].overlap.values.astype(float)
        np.fill_diagonal(overlap, 0.0)
        spread = np.diagonal(q, axis1=1, axis2=2)
        product = spread[:, :, None] * spread[:, None, :]
        known = (overlap >= 2) & (product > 0)
        # Near perfect agreement the estimated variance vanishes; without dependence it would not.
        least = product / np.maximum(overlap, 1.0)
        precision = np.where(known, 1.0 / np.where(known, np.maximum(variance, least), 1.0), 0.0)
        if len(q) > 1:  # the last class follows from the others
            precision *= 1 - 1 / len(q)
        share = np.where(known, overlap / max(overlap.max(), 1.0), 0.0)
        return cls(q, precision, share, equal)


@dataclass(frozen=True)
class GroupFit:
    """An assignment and the two vectors fitted to it, shape (1 or classes, raters)."""

    group: Groups
    v_on: Array
    v_off: Array
    residual: float  # eq. 14
    error: float  # squared errors over their variances, every pair once
    saved: Array  # of that, what every group's own vector saves, shape (groups,)
    cost: Array  # what the parameters of every group cost, then those between groups
    freedom: int


def fit_groups(pair: PairMoments, group: Groups) -> GroupFit:
    """Fit v_on and v_off to an assignment by least squares."""
    weight = pair.share if pair.equal else pair.precision
    together = group[:, None] == group
    v_on, v_off = np.zeros((2, *pair.q.shape[:2]))
    members = [np.flatnonzero(group == g) for g in range(group.max() + 1)]
    for c, (q, w) in enumerate(zip(pair.q, weight, strict=True)):
        v_off[c] = orient(least_squares(q, np.where(together, 0.0, w)))
        for own in members:
            if len(own) > 1:
                v_on[c, own] = orient(least_squares(q[np.ix_(own, own)], w[np.ix_(own, own)]))
    on, off = (pair.q - v[:, :, None] * v[:, None, :] for v in (v_on, v_off))
    left = np.where(together, on, off) ** 2
    saved = (pair.precision * np.where(together, off**2 - on**2, 0.0)).sum(axis=(0, 2)) / 2
    cost, parameters = _cost(pair, np.array([len(own) for own in members]))
    return GroupFit(
        group,
        v_on,
        v_off,
        float((pair.share * left).sum()),
        float((pair.precision * left).sum() / 2),
        np.bincount(group, saved),
        cost,
        np.count_nonzero(pair.precision) // 2 - parameters,
    )


def _cost(pair: PairMoments, size: Groups) -> tuple[Array, int]:
    """Return the extended BIC of every group and of v_off, and the number of parameters."""
    n_pairs = max(np.count_nonzero(pair.precision[0]) // 2, 1)
    n_raters = size.sum()
    # A product of two has one parameter; of two groups, v_off has no scale between them.
    own = np.where(size > 2, size, size - 1)
    between = {1: 0, 2: n_raters - 1}.get(len(size), n_raters)
    parameters = np.append(own, between) * max(len(pair.q) - 1, 1)
    choices = gammaln(n_raters + 1) - gammaln(size + 1) - gammaln(n_raters - size + 1)
    ways = np.append(np.where(size > 1, choices, 0.0), 0.0)
    return parameters * np.log(n_pairs) + 2 * ways, int(parameters.sum())


def _dissolve(pair: PairMoments, fit: GroupFit, dispersion: float) -> GroupFit:
    """Make the raters of every group that does not earn its cost groups of their own."""
    while True:
        size = np.bincount(fit.group)
        poor = (size > 1) & (fit.saved / dispersion < fit.cost[:-1])
        if not poor.any():
            return fit
        alone = poor[fit.group]
        group = np.where(alone, len(size) + np.arange(len(alone)), fit.group)
        fit = fit_groups(pair, number(group))
