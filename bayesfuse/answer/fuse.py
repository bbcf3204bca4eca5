"""``bf.fuse``: one answer from several models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.answer import findings
from bayesfuse.answer.average import VOTES, mixture, weigh
from bayesfuse.answer.budget import (
    COUNTED,
    INTERRUPTED,
    NO_TIME,
    NOT_TRIED,
    Budget,
    Finding,
    Fit,
    Progress,
    sample_all,
)
from bayesfuse.answer.candidates import Inputs, candidates, spare
from bayesfuse.answer.fused import Fused
from bayesfuse.data.graph import Graph
from bayesfuse.data.known import require_gold
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import (
    LargeResultWarning,
    ModelError,
    QuickAnswerWarning,
    brief,
    require_flag,
    require_kind,
    require_positive,
    require_seed,
    takes_seed,
)
from bayesfuse.pymc.model import observed
from bayesfuse.raters.typed_confusion import TypedConfusion
from bayesfuse.results.averaging import average
from bayesfuse.results.difficulty import difficulty
from bayesfuse.results.probabilities import vote_shares

MINUTES = 3.0  # default of the time that fits may take

SECONDS_OF_CHECKS, LEAST_FOR_CHECKS = 2.2e-4, 20.0
"""Seconds of the checks of a model per response, and what they may take without time left."""


@takes_seed
def fuse(
    responses: Responses | pd.DataFrame,
    *,
    item: str = "item",
    rater: str = "rater",
    label: str = "label",
    sequences: Sequences | None = None,
    graph: Graph | None = None,
    groups: Any = None,
    covariates: Any = None,
    gold: Mapping[Any, Any] | None = None,
    ordered: bool | None = None,
    minutes: float = MINUTES,
    random_seed: Any = None,
    progressbar: bool = True,
) -> Fused:
    """Fit the few models that are sensible for a table, check and average them.

    Parameters
    ----------
    responses : Responses or DataFrame
        A DataFrame has one row per response.
    item, rater, label : str
        Columns of the DataFrame.
    sequences : Sequences, optional
        Items are in sequence, such as words.
    graph : Graph, optional
        Items have neighbours, such as pixels.
    groups : optional
        Raters share sources, as in :class:`bayesfuse.models.LatentGroup`.
    covariates : optional
        Covariates of items, as in :class:`bayesfuse.models.ItemTypes`.
    gold : mapping of item name to class name, optional
        Known labels. The first hundred improve the answer most.
    ordered : bool, optional
        Whether classes are grades. Default: whether text labels were given in an order; numbers may
        be codes.
    minutes : float, default 3
        Maximum time of the fits. A fit with enough draws ends earlier, so small tables take less
        than a minute. The remaining time is the maximum for checks.
    random_seed : int, Generator, optional
        The same seed gives the same answer, unless time runs out.
    progressbar : bool, default True

    Returns
    -------
    Fused
        A DataTree with the averaged ``label_posterior``, draws of the mixture of the models in
        ``posterior``, ``difficulty``, ``comparison`` and ``constant_data``, and the methods
        ``labels``, ``raters``, ``overview``, ``report`` and ``explain``. After an interruption
        the answer averages the complete fits.

    Raises
    ------
    ModelError
        Structures that no model combines; minutes that are not positive; names of columns for
        Responses.
    ResponsesError
        A table without these columns; known labels of unknown items or classes.

    Warns
    -----
    QuickAnswerWarning
        The time was too short for any model, so that labels are vote shares.

    Notes
    -----
    Labels by people are modelled by three variants of :class:`bayesfuse.models.ItemTypes` with
    equal weights, because their probabilities are the best on real crowds. Vote shares have weight
    .05, for dependent errors. Weights by leave-one-out were worse: it prefers models that predict
    responses, even if their labels are worse. If there is no time for these models, as with very
    large tables, :class:`bayesfuse.models.DawidSkene` and vote shares have equal weights. For items
    in sequence or on a graph two such models are fitted, for rules that are mostly silent
    :class:`bayesfuse.models.LabellingFunctions`, and for other tables with silence or stated
    probabilities :class:`bayesfuse.models.DawidSkene` with vote shares.
    ``print(fused.explain())`` shows all calls.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> fused = bf.fuse(bf.datasets.anesthesia(), minutes=1, random_seed=1, progressbar=False)
    >>> fused.attrs["models"]
    ['item types', 'shared rows', 'one type per class', 'vote shares']
    >>> fused.labels().shape
    (45, 4)
    """
    budget = Budget(require_positive("minutes", minutes))
    require_flag("progressbar", progressbar)
    if ordered is not None:
        require_flag("ordered", ordered)
    table = _as_responses(responses, {"item": item, "rater": rater, "label": label})
    if gold is not None:
        require_gold(gold)
        gold = dict(gold.items())  # a Series, too
    inputs = Inputs(table, sequences, graph, groups, covariates, gold, ordered)
    seed = _seed(random_seed)
    fits = [Fit(each, each.build(inputs)) for each in candidates(inputs)]
    with Progress(progressbar) as progress:
        with warnings.catch_warnings():
            # a mixture needs a thousand draws at most; `comparison` has the number of those kept
            warnings.simplefilter("ignore", LargeResultWarning)
            quicker = spare(inputs)
            sample_all(fits, budget, seed, progress, patient=not quicker)
            if not any(fit.done for fit in fits) and not _interrupted(fits):
                others = [Fit(each, each.build(inputs)) for each in quicker]
                sample_all(others, budget, seed, progress, patient=True)
                fits += others
        if _interrupted(fits):
            for fit in fits:
                fit.outcome = NOT_TRIED if fit.outcome == NO_TIME else fit.outcome
        done = [fit for fit in fits if fit.done]
        if not done:
            return _quick(inputs, fits, minutes)
        _check_all(done, inputs, seed, budget, progress)
        progress.say("averaging")
        return _answer(inputs, fits, done, seed)


def _as_responses(given: Any, columns: dict[str, Any]) -> Responses:
    if isinstance(given, Responses):
        if renamed := {what: name for what, name in columns.items() if name != what}:
            raise ModelError(
                "item=, rater= and label= name the columns of a DataFrame, and Responses have "
                f"none. Got: {brief(renamed)} with Responses."
            )
        return given
    if not isinstance(given, pd.DataFrame):
        require_kind("responses", given, Responses)
    return Responses.from_long(given, **columns)


def _seed(random_seed: Any) -> int:
    """Return the user's seed, or a drawn one, as a number for the code of the answer."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool):
        require_seed(random_seed)
        return int(random_seed)
    return int(require_seed(random_seed).integers(2**31))


