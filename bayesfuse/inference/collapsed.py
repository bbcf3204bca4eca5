"""Collapsed variational Bayes for hidden types of items (:class:`bayesfuse.models.ItemTypes`)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.inference import cavi
from bayesfuse.inference.cavi import Approximation
from bayesfuse.inference.item_odds import OddsFit
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.inference.shared_rows import SharedRows
from bayesfuse.inference.start import majority, order_of_classes
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.observation import ChunkedResponseModel
from bayesfuse.observation.response_model import SHARPNESS
from bayesfuse.parameters.consensus_table import class_given_type
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.pool import ConsensusShares
from bayesfuse.raters.consensus import Consensus
from bayesfuse.raters.consensus_variational import MIN_PROBABILITY, visit_items

PASSES = 200  # at most
# passes after which one of two starts is dropped if class probabilities differ by less on average
TRIAL, SAME = 20, 2e-3
TOLERANCE = 5e-3  # change of a type's probability that ends the passes
FIRST, EVERY = 2, 2  # passes before hyperparameters move, and between their moves
# passes between extrapolations, their largest step, and items × types above which there are none
ROUND, MAX_STEP, MAX_EXTRAPOLATED = 4, 8.0, 30_000_000
NODES = np.linspace(-3.0, 3.0, 25)  # of the log trust, in standard deviations
COMPETENCE = 0.7  # at the start


def suits(plan: Plan) -> bool:
    """Return whether a model has types of items, and a table in memory without statements."""
    observation = plan.observation
    if isinstance(observation, ChunkedResponseModel) or observation.table.stated is not None:
        return False
    has_types = any(isinstance(pooled.pool, ConsensusShares) for pooled in plan.pools)
    return has_types and type(observation.raters) is Consensus


class TypesFit:
    """Probabilities of the types of all items of a table, and soft counts of raters."""

    def __init__(self, plan: Plan, labels: Array) -> None:
        """Begin at class probabilities (table items, classes)."""
        self.passes, self.converged = 0, False
        self.plan, observation = plan, plan.observation
        self.table = table = observation.table
        self.pools: dict[str, Any] = {pooled.pool.parameter: pooled for pooled in plan.pools}
        self.shares: Any = self.pools["share"].pool
        start, cell, _, gold, kind, types, values = observation.rater_structure
        self.gold, n_items = gold, len(gold)
        self.kind = kind if len(kind) else np.zeros(n_items, dtype=np.int64)
        self.n_raters, self.n_classes = table.n_raters, table.n_classes
        is_informed = (table.per_item > 0) | (gold >= 0)
        self.copies = np.where(is_informed, table.multiplicity, 0).astype(float)
        self.data = start, cell, gold, self.kind, types, values, self.copies
        known = self.shares.known
        self.odds = None if known is None else OddsFit(known)
        self.competence = SharedRows(self.pools["competence"].pool)
        self.guess = SharedRows(self.pools["guess"].pool) if "guess" in self.pools else None
        self.log_rows = self.shares.log_consensus
        self.share_prior = self.shares.concentration
        self.trust_weight = scipy.special.softmax(-0.5 * NODES**2)
        self._class_of_type()

        probability = (labels @ np.exp(self.log_rows).T) ** SHARPNESS
        self.probability = probability / probability.sum(axis=1, keepdims=True)
        self.n_consensus = types.shape[1]
        self.look = COMPETENCE * self._on_consensus()[table.item]
        self._count()
        self._weigh_kinds()

    @cached_property
    def clean_prior(self) -> Array:
        """Concentrations of rows on clean types, (raters, clean types, answers)."""
        block = self.plan.blocks.get("clean_confusion")
        if block is None:
            return np.empty((self.n_raters, 0, self.n_classes))
        prior: Any = block.prior
        return np.asarray(prior.concentration)

    def _on_consensus(self) -> Array:
        """Return the probability that items are not of a clean type, (table items,)."""
        return self.probability[:, : self.n_consensus].sum(axis=1)

    def _count(self) -> None:
        """Set the soft counts of raters and types."""
        cell, item, n_raters = self.data[1].astype(np.int64), self.table.item, self.n_raters
        weight, n_cells = self.copies[item], self.n_raters * self.n_classes
        looks = np.bincount(cell // self.n_classes, weight * self.look, n_raters)
        guessed = weight * (self._on_consensus()[item] - self.look)
        guesses = np.bincount(cell, guessed, n_cells).reshape(n_raters, -1)
        self.state = looks, guesses, guesses.sum(axis=1)
        counts = np.ascontiguousarray(self._count_clean().swapaxes(1, 2))
        self.clean = counts.reshape(n_cells, counts.shape[2]), counts.sum(axis=1)
        self.total = self.copies @ self.probability

    def _count_clean(self, chosen: NDArray[np.bool_] | bool = True) -> Array:
        """Return soft counts of clean types on some items, (raters, clean types, answers)."""
        cell, item = self.data[1].astype(np.int64), self.table.item
        weighted = (self.copies * chosen)[:, None] * self.probability[:, self.n_consensus :]
        counts = np.zeros((self.n_raters, weighted.shape[1], self.n_classes))
        for k, of_type in enumerate(weighted.T):
            counts[:, k].flat = np.bincount(cell, of_type[item], self.n_raters * self.n_classes)
        return counts

    def _extrapolate(self, first: Array, second: Array) -> None:
        """Go further in the direction of three passes (SQUAREM, Varadhan & Roland 2008)."""
        change = second - first
        bend = self.probability - second - change
        ratio = np.linalg.norm(change) / max(np.linalg.norm(bend), SMALLEST)
        step = float(np.clip(ratio, 1.0, MAX_STEP))
        before = self._on_consensus()
        probability = np.maximum(first + 2.0 * step * change + step**2 * bend, MIN_PROBABILITY)
        self.probability = probability / probability.sum(axis=1, keepdims=True)
        growth = self._on_consensus() / np.maximum(before, MIN_PROBABILITY)
        self.look = np.minimum(
            self.look * growth[self.table.item], self._on_consensus()[self.table.item]
        )
        self._count()

    @cached_property
    def trusts(self) -> Array:
        """Trust at the nodes, one if it is given."""
        if self.shares.fixed:
            return np.atleast_1d(self.shares.trust_at({}))
        mean, sd = self.shares.trust_prior
        return np.exp(mean + sd * NODES)

    @cached_property
    def _at_nodes(self) -> Array:
        """Class probabilities by type at every trust, (nodes, types, classes)."""
        return np.stack([class_given_type(self.log_rows, trust) for trust in self.trusts])

    def _class_of_type(self) -> None:
        """Average class probabilities by type over the trust, (types, classes)."""
        weight = self.trust_weight if len(self.trusts) > 1 else np.ones(1)
        self.class_of_type = np.tensordot(weight, self._at_nodes, 1)

    def run(self, passes: int, tolerance: float) -> None:
        """Go on until there have been so many passes, or types have settled."""
        is_extrapolated = self.probability.size <= MAX_EXTRAPOLATED
        last: list[Array] = []
        while self.passes < passes and not self.converged:
            number = self.passes
            change = self._visit()
            if number >= FIRST and (number - FIRST) % EVERY == 0:
                self._move()
            self.converged = change < tolerance and number > FIRST + EVERY
            self.passes += 1
            if not is_extrapolated or self.converged:
                continue
            if self.passes % ROUND or self.passes <= FIRST + EVERY or len(last) < 2:
                last = [*last[-1:], self.probability.copy()]
            else:
                self._extrapolate(*last)
                last = []

    def settle_classes(self) -> None:
        """Give clean types, which passes do not exchange, to the classes that fit their rows."""
        unknown, clean = self.gold < 0, slice(self.n_consensus, None)
        known, others = (
            {
                "prevalence": self.copies[items] @ self.probability[items, clean],
                "confusion": self._count_clean(items),
            }
            for items in (~unknown, unknown)
        )
        priors = {"prevalence": self.share_prior[clean], "confusion": self.clean_prior}
        prior = {name: Dirichlet(prior + known[name]) for name, prior in priors.items()}
        order = order_of_classes(others, prior)
        self.probability[unknown, clean] = self.probability[unknown, clean][:, order]
        self._count()
        self.converged &= np.array_equal(order, np.arange(len(order)))

    def _visit(self) -> float:
        guess = np.empty(0)
        if self.guess is not None:
            guess = np.append(self.guess.prior, self.guess.concentration)
        clean = self.clean_prior[0].T  # the same for all raters
        clean = np.vstack([clean, clean.sum(axis=0)])
        prior = float(self.competence.mean[0]), self.competence.concentration, guess, clean
        shares = self.share_prior, self.rate, self.tilt
        labels = self.class_of_type, self.exp_odds
        sums = self.probability, self.look, self.total, self.state, self.clean
        return float(visit_items(*sums, prior, shares, self.data, labels))

    def _move(self) -> None:
        """Move hyperparameters, the trust, and the log-odds of items."""
        looks, guesses, totals = self.state
        self.competence.move(np.maximum(np.column_stack([looks, totals]), 0.0))
        if self.guess is not None:
            self.guess.move(np.maximum(guesses, 0.0))
        if not self.shares.fixed:
            self._move_trust()
        if self.odds is not None:
            by_kind, is_known = self._by_kind()
            classes = self._classes_by_kind(by_kind) + is_known
            self.odds.move(classes, self._average())
        self._weigh_kinds()

    def _move_trust(self) -> None:
        known = self.gold >= 0
        if not known.any() and self.odds is None:
            return
        height = -0.5 * NODES**2
        count = np.zeros((self.n_classes, len(self.log_rows)))
        weighted = self.copies[known, None] * self.probability[known]
        np.add.at(count, self.gold[known], weighted)
        height = height + np.einsum("kz,jzk->j", count, np.log(self._at_nodes + SMALLEST))
        if self.odds is not None:
            by_kind, _ = self._by_kind()
            per_kind = np.bincount(self.kind, self.copies, self.exp_odds.shape[0])
            share = self._share()
            for node, class_of_type in enumerate(self._at_nodes):
                tilt = np.maximum(self.exp_odds @ class_of_type.T, SMALLEST)
                height[node] += (by_kind * np.log(tilt)).sum() - per_kind @ np.log(tilt @ share)
        self.trust_weight = scipy.special.softmax(height)
        self._class_of_type()

    def _by_kind(self) -> tuple[Array, Array]:
        """Return items of unknown class by kind and type, and of known class by kind and class."""
        n_kinds, known = self.exp_odds.shape[0], self.gold >= 0
        by_kind = np.zeros((n_kinds, len(self.log_rows)))
        np.add.at(by_kind, self.kind[~known], self.copies[~known, None] * self.probability[~known])
        of_class = np.zeros((n_kinds, self.n_classes))
        np.add.at(of_class, (self.kind[known], self.gold[known]), self.copies[known])
        return by_kind, of_class

    def _classes_by_kind(self, by_kind: Array) -> Array:
        return self.exp_odds * ((by_kind / self.tilt) @ self.class_of_type)

    def _share(self) -> Array:
        share = (self.share_prior + self.total) / self.rate
        return share / share.sum()

    def _average(self) -> Array:
        """Return the class shares of average items, (classes,)."""
        return self._share() @ self.class_of_type

    def _weigh_kinds(self) -> None:
        """Compute weights of types by kind of item, and the rates of the gamma draws of shares."""
        n_types = len(self.log_rows)
        if self.odds is None:
            self.exp_odds = np.ones((1, self.n_classes))
            self.tilt, self.rate = np.ones((1, n_types)), np.ones(n_types)
            return
        log_odds = self.odds.log_odds()
        self.exp_odds = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
        self.tilt = np.maximum(self.exp_odds @ self.class_of_type.T, SMALLEST)
        if not hasattr(self, "rate"):
            self.rate = np.ones(n_types)
        per_kind = np.bincount(self.kind, self.copies, len(log_odds))
        for _ in range(5):
            # unnormalised shares, whose sum has the prior mean
            share = self._share() * self.share_prior.sum()
            self.rate = 1.0 + (per_kind / (self.tilt @ share)) @ self.tilt

    def labels(self) -> Array:
        """Return class probabilities, (table items, classes)."""
        if self.odds is None:
            probability: Array = self.probability @ self.class_of_type
        else:
            tilt = self.tilt[self.kind]
            probability = self.exp_odds[self.kind] * (
                (self.probability / tilt) @ self.class_of_type
            )
        known = self.gold >= 0
        probability[known] = np.eye(self.n_classes)[self.gold[known]]
        return probability

    def rows(self) -> dict[str, tuple[Dirichlet, Dirichlet]]:
        """Return prior and approximation of shares, competences and guesses."""
        looks, guesses, totals = self.state
        share = Dirichlet(self.share_prior)
        rows = {"type_share": (share, share + self.total)}
        counts = {"competence": (self.competence, np.column_stack([looks, totals]))}
        if self.guess is not None:
            counts["guess"] = self.guess, guesses
        for name, (shared, of_raters) in counts.items():
            below = np.broadcast_to(shared.prior, of_raters.shape)
            rows[name] = Dirichlet(below), Dirichlet(below + np.maximum(of_raters, 0.0))
        if "clean_confusion" in self.plan.blocks:
            prior = Dirichlet(self.clean_prior)
            rows["clean_confusion"] = prior, prior + self._count_clean()
        return rows

    def bound(self) -> float:
        """Return the bound of the log evidence at the fitted rows, hyperparameters at the mode."""
        rows = self.rows()
        priors = {name: prior for name, (prior, _) in rows.items()}
        fitted = {name: posterior for name, (_, posterior) in rows.items()}
        log_rows = cavi.expected_log(fitted)
        height = -cavi.divergence(fitted, priors, log_rows)
        values = {"type_share": log_rows.pop("type_share"), "trust": self._trust()}
        values |= {} if self.odds is None else self.odds.values()
        members = {role: np.asarray(values[role]) for role in self.pools["share"].members}
        log_rows |= self.shares.implied(members)
        with np.errstate(divide="ignore"):
            return height + self.plan.observation.evidence(log_rows)[0]

    def _trust(self) -> Array:
        weight = self.trust_weight if len(self.trusts) > 1 else np.ones(1)
        return np.exp(weight @ np.log(self.trusts))

    def draw(self, draws: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draw all variables of the model from the approximation, (draws, …) by name."""
        values: dict[str, Array] = {}
        rows = self.rows()
        of_shares = self.pools["share"]
        shares = np.tile(rows["type_share"][1].concentration, (draws, 1))
        members: dict[str, Any] = {"type_share": self._tilted(draw_dirichlet(shares, rng))}
        if not self.shares.fixed:
            members["trust"] = self._draw_trust(draws, rng)
        if self.odds is not None:
            members |= self.odds.draw(draws, rng)
        values |= _named(of_shares, members)
        looks, guesses, totals = self.state
        for name, shared, counts in (
            ("competence", self.competence, np.column_stack([looks, totals])),
            ("guess", self.guess, guesses),
        ):
            if shared is None:
                continue
            mean, spread = shared.draw(draws, rng)
            values |= _named(self.pools[name], {"mean": mean, "concentration": spread})
            prior = np.maximum(spread[:, None] * np.exp(mean), SMALLEST)[:, None]
            drawn = draw_dirichlet(prior + np.maximum(counts, 0.0), rng)
            values |= self._by_variable(name, drawn)
        if "clean_confusion" in rows:
            concentration = np.tile(rows["clean_confusion"][1].concentration, (draws, 1, 1, 1))
            values |= self._by_variable("clean_confusion", draw_dirichlet(concentration, rng))
        return values

    def _by_variable(self, parameter: str, drawn: Array) -> dict[str, Array]:
        block = self.plan.blocks[parameter]
        return {block.variable.name: block.support.from_kernel(drawn)}

    def _tilted(self, log_share: Array) -> Array:
        log_share = log_share - np.log(self.rate)
        return log_share - scipy.special.logsumexp(log_share, axis=1, keepdims=True)

    def _draw_trust(self, draws: int, rng: np.random.Generator) -> Array:
        """Draw the trust from weights at the nodes, spread evenly around these."""
        node = rng.choice(NODES, draws, p=self.trust_weight)
        deviation = node + (NODES[1] - NODES[0]) * (rng.random(draws) - 0.5)
        mean, sd = self.shares.trust_prior
        return np.exp(mean + sd * deviation)


