"""Items whose true class is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import narrow, plain, shown
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ResponsesError


def gold_labels(responses: Responses, gold: Mapping[Any, Any] | None) -> NDArray[np.int64]:
    """Return the known class of every item as its number, −1 where unknown.

    Raises
    ------
    ResponsesError
        Gold for an item or of a class that the responses do not have; two classes for one item.
    """
    known = np.full(responses.n_items, -1)
    if gold is None:
        return known
    require_gold(gold)
    if len(gold) == 0:
        return known
    said = zip(*gold.items(), strict=True)
    items, labels = map(_places, said, (responses.items, responses.classes))
    for (item, label), place, code in zip(gold.items(), items, labels, strict=True):
        if place < 0:
            raise unknown_item(item)
        if code < 0:
            raise ResponsesError(
                f"Gold labels must be among the classes {shown(responses.classes)}; leave out "
                f"items whose class is not known. Got: {label!r} for item {item!r}."
            )
        if known[place] not in (-1, code):
            raise ResponsesError(
                f"An item has one true class. Got: gold labels {label!r} and "
                f"{plain(responses.classes[known[place]])!r} for item {item!r}."
            )
        known[place] = code
    return known


def require_gold(gold: Any) -> None:
    """Raise ResponsesError unless gold labels are a mapping."""
    if not isinstance(gold, Mapping | pd.Series):
        raise ResponsesError(
            "gold= is a mapping (a dict, a pandas Series) from item names to class names. Got: "
            f"{type(gold).__name__}."
        )


def unknown_item(item: Any) -> ResponsesError:
    """Return the error for a gold label of an item that there is not."""
    return ResponsesError(
        f"Gold labels must be of items that are in the table. Got: {item!r}, which is not."
    )


def found_in(responses: Responses, gold: Mapping[Any, Any]) -> NDArray[np.bool_]:
    """Say which of the items with gold labels are in a table."""
    if len(gold) == 0:
        return np.zeros(0, dtype=bool)
    return _places(list(gold.keys()), responses.items) >= 0


def _places(given: Sequence[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """Return where what a user says stands among names, −1 where it does not."""
    return places(narrow(np.fromiter(given, dtype=object, count=len(given))), names)
