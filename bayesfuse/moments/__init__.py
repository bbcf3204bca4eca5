"""Spectral moments: what the agreement of raters says before any model is fitted.

NumPy and numba only. Binary functions take responses of two classes and call the last one positive.
"""

from bayesfuse.moments.binary import (
    accuracies,
    class_imbalance,
    covariance,
    improved_sml,
    rank_one,
    rank_raters,
    sml,
)
from bayesfuse.moments.chain import transition
from bayesfuse.moments.groups import find_groups, latent_sml, score_matrix, select_raters
from bayesfuse.moments.multiclass import confusion
from bayesfuse.moments.one_vs_rest import one_vs_rest
from bayesfuse.moments.targets import spectrum

__all__ = [
    "accuracies",
    "class_imbalance",
    "confusion",
    "covariance",
    "find_groups",
    "improved_sml",
    "latent_sml",
    "one_vs_rest",
    "rank_one",
    "rank_raters",
    "score_matrix",
    "select_raters",
    "sml",
    "spectrum",
    "transition",
]


def __dir__() -> list[str]:
    return __all__
