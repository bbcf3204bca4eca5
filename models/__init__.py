"""Graphical models, one per file: generative process, priors with reasons, and composition."""

if __name__ != "bayesfuse.models":
    raise ImportError(
        "Import the models as bayesfuse.models only, or every class would exist twice and "
        f"isinstance would fail. Got: import of {__name__!r}."
    )

from typing import TYPE_CHECKING

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:
    from bayesfuse.models.dawid_skene import DawidSkene as DawidSkene
    from bayesfuse.models.hmm import HiddenMarkov as HiddenMarkov
    from bayesfuse.models.item_types import ItemTypes as ItemTypes
    from bayesfuse.models.label_profiles import LabelProfiles as LabelProfiles
    from bayesfuse.models.labelling_functions import LabellingFunctions as LabellingFunctions
    from bayesfuse.models.latent_group import LatentGroup as LatentGroup
    from bayesfuse.models.mrf import MarkovRandomField as MarkovRandomField
    from bayesfuse.models.weighted_votes import WeightedVotes as WeightedVotes

__all__ = sorted(imported(__name__))
__getattr__ = importer(__name__)


def __dir__() -> list[str]:
    return __all__
