"""Gibbs chains side by side on threads, until they are complete or interrupted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

import numpy as np
from pymc.progress_bar import ProgressBarManager

from bayesfuse.inference.gibbs import State, Sweep, step
from bayesfuse.numerics.threads import interruptible
from bayesfuse.observation import Rows

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
        self.kept = {n: np.empty((draws, *row.shape), row.dtype) for n, row in rows.items()}
        if tune == 0:
            self.state = state.tuned()

    @property
    def n_kept(self) -> int:
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

    watch: Callable[[Rows, Any], None] | None = None

    def advance(self, seconds: float) -> None:
        """Make draws by steps in Python."""
        until = time.perf_counter() + seconds
        while not self.complete:
            state = self.state
            with interruptible:
                for _ in range(self.sweeps):
                    if self.stopped:
                        return
                    state = step(self.sweep, state, self.rng)
                if self.done >= self.tune:
                    at = self.done - self.tune
                    for name, draws in self.kept.items():
                        draws[at] = state.rows[name]
                    if self.watch is not None:
                        self.watch(state.rows, state.labels)
            self.done += 1
            self.state = state.tuned() if self.done == self.tune else state
            if time.perf_counter() > until:
                return


def run(chains: list[Any], cores: int, progress: Callable[[int, int, bool], None]) -> None:
    """Advance chains on ``cores`` threads (one: this thread) until complete or interrupted."""
    with suppress(KeyboardInterrupt):
        if cores == 1:
            while going := [each for each in enumerate(chains) if not each[1].complete]:
                for number, chain in going:
                    before = chain.done
                    chain.advance(SLICE)
                    progress(number, chain.done - before, chain.complete)
            return
        with ThreadPoolExecutor(cores, thread_name_prefix="bayesfuse") as pool:
            running = {pool.submit(chain.advance, SLICE): (n, 0) for n, chain in enumerate(chains)}
            try:
                while running:
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        number, before = running.pop(future)
                        future.result()
                        chain = chains[number]
                        progress(number, chain.done - before, chain.complete)
                        if not chain.complete:
                            running[pool.submit(chain.advance, SLICE)] = number, chain.done
            except BaseException:
                for chain in chains:
                    chain.stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class ProgressBar(ProgressBarManager):
    """PyMC's progress bar, of draws by chain or of all together."""

    step_name = "Draw"

    def __init__(self, n_chains: int, n_draws: int, shown: Any, theme: Any = None) -> None:
        super().__init__(n_chains, shown, theme)
        total = n_draws * (n_chains if self.combined_progress else 1)
        self._done, self._total = [0] * n_chains, total
        self._backend = self._create_backend(total, [], {"draw": [0] * self.n_bars})

    def update(self, chain: int, advance: int, complete: bool) -> None:
        """Show that a chain has made more draws."""
        self._done[chain] += advance
        complete = sum(self._done) == self._total if self.combined_progress else complete
        bar = 0 if self.combined_progress else chain
        stats = {"draw": sum(self._done) if self.combined_progress else self._done[chain]}
        self._backend.update(bar, advance, failing=False, stats=stats, is_last=complete)
