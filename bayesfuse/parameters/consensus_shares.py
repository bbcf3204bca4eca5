r"""Shares of types with fixed consensus rows, and what a consensus says of the truth.

Where populations, covariates or a classifier say more of items, log-odds :math:`\eta_{rk}` of kind
r weigh the classes, and an item of type z has probability
:math:`w_z S_{rz} / Z_r`, with :math:`S_{rz} = \sum_k \rho_{zk} e^{\eta_{rk}}` and
:math:`Z_r = \sum_z w_z S_{rz}`. The denominators are turned into auxiliary variables
:math:`u_r \sim \mathrm{Gamma}(n_r, Z_r)`, of :math:`n_r` items. Then unnormalised shares are gamma
variables of rate :math:`1 + \sum_k \rho_{zk} \sum_r u_r e^{\eta_{rk}}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, normalise
from bayesfuse.parameters.pool import SMALLEST, Member, Pool, Values

ROUNDS, STRIDE = 5, 0.3
"""Metropolis steps of the trust in a sweep, and their standard deviation in logarithms."""

LOWEST = -600.0
"""Least log-odds of a class against the most probable one that weights tell apart."""


def says(log_consensus: Any, trust: Any, xp: Any = np) -> Any:
    r"""Return :math:`\rho_{zk} \propto \mu_{zk}^\delta`, what a consensus (types, classes) says."""
    raised = xp.exp(trust * (log_consensus - log_consensus.max(axis=-1, keepdims=True)))
    return raised / raised.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class ConsensusShares(Pool):
    """The pool of ``type_share`` and ``trust`` of :class:`bayesfuse.models.ItemTypes`.

    ``concentration`` is that of the prior of all shares, ``trust_prior`` mean and standard
    deviation of the logarithm, ``fixed`` a given trust. ``tilt`` (kinds, classes) holds the
    log-odds of the classes against those of an average item; ``label_parameter`` follows.
    """

    members: dict[str, Member]
    log_consensus: Array
    concentration: float
    trust_prior: tuple[float, float]
    fixed: Values = field(default_factory=dict)
    tilt: Any = None
    n_kinds: int = 0
    label_parameter: str = "prevalence"
    parameter: str = "share"
    pooled = False
    has_mode = False

    @property
    def inputs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Log-odds of the kinds of items, whose slopes other steps draw."""
        return MappingProxyType({} if self.tilt is None else {"tilt": self.tilt})

    def begin(self, rng):
        n_types, n_classes = self.log_consensus.shape
        found = {
            "type_share": np.full(n_types, -math.log(n_types)),
            "trust": np.array(math.exp(self.trust_prior[0])),
        }
        tilt = {"tilt": np.zeros((self.n_kinds, n_classes))} if self.inputs else {}
        return {role: found[role] for role in self.members} | tilt

    def draw(self, values, counts, rng):
        by_class, _, _, *by_kind = counts.raters  # (unknown and known class, classes, types)
        new = {**self.fixed, **values}
        of_type, known = by_class.sum(axis=(0, 1)), by_class[1].T
        each = self.concentration / len(self.log_consensus)
        if self.tilt is None:
            new["type_share"] = draw_dirichlet(each + of_type, rng)
            if not known.any() and not self.fixed:  # responses say nothing of it
                new["trust"] = np.exp(rng.normal(*self.trust_prior))
                return {role: np.asarray(new[role]) for role in self.members}
            tilted = None
        else:
            tilted = self._auxiliaries(new, by_kind[0], rng)
            rate = 1.0 + says(self.log_consensus, new["trust"]) @ tilted.rate
            gammas = draw_dirichlet(np.maximum(each + of_type, SMALLEST), rng)
            total = rng.standard_gamma(self.concentration + of_type.sum())
            unnormalised = gammas + math.log(total) - np.log(rate)
            tilted.share = np.exp(unnormalised)
            new["type_share"] = normalise(unnormalised)
        if not self.fixed:
            self._draw_trust(new, known, tilted, rng)
        return {role: np.asarray(new[role]) for role in self.members}

    def trust_at(self, values: Values) -> Array:
        """Return the trust, given or drawn."""
        return {**self.fixed, **values}["trust"]

    def seconds(self, n_responses):
        by_response = 60e-9 + 4e-9 * len(self.log_consensus)
        return 0.1e-3 + by_response * n_responses + 2e-9 * self.n_kinds * self.log_consensus.size

    def implied(self, values):
        """Return prevalence and shares of types within classes."""
        trust = self.trust_at(values)
        said = np.log(np.maximum(says(self.log_consensus, trust), SMALLEST))
        joint = values["type_share"][:, None] + said
        average = np.logaddexp.reduce(joint, axis=0)
        shares = average if self.tilt is None else normalise(average + values["tilt"])
        return {self.label_parameter: shares, "share": (joint - average).T}

    def _auxiliaries(self, new: Values, by_kind: Array, rng: np.random.Generator) -> _Tilted:
        """Draw the auxiliary variables that replace the denominators of the items."""
        tilt = new["tilt"]
        weight = np.exp(np.maximum(tilt - tilt.max(axis=1, keepdims=True), LOWEST))
        said = np.exp(new["type_share"]) @ says(self.log_consensus, new["trust"])
        total = rng.standard_gamma(self.concentration)  # the sum of unnormalised shares
        u = rng.standard_gamma(by_kind.sum(axis=(0, 2))) / (max(total, SMALLEST) * (weight @ said))
        return _Tilted(weight, by_kind[0], u @ weight)

    def _draw_trust(
        self, new: Values, known: Array, tilted: _Tilted | None, rng: np.random.Generator
    ) -> None:
        """Move the logarithm of the trust given types, labels of unknown class summed out."""

        def log_density(log_trust: float) -> float:
            said = says(self.log_consensus, math.exp(log_trust))
            mean, sd = self.trust_prior
            found = -0.5 * ((log_trust - mean) / sd) ** 2
            found += (known * np.log(np.maximum(said, SMALLEST))).sum()
            return found if tilted is None else found + tilted.log_weight(said)

        now = math.log(float(new["trust"]))
        height = log_density(now)
        for _ in range(ROUNDS):
            proposed = now + STRIDE * rng.standard_normal()
            there = log_density(proposed)
            if math.log(1.0 - rng.random()) < there - height:
                now, height = proposed, there
        new["trust"] = np.asarray(math.exp(now))


class _Tilted:
    """Odds of the classes (kinds, classes), items of unknown class (kinds, types), and rates."""

    share: Array

    def __init__(self, weight: Array, by_kind: Array, rate: Array) -> None:
        self.weight, self.rate = weight, rate
        self.kind, self.type = by_kind.nonzero()
        self.items = by_kind[self.kind, self.type]

    def log_weight(self, said: Array) -> float:
        """Return what types and auxiliary variables say of what a consensus says."""
        by_item = (self.weight[self.kind] * said[self.type]).sum(axis=1)
        return float(
            self.items @ np.log(np.maximum(by_item, SMALLEST)) - self.share @ said @ self.rate
        )