def _check_all(
    done: list[Fit], inputs: Inputs, seed: int, budget: Budget, progress: Progress
) -> None:
    """Check every fit while there is time; interrupting ends the checks, not the answer."""
    expected = SECONDS_OF_CHECKS * inputs.responses.n_responses
    try:
        for fit in done:
            if expected > max(budget.left(), LEAST_FOR_CHECKS):
                fit.checks = [
                    Finding(
                        f"The checks would take about {expected:,.0f} seconds and were left out; "
                        "give more minutes=."
                    )
                ]
                continue
            progress.say(f"checking: {fit.candidate.name}")
            fit.checks = findings.of_model(fit.result, fit.model, inputs, seed)
    except KeyboardInterrupt:
        fit.checks = [Finding("The checks were interrupted.")]


def _answer(inputs: Inputs, fits: list[Fit], done: list[Fit], seed: int) -> Fused:
    results = {fit.candidate.name: fit.result for fit in done}
    votes = max(fit.candidate.votes for fit in done)
    comparison = weigh(results, votes)
    weights: dict[str, float] = comparison["weight"].to_series().to_dict()
    shares = {VOTES: vote_shares(inputs.responses, inputs.gold)} if votes else {}
    averaged = average(results | shares, weights)
    children: dict[str, Any] = {
        "label_posterior": averaged["label_posterior"].dataset,
        "comparison": _comparison(fits, comparison),
        "constant_data": averaged["constant_data"].dataset,
    }
    draws = mixture(results, {name: weights[name] for name in results}, np.random.default_rng(seed))
    if draws is not None:
        children["posterior"] = draws
    children |= {f"models/{name}": result for name, result in results.items()}
    has_types = (isinstance(observed(fit.model)[1].raters, TypedConfusion) for fit in done)
    typed = next((fit for fit, has in zip(done, has_types, strict=True) if has), None)
    if typed is not None:
        children["difficulty"] = difficulty(typed.result, typed.model)
    fused = Fused.from_dict(children)
    told = findings.one_more_response(done[0].result, done[0].model, inputs)
    fused.attrs = {
        "models": list(weights),
        "weights": list(weights.values()),
        "random_seed": seed,
        "interrupted": _interrupted(fits),
        "headline": findings.headline(fused, inputs),
        "checks": "\n".join(findings.together({f.candidate.name: f.checks for f in done})),
        "advice": "\n".join(findings.advise(fused, done[0].result, inputs, told)),
        "code": findings.code(inputs, done, typed, weights, seed),
    }
    return fused


def _interrupted(fits: list[Fit]) -> int:
    return int(any(fit.outcome == INTERRUPTED for fit in fits))


def _comparison(fits: list[Fit], weighed: xr.Dataset) -> xr.Dataset:
    """Return weight, time and outcome of every model, including those that were not fitted."""
    tried = pd.DataFrame(
        {
            "seconds": [fit.seconds for fit in fits],
            "draws": [
                posterior.sizes["chain"] * posterior.sizes["draw"] if posterior else 0
                for posterior in (fit.result.get("posterior") for fit in fits)
            ],
            "outcome": [fit.outcome for fit in fits],
            "why": [fit.candidate.why for fit in fits],
        },
        index=[fit.candidate.name for fit in fits],
    )
    if VOTES in weighed["model"].values:
        tried.loc[VOTES] = [0.0, 0, COUNTED, "errors may be dependent, which the models ignore"]
    table = weighed.to_dataframe().reindex(tried.index).join(tried)
    table["weight"] = table["weight"].fillna(0.0)
    return table.rename_axis("model").to_xarray()


def _quick(inputs: Inputs, fits: list[Fit], minutes: float) -> Fused:
    """Return vote shares alone."""
    ended = _interrupted(fits)
    reason, remedy = "Fitting a model takes longer than this", "give more minutes="
    if ended:
        reason, remedy = "The first fit was interrupted", "let one model be fitted"
    warnings.warn(
        f"{reason}, so labels are vote shares, and raters are not judged; {remedy}. Got: "
        f"{'an interruption' if ended else f'minutes={minutes:g}'}.",
        QuickAnswerWarning,
        stacklevel=4,
    )
    votes = vote_shares(inputs.responses, inputs.gold)
    alone = xr.Dataset({"weight": ("model", [1.0])}, {"model": [VOTES]})
    children = {name: group.dataset for name, group in votes.children.items()}
    fused = Fused.from_dict(children | {"comparison": _comparison(fits, alone)})
    fused.attrs = {
        "models": [VOTES],
        "weights": [1.0],
        "interrupted": ended,
        "headline": findings.headline(fused, inputs),
        "checks": "",
        "advice": f"These labels are vote shares, and raters are not judged: {remedy}.",
        "code": findings.code_of_votes(inputs),
    }
    return fused
