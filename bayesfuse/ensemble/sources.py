"""Groups of raters that share a source, and how much a table speaks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayesfuse import priors
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.members import LEAST_WEIGHT
from bayesfuse.inference.variational import bound
from bayesfuse.models import DawidSkene, ItemTypes, LatentGroup
from bayesfuse.raters.dependence import Groups, correlated_clusters

log_bound = partial(bound, start="majority", iterations=100)

Members = dict[str, list[Any]]

MAX_RESPONSES, MIN_PER_RATER = 20_000, 50  # of the fits
N_CLUSTERS = 5  # whose models are fitted, in each round
LEAST_ODDS = float(logit(LEAST_WEIGHT))  # in logs, of groups that are modelled


def measure_groups(responses: Responses, gold: Mapping[Any, Any] | None) -> tuple[Members, float]:
    """Return the most probable groups of a table, and their probability against no groups.

    The bounds of the log evidence are compared with those of independent errors and of item types,
    for which all raters depend on each other. The prior is that of :func:`priors.sharing`.
    """
    rng = np.random.default_rng(0)  # a property of the table, whatever the seed of the answer
    table = part_of(responses, max(MAX_RESPONSES, MIN_PER_RATER * responses.n_raters), rng)
    known = {name: label for name, label in (gold or {}).items() if name in set(table.items)}
    arguments: dict[str, Any] = {"gold": known or None}
    no_groups = max(
        log_bound(DawidSkene(table, raters=raters, **arguments)) for raters in ("confusion", "coin")
    )
    row = priors.copied(table.n_classes)

    def log_odds(groups: list[list[Any]]) -> float:
        of_groups = log_bound(LatentGroup(table, groups, **arguments))
        of_groups += priors.log_odds_of_groups(groups, table)
        if of_groups - no_groups < LEAST_ODDS:
            return -math.inf
        # raters may agree because all of them are accurate
        accurate = {rater: row for raters in groups for rater in raters}
        alone = log_bound(DawidSkene(table, confusion_prior=accurate, **arguments))
        alone = np.logaddexp(no_groups, alone - len(accurate) * math.log(2.0))
        return of_groups - float(alone)

    groups, best = _search(table, log_odds)
    if best >= LEAST_ODDS:
        # of items that are hard for all raters, groups would be an explanation as well
        of_types = max(
            log_bound(ItemTypes(table, consensus="levels", clean=clean, **arguments))
            for clean in (False, True)
        )
        best -= max(of_types - no_groups, 0.0)
    if best < LEAST_ODDS:
        return {}, 0.0
    members = {f"source {number + 1}": raters for number, raters in enumerate(groups)}
    return members, float(expit(best))


def _search(
    responses: Responses, log_odds: Callable[[list[list[Any]]], float]
) -> tuple[list[list[Any]], float]:
    """Return the groups with the largest log odds: clusters one by one, or those of moments."""
    by_moments = list(Groups.read("moments", responses).members.values())
    groups: list[list[Any]] = []
    best = -math.inf
    clusters = correlated_clusters(responses)
    while clusters:
        grown = [[*groups, raters] for raters in clusters[:N_CLUSTERS]]
        odds = [log_odds(more) for more in grown]
        first = int(np.argmax(odds))
        if odds[first] <= max(best, LEAST_ODDS):
            break
        best, groups = odds[first], grown[first]
        used = set(clusters[first])
        clusters = [raters for raters in clusters if used.isdisjoint(raters)]
    if by_moments and (other := log_odds(by_moments)) > best:
        return by_moments, other
    return groups, best
