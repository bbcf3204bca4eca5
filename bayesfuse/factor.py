"""What label priors and rater channels have in common: parameters that are simplex rows."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from bayesfuse.errors import ModelError
from bayesfuse.responses import Responses
from bayesfuse.simplex import ROWLESS, Kind, log_rows

CLOSE = 1e-6
"""The sum of a row of probabilities may be this far from one, as printed numbers are."""


class Factor(ABC):
    """One of the two factors of a label model: named parameters over a fixed structure.

    Every parameter is a set of simplex rows: a tensor whose last axis sums to one or, where
    ``kinds`` says "probability", numbers p that stand for rows (p, 1 − p). That is what makes
    Dirichlet and Beta priors conjugate in every model, and all that EM and Gibbs need to know.
    The kinds "index" and "positive" are the exceptions.
    """

    kinds: ClassVar[dict[str, Kind]] = {}
    """Parameters that are not simplex rows themselves."""

    parameters: dict[str, Any]
    """Name to value (a tensor or an array), in the order of the kernels' arguments."""

    @abstractmethod
    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        """Raise ModelError if a parameter's shape does not fit the responses."""

    def kind(self, name: str) -> Kind:
        """Say what the parameter ``name`` holds."""
        return self.kinds.get(name, "simplex")

    def log_rows(self, values: Mapping[str, Any], xp: Any = np) -> dict[str, Any]:
        """Return the log rows of all parameters from their values."""
        return {name: log_rows(values[name], self.kind(name), xp) for name in self.parameters}

    @property
    def indices(self) -> tuple[str, ...]:
        """Names of the parameters that are whole numbers and not rows."""
        return tuple(name for name in self.parameters if self.kind(name) == "index")

    @property
    def positives(self) -> tuple[str, ...]:
        """Names of the parameters that are positive numbers and not rows."""
        return tuple(name for name in self.parameters if self.kind(name) == "positive")

    def bare(self) -> Self:
        """Return a copy that holds structure only: small, and safe to send to other processes."""
        other = copy.copy(self)
        other.parameters = dict.fromkeys(self.parameters)
        return other


def require_rows(name: str, value: Any, kind: Kind) -> None:
    """Raise ModelError unless a known parameter holds probabilities, rows of which sum to one."""
    if kind in ROWLESS:
        return
    given = np.asarray(value)
    sound = (given >= 0) & (given <= 1)
    if kind == "simplex":
        sound &= np.abs(given.sum(axis=-1, keepdims=True) - 1) < CLOSE
    if not sound.all():
        rule = "rows of probabilities that sum to one" if kind == "simplex" else "probabilities"
        row = given[~sound.all(axis=-1)][0] if given.ndim > 1 else given
        raise ModelError(
            f"{name} must hold {rule}, else nothing that follows is a probability. Got: "
            f"{row.tolist()}."
        )
