"""Hyperparameters of the rows of item types: consensus, competence, classes of types."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, invert, normalise
from bayesfuse.numerics.tables import draw_concentration, draw_tables
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.pool import SMALLEST, Member, Pool, Values

FLOOR = 1e-6
"""Least share of a class in what a consensus says of the truth, so that nothing is impossible."""

ROUNDS = 3
"""Rounds in which imaginary items, and steps in which trust, are drawn in a sweep."""

BEGINNING = 4.0
"""Concentration of a type's consensus on its class, where chains begin."""

RARE = 0.02
"""Share of other types there: chains divide types within a few sweeps, and join them slowly."""

STRIDE = {"trust": 0.3, "firmness": 0.6}
"""Standard deviations of proposals, in logarithms."""


@dataclass(frozen=True)
class Hyperpriors:
    """Constants of the priors of :class:`bayesfuse.models.ItemTypes`, with reasons there.

    Gamma priors are (shape, rate), log-normal ones (mean, standard deviation) of the logarithm.
    """

    type_concentration: tuple[float, float] = (1.0, 1.0)
    row_concentration: tuple[float, float] = (1.0, 0.1)
    competence_mean: tuple[float, float] = (2.0, 1.0)
    competence_concentration: tuple[float, float] = (2.0, 0.5)
    guess_concentration: tuple[float, float] = (1.0, 0.2)
    guess_mean: float = 1.0
    consensus: float = 0.15
    trust: tuple[float, float] = (0.2, 0.4)
    firmness: tuple[float, float] = (-2.5, 1.5)


def says(log_consensus: Any, trust: Any, xp: Any = np) -> Any:
    r"""Return :math:`\rho_{zk} \propto \mu_{zk}^\delta`, what a consensus (types, classes) says."""
    raised = xp.exp(trust * (log_consensus - log_consensus.max(axis=-1, keepdims=True)))
    share = raised / raised.sum(axis=-1, keepdims=True)
    return FLOOR + (1.0 - FLOOR * log_consensus.shape[-1]) * share


