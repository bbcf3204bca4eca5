"""Names of classes or labels that are several labels, joined by a separator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.errors import warn

MAX_CLASSES = 100_000  # above, labels are free text, which other checks report
SEPARATORS = *",;|#+", " or "  # of the labels in a set
MAX_SHOWN = 3

BRACKETS = re.compile(r"[\[\]{}()\"']")
LIST = re.compile(r"^\s*(?:[\[{(]\s*[\"']|[\[{]\s*[\]}]\s*$|[\[{][^\]}]*(?:$|,))")
"""Begin of a list that is text, or of its first label."""


def _parts(names: NDArray[np.str_], separator: str) -> list[list[str]]:
    """Return the labels that each name would be, one where the separator joins no two."""
    unquoted = [BRACKETS.sub("", name) for name in names.tolist()]
    split = [list(map(str.strip, name.split(separator))) for name in unquoted]
    return [labels if all(labels) else [name] for labels, name in zip(split, unquoted, strict=True)]


def looks_like_sets(names: NDArray[np.str_]) -> tuple[str, list[list[int]]] | None:
    """Return the separator of class names that are sets of labels, and the sets in two orders."""
    if names.dtype.kind != "U" or len(names) > MAX_CLASSES:
        return None
    for separator in SEPARATORS:
        parts = _parts(names, separator)
        sets: dict[tuple[str, ...], list[int]] = {}
        several = [index for index, labels in enumerate(parts) if len(labels) > 1]
        for index in several:
            sets.setdefault(tuple(sorted(parts[index])), []).append(index)
        reordered = [group for group in sets.values() if len(group) > 1]
        number = Counter(part for labels in parts for part in set(labels))
        are_shared = all(number[part] > 1 for index in several for part in parts[index])
        if reordered or (len(several) > 1 and are_shared):
            return separator, reordered
    return None


def warn_of_joined(labels: Sequence[object], separator: str | None, is_used: bool) -> None:
    """Warn of labels of sets that are several labels joined by another separator.

    ``is_used``: whether the separator that was given occurs in a cell.
    """
    names = np.array([name for name in labels if isinstance(name, str)], dtype=str)
    if not len(names) or len(names) > MAX_CLASSES:
        return
    if lists := [name for name in names.tolist() if LIST.match(name)]:
        warn(
            "Labels that begin with brackets look like lists that a file holds as text: give "
            'lists (frame["label"].map(ast.literal_eval)), or text without brackets and quotes. '
            f"Got: labels {shown(lists, MAX_SHOWN)}."
        )
        return
    for other in (*SEPARATORS, " "):
        if joined := _joined(names, other, is_used or separator is None):
            remedy = f"separator={other!r} (--label-sets) reads several"
            if separator is not None and is_used:
                remedy = f"write {separator!r} in its place"
            warn(
                f"Labels look like several ones that are joined by {other!r}, and each counts as "
                f"one label: {remedy}; if each is one, declare them (labels=). Got: "
                f"separator={separator!r}, and labels {shown(joined, MAX_SHOWN)}."
            )
            return


def _joined(names: NDArray[np.str_], separator: str, needs_parts: bool) -> list[str]:
    """Return names whose parts are all labels, or in other names; else half of the names."""
    parts = _parts(names, separator)
    several = [index for index, labels in enumerate(parts) if len(labels) > 1]
    number = Counter(part for labels in parts for part in set(labels))
    alone = {labels[0] for labels in parts if len(labels) == 1}
    known = [index for index in several if alone.issuperset(parts[index])]
    if separator != " ":
        are_shared = all(number[part] > 1 for index in several for part in parts[index])
        is_usual = not needs_parts and 2 * len(several) >= len(names)
        if is_usual or (len(several) > 1 and are_shared):
            known = several
    return names[known].tolist()
