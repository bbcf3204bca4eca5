"""Responses seen through a label prior and a rater channel: numbers only, no PyMC."""

from bayesfuse.observation.blocks import Blocks, RatersInBlocks, Summed, in_blocks, through_matrices
from bayesfuse.observation.counts import Counts, Rows
from bayesfuse.observation.observation import Observation
from bayesfuse.observation.spread import Spread

__all__ = [
    "Blocks",
    "Counts",
    "Observation",
    "RatersInBlocks",
    "Rows",
    "Spread",
    "Summed",
    "in_blocks",
    "through_matrices",
]
