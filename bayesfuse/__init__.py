"""Labels from imperfect sources, without ground truth and with calibrated uncertainty.

The models are in ``bayesfuse.models``; all other public names are here.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__file__).with_name("models").exists():  # in a checkout, models/ is beside this folder
    __path__.append(str(Path(__file__).parents[1]))

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:  # read by importer(), which imports a name when it is first used
    from bayesfuse import (
        checks as checks,
        datasets as datasets,
        decisions as decisions,
        errors as errors,
        models as models,
        moments as moments,
        plots as plots,
        priors as priors,
    )
    from bayesfuse.checks.label_switching import align_labels as align_labels
    from bayesfuse.checks.scores import agreement as agreement
    from bayesfuse.data.graph import Graph as Graph
    from bayesfuse.data.partitions import Partitions as Partitions
    from bayesfuse.data.responses import Responses as Responses
    from bayesfuse.data.sequences import Sequences as Sequences
    from bayesfuse.data.verdicts import read_verdicts as read_verdicts
    from bayesfuse.data.words import (
        read_conll as read_conll,
        token_features as token_features,
        write_conll as write_conll,
    )
    from bayesfuse.ensemble.fuse import fuse as fuse
    from bayesfuse.ensemble.fused import Fused as Fused, load as load
    from bayesfuse.checks.repeats import collapse_repeats as collapse_repeats
    from bayesfuse.inference.find_map import find_map as find_map
    from bayesfuse.inference.sample import sample as sample
    from bayesfuse.inference.step_method import LabelGibbs as LabelGibbs
    from bayesfuse.inference.update import update as update
    from bayesfuse.inference.variational import fit as fit
    from bayesfuse.labels import (
        Independent as Independent,
        MarkovChain as MarkovChain,
        PlantedPotts as PlantedPotts,
        Potts as Potts,
        StationaryMarkovChain as StationaryMarkovChain,
    )
    from bayesfuse.parameters.variables import dirichlet as dirichlet
    from bayesfuse.priors import bio_transitions as bio_transitions
    from bayesfuse.pymc.model import LabelModel as LabelModel, part as part
    from bayesfuse.pymc.observed import observe as observe
    from bayesfuse.raters import (
        Abstaining as Abstaining,
        Confusion as Confusion,
        Consensus as Consensus,
        Firing as Firing,
        Graded as Graded,
        InferredGroups as InferredGroups,
        LatentGroups as LatentGroups,
        OneCoin as OneCoin,
        SequentialConfusion as SequentialConfusion,
        Stated as Stated,
        Votes as Votes,
    )
    from bayesfuse.results.averaging import average as average, common_units as common_units
    from bayesfuse.results.class_shares import class_shares as class_shares
    from bayesfuse.results.difficulty import difficulty as difficulty
    from bayesfuse.results.paths import (
        decode as decode,
        draw_labels as draw_labels,
        spans as spans,
    )
    from bayesfuse.results.probabilities import (
        label_partitions as label_partitions,
        label_probabilities as label_probabilities,
        predict as predict,
        vote_shares as vote_shares,
    )
    from bayesfuse.results.rater_table import (
        grades as grades,
        rater_grades as rater_grades,
        sources as sources,
    )
    from bayesfuse.results.span_tables import (
        rater_spans as rater_spans,
        read_spans as read_spans,
        span_scores as span_scores,
    )
    from bayesfuse.results.summaries import summary as summary

__version__ = "0.3.0"

_ROOMS = (
    "checks command_line data datasets decisions ensemble errors inference labels models moments "
    "numerics observation parameters plots priors pymc raters results testing"
).split()

_import = importer(__name__)
__all__ = sorted(imported(__name__))


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
