"""Responses seen through a label prior and a rater channel: numbers only, no PyMC."""

from bayesfuse.observation.observation import Observation
from bayesfuse.observation.parts import (
    Blocks,
    Spread,
    Summed,
    in_blocks,
    through_matrices,
    with_matrices,
)
from bayesfuse.parameters.factor import Counts, Rows

__all__ = [
    "Blocks",
    "Counts",
    "Observation",
    "Rows",
    "Spread",
    "Summed",
    "in_blocks",
    "through_matrices",
    "with_matrices",
]
