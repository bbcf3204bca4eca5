"""Advice of an answer: what to do next, with the call that does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayesfuse.checks import prior_dependence
from bayesfuse.checks.advice import Advice, listing, on_classes
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.candidates import candidates, with_sources
from bayesfuse.ensemble.doubtful_raters import MIN_RESPONSES, DoubtfulRaters
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.ensemble.fits import NO_TIME, Fits
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.members import GRADED
from bayesfuse.ensemble.narrative import advice
from bayesfuse.errors import QuickAnswerWarning, warn
from bayesfuse.priors import IDENTIFIED

ENOUGH = 100  # known labels that show whether the majority is right
MAX_RESPONSES = 20_000  # up to which the dependence on the prior is computed, within seconds


def advise(inputs: Inputs, evidence: Evidence, responses_advice: list[Advice]) -> list[Advice]:
    """Return advice on a table and its gold, the most important first."""
    responses, steps = inputs.responses, []
    inputs = with_sources(inputs, evidence)
    also = _also(inputs, evidence)
    tags = mark_spans(responses.classes.tolist())
    if not inputs.has_order and inputs.user_groups is None and tags:
        steps.append(advice("order", other_arguments=also))
    steps += [step for step in on_classes(responses) if step not in inputs.limits]
    has_one_each = responses.per_item.max(initial=0) <= 1 and responses.stated is None
    if has_one_each and not inputs.n_known:
        steps.append(advice("single responses"))
    may_be_grades = inputs.ordered is None and responses.ordered
    if may_be_grades and GRADED in candidates(replace(inputs, ordered=True), evidence):
        steps.append(advice("grades", other_arguments=also))
    return [*steps, *_gold(inputs), *responses_advice, advice("uncertain items")]


def _also(inputs: Inputs, evidence: Evidence) -> str:
    """Return the other arguments of ``bf.fuse`` that the user passed, as code."""
    names = ["covariates"] if inputs.covariates is not None else []
    if inputs.user_groups is not None and not evidence.groups:
        names.append("groups")
    if inputs.gold is not None or inputs.known is not None:
        names.append("gold")
    return "".join(f", {name}={name}" for name in names)


def _gold(inputs: Inputs) -> list[Advice]:
    n_known = inputs.n_known
    missing = max(1, min(ENOUGH, int(inputs.responses.multiplicity.sum()) // 3)) - n_known
    if missing <= 0:
        return []
    reason = advice("some gold", known=n_known) if n_known else advice("no gold")
    if not inputs.responses.is_unweighted:  # items of a pattern may have different labels
        return [advice("gold of patterns", reason=reason)]
    more = " more" if n_known else ""
    kind = "gold" if inputs.sequences is None else "gold in sequences"
    return [advice(kind, reason=reason, number=f"{missing:,}{more}", missing=missing)]


def one_more_response(inputs: Inputs) -> list[Advice]:
    """Return advice to look for the items and raters of one more response."""
    responses = inputs.responses
    # models without the known labels would ask for these, and a rater is asked for whole sequences
    if inputs.known is not None or inputs.sequences is not None:
        return []
    # sources that may abstain were asked about all items
    if not inputs.has_only_labels or are_labelling_functions(responses):
        return []
    if responses.n_responses >= responses.n_items * responses.n_raters:
        return []
    return [advice("one more response")]


def about_raters(doubtful: DoubtfulRaters | None) -> list[Advice]:
    """Return advice on raters who are probably no better than guessing, or worse."""
    if doubtful is None:
        return []
    steps = []
    if len(doubtful.worse):
        steps.append(advice("confused raters", raters=_named(doubtful.worse)))
    if len(doubtful.guessing):
        few = 2 * len(doubtful.guessing) <= doubtful.n_judged
        remedy = "Do without" if few else "Check the instructions of"
        values = {"raters": _named(doubtful.guessing), "responses": MIN_RESPONSES}
        steps.append(advice("guessing raters", remedy=remedy, **values))
    return steps


def _named(raters: Any) -> str:
    """Return one rater or several with their names."""
    return f"{'rater' if len(raters) == 1 else 'raters'} {listing(raters)}"


def of_prior(inputs: Inputs) -> list[Advice]:
    """Return how far class shares depend on the prior, of few raters without known labels."""
    responses = inputs.responses
    if responses.n_raters > IDENTIFIED or responses.n_responses > MAX_RESPONSES:
        return []
    if inputs.has_order or inputs.n_known or not inputs.has_only_labels:
        return []
    if are_labelling_functions(responses):
        return []
    call = "bf.checks.prior_dependence(responses)"
    verdict = prior_dependence(responses, random_seed=0).attrs["verdict"]
    return [Advice(f"{verdict[:-1]} (bf.checks.prior_dependence).", "prior", call)]


def warn_of_votes(fits: Fits, minutes: float) -> Advice:
    """Warn that no model was fitted, and return the advice."""
    outcome = fits.tried[0].outcome
    words = "Fitting a model takes longer than this", "give more minutes=", f"minutes={minutes:g}."
    if fits.was_interrupted:
        words = "The first fit was interrupted", "let one model be fitted", "an interruption."
    elif outcome != NO_TIME:
        words = "No model could be fitted", "change what the error names", outcome
    reason, remedy, got = words
    warn(
        f"{reason}, so labels are vote shares, and raters are not judged; {remedy}. Got: {got}",
        QuickAnswerWarning,
    )
    in_both = remedy.replace("minutes=", "time (minutes=, --time)")
    return advice("vote shares", remedy=in_both)
