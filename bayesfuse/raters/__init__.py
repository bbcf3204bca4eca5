"""Rater channels: the distribution of responses given the true labels."""

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import importer

if TYPE_CHECKING:
    from bayesfuse.raters.abstaining import Abstaining
    from bayesfuse.raters.base import RaterChannel
    from bayesfuse.raters.confusion import Confusion
    from bayesfuse.raters.consensus import Consensus
    from bayesfuse.raters.graded import Graded
    from bayesfuse.raters.latent_groups import InferredGroups, LatentGroups
    from bayesfuse.raters.one_coin import OneCoin
    from bayesfuse.raters.sequential import SequentialConfusion
    from bayesfuse.raters.stated import Stated
    from bayesfuse.raters.votes import Votes

__all__ = [
    "Abstaining",
    "Confusion",
    "Consensus",
    "Graded",
    "InferredGroups",
    "LatentGroups",
    "OneCoin",
    "RaterChannel",
    "SequentialConfusion",
    "Stated",
    "Votes",
]

__getattr__ = importer(__name__)
