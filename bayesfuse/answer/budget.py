"""How many draws fit into the time that is left."""

from __future__ import annotations

import time
from dataclasses import dataclass

import bayesfuse as bf
from bayesfuse.inference.by_gibbs import sweep_cost
from bayesfuse.inference.plan import make_plan
from bayesfuse.pymc.model import LabelModel

DRAWS, TUNE, CHAINS = 250, 200, 4
"""Draws of a fit that has enough time."""

LEAST = 50
"""Draws and tuning steps below which a fit tells too little."""

PILOT = 10
"""Draws, and as many tuning steps, that tell how long a step takes."""

ERROR = 3.0
"""By which factor the expected time of a step may be too large."""


@dataclass(frozen=True)
class Size:
    """How long a fit may be: draws kept and tuning steps of each of four chains."""

    draws: int
    tune: int

    def code(self) -> str:
        """Return the arguments of ``bf.sample``."""
        return f"draws={self.draws}, tune={self.tune}, chains={CHAINS}"


class Budget:
    """The seconds that are left of some minutes."""

    def __init__(self, minutes: float) -> None:
        self.seconds = 60.0 * minutes
        self._began = time.monotonic()

    def used(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._began

    def left(self) -> float:
        """Return the seconds that are left, zero or less when there are none."""
        return self.seconds - self.used()

    def size(self, model: LabelModel, seed: int, fits_left: int) -> Size | None:
        """Return how long the fit of a model may be, None if too little time is left.

        A short run tells how long a step takes, unless the sizes alone say that there is no time;
        what is left is shared by the fits that are left.
        """
        expected = sweep_cost(make_plan(model)) * CHAINS * 2 * LEAST
        if self.left() / fits_left <= expected / ERROR:
            return None
        room = self._room(model, seed, fits_left)
        if room < DRAWS + TUNE:  # the first run may have compiled kernels
            room = self._room(model, seed, fits_left)
        if room >= DRAWS + TUNE:
            return Size(DRAWS, TUNE)
        if room < 2 * LEAST:
            return None
        return Size(int(room / 2), int(room / 2))

    def _room(self, model: LabelModel, seed: int, fits_left: int) -> float:
        """Return how many steps of every chain fit into a share of the time left."""
        began = time.monotonic()
        pilot = bf.sample(
            model,
            PILOT,
            tune=PILOT,
            chains=1,
            random_seed=seed,
            log_likelihood=False,
            progressbar=False,
            quiet=True,
        )
        took = time.monotonic() - began
        # interrupted, bf.sample returns what was drawn and worked out
        if pilot["posterior"].sizes["draw"] < PILOT or "missing" in pilot.attrs:
            raise KeyboardInterrupt
        steps = float(pilot["posterior"].attrs.get("sampling_time", took))
        fixed, each = max(took - steps, 0.0), CHAINS * steps / (2 * PILOT)
        # what follows the draws, such as label probabilities, takes about a third as long
        return (self.left() / fits_left - fixed) / (1.3 * each)
