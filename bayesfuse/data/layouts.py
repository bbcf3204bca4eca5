"""Layouts of exports, by which a table is recognised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from bayesfuse.data.arrays import shown
from bayesfuse.errors import ResponsesError

EXPORTS = {
    "label_studio": ({"annotations", "data"}, {"annotation_id", "annotator"}),
    "prodigy": ({"_input_hash", "_task_hash"},),
    "doccano": ({"id", "text", "label", "Comments"}, {"id", "data", "label"}),
    "mturk": ({"HITId", "WorkerId"},),
    "inspect": ({"eval", "samples"},),
    "verdicts": ({"model_1", "model_2"}, {"model_a", "model_b"}, {"model", "judge", "score"}),
}
"""Names that exports of annotation tools and logs of judges have, by their reader in ``bf.io``."""


def export_hint(names: Iterable[Any], reader: str = "") -> str:
    """Return in words which other reader an export with these names has, if any."""
    present = {*map(str, names)}
    for kind, layouts in EXPORTS.items():
        if f"read_{kind}" != reader and any(layout <= present for layout in layouts):
            written = kind.replace("_", "-")
            return f"This looks like an export that bf.io.read_{kind} reads (--format {written}). "
    return ""


@contextmanager
def naming_reader(names: Iterable[Any], reader: str = "") -> Iterator[None]:
    """Name the reader of an export with these columns in a ResponsesError."""
    try:
        yield
    except ResponsesError as error:
        if hint := export_hint(names, reader):
            raise ResponsesError(f"{hint}{error}") from None
        raise


def refuse_nested(frame: pd.DataFrame) -> None:
    """Raise ResponsesError if a table is an export with lists or mappings in cells."""
    if hint := export_hint(frame.columns):
        nested = [
            name for name, cells in frame.items() if any(isinstance(c, list | dict) for c in cells)
        ]
        if nested:
            raise ResponsesError(
                f"{hint}Cells of a table are single values. Got: lists or mappings in columns "
                f"{shown(nested)}."
            )
