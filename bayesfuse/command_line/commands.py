"""What the commands do: fit a model to a user's tables, or to data that come along."""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.outputs import check_outputs, check_picture, draw, write_labels
from bayesfuse.command_line.tables import Tables, read_tables
from bayesfuse.errors import ModelError, NoGroupsWarning
from bayesfuse.model import LabelModel
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.report import report

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def fit(arguments: argparse.Namespace) -> int:
    """Fit a model to a user's tables; write posterior, labels and picture, and print a report."""
    output: Path = arguments.output
    if output.is_dir():  # and has no name to derive others from
        raise CommandError(f"cannot write {output}: it is a folder")
    labels: Path = arguments.labels or output.with_name(f"{output.stem}-labels.csv")
    picture: Path = arguments.picture or output.with_suffix(".png")
    given = arguments.responses, arguments.items, arguments.gold, arguments.graph
    check_outputs([output, labels, picture], [path for path in given if path is not None])
    check_picture(picture)
    tables = read_tables(arguments)
    model = _model(arguments, tables)

    result, interrupted = _sample(
        model,
        draws=arguments.draws,
        chains=arguments.chains,
        sampler=arguments.sampler,
        random_seed=arguments.seed,
        quiet=arguments.quiet,
    )
    result.to_netcdf(output)
    write_labels(result, model, labels, tables.places)
    draw(result, picture)
    if not arguments.quiet:
        print(report(model, result, checks=not arguments.no_checks))
        print(f"\nWritten: {output} (posterior), {labels} (labels), {picture} (picture)")
    if interrupted:
        drawn = result["posterior"].sizes
        print(
            f"bayesfuse: interrupted; written: {drawn['chain']} chains of {drawn['draw']} draws",
            file=sys.stderr,
        )
    return INTERRUPTED if interrupted else 0


def _model(arguments: argparse.Namespace, tables: Tables) -> LabelModel:
    responses = tables.responses
    settings: dict[str, Any] = {"gold": tables.gold}
    if arguments.raters is not None:
        settings["raters"] = arguments.raters
    if arguments.robust:
        settings["confusion_prior"] = bf.priors.robust(responses.n_classes)
    if tables.sequences is not None:
        if arguments.bio:
            settings |= bf.bio_transitions(responses.classes.tolist())
        return HiddenMarkov(responses, tables.sequences, **settings)
    if tables.graph is not None:
        return MarkovRandomField(responses, tables.graph, edges=arguments.edges, **settings)
    if arguments.model == "latent-group":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoGroupsWarning)  # the report says it
            return LatentGroup(responses, arguments.groups, **settings)
    return DawidSkene(responses, **settings)


def demo(arguments: argparse.Namespace) -> int:
    """Fit the model of Dawid and Skene to their data; draw a picture and print a report."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    picture = arguments.output / "anesthesia.png"
    check_outputs([picture], [])
    print(
        "Five anaesthetists judged how fit 45 patients were for an operation, on a scale from 1\n"
        "to 4; one of them did so three times (Dawid & Skene, 1979). They disagree, and nobody\n"
        "knows the truth. Which class was every patient in, and how good is every anaesthetist?\n"
        "The model of Dawid and Skene answers both questions from the pattern of disagreement.\n"
    )
    model = DawidSkene(bf.datasets.anesthesia())
    result, interrupted = _sample(model, random_seed=1979)
    draw(result, picture)
    print(report(model, result))
    print(f"\nPicture: {picture}")
    return INTERRUPTED if interrupted else 0


def _sample(model: pm.Model, quiet: bool = False, **kwargs: Any) -> tuple[xr.DataTree, bool]:
    """Return the posterior, and whether the user cut it short."""
    watched = kwargs.get("sampler") != "nuts"  # most implementations of NUTS take no callback
    with _Interruption(patient=watched) as interruption:
        if watched:
            kwargs["callback"] = interruption.end_chain
        try:
            result = bf.sample(
                model,
                progressbar=sys.stdout.isatty() and not quiet,
                quiet=quiet,
                compute_convergence_checks=False,  # the report has them
                **kwargs,
            )
        except ValueError as error:
            # a chain that was ended while it was tuned holds no draws, which PyMC calls an error
            if interruption.seen and not isinstance(error, ModelError):
                raise KeyboardInterrupt from None
            raise
    return result, interruption.seen


class _Interruption:
    """Ctrl-C ends all chains at once: PyMC ends the one that runs and goes on with the next.

    A patient one waits for the draw under way to be finished and recorded, unless asked twice.
    """

    def __init__(self, patient: bool) -> None:
        self.patient, self.seen = patient, False

    def __enter__(self) -> _Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        again, self.seen = self.seen, True
        if again or not self.patient:
            raise KeyboardInterrupt

    def end_chain(self, trace: Any, draw: Any) -> None:
        if self.seen:
            raise KeyboardInterrupt


COMMANDS = {"fit": fit, "demo": demo}
"""What is done, by what it is called: from the arguments to an exit status."""
