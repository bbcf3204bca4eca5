"""Responses seen through a label prior and a rater channel: numbers only, no PyMC."""

from bayesfuse.observation.counts import Counts, Rows
from bayesfuse.observation.observation import Observation
from bayesfuse.observation.parts import Blocks, Spread, Summed, in_blocks, through_matrices

__all__ = [
    "Blocks",
    "Counts",
    "Observation",
    "Rows",
    "Spread",
    "Summed",
    "in_blocks",
    "through_matrices",
]
