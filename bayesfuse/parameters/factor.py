"""What label priors and rater channels have in common: parameters, their values and counts."""

from __future__ import annotations

import copy
import inspect
from abc import ABC
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.capabilities import DESCRIBED, REQUIRED, Capabilities
from bayesfuse.parameters.contract import Parameter, Role, Support

Integers = NDArray[np.int64]
Tables = tuple[Array, ...]
"""Log tables, the arguments that kernels take first."""
Structure = tuple[Any, ...]
"""Arrays that kernels take last."""

PLURALS = {"class": "classes", "next_class": "next_classes", "said": "labels and silence"}


class Factor(ABC):
    """One of the two factors of a label model: named parameters over a fixed structure."""

    declared: tuple[Parameter, ...]
    """What the parameters are, in the order of the kernels' arguments."""

    parameters: dict[str, Any]
    """Name to value (a tensor or an array), of all declared parameters that are used."""

    capabilities: Capabilities = Capabilities()
    """What fits may rely on."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        overridden = sorted(DESCRIBED & set(vars(cls)))
        if Factor in cls.__bases__ or not overridden:
            return
        is_declared = "capabilities" in vars(cls) or cls.capabilities == Capabilities()
        flags = [flag for method, flag in REQUIRED.items() if method in overridden]
        if is_declared and all(getattr(cls.capabilities, flag) for flag in flags):
            return
        raise ModelError(
            "A factor that overrides methods must declare its capabilities, because those of the "
            "class it derives from may not hold: add `capabilities = Capabilities(...)` (see "
            f"bayesfuse.parameters.capabilities). Got: {cls.__name__}, which overrides "
            f"{', '.join(overridden)}."
        )

    def kinds(self, responses: Responses) -> Integers | None:
        """Return the kind of items, which are merged if alike; None if all stand for themselves."""
        if any("item" in parameter.dims for parameter in self.used_parameters):
            return None
        return np.zeros(responses.n_items, dtype=np.int64)

    def subset(self, items: Integers) -> Self:
        """Return the factor for some of the items, where it holds inputs by item."""
        return self

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments besides parameters and places of items, for JSON."""
        return {}

    def expand(self, values: tuple[Any, ...], n_classes: int, xp: Any) -> tuple[Any, ...]:
        """Return the kernels' log tables, in which log probabilities are linear.

        Values are parameters in kernel coordinates, ``xp`` is their numpy or pytensor.tensor.
        """
        return values

    def collapse(self, counts: Tables) -> Tables:
        """Return counts of the parameters' entries from those of the tables' (the adjoint)."""
        both = zip(counts, self.used_parameters, strict=False)
        return tuple(entries for entries, parameter in both if parameter.support.counts)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        """Raise ModelError if a parameter's shape does not fit the responses."""
        for parameter in self.used_parameters:
            sizes = self.sizes(parameter.name, shapes[parameter.name], responses)
            if unknown := [dim for dim in parameter.dims if dim not in sizes]:
                raise ModelError(
                    f"Dimensions of {parameter.name} must be among {list(sizes)}, or sizes() of "
                    f"{type(self).__name__} must know them. Got: {unknown}."
                )
            axes = {PLURALS.get(dim, f"{dim}s"): sizes[dim] for dim in parameter.dims}
            require_shape(parameter.name, shapes[parameter.name], **axes)

    def sizes(
        self, name: str, shape: tuple[int | None, ...], responses: Responses
    ) -> dict[str, int]:
        """Return the size of every dimension that the parameter ``name`` may have."""
        of_classes = dict.fromkeys(
            ("class", "next_class", "verdict", "answer"), responses.n_classes
        )
        return {"item": responses.n_items, "rater": responses.n_raters} | of_classes

    @cached_property
    def used_parameters(self) -> tuple[Parameter, ...]:
        """Those of the declared parameters that have a value."""
        return tuple(p for p in self.declared if p.name in self.parameters)

    def support(self, name: str) -> Support:
        """Return the set in which the parameter ``name`` lives."""
        supports = {parameter.name: parameter.support for parameter in self.declared}
        if name not in supports:
            raise ModelError(
                f"{type(self).__name__} must declare all its parameters, because fits ask what "
                f"they are. Got: {name!r}, which is not among {list(supports)}."
            )
        return supports[name]

    def require(self, values: Mapping[str, Any]) -> None:
        """Raise ModelError unless values or draws of the parameters are in their supports.

        Parameters of whole numbers are skipped, because the channel draws them itself.
        """
        for parameter in self.used_parameters:
            if parameter.name in values and not parameter.support.discrete:
                parameter.support.require(parameter.name, values[parameter.name])

    def named(self, role: Role) -> str | None:
        """Return the name of the parameter with this role, if there is one."""
        return next((p.name for p in self.used_parameters if p.role is role), None)

    def to_kernel(self, values: Mapping[str, Any], xp: Any = np) -> dict[str, Any]:
        """Return all parameters in kernel coordinates from their values."""
        return {p.name: p.support.to_kernel(values[p.name], xp) for p in self.used_parameters}

    def without_parameters(self) -> Self:
        """Return a copy that holds structure only: small, and safe to send to other processes."""
        other = copy.copy(self)
        other.parameters = dict.fromkeys(self.parameters)
        return other


def made[F: Factor](kind: type[F], arguments: Mapping[str, Any]) -> F:
    """Return a factor made from the arguments of its constructor, or raise ModelError."""
    try:
        inspect.signature(kind).bind(**arguments)
    except TypeError as error:
        raise ModelError(
            "A factor whose constructor takes more than parameters must give them by settings() or "
            "rebuild_for() how it is made for other items and raters. Got: "
            f"{kind.__name__}, which cannot be called with {sorted(arguments)} ({error})."
        ) from error
    return kind(**arguments)


LogParameters = dict[str, Array]
"""Every parameter in kernel coordinates by name: the point at which a model is evaluated."""


class Counts(dict[str, Array]):
    """How often entries are used, by parameter; ``labels``, ``raters`` by entry of the tables."""

    def __init__(self, by_name: Mapping[str, Array], labels: Tables, raters: Tables) -> None:
        super().__init__(by_name)
        self.labels, self.raters = self.tables = labels, raters


Used = tuple[float, Tables, Tables]
"""The log evidence and the counts of the entries of the label prior's and the channel's tables."""


def total_of(values: Any) -> Any:
    """Add up numbers, arrays, counts, or tuples of these, always in the same order."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(map(total_of, zip(*values, strict=True)))
    if isinstance(first, Counts):
        columns = zip(*(value.values() for value in values), strict=True)
        by_name = dict(zip(first, map(total_of, columns), strict=True))
        labels, raters = total_of([value.tables for value in values])
        return Counts(by_name, labels, raters)
    if not isinstance(first, np.ndarray):
        return sum(values)
    total = first.copy()
    for value in values[1:]:
        total += value
    return total


def weight_of(tables: Tables, counts: Tables) -> float:
    """Return the log probability of a configuration from counts of the entries it uses."""
    return float(
        sum(
            (used * np.where(used == 0, 0.0, table)).sum()  # 0 · −inf is 0
            for table, used in zip(tables, counts, strict=True)
        )
    )
