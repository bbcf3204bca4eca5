"""Fit models within the time given: how many draws fit into it, the outcomes, and progress."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import xarray as xr

from bayesfuse.ensemble.candidates import Candidate, Inputs
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.inference import variational
from bayesfuse.inference.mcmc import sweep_cost, sweeps_of_draw
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.sample import sample
from bayesfuse.numerics.threads import Interruption, TimeIsUp, check, deadline, extension
from bayesfuse.pymc.model import LabelModel

CHAINS = 4
LEAST = 50  # smallest useful number of draws and of tuning steps
FIRST_CHUNK = 10  # draws, and as many tuning steps, from which the time of a step is estimated
AIM, LONG, USUAL = 4.0, 10.0, 250
"""Seconds of the draws of a fit: no more draws than in the first, and in the second unless these
are fewer than usual."""

COMPILING = 15.0  # seconds that a first fit may take longer
ERROR = 3.0  # factor by which the expected time of a step may be too large

FITS, CHECKS = 0.75, 0.85  # shares of the time after which fits and checks have ended

DRAWING = 0.75  # share of a fit's time after which its draws have ended, and labels follow
PLENTY = 60.0, 5_000  # seconds, and responses without a graph, that need no quick fits first
QUICK_DRAWS, ON_GRAPHS = 60, 4  # draws of a quick fit, fewer on graphs, whose labels take long
QUICK_ITERATIONS = 50
START_AT = '{{"confusion": results[{!r}]["posterior"]["confusion"].mean(("chain", "draw")).values}}'

FITTED, INTERRUPTED, COUNTED = "fitted", "interrupted", "counted"
NO_TIME, NOT_TRIED = "no time was left", "not tried"
"""Outcomes: enough draws; ended by the user; nothing to fit; not fitted, after an interruption."""

EVERY = 10.0  # seconds between lines
FEW = 0.05  # share of the steps from which the time left is told


class Size(NamedTuple):
    """Length of a fit: draws kept and tuning steps of each of four chains."""

    draws: int
    tune: int


class Finding(NamedTuple):
    """Verdict of a check, and the call that repeats it, of ``result`` and ``model``."""

    words: str
    call: str = ""


@dataclass
class Fit:
    """A model that was tried, and its outcome."""

    candidate: Candidate
    model: LabelModel | None = None  # built when it is tried
    outcome: str = NO_TIME
    size: Size | None = None
    code: str = ""  # of a quick fit, as a user would write it
    seconds: float = 0.0
    cut: bool = False  # by the user, perhaps after enough draws
    result: xr.DataTree = field(default_factory=xr.DataTree)
    checks: list[Finding] = field(default_factory=list)

    @property
    def n_draws(self) -> int:
        """Number of draws kept, of all chains."""
        sizes = self.result["posterior"].sizes if self.done else {"chain": 0, "draw": 0}
        return sizes["chain"] * sizes["draw"]

    @property
    def done(self) -> bool:
        """Whether it has enough draws."""
        return self.outcome == FITTED


class Schedule:
    """The remaining seconds of some minutes, of which a part is kept for checks and the answer."""

    def __init__(self, minutes: float, checks: bool = True) -> None:
        self.seconds = 60.0 * minutes
        self._fits = FITS if checks else CHECKS
        self._began = time.monotonic()
        self.interrupted = False  # the answer follows at once, without what may be left out

    def is_plenty(self, inputs: Inputs) -> bool:
        """Return whether models can be sampled for sure."""
        seconds, most = PLENTY
        small = inputs.graph is None and inputs.responses.n_responses <= most
        return small and self.seconds >= seconds

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

    def size(self, fit: Fit, seed: int, fits_left: int) -> Size | None:
        """Return the length of a fit, None if too little time is left.

        The time of a step is measured in a short run, unless the sizes of the data alone show that
        there is no time. The remaining fits share the remaining time; one that needs more than its
        share may take all, because the first models are the most important.
        """
        model: Any = fit.model
        draws, tune = fit.candidate.sweeps
        plan = make_plan(model)
        step = sweep_cost(plan) * sweeps_of_draw(plan) * CHAINS
        most = max(int(AIM / step), min(int(LONG / step), USUAL), LEAST)
        enough = Size(min(draws, most), min(tune, most))
        # gradients are compiled in every call
        if self.left() <= step * 2 * LEAST / ERROR + (
            0.0 if plan.is_fully_conjugate else COMPILING
        ):
            return None
        if self.left() / fits_left > step * sum(enough) * ERROR + COMPILING:
            return enough
        for _ in range(2 if plan.is_fully_conjugate else 1):  # the first may have compiled kernels
            room, most_room = self._room(model, seed, fits_left)
            if room >= sum(enough):
                return enough
        half = int(max(room, 2 * LEAST) / 2)
        return None if most_room < 2 * LEAST else Size(half, half)

    def _room(self, model: LabelModel, seed: int, fits_left: int) -> tuple[float, float]:
        """Return the steps of every chain that fit into a share of the time left, and into all."""
        began = time.monotonic()
        options: dict[str, Any] = {"log_likelihood": False, "progressbar": False, "quiet": True}
        pilot = sample(model, FIRST_CHUNK, tune=FIRST_CHUNK, chains=1, random_seed=seed, **options)
        took = time.monotonic() - began
        check()
        if pilot["posterior"].sizes["draw"] < FIRST_CHUNK:  # as an interrupted sample returns
            raise KeyboardInterrupt
        steps = float(pilot["posterior"].attrs.get("sampling_time", took))
        fixed, per_draw = max(took - steps, 0.0), CHAINS * steps / (2 * FIRST_CHUNK)
        # computations after the draws, such as label probabilities, take about a third as long
        share, alone = ((self.left() / n - fixed) / (1.3 * per_draw) for n in (fits_left, 1))
        return share, alone


class Progress:
    """A bar of rich for all models; where stderr is no terminal, a line every ten seconds.

    Both are on stderr, so that a script's own output stays clean.
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
            known = done >= FEW * steps  # the first steps may compile
            self._line(f"{what}: {done / steps:.0%}{f', about {left:.0f} s left' if known else ''}")

        return advance

    def _line(self, words: str) -> None:
        if self._has_lines and time.monotonic() - self._last_line >= EVERY:
            self._last_line = time.monotonic()
            with suppress(OSError):  # nobody reads it
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


