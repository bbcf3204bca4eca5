"""Spectral moments: estimates from the agreement of raters, without fitting a model.

NumPy and numba only. Binary functions take responses of two classes; the last one is positive.
"""

from bayesfuse.moments.binary import (
    accuracies,
    class_imbalance,
    improved_sml,
    one_vs_rest,
    sml,
)
from bayesfuse.moments.chain import transition
from bayesfuse.moments.groups import latent_sml, select_raters
from bayesfuse.moments.multiclass import confusion
from bayesfuse.moments.pairs import covariance, rank_one
from bayesfuse.moments.partition import find_groups
from bayesfuse.moments.score import score_matrix, spectrum

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
    "score_matrix",
    "select_raters",
    "sml",
    "spectrum",
    "transition",
]


def __dir__() -> list[str]:
    return __all__
