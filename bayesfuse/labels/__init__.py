"""Priors over the true labels."""

from typing import TYPE_CHECKING

from bayesfuse.lazy import importer

if TYPE_CHECKING:
    from bayesfuse.labels.base import LabelPrior, Marginal
    from bayesfuse.labels.chain import MarkovChain, StationaryMarkovChain
    from bayesfuse.labels.couplings import bethe_coupling
    from bayesfuse.labels.independent import Independent
    from bayesfuse.labels.planted import PlantedPotts
    from bayesfuse.labels.population_chain import PopulationMarkovChain
    from bayesfuse.labels.potts import MeanFieldPotts, Potts, paper_coupling

__all__ = [
    "Independent",
    "LabelPrior",
    "Marginal",
    "MarkovChain",
    "MeanFieldPotts",
    "PlantedPotts",
    "PopulationMarkovChain",
    "Potts",
    "StationaryMarkovChain",
    "bethe_coupling",
    "paper_coupling",
]

__getattr__ = importer(
    __name__,
    {
        "base": "LabelPrior Marginal",
        "chain": "MarkovChain StationaryMarkovChain",
        "couplings": "bethe_coupling",
        "independent": "Independent",
        "planted": "PlantedPotts",
        "population_chain": "PopulationMarkovChain",
        "potts": "MeanFieldPotts Potts paper_coupling",
    },
)
