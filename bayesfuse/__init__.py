"""Labels from imperfect sources, without ground truth and with calibrated uncertainty.

The models are in ``bayesfuse.models``; all other public names are here.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__file__).with_name("models").exists():  # in a checkout, models/ is beside this folder
    __path__.append(str(Path(__file__).parents[1]))

from bayesfuse.numerics.lazy import importer

if TYPE_CHECKING:  # read by importer(), which imports a name when it is first used
    from bayesfuse import checks, datasets, decisions, errors, models, moments, plots, priors
    from bayesfuse.answer.fuse import fuse
    from bayesfuse.answer.fused import Fused
    from bayesfuse.answer.load import load
    from bayesfuse.checks.agreement import agreement
    from bayesfuse.checks.label_switching import align_labels
    from bayesfuse.data.conll import read_conll, write_conll
    from bayesfuse.data.graph import Graph
    from bayesfuse.data.partitions import Partitions
    from bayesfuse.data.responses import Responses
    from bayesfuse.data.sequences import Sequences
    from bayesfuse.data.token_features import token_features
    from bayesfuse.data.verdicts import read_verdicts
    from bayesfuse.inference.cross_classify import cross_classify
    from bayesfuse.inference.find_map import find_map
    from bayesfuse.inference.sample import sample
    from bayesfuse.inference.step_method import LabelGibbs
    from bayesfuse.inference.update import update
    from bayesfuse.inference.variational import fit
    from bayesfuse.labels import (
        Independent,
        InformedMarkovChain,
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
        Consensus,
        Graded,
        InferredGroups,
        LatentGroups,
        OneCoin,
        SequentialConfusion,
        Stated,
        Votes,
    )
    from bayesfuse.results.averaging import average, common_units
    from bayesfuse.results.class_shares import class_shares
    from bayesfuse.results.difficulty import difficulty
    from bayesfuse.results.paths import decode, draw_labels, run_lengths, spans
    from bayesfuse.results.predict import predict, predict_batches
    from bayesfuse.results.probabilities import label_probabilities, vote_shares
    from bayesfuse.results.rater_tables import grades, rater_grades, sources
    from bayesfuse.results.span_scores import rater_spans, span_scores
    from bayesfuse.results.span_tables import read_spans, response_spans
    from bayesfuse.results.summaries import summary
    from bayesfuse.results.write_labels import label_partitions, write_labels

__all__ = [
    "Abstaining",
    "Confusion",
    "Consensus",
    "Fused",
    "Graded",
    "Graph",
    "Independent",
    "InferredGroups",
    "InformedMarkovChain",
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
    "SequentialConfusion",
    "Stated",
    "StationaryMarkovChain",
    "Votes",
    "agreement",
    "align_labels",
    "average",
    "bio_transitions",
    "checks",
    "class_shares",
    "common_units",
    "cross_classify",
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
    "load",
    "models",
    "moments",
    "observe",
    "part",
    "plots",
    "predict",
    "predict_batches",
    "priors",
    "rater_grades",
    "rater_spans",
    "read_conll",
    "read_spans",
    "read_verdicts",
    "response_spans",
    "run_lengths",
    "sample",
    "sources",
    "span_scores",
    "spans",
    "summary",
    "token_features",
    "update",
    "vote_shares",
    "write_conll",
    "write_labels",
]
__version__ = "0.3.0"

_ROOMS = (
    "answer checks command_line data datasets decisions errors inference labels models moments "
    "numerics observation parameters plots priors pymc raters results testing"
).split()

_import = importer(__name__)


def __getattr__(name: str) -> Any:
    """Import a module of the package, or a public name from its module."""
    if (
        name[:1].isupper()
        and name not in __all__
        and name in import_module("bayesfuse.models").__all__
    ):
        raise AttributeError(
            f"module 'bayesfuse' has no attribute {name!r}: it is bf.models.{name}"
        )
    return import_module(f"bayesfuse.{name}") if name in _ROOMS else _import(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
