"""What label priors and rater channels have in common: declared parameters and their values."""

from __future__ import annotations

import copy
from abc import ABC
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.errors import require_shape
from bayesfuse.parameters.contract import Parameter, Role, Support

PLURALS = {"class": "classes", "next_class": "next_classes"}


class Factor(ABC):
    """One of the two factors of a label model: named parameters over a fixed structure."""

    declared: tuple[Parameter, ...]
    """What the parameters are, in the order of the kernels' arguments."""

    parameters: dict[str, Any]
    """Name to value (a tensor or an array), of all declared parameters that are used."""

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        """Raise ModelError if a parameter's shape does not fit the responses."""
        for parameter in self.used_parameters:
            sizes = self.sizes(parameter.name, shapes[parameter.name], responses)
            axes = {PLURALS.get(dim, f"{dim}s"): sizes[dim] for dim in parameter.dims}
            require_shape(parameter.name, shapes[parameter.name], **axes)

    def sizes(
        self, name: str, shape: tuple[int | None, ...], responses: Responses
    ) -> dict[str, int]:
        """Return the size of every dimension that the parameter ``name`` may have."""
        n_classes = responses.n_classes
        return {
            "rater": responses.n_raters,
            "class": n_classes,
            "next_class": n_classes,
            "verdict": n_classes,
            "answer": n_classes,
        }

    @property
    def used_parameters(self) -> tuple[Parameter, ...]:
        """Those of the declared parameters that have a value."""
        return tuple(p for p in self.declared if p.name in self.parameters)

    def support(self, name: str) -> Support:
        """Return the set in which the parameter ``name`` lives."""
        return next(p.support for p in self.declared if p.name == name)

    def named(self, role: Role) -> str | None:
        """Return the name of the parameter with this role, if there is one."""
        return next((p.name for p in self.used_parameters if p.role is role), None)

    def to_kernel(self, values: Mapping[str, Any], xp: Any = np) -> dict[str, Any]:
        """Return all parameters in kernel coordinates from their values."""
        return {p.name: p.support.to_kernel(values[p.name], xp) for p in self.used_parameters}

    def bare(self) -> Self:
        """Return a copy that holds structure only: small, and safe to send to other processes."""
        other = copy.copy(self)
        other.parameters = dict.fromkeys(self.parameters)
        return other
