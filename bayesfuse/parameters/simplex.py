"""Rows of probabilities, and probabilities p for rows (p, 1 − p)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfuse.errors import require_probabilities
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import normalise
from bayesfuse.parameters.contract import Coordinates, Support
from bayesfuse.parameters.dirichlet import Dirichlet

ALMOST_ONE = 36.0  # log-odds of a probability that is not one in floating point: PyMC's densities
SMALL = np.finfo(float).tiny ** 0.5  # least probability of starting values
LEAST_LOG = float(np.log(np.finfo(float).tiny))


class RowSupport(Support):
    """Values that kernels take as log rows: Dirichlet and Beta priors are conjugate."""

    def concentration(self, variable: Any) -> Any:
        """Return the graph of the concentrations, broadcast to all entries of the rows."""
        import pytensor.tensor as pt

        from bayesfuse.parameters.compiled import shape_of

        arguments, shape = variable.owner.op.dist_params(variable.owner), shape_of(variable)
        if len(arguments) == 1:
            return pt.alloc(arguments[0], *shape)
        rows = pt.stack(pt.broadcast_arrays(*arguments), axis=-1)  # of a beta distribution
        return pt.alloc(rows, *shape, 2)

    def prior(self, variable: Any) -> Dirichlet:
        return Dirichlet(np.asarray(self.concentration(variable).eval(), dtype=float))

    def varying(self, model: Any, variable: Any) -> Callable[[Mapping[str, Array]], Dirichlet]:
        from bayesfuse.parameters.compiled import value_function

        function = value_function(model, {"concentration": self.concentration(variable)})
        return lambda point: Dirichlet(function(point)["concentration"])


class Simplex(RowSupport):
    """Rows of probabilities that sum to one; kernels take their logarithms."""

    def require(self, name: str, value: Any) -> None:
        require_probabilities(name, value, rows=True)

    def to_kernel(self, value: Any, xp: Any = np) -> Any:
        return xp.log(value)

    def from_kernel(self, value: Array) -> Array:
        return np.exp(value)

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        from pymc.distributions.transforms import SimplexTransform
        from pytensor.tensor.random.basic import DirichletRV

        from bayesfuse.parameters.compiled import depends
        from bayesfuse.parameters.variables import LogRatio, SparseDirichletRV, mixture_of

        if not isinstance(variable.owner.op, DirichletRV | SparseDirichletRV):
            # of mixtures only those with fixed shares and components are updated
            if depends(model, variable.owner.inputs) or mixture_of(variable) is None:
                return None
        transform = model.rvs_to_transforms.get(variable)
        if isinstance(transform, LogRatio):
            return LogRatios(transform)
        return CentredLogs() if isinstance(transform, SimplexTransform) else None

    def prior(self, variable: Any) -> Dirichlet:
        from bayesfuse.parameters.variables import mixture_of

        mixture = mixture_of(variable)
        return super().prior(variable) if mixture is None else mixture


class Probability(RowSupport):
    """Probabilities p; kernels take them as log rows (p, 1 − p)."""

    def require(self, name: str, value: Any) -> None:
        require_probabilities(name, value)

    def to_kernel(self, value: Any, xp: Any = np) -> Any:
        return xp.stack([xp.log(value), xp.log1p(-value)], axis=-1)

    def from_kernel(self, value: Array) -> Array:
        return np.exp(value[..., 0])

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        from pymc.distributions.transforms import LogOddsTransform
        from pytensor.tensor.random.basic import BetaRV

        known = isinstance(model.rvs_to_transforms.get(variable), LogOddsTransform)
        return LogOdds() if known and isinstance(variable.owner.op, BetaRV) else None


class CentredLogs(Coordinates):
    """Log rows and PyMC's coordinates: centred logarithms without the last."""

    def read(self, value: Array) -> Array:
        return normalise(np.concatenate([value, -value.sum(axis=-1, keepdims=True)], axis=-1))

    def write(self, value: Array) -> Array:
        value = np.maximum(value, LEAST_LOG)  # modes may be on the boundary
        mean = value.sum(axis=-1, keepdims=True) / value.shape[-1]  # .mean() takes twice as long
        return value[..., :-1] - mean

    def natural(self, value: Array) -> Array:
        rows = np.clip(np.exp(value), SMALL, None)
        return rows / rows.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class LogRatios(Coordinates):
    """Log rows and the coordinates of ``bf.build.dirichlet``."""

    transform: Any

    def read(self, value: Array) -> Array:
        return self.transform.to_log(value)

    def write(self, value: Array) -> Array:
        return self.transform.from_log(np.maximum(value, LEAST_LOG))  # as above

    def natural(self, value: Array) -> Array:
        rows = np.where(self.transform.allowed, np.clip(np.exp(value), SMALL, None), 0.0)
        return rows / rows.sum(axis=-1, keepdims=True)


class LogOdds(Coordinates):
    """Log rows (p, 1 − p) and log odds."""

    def read(self, value: Array) -> Array:  # log p = −log(1 + exp(−value))
        return -np.logaddexp(0.0, np.stack([-value, value], axis=-1))

    def write(self, value: Array) -> Array:
        return np.minimum(value[..., 0] - value[..., 1], ALMOST_ONE)

    def natural(self, value: Array) -> Array:
        return np.clip(np.exp(value[..., 0]), SMALL, 1 - np.finfo(float).epsneg)


SIMPLEX, PROBABILITY = Simplex(), Probability()
