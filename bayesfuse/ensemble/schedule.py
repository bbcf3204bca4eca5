"""The time of ``bf.fuse``: how it is divided, how many draws fit into it, and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from bayesfuse.inference.mcmc import sweep_cost, sweeps_of_draw
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.sample import sample
from bayesfuse.numerics.threads import TimeIsUp, check, extension
from bayesfuse.observation.model import LabelModel

CHAINS = 4
MIN_DRAWS = 50  # smallest useful number of draws and of tuning steps
FIRST_CHUNK = 10  # draws, and as many tuning steps, from which the time of a step is estimated
AIM, LONG, USUAL = 4.0, 10.0, 250
"""A fit has as many draws as take ``AIM`` seconds or, if these are fewer than usual, as many as
take ``LONG`` seconds, up to the usual number."""

COMPILING = 15.0  # seconds that a first fit may take longer
ERROR = 3.0  # factor by which the expected time of a step may be too large

FITS, CHECKS = 0.75, 0.85  # shares of the time after which fits and checks have ended
DRAWING = 0.75  # share of a fit's time after which its draws have ended, and labels follow
PLENTY = 60.0, 5_000  # seconds, and responses without a graph, that need no approximation first

MAX_LABELS = 4_000_000  # responses × draws for whose labels a second or two is spent

SECONDS_BETWEEN_LINES = 10.0
MIN_SHARE = 0.05  # of the steps, from which the time left is estimated


def draws_of_large(most: int, least: int, n_responses: int) -> int:
    """Return how many draws are worth their time: posteriors of large tables are narrow."""
    return int(np.clip(MAX_LABELS / max(n_responses, 1), least, most))


class Size(NamedTuple):
    """Length of a fit: draws kept and tuning steps of each of four chains."""

    draws: int
    tune: int


class Schedule:
    """A time limit, part of which is reserved for checks and the answer."""

    def __init__(self, minutes: float, checks: bool = True, draws: int = 0) -> None:
        self.seconds = 60.0 * minutes
        self._requested = draws  # of every chain, by the user
        self._fits = FITS if checks else CHECKS
        self._began = time.monotonic()
        self.interrupted = False  # the answer follows at once, without what may be left out

    def is_plenty(self, n_responses: int | None) -> bool:
        """Return whether models of so many responses can be sampled for sure; None on a graph."""
        seconds, most = PLENTY
        return n_responses is not None and n_responses <= most and self.seconds >= seconds

    def used(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def left(self, share: float = 1.0) -> float:
        """Return the remaining seconds of a share of the fits, zero or less if there are none."""
        return share * self._fits * self.seconds - self.used()

    def timed(self, work: Callable[[], Any], share: float | None = None) -> Any:
        """Return the outcome of optional work, None if the time or Ctrl-C has ended it."""
        if self.interrupted:
            return None
        try:
            with extension((CHECKS if share is None else share) * self.seconds - self.used()):
                return work() if check() else None
        except TimeIsUp:
            return None
        except KeyboardInterrupt:
            self.interrupted = True
            return None

    def size(self, model: LabelModel, most: Size, seed: int, fits_left: int) -> Size | None:
        """Return the length of a fit, at most this, None if too little time is left.

        The time of a step is measured in a short run, unless the sizes of the data alone show that
        there is no time. The remaining fits share the remaining time; one that needs more than its
        share may take all, because the first models are the most important.
        """
        plan = make_plan(model)
        step = sweep_cost(plan) * sweeps_of_draw(plan) * CHAINS
        useful = max(int(AIM / step), min(int(LONG / step), USUAL), MIN_DRAWS, self._requested)
        enough = Size(min(most.draws, useful), min(most.tune, useful))
        # gradients are compiled in every call
        compiling = 0.0 if plan.is_fully_conjugate else COMPILING
        if self.left() <= step * 2 * MIN_DRAWS / ERROR + compiling:
            return None
        if self.left() / fits_left > step * sum(enough) * ERROR + COMPILING:
            return enough
        for _ in range(2 if plan.is_fully_conjugate else 1):  # the first may have compiled kernels
            room, most_room = self._room(model, seed, fits_left)
            if room >= sum(enough):
                return enough
        half = int(max(room, 2 * MIN_DRAWS) / 2)
        return None if most_room < 2 * MIN_DRAWS else Size(half, half)

    def _room(self, model: LabelModel, seed: int, fits_left: int) -> tuple[float, float]:
        """Return the steps of every chain that fit into a share of the time left, and into all."""
        began = time.monotonic()
        options: dict[str, Any] = {"log_likelihood": False, "progressbar": False, "quiet": True}
        chunk = sample(model, FIRST_CHUNK, tune=FIRST_CHUNK, chains=1, random_seed=seed, **options)
        took = time.monotonic() - began
        check()
        if chunk["posterior"].sizes["draw"] < FIRST_CHUNK:  # as an interrupted sample returns
            raise KeyboardInterrupt
        steps = float(chunk["posterior"].attrs.get("sampling_time", took))
        fixed, per_draw = max(took - steps, 0.0), CHAINS * steps / (2 * FIRST_CHUNK)
        # computations after the draws, such as label probabilities, take about a third as long
        share, alone = ((self.left() / n - fixed) / (1.3 * per_draw) for n in (fits_left, 1))
        return share, alone


class Progress:
    """A bar of rich for all models; where stderr is no terminal, a line every ten seconds.

    Both are on stderr, so that the output of a script stays clean.
    """

    def __init__(self, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        is_live = console.is_terminal or console.is_jupyter
        self._has_lines = shown and not is_live and sys.stderr is not None  # it may be closed
        self._bar = Bar(console=console, disable=not (shown and is_live), transient=True)
        self._task = self._bar.add_task("", total=None)
        self._last_line, self._has_announced = time.monotonic(), False

    def say(self, what: str) -> None:
        """Show a task of unknown length."""
        self._bar.update(self._task, description=what, total=None, completed=0)
        self._line(what)

    def count(self, what: str, steps: int) -> Callable[[int], None]:
        """Show a task, and return a function to be called with the number of steps made."""
        self._bar.reset(self._task, total=steps, description=what)
        began, done = time.monotonic(), 0

        def advance(made: int) -> None:
            nonlocal done
            done += made
            self._bar.advance(self._task, made)
            left = (time.monotonic() - began) * (steps - done) / max(done, 1)
            line = f"{what}: {done / steps:.0%}"
            if done >= MIN_SHARE * steps:  # the first steps may compile
                line += f", about {left:.0f} s left"
            self._line(line)

        return advance

    def _line(self, words: str) -> None:
        if self._has_lines and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            with suppress(OSError):  # a closed pipe
                print(words, file=sys.stderr, flush=True)
                self._has_announced = True

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._has_announced and kind is None:
            print("done", file=sys.stderr, flush=True)
        if not self._bar.disable:  # or rich before 15 ends an empty bar by a line
            self._bar.stop()