def fit_quickly(
    fits: list[Fit], inputs: Inputs, schedule: Schedule, seed: int, progress: Progress
) -> None:
    """Approximate models in seconds, the simplest first, until the time of fits ends.

    The later ones begin with the raters of the first.
    """
    start_values: dict[str, Any] = {}
    for at in fits:
        progress.say(f"approximating: {at.candidate.name}")
        before = schedule.used()
        settings: dict[str, Any] = {
            "draws": QUICK_DRAWS if inputs.graph is None else ON_GRAPHS,
            "iterations": QUICK_ITERATIONS,
            "tolerance": 1e-5,
            "random_seed": seed,
        }
        start: Any = start_values or "majority"
        if at.candidate.start != "begun":
            start = at.candidate.start
        try:
            with deadline(schedule.left()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the answer says that it is approximate
                at.model = at.candidate.build(inputs)
                at.result = variational.fit(
                    at.model, "cavi", start=start, progressbar=False, **settings
                )
            at.outcome = FITTED
            rows = at.result["posterior"].dataset
            if not start_values and "confusion" in rows:
                start_values = {"confusion": rows["confusion"].mean(("chain", "draw")).values}
            shown = (
                repr(start) if isinstance(start, str) else START_AT.format(fits[0].candidate.name)
            )
            settings_code = [f"{name}={value!r}" for name, value in settings.items()]
            at.code = ", ".join(["'cavi'", f"start={shown}", *settings_code])
        except TimeIsUp:
            pass
        except KeyboardInterrupt:
            at.outcome = INTERRUPTED
            break
        except (ImpossibleDataError, ModelError) as error:
            at.outcome = str(error)
        finally:
            at.seconds = schedule.used() - before


def sample_all(
    fits: list[Fit],
    inputs: Inputs,
    schedule: Schedule,
    seed: int,
    progress: Progress,
    interruption: Interruption,
) -> None:
    """Fit one model after the other while there is time."""
    options: dict[str, Any] = {"precision": "single", "quiet": True}
    # the sort is stable: the most important first
    for number, fit in enumerate(sorted(fits, key=lambda fit: fit.candidate.tabulates)):
        if interruption.requested:  # when the model before was complete
            fit.outcome = INTERRUPTED
            break
        progress.say(f"trying: {fit.candidate.name}")
        before, left = schedule.used(), schedule.left()
        if left < 0.0:
            continue
        try:
            with deadline(left):
                fit.model = fit.model or fit.candidate.build(inputs)
                fit.size = size = schedule.size(fit, seed, len(fits) - number)
                if size is None:
                    continue
                until = schedule.used() + DRAWING * schedule.left()
                count = progress.count(
                    f"fitting: {fit.candidate.name}", CHAINS * (size.draws + size.tune)
                )
                result = sample(
                    fit.model,
                    size.draws,
                    tune=size.tune,
                    chains=CHAINS,
                    start=fit.candidate.start,
                    random_seed=seed,
                    progressbar=partial(_advance, count, schedule, until),
                    **options,
                )
        except ImpossibleDataError as error:
            fit.outcome = str(error)
            continue
        except TimeIsUp:
            continue
        except KeyboardInterrupt:
            fit.outcome = INTERRUPTED
            break
        finally:
            fit.seconds = schedule.used() - before
        sizes, n_stored = result["posterior"].sizes, size.draws // result.attrs["thin"]
        few = sizes["chain"] < CHAINS or sizes["draw"] < min(LEAST, n_stored)
        if few or "label_posterior" not in result.children:
            if not interruption.requested and schedule.left() <= 0.0:
                continue
            fit.outcome = INTERRUPTED
            break
        fit.size = Size(sizes["draw"] * result.attrs["thin"], size.tune)
        fit.cut = sizes["draw"] < n_stored and schedule.left() > 0.0
        fit.result, fit.outcome = result, FITTED
        if fit.cut:  # the draws until then are enough
            break


def _advance(count: Callable[[int], None], schedule: Schedule, until: float, made: int) -> None:
    count(made)
    if schedule.used() > until:
        raise TimeIsUp


def was_interrupted(fits: list[Fit]) -> int:
    """Return 1 if the user interrupted a fit, else 0."""
    return int(any(fit.cut or fit.outcome == INTERRUPTED for fit in fits))
