"""Fit the models of an answer, one after the other, within its time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.ensemble.candidates import Selection, drafts, sample_items
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.members import Candidate
from bayesfuse.ensemble.schedule import CHAINS, DRAWING, MIN_DRAWS, Progress, Schedule, Size
from bayesfuse.errors import (
    CollapseWarning,
    LargeResultWarning,
    ModelError,
    PoorFitWarning,
    require_seed,
)
from bayesfuse.inference import variational
from bayesfuse.inference.sample import sample
from bayesfuse.numerics.threads import Interruption, TimeIsUp, deadline
from bayesfuse.observation.model import LabelModel, observed
from bayesfuse.raters.consensus import Consensus

START_AT = '{{"confusion": results[{!r}]["posterior"]["confusion"].mean(("chain", "draw")).values}}'

SHARED_START = "start"  # name of the fit of independent errors, in the code of an answer

FITTED, INTERRUPTED = "fitted", "interrupted"
NO_TIME, NOT_TRIED = "no time was left", "not tried"
"""Outcomes: enough draws; ended by the user; not fitted; the same, after an interruption."""


@dataclass(frozen=True)
class Session:
    """How a call of ``bf.fuse`` runs: time, seed, progress and Ctrl-C."""

    schedule: Schedule
    seed: int
    progress: Progress
    interruption: Interruption


@dataclass(frozen=True)
class Fit:
    """A model that was tried, and its outcome."""

    candidate: Candidate
    outcome: str = NO_TIME
    seconds: float = 0.0
    model: LabelModel | None = None
    result: xr.DataTree = field(default_factory=xr.DataTree)
    size: Size | None = None
    start: str = ""  # where it starts, as code
    settings: Mapping[str, Any] | None = None  # of a variational fit
    is_cut: bool = False  # by the user, after enough draws

    @property
    def name(self) -> str:
        """Name of the model in the answer."""
        return self.candidate.name

    @property
    def is_complete(self) -> bool:
        """Whether it has enough draws."""
        return self.outcome == FITTED

    @property
    def n_draws(self) -> int:
        """Number of draws of all chains."""
        if not self.is_complete:
            return 0
        sizes = self.result["posterior"].sizes
        return sizes["chain"] * sizes["draw"]


@dataclass(frozen=True)
class Fits:
    """All models that were tried, and the inputs that they were fitted to."""

    inputs: Inputs
    tried: list[Fit]

    @property
    def complete(self) -> list[Fit]:
        """The fits with enough draws."""
        return [fit for fit in self.tried if fit.is_complete]

    @property
    def results(self) -> dict[str, xr.DataTree]:
        """Results of the complete fits, by name."""
        return {fit.name: fit.result for fit in self.complete}

    def are_of_part(self, inputs: Inputs) -> bool:
        """Return whether models were fitted to a part of the items, and predict the others."""
        return bool(self.complete) and self.inputs.responses is not inputs.responses

    @property
    def with_types(self) -> Fit | None:
        """The first complete fit of item types, which have a difficulty."""
        for fit in self.complete:
            if isinstance(observed(fit.model)[1].raters, Consensus):
                return fit
        return None

    @property
    def n_late(self) -> int:
        """Number of models for which no time was left, approximations of others apart."""
        return sum(fit.outcome == NO_TIME and not fit.candidate.draft for fit in self.tried)

    @property
    def was_interrupted(self) -> bool:
        """Whether the user interrupted a fit."""
        return any(fit.is_cut or fit.outcome == INTERRUPTED for fit in self.tried)


def seed_as_number(random_seed: Any) -> int:
    """Return the user's seed, or a drawn one, as a number for the code of the answer."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool):
        require_seed(random_seed)
        return int(random_seed)
    return int(require_seed(random_seed).integers(2**31))


def approximate(inputs: Inputs, session: Session) -> Fits:
    """Fit models that take seconds, the simplest first, where others may take too long."""
    inputs = sample_items(inputs, session.schedule, session.seed)
    size = None if inputs.graph is not None else inputs.responses.n_responses
    fits: list[Fit] = []
    if session.schedule.is_plenty(size):
        return Fits(inputs, fits)
    planned = [c.within(None, inputs.responses.n_responses) for c in drafts(inputs)]
    for candidate in planned:
        session.progress.say(f"approximating: {candidate.name}")
        start, code = _start(candidate, fits)
        fits.append(replace(_approximate(candidate, inputs, session, start), start=code))
        if fits[-1].outcome == INTERRUPTED:
            break
    return Fits(inputs, fits + [Fit(candidate) for candidate in planned[len(fits) :]])


def _start(candidate: Candidate, fits: list[Fit]) -> tuple[Any, str]:
    """Return where a draft starts, perhaps at the first of other fits, and its code."""
    if candidate.start != "first fit":
        return candidate.start, repr(candidate.start)
    if not fits or not fits[0].is_complete:
        return "majority", "'majority'"
    rows = fits[0].result["posterior"]["confusion"].mean(("chain", "draw"))
    return {"confusion": rows.values}, START_AT.format(fits[0].name)


def _approximate(candidate: Candidate, inputs: Inputs, session: Session, start: Any) -> Fit:
    """Return a variational fit of a model."""
    schedule = session.schedule
    settings: dict[str, Any] = {**(candidate.settings or {}), "random_seed": session.seed}
    began = schedule.used()
    fit = Fit(candidate)
    try:
        with deadline(schedule.left()), warnings.catch_warnings():
            # drafts need not converge, the answer states what they are, and a check of collapsed
            # labels follows
            for category in (PoorFitWarning, CollapseWarning, LargeResultWarning):
                warnings.simplefilter("ignore", category)
            model = candidate.build(inputs)
            result = variational.fit(model, "cavi", start=start, progressbar=False, **settings)
        fit = replace(fit, outcome=FITTED, model=model, result=result, settings=settings)
    except TimeIsUp:
        pass
    except KeyboardInterrupt:
        fit = replace(fit, outcome=INTERRUPTED)
    except ModelError as error:
        fit = replace(fit, outcome=str(error))
    return replace(fit, seconds=schedule.used() - began)


