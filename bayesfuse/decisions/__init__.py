"""Decisions from a posterior: which items to check, whom to ask next, which raters to keep.

They raise :class:`bayesfuse.errors.ModelError` for results without label probabilities, or of
another model, for arguments out of range or of other raters, and for tables of counts where items
are named.
"""

from bayesfuse.decisions.next_items import accept, errors_after, next_items
from bayesfuse.decisions.panel import panel, position_bias
from bayesfuse.decisions.ranks import expected_errors, rank_items, rank_raters
from bayesfuse.decisions.value_of_response import value_of_response
from bayesfuse.results.difficulty import difficulty
from bayesfuse.results.item_grades import item_grades

__all__ = [
    "accept",
    "difficulty",
    "errors_after",
    "expected_errors",
    "item_grades",
    "next_items",
    "panel",
    "position_bias",
    "rank_items",
    "rank_raters",
    "value_of_response",
]


def __dir__() -> list[str]:
    return __all__
