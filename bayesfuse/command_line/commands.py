"""The commands: fit a model to a user's tables, or to example data."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse.command_line.answer import answer
from bayesfuse.command_line.console import is_terminal, say, tell
from bayesfuse.command_line.files import check_inputs, check_outputs, write_netcdf
from bayesfuse.command_line.outputs import check_output, check_picture, draw, write_labels
from bayesfuse.command_line.report import report
from bayesfuse.command_line.steps import Interruption, Step, carry_out
from bayesfuse.command_line.tables import Tables, read_tables
from bayesfuse.errors import ModelError, NoGroupsWarning
from bayesfuse.inference.plan import make_plans
from bayesfuse.models import (
    DawidSkene,
    HiddenMarkov,
    ItemTypes,
    LabellingFunctions,
    LatentGroup,
    MarkovRandomField,
)
from bayesfuse.pymc.model import LabelModel, observed
from bayesfuse.results.storage import choose

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""

LARGE = 200_000_000
"""Bytes of draws above which one in so many is kept, unless --thin is given."""


def fit(arguments: argparse.Namespace) -> int:
    """Carry out ``fit``: an answer from several models, or one model."""
    if arguments.model is not None:
        return fit_one(arguments)
    fused = answer(arguments)
    return INTERRUPTED if fused.attrs["interrupted"] else 0


def fit_one(arguments: argparse.Namespace) -> int:
    """Fit one model to a user's tables; write posterior, labels and plot, and print a report."""
    output: Path = arguments.output
    check_output(output)
    labels: Path = arguments.labels or output.with_name(f"{output.stem}-labels.csv")
    picture: Path = arguments.picture or output.with_suffix(".png")
    given = arguments.responses, arguments.items, arguments.gold, arguments.graph
    inputs = [path for path in given if path is not None]
    check_inputs(inputs)
    check_outputs([output, labels, picture], inputs)
    check_picture(picture)
    tables = read_tables(arguments)
    model = _model(arguments, tables)
    stored = choose(
        model,
        [observed(model)[1]],
        (arguments.chains, arguments.draws),
        precision=arguments.precision,
        thin=arguments.thin,
        log_likelihood=None,
        most=LARGE,
    )

    with Interruption() as interruption:
        result = _sample(
            model,
            interruption,
            draws=arguments.draws,
            chains=arguments.chains,
            sampler=arguments.sampler,
            sweeps=arguments.sweeps,
            thin=stored.thin,
            precision=stored.precision,
            log_likelihood=stored.log_likelihood,
            random_seed=arguments.seed,
            quiet=arguments.quiet,
        )

        def print_report() -> None:
            say(report(model, result, checks=not arguments.no_checks))
            if arguments.thin is None and stored.thin > 1:
                say(
                    f"\nOne draw in {stored.thin} was kept, so that {output} takes about "
                    f"{stored.size / 1e6:.0f} MB. --thin 1\nkeeps all of them."
                )

        def save_labels() -> None:
            write_labels(result, model, labels, tables.places)

        # NetCDF after the labels: it takes most of the disk
        steps = [
            Step("labels", save_labels, labels, needed=True),
            *([] if arguments.quiet else [Step("the report", print_report)]),
            Step("posterior", lambda: write_netcdf(result, output), output, needed=True),
            Step("picture", lambda: draw(result, picture), picture),
        ]
        written = carry_out(steps, interruption)
        if not arguments.quiet:
            say(f"\nWritten: {', '.join(written)}")
    if not interruption.seen:
        return 0
    drawn = result["posterior"].sizes
    tell(f"bayesfuse: interrupted; written: {drawn['chain']} chains of {drawn['draw']} draws")
    return INTERRUPTED


def _model(arguments: argparse.Namespace, tables: Tables) -> LabelModel:
    responses = tables.responses
    settings: dict[str, Any] = {"gold": tables.gold}
    if arguments.raters is not None:
        settings |= {"raters": arguments.raters, "pooled": arguments.pooled}
    if arguments.robust:
        settings["confusion_prior"] = bf.priors.robust(responses.n_classes)
    if tables.sequences is not None:
        if arguments.bio:
            settings |= bf.bio_transitions(responses.classes.tolist())
        return HiddenMarkov(responses, tables.sequences, **settings)
    if tables.graph is not None:
        return MarkovRandomField(responses, tables.graph, edges=arguments.edges, **settings)
    if arguments.model == "item-types":
        return ItemTypes(responses, types=arguments.types, trust=arguments.trust, **settings)
    if arguments.model == "labelling-functions":
        return LabellingFunctions(responses, arguments.class_shares, **settings)
    if arguments.model == "latent-group":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoGroupsWarning)  # stated in the report
            return LatentGroup(responses, arguments.groups, **settings)
    return DawidSkene(responses, **settings)


def demo(arguments: argparse.Namespace) -> int:
    """Fit the model of Dawid and Skene to their data; write a plot and print a report."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    picture = arguments.output / "anesthesia.png"
    check_outputs([picture], [])
    say(
        "Five anaesthetists judged the fitness of 45 patients for an operation, on a scale from\n"
        "1 to 4; one of them did so three times (Dawid & Skene, 1979). They disagree, and the\n"
        "truth is unknown. The model of Dawid and Skene infers the class of every patient and\n"
        "the accuracy of every anaesthetist from their disagreement.\n"
    )
    model = DawidSkene(bf.datasets.anesthesia())
    with Interruption() as interruption:
        result = _sample(model, interruption, random_seed=1979)
        steps = [
            Step("the report", lambda: say(report(model, result))),
            Step("picture", lambda: draw(result, picture), picture),
        ]
        for written in carry_out(steps, interruption):
            say(f"\nWritten: {written}")
    return INTERRUPTED if interruption.seen else 0


def _sample(
    model: pm.Model, interruption: Interruption, quiet: bool = False, **kwargs: Any
) -> xr.DataTree:
    """Return the posterior, or the draws made until Ctrl-C."""
    # most implementations of NUTS take no callback, and Gibbs chains need none
    watched = kwargs.get("sampler") != "nuts" and not all(
        p.whole for p in make_plans(model).values()
    )
    if watched:
        interruption.wait(1)  # so that the current draw is completed and recorded
        kwargs["callback"] = interruption.end_chain
    try:
        return bf.sample(
            model,
            progressbar=is_terminal() and not quiet,
            quiet=quiet,
            compute_convergence_checks=False,  # part of the report
            **kwargs,
        )
    except ValueError as error:
        # PyMC raises an error if a chain ended during tuning, without draws
        if interruption.seen and not isinstance(error, ModelError):
            raise KeyboardInterrupt from None
        raise


COMMANDS = {"fit": fit, "demo": demo}
"""Commands by name, from arguments to exit status."""
