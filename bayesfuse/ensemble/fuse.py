"""``bf.fuse``: one answer from several models."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import xarray as xr

from bayesfuse.checks import identifiability
from bayesfuse.checks.repeats import collapse_repeats, in_words, part_of
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.graph import Graph
from bayesfuse.data.known import gold_labels, read_covariates
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tables import Table, read_table, require_few_classes
from bayesfuse.ensemble import advice, known, narrative
from bayesfuse.ensemble.average import (
    FEW_PREDICTED,
    PREDICTED,
    compare,
    mixture,
    of_all_items,
    weigh,
)
from bayesfuse.ensemble.candidates import Inputs, candidates, is_rules, quick
from bayesfuse.ensemble.evidence import ALONG, correlation_along, examine
from bayesfuse.ensemble.explanation import code_of_answer
from bayesfuse.ensemble.fused import Fused
from bayesfuse.ensemble.schedule import (
    FITS,
    NO_TIME,
    NOT_TRIED,
    Finding,
    Fit,
    Progress,
    Schedule,
    fit_quickly,
    sample_all,
    was_interrupted,
)
from bayesfuse.errors import (
    LargeResultWarning,
    ModelError,
    require_choice,
    require_count,
    require_flag,
    require_kind,
    require_number,
    require_positive,
    require_seed,
    takes_seed,
)
from bayesfuse.numerics.threads import Interruption
from bayesfuse.pymc.model import observed
from bayesfuse.raters.consensus import Consensus
from bayesfuse.raters.dependence import Groups
from bayesfuse.results.difficulty import difficulty, with_labels
from bayesfuse.results.rater_table import VOTES

APPROXIMATE = (
    "An approximation in seconds, whose intervals are too narrow: more minutes= (--time) draw from "
    "the posterior."
)
HASTE = 0.8  # share of the time after which fewer draws predict labels
MINUTES = 3.0  # default of the time that fits may take

PART, PART_INDEPENDENT, LEAST_PART = (60_000, 100_000), 200_000, 10_000
"""Responses that models are fitted to in this time: a tenth of them, between these (more by models
of independent errors, which are quicker), and at least; other labels are predicted."""


@takes_seed
def fuse(
    responses: Table,
    *,
    item: str = "item",
    rater: str = "rater",
    label: str = "label",
    missing: Literal["error", "drop"] = "error",
    positive: Any = None,
    normalise: bool = False,
    sequences: Sequences | None = None,
    graph: Graph | None = None,
    groups: Any = None,
    covariates: Any = None,
    gold: Any = None,
    gold_error: float = 0.0,
    ordered: bool | None = None,
    minutes: float = MINUTES,
    draws: int | None = None,
    checks: bool = True,
    random_seed: Any = None,
    progressbar: bool = True,
) -> Fused:
    """Fit the few models that are sensible for a table, check and average them.

    Parameters
    ----------
    responses : Responses, DataFrame, array, list of rows, or path of a CSV or Parquet file
        A DataFrame with a column ``rater`` or ``label``, or of another usual name such as
        ``worker`` or ``answer``, has one row per response. Any other table has one row per item
        (named by the column ``item``, else the index) and one column per rater; missing are NaN,
        None, "", "NA", "skip", "ignore" and, among numbers, −1.
    item, rater, label : str
        Columns of the DataFrame, as in :meth:`bayesfuse.Responses.from_long`.
    missing : {"error", "drop"}, default "error"
        What to do with rows of a long table that have no label.
    positive, normalise : optional
        The positive one of two classes, and whether spellings of a class are one, as in
        :meth:`bayesfuse.Responses.from_long`. Known labels then may be spelt in any way.
    sequences, graph : Sequences, Graph, optional
        Items are in sequence, such as words, or have neighbours, such as pixels.
    groups, covariates : optional
        Raters share sources, and what is known of items, as in
        :class:`bayesfuse.models.LatentGroup` and :class:`bayesfuse.models.ItemTypes`.
    gold : mapping of item name to class name, DataFrame or path, optional
        Known labels, a DataFrame or CSV file with the columns ``item`` and ``label``; items without
        a label count as unknown. :class:`bayesfuse.models.WeightedVotes` estimates from them the
        weights of raters and models, which are fitted without them except on graphs and for tables
        of counts. A known tag I-X that continues no span is read as B-X.
    gold_error : float, default 0
        Probability that a known label is wrong, at most .5, not on graphs.
    ordered : bool, optional
        Whether classes are grades. Default: whether text labels were given in an order; numbers may
        be codes.
    minutes : float, default 3
        Maximum time, checks included; those for which no time is left are named in the answer.
    draws : int, optional
        Maximum number of draws of each of four chains per model. Default 250 or 350.
    checks : bool, default True
    random_seed : int, Generator, optional
        The same seed gives the same answer, unless time runs out.
    progressbar : bool, default True
        Show progress on stderr: a bar on terminals and in notebooks, else a line every ten seconds.

    Returns
    -------
    Fused
        After an interruption, the average of the complete fits.

    Raises
    ------
    ModelError, ResponsesError
        Structures that no model combines; known labels of unknown items or classes.

    Warns
    -----
    QuickAnswerWarning
        No model was fitted (no time, or none allows the data), so that labels are vote shares.

    Notes
    -----
    The guide to ``bf.fuse`` lists the models of every input and their weights.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> fused = bf.fuse(bf.datasets.anesthesia(), minutes=1, random_seed=1, progressbar=False)
    >>> fused.attrs["models"]
    ['consensus', 'even guesses', 'competing classes', 'vote shares']
    >>> fused.labels().shape
    (45, 4)
    """
    require_flag("progressbar", progressbar)
    require_flag("checks", checks)
    schedule = Schedule(require_positive("minutes", minutes), checks)
    if draws is not None:
        require_count("draws", draws)
    if ordered is not None:
        require_flag("ordered", ordered)
    if sequences is not None:
        require_kind("sequences", sequences, Sequences)
    reading: dict[str, Any] = {"item": item, "rater": rater, "label": label}
    reading |= {"positive": positive, "normalise": normalise}
    table, read, calls = read_table(responses, **reading, missing=missing)
    require_few_classes(table)
    if ordered and read and not table.ordered:
        raise ModelError(
            "Text has only alphabetical order: for ordered=True give the labels as an ordered "
            "categorical, or bf.Responses with classes= from the lowest to the highest. Got: "
            f"classes {table.classes.tolist()}."
        )
    gold = read_gold(gold, table, item, label)
    if gold is not None:
        gold_labels(table, gold)  # before repeated names of a Series are lost
        gold = dict(gold.items())
    seed = _seed(random_seed)
    has_groups = groups is not None and not isinstance(groups, str)  # may name the copies
    copies = not has_groups and not is_rules(table)
    table, repeats = collapse_repeats(table, copies=copies)
    if len(repeats):
        calls += f"\nresponses, repeats = bf.checks.collapse_repeats(responses, copies={copies})"
    # also where no time is left for a model that would refuse them
    if covariates is not None:
        read_covariates(table, covariates)
    if isinstance(groups, str):
        require_choice("groups", groups, "moments", "posterior")
    elif groups is not None:
        Groups.read(groups, table)
    structure = sequences, graph, groups, covariates
    inputs = Inputs(table, *structure, gold, ordered, read=read, calls=calls)
    if sequences is None and graph is None:
        inputs = replace(inputs, limits=identifiability(table, gold, inputs.user_groups).problems)
    inputs = replace(inputs, limits=[*inputs.limits, *in_words(repeats)])
    candidates(inputs)  # raises where no model fits the arguments
    inputs = known.mend_tags(inputs)
    inputs = known.hold_out_gold(inputs, require_number("gold_error", gold_error, most=0.5))
    with Interruption() as interruption, Progress(progressbar) as progress:
        approximate: list[Fit] = []
        small = _part(inputs, minutes, seed)
        with warnings.catch_warnings():
            # a mixture needs a thousand draws at most; `comparison` has the number of those kept
            warnings.simplefilter("ignore", LargeResultWarning)
            if not schedule.is_plenty(small):
                approximate = [Fit(candidate) for candidate in quick(small)]
                fit_quickly(approximate, small, schedule, seed, progress)
            progress.say("comparing raters")
            before = inputs
            if not interruption.requested:
                inputs = schedule.timed(lambda: _examined(before), FITS) or before
            part = _part(inputs, minutes, seed)
            fits = [Fit(candidate.within(draws)) for candidate in candidates(part)]
            sample_all(fits, part, schedule, seed, progress, interruption)
        schedule.interrupted = interruption.requested or bool(was_interrupted(fits))
        if schedule.interrupted:
            for fit in fits:
                fit.outcome = NOT_TRIED if fit.outcome == NO_TIME else fit.outcome
        part = part if any(fit.done for fit in fits) else small
        fits += _needed(approximate, fits, inputs)
        done = {fit.candidate.name: fit for fit in fits if fit.done}
        results = {name: fit.result for name, fit in done.items()}
        # the first press ends what may be left out, a second all
        interruption.wait(0 if interruption.requested else 1)
        if not done:
            alone = xr.Dataset({"weight": ("model", [1.0])}, {"model": [VOTES]})
            return _answer(inputs, inputs, fits, alone, seed, schedule)
        votes = max(fit.candidate.votes for fit in done.values())
        only_best = inputs.rivals or (graph is not None and all(fit.code for fit in done.values()))
        comparison = weigh(results, votes, part.responses, only_best)
        if checks:  # of the models with most weight first, because time may end
            order = comparison.sortby("weight", ascending=False)["model"].values
            first = [done[name] for name in order if name in done]
            _check_all(first, part, seed, schedule, progress, interruption)
        progress.say("averaging")
        fused = _answer(inputs, part, fits, comparison, seed, schedule)
        fused.attrs["interrupted"] |= int(interruption.requested)
        interruption.wait(0)
        if fused.attrs["interrupted"]:
            fused.attrs["headline"] = f"Interrupted, so incomplete. {fused.headline}"
        return fused


def _seed(random_seed: Any) -> int:
    """Return the user's seed, or a drawn one, as a number for the code of the answer."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool):
        require_seed(random_seed)
        return int(random_seed)
    return int(require_seed(random_seed).integers(2**31))


