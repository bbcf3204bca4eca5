"""Whole chains in one compiled function, where every parameter is updated in closed form.

It returns after some draws, so Python shows progress and notices interruptions in between.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from typing import Any

import numpy as np

from bayesfuse.inference import turning
from bayesfuse.inference.chain_kernel import chain_of
from bayesfuse.inference.chains import Chain
from bayesfuse.inference.gibbs import State, Sweep
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.consensus_shares import ConsensusShares
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Factor, InChain
from bayesfuse.parameters.pool import SharedMean
from bayesfuse.raters.consensus_chain import chain as consensus_chain

MANY = 4_000_000
"""Most entries (items × types) for which chains of types are compiled, which keep them."""


def compilable(plan: Plan) -> type[WholeChain] | None:
    """Return the kind of chain that can be compiled: see ``InChain`` and CONTRIBUTING."""
    observation = plan.observation
    if type(observation) is not Observation or not plan.whole:
        return None
    if any(type(each.pool) is ConsensusShares for each in plan.pools):
        return ConsensusChain if _has_types(plan) else None
    return CompiledChain if not plan.constants and _of_factors(plan) else None


def _has_types(plan: Plan) -> bool:
    """Return whether types of independent labels are drawn, of kinds that do not differ."""
    observation = plan.observation
    raters: Any = observation.raters
    few = observation.table.n_items * len(observation.rater_structure[4][0]) <= MANY
    pooled = {each.pool.parameter for each in plan.pools} == set(raters.parameters)
    return few and pooled and raters.n_kinds == 0 and type(observation.labels) is Independent


def _of_factors(plan: Plan) -> bool:
    observation = plan.observation
    shared = {each.pool.parameter for each in plan.pools if type(each.pool) is SharedMean}
    return (
        len(plan.pools) <= 1
        and len(shared) == len(plan.pools)
        and shared <= set(observation.raters.parameters)
        and set(plan.blocks) == set(observation.names)
        and all(type(b.prior) is Dirichlet or n in shared for n, b in plan.blocks.items())
        and _functions(observation) is not None
    )


def _functions(observation: Observation) -> tuple[InChain, InChain] | None:
    """Return the functions of both factors, None if a class has none of its own."""
    copies = bool((observation.table.multiplicity != 1).any())
    found = []
    for factor in (observation.labels, observation.raters):
        own = vars(type(factor)).get("in_chain")
        functions = None if own is None else own(factor, copies=copies)
        if functions is None:
            return None
        found.append(functions)
    return found[0], found[1]


class _Rows:
    """The parameters of a factor in one table (rows, columns), with priors, counts and views."""

    def __init__(self, factor: Factor, functions: InChain, sweep: Sweep, state: State) -> None:
        self.names = tuple(factor.parameters)
        values = [np.asarray(state.rows[name], dtype=float) for name in self.names]
        self.shapes = [value.shape for value in values]
        columns = values[0].shape[-1]
        self.rows = np.concatenate([value.reshape(-1, columns) for value in values])
        self.prior, self.counts = np.ones_like(self.rows), np.zeros_like(self.rows)
        for name, prior in zip(self.names, self.split(self.prior), strict=True):
            if name in sweep.priors:
                given: Any = sweep.priors[name]
                prior[...] = given.concentration
        self.tables, self.counted = (
            tuple(
                np.expand_dims(v, tuple(range(v.ndim - 1, functions.axes - 1)))
                for v in self.split(array)
            )
            for array in (self.rows, self.counts)
        )

    def split(self, array: Array) -> list[Array]:
        """Return views of ``array`` (…, rows, columns) for each parameter, of its shape."""
        sizes = [math.prod(shape[:-1]) for shape in self.shapes]
        parts = np.split(array, np.cumsum(sizes)[:-1], axis=-2)
        lead = array.shape[:-2]
        return [part.reshape(*lead, *s) for part, s in zip(parts, self.shapes, strict=True)]


class WholeChain(Chain):
    """A chain of compiled sweeps, as many at a time as fit into some seconds."""

    _seconds = 0.0  # of a draw

    def advance(self, seconds: float) -> None:
        """Make as many draws at a time as fit into the seconds."""
        until = time.perf_counter() + seconds
        while not self.complete:
            began = time.perf_counter()
            tuning = self.done < self.tune
            left = (self.tune if tuning else self.tune + self.draws) - self.done
            fits = (until - began) / self._seconds if self._seconds else 1
            number = int(np.clip(fits, 1, left))
            if self.done == 0:  # scatters chains that begin at the same point
                self._make(1, 1, -1)
            self._make(number, self.sweeps, -1 if tuning else self.done - self.tune)
            self.done += number
            ended = time.perf_counter()
            self._seconds = (ended - began) / number
            if tuning and self.done == self.tune:
                self._tuned()
            if ended > until:
                return

    @abstractmethod
    def _make(self, number: int, sweeps: int, first: int) -> None:
        """Make draws of some sweeps each, written from ``first`` on unless negative."""

    def _tuned(self) -> None:
        """Adapt to what tuning has shown."""


class ConsensusChain(WholeChain):
    """A chain of types of items with fixed consensus rows, under independent labels."""

    least_sweeps = 4  # of a draw: chains of a thousand draws then agree in all labels

    def __init__(self, sweep: Sweep, state: State, rng: Any, **sizes: int) -> None:
        super().__init__(sweep, state, rng, **sizes)
        observation, rows = sweep.observation, state.rows
        start, cell, gold, _, types, values = observation.rater_structure
        pools = {pooled.pool.parameter: pooled for pooled in sweep.pools}
        own: Any = pools["share"].pool
        log_share = np.array(rows["share: type_share"], dtype=float)[None]
        trust = np.array([float(own.trust_at(pools["share"].values(rows)))])
        mean_sd = (np.nan, np.nan) if own.fixed else own.trust_prior
        each = np.full(log_share.shape, own.concentration / log_share.size)
        kept = self.kept["share: type_share"], self.kept.get("share: trust", np.empty(self.draws))
        shares = log_share, each, trust, *mean_sd, own.log_consensus, *kept
        n_raters, n_classes = observation.table.n_raters, observation.table.n_classes
        competence = self._rows(rows, pools["competence"])
        even = np.full((n_raters, n_classes), -math.log(n_classes))
        guess, guess_pool, kept_guess = even, None, np.empty((0, n_raters, n_classes))
        if "guess" in pools:
            guess, guess_pool, kept_guess = self._rows(rows, pools["guess"])
        copies = observation.table.multiplicity
        data = start, cell, gold, copies, types, len(values)
        self._arguments = shares, competence, (guess, kept_guess), guess_pool, data, values, rng

    def _rows(self, rows: Rows, pooled: PooledBlock) -> tuple[Any, ...]:
        """Return rows, their pool and the draws of the rows."""
        name = pooled.pool.parameter
        pool = pool_arrays(pooled, rows, self.kept)
        return np.array(rows[name], dtype=float), pool, self.kept[name]

    def _make(self, number: int, sweeps: int, first: int) -> None:
        consensus_chain(number, sweeps, first, *self._arguments)


def pool_arrays(pooled: PooledBlock, rows: Rows, kept: dict[str, Array]) -> tuple[Any, ...]:
    """Return the arrays of a pool for a compiled chain, which writes its draws into ``kept``."""
    pool: Any = pooled.pool
    values = pooled.values(rows)
    columns = pool.mean_prior.shape[-1]
    mean = np.exp(values["mean"]).reshape(-1, columns)
    concentration = np.array(values["concentration"], dtype=float).reshape(-1)
    means, concentrations = (
        kept[pooled.members[role].parameter] for role in ("mean", "concentration")
    )
    prior = np.ascontiguousarray(pool.mean_prior, dtype=float).reshape(-1, columns)
    scale = float(pool.shape), float(pool.rate)
    n_draws = len(means)
    shapes = (n_draws, *mean.shape), (n_draws, concentration.size)
    kept_of = (means.reshape(shapes[0]), concentrations.reshape(shapes[1]))
    return mean, concentration, prior, *scale, *kept_of


class CompiledChain(WholeChain):
    """A chain whose sweeps are compiled from the functions of two factors."""

    def __init__(self, sweep: Sweep, state: State, rng: Any, **sizes: int) -> None:
        super().__init__(sweep, state, rng, **sizes)
        observation = sweep.observation
        table, found = observation.table, _functions(observation)
        assert found is not None  # as `compilable` has found
        labels, raters = found
        copies = bool((table.multiplicity != 1).any())
        self._parts = (
            _Rows(observation.labels, labels, sweep, state),
            _Rows(observation.raters, raters, sweep, state),
        )
        shape: Any = (table.n_items, table.n_classes) if copies else table.n_items
        drawn = np.zeros(shape, float if copies else np.int32)
        self._kept = tuple(np.empty((self.draws, *part.rows.shape)) for part in self._parts)
        self._pool: Any = ()
        for pooled in sweep.pools:
            self._pool = pool_arrays(pooled, state.rows, self.kept)
        # whether to turn, how many were tried and accepted, and the least angle
        self._turns = np.array([state.turns, 0.0, 0.0, turning.least_angle(observation)])
        own = labels.draw, labels.count, raters.likelihood, raters.count
        self._chain = chain_of(*own, bool(sweep.pools), state.turns)
        structures = observation.label_structure, observation.rater_structure
        factors = [
            (part.rows, part.prior, part.counts, part.tables, part.counted, structure, kept)
            for part, structure, kept in zip(self._parts, structures, self._kept, strict=True)
        ]
        each = table.multiplicity, table.n_classes
        self._arguments = (*factors, self._pool, drawn, each, self._turns, rng)
        self._fill()

    def _fill(self) -> None:
        """Let ``kept`` hold the arrays that the compiled function writes."""
        for part, kept in zip(self._parts, self._kept, strict=True):
            self.kept |= dict(zip(part.names, part.split(kept), strict=True))

    def _tuned(self) -> None:
        tried, accepted = self._turns[1:3].astype(int).tolist()
        self.state = self.state._replace(tried=tried, accepted=accepted).tuned()
        self._turns[0] = self.state.turns

    def _make(self, number: int, sweeps: int, first: int) -> None:
        """Make draws, or raise ImpossibleDataError."""
        if self._chain(number, sweeps, first, *self._arguments) < number:
            rows: dict[str, Array] = {}
            for part in self._parts:
                rows |= dict(zip(part.names, part.split(part.rows), strict=True))
            self.sweep.observation.require_possible_at(rows)
