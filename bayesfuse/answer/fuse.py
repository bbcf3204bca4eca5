"""``bf.fuse``: one answer for those who only want the labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer import findings
from bayesfuse.answer.budget import CHAINS, Budget, Size
from bayesfuse.answer.candidates import Candidate, Inputs, candidates
from bayesfuse.answer.fused import Fused
from bayesfuse.answer.mixture import mixture
from bayesfuse.answer.progress import Progress
from bayesfuse.answer.weights import weigh
from bayesfuse.data.responses import Responses
from bayesfuse.errors import (
    ImpossibleDataError,
    ModelError,
    QuickAnswerWarning,
    require_flag,
    require_positive,
    require_seed,
)
from bayesfuse.pymc.model import LabelModel, observed
from bayesfuse.raters.typed_confusion import TypedConfusion
from bayesfuse.results.averaging import average

MINUTES = 3.0
"""Default of the time that fits may take."""

FITTED, INTERRUPTED = "fitted", "interrupted"
"""Outcomes of a fit that has enough draws, and of one that the user ended."""


@dataclass
class _Fit:
    """A model that was tried, and what came of it."""

    candidate: Candidate
    model: LabelModel
    outcome: str = "no time was left"
    size: Size | None = None
    seconds: float = 0.0
    result: xr.DataTree = field(default_factory=xr.DataTree)
    checks: list[str] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has enough draws."""
        return self.outcome == FITTED


