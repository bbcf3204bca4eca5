"""Rows that share a mean: hyperparameters are drawn from the counts, with the rows summed out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, normalise
from bayesfuse.numerics.tables import SMALLEST, draw_shared
from bayesfuse.parameters.consensus_table import class_given_type
from bayesfuse.parameters.contract import Support
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.item_log_odds import ItemLogOdds

Values = dict[str, Array]  # values of a pool's members, in kernel coordinates, by role


@dataclass(frozen=True)
class Member:
    """A free variable of a model, and the set in which it lives."""

    variable: Any
    support: Support


class Pool(ABC):
    """Variables by role above the rows of one parameter, drawn given the labels' counts."""

    parameter: str
    members: dict[str, Member]
    pooled = True
    """Whether the members are shared by all raters; else they belong to single raters."""
    has_mode = True
    """Whether hyperparameters and rows have a joint mode that is informative about labels."""

    @abstractmethod
    def begin(self, rng: Generator) -> Values:
        """Return values to begin with, drawn at random where chains should differ."""

    @abstractmethod
    def draw(self, values: Values, counts: Any, rng: Generator) -> Values:
        """Draw all members given counts (:class:`bayesfuse.observation.Counts`)."""

    def prior(self, values: Values) -> Dirichlet:
        """Return the prior of the rows, unless these are implied."""
        raise NotImplementedError("Pools whose rows are implied give them no prior.")

    def implied(self, values: Values) -> Values:
        """Return other parameters that follow from the members, in kernel coordinates."""
        return {}

    def unpooled(self) -> Dirichlet | None:
        """Return a prior of the rows for the start, None to start from Dawid and Skene's model."""
        return None

    def seconds(self, n_responses: int) -> float:
        """Estimate the seconds that a draw of members and rows adds to a sweep."""
        return 0.0


@dataclass(frozen=True)
class SharedMean(Pool):
    r"""Rows of raters, :math:`\mathrm{Dir}(\kappa \mu)`, around a mean with a Dirichlet prior."""

    parameter: str
    members: dict[str, Member]
    mean_prior: Array
    shape: float
    rate: float
    n_raters: int

    def begin(self, rng):
        start = np.full(self.mean_prior.shape[:-1], self.shape / self.rate)
        return {"mean": Dirichlet(self.mean_prior).centre(), "concentration": start}

    def draw(self, values, counts, rng):
        concentration, tables = draw_shared(
            values["concentration"],
            np.maximum(np.exp(values["mean"]), SMALLEST),
            counts[self.parameter],
            self.shape,
            self.rate,
            rng,
        )
        mean = draw_dirichlet(self.mean_prior + tables, rng)
        return {"concentration": concentration, "mean": mean}

    def prior(self, values):
        spread = values["concentration"][..., None] * np.exp(values["mean"])
        base = np.maximum(spread, SMALLEST)
        return Dirichlet(np.broadcast_to(base, (self.n_raters, *base.shape)))

    def unpooled(self):
        return Dirichlet(np.broadcast_to(self.mean_prior, (self.n_raters, *self.mean_prior.shape)))

    def seconds(self, n_responses):
        return 120e-6 + 120e-9 * self.n_raters * self.mean_prior.size + 15e-9 * n_responses

    def in_chain(self, values: Values, storage: Values) -> tuple[Any, ...]:
        """Return the pool of :func:`draw_pooled`, which writes draws into ``storage``."""
        columns = self.mean_prior.shape[-1]
        mean = np.exp(values["mean"]).reshape(-1, columns)
        concentration = np.array(values["concentration"], dtype=float).reshape(-1)
        prior = np.ascontiguousarray(self.mean_prior, dtype=float).reshape(-1, columns)
        n_draws = len(storage["mean"])
        means = storage["mean"].reshape(n_draws, *mean.shape)
        concentrations = storage["concentration"].reshape(n_draws, concentration.size)
        scale = float(self.shape), float(self.rate)
        return mean, concentration, prior, *scale, means, concentrations


@dataclass(frozen=True)
class MeansOfGroups(SharedMean):
    r"""Rows in groups of ``n_raters``, :math:`\mathrm{Dir}(\kappa_g \mu_g)` around one mean each.

    Arrays of the members, and ``mean_prior``, have the groups as first axis.
    """

    def draw(self, values, counts, rng):
        rows = counts[self.parameter]
        grouped = rows.reshape(-1, self.n_raters, *rows.shape[1:]).swapaxes(0, 1)
        return super().draw(values, {self.parameter: grouped}, rng)

    def prior(self, values):
        return self._of_rows(super().prior(values))

    def unpooled(self):
        return self._of_rows(super().unpooled())

    def _of_rows(self, grouped: Dirichlet) -> Dirichlet:
        """Return the prior of all rows from one with axes (rows of a group, groups, …)."""
        concentration = grouped.concentration.swapaxes(0, 1)
        return Dirichlet(concentration.reshape(-1, *concentration.shape[2:]))


ROUNDS, STRIDE = 5, 0.3  # Metropolis steps of the log trust in a sweep, and their size
LOWEST = -600.0  # least log-odds of a class against the most probable one that weights tell apart


