"""The contract of parameters: supports, coordinates in PyMC, and priors with their updates.

*Kernel coordinates* are logarithms of rows of probabilities, and values of most other parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from bayesfuse.errors import ModelError, require_no_nan, require_numbers
from bayesfuse.numerics.kernels import Array

__all__ = ["Coordinates", "Parameter", "Prior", "Role", "Support"]

Statistic = Any  # counts of the parameter's entries, or its log-likelihood as a function


class Role(Enum):
    """The meaning of a parameter, by which code finds it independently of its name.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.build.Confusion(None).named(bf.parameters.contract.Role.ANSWERS)
    'confusion'
    """

    CLASS_SHARES = "probability of every class, the same for all items"
    ANSWERS = "probability of every answer, by rater and true class"


class Prior(ABC):
    """The prior of one parameter, its hyperparameters fixed, and the updates that fits ask of it.

    Values are in kernel coordinates. The ``statistic`` is the information from the labels:
    counts of its entries, or the log-likelihood as a function of the value.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.parameters.dirichlet import Dirichlet
    >>> prior, counts = Dirichlet(np.array([2.0, 3.0])), np.array([8.0, 2.0])
    >>> np.exp(prior.maximise(counts, prior.centre())).round(3).tolist()  # 9 to 4
    [0.692, 0.308]
    """

    free = True  # whether there is anything to fit

    @abstractmethod
    def centre(self) -> Array:
        """Return a typical value."""

    @abstractmethod
    def log_density(self, value: Array) -> float:
        """Return the log density up to a constant."""

    @abstractmethod
    def maximise(self, statistic: Statistic, value: Array) -> Array:
        """Return the mode given the statistic, with a search from ``value``."""

    @abstractmethod
    def draw(self, statistic: Statistic, value: Array, rng: np.random.Generator) -> Array:
        """Draw from the conditional distribution given the statistic, or move on from ``value``."""

    def expect(self, statistic: Statistic, value: Array) -> Array:
        """Return a value to start from: the mean given the statistic where that is known."""
        return self.maximise(statistic, value)

    def interior(self, statistic: Statistic, value: Array) -> Array:
        """Return a mode moved off the boundary of the support, where it may lie there."""
        return value

    def with_mode(self) -> Prior:
        """Return the prior that modes are sought under: poles of the density count as flat."""
        return self


@dataclass(frozen=True, eq=False)
class Known(Prior):
    """The prior of a parameter that is a constant, or that fits leave where it is."""

    value: Array
    free = False

    def centre(self) -> Array:
        return self.value

    def log_density(self, value: Array) -> float:
        return 0.0

    def maximise(self, statistic: Statistic, value: Array) -> Array:
        return value

    def draw(self, statistic: Statistic, value: Array, rng: np.random.Generator) -> Array:
        return value


class Coordinates(ABC):
    """The way between kernel coordinates and those of a variable in a PyMC model.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.parameters.simplex import CentredLogs
    >>> np.exp(CentredLogs().read(CentredLogs().write(np.log([0.7, 0.3])))).round(3).tolist()
    [0.7, 0.3]
    """

    @abstractmethod
    def read(self, value: Array) -> Array:
        """Return kernel coordinates from PyMC's value, or from many along a first axis."""

    @abstractmethod
    def write(self, value: Array) -> Array:
        """Return PyMC's value from kernel coordinates."""

    @abstractmethod
    def natural(self, value: Array) -> Array:
        """Return the variable's own value, off the boundary so that PyMC can transform it."""


@dataclass(frozen=True)
class Mapped(Coordinates):
    """Kernel coordinates that are natural values, by functions to and from PyMC's value."""

    forward: Callable[[Any], Any] = np.asarray
    backward: Callable[[Any], Any] = np.asarray

    def read(self, value: Array) -> Array:
        return np.asarray(self.backward(np.asarray(value)))

    def write(self, value: Array) -> Array:
        return np.asarray(self.forward(value))  # compiled functions take no NumPy scalars

    def natural(self, value: Array) -> Array:
        return value


UNCHANGED = Mapped()


class Support(ABC):
    """The set in which a parameter lives, and how fits update such parameters, if they do.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.parameters.simplex import SIMPLEX
    >>> SIMPLEX.to_kernel(np.array([0.5, 0.5])).round(3).tolist()
    [-0.693, -0.693]
    """

    # whether labels inform the parameter by counts of its entries, else by a log-likelihood
    counts = True
    # whether values are whole numbers, which have no gradients or means, and the channel draws
    discrete = False

    @abstractmethod
    def require(self, name: str, value: Any) -> None:
        """Raise ModelError unless a constant is in the support."""

    def require_variable(self, name: str, variable: Any) -> None:
        """Raise ModelError unless a free variable of a model can have this support."""
        return

    def to_kernel(self, value: Any, xp: Any = np) -> Any:
        """Return kernel coordinates of a value; ``xp`` is numpy or pytensor.tensor."""
        return value

    def from_kernel(self, value: Array) -> Array:
        """Invert :meth:`to_kernel`."""
        return value

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        """Return the coordinates of a free variable, None if only gradients can update it."""
        return None

    def prior(self, variable: Any) -> Prior:
        """Return the prior of a variable with coordinates, if it depends on no other variable."""
        raise NotImplementedError("Only supports with coordinates have priors that are updated.")

    def varying(self, model: Any, variable: Any) -> Callable[[Mapping[str, Array]], Prior] | None:
        """Return the prior as a function of other variables at a point, None if it is not one."""
        return None


class Real(Support):
    """Finite numbers; NUTS, ADVI and gradient steps of EM update the variables behind them."""

    counts = False

    def require(self, name: str, value: Any) -> None:
        values = require_numbers(name, value)
        require_no_nan(name, values)
        if not np.isfinite(values).all():
            raise ModelError(f"{name} must be finite numbers. Got: {values.tolist()}.")


class Drawn(Support):
    """Numbers, maybe positive, that only a pool draws."""

    def require(self, name: str, value: Any) -> None:
        require_numbers(name, value)

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        from pymc.distributions.transforms import LogTransform, ZeroSumTransform

        transform = model.rvs_to_transforms.get(variable)
        if isinstance(transform, LogTransform):
            return Mapped(np.log, np.exp)
        if isinstance(transform, ZeroSumTransform) and transform.zerosum_axes == (-1,):
            return Mapped(_without_last, _with_last)
        return UNCHANGED if transform is None else None


def _without_last(value: Array) -> Array:
    """Return PyMC's coordinates of rows that sum to zero."""
    root = math.sqrt(value.shape[-1])
    return value[..., :-1] - value[..., -1:] * root / (root + root**2)


def _with_last(value: Array) -> Array:
    """Return rows that sum to zero from PyMC's coordinates."""
    root, total = math.sqrt(value.shape[-1] + 1), value.sum(axis=-1, keepdims=True)
    norm = total / (root + root**2)
    return np.concatenate([value, norm - total / root], axis=-1) - norm


REAL, DRAWN = Real(), Drawn()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a label prior or a rater channel.

    ``dims`` are of "item", "rater", "class", "next_class", "answer", "said", "group", "verdict".

    Examples
    --------
    >>> import bayesfuse as bf
    >>> [(parameter.name, parameter.dims) for parameter in bf.build.Confusion.declared]
    [('confusion', ('rater', 'class', 'answer'))]
    """

    name: str
    support: Support
    dims: tuple[str, ...] = ()
    role: Role | None = None