@dataclass(frozen=True)
class TypedRows(Pool):
    """The pool of :class:`bayesfuse.models.ItemTypes`, in the order in which it is drawn.

    ``imaginary`` is the number of imaginary items of every class; ``fixed`` holds a given trust.
    """

    members: dict[str, Member]
    n_raters: int
    n_types: int
    n_classes: int
    imaginary: int = 1
    fixed: Values = field(default_factory=dict)
    priors: Hyperpriors = field(default_factory=Hyperpriors)
    parameter: str = "type_confusion"
    has_mode = False

    def begin(self, rng):
        """Return types of the classes in turn, of which the first of every class is common."""
        n_types, n_classes, n_raters = self.n_types, self.n_classes, self.n_raters
        flat = np.full(n_classes, -math.log(n_classes))
        own = np.eye(n_classes)[np.arange(n_types) % n_classes]
        share = np.where(np.arange(n_types) < n_classes, 1.0, RARE)
        typical: Values = {
            "type_concentration": np.array(1.0),
            "type_share": np.log(share / share.sum()),
            "consensus": draw_dirichlet(1.0 + BEGINNING * own, rng),
            "class_of_type": np.log(0.9 * own + 0.1 / n_classes),
            "trust": np.exp(self.priors.trust[0]),
            "firmness": np.exp(self.priors.firmness[0]),
            "row_concentration": np.full(n_types, 10.0),
            "competence_mean": np.log([0.7, 0.3]),
            "competence_concentration": np.array(4.0),
            "competence": np.tile(np.log([0.7, 0.3]), (n_raters, 1)),
            "guess_mean": flat,
            "guess_concentration": np.array(float(n_classes)),
            "guess": np.tile(flat, (n_raters, 1)),
        }
        return {role: np.asarray(typical[role]) for role in self.members}

    def draw(self, values, counts, rng):
        by_class, answers = counts.raters  # (unknown and known class, classes, types), (m, z, c)
        new = {**self.fixed, **values}
        looked, guessed = self._divide(new, answers, rng)
        self._draw_raters(new, looked, guessed, rng)
        known = by_class[1].T  # (types, classes)
        known = known + self._imagine(new, known, rng)
        proposed = self._propose_consensus(looked.sum(axis=0), rng)
        gain = log_known(known, proposed, new["trust"], new["firmness"])
        gain -= log_known(known, new["consensus"], new["trust"], new["firmness"])
        accepted = np.log(rng.random(self.n_types)) < gain
        new["consensus"] = np.where(accepted[:, None], proposed, new["consensus"])
        self._draw_trust(new, known, rng)
        said = says(new["consensus"], new["trust"])
        new["class_of_type"] = draw_dirichlet(new["firmness"] * said + known, rng)
        # with imaginary items
        of_type = by_class.sum(axis=(0, 1)) + (known - by_class[1].T).sum(axis=1)
        now, prior = new["type_concentration"], self.priors.type_concentration
        tables = draw_tables(of_type, np.broadcast_to(now / self.n_types, of_type.shape), rng)
        new["type_concentration"] = draw_concentration(
            now, tables.sum()[None], of_type.sum()[None], *prior, rng
        )
        each = np.maximum(new["type_concentration"] / self.n_types, SMALLEST)
        new["type_share"] = draw_dirichlet(each + of_type, rng)
        return {role: new[role] for role in self.members}

    def prior(self, values):
        base = self._base(values)
        if "row_concentration" in values:
            base = base * values["row_concentration"][:, None]
        return Dirichlet(np.maximum(base, SMALLEST))

    def seconds(self, n_responses):
        by_entry = 150e-9 * self.n_raters * self.n_types * self.n_classes
        return 1.5e-3 + 5e-9 * n_responses * self.n_types + by_entry

    def implied(self, values):
        """Return prevalence and shares of types within classes; rows, if raters have none."""
        possible = np.maximum(values["class_of_type"], math.log(SMALLEST))  # as the model has it
        joint = values["type_share"][:, None] + possible
        log_prevalence = np.logaddexp.reduce(joint, axis=0)
        found = {"prevalence": log_prevalence, "share": (joint - log_prevalence).T}
        if "row_concentration" not in values:
            with np.errstate(divide="ignore"):
                found[self.parameter] = np.log(self._base(values))
        return found

    def _base(self, values: Values) -> Array:
        """Return the rows that raters are expected to have, (raters, types, answers)."""
        consensus = np.exp(values["consensus"])[None]
        if "competence" not in values:
            return np.broadcast_to(consensus, (self.n_raters, *consensus.shape[1:]))
        looks, guesses = np.exp(values["competence"].T)[:, :, None, None]
        base: Array = looks * consensus + guesses * np.exp(values["guess"])[:, None]
        return base

    def _divide(self, new: Values, answers: Array, rng: Generator) -> tuple[Array, Array]:
        """Draw the concentration of rows; divide answers by consensus or guess, (m, z, c) each."""
        base = self._base(new)
        if "row_concentration" in new:
            now = new["row_concentration"]
            tables = draw_tables(answers, np.maximum(now[:, None] * base, SMALLEST), rng)
            by_row = tables.sum(axis=-1), answers.sum(axis=-1)
            prior = self.priors.row_concentration
            new["row_concentration"] = draw_concentration(now, *by_row, *prior, rng, axis=0)
        else:
            tables = answers
        if "competence" not in new:
            return tables, np.zeros_like(tables)
        used = tables > 0
        by_consensus = np.exp(new["competence"][:, :1, None] + new["consensus"][None])
        share = np.divide(by_consensus, base, out=np.zeros_like(base), where=used)
        looked = np.zeros_like(tables)
        looked[used] = rng.binomial(tables[used].astype(np.int64), np.minimum(share[used], 1.0))
        return looked, tables - looked

    def _draw_raters(self, new: Values, looked: Array, guessed: Array, rng: Generator) -> None:
        """Draw competence and guesses of all raters, and what these have in common."""
        if "competence" not in new:
            return
        priors = self.priors
        for role, used, shared in (
            (
                "competence",
                np.stack([looked.sum(axis=(1, 2)), guessed.sum(axis=(1, 2))], axis=-1),
                np.asarray(priors.competence_mean),
            ),
            ("guess", guessed.sum(axis=1), np.full(self.n_classes, priors.guess_mean)),
        ):
            mean, spread = f"{role}_mean", f"{role}_concentration"
            base = np.maximum(new[spread] * np.exp(new[mean]), SMALLEST)
            tables = draw_tables(used, base, rng)
            shape, rate = getattr(priors, spread)
            new[spread] = draw_concentration(
                new[spread], tables.sum(axis=-1), used.sum(axis=-1), shape, rate, rng
            )
            new[mean] = draw_dirichlet(shared + tables.sum(axis=0), rng)
            base = np.maximum(new[spread] * np.exp(new[mean]), SMALLEST)
            new[role] = draw_dirichlet(base + used, rng)

    def _imagine(self, new: Values, known: Array, rng: Generator) -> Array:
        """Draw the types of imaginary items, first given the classes of types, then without."""
        imagined = np.zeros((self.n_types, self.n_classes))
        classes = np.repeat(np.arange(self.n_classes), self.imaginary)
        share, by_type = np.exp(new["type_share"]), np.exp(new["class_of_type"])
        types = [
            int(invert((share * by_type[:, k]).cumsum()[None], rng.random(1))[0]) for k in classes
        ]
        for z, k in zip(types, classes, strict=True):
            imagined[z, k] += 1.0
        prior = known + new["firmness"] * says(new["consensus"], new["trust"])
        for i in [*range(len(classes))] * ROUNDS:
            imagined[types[i], classes[i]] -= 1.0
            total = prior + imagined
            weight = share * total[:, classes[i]] / total.sum(axis=1)
            types[i] = int(invert(weight.cumsum()[None], rng.random(1))[0])
            imagined[types[i], classes[i]] += 1.0
        return imagined

    def _propose_consensus(self, looked: Array, rng: Generator) -> Array:
        """Draw consensus rows from the answers alone."""
        proposed = draw_dirichlet(self.priors.consensus + looked, rng)
        return normalise(np.maximum(proposed, -600.0))

    def _draw_trust(self, new: Values, known: Array, rng: Generator) -> None:
        """Move trust and firmness by Metropolis steps, the classes of types summed out."""
        roles = [role for role in STRIDE if role in self.members]
        said = known.any(axis=1)  # other types say nothing
        known, log_consensus = known[said], new["consensus"][said]

        def log_density(values: Values) -> float:
            total = log_known(known, log_consensus, values["trust"], values["firmness"]).sum()
            return self._log_hyper(values, float(total))

        here = log_density(new)
        for _ in range(ROUNDS):
            trial = {role: new[role] * math.exp(STRIDE[role] * rng.normal()) for role in roles}
            there = log_density(new | trial)
            if math.log(1.0 - rng.random()) < there - here:
                new |= trial
                here = there

    def _log_hyper(self, values: Values, total: float = 0.0) -> float:
        """Add the log priors of trust and firmness, of their logarithms."""
        for role in STRIDE:
            if role in self.members:
                mean, spread = getattr(self.priors, role)
                total -= 0.5 * ((math.log(values[role]) - mean) / spread) ** 2
        return float(total)


def log_known(known: Array, log_consensus: Array, trust: Any, firmness: Any) -> Array:
    """Return the log probability of known classes by type, the class of a type summed out."""
    prior = firmness * says(log_consensus, trust)
    logs = scipy.special.gammaln(prior + known) - scipy.special.gammaln(prior)
    number = known.sum(axis=1)
    total: Array = (
        logs.sum(axis=1)
        + scipy.special.gammaln(firmness)
        - scipy.special.gammaln(firmness + number)
    )
    return total
