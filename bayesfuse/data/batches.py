"""Tables of responses that arrive one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind


def each_batch(batches: Any) -> Iterator[Responses]:
    """Return an iterator over batches that checks each, or raise ModelError if there is none."""
    if isinstance(batches, str) or not isinstance(batches, Iterable):
        raise ModelError(
            "batches= must be an iterable of bf.Responses, because they are read one by one. Got: "
            f"{type(batches).__name__}."
        )
    return map(_checked, batches)


def _checked(batch: Responses) -> Responses:
    require_kind("Every one of batches=", batch, Responses)
    return batch
