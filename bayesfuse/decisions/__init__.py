"""What to do with a posterior: which labels to doubt, whom to ask next, whom to trust most."""

from bayesfuse.decisions.asking import value_of_response
from bayesfuse.decisions.doubts import expected_errors, rank_items
from bayesfuse.decisions.ranks import rank_raters

__all__ = ["expected_errors", "rank_items", "rank_raters", "value_of_response"]


def __dir__() -> list[str]:
    return __all__
