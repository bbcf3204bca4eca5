"""Gibbs chains side by side on threads, until they are complete or interrupted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import numpy as np

from bayesfuse.inference.gibbs import State, Sweep, min_angle, step
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.chains import ACCEPTED, ROTATES, TRIED, chain_of
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import EVERY, check, limited
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.parameters.capabilities import SweepKernels
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.factor import Factor
from bayesfuse.parameters.pool import SharedMean

SLICE = 0.05  # seconds a chain runs before other chains and the progress bar have their turn

Watch = Callable[[LogParameters, Any], None]  # takes parameters and labels of a stored draw


class Chain:
    """Stored draws of a chain: (draws, …) by parameter, in kernel coordinates.

    A draw is the state after ``sweeps`` sweeps of a backend, compiled or interpreted.
    """

    def __init__(
        self,
        sweep: Sweep,
        state: State,
        rng: np.random.Generator,
        *,
        tune: int,
        draws: int,
        sweeps: int,
        compiled: bool,
        watch: Watch | None = None,
        sums: tuple[Any, ...] = (),
    ) -> None:
        self.tune, self.draws, self.sweeps = tune, draws, sweeps
        self.done, self.stopped = 0, False
        names = [*sweep.drawn]
        names += [block.parameter for pooled in sweep.pools for block in pooled.members.values()]
        rows: Mapping[str, Any] = {name: np.asarray(state.rows[name]) for name in names}
        self.stored = {n: np.empty((draws, *row.shape), row.dtype) for n, row in rows.items()}
        self.backend: CompiledSweeps | InterpretedSweeps
        if compiled:
            self.backend = CompiledSweeps(sweep, state, rng, self.stored, sums)
        else:
            self.backend = InterpretedSweeps(sweep, state, rng, self.stored, watch)

    @property
    def n_stored(self) -> int:
        """Number of draws after tuning."""
        return max(self.done - self.tune, 0)

    @property
    def complete(self) -> bool:
        """Whether all draws have been made."""
        return self.done == self.tune + self.draws

    def advance(self, seconds: float) -> None:
        """Make at least one more draw, and as many as take about so long."""
        until = time.perf_counter() + seconds
        while not (self.complete or self.stopped):
            is_tuning = self.done < self.tune
            left = (self.tune if is_tuning else self.tune + self.draws) - self.done
            number = min(self.backend.n_draws_in(until - time.perf_counter()), left)
            self.backend.run(number, self.sweeps, -1 if is_tuning else self.done - self.tune)
            self.done += number
            if is_tuning and self.done == self.tune:
                self.backend.end_tuning()
            if time.perf_counter() > until:
                return


class InterpretedSweeps:
    """Sweeps by :func:`bayesfuse.inference.gibbs.step`, for any model."""

    def __init__(
        self, sweep: Sweep, state: State, rng: Any, stored: dict[str, Array], watch: Watch | None
    ) -> None:
        self.sweep, self.state, self.rng = sweep, state, rng
        self.stored, self.watch = stored, watch

    def n_draws_in(self, seconds: float) -> int:
        """Return one, so that an interruption loses no draw."""
        return 1

    def run(self, n_draws: int, n_sweeps: int, first: int) -> None:
        """Make draws, stored from ``first`` on unless negative."""
        for made in range(n_draws):
            state = self.state
            for _ in range(n_sweeps):
                state = step(self.sweep, state, self.rng)
            self.state = state
            if first >= 0:
                for name, draws in self.stored.items():
                    draws[first + made] = state.rows[name]
                if self.watch is not None:
                    self.watch(state.rows, state.labels)

    def end_tuning(self) -> None:
        """Go on without rotations if few were accepted."""
        self.state = self.state.tuned()


class CompiledSweeps:
    """Sweeps in one compiled function, put together from those of the factors or the channel's."""

    def __init__(
        self,
        sweep: Sweep,
        state: State,
        rng: Any,
        stored: dict[str, Array],
        sums: tuple[Any, ...] = (),
    ) -> None:
        self.sweep, self.state = sweep, state
        self._seconds = 0.0  # of a draw, unknown before the first one
        observation = sweep.observation
        swaps = state.rotates and swaps_classes(observation)
        self._moves = np.array([state.rotates, 0.0, 0.0, min_angle(observation), swaps, 0.0])
        self._stacked: list[_StackedRows] = []
        pools: Any = {}
        values, storage = {}, {}  # of hyperparameters, by the parameter of their pool
        for pooled in sweep.pools:
            name = pooled.pool.parameter
            pools[name] = pooled.pool
            values[name], storage[name] = pooled.values(state.rows), pooled.values(stored)
        if begin := _compiled_chain(observation, sweep.pools, sweep.priors):
            self._chain, self._arguments = begin(state.rows, stored, values, storage, rng)
            return
        functions, table = _functions(observation), observation.table
        assert functions is not None  # as `compilable` has found
        labels, raters = functions
        of_factors = (
            (observation.labels, labels, observation.label_structure),
            (observation.raters, raters, observation.rater_structure),
        )
        factors = []
        for factor, in_chain, structure in of_factors:
            part = _StackedRows(factor, in_chain, sweep, state)
            self._stacked.append(part)
            factors.append((*part.arrays, structure, part.store(stored)))
        has_copies = bool((table.multiplicity != 1).any())
        shape: Any = (table.n_items, table.n_classes) if has_copies else table.n_items
        drawn = np.zeros(shape, float if has_copies else np.int32)
        pool: Any = [p.in_chain(values[name], storage[name]) for name, p in pools.items()]
        kernels = labels.draw, labels.count, raters.likelihood, raters.count
        marginal = type(observation.labels).marginal_kernel if sums else None
        self._chain = chain_of(*kernels, marginal, pooled=bool(pools), rotates=state.rotates)
        items, pool_arrays = (table.multiplicity, table.n_classes), pool[0] if pool else ()
        self._arguments = (*factors, pool_arrays, drawn, items, self._moves, sums, rng)

    def n_draws_in(self, seconds: float) -> int:
        """Return how many draws take about so long, at least one."""
        return int(max(seconds / self._seconds, 1)) if self._seconds else 1

    def run(self, n_draws: int, n_sweeps: int, first: int) -> None:
        """Make draws, stored from ``first`` on unless negative, or raise ImpossibleDataError."""
        began = time.perf_counter()
        if self._seconds == 0.0:  # one sweep more scatters chains that begin at the same point
            self._make(1, 1, -1)
        self._make(n_draws, n_sweeps, first)
        self._seconds = (time.perf_counter() - began) / n_draws

    def end_tuning(self) -> None:
        """Go on without rotations if few were accepted."""
        tried, accepted = self._moves[[TRIED, ACCEPTED]].astype(int).tolist()
        self.state = self.state._replace(n_tried=tried, n_accepted=accepted).tuned()
        self._moves[ROTATES] = self.state.rotates

    def _make(self, n_draws: int, n_sweeps: int, first: int) -> None:
        if self._chain(n_draws, n_sweeps, first, *self._arguments) < n_draws:
            rows: LogParameters = {}
            for part in self._stacked:
                rows |= part.by_name(part.rows)
            self.sweep.observation.require_possible_at(rows)