def _named(pooled: PooledBlock, members: dict[str, Array]) -> dict[str, Array]:
    """Return draws of the members of a pool by the names of their variables."""
    return {
        block.variable.name: block.support.from_kernel(members[role])
        for role, block in pooled.members.items()
    }


def fit_types(
    plan: Plan, labels: Array, iterations: int | None = None, tolerance: float | None = None
) -> TypesFit:
    """Fit from votes and from class probabilities; keep the higher bound, clean types settled."""
    passes, change = iterations or PASSES, tolerance or TOLERANCE
    fits = [TypesFit(plan, initial) for initial in (majority(plan.observation), labels)]
    for fitted in fits:
        fitted.run(min(TRIAL, passes), change)
    if np.abs(fits[0].labels() - fits[1].labels()).mean() < SAME:
        fits.pop()
    for fitted in fits:
        fitted.run(passes, change)
    fitted = max(fits, key=TypesFit.bound)
    if fitted.clean_prior.size:
        fitted.settle_classes()
        fitted.run(passes, change)
    return fitted


def approximate(
    plan: Plan,
    labels: Array,
    *,
    iterations: int | None,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit from class probabilities (table items, classes), and draw from the approximation."""
    fitted = fit_types(plan, labels, iterations, tolerance)
    trace = np.full(fitted.passes, np.nan)
    trace[-1] = fitted.bound()
    return Approximation(fitted.draw(draws, rng), trace, fitted.converged, float("nan"))
