"""Groups of raters that share a source, and how much a table speaks for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from bayesfuse import priors
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, MomentsError
from bayesfuse.inference.variational import bound
from bayesfuse.models import DawidSkene, ItemTypes, LatentGroup
from bayesfuse.moments import find_groups
from bayesfuse.moments.pairs import class_moments
from bayesfuse.moments.partition import PairMoments, fit_groups
from bayesfuse.numerics.kernels import Array
from bayesfuse.raters.dependence import Groups

log_bound = partial(bound, start="majority", iterations=100)

Members = dict[str, list[Any]]

MAX_RESPONSES, MIN_PER_RATER = 20_000, 50  # of the fits
N_CLUSTERS = 5  # whose models are fitted, in each round
SHARED_ITEMS = 4.0  # prior items that shrink the correlation of two raters towards zero
HOPELESS = -math.log(99.0)  # log odds of groups with a probability of .01


def measure_groups(responses: Responses, gold: Mapping[Any, Any] | None) -> tuple[Members, float]:
    """Return the most probable groups of a table, and their probability against no groups.

    The bounds of the log evidence are compared with those of independent errors and of item types,
    for which all raters depend on each other. The prior is that of :func:`priors.sharing`. Groups
    are those of :func:`bayesfuse.moments.find_groups`, or one cluster of raters after the other.
    """
    seed = np.random.default_rng(0)
    table = part_of(responses, max(MAX_RESPONSES, MIN_PER_RATER * responses.n_raters), seed)
    known = {name: label for name, label in (gold or {}).items() if name in set(table.items)}
    arguments: dict[str, Any] = {"gold": known or None}
    no_groups = max(
        log_bound(DawidSkene(table, raters=raters, **arguments)) for raters in ("confusion", "coin")
    )
    row = priors.copied(table.n_classes)

    def gain(groups: list[list[Any]]) -> float:
        of_groups = log_bound(LatentGroup(table, groups, **arguments))
        of_groups += priors.log_odds_of_groups(groups, table)
        if of_groups - no_groups < HOPELESS:
            return -math.inf
        # raters may agree because all of them are accurate
        accurate = {rater: row for raters in groups for rater in raters}
        alone = log_bound(DawidSkene(table, confusion_prior=accurate, **arguments))
        alone = np.logaddexp(no_groups, alone - len(accurate) * math.log(2.0))
        return of_groups - float(alone)

    groups, best = _by_moments(table), -math.inf
    if groups:
        best = gain(groups)
    clusters = list(_clusters(table))
    chosen: list[list[Any]] = []
    while clusters:
        gains = [gain([*chosen, raters]) for raters in clusters[:N_CLUSTERS]]
        first = int(np.argmax(gains))
        if gains[first] <= max(best, HOPELESS):
            break
        best, groups = gains[first], [*chosen, clusters[first]]
        chosen = groups
        used = {rater for raters in chosen for rater in raters}
        clusters = [raters for raters in clusters if used.isdisjoint(raters)]
    if best < HOPELESS:
        return {}, 0.0
    # of items that are hard for all raters, groups would be an explanation as well
    of_types = max(
        log_bound(ItemTypes(table, consensus="levels", clean=clean, **arguments))
        for clean in (False, True)
    )
    best -= max(of_types - no_groups, 0.0)
    if best < HOPELESS:
        return {}, 0.0
    members = {f"source {number + 1}": raters for number, raters in enumerate(groups)}
    return members, float(expit(best))


def _by_moments(responses: Responses) -> list[list[Any]]:
    with suppress(MomentsError):
        return list(Groups.read(find_groups(responses), responses).members.values())
    return []


def _clusters(responses: Responses) -> Iterator[list[Any]]:
    """Yield clusters of raters whose labels are correlated, those first that explain most."""
    from scipy.cluster.hierarchy import linkage  # slow to import
    from scipy.spatial.distance import squareform

    with suppress(MomentsError, ModelError):
        moments = class_moments(responses)
        overlap = moments[0].overlap.values
        covariance = sum(np.nan_to_num(by_class.covariance.values) for by_class in moments)
        tree = linkage(squareform(1.0 - _correlation(covariance, overlap), checks=False), "average")
        pair, n_raters = PairMoments.of(responses), responses.n_raters
        clusters = [[rater] for rater in range(n_raters)]
        for first, second in tree[:, :2].astype(int):
            clusters.append(sorted(clusters[first] + clusters[second]))
        costs = []
        clusters = [raters for raters in clusters[n_raters:] if len(raters) <= n_raters - 2]
        for raters in clusters:
            group = np.arange(n_raters)
            group[raters] = raters[0]
            grouped = fit_groups(pair, np.unique(group, return_inverse=True)[1])
            costs.append(grouped.error + grouped.cost.sum())
        for place in np.argsort(costs):
            yield responses.raters[clusters[place]].tolist()


def _correlation(covariance: Array, overlap: Array) -> Array:
    """Return correlations of raters, shrunk where they share few items."""
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), 1e-9))
    correlation = covariance / np.outer(deviation, deviation)
    correlation *= overlap / (overlap + SHARED_ITEMS)
    np.fill_diagonal(correlation, 1.0)
    return np.clip(correlation, -1.0, 1.0)