class _StackedRows:
    """The parameters of a factor in one table (rows, columns), with priors, counts and views."""

    def __init__(self, factor: Factor, functions: SweepKernels, sweep: Sweep, state: State) -> None:
        values = {name: np.asarray(state.rows[name], dtype=float) for name in factor.parameters}
        self.shapes = {name: value.shape for name, value in values.items()}
        n_columns = next(iter(values.values())).shape[-1]
        self.rows = np.concatenate([value.reshape(-1, n_columns) for value in values.values()])
        prior, counts = np.ones_like(self.rows), np.zeros_like(self.rows)
        for name, concentration in self.by_name(prior).items():
            if name in sweep.priors:
                known: Any = sweep.priors[name]
                concentration[...] = known.concentration
        views = []
        for array in (self.rows, counts):
            by_parameter = self.by_name(array).values()
            views.append(tuple(_with_axes(view, functions.axes) for view in by_parameter))
        self.arrays = self.rows, prior, counts, *views

    def by_name(self, array: Array) -> dict[str, Array]:
        """Return views of ``array`` (…, rows, columns) for each parameter, of its shape."""
        sizes = [math.prod(shape[:-1]) for shape in self.shapes.values()]
        parts = np.split(array, np.cumsum(sizes)[:-1], axis=-2)
        shapes = zip(parts, self.shapes.items(), strict=True)
        return {name: part.reshape(*array.shape[:-2], *shape) for part, (name, shape) in shapes}

    def store(self, stored: dict[str, Array]) -> Array:
        """Return a table of draws (draws, rows, columns), of which ``stored`` gets views."""
        n_draws = len(stored[next(iter(self.shapes))])
        made = np.empty((n_draws, *self.rows.shape))
        stored |= self.by_name(made)
        return made


