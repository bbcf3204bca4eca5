"""How often the entries of parameters are used, by part of the data and in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayesfuse.numerics.kernels import Array

Rows = dict[str, Array]
"""Every parameter in kernel coordinates by name: the point at which a model is evaluated."""


class Counts(dict[str, Array]):
    """How often entries are used, by parameter; ``labels`` and ``raters`` by entry of the tables."""

    def __init__(
        self, by_name: Mapping[str, Array], labels: tuple[Array, ...], raters: tuple[Array, ...]
    ) -> None:
        super().__init__(by_name)
        self.labels, self.raters = labels, raters


def added(parts: Any) -> Counts:
    """Add up counts, always in the same order."""
    names = parts[0].keys()
    by_name = {name: total_of([part[name] for part in parts]) for name in names}
    labels, raters = ([getattr(part, which) for part in parts] for which in ("labels", "raters"))
    return Counts(by_name, total_of(labels), total_of(raters))


def total_of(values: Any) -> Any:
    """Add up arrays, or tuples of them, always in the same order."""
    if isinstance(values[0], tuple):
        return tuple(map(total_of, zip(*values, strict=True)))
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total
