"""The commands: fit a model to a user's tables, or to example data."""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer.budget import Budget
from bayesfuse.answer.progress import Progress
from bayesfuse.command_line import INTERRUPTED, CommandError
from bayesfuse.command_line.console import Step, carry_out, is_terminal, say, tell
from bayesfuse.command_line.files import STDOUT, check_outputs, replacing
from bayesfuse.command_line.outputs import draw, write_asked, write_labels, write_netcdf
from bayesfuse.command_line.report import report, shares_by
from bayesfuse.command_line.resume import last_points, lengthened
from bayesfuse.command_line.tables import Tables
from bayesfuse.inference.plan import make_plans
from bayesfuse.numerics.interruption import Interruption
from bayesfuse.pymc.model import LabelModel, observed
from bayesfuse.results.storage import choose

LARGE = 200_000_000  # bytes of draws above which not all are kept, unless --thin is given


DRAWS = 1000  # draws of each chain of one model

ANSWER = "bayesfuse: interrupted; what is complete will be written"  # at once, to Ctrl-C


def fit(arguments: argparse.Namespace, tables: Tables) -> int:
    """Average several models, or fit one; write labels and what was asked for, print a report."""
    groups = tables.groups
    model = None if arguments.model is None else _model(arguments, tables)
    # stdout may hold the labels
    show = partial(print, file=sys.stderr, flush=True) if arguments.labels == STDOUT else say
    result: xr.DataTree
    budget = Budget(arguments.time or math.inf, not arguments.no_checks)
    with Interruption(ANSWER) as interruption:
        if model is None:
            result, note = _fuse(arguments, tables), ""
        else:
            result, note = _fit_one(model, arguments, interruption, budget)

        def print_report() -> None:
            if model is None:
                show(result.overview())
            else:
                unchecked = arguments.no_checks or interruption.seen
                show(report(model, result, None if unchecked else budget))
            if groups is not None:
                show(f"\n{shares_by(result, groups, arguments.by)}")
            if note:
                show(note)

        def write_page() -> None:
            with replacing(arguments.report) as new:
                result.report(new)

        def save_labels() -> None:
            write_labels(result, model, arguments.labels, tables.places)

        steps = [Step("labels", save_labels, arguments.labels, needed=True)]
        if not arguments.quiet:
            steps.append(Step("the report", print_report))
        if (page := arguments.report) is not None:
            steps.append(Step("report", write_page, page))
        if (path := arguments.ask_file) is not None:
            steps.append(Step("items to label", lambda: write_asked(result, arguments, path), path))
        if (output := arguments.output) is not None:
            # after the labels: it takes most of the disk
            steps.append(Step("posterior", lambda: write_netcdf(result, output), output, True))
        if (picture := arguments.picture) is not None and not interruption.seen:
            steps.append(Step("picture", lambda: draw(result, picture), picture))
        written = [each for each in carry_out(steps, interruption) if not each.startswith("- ")]
        if written and not arguments.quiet:
            show(f"\nWritten: {', '.join(written)}")
    if model is None:
        return INTERRUPTED if result.attrs["interrupted"] or interruption.seen else 0
    if not interruption.seen:
        return 0
    drawn = result["posterior"].sizes
    tell(f"bayesfuse: interrupted; written: {drawn['chain']} chains of {drawn['draw']} draws")
    return INTERRUPTED


def _fuse(arguments: argparse.Namespace, tables: Tables) -> bf.Fused:
    """Return the average of the models that are sensible for the tables."""
    checks = False if arguments.no_checks else None
    chosen = {"minutes": arguments.time, "draws": arguments.draws, "checks": checks}
    with warnings.catch_warnings():
        warnings.simplefilter("always", bf.errors.QuickAnswerWarning)
        warnings.showwarning = lambda message, *_: tell(f"bayesfuse: {message}")
        return bf.fuse(
            tables.responses,
            sequences=tables.sequences,
            graph=tables.graph,
            gold=tables.gold,
            random_seed=arguments.seed,
            progressbar=not arguments.quiet,
            **{name: value for name, value in chosen.items() if value is not None},
        )