@dataclass(frozen=True)
class ConsensusShares(Pool):
    r"""The pool of ``type_share`` and ``trust`` of :class:`bayesfuse.models.ItemTypes`.

    ``concentration`` (types,) is that of the prior of the shares, ``trust_prior`` mean and standard
    deviation of the logarithm, ``fixed`` a given trust. ``known`` holds the log-odds of kinds of
    items by populations, covariates or a classifier, and ``label_parameter`` follows.

    Where it is not None, log-odds :math:`\eta_{rk}` of
    kind r weigh the classes: :math:`p(z) = w_z S_{rz} / Z_r`, with :math:`S_{rz} = \sum_k \rho_{zk}
    e^{\eta_{rk}}`. Given :math:`u_r \sim \mathrm{Gamma}(n_r, Z_r)` for :math:`n_r` items,
    unnormalised shares are gamma variables of rate :math:`1 + \sum_r u_r S_{rz}`.
    """

    members: dict[str, Member]
    log_consensus: Array
    concentration: Array
    trust_prior: tuple[float, float]
    fixed: Values = field(default_factory=dict)
    known: ItemLogOdds | None = None
    label_parameter: str = "prevalence"
    parameter: str = "share"
    pooled = False
    has_mode = False

    def begin(self, rng):
        n_types = len(self.log_consensus)
        initial = {
            "type_share": np.full(n_types, -math.log(n_types)),
            "trust": np.array(math.exp(self.trust_prior[0])),
        }
        initial |= {} if self.known is None else self.known.begin(rng)
        return {role: initial[role] for role in self.members}

    def draw(self, values, counts, rng):
        by_class, _, _, _, *by_kind = counts.raters  # (unknown and known class, classes, types)
        new = {**self.fixed, **values}
        of_type, known = by_class.sum(axis=(0, 1)), by_class[1].T
        prior, log_weight = of_type + self.concentration, None
        if self.known is None:
            new["type_share"] = draw_dirichlet(prior, rng)
        else:
            # with types and classes as drawn; shares and trust follow, with classes summed out
            average = np.exp(self._log_joint(new)).sum(axis=0)
            new |= self.known.draw(new, average, counts.labels[0], rng)
            new["type_share"], log_weight = self._tilted(new, prior, by_kind[0], rng)
        if log_weight is None and not known.any() and not self.fixed:
            new["trust"] = np.exp(rng.normal(*self.trust_prior))  # responses do not inform it
        elif not self.fixed:
            self._draw_trust(new, known, log_weight, rng)
        return {role: np.asarray(new[role]) for role in self.members}

    def trust_at(self, values: Values) -> Array:
        """Return the trust, given or drawn."""
        return {**self.fixed, **values}["trust"]

    def seconds(self, n_responses):
        n_kinds = 0 if self.known is None else self.known.n_kinds
        by_response = 60e-9 + 4e-9 * len(self.log_consensus)
        return 0.1e-3 + by_response * n_responses + 2e-9 * n_kinds * self.log_consensus.size

    def implied(self, values):
        """Return prevalence and shares of types within classes."""
        joint = self._log_joint(values)
        average = np.logaddexp.reduce(joint, axis=0)
        known = self.known
        shares = average if known is None else normalise(average + known.log_odds(values))
        return {self.label_parameter: shares, "share": (joint - average).T}

    def _log_joint(self, values: Values) -> Array:
        """Return the log probability of types and classes (types, classes) of average items."""
        class_of_type = class_given_type(self.log_consensus, self.trust_at(values))
        joint: Array = values["type_share"][:, None] + np.log(np.maximum(class_of_type, SMALLEST))
        return joint

    def _tilted(
        self, values: Values, concentration: Array, by_kind: Array, rng: Generator
    ) -> tuple[Array, Callable[[Array], float]]:
        """Draw log shares given auxiliary variables; return them and the weight of class rows."""
        assert self.known is not None
        tilt, class_of_type = (
            self.known.log_odds(values),
            class_given_type(self.log_consensus, values["trust"]),
        )
        weight = np.exp(np.maximum(tilt - tilt.max(axis=1, keepdims=True), LOWEST))
        total = rng.standard_gamma(self.concentration.sum())  # the sum of unnormalised shares
        remaining = max(total, SMALLEST) * (weight @ (np.exp(values["type_share"]) @ class_of_type))
        rate = (rng.standard_gamma(by_kind.sum(axis=(0, 2))) / remaining) @ weight
        gammas = draw_dirichlet(np.maximum(concentration, SMALLEST), rng)
        total = rng.standard_gamma(concentration.sum())
        log_share = gammas + math.log(total) - np.log(1.0 + class_of_type @ rate)
        share, (kind, of_type) = np.exp(log_share), by_kind[0].nonzero()
        items = by_kind[0, kind, of_type]

        def log_weight(class_of_type: Array) -> float:
            by_item = (weight[kind] * class_of_type[of_type]).sum(axis=1)
            return float(
                items @ np.log(np.maximum(by_item, SMALLEST)) - share @ class_of_type @ rate
            )

        return normalise(log_share), log_weight

    def _draw_trust(
        self, new: Values, known: Array, log_weight: Callable[[Array], float] | None, rng: Generator
    ) -> None:
        """Move the logarithm of the trust given types, labels of unknown class summed out."""

        def log_density(log_trust: float) -> float:
            class_of_type = class_given_type(self.log_consensus, math.exp(log_trust))
            mean, sd = self.trust_prior
            height = -0.5 * ((log_trust - mean) / sd) ** 2
            height += (known * np.log(np.maximum(class_of_type, SMALLEST))).sum()
            return height if log_weight is None else height + log_weight(class_of_type)

        now = math.log(float(new["trust"]))
        height = log_density(now)
        for _ in range(ROUNDS):
            proposed = now + STRIDE * rng.standard_normal()
            there = log_density(proposed)
            if math.log(1.0 - rng.random()) < there - height:
                now, height = proposed, there
        new["trust"] = np.asarray(math.exp(now))
