"""Real parameters: log-odds, effects, difficulties."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.parameters.contract import Support


class Real(Support):
    """Finite numbers, usually an expression of a model's variables.

    Without a conditional distribution in closed form; NUTS, ADVI and the gradient steps of EM
    update the variables on which they depend.
    """

    counts = False

    def require(self, name: str, value: Any) -> None:
        given = require_numbers(name, value)
        if not np.isfinite(given).all():
            raise ModelError(f"{name} must be finite numbers. Got: {given.tolist()}.")


REAL = Real()
