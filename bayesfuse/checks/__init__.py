"""What a posterior says about the raters, and what the data say against the model.

Checks return tables of numbers; :mod:`bayesfuse.plots` draws them.
"""

from bayesfuse.checks.agreement import conditional_dependence, pairwise_agreement
from bayesfuse.checks.classes import collapse
from bayesfuse.checks.graphs import neighbour_agreement
from bayesfuse.checks.groups import (
    co_assignment,
    group_summary,
    rater_covariance,
    verdict_probabilities,
)
from bayesfuse.checks.items import item_difficulty
from bayesfuse.checks.label_switching import switching
from bayesfuse.checks.phases import phase_transition
from bayesfuse.checks.scores import calibration, label_scores
from bayesfuse.checks.sequences import runs

__all__ = [
    "calibration",
    "co_assignment",
    "collapse",
    "conditional_dependence",
    "group_summary",
    "item_difficulty",
    "label_scores",
    "neighbour_agreement",
    "pairwise_agreement",
    "phase_transition",
    "rater_covariance",
    "runs",
    "switching",
    "verdict_probabilities",
]


def __dir__() -> list[str]:
    return __all__