def _examined(inputs: Inputs) -> Inputs:
    """Return the inputs with what the responses show of errors."""
    if not inputs.has_only_labels or (inputs.graph is None and is_rules(inputs.responses)):
        return inputs
    user_groups = inputs.user_groups
    # a property of the table, whatever the seed of the answer
    evidence = examine(inputs.responses, inputs.gold, 0, user_groups)
    if inputs.sequences is not None or user_groups is not None:  # no model has groups and an order
        evidence = replace(evidence, groups={})
        if inputs.sequences is not None:
            along = correlation_along(inputs.responses, inputs.sequences)
            evidence = replace(evidence, correlation=along) if along > ALONG else evidence
        return replace(inputs, evidence=evidence)
    groups = None if inputs.graph is not None else dict(evidence.groups) or None
    return replace(inputs, evidence=evidence, groups=inputs.groups or groups)


def _part(inputs: Inputs, minutes: float, seed: int) -> Inputs:
    """Return the inputs for the items that models are fitted to: a part of very large tables."""
    others = inputs.sequences, inputs.graph, inputs.covariates
    if not inputs.has_only_labels or any(value is not None for value in others):
        return inputs
    tenth = float(np.clip(inputs.responses.n_responses / 10, *PART))
    most = PART_INDEPENDENT if inputs.evidence.independent else tenth
    most = max(int(most * minutes / MINUTES), LEAST_PART)
    part = part_of(inputs.responses, most, np.random.default_rng(seed), inputs.gold or {})
    return replace(inputs, responses=part)


