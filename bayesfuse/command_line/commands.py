"""The commands: fit models to tables, or to example data; check what a table identifies."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse.checks.advice import Advice
from bayesfuse.command_line import INTERRUPTED, CommandError
from bayesfuse.command_line.arguments import in_options, parse
from bayesfuse.command_line.console import Step, carry_out, write_stderr, write_stdout
from bayesfuse.command_line.files import STDIN, STDOUT
from bayesfuse.command_line.label_sets import write_sets
from bayesfuse.command_line.outputs import (
    REQUESTED,
    draw,
    n_draws,
    report,
    write_asked,
    write_labels,
    write_netcdf,
    write_raters,
    write_report,
    write_spans,
)
from bayesfuse.command_line.tables import Tables
from bayesfuse.data.column_roles import KNOWN
from bayesfuse.data.describing import paragraph
from bayesfuse.ensemble.fused import cost_sentence
from bayesfuse.ensemble.schedule import DRAWING, Progress, Schedule
from bayesfuse.inference.plan import make_plans
from bayesfuse.numerics.threads import Interruption, TimeIsUp, deadline, hold
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.storage import choose_storage

MAX_BYTES = 200_000_000  # bytes of draws above which not all are kept, unless --thin is given
DRAWS = 1000  # draws of each chain of one model
TEXTS = (
    "headline",
    "opening",
    "why_wide",
    "sources",
    "limits",
    "prior",
    "notes",
    "known",
    "checks",
    "advice",
)
"""Attributes of an answer that are sentences, which may name options."""

ANESTHESIA = (
    "Five anaesthetists judged the fitness of 45 patients for an operation, on a scale from 1 to "
    "4; one of them did so three times (Dawid & Skene, 1979). They disagree, and the truth is "
    "unknown. The model of Dawid and Skene infers the class of every patient and the accuracy of "
    "every anaesthetist from their disagreement."
)
ANSWER = (
    "bayesfuse: interrupted; what is complete, if anything, will be written"  # at once, to Ctrl-C
)


def fit(arguments: argparse.Namespace, tables: Tables) -> int:
    """Average several models, or fit one; write the requested files, and print a report."""
    groups, costs = tables.groups, arguments.costs
    if costs is not None:  # refused before the fit, which may take long
        bf.decisions.best_labels(bf.vote_shares(tables.responses), costs)
    model = None if arguments.model is None else _model(arguments, tables)
    # stdout may hold the labels
    show = (
        partial(print, file=sys.stderr, flush=True) if arguments.labels == STDOUT else write_stdout
    )
    result: xr.DataTree
    schedule = Schedule(arguments.time or math.inf, not arguments.no_checks)
    with Interruption(ANSWER) as interruption:
        if model is None:
            result, note = _fuse(arguments, tables), ""
        else:
            result, note = _fit_one(model, arguments, interruption, schedule)
        early = interruption.requested

        def print_report(_: Path) -> None:
            if model is None:
                show(result.overview(costs))
            else:
                show(f"{paragraph(tables.read)}\n")
                if early:
                    show("Interrupted: fewer draws than asked, and no predictive checks.\n")
                checked_until = None if arguments.no_checks or early else schedule
                show(report(model, result, checked_until, tables.gold))
                if costs is not None:
                    show(paragraph(cost_sentence(result, costs)))
            if groups is not None:
                show(f"\n{bf.class_shares(result, groups, random_seed=arguments.seed or 0)}")
            if note:
                show(note)

        picture = None if interruption.requested else arguments.picture
        labels = partial(write_labels, result, model, tables, costs)
        if arguments.label_sets is not None:
            labels = partial(write_sets, result, tables, arguments.label_sets)
        steps = [
            Step("labels", labels, arguments.labels, needed=True),
            Step("the report", print_report, None if arguments.quiet else STDOUT),
            Step("raters", partial(write_raters, result), arguments.rater_table),
            Step("report", partial(write_report, result, tables), arguments.report),
            Step("spans", partial(write_spans, result, tables.sequences), arguments.spans),
            Step(
                "items to label",
                partial(write_asked, result, tables, arguments),
                arguments.ask_file,
            ),
            # after the labels: it takes most of the disk
            Step("posterior", partial(write_netcdf, result), arguments.output, needed=True),
            Step("picture", partial(draw, result), picture),
        ]
        written = carry_out(steps, interruption)
        if written and not arguments.quiet:
            show(f"\nWritten: {', '.join(written)}")
    if model is not None and interruption.requested:
        n_chains, go_on = result["posterior"].sizes["chain"], ""
        if n_draws(result) < result.attrs[REQUESTED] and _can_resume(result, arguments):
            go_on = "; continue with --resume" if arguments.output else ""
        write_stderr(
            f"bayesfuse: interrupted; written: {n_chains} chains of {n_draws(result)} draws{go_on}"
        )
    early = interruption.requested or (model is None and result.attrs["interrupted"])
    return INTERRUPTED if early else 0


def _fuse(arguments: argparse.Namespace, tables: Tables) -> bf.Fused:
    """Return the average of the models that are sensible for the tables."""
    checks = False if arguments.no_checks else None
    chosen = {"minutes": arguments.time, "draws": arguments.draws, "checks": checks}
    with warnings.catch_warnings():
        warnings.simplefilter("always", bf.errors.QuickAnswerWarning)
        fused = bf.fuse(
            tables.responses,
            sequences=tables.sequences,
            graph=tables.graph,
            gold=tables.gold,
            random_seed=arguments.seed,
            ordered=arguments.ordered,
            progressbar=not arguments.quiet,
            **{name: value for name, value in chosen.items() if value is not None},
        )
    names = [tables.columns.get(role, role) for role in KNOWN]
    fused.attrs |= {name: in_options(fused.attrs[name]) for name in TEXTS if name in fused.attrs}
    fused.attrs |= {
        "headline": f"{tables.read} {fused.headline}",
        "read": tables.read,
        "columns": names,
        "source": "" if arguments.responses == STDIN else arguments.responses.name,
        "command": arguments.command_line,
    }
    return fused


def _fit_one(
    model: bf.build.LabelModel,
    arguments: argparse.Namespace,
    interruption: Interruption,
    schedule: Schedule,
) -> tuple[xr.DataTree, str]:
    """Return the posterior of one model, and a note if draws were left out to save space."""
    draws, before = DRAWS if arguments.draws is None else arguments.draws, None
    requested = draws
    if arguments.resume:
        try:
            before = bf.load(arguments.output)
            _ = isinstance(before, bf.Fused) or observation_of(before, model)  # may raise
        except bf.errors.ModelError as error:
            raise CommandError(f"--resume {arguments.output}: {in_options(str(error))}") from error
        if isinstance(before, bf.Fused):
            raise CommandError(
                "--resume continues one model: an answer of several models ends with its fits. "
                f"Got: {arguments.output}, of {'; '.join(before.attrs['models'])}"
            )
        chains, arguments.thin = before["posterior"].sizes["chain"], before.attrs["thin"]
        if arguments.chains != chains or arguments.thin > 1:
            where = f"{arguments.output}, which hold one draw in {arguments.thin}"
            write_stderr(f"bayesfuse: --resume continues the {chains} chains in {where}")
        arguments.chains = chains
        draws, requested = _draws_to_add(before, arguments.draws)
    options: dict[str, Any] = {"sweeps": arguments.sweeps, "random_seed": arguments.seed}
    stored = choose_storage(
        model,
        (arguments.chains, draws),
        precision=arguments.precision,
        thin=arguments.thin,
        max_bytes=MAX_BYTES,
    )
    if before is None:
        options |= {"thin": stored.thin, "precision": stored.precision}
        options["log_likelihood"] = stored.log_likelihood
    result = _sample(model, interruption, schedule, before, draws, arguments, **options)
    result.attrs[REQUESTED] = requested
    note = "" if interruption.requested else _note_on_time(result, requested, arguments)
    if arguments.thin is not None or stored.thin == 1:
        return result, note
    share = result["posterior"].sizes["draw"] / -(-draws // stored.thin)
    return result, note + (
        f"\nOne draw in {stored.thin} was kept, so that the posterior takes about "
        f"{share * stored.size / 1e6:.0f} MB. --thin 1\nkeeps all of them."
    )


def _note_on_time(result: xr.DataTree, requested: int, arguments: argparse.Namespace) -> str:
    """Return in words that the time ended before all draws were made, and how to go on."""
    if (present := n_draws(result)) >= requested:
        return ""
    go_on = "give more --time"
    if _can_resume(result, arguments):
        go_on += ", or continue with --resume"
        go_on += "" if arguments.output else ", which needs --output FILE.nc"
    return f"\nThe time ended after {present:,} of {requested:,} draws of each chain: {go_on}."


def _can_resume(result: xr.DataTree, arguments: argparse.Namespace) -> bool:
    return result.attrs["sampler"] == "gibbs" and arguments.graph is None


def _draws_to_add(before: xr.DataTree, more: int | None) -> tuple[int, int]:
    """Return the draws of each chain to add to a result, and how many there should be then."""
    present = n_draws(before)
    if more is None:
        more = before.attrs.get(REQUESTED, DRAWS) - present
        more = more if more > 0 else DRAWS
    return more, present + more


def _model(arguments: argparse.Namespace, tables: Tables) -> bf.build.LabelModel:
    settings: dict[str, Any] = {"gold": tables.gold}
    if tables.populations is not None:
        settings["populations"] = tables.populations
    for name in ("raters", "groups"):
        if getattr(arguments, name) is not None:
            settings[name] = getattr(arguments, name)
    if arguments.robust:
        settings["confusion_prior"] = bf.priors.robust(tables.responses.n_classes)
    structures = [
        structure for structure in (tables.sequences, tables.graph) if structure is not None
    ]
    kind = getattr(bf.models, arguments.model.title().replace("-", ""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.errors.NoGroupsWarning)  # stated in the report
        return kind(tables.responses, *structures, **settings)


def demo(arguments: argparse.Namespace, _: None) -> int:
    """Fit the model of Dawid and Skene to their data; write labels and a plot, print a report."""
    arguments.output.mkdir(parents=True, exist_ok=True)
    files = {"--labels": "anesthesia-labels.csv", "--picture": "anesthesia.png"}
    outputs = (f"{option}={arguments.output / name}" for option, name in files.items())
    demo_arguments = parse(["fit", "-", "--model=dawid-skene", "--seed=1979", *outputs])
    return fit(demo_arguments, Tables(bf.datasets.anesthesia(), ANESTHESIA))


def _sample(
    model: pm.Model,
    interruption: Interruption,
    schedule: Schedule,
    before: xr.DataTree | None,
    draws: int,
    arguments: argparse.Namespace,
    **options: Any,
) -> xr.DataTree:
    """Return the posterior, or the draws made until the time ends or Ctrl-C."""
    options |= {"quiet": arguments.quiet, "compute_convergence_checks": False}  # of the report
    plans, chains = make_plans(model).values(), arguments.chains
    tune, thin = bf.build.LabelGibbs.default_tune_steps, options.get("thin", arguments.thin)
    if not all(plan.is_fully_conjugate for plan in plans):
        hold()  # so that the current draw is completed and recorded
        tune, thin = 1000, 1  # of NUTS
    if before is None:
        options["chains"] = chains
    else:
        tune, options["resume"] = 0, before
    is_late = False
    with Progress(not arguments.quiet) as progress:
        count = progress.count("sampling", chains * (-(-tune // thin) + -(-draws // thin)))

        def advance(made: int) -> None:
            nonlocal is_late
            count(made)
            is_late = schedule.left(DRAWING) < 0
            if interruption.requested or is_late:
                raise TimeIsUp

        try:
            with deadline(schedule.left()):
                return bf.sample(model, draws, progressbar=advance, **options)
        except (KeyboardInterrupt, ValueError) as error:
            # PyMC raises ValueError if a chain ended during tuning, without draws
            is_refusal = isinstance(error, bf.errors.ModelError)
            if is_refusal and before is not None:
                raise CommandError(f"--resume: {in_options(str(error))}") from error
            if is_refusal or not (interruption.requested or is_late):
                raise
            if interruption.requested:
                raise KeyboardInterrupt from None
            raise CommandError(
                f"no draw could be made in this time; give more --time. Got: {schedule.seconds:g} s"
            ) from None
        finally:
            hold(False)


def doctor(_: argparse.Namespace, tables: Tables) -> int:
    """Print which questions a table can answer."""
    write_stdout(f"{paragraph(tables.read)}\n")
    table = bf.checks.identifiability(tables.responses, tables.gold, populations=tables.populations)
    in_words = [Advice(in_options(line), line.kind) for line in table.problems]
    write_stdout(str(replace(table, problems=in_words)))
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace, Any], int]]
COMMANDS = {"fit": fit, "doctor": doctor, "demo": demo}  # return the exit status
