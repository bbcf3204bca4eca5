"""Priors over the true labels."""

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:
    from bayesfuse.labels.base import LabelPrior as LabelPrior, Marginal as Marginal
    from bayesfuse.labels.chain import (
        MarkovChain as MarkovChain,
        StationaryMarkovChain as StationaryMarkovChain,
    )
    from bayesfuse.labels.independent import Independent as Independent
    from bayesfuse.labels.planted import PlantedPotts as PlantedPotts
    from bayesfuse.labels.potts import Potts as Potts
    from bayesfuse.labels.profiles import Profiles as Profiles
    from bayesfuse.labels.type_chain import TypeChain as TypeChain

__all__ = sorted(imported(__name__))
__getattr__ = importer(__name__)
