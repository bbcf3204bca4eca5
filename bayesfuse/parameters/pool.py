"""Rows that share a mean: hyperparameters are drawn from the counts, with the rows summed out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from bayesfuse.errors import require_numbers
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.tables import SMALLEST, draw_shared
from bayesfuse.parameters.contract import Coordinates, Mapped, Support
from bayesfuse.parameters.dirichlet import Dirichlet

Values = dict[str, Array]  # values of a pool's members, in kernel coordinates, by role


@dataclass(frozen=True)
class Member:
    """A free variable of a model, and the set in which it lives."""

    variable: Any
    support: Support


class Pool(ABC):
    """Variables by role above the rows of one parameter, drawn given the labels' counts."""

    parameter: str
    members: dict[str, Member]
    inputs: Mapping[str, Any] = MappingProxyType({})
    """Variables by role that other steps move, whose values :meth:`draw` and :meth:`implied` need.

    :meth:`begin` returns values of them, too.
    """
    pooled = True
    """Whether the members are what raters have in common, or belong to single raters."""
    has_mode = True
    """Whether hyperparameters and rows have a joint mode that says something about labels."""

    @abstractmethod
    def begin(self, rng: np.random.Generator) -> Values:
        """Return values to begin with, drawn at random where chains should differ."""

    @abstractmethod
    def draw(self, values: Values, counts: Any, rng: np.random.Generator) -> Values:
        """Draw all members given counts (:class:`bayesfuse.observation.Counts`)."""

    def prior(self, values: Values) -> Dirichlet:
        """Return the prior of the rows, unless these are implied."""
        raise NotImplementedError(
            "A pool whose rows are implied gives them no prior: see implied()."
        )

    def implied(self, values: Values) -> Values:
        """Return other parameters that follow from the members, in kernel coordinates."""
        return {}

    def unpooled(self) -> Dirichlet | None:
        """Return a prior of the rows for the start, None to start from Dawid and Skene's model."""
        return None

    def seconds(self, n_responses: int) -> float:
        """Estimate what a draw of members and rows adds to a sweep."""
        return 0.0


@dataclass(frozen=True)
class SharedMean(Pool):
    r"""Rows of raters, :math:`\mathrm{Dir}(\kappa \mu)`, around a mean with a Dirichlet prior."""

    parameter: str
    members: dict[str, Member]
    mean_prior: Array
    shape: float
    rate: float
    n_raters: int

    def begin(self, rng):
        start = np.full(self.mean_prior.shape[:-1], self.shape / self.rate)
        return {"mean": Dirichlet(self.mean_prior).centre(), "concentration": start}

    def draw(self, values, counts, rng):
        concentration, tables = draw_shared(
            values["concentration"],
            np.maximum(np.exp(values["mean"]), SMALLEST),
            counts[self.parameter],
            self.shape,
            self.rate,
            rng,
        )
        mean = draw_dirichlet(self.mean_prior + tables, rng)
        return {"concentration": concentration, "mean": mean}

    def prior(self, values):
        base = self._base(values)
        return Dirichlet(np.broadcast_to(base, (self.n_raters, *base.shape)))

    def unpooled(self):
        return Dirichlet(np.broadcast_to(self.mean_prior, (self.n_raters, *self.mean_prior.shape)))

    def seconds(self, n_responses):
        return 120e-6 + 120e-9 * self.n_raters * self.mean_prior.size + 15e-9 * n_responses

    def _base(self, values: Mapping[str, Array]) -> Array:
        spread = values["concentration"][..., None] * np.exp(values["mean"])
        return np.maximum(spread, SMALLEST)


class Scale(Support):
    """Positive numbers that only a pool draws."""

    def require(self, name: str, value: Any) -> None:
        require_numbers(name, value)

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        from pymc.distributions.transforms import LogTransform

        known = isinstance(model.rvs_to_transforms.get(variable), LogTransform)
        return Mapped(np.log, np.exp) if known else None


SCALE = Scale()
