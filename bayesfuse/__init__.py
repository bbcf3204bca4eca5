"""Labels from imperfect sources, with no ground truth and with honest uncertainty."""

from bayesfuse.labels import Independent
from bayesfuse.raters import Confusion, OneCoin
from bayesfuse.responses import Responses

__all__ = ["Confusion", "Independent", "OneCoin", "Responses"]
