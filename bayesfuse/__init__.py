"""Labels from imperfect sources, without ground truth and with calibrated uncertainty.

The functions of an analysis are here, models in ``bayesfuse.models``, and what models are built
from in ``bayesfuse.build``.
"""

import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not Path(__file__).with_name("models").exists():  # in a checkout, models/ is beside this folder
    __path__.append(str(Path(__file__).parents[1]))

from bayesfuse.numerics.lazy import imported, importer

if TYPE_CHECKING:  # read by importer(), which imports a name when it is first used
    from bayesfuse import (
        build as build,
        checks as checks,
        datasets as datasets,
        decisions as decisions,
        errors as errors,
        io as io,
        models as models,
        moments as moments,
        plots as plots,
        priors as priors,
        testing as testing,
    )
    from bayesfuse.checks.agreement import agreement as agreement
    from bayesfuse.data.graph import Graph as Graph
    from bayesfuse.data.responses import Responses as Responses
    from bayesfuse.data.sequences import Sequences as Sequences
    from bayesfuse.ensemble.fuse import fuse as fuse
    from bayesfuse.ensemble.fused import Fused as Fused
    from bayesfuse.ensemble.load import load as load
    from bayesfuse.inference.find_map import find_map as find_map
    from bayesfuse.inference.sample import sample as sample
    from bayesfuse.inference.update import update as update
    from bayesfuse.inference.variational import fit as fit
    from bayesfuse.results.averaging import average as average
    from bayesfuse.results.class_shares import class_shares as class_shares
    from bayesfuse.results.paths import (
        decode as decode,
        draw_labels as draw_labels,
        spans as spans,
    )
    from bayesfuse.results.probabilities import (
        label_probabilities as label_probabilities,
        predict as predict,
        vote_shares as vote_shares,
    )
    from bayesfuse.results.rater_table import rater_table as rater_table
    from bayesfuse.results.summaries import summary as summary

__version__ = "0.4.0"

_ROOMS = (
    "build checks command_line data datasets decisions ensemble errors inference io labels models "
    "moments numerics observation parameters plots priors raters results testing"
).split()
_SEARCHED = "build", "models", "io", "checks", "decisions", "priors"
_MOVED = "align_labels bio_transitions collapse_repeats common_units difficulty span_scores".split()
"""Names that were at the top level before those of ``build`` and ``io`` left it, too."""

_import = importer(__name__)
__all__ = sorted(imported(__name__))


def __getattr__(name: str) -> Any:
    """Import a module of the package, or a public name from its module."""
    if name in _ROOMS:
        return import_module(f"bayesfuse.{name}")
    if name not in __all__ and not name.startswith("_"):
        for module in _SEARCHED:
            place = import_module(f"bayesfuse.{module}")
            if name not in place.__all__:
                continue
            if module in ("build", "io") or name in _MOVED:
                words = f"bf.{name} has moved, and will go: it is bf.{module}.{name}"
                warnings.warn(words, FutureWarning, stacklevel=2)
                return getattr(place, name)
            raise AttributeError(
                f"module 'bayesfuse' has no attribute {name!r}: it is bf.{module}.{name}"
            )
    return _import(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
