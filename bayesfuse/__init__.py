"""Labels from imperfect sources, with no ground truth and with honest uncertainty.

The models stand in ``bayesfuse.models``; everything else a user needs is here.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__file__).with_name("models").exists():  # in a checkout, models/ is beside this folder
    __path__.append(str(Path(__file__).parents[1]))

from bayesfuse import checks, errors, moments, priors
from bayesfuse.checks.label_switching import align_labels
from bayesfuse.data.graph import Graph
from bayesfuse.data.partitions import Partitions
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.inference.find_map import find_map
from bayesfuse.inference.sample import sample
from bayesfuse.inference.step_method import LabelGibbs
from bayesfuse.inference.update import update
from bayesfuse.inference.variational import fit
from bayesfuse.labels import (
    Independent,
    MarkovChain,
    MeanFieldPotts,
    PlantedPotts,
    PopulationMarkovChain,
    Potts,
    StationaryMarkovChain,
)
from bayesfuse.parameters.variables import dirichlet
from bayesfuse.priors import bio_transitions
from bayesfuse.pymc.model import LabelModel, observe
from bayesfuse.pymc.parts import part
from bayesfuse.raters import (
    Abstaining,
    Confusion,
    Graded,
    InferredGroups,
    LatentGroups,
    OneCoin,
    Stated,
    TypedConfusion,
    Votes,
)
from bayesfuse.results.averaging import average, common_units
from bayesfuse.results.difficulty import difficulty
from bayesfuse.results.partitions import label_partitions
from bayesfuse.results.paths import decode, draw_labels, run_lengths, spans
from bayesfuse.results.predict import predict, predict_batches
from bayesfuse.results.probabilities import label_probabilities, vote_shares
from bayesfuse.results.rater_tables import grades, rater_grades, sources
from bayesfuse.results.summaries import summary
from bayesfuse.results.write_labels import write_labels

if TYPE_CHECKING:
    from bayesfuse import datasets, decisions, plots
    from bayesfuse.answer.fuse import fuse
    from bayesfuse.answer.fused import Fused

__all__ = [
    "Abstaining",
    "Confusion",
    "Fused",
    "Graded",
    "Graph",
    "Independent",
    "InferredGroups",
    "LabelGibbs",
    "LabelModel",
    "LatentGroups",
    "MarkovChain",
    "MeanFieldPotts",
    "OneCoin",
    "Partitions",
    "PlantedPotts",
    "PopulationMarkovChain",
    "Potts",
    "Responses",
    "Sequences",
    "Stated",
    "StationaryMarkovChain",
    "TypedConfusion",
    "Votes",
    "align_labels",
    "average",
    "bio_transitions",
    "checks",
    "common_units",
    "datasets",
    "decisions",
    "decode",
    "difficulty",
    "dirichlet",
    "draw_labels",
    "errors",
    "find_map",
    "fit",
    "fuse",
    "grades",
    "label_partitions",
    "label_probabilities",
    "models",
    "moments",
    "observe",
    "part",
    "plots",
    "predict",
    "predict_batches",
    "priors",
    "rater_grades",
    "run_lengths",
    "sample",
    "sources",
    "spans",
    "summary",
    "update",
    "vote_shares",
    "write_labels",
]
__version__ = "0.3.0"


LATER = {"datasets", "decisions", "models", "plots"}
"""Imported when they are first asked for, to save time; models are written against this page."""

ANSWER = {"fuse": "bayesfuse.answer.fuse", "Fused": "bayesfuse.answer.fused"}
"""Names whose modules build on the models, and their modules."""


def __getattr__(name: str) -> Any:
    """Import what is imported later."""
    if name in LATER:
        return importlib.import_module(f"bayesfuse.{name}")
    if name in ANSWER:
        return getattr(importlib.import_module(ANSWER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
