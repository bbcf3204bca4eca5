"""Decisions from a posterior: which items to check, whom to ask next, which rater is best."""

from bayesfuse.decisions.ranks import expected_errors, rank_items, rank_raters
from bayesfuse.decisions.value_of_response import value_of_response

__all__ = ["expected_errors", "rank_items", "rank_raters", "value_of_response"]


def __dir__() -> list[str]:
    return __all__
