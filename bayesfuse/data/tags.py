"""Names of classes that mark spans: outside, the beginning of a span, and inside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from bayesfuse.errors import ModelError


class Tag(NamedTuple):
    """Kind of span of a class (None outside, "" if spans have no kinds), and if it begins one."""

    kind: str | None
    begins: bool


def read_tags(classes: Iterable[Any], outside: Any = "O") -> list[Tag]:
    """Return the tags of classes named ``outside``, B-X or I-X, or B and I.

    Raises
    ------
    ModelError
        Other names.
    """
    found = []
    for name in classes:
        text = str(name)
        if name == outside:
            found.append(Tag(None, False))
        elif text in ("B", "I") or text[:2] in ("B-", "I-"):
            found.append(Tag(text[2:], text[0] == "B"))
        else:
            raise ModelError(
                f"Classes that mark spans must be {outside!r}, begin with 'B-' or 'I-', or be 'B' "
                f"and 'I'; see outside=. Got: {name!r}."
            )
    return found


def mark_spans(classes: Iterable[Any]) -> bool:
    """Return whether the names are O and tags, with an inside tag, and a beginning for every one.

    Without inside tags every order is allowed.
    """
    try:
        tags = read_tags(classes)
    except ModelError:
        return False
    inside = {tag.kind for tag in tags if tag.kind is not None and not tag.begins}
    return bool(inside) and inside <= {tag.kind for tag in tags if tag.begins}
