"""Dependent raters: fuse labels through the hidden verdicts of groups."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import scipy
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.fingerprint import first_occurrences
from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_count
from bayesfuse.moments import binary
from bayesfuse.moments.pairs import covariance, least_squares, orient, require_binary, scaled
from bayesfuse.moments.partition import PairMoments, find_groups, fit_groups
from bayesfuse.moments.score import Indices
from bayesfuse.numerics.kernels import Array

Assignment = xr.Dataset | Mapping[Any, Any] | ArrayLike


def latent_sml(responses: Responses, groups: Assignment | None = None) -> xr.Dataset:
    r"""Fuse labels of dependent raters: L-SML, the latent spectral meta-learner.

    Raters of a group report on its hidden verdict, and the verdicts are independent given the
    truth. Within a group, accuracies are estimated from moments with the verdict as the truth; the
    estimated verdicts are then raters of the truth. Labels maximise the likelihood with the
    verdicts summed out.

    Parameters
    ----------
    responses : Responses of two classes; the last one is the positive one
    groups : Dataset, mapping or array-like, optional
        The result of :func:`find_groups` (default), a mapping from raters to groups, or the group
        of every rater in order, shape (raters,).

    Returns
    -------
    xarray.Dataset
        ``label[item]``, ``score[item]``: as of :func:`improved_sml`. ``sensitivity[rater]``,
        ``specificity[rater]``: with respect to the truth (eq. 8). ``verdict_sensitivity[rater]``,
        ``verdict_specificity[rater]``: with respect to the verdict of the rater's group, one for a
        rater alone. ``membership[rater]``: index of the group. For groups of several raters only:
        ``verdict[item, group]``: probability of a positive verdict given the group's responses;
        ``group_sensitivity[group]``, ``group_specificity[group]``: of the verdict with respect to
        the truth; ``determined[group]``: false if moments do not determine the accuracies within
        the group (as of two raters), so that errors are assumed equally frequent in both classes.
        Attributes: ``prevalence``, ``positive``, ``determined`` (between groups).

    Raises
    ------
    MomentsError : not two classes, groups that do not match the raters; as :func:`find_groups`

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, Algorithm 2, eq. 8 and 19.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> fused = bf.moments.latent_sml(bf.datasets.caries(), groups=[0, 1, 2, 3, 1])
    >>> fused.verdict_sensitivity.round(2).values
    array([1.  , 0.71, 1.  , 1.  , 0.91])
    """
    require_binary(responses)
    group = _assignment(responses, groups)
    several = np.flatnonzero(np.bincount(group) > 1)
    inner, evidence, verdict, determined = _verdicts(responses, group, several)
    alone = ~np.isin(group, several)
    item, at = np.nonzero(evidence)  # no evidence, no verdict
    verdicts = np.stack([item, several[at], evidence[item, at] > 0])
    names = np.arange(group.max() + 1)  # groups as raters: verdicts by the sign of their evidence
    top = _source(
        _table(responses, np.where(alone, group, -1), names, verdicts), np.zeros(len(names))
    )
    outer = top.quality.copy()
    for column, g in enumerate(several):
        outer[:, g] = _corrected(
            outer[:, g], verdict[:, column], evidence[:, column], responses.multiplicity
        )
    overall = outer[:, group] * inner + (1 - outer[:, group]) * (1 - inner[::-1])

    votes = np.where(np.repeat(alone, 2), binary.log_odds(*overall), 0.0)
    score = np.bincount(responses.item, votes[responses.cell], len(evidence))
    score += _summed_out(evidence, outer[:, several]).sum(axis=1)
    return xr.Dataset(
        {
            "label": ("item", binary.labels_by_sign(responses, score)),
            "score": ("item", score),
            "sensitivity": ("rater", overall[0]),
            "specificity": ("rater", overall[1]),
            "verdict_sensitivity": ("rater", inner[0]),
            "verdict_specificity": ("rater", inner[1]),
            "membership": ("rater", group),
            "verdict": (("item", "group"), verdict),
            "group_sensitivity": ("group", outer[0, several]),
            "group_specificity": ("group", outer[1, several]),
            "determined": ("group", determined),
        },
        coords={"item": responses.items, "rater": responses.raters, "group": several},
        attrs={
            "prevalence": top.prevalence,
            "positive": responses.classes.tolist()[-1],
            "determined": top.determined,
        },
    )


class Verdicts(NamedTuple):
    """Verdicts of the groups of several raters."""

    quality: Array  # sensitivity and specificity for the verdict, (2, raters)
    evidence: Array  # log odds of the responses (items, groups)
    probability: Array  # of a positive verdict (items, groups), NaN without responses
    determined: NDArray[np.bool_]


def _verdicts(responses: Responses, group: Indices, several: Indices) -> Verdicts:
    evidence = np.zeros((responses.n_items, len(several)))
    verdicts = Verdicts(
        np.ones((2, responses.n_raters)),
        evidence,
        np.full_like(evidence, np.nan),
        np.zeros(len(several), dtype=bool),
    )
    # Within a group v is proportional to ψ + η - 1, for the verdict as for the truth (eq. 24).
    directions = np.zeros(responses.n_raters)
    if len(several):
        directions = fit_groups(PairMoments.of(responses), group).v_off[0]
    no_rows = np.zeros((3, 0), dtype=np.int64)
    for column, g in enumerate(several):
        members = group == g
        rater = np.where(members, np.cumsum(members) - 1, -1)
        table = _table(responses, rater, responses.raters[members], no_rows)
        source = _source(table, directions[members])
        verdicts.quality[:, members] = source.quality
        votes = binary.log_odds(*source.quality)[table.cell]
        evidence[:, column] = np.bincount(table.item, votes, len(evidence))
        odds = evidence[:, column] + scipy.special.logit(source.prevalence)
        probability = np.where(table.per_item > 0, scipy.special.expit(odds), np.nan)
        verdicts.probability[:, column] = probability
        verdicts.determined[column] = source.determined
    return verdicts


def select_raters(responses: Responses, size: int, groups: Assignment | None = None) -> list[Any]:
    """Select the most accurate raters, at most one from each group.

    Parameters
    ----------
    responses, groups : as in :func:`latent_sml`, also for errors
    size : int: maximum number of raters, at least one; fewer if there are fewer groups

    Returns
    -------
    list
        Names of the raters, in descending order of estimated balanced accuracy.

    References
    ----------
    Jaffe, Fetaya, Nadler, Jiang & Kluger (2016), AISTATS, section 4.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.moments.select_raters(bf.datasets.caries(), 2, groups=[0, 1, 2, 3, 1])
    ['dentist 3', 'dentist 2']
    """
    require_count("size", size)
    fused = latent_sml(responses, groups)
    accuracy = (fused.sensitivity + fused.specificity).values
    order = np.argsort(-accuracy, kind="stable")  # NaN comes last
    order = order[np.isfinite(accuracy[order])]
    _, best = np.unique(fused.membership.values[order], return_index=True)
    return responses.raters[order[np.sort(best)[:size]]].tolist()


def _assignment(responses: Responses, groups: Assignment | None) -> Indices:
    """Return the group of every rater, with no groups in place of one group of all."""
    if groups is None:
        groups = find_groups(responses)
    if isinstance(groups, xr.Dataset):
        groups = dict(zip(groups.rater.values.tolist(), groups.group.values, strict=True))
    if isinstance(groups, Mapping):
        missing = [name for name in responses.raters.tolist() if name not in groups]
        if missing:
            raise MomentsError(
                f"Every rater must have a group. Got: none for {missing[0]!r} "
                f"({len(missing)} such)."
            )
        groups = [groups[name] for name in responses.raters.tolist()]
    assignment = np.asarray(groups)
    if assignment.shape != (responses.n_raters,):
        raise MomentsError(
            f"There must be one group for each of the {responses.n_raters} raters. Got: shape "
            f"{assignment.shape}."
        )
    _, group = first_occurrences(assignment)
    return group if group.max() > 0 else np.arange(len(group))


def _table(responses: Responses, rater: Indices, names: NDArray[Any], more: Any) -> Responses:
    """Return responses with the raters renumbered, without those of −1, and ``more`` rows."""
    columns = np.stack([responses.item, rater[responses.rater], responses.label])
    codes = np.concatenate([columns[:, columns[1] >= 0], more], axis=1)
    return responses.with_rows(*codes, raters=names)


class Source(NamedTuple):
    """A hidden binary variable, with the sensitivities and specificities (2, raters) for it."""

    quality: Array
    prevalence: float
    determined: bool


def _source(responses: Responses, direction: Array) -> Source:
    """Estimate a source from moments, with symmetric errors if moments do not determine it.

    Then the mean of E[f] over raters is b (2π - 1), which fixes b given v = √(1 - b²) (2π - 1).
    """
    with suppress(MomentsError):
        estimate = binary.accuracies(responses)
        rates = np.stack([estimate.sensitivity.values, estimate.specificity.values])
        return Source(rates, estimate.attrs["prevalence"], True)
    moments = covariance(responses)
    q = np.nan_to_num(moments.covariance.values)
    overlap = moments.overlap.values.astype(float)
    np.fill_diagonal(overlap, 0.0)
    v = scaled(direction, q, overlap)  # two raters have one covariance
    v = orient(v if v.any() else least_squares(q, overlap))
    mean = np.nan_to_num(moments["mean"].values)
    lean, scale = float(np.mean(np.sign(v) * mean)), float(np.mean(np.abs(v)))
    imbalance = lean / np.hypot(lean, scale) if scale > 0 else 0.0
    prevalence = (1 + float(np.clip(imbalance, binary.EDGE - 1, 1 - binary.EDGE))) / 2
    rates = np.clip(binary.quality(mean, v, prevalence), 0.0, 1.0)
    rates[:, responses.per_rater == 0] = np.nan
    return Source(rates, prevalence, False)


def _corrected(
    observed: Array, verdict: Array, evidence: Array, multiplicity: NDArray[np.int64]
) -> Array:
    """Return the accuracies (2,) of the verdict, from those of the estimated verdict.

    The estimate has P(+ | truth +) = ψ s + (1 - ψ) (1 - t), with s and t its expected sensitivity
    and specificity for the verdict.
    """
    used = evidence != 0
    weight = multiplicity[used] * np.stack([verdict[used], 1 - verdict[used]])
    right = np.stack([evidence[used] > 0, evidence[used] < 0])
    total = weight.sum(axis=1)
    if not np.all(total > 0):
        return observed
    agreement = (weight * right).sum(axis=1) / total
    informed = agreement.sum() - 1
    if informed < binary.MIN_RATE:
        return observed
    return np.clip((observed - (1 - agreement[::-1])) / informed, 0.0, 1.0)


def _summed_out(evidence: Array, rates: Array) -> Array:
    """Return the log odds of the truth given every group's evidence on its verdict."""
    rates = np.clip(np.nan_to_num(rates, nan=0.5), binary.MIN_RATE, 1 - binary.MIN_RATE)
    sensitive, specific = np.log(rates)
    insensitive, unspecific = np.log1p(-rates)
    positive = np.logaddexp(sensitive + evidence, insensitive)
    odds = positive - np.logaddexp(unspecific + evidence, specific)
    # exactly zero without evidence, where rounding would leave a sign
    return np.where(evidence == 0, 0.0, odds)