def run(selection: Selection, drafts: Fits, session: Session) -> Fits:
    """Sample the models of a selection while there is time; ``drafts`` replace or rival them."""
    done = {fit.name: fit for fit in drafts.complete}
    fits = {c.name: done.get(c.name) or Fit(c) for c in selection.candidates}
    # the quickest first, then the most important, because the sort is stable
    first = selection.candidates[0]
    # a quick model of the most important side is fitted before all others
    has_quick_first = first.model == "DawidSkene"
    order = sorted(
        (c for c in selection.candidates if c.name not in done),
        key=lambda c: (c.tabulates, c is not first or not has_quick_first, c.settings is None),
    )
    for number, candidate in enumerate(order):
        fit = _fit(candidate, selection, len(order) - number, session)
        fits[candidate.name] = fit
        if fit.is_cut or fit.outcome == INTERRUPTED:
            break
    sampled = Fits(selection.inputs, list(fits.values()))
    session.schedule.interrupted = session.interruption.requested or sampled.was_interrupted
    if session.schedule.interrupted:
        outcomes = {NO_TIME: NOT_TRIED}
        tried = [replace(f, outcome=outcomes.get(f.outcome, f.outcome)) for f in sampled.tried]
        sampled = replace(sampled, tried=tried)
    n_sampled = len(sampled.complete)
    if not n_sampled:
        last = drafts.complete[-1:] or drafts.tried[:1]
        used = drafts.complete if selection.inputs.graph is not None else last
        others = [fit for fit in used if fit.name not in fits]
        return Fits(drafts.inputs, sampled.tried + others)
    of_graph = [fit for fit in sampled.tried if "graph" in fit.candidate.inputs_used]
    n_of_graph = sum(fit.is_complete for fit in of_graph)
    has_rivals = any(side.rivals for side in selection.sides)
    if of_graph and (not n_of_graph or (has_rivals and n_of_graph < len(of_graph))):
        return replace(sampled, tried=sampled.tried + drafts.complete)
    return sampled


def _fit(candidate: Candidate, selection: Selection, n_left: int, session: Session) -> Fit:
    """Return a fit of a model, the first of so many for which the time that is left is divided."""
    if session.interruption.requested:  # while the model before was completed
        return Fit(candidate, INTERRUPTED)
    if session.schedule.left() < 0.0:
        return Fit(candidate)
    start: Any = candidate.start
    code = repr(start)
    if start == "moments" and selection.start is not None:
        start, code = selection.start, SHARED_START
    if candidate.settings is not None:
        session.progress.say(f"fitting: {candidate.name}")
        fit = _approximate(candidate, selection.inputs, session, start)
    else:
        session.progress.say(f"trying: {candidate.name}")
        fit = _sample(candidate, selection.inputs, n_left, session, start)
    return replace(fit, start=code)


def _sample(candidate: Candidate, inputs: Inputs, n_left: int, session: Session, start: Any) -> Fit:
    """Return the draws of a model that fit into its part of the time."""
    schedule, fit = session.schedule, Fit(candidate)
    began, seconds = schedule.used(), schedule.left()
    try:
        with deadline(seconds), warnings.catch_warnings():
            # a mixture needs a thousand draws at most; `comparison` has their number; and a chain
            # of classes has a weight by what the order is worth
            for category in (LargeResultWarning, PoorFitWarning):
                warnings.simplefilter("ignore", category)
            model = candidate.build(inputs)
            size = schedule.size(model, Size(*candidate.sweeps), session.seed, n_left)
            if size is not None:
                count = session.progress.count(
                    f"fitting: {candidate.name}", CHAINS * (size.draws + size.tune)
                )
                until = schedule.used() + DRAWING * schedule.left()
                result = sample(
                    model,
                    size.draws,
                    tune=size.tune,
                    chains=CHAINS,
                    start=start,
                    random_seed=session.seed,
                    progressbar=partial(_advance, count, schedule, until),
                    precision="single",
                    quiet=True,
                )
                time_is_up = schedule.used() > until
                fit = replace(fit, model=model, result=result)
                fit = _judged(fit, size, time_is_up, session.interruption)
    except ModelError as error:
        fit = replace(fit, outcome=str(error))
    except TimeIsUp:
        pass
    except KeyboardInterrupt:
        fit = replace(fit, outcome=INTERRUPTED)
    return replace(fit, seconds=schedule.used() - began)


def _judged(fit: Fit, planned: Size, time_is_up: bool, interruption: Interruption) -> Fit:
    """Return a fit with its outcome: whether time or the user left it with too few draws."""
    sizes, thin = fit.result["posterior"].sizes, fit.result.attrs["thin"]
    n_stored = planned.draws // thin
    is_short = sizes["chain"] < CHAINS or sizes["draw"] < min(MIN_DRAWS, n_stored)
    if is_short or "label_posterior" not in fit.result.children:
        by_time = time_is_up and not interruption.requested
        return Fit(fit.candidate, NO_TIME if by_time else INTERRUPTED)
    size = Size(sizes["draw"] * thin, planned.tune)
    is_cut = sizes["draw"] < n_stored and not time_is_up
    return replace(fit, outcome=FITTED, size=size, is_cut=is_cut)


def _advance(count: Callable[[int], None], schedule: Schedule, until: float, made: int) -> None:
    count(made)
    if schedule.used() > until:
        raise TimeIsUp
