"""Checks of a fitted model, as tables of numbers; :mod:`bayesfuse.plots` draws them."""

from bayesfuse.checks.collapse import collapse, phase_transition
from bayesfuse.checks.groups import (
    co_assignment,
    group_summary,
    rater_covariance,
    verdict_probabilities,
)
from bayesfuse.checks.identifiability import identifiability
from bayesfuse.checks.label_switching import switching
from bayesfuse.checks.predictive import item_difficulty, neighbour_agreement, runs
from bayesfuse.checks.rater_drift import rater_drift
from bayesfuse.checks.rater_pairs import conditional_dependence, pairwise_agreement
from bayesfuse.checks.scores import calibration, label_scores

__all__ = [
    "calibration",
    "co_assignment",
    "collapse",
    "conditional_dependence",
    "group_summary",
    "identifiability",
    "item_difficulty",
    "label_scores",
    "neighbour_agreement",
    "pairwise_agreement",
    "phase_transition",
    "rater_covariance",
    "rater_drift",
    "runs",
    "switching",
    "verdict_probabilities",
]


def __dir__() -> list[str]:
    return __all__
