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
    """Refuse options of other models, and fill in the defaults of what was chosen."""
    if arguments.model is None:
        _refuse(arguments, OF_ONE_MODEL, "a --model")
        own = dict.fromkeys(OF_TABLES) | OF_SEVERAL
        if arguments.sequence or arguments.position:
            own |= {name: MODELS["hidden-markov"][name] for name in ("sequence", "position")}
    else:
        _refuse(arguments, OF_SEVERAL, "an answer from several models, without --model")
        own = MODELS[arguments.model] | OF_ONE_MODEL
        if arguments.output is None:
            raise CommandError(
                "--model needs a file for the posterior: give --output FILE.nc. Got: --model "
                f"{arguments.model} without --output"
            )
    for option in {name: None for options in MODELS.values() for name in options} | own:
        if getattr(arguments, option) is None:
            setattr(arguments, option, own.get(option))
        elif option not in own:
            others = " or ".join(model for model, options in MODELS.items() if option in options)
            raise CommandError(
                f"{_written(option)} belongs to --model {others}. Got: "
                f"{f'--model {arguments.model}' if arguments.model else 'no --model'}"
            )
    if arguments.model is not None:
        _refuse_pairs(arguments)


def _refuse(arguments: argparse.Namespace, options: dict[str, Any], owner: str) -> None:
    for option in options:
        if getattr(arguments, option) is not None:
            chosen = f"--model {arguments.model}" if arguments.model else "no --model"
            raise CommandError(f"{_written(option)} belongs to {owner}. Got: {chosen}")


def _written(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _refuse_pairs(arguments: argparse.Namespace) -> None:
    if arguments.model == "item-types" and arguments.robust:
        raise CommandError(
            "--robust is a prior of confusion matrices, which item-types infers from all raters. "
            "Got: --model item-types"
        )
    if arguments.model == "labelling-functions" and arguments.robust:
        raise CommandError(
            "--robust is a prior of confusion matrices, and labelling functions have none. Got: "
            "--model labelling-functions"
        )
    if arguments.pooled and arguments.robust:
        raise CommandError(
            "--robust is a prior of every rater's rows, and with --pooled raters share one prior: "
            "give one of the two. Got: both"
        )
    if arguments.model == "markov-random-field" and arguments.graph is None:
        raise CommandError(
            "--model markov-random-field needs the edges of the graph: give --graph FILE. Got: no "
            "graph"
        )
