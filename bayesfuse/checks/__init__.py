"""What a posterior says about the raters, and what the data say against the model."""

from bayesfuse.checks.groups import (
    co_assignment,
    group_summary,
    rater_covariance,
    verdict_probabilities,
)

__all__ = [
    "co_assignment",
    "group_summary",
    "rater_covariance",
    "verdict_probabilities",
]
