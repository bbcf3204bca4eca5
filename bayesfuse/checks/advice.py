"""What checks advise where items of a class differ."""

from __future__ import annotations

from bayesfuse.labels.independent import Independent
from bayesfuse.observation import Observation
from bayesfuse.raters.typed_confusion import TypedConfusion

ITEM_TYPES = "bayesfuse.models.ItemTypes"


def has_types(observation: Observation) -> bool:
    """Return whether items have types within their classes."""
    return isinstance(observation.raters, TypedConfusion)


def model_of_hard_items(observation: Observation) -> str:
    """Return what to use where some items of a class are harder than others."""
    if has_types(observation):
        return "more types of items (types=)"
    if isinstance(observation.labels, Independent):
        return ITEM_TYPES
    kind = type(observation.labels).__name__
    return f"{ITEM_TYPES}, or its channel bayesfuse.TypedConfusion with {kind} labels"
