"""The likelihood of responses under a label prior and a rater channel, in NumPy and PyMC.

Names imported here need no PyMC.
"""

from bayesfuse.observation.parts import (
    BlockedResponseModel,
    ChunkedResponseModel,
    SummedResponseModel,
    in_blocks,
    through_channel,
    through_matrices,
    with_matrices,
)
from bayesfuse.observation.response_model import ResponseModel
from bayesfuse.parameters.factor import Counts, LogParameters

__all__ = [
    "BlockedResponseModel",
    "ChunkedResponseModel",
    "Counts",
    "LogParameters",
    "ResponseModel",
    "SummedResponseModel",
    "in_blocks",
    "through_channel",
    "through_matrices",
    "with_matrices",
]
