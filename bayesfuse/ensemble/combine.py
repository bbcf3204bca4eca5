"""Combine the models of an answer: average, known labels, and what is stated about them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.checks.advice import Advice
from bayesfuse.data.describing import summarise
from bayesfuse.ensemble import advice, diagnostics
from bayesfuse.ensemble.average import FEW_PREDICTED, PREDICTED, average_items, mixture
from bayesfuse.ensemble.diagnostics import chain_findings
from bayesfuse.ensemble.doubtful_raters import DoubtfulRaters, doubtful_raters
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.ensemble.explanation import code_of_answer
from bayesfuse.ensemble.fits import Fits, Session
from bayesfuse.ensemble.fused import Fused
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.known import correct
from bayesfuse.ensemble.members import (
    GROUPS,
    INDEPENDENT,
    LEAST_WEIGHT,
    ONE_ACCURACY,
    UNPOOLED,
)
from bayesfuse.ensemble.narrative import Finding, headline, opening, sources, word, word_by_model
from bayesfuse.ensemble.schedule import Schedule
from bayesfuse.ensemble.weights import compare
from bayesfuse.ensemble.wide_interval import why_wide
from bayesfuse.results import schema
from bayesfuse.results.abilities import has_joint_draws, stored_abilities
from bayesfuse.results.difficulty import difficulty, with_labels

HASTE = 0.8  # share of the time after which fewer draws predict labels and judge raters


def combine(
    inputs: Inputs,
    evidence: Evidence,
    fits: Fits,
    weights: xr.Dataset,
    findings: Mapping[str, list[Finding]],
    session: Session,
) -> Fused:
    """Return the average of the complete fits and vote shares, corrected by the known labels."""
    precision = {fit.name: diagnostics.label_precision(fit.result) for fit in fits.complete}
    by_model = {}
    for fit in fits.complete:
        first = [] if fit.settings else chain_findings(*precision[fit.name])
        if fit.candidate.draft:
            first = [Finding("approximation")]
        by_model[fit.name] = first + list(findings.get(fit.name, []))
    shares: dict[str, float] = weights["weight"].to_series().to_dict()
    average = _average(inputs, fits, shares, session)
    groups: dict[str, Any] = {name: group.dataset for name, group in average.children.items()}
    worst = {name: (mcse.max(), np.fmax.reduce(rhat)) for name, (mcse, rhat) in precision.items()}
    groups["comparison"] = compare(fits, weights, worst)
    groups |= {f"models/{name}": result for name, result in fits.results.items()}
    hardness = _difficulty(inputs, fits, session)
    correction = correct(groups, inputs, session.seed)
    groups |= correction.groups
    if hardness is not None:
        labels = groups["label_posterior"]["probability"].transpose("item", "class").values
        groups["difficulty"] = with_labels(hardness, labels, inputs.responses)
    fused = Fused.from_dict(groups)
    _judge_raters(fused, fits, shares, session)
    notes = word(
        _subset(inputs, fits) + _dependence(evidence, fits, shares) + _order(fits, evidence, shares)
    )
    kinds = {type(fit.model).__name__ for fit in fits.complete}
    fused.attrs = average.attrs | {
        "models": list(shares),
        "weights": list(shares.values()),
        "random_seed": session.seed,
        "source": inputs.source,
        "columns": list(inputs.columns),
        "read": inputs.read,
        "known": "\n".join(word(correction.findings)),
        "checks": "\n".join(word_by_model(by_model, kinds)),
        "code": code_of_answer(inputs, fits, evidence, by_model, shares, session.seed, notes),
    }
    why = why_wide(fused, inputs)
    first_line = headline(fused, inputs, evidence, why)  # before what time may end
    doubtful = None
    if fits.complete:
        doubtful = session.schedule.timed(lambda: doubtful_raters(fused, inputs.responses), 1.0)
    steps, prior = _advice(inputs, evidence, fits, doubtful, session.schedule)
    size, facts = summarise(inputs.responses)
    interrupted = fits.was_interrupted or session.interruption.requested
    ended = _ended(fits, interrupted, weights.attrs.get("planned", 1.0))
    fused.attrs |= {
        "interrupted": int(interrupted),
        "headline": f"{ended}{first_line}",
        "opening": f"{ended}{opening(fused, inputs.n_known, doubtful)}",
        "why_wide": " ".join(word(why)),
        "facts": "\n".join([size, *(f"{what}: {text}" for what, text in facts)]),
        "limits": "\n".join([*inputs.limits, *prior, *notes]),
        "prior": "\n".join(prior),
        "sources": sources(evidence, inputs),
        "notes": "\n".join(notes),
        "advice": "\n".join(steps),
        "advice_calls": "\n".join(step.call for step in steps),
    }
    return fused


def _ended(fits: Fits, interrupted: bool, planned: float) -> str:
    """Return that an answer is incomplete, and whether the table speaks against its models."""
    if not fits.complete or not (interrupted or fits.n_late):
        return ""
    late = f"Time ended before {fits.n_late} of {len(fits.tried)} models"
    ended = "Interrupted, so incomplete" if interrupted else late
    if planned < 1.0 - LEAST_WEIGHT:
        models = "the models fitted"
        against = f"the table speaks against {models}, which" if planned < 0.5 else models
        ended += f": {against} would have a weight of {planned:.0%} if all fits had finished"
    return f"{ended}. "


def _judge_raters(fused: Fused, fits: Fits, shares: Mapping[str, float], session: Session) -> None:
    """Add abilities of raters, from parameters that all models share where labels have no draws."""
    # labels are averages of the models, whatever the draws of abilities
    for name in ("chains", "draws", schema.DRAWS_VARIABLE, schema.DRAWS_DIGEST):
        fused["label_posterior"].attrs.pop(name, None)
    members = {name: result for name, result in fits.results.items() if shares[name] > 0.0}
    if members and "posterior" not in fused.children and not has_joint_draws(fused):
        draws = mixture(members, shares, np.random.default_rng(session.seed))
        if draws is None:
            return
        fused["posterior"] = xr.DataTree(draws)
    if members:
        fused["posterior"] = xr.DataTree(stored_abilities(fused, _is_in_haste(session.schedule)))


def _average(
    inputs: Inputs, fits: Fits, shares: Mapping[str, float], session: Session
) -> xr.DataTree:
    """Return the averaged labels of all items, from fewer draws where time is short."""
    n_draws = FEW_PREDICTED if _is_in_haste(session.schedule) else PREDICTED
    return average_items(fits.results, shares, inputs, fits.inputs, session.seed, n_draws)


def _is_in_haste(schedule: Schedule) -> bool:
    return schedule.interrupted or schedule.used() > HASTE * schedule.seconds


def _difficulty(inputs: Inputs, fits: Fits, session: Session) -> xr.Dataset | None:
    """Return the difficulty of all items, None without item types or time."""
    fit = fits.with_types
    if fit is None or inputs.responses is not fits.inputs.responses:
        return None
    draws = diagnostics.replicated(inputs)
    estimate = partial(difficulty, fit.result, fit.model, draws=draws)
    hardness: xr.Dataset | None = session.schedule.timed(estimate, 1.0)
    return hardness


def _subset(inputs: Inputs, fits: Fits) -> list[Finding]:
    """Return a finding if models were fitted to a part of the items."""
    if not fits.are_of_part(inputs):
        return []
    n_fitted, n_items = fits.inputs.responses.n_items, inputs.responses.n_items
    return [Finding("subset", {"fitted": n_fitted, "items": n_items})]


def _dependence(evidence: Evidence, fits: Fits, shares: Mapping[str, float]) -> list[Finding]:
    """Return a finding on the weight of models of independent errors, if both kinds may be used."""
    has_sides = not fits.inputs.has_order and not fits.inputs.responses.is_of_votes
    is_incomplete = len(fits.complete) < len(fits.tried)
    if not has_sides or not fits.complete or (len(fits.complete) == 1 and not is_incomplete):
        return []
    alone, grouped = evidence.ungrouped or evidence, evidence.grouped
    planned = grouped * evidence.independence + (1.0 - grouped) * alone.independence
    weight = _independence(fits, shares, evidence) if is_incomplete else planned
    shown = evidence if grouped > 0.5 else alone
    if np.isnan(shown.correlation):
        unknown = Finding("unknown dependence", {"independence": weight})
        return [unknown] if shown.unmeasured else []
    values = {"correlation": shown.correlation, "error": shown.error, "independence": weight}
    raters = "two raters of different sources" if grouped > 0.5 else "two raters"
    findings = [Finding("dependence", {"raters": raters, **values})]
    if is_incomplete:
        findings.append(Finding("incomplete sides", {"planned": planned}))
    return findings


def _independence(fits: Fits, shares: Mapping[str, float], evidence: Evidence) -> float:
    """Return the weight of independent errors among the fitted models, without vote shares."""
    weights = {fit.name: shares.get(fit.name, 0.0) for fit in fits.complete}
    independent = {UNPOOLED.name, INDEPENDENT.name, ONE_ACCURACY.name}
    of_groups = evidence.independence * weights.get(GROUPS.name, 0.0)
    weight = sum(share for name, share in weights.items() if name in independent) + of_groups
    return weight / (sum(weights.values()) or 1.0)


def _order(fits: Fits, evidence: Evidence, shares: Mapping[str, float]) -> list[Finding]:
    """Return a finding on what the order or the graph was worth, where that was measured."""
    structure = evidence.neighbours
    if fits.inputs.graph is None:
        of_types = evidence.independence < 0.5
        structure = evidence.order_of_types if of_types else evidence.order_of_classes
    if not fits.inputs.has_order or np.isnan(structure.gain):
        return []
    comparison = f"{'better' if structure.gain > 0.0 else 'worse'} by {abs(structure.gain):.3f}"
    comparison += "" if np.isnan(structure.error) else f" ± {structure.error:.3f}"
    comparison += " nats a response"
    kind = "order" if fits.inputs.graph is None else "neighbours"
    weights = {fit.name: shares.get(fit.name, 0.0) for fit in fits.complete}
    with_structure = [
        weights[fit.name]
        for fit in fits.complete
        if {"sequences", "graph"}.intersection(fit.candidate.inputs_used)
    ]
    weight = sum(with_structure) / (sum(weights.values()) or 1.0)
    findings = [Finding(kind, {"comparison": comparison, "weight": weight})]
    if weight < LEAST_WEIGHT < structure.weight:
        findings.append(Finding("lost order"))
    return findings


def _advice(
    inputs: Inputs,
    evidence: Evidence,
    fits: Fits,
    doubtful: DoubtfulRaters | None,
    schedule: Schedule,
) -> tuple[list[Advice], list[Advice]]:
    """Return advice on what to do next, and how far class shares depend on the prior."""
    if not fits.complete:
        return [advice.warn_of_votes(fits, schedule.seconds / 60.0)], []
    steps = advice.advise(inputs, evidence, advice.one_more_response(fits.inputs))
    steps += advice.about_raters(doubtful)
    return steps, schedule.timed(lambda: advice.of_prior(inputs), 1.0) or []
