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


@dataclass
class Fit:
    """A model that was tried, and what came of it."""

    candidate: Candidate
    model: LabelModel
    outcome: str = "no time was left"
    size: Size | None = None
    seconds: float = 0.0
    result: xr.DataTree = field(default_factory=xr.DataTree)
    checks: list[Finding] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has enough draws."""
        return self.outcome == FITTED
