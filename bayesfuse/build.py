"""Label priors, rater channels and functions to build models of your own."""

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:
    from bayesfuse.inference.step_method import LabelGibbs as LabelGibbs
    from bayesfuse.labels import (
        Independent as Independent,
        LabelPrior as LabelPrior,
        Marginal as Marginal,
        MarkovChain as MarkovChain,
        PlantedPotts as PlantedPotts,
        Potts as Potts,
        Profiles as Profiles,
        StationaryMarkovChain as StationaryMarkovChain,
        TypeChain as TypeChain,
    )
    from bayesfuse.observation.model import LabelModel as LabelModel, part as part
    from bayesfuse.observation.observed import observe as observe
    from bayesfuse.parameters.capabilities import Capabilities as Capabilities
    from bayesfuse.parameters.contract import Parameter as Parameter
    from bayesfuse.parameters.variables import dirichlet as dirichlet
    from bayesfuse.raters import (
        Abstaining as Abstaining,
        Confusion as Confusion,
        Consensus as Consensus,
        ConsensusOfType as ConsensusOfType,
        Firing as Firing,
        Graded as Graded,
        InferredGroups as InferredGroups,
        LatentGroups as LatentGroups,
        OneCoin as OneCoin,
        RaterChannel as RaterChannel,
        SequentialConfusion as SequentialConfusion,
        Stated as Stated,
        Votes as Votes,
    )

__all__ = sorted(imported(__name__))
__dir__ = __all__.copy
__getattr__ = importer(__name__)