def _check_all(
    fits: list[Fit],
    inputs: Inputs,
    seed: int,
    schedule: Schedule,
    progress: Progress,
    interruption: Interruption,
) -> None:
    """Check every fit while there is time; interrupting ends the checks, not the answer."""
    for fit in fits:
        if not schedule.interrupted:
            progress.say(f"checking: {fit.candidate.name}")
            fit.checks = narrative.of_model(fit.result, fit.model, inputs, seed, schedule)
            schedule.interrupted |= interruption.requested
        if schedule.interrupted:
            fit.checks = [Finding("The checks were interrupted.")]


def _needed(approximate: list[Fit], fits: list[Fit], inputs: Inputs) -> list[Fit]:
    """Return the approximate fits that have a place in the answer, beside sampled ones.

    Those of labels on a graph are rivals; others replace models that time did not allow for.
    """
    done = [fit for fit in approximate if fit.done]
    sampled = [fit for fit in fits if fit.done]
    if inputs.graph is not None:
        return done if not sampled or (inputs.rivals and len(sampled) < len(fits)) else []
    if sampled:
        return []
    return done[-1:] or approximate[:1]


def _answer(
    inputs: Inputs,
    part: Inputs,
    fits: list[Fit],
    weighed: xr.Dataset,
    seed: int,
    schedule: Schedule,
) -> Fused:
    """Return the average of the complete fits and vote shares, of the latter alone if of no fit."""
    done = [fit for fit in fits if fit.done]
    results, table = {fit.candidate.name: fit.result for fit in done}, part.responses
    weights: dict[str, float] = weighed["weight"].to_series().to_dict()
    in_haste = schedule.interrupted or schedule.used() > HASTE * schedule.seconds
    number = FEW_PREDICTED if in_haste else PREDICTED
    averaged = of_all_items(results, weights, inputs, part, seed, number)
    children: dict[str, Any] = {name: group.dataset for name, group in averaged.children.items()}
    worst = {}
    for fit in done:
        error, rhat = narrative.of_labels(fit.result)
        chains = narrative.of_chains(error, rhat) if not fit.code else [Finding(APPROXIMATE)]
        fit.checks = chains + fit.checks
        worst[fit.candidate.name] = error.max(), np.fmax.reduce(rhat)
    children["comparison"] = compare(fits, weighed, worst, inputs)
    held = {name: result for name, result in results.items() if weights[name] > 0.0}
    draws = mixture(held, weights, np.random.default_rng(seed))
    if draws is not None:
        children["posterior"] = draws
    children |= {f"models/{name}": result for name, result in results.items()}
    of_types = (fit for fit in done if isinstance(observed(fit.model)[1].raters, Consensus))
    typed = next(of_types, None)
    if typed is not None and inputs.responses is table:
        source = typed
        hardness = schedule.timed(
            lambda: difficulty(source.result, source.model, draws=narrative.REPLICATED), 1.0
        )
        if hardness is not None:
            children["difficulty"] = hardness
    learnt = known.improve(children, inputs, seed)
    if "difficulty" in children:
        labels = children["label_posterior"]["probability"].transpose("item", "class").values
        children["difficulty"] = with_labels(children["difficulty"], labels, table)
    fused = Fused.from_dict(children)
    headline = narrative.headline(fused, inputs)  # before what time may end
    if done:
        first = done[0]
        more = schedule.timed(
            lambda: advice.one_more_response(first.result, first.model, part), 1.0
        )
        steps = advice.advise(fused, inputs, more or [])
        steps += schedule.timed(lambda: advice.about_raters(fused, inputs.responses), 1.0) or []
        prior = schedule.timed(lambda: advice.of_prior(inputs), 1.0) or []
    else:
        steps, prior = [advice.warn_of_votes(fits, schedule.seconds / 60.0)], []
    notes = narrative.of_part(inputs, part)
    checks = {fit.candidate.name: fit.checks for fit in done}
    fused.attrs = averaged.attrs | {
        "models": list(weights),
        "weights": list(weights.values()),
        "random_seed": seed,
        "interrupted": was_interrupted(fits),
        "headline": headline,
        "limits": "\n".join([*inputs.limits, *prior, *notes]),
        "prior": "\n".join(prior),
        "known": "\n".join(learnt),
        "checks": "\n".join(narrative.together(checks, {type(fit.model).__name__ for fit in done})),
        "advice": "\n".join(steps),
        "advice_calls": "\n".join(step.call for step in steps),
        "code": code_of_answer(inputs, done, typed, weights, seed, notes),
    }
    return fused