def adds_labels(plan: Plan, rows: LogParameters) -> bool:
    """Return whether compiled chains can add up label probabilities as they draw labels.

    The tables of the chain must be those of the kernel that sums the labels out.
    """
    observation = plan.observation
    if not compilable(plan) or _compiled_chain(observation, plan.pools, plan.priors()) is not None:
        return False
    functions = _functions(observation)
    assert functions is not None  # as `compilable` has found
    in_chain = [_with_axes(rows[n], functions[0].axes) for n in observation.labels.parameters]
    tables = observation.label_tables(rows)
    return len(tables) == len(in_chain) and all(map(np.array_equal, tables, in_chain))


def _with_axes(array: Array, n_axes: int) -> Array:
    """Return a view with at least so many axes, new ones before the last."""
    return np.expand_dims(array, tuple(range(array.ndim - 1, n_axes - 1)))


def swaps_classes(observation: ResponseModel) -> bool:
    """Return whether swapping classes leaves the likelihood as it is: no class is known."""
    exchangeable = [f.capabilities.exchangeable for f in (observation.labels, observation.raters)]
    return all(exchangeable) and bool((observation.gold < 0).all())


def compilable(plan: Plan) -> bool:
    """Return whether chains can be compiled: see ``SweepKernels`` and CONTRIBUTING."""
    observation = plan.observation
    if type(observation) is not ResponseModel or not plan.is_fully_conjugate:
        return False
    if _compiled_chain(observation, plan.pools, plan.priors()) is not None:
        return True
    if plan.constants or set(plan.blocks) != set(observation.names):
        return False
    shared = {pooled.pool.parameter for pooled in plan.pools if type(pooled.pool) is SharedMean}
    if not len(shared) == len(plan.pools) <= 1 or not shared <= set(observation.raters.parameters):
        return False
    not_dirichlet = {name for name, b in plan.blocks.items() if type(b.prior) is not Dirichlet}
    if not not_dirichlet <= shared:
        return False
    return _functions(observation) is not None


def _compiled_chain(
    observation: ResponseModel, pools: tuple[PooledBlock, ...], priors: Mapping[str, Any]
) -> Callable[..., Any] | None:
    raters, above = observation.raters, {pool.pool.parameter: pool.pool for pool in pools}
    if not raters.capabilities.own_chain:
        return None
    return raters.compiled_chain(
        observation.labels, observation.table, observation.rater_structure, above, priors
    )


def _functions(observation: ResponseModel) -> tuple[SweepKernels, SweepKernels] | None:
    """Return the functions of both factors, None if one has none."""
    labels, raters = (f.capabilities.compiled for f in (observation.labels, observation.raters))
    return None if labels is None or raters is None else (labels, raters)


def run(chains: list[Chain], cores: int, progress: Callable[[int], None]) -> None:
    """Advance chains on ``cores`` threads (one: this thread) until complete or interrupted."""
    with suppress(KeyboardInterrupt):
        if cores == 1:
            _run_in_turn(chains, progress)
        else:
            _run_on_threads(chains, cores, progress)


def _run_in_turn(chains: list[Chain], progress: Callable[[int], None]) -> None:
    while incomplete := [chain for chain in chains if not chain.complete]:
        for chain in incomplete:
            check()
            before = chain.done
            chain.advance(SLICE)
            progress(chain.done - before)


def _run_on_threads(chains: list[Chain], cores: int, progress: Callable[[int], None]) -> None:
    check()
    if isinstance(chains[0].backend, CompiledSweeps):  # only here does Ctrl-C end compilation
        chains[0].advance(SLICE)
        progress(chains[0].done)
    advance = {chain: limited(chain.advance) for chain in chains}
    with ThreadPoolExecutor(cores, thread_name_prefix="bayesfuse") as executor:
        running = {}
        # the number of draws before a slice is read before its thread starts
        for chain, before in [(chain, chain.done) for chain in chains if not chain.complete]:
            running[executor.submit(advance[chain], SLICE)] = chain, before
        try:
            while running:
                check()
                for future in wait(running, EVERY, FIRST_COMPLETED).done:
                    chain, before = running.pop(future)
                    future.result()
                    progress(chain.done - before)
                    if not chain.complete:
                        before = chain.done
                        running[executor.submit(advance[chain], SLICE)] = chain, before
        except BaseException:
            for chain in chains:
                chain.stopped = True
            executor.shutdown(wait=False, cancel_futures=True)
            raise
