"""What the columns of a table contain, by the frequencies of their values."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.arrays import MISSING, as_array


class Columns:
    """Columns of a table, with the frequencies of their values as text."""

    def __init__(self, frame: Any, names: list[Any]) -> None:
        self.frame, self.names = frame, names
        self._counts: dict[Any, Counter[str]] = {}

    def counts(self, name: Any) -> Counter[str]:
        """Return the frequency of every value; none if values are lists or mappings."""
        if name not in self._counts:
            self._counts[name] = count_values(self.frame[name])
        return self._counts[name]

    def varies(self, name: Any) -> bool:
        """Whether a column has several values."""
        return len(self.counts(name)) > 1

    def is_distinct(self, name: Any, min_rows: int = 2) -> bool:
        """Whether every row has a value of its own."""
        counts = self.counts(name)
        return len(counts) >= min_rows and len(counts) == counts.total()

    def repeats(self, name: Any) -> bool:
        """Whether some value is in several rows."""
        return self.counts(name).total() > len(self.counts(name))

    def shares_labels(self, name: Any, others: list[Any]) -> bool:
        """Whether others use all the values of a column of text, as raters of a wide table do."""
        values = set(self.counts(name))
        if all(map(is_number, values)):
            return False
        return any(values <= set(self.counts(other)) for other in others if other != name)

    def has_fractions(self, name: Any) -> bool:
        """Whether a column has numbers that are not whole, which measure and name nothing."""
        return any(is_number(text) and not text.isdecimal() for text in self.counts(name))

    def is_of_items(self, name: Any, others: list[Any]) -> bool:
        """Whether a column is the same in all rows of the items, in one of the other columns."""
        values = pd.Series(np.asarray(as_array(self.frame[name])))
        items = (np.asarray(as_array(self.frame[other])) for other in others if self.repeats(other))
        return any(values.groupby(item).nunique().max() == 1 for item in items)

    def is_same_partition(self, names: list[Any]) -> bool:
        """Whether columns identify the same groups of rows."""
        codes = [pd.factorize(pd.Series(np.asarray(as_array(self.frame[n]))))[0] for n in names]
        return all(np.array_equal(codes[0], other) for other in codes[1:])


def count_values(values: Any) -> Counter[str]:
    """Return the frequencies of values as text, so that 1, 1.0 and "1" are the same."""
    try:
        counts = pd.Series(np.asarray(as_array(values))).value_counts()
    except (TypeError, ValueError):  # such as lists in cells
        return Counter()
    number_of: Counter[str] = Counter()
    for value, number in counts.items():
        number_of[as_text(value)] += int(number)
    for mark in MISSING:
        number_of.pop(mark, None)
    return number_of


def as_text(value: Any) -> str:
    """Return a value as a file has it, whole numbers without a decimal point."""
    is_integer = isinstance(value, float | np.floating) and np.isfinite(value) and value % 1 == 0
    return str(int(value) if is_integer else value)


def by_text(names: list[Any]) -> dict[str, Any]:
    """Return names by their text in files, in which 4.0 may be 4, and True may be TRUE."""
    spelt = {as_text(name): name for name in names} | {str(name): name for name in names}
    for name in names:
        if isinstance(name, bool):  # as spreadsheets write them
            spelt |= {str(name).upper(): name, str(name).lower(): name}
    return spelt


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.IGNORECASE) is not None
