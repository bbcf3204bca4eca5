"""Real parameters, and numbers that only a pool draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.parameters.contract import UNCHANGED, Coordinates, Support


class Real(Support):
    """Finite numbers; NUTS, ADVI and gradient steps of EM update the variables behind them."""

    counts = False

    def require(self, name: str, value: Any) -> None:
        given = require_numbers(name, value)
        if not np.isfinite(given).all():
            raise ModelError(f"{name} must be finite numbers. Got: {given.tolist()}.")


class Line(Support):
    """Numbers that only a pool draws."""

    def require(self, name: str, value: Any) -> None:
        require_numbers(name, value)

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        return UNCHANGED if model.rvs_to_transforms.get(variable) is None else None


REAL, LINE = Real(), Line()
