"""A model that was tried, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import xarray as xr

from bayesfuse.answer.budget import Size
from bayesfuse.answer.candidates import Candidate
from bayesfuse.answer.findings import Finding
from bayesfuse.pymc.model import LabelModel

FITTED, INTERRUPTED, COUNTED = "fitted", "interrupted", "counted"
"""Outcomes: enough draws; ended by the user; nothing to fit."""

NO_TIME, NOT_TRIED = "no time was left", "not tried"
"""Outcomes of what was not fitted: for want of time, or after an interruption."""


@dataclass
class Fit:
    """A model that was tried, and what came of it."""

    candidate: Candidate
    model: LabelModel
    outcome: str = NO_TIME
    size: Size | None = None
    seconds: float = 0.0
    result: xr.DataTree = field(default_factory=xr.DataTree)
    checks: list[Finding] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has enough draws."""
        return self.outcome == FITTED
