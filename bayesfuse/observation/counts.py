"""How often the entries of parameters are used, by part of the data and in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse.numerics.kernels import Array

Rows = dict[str, Array]
"""Every parameter in kernel coordinates by name: the point at which a model is evaluated."""


class Counts(dict[str, Array]):
    """How often entries are used, by parameter; ``labels``, ``raters`` by entry of the tables."""

    def __init__(
        self, by_name: Mapping[str, Array], labels: tuple[Array, ...], raters: tuple[Array, ...]
    ) -> None:
        super().__init__(by_name)
        self.labels, self.raters = self.tables = labels, raters


Used = tuple[float, tuple[Array, ...], tuple[Array, ...]]
"""The log evidence and the counts of the entries of the label prior's and the channel's tables."""


def total_of(values: Any) -> Any:
    """Add up numbers, arrays, counts, or tuples of these, always in the same order."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(map(total_of, zip(*values, strict=True)))
    if isinstance(first, Counts):
        by_name = {name: total_of([each[name] for each in values]) for name in first}
        labels, raters = (total_of([each.tables[at] for each in values]) for at in (0, 1))
        return Counts(by_name, labels, raters)
    if not isinstance(first, np.ndarray):
        return sum(values)
    total = first.copy()
    for value in values[1:]:
        total += value
    return total
