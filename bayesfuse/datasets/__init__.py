"""Classic data sets and simulators."""

from bayesfuse.datasets.classic import anesthesia, caries, tuberculosis
from bayesfuse.datasets.simulators import (
    Simulated,
    SimulatedGraph,
    simulate_blocks,
    simulate_dawid_skene,
    simulate_responses,
)

__all__ = [
    "Simulated",
    "SimulatedGraph",
    "anesthesia",
    "caries",
    "simulate_blocks",
    "simulate_dawid_skene",
    "simulate_responses",
    "tuberculosis",
]


def __dir__() -> list[str]:
    return __all__
