"""Which options belong to what: to one model, to several, or to both."""

from __future__ import annotations

import argparse
from typing import Any

from bayesfuse.command_line import CommandError

OF_ONE_MODEL: dict[str, Any] = {
    "robust": False,
    "sampler": "auto",
    "draws": 1000,
    "thin": None,
    "precision": "single",
    "sweeps": None,
    "chains": 4,
    "no_checks": False,
}
"""Options of ``--model`` of any kind, and their defaults."""

OF_SEVERAL: dict[str, Any] = {"report": None, "time": 3.0}
"""Options without ``--model``, and their defaults."""

OF_TABLES = ("sequence", "position", "graph")
"""Options of models that say what the data are, so that they need no model."""

RATERS = ("confusion", "class", "coin", "graded")
"""Parameters of a rater, the default first."""

MODELS: dict[str, dict[str, Any]] = {
    "dawid-skene": {"raters": RATERS[0], "pooled": False},
    "hidden-markov": {
        "raters": RATERS[0],
        "pooled": False,
        "sequence": "sequence",
        "position": "position",
        "bio": False,
    },
    "item-types": {"types": None, "trust": None},
    "labelling-functions": {"class_shares": None},
    "latent-group": {"groups": "moments"},
    "markov-random-field": {
        "raters": RATERS[0],
        "pooled": False,
        "graph": None,
        "edges": "given",
    },
}
"""Models by name, with their options and defaults."""


def complete(arguments: argparse.Namespace) -> None:
    """Refuse options of other models, and fill in the defaults of the chosen one."""
    model = arguments.model
    chosen = "no --model" if model is None else f"--model {model}"
    own = dict.fromkeys(OF_TABLES) | OF_SEVERAL if model is None else MODELS[model] | OF_ONE_MODEL
    if model is None and (arguments.sequence or arguments.position):
        own |= {name: MODELS["hidden-markov"][name] for name in ("sequence", "position")}
    for option in (
        *OF_ONE_MODEL,
        *OF_SEVERAL,
        *(name for each in MODELS.values() for name in each),
    ):
        if getattr(arguments, option) is None:
            setattr(arguments, option, own.get(option))
        elif option not in own:
            written = f"--{option.replace('_', '-')}"
            raise CommandError(f"{written} belongs to {_owner(option)}. Got: {chosen}")
    if model is None:
        return
    robust = "--robust is a prior of confusion matrices"
    for wrong, rule in (
        (
            arguments.output is None,
            "--model needs a file for the posterior: give --output FILE.nc. Got: no --output",
        ),
        (
            model == "item-types" and arguments.robust,
            f"{robust}, which item-types infers from all raters. Got: {chosen}",
        ),
        (
            model == "labelling-functions" and arguments.robust,
            f"{robust}, and labelling functions have none. Got: {chosen}",
        ),
        (
            arguments.pooled and arguments.robust,
            "--robust is a prior of every rater's rows, and with --pooled raters share one prior: "
            "give one of the two. Got: both",
        ),
        (
            model == "markov-random-field" and arguments.graph is None,
            f"{chosen} needs the edges of the graph: give --graph FILE. Got: no graph",
        ),
    ):
        if wrong:
            raise CommandError(rule)


def _owner(option: str) -> str:
    """Return the models to which an option belongs, in words."""
    if option in OF_ONE_MODEL:
        return "a --model"
    if option in OF_SEVERAL:
        return "an answer from several models, without --model"
    return f"--model {' or '.join(name for name, own in MODELS.items() if option in own)}"
