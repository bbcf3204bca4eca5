"""Gibbs chains side by side on threads, until they are complete or interrupted."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import numpy as np

from bayesfuse.inference.gibbs import State, Sweep, least_angle, step
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.chains import ACCEPTED, TRIED, TURN, chain_of
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import EVERY, check, limited
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.parameters.capabilities import SweepKernels
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Factor
from bayesfuse.parameters.pool import SharedMean

SLICE = 0.05  # seconds a chain runs before other chains and the progress bar have their turn


class Chain(ABC):
    """Kept draws of ``sweeps`` sweeps each: (draws, …) by name, in kernel coordinates."""

    def __init__(
        self, sweep: Sweep, state: State, rng: Any, *, tune: int, draws: int, sweeps: int
    ) -> None:
        self.sweep, self.state, self.rng = sweep, state, rng
        self.tune, self.draws, self.sweeps = tune, draws, sweeps
        self.done, self.stopped = 0, False
        names = [*sweep.drawn]
        names += [block.parameter for pooled in sweep.pools for block in pooled.members.values()]
        rows: Mapping[str, Any] = {name: np.asarray(state.rows[name]) for name in names}
        self.stored = {n: np.empty((draws, *row.shape), row.dtype) for n, row in rows.items()}
        if tune == 0:
            self.state = state.tuned()

    @property
    def n_stored(self) -> int:
        """Number of draws after tuning."""
        return max(self.done - self.tune, 0)

    @property
    def complete(self) -> bool:
        """Whether all draws have been made."""
        return self.done == self.tune + self.draws

    @abstractmethod
    def advance(self, seconds: float) -> None:
        """Make at least one more draw, and as many as take about so long."""


class SteppedChain(Chain):
    """A chain of steps in Python; ``watch`` takes rows and labels of every draw that is kept."""

    watch: Callable[[LogParameters, Any], None] | None = None

    def advance(self, seconds: float) -> None:
        """Make draws by steps in Python."""
        until = time.perf_counter() + seconds
        while not self.complete:
            state = self.state
            for _ in range(self.sweeps):
                if self.stopped:
                    return
                state = step(self.sweep, state, self.rng)
            if self.done >= self.tune:
                at = self.done - self.tune
                for name, draws in self.stored.items():
                    draws[at] = state.rows[name]
                if self.watch is not None:
                    self.watch(state.rows, state.labels)
            self.done += 1
            self.state = state.tuned() if self.done == self.tune else state
            if time.perf_counter() > until:
                return


class _Rows:
    """The parameters of a factor in one table (rows, columns), with priors, counts and views."""

    def __init__(self, factor: Factor, functions: SweepKernels, sweep: Sweep, state: State) -> None:
        self.names = tuple(factor.parameters)
        values = [np.asarray(state.rows[name], dtype=float) for name in self.names]
        self.shapes = [value.shape for value in values]
        columns = values[0].shape[-1]
        self.rows = np.concatenate([value.reshape(-1, columns) for value in values])
        self.prior, self.counts = np.ones_like(self.rows), np.zeros_like(self.rows)
        for name, prior in zip(self.names, self.split(self.prior), strict=True):
            if name in sweep.priors:
                prior_of: Any = sweep.priors[name]
                prior[...] = prior_of.concentration
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
    """A chain in one compiled function, put together from those of the factors or the channel's.

    It returns after some seconds, so that Python shows progress and notices interruptions.
    """

    _seconds = 0.0  # of a draw

    def __init__(self, sweep: Sweep, state: State, rng: Any, **sizes: int) -> None:
        super().__init__(sweep, state, rng, **sizes)
        observation = sweep.observation
        swaps = state.turns and swaps_classes(observation)
        self._turns = np.array([state.turns, 0.0, 0.0, least_angle(observation), swaps, 0.0])
        self._parts: list[_Rows] = []
        values, storage = (
            {of_pool.pool.parameter: of_pool.values(rows) for of_pool in sweep.pools}
            for rows in (state.rows, self.stored)
        )
        if begin := _compiled_chain(observation, sweep.pools):
            self._chain, self._arguments = begin(state.rows, self.stored, values, storage, rng)
            return
        pools: Any = [of_pool.pool for of_pool in sweep.pools]
        pool: Any = [p.in_chain(values[p.parameter], storage[p.parameter]) for p in pools]
        of_factors, table = _functions(observation), observation.table
        assert of_factors is not None  # as `compilable` has found
        structures = observation.label_structure, observation.rater_structure
        factors = []
        for factor, functions, structure in zip(
            (observation.labels, observation.raters), of_factors, structures, strict=True
        ):
            part = _Rows(factor, functions, sweep, state)
            made = np.empty((self.draws, *part.rows.shape))
            self.stored |= dict(zip(part.names, part.split(made), strict=True))
            self._parts.append(part)
            both = part.rows, part.prior, part.counts, part.tables, part.counted
            factors.append((*both, structure, made))
        copies = bool((table.multiplicity != 1).any())
        shape: Any = (table.n_items, table.n_classes) if copies else table.n_items
        drawn = np.zeros(shape, float if copies else np.int32)
        labels, raters = of_factors
        kernels = labels.draw, labels.count, raters.likelihood, raters.count
        self._chain = chain_of(*kernels, bool(pools), state.turns)
        of_pool = table.multiplicity, table.n_classes
        self._arguments = (*factors, pool[0] if pool else (), drawn, of_pool, self._turns, rng)

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
                tried, accepted = self._turns[[TRIED, ACCEPTED]].astype(int).tolist()
                self.state = self.state._replace(tried=tried, accepted=accepted).tuned()
                self._turns[TURN] = self.state.turns
            if ended > until:
                return

    def _make(self, number: int, sweeps: int, first: int) -> None:
        """Make draws, written from ``first`` on unless negative, or raise ImpossibleDataError."""
        if self._chain(number, sweeps, first, *self._arguments) < number:
            rows: dict[str, Array] = {}
            for part in self._parts:
                rows |= dict(zip(part.names, part.split(part.rows), strict=True))
            self.sweep.observation.require_possible_at(rows)


def swaps_classes(observation: ResponseModel) -> bool:
    """Return whether swapping classes leaves the likelihood as it is: no class is known."""
    exchangeable = [f.capabilities.exchangeable for f in (observation.labels, observation.raters)]
    return all(exchangeable) and bool((observation.gold < 0).all())


def compilable(plan: Plan) -> bool:
    """Return whether chains can be compiled: see ``SweepKernels`` and CONTRIBUTING."""
    observation = plan.observation
    if type(observation) is not ResponseModel or not plan.is_fully_conjugate:
        return False
    if _compiled_chain(observation, plan.pools) is not None:
        return True
    shared = {pool.pool.parameter for pool in plan.pools if type(pool.pool) is SharedMean}
    return (
        not plan.constants
        and len(shared) == len(plan.pools) <= 1
        and shared <= set(observation.raters.parameters)
        and set(plan.blocks) == set(observation.names)
        and all(type(b.prior) is Dirichlet or n in shared for n, b in plan.blocks.items())
        and _functions(observation) is not None
    )


def _compiled_chain(
    observation: ResponseModel, pools: tuple[PooledBlock, ...]
) -> Callable[..., Any] | None:
    raters, above = observation.raters, {pool.pool.parameter: pool.pool for pool in pools}
    if not raters.capabilities.own_chain:
        return None
    return raters.compiled_chain(
        observation.labels, observation.table, observation.rater_structure, above
    )


def _functions(observation: ResponseModel) -> tuple[SweepKernels, SweepKernels] | None:
    """Return the functions of both factors, None if one has none."""
    labels, raters = (f.capabilities.compiled for f in (observation.labels, observation.raters))
    return None if labels is None or raters is None else (labels, raters)


def run(chains: list[Any], cores: int, progress: Callable[[int], None]) -> None:
    """Advance chains on ``cores`` threads (one: this thread) until complete or interrupted."""
    with suppress(KeyboardInterrupt):
        if cores == 1:
            while going := [chain for chain in chains if not chain.complete]:
                for chain in going:
                    check()
                    before = chain.done
                    chain.advance(SLICE)
                    progress(chain.done - before)
            return
        check()
        if isinstance(chains[0], CompiledChain):  # only here does Ctrl-C end compilation
            chains[0].advance(SLICE)
            progress(chains[0].done)
        with ThreadPoolExecutor(cores, thread_name_prefix="bayesfuse") as pool:
            advance = {chain: limited(chain.advance) for chain in chains}
            # the number of draws before a slice is read before its thread starts
            going = [(chain, chain.done) for chain in chains if not chain.complete]
            running = {pool.submit(advance[one[0]], SLICE): one for one in going}
            try:
                while running:
                    check()
                    for future in wait(running, EVERY, FIRST_COMPLETED).done:
                        chain, before = running.pop(future)
                        future.result()
                        progress(chain.done - before)
                        if not chain.complete:
                            running[pool.submit(advance[chain], SLICE)] = chain, chain.done
            except BaseException:
                for chain in chains:
                    chain.stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise
