"""Graphical models, one per file: the story, the priors and why, then the composition."""

if __name__ != "bayesfuse.models":
    raise ImportError(
        "Import the models as bayesfuse.models and under no other name, or every class would "
        f"exist twice and isinstance would fail. Got: import of {__name__!r}."
    )

from bayesfuse.models.dawid_skene import DawidSkene
from bayesfuse.models.hmm import HiddenMarkov
from bayesfuse.models.latent_group import LatentGroup
from bayesfuse.models.mrf import MarkovRandomField

__all__ = ["DawidSkene", "HiddenMarkov", "LatentGroup", "MarkovRandomField"]


def __dir__() -> list[str]:
    return __all__
