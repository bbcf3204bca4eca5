"""Groups of raters that share a source, and how much a table speaks for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from bayesfuse import priors
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.members import LEAST_WEIGHT
from bayesfuse.inference.variational import log_evidence
from bayesfuse.models import DawidSkene, ItemTypes, LatentGroup
from bayesfuse.raters.dependence import correlated_clusters

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
    search = _Search(table, known or None)
    groups, best, rivals = search.grow()
    if not groups:
        return {}, 0.0
    log_odds = best - float(np.logaddexp.reduce(rivals))
    if log_odds >= LEAST_ODDS:
        # of items that are hard for all raters, groups would be an explanation as well
        of_types = max(
            log_evidence(ItemTypes(table, consensus="levels", clean=clean, gold=search.gold))
            for clean in (False, True)
        )
        log_odds -= max(of_types - rivals[0], 0.0)
    if log_odds < LEAST_ODDS:
        return {}, 0.0
    members = {f"source {number + 1}": raters for number, raters in enumerate(groups)}
    return members, float(expit(log_odds))


@dataclass(frozen=True)
class _Search:
    """Search for the groups of a table, cluster by cluster."""

    table: Responses
    gold: Mapping[Any, Any] | None

    def grow(self) -> tuple[list[list[Any]], float, list[float]]:
        """Return groups, their log evidence with the prior, and that of models without them.

        The first of the latter is that of independent errors.
        """
        groups: list[list[Any]] = []
        best = log_evidence(DawidSkene(self.table, gold=self.gold))
        rivals, least = [best], LEAST_ODDS
        clusters = correlated_clusters(self.table)
        while clusters:
            tried = [self._compare(groups, raters, best, least) for raters in clusters[:N_CLUSTERS]]
            first = max(range(len(tried)), key=lambda place: tried[place][0])
            log_odds, evidence, rival = tried[first]
            if log_odds < least:
                break
            groups, best, least = [*groups, clusters[first]], evidence, 0.0
            rivals.append(rival)
            used = set(clusters[first])
            clusters = [raters for raters in clusters if used.isdisjoint(raters)]
        return groups, best, rivals

    def _compare(
        self, groups: list[list[Any]], raters: list[Any], without: float, least: float
    ) -> tuple[float, float, float]:
        """Return the log odds of one group more, its evidence, and that of accurate raters."""
        more = [*groups, raters]
        evidence = log_evidence(LatentGroup(self.table, more, gold=self.gold))
        evidence += priors.log_odds_of_groups(more, self.table)
        if evidence - without < least:
            return -math.inf, evidence, -math.inf
        # raters may agree because all of them are accurate
        accurate = dict.fromkeys(raters, priors.copied(self.table.n_classes))
        model = LatentGroup(self.table, groups, confusion_prior=accurate, gold=self.gold)
        rival = log_evidence(model) - len(raters) * math.log(2.0)
        rival += priors.log_odds_of_groups(groups, self.table)
        return evidence - float(np.logaddexp(without, rival)), evidence, rival
