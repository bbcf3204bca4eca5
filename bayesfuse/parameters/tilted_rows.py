r"""Item types under a tilt: populations, covariates and classifiers say something of the classes.

Without a tilt the labels of items of unknown class say nothing of the classes of types, because
they sum to one. With log-odds :math:`\eta_{rk}` of items of kind r, an item of type z has the
weight :math:`w_z S_{rz} / Z_r` of its type, with :math:`S_{rz} = \sum_k \phi_{zk} e^{\eta_{rk}}`
and :math:`Z_r = \sum_z w_z S_{rz}`, so types do. What follows is exact:

* The denominators are turned into auxiliary :math:`u_r \sim \mathrm{Gamma}(n_r, Z_r)`, and shares
  into unnormalised :math:`g_z \sim \mathrm{Gamma}(\alpha / L, 1)`, which are then gamma
  variables given all else, of rate :math:`S_z = \sum_k \phi_{zk} B_k`, with
  :math:`B_k = 1 + \sum_r u_r e^{\eta_{rk}}`. They are summed out of what follows.
* Given labels with counts c, :math:`\phi_z` has nearly the law of gamma variables of shape
  :math:`\lambda \rho_{zk} + c_{zk}` and rate :math:`B_k`, divided by their sum. Proposals from it
  are accepted by :math:`S_z^{\lambda - \alpha / L}`, together with trust, firmness and consensus.
* With labels summed out, proposals as if there were no tilt let the items of a type change their
  class together, which given labels they never would.

Imaginary items, of which the prior has seen some of every class, have no tilt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, invert, normalise
from bayesfuse.numerics.tables import LEAST, draw_tables
from bayesfuse.parameters.pool import SMALLEST, Values
from bayesfuse.parameters.typed_rows import ROUNDS, STRIDE, TypedRows, log_known, says

LOWEST = -600.0
"""Least log-odds of a class against the most probable one that weights tell apart."""


@dataclass(frozen=True)
class TiltedRows(TypedRows):
    """The pool of :class:`bayesfuse.models.ItemTypes` where more is known of items.

    ``tilt`` (kinds, classes) holds the log-odds of the classes against those of an average item;
    ``label_parameter``, "prevalence" or "log_odds", follows.
    """

    tilt: Any = None
    n_kinds: int = 1
    label_parameter: str = "log_odds"

    @property
    def inputs(self) -> Mapping[str, Any]:  # type: ignore[override]
        """Log-odds of the kinds of items, whose slopes other steps draw."""
        return MappingProxyType({"tilt": self.tilt})

    def begin(self, rng):
        return super().begin(rng) | {"tilt": np.zeros((self.n_kinds, self.n_classes))}

    def implied(self, values):
        found = super().implied(values)
        average = found.pop("prevalence")
        return found | {self.label_parameter: normalise(average + values["tilt"])}

    def seconds(self, n_responses):
        by_kind = 1e-6 * self.n_kinds * self.n_classes * (1 + self.imaginary)
        return super().seconds(n_responses) + 1e-3 + by_kind

    def draw(self, values, counts, rng):
        by_class, answers, by_kind = counts.raters
        new = {**self.fixed, **values}
        looked, guessed = self._divide(new, answers, rng)
        self._draw_raters(new, looked, guessed, rng)
        looked = looked.sum(axis=0)
        classes = np.repeat(np.arange(self.n_classes), self.imaginary)
        weight = np.exp(new["type_share"][:, None] + new["class_of_type"])[:, classes].T
        types = invert(weight.cumsum(axis=1), rng.random(len(classes)))
        imagined = np.zeros((self.n_types, self.n_classes))
        np.add.at(imagined, (types, classes), 1.0)
        tilted = self._auxiliaries(new, by_kind, rng)
        tilted.of_type = by_kind.sum(axis=(0, 1)) + imagined.sum(axis=1)
        self._draw_type_concentration(new, tilted, rng)
        tilted.each = max(float(new["type_concentration"]) / self.n_types, SMALLEST)
        self._draw_given_labels(new, looked, by_class.sum(axis=0).T + imagined, tilted, rng)
        known = by_class[1].T + imagined  # from here on labels are summed out
        for _ in range(ROUNDS):
            for i, k in enumerate(classes):
                types[i] = self._move_imaginary(new, known, types[i], k, tilted, rng)
        self._turn_types(new, looked, known, tilted, rng)
        shape = np.maximum(tilted.each + tilted.of_type, SMALLEST)
        log_size = tilted.log_size(new["class_of_type"])
        new["type_share"] = normalise(draw_dirichlet(shape, rng) - log_size)
        return {role: new[role] for role in self.members}

    def _auxiliaries(self, new: Values, by_kind: Array, rng: Generator) -> Tilted:
        """Draw the auxiliary variables that replace the denominators of the items."""
        tilt = new["tilt"]
        weight = np.exp(np.maximum(tilt - tilt.max(axis=1, keepdims=True), LOWEST))
        share, by_type = np.exp(new["type_share"]), np.exp(new["class_of_type"])
        total = weight @ (share @ by_type)  # (kinds,)
        alpha = float(new["type_concentration"])
        # the logarithm of a gamma variable of small shape, which itself may underflow
        log_g = math.log(rng.standard_gamma(alpha + 1.0)) - rng.standard_exponential() / alpha
        u = rng.standard_gamma(by_kind.sum(axis=(0, 2))) / total
        untilted = rng.standard_gamma(float(self.n_classes * self.imaginary))
        log_rate = np.log(math.exp(log_g) + untilted + u @ weight + SMALLEST)
        return Tilted(weight, by_kind[0], log_rate, log_g)

    def _draw_type_concentration(self, new: Values, tilted: Tilted, rng: Generator) -> None:
        now, (shape, rate) = new["type_concentration"], self.priors.type_concentration
        opens = np.broadcast_to(now / self.n_types, tilted.of_type.shape)
        tables = draw_tables(tilted.of_type, opens, rng)
        size = tilted.log_size(new["class_of_type"]) - tilted.log_g  # their B are at least one
        rate += max(float(size.mean()), 0.0)
        drawn = rng.standard_gamma(shape + tables.sum()) / rate
        new["type_concentration"] = np.maximum(drawn, LEAST)

    def _draw_given_labels(
        self, new: Values, looked: Array, labels: Array, tilted: Tilted, rng: Generator
    ) -> None:
        """Move trust and firmness, then consensus, each with the classes of types."""
        roles = [role for role in STRIDE if role in self.members]
        here = self._log_hyper(new) + self._log_given_labels(new, labels, tilted).sum()
        for _ in range(ROUNDS):
            trial = {role: new[role] * math.exp(STRIDE[role] * rng.normal()) for role in roles}
            trial["class_of_type"] = self._propose(new | trial, labels, tilted, rng)
            there = self._log_hyper(new | trial)
            there += self._log_given_labels(new | trial, labels, tilted).sum()
            if math.log(1.0 - rng.random()) < there - here:
                new |= trial
                here = there
        trial = {"consensus": self._propose_consensus(looked, rng)}
        trial["class_of_type"] = self._propose(new | trial, labels, tilted, rng)
        gain = self._log_given_labels(new | trial, labels, tilted)
        gain -= self._log_given_labels(new, labels, tilted)
        _accept(new, trial, np.log(rng.random(self.n_types)) < gain)

    def _propose(self, values: Values, labels: Array, tilted: Tilted, rng: Generator) -> Array:
        """Draw the classes of types given labels, up to a power of their size."""
        said = values["firmness"] * says(values["consensus"], values["trust"])
        return normalise(draw_dirichlet(said + labels, rng) - tilted.log_rate)

    def _log_given_labels(self, values: Values, labels: Array, tilted: Tilted) -> Array:
        """Return by type the log density over that of proposals."""
        firmness = values["firmness"]
        said = firmness * says(values["consensus"], values["trust"])
        total = log_known(labels, values["consensus"], values["trust"], firmness)
        total = total - said @ tilted.log_rate
        found: Array = total + (firmness - tilted.each) * tilted.log_size(values["class_of_type"])
        return found

    def _move_imaginary(
        self, new: Values, known: Array, old: Any, k: Any, tilted: Tilted, rng: Generator
    ) -> Any:
        """Propose another type of an imaginary item of class k; return its type."""
        prior = new["firmness"] * says(new["consensus"], new["trust"])
        without = known.copy()
        without[old, k] -= 1.0
        others = tilted.of_type.copy()
        others[old] -= 1.0
        mean = (prior + without)[:, k] / (prior + without).sum(axis=1)
        weight = (tilted.each + np.maximum(others, 0.0)) * mean
        drawn = int(invert(weight.cumsum()[None], rng.random(1))[0])
        moved, at = without.copy(), sorted({old, drawn})
        moved[drawn, k] += 1.0
        others[drawn] += 1.0
        rows = new["class_of_type"].copy()
        rows[at] = draw_dirichlet((prior + moved)[at], rng)
        gain = tilted.log_weight(rows, others, at) - tilted.log_weight(
            new["class_of_type"], tilted.of_type, at
        )
        if math.log(1.0 - rng.random()) < gain.sum():
            new["class_of_type"], tilted.of_type = rows, others
            known[:] = moved
            return drawn
        return old

    def _turn_types(
        self, new: Values, looked: Array, known: Array, tilted: Tilted, rng: Generator
    ) -> None:
        """Propose consensus and classes of every type as if there were no tilt."""
        trust, firmness = new["trust"], new["firmness"]
        trial = {"consensus": self._propose_consensus(looked, rng)}
        said = firmness * says(trial["consensus"], trust)
        trial["class_of_type"] = draw_dirichlet(said + known, rng)
        every = range(self.n_types)
        gain = log_known(known, trial["consensus"], trust, firmness)
        gain = gain - log_known(known, new["consensus"], trust, firmness)
        gain += tilted.log_weight(trial["class_of_type"], tilted.of_type, every)
        gain -= tilted.log_weight(new["class_of_type"], tilted.of_type, every)
        _accept(new, trial, np.log(rng.random(self.n_types)) < gain)


@dataclass
class Tilted:
    """Arrays for draws with the shares of types summed out.

    Odds of the classes (kinds, classes), items of unknown class (kinds, types), logarithms of
    :math:`B_k` (classes,) plus ``log_g``, that of the total of the unnormalised shares. Later
    ``of_type``, items by type with imaginary ones, and ``each``, the concentration of a share.
    """

    weight: Array
    by_kind: Array
    log_rate: Array
    log_g: float

    def __post_init__(self) -> None:
        self.of_type = np.zeros(self.by_kind.shape[1])
        self.each = 0.0
        self.kind, self.type = self.by_kind.nonzero()
        self.items = self.by_kind[self.kind, self.type]

    def log_size(self, rows: Array) -> Array:
        """Return the logarithms of :math:`S_z`, plus ``log_g``, of log rows (types, classes)."""
        found: Array = np.logaddexp.reduce(rows + self.log_rate, axis=1)
        return found

    def log_weight(self, rows: Array, of_type: Array, types: Any) -> Array:
        """Return the log weight of what the types of all items say of some types' classes."""
        types = np.asarray(types)
        chosen = np.isin(self.type, types)
        kind, of, items = self.kind[chosen], self.type[chosen], self.items[chosen]
        share = (self.weight[kind] * np.exp(rows)[of]).sum(axis=1)
        logs = items * np.log(np.maximum(share, SMALLEST))
        found: Array = np.bincount(of, logs, len(rows))[types]
        return found - (self.each + of_type[types]) * self.log_size(rows[types])


def _accept(new: Values, trial: Values, accepted: NDArray[np.bool_]) -> None:
    for role, value in trial.items():
        new[role] = np.where(accepted[:, None], value, new[role])
