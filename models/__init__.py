"""Graphical models, one per file: generative process, priors with reasons, and composition."""

if __name__ != "bayesfuse.models":
    raise ImportError(
        "Import the models as bayesfuse.models only, or every class would exist twice and "
        f"isinstance would fail. Got: import of {__name__!r}."
    )

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import importer

if TYPE_CHECKING:
    from bayesfuse.models.dawid_skene import DawidSkene
    from bayesfuse.models.hmm import HiddenMarkov
    from bayesfuse.models.item_types import ItemTypes
    from bayesfuse.models.labelling_functions import LabellingFunctions
    from bayesfuse.models.latent_group import LatentGroup
    from bayesfuse.models.mrf import MarkovRandomField
    from bayesfuse.models.weighted_votes import WeightedVotes

__all__ = [
    "DawidSkene",
    "HiddenMarkov",
    "ItemTypes",
    "LabellingFunctions",
    "LatentGroup",
    "MarkovRandomField",
    "WeightedVotes",
]


def __dir__() -> list[str]:
    return __all__


__getattr__ = importer(__name__)
