"""Whole chains in one compiled function, where every parameter is updated in closed form.

It returns after some draws, so Python shows progress and notices interruptions in between.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from bayesfuse.inference import turning
from bayesfuse.inference.chain_kernel import chain_of
from bayesfuse.inference.chains import Chain
from bayesfuse.inference.gibbs import State, Sweep
from bayesfuse.inference.plan import Plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Factor, InChain
from bayesfuse.parameters.pool import SharedMean


def compilable(plan: Plan) -> bool:
    """Return whether whole chains can be compiled: see ``InChain`` and CONTRIBUTING."""
    observation = plan.observation
    if type(observation) is not Observation or not plan.whole or plan.constants:
        return False
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


class CompiledChain(Chain):
    """A chain whose sweeps are compiled."""

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
        self._pool: Any = self._pooled(sweep, state) if sweep.pools else ()
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
        self._seconds = 0.0  # of a draw
        self._fill()

    def _pooled(self, sweep: Sweep, state: State) -> tuple[Any, ...]:
        """Return the arrays of the pool: values, prior of the mean, and draws."""
        (pooled,) = sweep.pools
        pool: Any = pooled.pool
        values = pooled.values(state.rows)
        columns = pool.mean_prior.shape[-1]
        mean = np.exp(values["mean"]).reshape(-1, columns)
        concentration = np.array(values["concentration"], dtype=float).reshape(-1)
        self._names = {role: block.parameter for role, block in pooled.members.items()}
        kept = np.empty((self.draws, *mean.shape)), np.empty((self.draws, concentration.size))
        prior = np.ascontiguousarray(pool.mean_prior, dtype=float).reshape(-1, columns)
        return mean, concentration, prior, float(pool.shape), float(pool.rate), *kept

    def _fill(self) -> None:
        """Let ``kept`` hold the arrays that the compiled function writes."""
        for part, kept in zip(self._parts, self._kept, strict=True):
            self.kept |= dict(zip(part.names, part.split(kept), strict=True))
        if self._pool:
            for role, kept in zip(("mean", "concentration"), self._pool[-2:], strict=True):
                name = self._names[role]
                self.kept[name] = kept.reshape(self.kept[name].shape)

    def advance(self, seconds: float) -> None:
        """Make as many draws at a time as fit into the seconds."""
        until = time.perf_counter() + seconds
        while not self.complete:
            began = time.perf_counter()
            tuning = self.done < self.tune
            left = (self.tune if tuning else self.tune + self.draws) - self.done
            fits = (until - began) / self._seconds if self._seconds else 1
            number = int(np.clip(fits, 1, left))
            first = -1 if tuning else self.done - self.tune
            if self.done == 0:  # scatters chains that begin at the same point
                self._make(1, 1, -1)
            self._make(number, self.sweeps, first)
            self.done += number
            ended = time.perf_counter()
            self._seconds = (ended - began) / number
            if tuning and self.done == self.tune:
                tried, accepted = self._turns[1:3].astype(int).tolist()
                state = self.state._replace(tried=tried, accepted=accepted)
                self._turns[0] = state.tuned().turns
            if ended > until:
                return

    def _make(self, number: int, sweeps: int, first: int) -> None:
        """Make draws, or raise ImpossibleDataError."""
        if self._chain(number, sweeps, first, *self._arguments) < number:
            rows: dict[str, Array] = {}
            for part in self._parts:
                rows |= dict(zip(part.names, part.split(part.rows), strict=True))
            self.sweep.observation.require_possible_at(rows)
