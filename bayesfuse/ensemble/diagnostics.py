"""Check the models of an answer: precision of their chains, and replicated tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks import (
    collapse,
    conditional_dependence,
    item_difficulty,
    neighbour_agreement,
    runs,
)
from bayesfuse.ensemble.fits import Fits, Session
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.narrative import QUESTIONS, Finding
from bayesfuse.ensemble.schedule import Schedule, draws_of_large
from bayesfuse.errors import InapplicableError, warn
from bayesfuse.observation.model import observed
from bayesfuse.results import joint_labels

REPLICATED = 50, 20  # draws for checks by replicated tables, of large tables at least

MAX_ERROR, MAX_RHAT = 0.02, 1.1  # of a label that chains should reach
MAX_SHARE = 0.01  # share of the items that may exceed these
MAX_DISPERSION = 2.0  # of rules, above which it is stated as the reason of wide intervals


def check(fits: Fits, weights: xr.Dataset, session: Session) -> dict[str, list[Finding]]:
    """Check the complete fits, those of most weight first, until time or Ctrl-C ends it.

    Of models of one class, only that of most weight is checked: the others are variants of it.
    """
    schedule, findings = session.schedule, {}
    complete = {fit.name: fit for fit in fits.complete}
    checked: set[str] = set()
    order = weights.sortby("weight", ascending=False)["model"].values.tolist()
    for name in filter(complete.__contains__, order):
        fit = complete[name]
        if fit.candidate.model in checked:
            continue
        checked.add(fit.candidate.model)
        if not schedule.interrupted:
            session.progress.say(f"checking: {name}")
            findings[name] = check_model(fit.result, fit.model, fits.inputs, session.seed, schedule)
            schedule.interrupted |= session.interruption.requested
        if schedule.interrupted:
            findings[name] = [Finding("interrupted checks")]
    return findings


def check_model(
    result: xr.DataTree, model: pm.Model, inputs: Inputs, seed: int, schedule: Schedule
) -> list[Finding]:
    """Return the verdicts of the checks of a model for which there is time."""
    checks: list[Any] = [item_difficulty]
    if not inputs.responses.is_of_votes:  # which has no pairs of raters
        checks.append(conditional_dependence)
    # models without the order or the graph have a weight, too
    structure = observed(model)[1].labels.needs
    if inputs.sequences is not None and "sequences" in structure:
        checks.insert(0, runs)
    elif inputs.graph is not None and "graph" in structure:
        checks.insert(0, neighbour_agreement)
    # without replicated labels, which take time
    findings = [_verdict(collapse(result, model), "bf.checks.collapse(result, model)")]
    omitted, draws = [], replicated(inputs)
    for replicate in checks:
        name = f"bf.checks.{replicate.__name__}"
        try:
            outcome = schedule.timed(
                partial(replicate, result, model, draws=draws, random_seed=seed)
            )
        except InapplicableError:  # such as too few shared items
            values = {"question": QUESTIONS[replicate.__name__], "check": name}
            findings.append(Finding("inapplicable check", values))
            continue
        except Exception as error:  # an answer must not be lost by an error of a check
            warn(f"{name} failed and is left out; please report it. Got: {error!r}.")
            continue
        if outcome is None:
            omitted.append(name)
            continue
        call = f"{name}(result, model, draws={draws}, random_seed={seed})"
        findings.append(_verdict(outcome, call))
    if omitted:
        findings.append(Finding("omitted checks", {"checks": ", ".join(omitted)}))
    return findings + rule_findings(result)


def replicated(inputs: Inputs) -> int:
    """Return how many tables are replicated by a check."""
    return draws_of_large(*REPLICATED, inputs.responses.n_responses)


def _verdict(outcome: xr.Dataset, call: str) -> Finding:
    return Finding("verdict", {"verdict": outcome.attrs["verdict"]}, call)


def rule_findings(result: xr.DataTree) -> list[Finding]:
    """Return which rules count as one, and whether votes of rules are dependent."""
    votes = result["posterior"].dataset.get("vote")
    if votes is None:
        return []
    copies = [name.rpartition(":")[0] for name in votes.values.tolist() if " = " in name]
    findings = [Finding("near copies", {"copies": "; ".join(copies) or "there are none"})]
    factor = float(result.attrs["dispersion"])
    if factor > MAX_DISPERSION:
        findings.append(Finding("dispersed votes", {"factor": factor}))
    return findings


def label_precision(result: xr.DataTree) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest Monte Carlo error and R-hat of every item's label.

    R-hat is that of the indicators of the classes in the joint draws, NaN without several chains.
    """
    error = result["label_posterior"].dataset["mcse"].max("class", skipna=False).values
    chains = result["posterior"].sizes["chain"] if "posterior" in result.children else 1
    worst = np.full(len(error), np.nan)
    if joint_labels.GROUP not in result.children or chains < 2:
        return error, worst
    import arviz as az  # slow to import

    parts = np.array_split(joint_labels.stored(result), chains)  # samples are chain by chain
    size = min(map(len, parts))
    drawn = np.array([part[:size] for part in parts])  # (chains, draws, items)
    for code in range(result["label_posterior"].sizes["class"]):
        is_class = (drawn == code).astype(float)
        vary = np.ptp(is_class, axis=(0, 1)) > 0.0  # others have no R-hat
        if vary.any():
            indicators = xr.Dataset({"label": (("chain", "draw", "item"), is_class[..., vary])})
            with np.errstate(divide="ignore"):  # constant in every chain
                rhat = az.rhat(indicators, method="identity")["label"].values
            worst[vary] = np.fmax(worst[vary], rhat)
    return error, worst


def chain_findings(error: NDArray[np.float64], rhat: NDArray[np.float64]) -> list[Finding]:
    """Return a finding if chains of a model are too short (:func:`label_precision`)."""
    if np.isnan(error).any():
        return [Finding("short chains")]
    share = float(((error > MAX_ERROR) | (rhat > MAX_RHAT)).mean())
    if share <= MAX_SHARE:
        return []
    limits = {"max_error": MAX_ERROR, "max_rhat": MAX_RHAT}
    return [Finding("imprecise labels", {"share": share} | limits)]
