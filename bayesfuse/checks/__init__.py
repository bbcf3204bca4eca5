"""Checks of a fitted model, as tables of numbers; :mod:`bayesfuse.plots` draws them.

They raise :class:`bayesfuse.errors.ModelError` for results that lack what is checked (label
probabilities, confusion matrices, groups, sequences, a graph, raters with common items), or that
belong to another model, and :class:`bayesfuse.errors.ResponsesError` for tables of other items.
"""

from bayesfuse.checks.collapse import collapse as collapse, phase_transition as phase_transition
from bayesfuse.checks.error_runs import error_runs as error_runs
from bayesfuse.checks.groups import (
    co_assignment as co_assignment,
    group_summary as group_summary,
    rater_covariance as rater_covariance,
    verdict_probabilities as verdict_probabilities,
)
from bayesfuse.checks.identifiability import identifiability as identifiability
from bayesfuse.checks.label_switching import align_labels as align_labels, switching as switching
from bayesfuse.checks.predictive import neighbour_agreement as neighbour_agreement, runs as runs
from bayesfuse.checks.prior_dependence import prior_dependence as prior_dependence
from bayesfuse.checks.rater_pairs import (
    conditional_dependence as conditional_dependence,
    item_difficulty as item_difficulty,
    pairwise_agreement as pairwise_agreement,
)
from bayesfuse.checks.repeats import collapse_repeats as collapse_repeats
from bayesfuse.checks.scores import calibration as calibration, label_scores as label_scores
from bayesfuse.results.averaging import common_units as common_units
from bayesfuse.results.span_tables import span_scores as span_scores

__all__ = sorted(name for name, thing in globals().items() if callable(thing))


def __dir__() -> list[str]:
    return __all__
