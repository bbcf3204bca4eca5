"""Names of classes that mark spans: outside, the beginning of a span, and inside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError


class Tag(NamedTuple):
    """Kind of span of a class (None outside, "" if spans have no kinds), and if it begins one."""

    kind: str | None
    begins: bool


def read_tags(classes: Iterable[Any], outside: Any = "O") -> list[Tag]:
    """Return the tags of classes named ``outside``, B-X or I-X, or B and I, or raise ModelError."""
    parsed = []
    for name in classes:
        text = str(name)
        if name == outside:
            parsed.append(Tag(None, False))
        elif text in ("B", "I") or text[:2] in ("B-", "I-"):
            parsed.append(Tag(text[2:], text[0] == "B"))
        else:
            raise ModelError(
                f"Classes that mark spans must be {outside!r}, begin with 'B-' or 'I-', or be 'B' "
                f"and 'I'; see outside=. Got: {name!r}."
            )
    return parsed


def mark_spans(classes: Iterable[Any]) -> bool:
    """Return whether names are O and tags, with inside tags, each with a beginning, in an order."""
    try:
        tags = read_tags(classes)
    except ModelError:
        return False
    inside = {tag.kind for tag in tags if tag.kind is not None and not tag.begins}
    return bool(inside) and inside <= {tag.kind for tag in tags if tag.begins}


def numbers_as_tags(classes: Iterable[Any]) -> list[str]:
    """Return the names of classes, with O, B and I for the numbers 0, 1 and 2."""
    names = [str(name) for name in classes]
    return ["O", "B", "I"] if names == ["0", "1", "2"] else names


def spans_begin_with_b(responses: Responses, sequences: Sequences) -> bool:
    """Return whether classes are tags of spans, which begin with a B by the majority vote."""
    if not mark_spans(responses.classes.tolist()):
        return False
    vote = responses.votes().argmax(axis=1)[sequences.places(responses)]
    kind, begins, new = _beginnings(vote, responses, sequences)
    new &= [span_kind is not None for span_kind in kind[vote]]
    return bool(begins[vote[new]].mean() > 0.5) if new.any() else True


def legal_tags(
    known: NDArray[np.int64], responses: Responses, sequences: Sequences
) -> NDArray[np.int64]:
    """Return codes of known tags (items,), −1 for none, with spans that begin with a B."""
    place = sequences.places(responses)
    kind, begins, new = _beginnings(known[place], responses, sequences)
    begin = {span_kind: code for code, span_kind in enumerate(kind) if begins[code]}
    repaired = known.copy()
    for at in np.flatnonzero(new & (known[place] >= 0)):
        code = known[place[at]]
        first = at in sequences.start
        if kind[code] is not None and not begins[code] and (first or known[place[at - 1]] >= 0):
            repaired[place[at]] = begin[kind[code]]
    return repaired


def _beginnings(
    codes: NDArray[np.int64], responses: Responses, sequences: Sequences
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return kinds and beginnings of classes, and where codes in order have a new kind."""
    tags = read_tags(responses.classes.tolist())
    kind = np.array([tag.kind for tag in tags], dtype=object)
    begins = np.array([tag.begins for tag in tags])
    new = np.append(True, kind[codes[1:]] != kind[codes[:-1]])
    new[sequences.start[:-1]] = True
    return kind, begins, new
