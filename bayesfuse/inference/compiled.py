"""Whole chains in one compiled function, where every parameter is updated in closed form.

The function is put together from those of the two factors, or the channel has one of its own. It
returns after some draws, so Python shows progress and notices interruptions in between.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesfuse.inference.chains import Chain
from bayesfuse.inference.gibbs import State, Sweep, least_angle
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.chains import chain_of
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Factor, InChain
from bayesfuse.parameters.pool import SharedMean


def compilable(plan: Plan) -> type[CompiledChain] | None:
    """Return the kind of chain that can be compiled: see ``InChain`` and CONTRIBUTING."""
    if type(plan.observation) is not Observation or not plan.whole:
        return None
    own = _own_chain(plan.observation, plan.pools) is not None
    return CompiledChain if own or (not plan.constants and _of_factors(plan)) else None


def _own_chain(
    observation: Observation, pools: tuple[PooledBlock, ...]
) -> Callable[..., Any] | None:
    raters, above = observation.raters, {each.pool.parameter: each.pool for each in pools}
    return raters.own_chain(
        observation.labels, observation.table, observation.rater_structure, above
    )


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


class CompiledChain(Chain):
    """A chain of compiled sweeps, as many at a time as fit into some seconds."""

    _seconds = 0.0  # of a draw

    def __init__(self, sweep: Sweep, state: State, rng: Any, **sizes: int) -> None:
        super().__init__(sweep, state, rng, **sizes)
        observation = sweep.observation
        # whether to turn, how many were tried and accepted, and the least angle
        self._turns = np.array([state.turns, 0.0, 0.0, least_angle(observation)])
        self._parts: list[_Rows] = []
        values, kept = (
            {each.pool.parameter: each.values(rows) for each in sweep.pools}
            for rows in (state.rows, self.kept)
        )
        if begin := _own_chain(observation, sweep.pools):
            self._chain, self._arguments = begin(state.rows, self.kept, values, kept, rng)
            return
        pools: Any = [each.pool for each in sweep.pools]
        pool: Any = [p.in_chain(values[p.parameter], kept[p.parameter]) for p in pools]
        found, table = _functions(observation), observation.table
        assert found is not None  # as `compilable` has found
        structures = observation.label_structure, observation.rater_structure
        factors = []
        for factor, functions, structure in zip(
            (observation.labels, observation.raters), found, structures, strict=True
        ):
            part = _Rows(factor, functions, sweep, state)
            made = np.empty((self.draws, *part.rows.shape))
            self.kept |= dict(zip(part.names, part.split(made), strict=True))
            self._parts.append(part)
            both = part.rows, part.prior, part.counts, part.tables, part.counted
            factors.append((*both, structure, made))
        copies = bool((table.multiplicity != 1).any())
        shape: Any = (table.n_items, table.n_classes) if copies else table.n_items
        drawn = np.zeros(shape, float if copies else np.int32)
        labels, raters = found
        own = labels.draw, labels.count, raters.likelihood, raters.count
        self._chain = chain_of(*own, bool(pools), state.turns)
        each = table.multiplicity, table.n_classes
        self._arguments = (*factors, pool[0] if pool else (), drawn, each, self._turns, rng)

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
                tried, accepted = self._turns[1:3].astype(int).tolist()
                self.state = self.state._replace(tried=tried, accepted=accepted).tuned()
                self._turns[0] = self.state.turns
            if ended > until:
                return

    def _make(self, number: int, sweeps: int, first: int) -> None:
        """Make draws, written from ``first`` on unless negative, or raise ImpossibleDataError."""
        if self._chain(number, sweeps, first, *self._arguments) < number:
            rows: dict[str, Array] = {}
            for part in self._parts:
                rows |= dict(zip(part.names, part.split(part.rows), strict=True))
            self.sweep.observation.require_possible_at(rows)
