"""Groups of raters that share a source, and how much a table speaks for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr

from bayesfuse import priors
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.members import LEAST_WEIGHT
from bayesfuse.inference import cavi
from bayesfuse.inference.variational import log_evidence
from bayesfuse.models import DawidSkene, ItemTypes
from bayesfuse.observation import through_channel
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.partition import ALONE
from bayesfuse.raters.dependence import correlated_clusters
from bayesfuse.raters.latent_groups import LatentGroups

Members = dict[str, list[Any]]

MAX_RESPONSES, MIN_PER_RATER = 20_000, 50  # of the fits
N_CLUSTERS = 5  # whose models are fitted, in each round
LEAST_ODDS = float(logit(LEAST_WEIGHT))  # in logs, of groups that are modelled


@dataclass(frozen=True)
class GroupEvidence:
    """The most probable groups of a table, and log odds of them against models without groups.

    Where raters outside a group are as much of a group, only priors tell which of the two is right:
    ``contested`` is the probability that their gains in evidence do not differ.
    """

    members: Members
    against_independence: float
    against_types: float
    contested: float

    def probability(self, independence: float) -> float:
        """Return that of the groups; if types caused them, sources would depend on each other."""
        share = min(max(independence, LEAST_WEIGHT), 1.0 - LEAST_WEIGHT)
        odds = self.against_independence, self.against_types + float(logit(share))
        return float(expit(-np.logaddexp(-odds[0], -odds[1]))) * (1.0 - self.contested)


def measure_groups(
    responses: Responses, gold: Mapping[Any, Any] | None, independence: float
) -> GroupEvidence | None:
    """Return the most probable groups of a table and their evidence, None without any.

    The bounds of the log evidence are compared with those of independent errors and of item types,
    for which all raters depend on each other. The bound of types is a loose one: their odds are at
    least those that the correlation of errors gives dependent ones, by its ``independence``. The
    prior is :func:`priors.log_odds_of_groups`.
    """
    rng = np.random.default_rng(0)  # a property of the table, whatever the seed of the answer
    table = part_of(responses, max(MAX_RESPONSES, MIN_PER_RATER * responses.n_raters), rng)
    known = {name: label for name, label in (gold or {}).items() if name in set(table.items)}
    search = _Search(table, known or None)
    partition = search.grow()
    if not partition.groups:
        return None
    # among many who guess, matrices may be fitted to the wrong classes; that all raters have one
    # accuracy is as probable as in the bound of matrices
    of_accuracies = log_evidence(DawidSkene(table, raters="coin", gold=search.gold))
    of_accuracies -= np.count_nonzero(table.per_rater) * math.log(2.0)
    rivals = [*partition.rivals, of_accuracies]
    log_odds = partition.evidence - float(np.logaddexp.reduce(rivals))
    if log_odds < LEAST_ODDS:
        return None
    # of items that are hard for all raters, groups would be an explanation as well
    of_types = [
        log_evidence(ItemTypes(table, consensus="levels", clean=clean, gold=search.gold))
        for clean in (False, True)
    ]
    # a correlation that is compared with a few simulated tables does not show more
    of_types.append(partition.rivals[0] - float(logit(max(independence, LEAST_WEIGHT))))
    against_types = partition.evidence - max(of_types)
    members = {f"source {number + 1}": raters for number, raters in enumerate(partition.groups)}
    return GroupEvidence(members, log_odds, against_types, partition.contested)


class _Partition(NamedTuple):
    """Groups, their log evidence with the prior, and that of models without them.

    The first of the ``rivals`` has independent errors. ``contested`` is the probability that other
    raters are as much of a group as those of the first one.
    """

    groups: list[list[Any]]
    evidence: float
    rivals: list[float]
    contested: float


@dataclass(frozen=True)
class _Search:
    """Search for the groups of a table, cluster by cluster."""

    table: Responses
    gold: Mapping[Any, Any] | None

    def grow(self) -> _Partition:
        """Return the groups of the table, added one by one."""
        groups: list[list[Any]] = []
        best = self._log_evidence(groups)
        rivals, least, contested = [best], LEAST_ODDS, 0.0
        clusters = correlated_clusters(self.table)
        while clusters:
            tried = [self._compare(groups, raters, best, least) for raters in clusters[:N_CLUSTERS]]
            likely = [place for place, (log_odds, *_) in enumerate(tried) if log_odds >= least]
            if not likely:
                break
            first = max(likely, key=lambda place: tried[place][1])
            _, evidence, rival = tried[first]
            used = set(clusters[first])
            if not groups:
                gain = evidence - best
                others = (tried[place][1] for place in likely if used.isdisjoint(clusters[place]))
                contested = _contested(gain, max(others, default=-math.inf) - best)
            groups, best, least = [*groups, clusters[first]], evidence, 0.0
            rivals.append(rival)
            clusters = [raters for raters in clusters if used.isdisjoint(raters)]
        return _Partition(groups, best, rivals, contested)

    def _compare(
        self, groups: list[list[Any]], raters: list[Any], without: float, least: float
    ) -> tuple[float, float, float]:
        """Return the log odds of one group more, its evidence, and that of accurate raters."""
        more = [*groups, raters]
        evidence = self._log_evidence(more)
        evidence += priors.log_odds_of_groups(more, self.table)
        if evidence - without < least:
            return -math.inf, evidence, -math.inf
        # raters may agree because all of them are accurate
        accurate = dict.fromkeys(raters, priors.copied(self.table.n_classes))
        rival = self._log_evidence(groups, accurate) - len(raters) * math.log(2.0)
        rival += priors.log_odds_of_groups(groups, self.table)
        return evidence - float(np.logaddexp(without, rival)), evidence, rival

    def _log_evidence(
        self, groups: list[list[Any]], confusion: Mapping[Any, Any] | None = None
    ) -> float:
        """Return the log evidence of groups, with other priors of some raters' rows.

        It is that of ``LatentGroup``, without PyMC's model, which takes longer to build than to
        fit.
        """
        table = self.table
        group_of = {rater: number for number, raters in enumerate(groups) for rater in raters}
        copied = dict.fromkeys(group_of, priors.copied(table.n_classes))
        inner: Any = priors.confusion(copied | dict(confusion or {}), table)
        row_priors = {
            "prevalence": Dirichlet(priors.prevalence(None, table)),
            "rater_confusion": Dirichlet(inner),
        }
        outer = priors.groups(None, len(groups), table) if groups else None
        if outer is not None:
            row_priors["group_confusion"] = Dirichlet(outer)
        assignment = [group_of.get(rater, ALONE) for rater in table.raters.tolist()]
        channel = LatentGroups(outer, inner, assignment)
        return cavi.log_evidence(through_channel(channel, table, self.gold), row_priors)


def _contested(gain: float, other: float) -> float:
    """Return the probability that one of two gains in evidence, of other groups, is not larger.

    Their difference is a sum over items. Its variance is taken to be the sum of the gains: that of
    log likelihoods was a tenth to all of it, on a panel of judges and simulated tables.
    """
    if other <= 0.0:
        return 0.0
    return float(2.0 * ndtr((other - gain) / math.sqrt(gain + other)))