def _fit_one(
    model: LabelModel, arguments: argparse.Namespace, interruption: Interruption, budget: Budget
) -> tuple[xr.DataTree, str]:
    """Return the posterior of one model, and a note if draws were left out to save space."""
    draws, before = DRAWS if arguments.draws is None else arguments.draws, None
    if arguments.resume:
        before = bf.load(arguments.output)
        chains, arguments.thin = before["posterior"].sizes["chain"], before.attrs["thin"]
        if arguments.chains != chains:
            tell(f"bayesfuse: --resume continues the {chains} chains in {arguments.output}")
        arguments.chains = chains
    stored = choose(
        model,
        [observed(model)[1]],
        (arguments.chains, draws),
        precision=arguments.precision,
        thin=arguments.thin,
        log_likelihood=None,
        most=LARGE,
    )
    result = _sample(
        model,
        interruption,
        budget,
        before=before,
        draws=draws,
        chains=arguments.chains,
        sampler=arguments.sampler,
        sweeps=arguments.sweeps,
        thin=stored.thin,
        precision=stored.precision,
        log_likelihood=stored.log_likelihood,
        random_seed=arguments.seed,
        quiet=arguments.quiet,
    )
    if arguments.thin is not None or stored.thin == 1:
        return result, ""
    return result, (
        f"\nOne draw in {stored.thin} was kept, so that {arguments.output} takes about "
        f"{stored.size / 1e6:.0f} MB. --thin 1\nkeeps all of them."
    )


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
        return bf.models.HiddenMarkov(responses, tables.sequences, **settings)
    if tables.graph is not None:
        return bf.models.MarkovRandomField(
            responses, tables.graph, edges=arguments.edges, **settings
        )
    if arguments.model == "item-types":
        settings |= {name: getattr(arguments, name) for name in ("consensus", "guesses", "trust")}
        return bf.models.ItemTypes(responses, **settings)
    if arguments.model == "labelling-functions":
        return bf.models.LabellingFunctions(responses, arguments.class_shares, **settings)
    if arguments.model == "latent-group":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bf.errors.NoGroupsWarning)  # stated in the report
            return bf.models.LatentGroup(responses, arguments.groups, **settings)
    return bf.models.DawidSkene(responses, **settings)


def demo(arguments: argparse.Namespace, _: None) -> int:
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
    model = bf.models.DawidSkene(bf.datasets.anesthesia())
    budget = Budget(math.inf)
    with Interruption(ANSWER) as interruption:
        result = _sample(model, interruption, budget, random_seed=1979)
        steps = [
            Step("the report", lambda: say(report(model, result, budget))),
            Step("picture", lambda: draw(result, picture), picture),
        ]
        for written in carry_out(steps, interruption):
            say(f"\nWritten: {written}")
    return INTERRUPTED if interruption.seen else 0


def _sample(
    model: pm.Model,
    interruption: Interruption,
    budget: Budget,
    *,
    before: xr.DataTree | None = None,
    quiet: bool = False,
    draws: int = DRAWS,
    chains: int = 4,
    **kwargs: Any,
) -> xr.DataTree:
    """Return the posterior, or the draws made until the time ends or Ctrl-C."""
    options = kwargs | {"quiet": quiet, "compute_convergence_checks": False}  # of the report
    plans = make_plans(model).values()
    if kwargs.get("sampler") == "nuts":  # most implementations take no callback
        if math.isfinite(budget.seconds) or before is not None:
            raise CommandError("--time and --resume are for Gibbs chains. Got: --sampler nuts")
        return bf.sample(
            model, draws, chains=chains, progressbar=is_terminal() and not quiet, **options
        )
    tune, thin = bf.LabelGibbs.default_tune_steps, kwargs.get("thin") or 1
    if not all(plan.whole for plan in plans):
        interruption.wait(1)  # so that the current draw is completed and recorded
        tune, thin = 1000, 1  # of NUTS
    if before is not None:
        tune = 0
    ended, share = False, 1.0  # of the time, for chains that go on one after the other
    with Progress(not quiet) as progress:
        count = progress.count("sampling", chains * (-(-tune // thin) + -(-draws // thin)))

        def advance(made: int) -> None:
            nonlocal ended
            count(made)
            ended = budget.left(share) < 0
            if interruption.seen or ended:
                raise KeyboardInterrupt

        options["progressbar"] = advance
        try:
            if before is None:
                return bf.sample(model, draws, chains=chains, **options)
            seeds = np.random.SeedSequence(options.pop("random_seed", None)).spawn(chains)
            more = []
            for at, point in enumerate(last_points(before, model)):
                share = (at + 1) / chains
                options |= {"start": point, "random_seed": int(seeds[at].generate_state(1)[0])}
                more.append(bf.sample(model, draws, tune=0, chains=1, **options))
        except (KeyboardInterrupt, ValueError) as error:
            # PyMC raises ValueError if a chain ended during tuning, without draws
            if isinstance(error, bf.errors.ModelError) or not (interruption.seen or ended):
                raise
            if interruption.seen:
                raise KeyboardInterrupt from None
            raise CommandError(
                f"no draw could be made in this time; give more --time. Got: {budget.seconds:g} s"
            ) from None
    return lengthened(model, before, more)


def doctor(_: argparse.Namespace, tables: Tables) -> int:
    """Say what a table can tell."""
    say(str(bf.checks.identifiability(tables.responses, tables.gold)))
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace, Any], int]] = {
    "fit": fit,
    "doctor": doctor,
    "demo": demo,
}  # commands by name, from arguments to exit status
