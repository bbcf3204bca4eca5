"""Decisions from a posterior: items to check, responses to request, raters to keep.

They raise :class:`bayesfuse.errors.ModelError` for results without label probabilities, or of
another model, for arguments out of range or of other raters, and for tables of counts where items
are named.
"""

from bayesfuse.decisions.error_traits import error_traits
from bayesfuse.decisions.labels_needed import labels_needed
from bayesfuse.decisions.leaderboard import leaderboard
from bayesfuse.decisions.next_items import accept_labels, errors_after, next_items
from bayesfuse.decisions.position_bias import position_bias
from bayesfuse.decisions.ranks import expected_errors, rank_items, rank_raters
from bayesfuse.decisions.select_panel import select_panel
from bayesfuse.decisions.value_of_response import value_of_response
from bayesfuse.results.difficulty import difficulty
from bayesfuse.results.item_grades import item_grades

__all__ = [
    "accept_labels",
    "difficulty",
    "error_traits",
    "errors_after",
    "expected_errors",
    "item_grades",
    "labels_needed",
    "leaderboard",
    "next_items",
    "position_bias",
    "rank_items",
    "rank_raters",
    "select_panel",
    "value_of_response",
]


def __dir__() -> list[str]:
    return __all__