def fuse(
    responses: Responses | pd.DataFrame,
    *,
    sequences: bf.Sequences | None = None,
    graph: bf.Graph | None = None,
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
        A table with columns item, rater and label will do.
    sequences : Sequences, optional
        Items are in sequence, such as words.
    graph : Graph, optional
        Items have neighbours, such as pixels.
    groups : optional
        Raters share sources, as in :class:`bayesfuse.models.LatentGroup`.
    covariates : optional
        What is known about items, as in :class:`bayesfuse.models.ItemTypes`.
    gold : mapping of item name to class name, optional
        Known labels. A hundred are worth most.
    ordered : bool, optional
        Whether classes are grades. Default where text labels were given in an order; numbers may be
        mere codes.
    minutes : float, default 3
        Time that fits may take. A fit that has enough draws ends earlier, so that small tables
        take seconds.
    random_seed : int, Generator, optional
        The same seed gives the same answer, unless time runs out.
    progressbar : bool, default True

    Returns
    -------
    Fused
        A DataTree with the averaged ``label_posterior``, draws of the mixture of the models in
        ``posterior``, ``difficulty``, ``comparison`` and ``constant_data``, and the methods
        ``labels``, ``raters``, ``overview``, ``report`` and ``explain``. Interrupting ends the
        fits, and the answer is of those that are complete.

    Raises
    ------
    ModelError
        Structures that no model has together; minutes that are not positive.
    ResponsesError
        A table without these columns; known labels of unknown items or classes.

    Warns
    -----
    QuickAnswerWarning
        The time was too short for any model, so that labels are vote shares.

    Notes
    -----
    Labels by people are modelled by item types, of raters with and without rows of their own,
    because on real crowds the probabilities of these are the best; they have equal weights.
    Weights by leave-one-out were worse: it prefers models that predict responses, also where their
    labels are worse. ``print(fused.explain())`` shows all calls.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> fused = bf.fuse(bf.datasets.anesthesia(), minutes=1, random_seed=1, progressbar=False)
    >>> fused.attrs["models"]
    ['item types', 'shared rows']
    >>> fused.labels().shape
    (45, 4)
    """
    budget = Budget(require_positive("minutes", minutes))
    require_flag("progressbar", progressbar)
    if ordered is not None:
        require_flag("ordered", ordered)
    table = _as_responses(responses)
    inputs = Inputs(table, sequences, graph, groups, covariates, gold, ordered)
    seed = _seed(random_seed)
    fits = [_Fit(each, each.build(inputs)) for each in candidates(inputs)]
    with Progress(progressbar) as progress:
        _sample_all(fits, budget, seed, progress)
        done = [fit for fit in fits if fit.done]
        if not done:
            return _quick(inputs, fits, minutes)
        _check_all(done, inputs, seed, progress)
        progress.say("averaging")
        return _answer(inputs, fits, done, seed)


def _as_responses(given: Any) -> Responses:
    if isinstance(given, pd.DataFrame):
        return Responses.from_long(given, item="item", rater="rater", label="label")
    if not isinstance(given, Responses):
        raise ModelError(
            "responses must be bf.Responses, or a DataFrame with columns item, rater and label. "
            f"Got: {type(given).__name__}."
        )
    return given


def _seed(random_seed: Any) -> int:
    """Return a number that explains the answer: the user's, or one drawn."""
    if isinstance(random_seed, int | np.integer) and not isinstance(random_seed, bool):
        require_seed(random_seed)
        return int(random_seed)
    return int(require_seed(random_seed).integers(2**31))


def _sample_all(fits: list[_Fit], budget: Budget, seed: int, progress: Progress) -> None:
    """Fit one model after the other while there is time."""
    for number, fit in enumerate(fits):
        progress.say(f"trying: {fit.candidate.name}")
        before = budget.used()
        try:
            fit.size = budget.size(fit.model, seed, len(fits) - number)
            if fit.size is None:
                continue
            steps = CHAINS * (fit.size.draws + fit.size.tune)
            result = bf.sample(
                fit.model,
                fit.size.draws,
                tune=fit.size.tune,
                chains=CHAINS,
                random_seed=seed,
                quiet=True,
                progressbar=False,
                callback=progress.count(f"fitting: {fit.candidate.name}", steps),
            )
        except ImpossibleDataError as error:
            fit.outcome = str(error)
            continue
        except KeyboardInterrupt:
            fit.outcome = INTERRUPTED
            break
        finally:
            fit.seconds = budget.used() - before
        sizes = result["posterior"].sizes
        if sizes["chain"] * sizes["draw"] < CHAINS * fit.size.draws or "missing" in result.attrs:
            fit.outcome = INTERRUPTED
            break
        fit.result, fit.outcome = result, FITTED


def _check_all(done: list[_Fit], inputs: Inputs, seed: int, progress: Progress) -> None:
    """Check every fit; interrupting ends the checks, not the answer."""
    try:
        for fit in done:
            progress.say(f"checking: {fit.candidate.name}")
            fit.checks = findings.of_model(fit.result, fit.model, inputs, seed)
    except KeyboardInterrupt:
        fit.checks = ["the checks were interrupted"]


def _answer(inputs: Inputs, fits: list[_Fit], done: list[_Fit], seed: int) -> Fused:
    results = {fit.candidate.name: fit.result for fit in done}
    comparison = weigh(results)
    weights = dict(zip(results, comparison["weight"].values.tolist(), strict=True))
    used = {name: weight for name, weight in weights.items() if weight > 0}
    averaged = average({name: results[name] for name in used}, used)
    children: dict[str, Any] = {
        "label_posterior": averaged["label_posterior"].dataset,
        "comparison": _comparison(fits, comparison),
        "constant_data": averaged["constant_data"].dataset,
    }
    draws = mixture({name: results[name] for name in used}, used, np.random.default_rng(seed))
    if draws is not None:
        children["posterior"] = draws
    children |= {f"models/{name}": result for name, result in results.items()}
    typed = next((fit for fit in done if _has_types(fit.model)), None)
    if typed is not None:
        children["difficulty"] = bf.difficulty(typed.result, typed.model)
    fused = Fused.from_dict(children)
    first = done[0]
    told = findings.one_more_response(first.result, first.model, inputs)
    fused.attrs = {
        "models": list(used),
        "weights": list(used.values()),
        "random_seed": seed,
        "interrupted": _interrupted(fits),
        "headline": findings.headline(fused, inputs),
        "checks": "\n".join(f"{fit.candidate.name}: {said}" for fit in done for said in fit.checks),
        "advice": "\n".join(findings.advise(fused, inputs, told)),
        "code": "\n".join(_code(inputs, done, typed, used, seed)),
    }
    return fused


def _interrupted(fits: list[_Fit]) -> int:
    return int(any(fit.outcome == INTERRUPTED for fit in fits))


def _has_types(model: pm.Model) -> bool:
    return isinstance(observed(model)[1].raters, TypedConfusion)


def _comparison(fits: list[_Fit], weighed: xr.Dataset) -> xr.Dataset:
    """Return what was tried, by model, those without an outcome among them."""
    names = [fit.candidate.name for fit in fits]
    table = weighed.reindex(model=names)
    return table.assign(
        weight=table["weight"].fillna(0.0),
        seconds=("model", [fit.seconds for fit in fits]),
        draws=(
            "model",
            [CHAINS * fit.size.draws if fit.done and fit.size else 0 for fit in fits],
        ),
        outcome=("model", [fit.outcome for fit in fits]),
        why=("model", [fit.candidate.why for fit in fits]),
    )


def _quick(inputs: Inputs, fits: list[_Fit], minutes: float) -> Fused:
    """Return vote shares, with one more vote spread over the classes."""
    responses = inputs.responses
    warnings.warn(
        "Fitting a model takes longer than this, so labels are vote shares, and nothing is said of "
        f"raters; give more minutes=. Got: minutes={minutes:g}.",
        QuickAnswerWarning,
        stacklevel=3,
    )
    votes = responses.votes() + 1.0 / responses.n_classes
    votes /= votes.sum(axis=1, keepdims=True)
    for item, name in (inputs.gold or {}).items():
        votes[responses.items == item] = responses.classes == name
    coords = {"item": responses.items, "class": responses.classes}
    labels = xr.Dataset({"probability": (("item", "class"), votes)}, coords)
    nothing = xr.Dataset({"weight": ("model", [])}, {"model": np.array([], dtype=object)})
    fused = Fused.from_dict({"label_posterior": labels, "comparison": _comparison(fits, nothing)})
    fused.attrs = {
        "models": [],
        "weights": [],
        "interrupted": _interrupted(fits),
        "headline": findings.headline(fused, inputs),
        "checks": "",
        "advice": "Give more time: these labels are vote shares, and raters are not judged.",
        "code": "votes = responses.votes() + 1 / responses.n_classes",
    }
    return fused


def _code(
    inputs: Inputs, done: list[_Fit], typed: _Fit | None, weights: Mapping[str, float], seed: int
) -> list[str]:
    """Return the calls of the public interface that give this answer."""
    names = sorted({fit.candidate.model for fit in done})
    lines = [
        "import bayesfuse as bf",
        f"from bayesfuse.models import {', '.join(names)}",
        "",
        "results = {}",
    ]
    for fit in done:
        name, size = fit.candidate.name, fit.size
        lines += [
            f"# {fit.candidate.why}",
            f"model = {fit.candidate.code(inputs)}",
            f"results[{name!r}] = bf.sample(model, {size.code() if size else ''}, "
            f"random_seed={seed}, quiet=True)",
        ]
        if fit is typed:
            lines.append(f"difficulty = bf.difficulty(results[{name!r}], model)")
        lines += [
            f"print(bf.checks.item_difficulty(results[{name!r}], model, random_seed={seed})"
            ".verdict)",
        ]
    shares = ", ".join(f"{name!r}: {weight:.6g}" for name, weight in weights.items())
    used = ", ".join(f"{name!r}: results[{name!r}]" for name in weights)
    lines += [
        "",
        f"fused = bf.average({{{used}}}, {{{shares}}})",
        "bf.label_probabilities(fused)",
        "bf.decisions.rank_items(fused)",
    ]
    return lines
