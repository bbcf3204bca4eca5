"""Rater channels: the distribution of responses given the true labels."""

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:
    from bayesfuse.raters.abstaining import Abstaining as Abstaining
    from bayesfuse.raters.base import RaterChannel as RaterChannel
    from bayesfuse.raters.confusion import Confusion as Confusion, OneCoin as OneCoin
    from bayesfuse.raters.consensus import (
        Consensus as Consensus,
        ConsensusOfType as ConsensusOfType,
    )
    from bayesfuse.raters.firing import Firing as Firing
    from bayesfuse.raters.graded import Graded as Graded
    from bayesfuse.raters.latent_groups import (
        InferredGroups as InferredGroups,
        LatentGroups as LatentGroups,
    )
    from bayesfuse.raters.sequential import SequentialConfusion as SequentialConfusion
    from bayesfuse.raters.stated import Stated as Stated
    from bayesfuse.raters.votes import Votes as Votes

__all__ = sorted(imported(__name__))
__getattr__ = importer(__name__)
