"""The words of an answer: its certainty, verdicts of checks, and advice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
from bayesfuse.checks.advice import Advice, listed, on_classes, on_repeats
from bayesfuse.data.describing import summarise
from bayesfuse.data.responses import Responses
from bayesfuse.decisions import expected_errors
from bayesfuse.ensemble.candidates import RULES, Inputs
from bayesfuse.ensemble.schedule import Finding, Schedule
from bayesfuse.errors import InapplicableError, warn
from bayesfuse.pymc.model import observed
from bayesfuse.results import joint_labels
from bayesfuse.results.probabilities import label_probabilities

REPLICATED = 50  # draws for checks by replicated tables

SURE = 0.95  # labels of at least this probability count as sure
PRECISE, AGREED = 0.02, 1.1  # Monte Carlo error and R-hat of a label that chains should reach
FEW_LABELS = 0.01  # share of the items that may exceed these
DEPENDENT = 2.0  # dispersion of rules above which intervals of their accuracies are too narrow


def headline(fused: xr.DataTree, inputs: Inputs) -> str:
    """Return how many labels are sure and how many are expected to be wrong."""
    top = label_probabilities(fused).values.max(axis=1)
    known = _known(inputs)
    sure = int(inputs.responses.multiplicity[(top >= SURE) & ~known].sum())
    errors = expected_errors(fused, random_seed=0)
    wrong, low, high = (float(errors[name]) for name in ("expected", "low", "high"))
    n_known = inputs.n_known
    sentence = f"{inputs.read} " if inputs.read else ""
    among = "Unknown items" if n_known else "Items"
    sentence += (
        f"{summarise(inputs.responses)[0]}. {among} with a label of probability {SURE} or more: "
        f"{sure:,}. In all, {_number(wrong)} labels ({low:,.0f}–{high:,.0f}) are expected to be "
        "wrong"
    )
    silent = _silent(inputs)
    if silent.any():
        copies = inputs.responses.multiplicity[silent]
        items = f"{copies.sum():,} items" if copies.sum() > 1 else "one item"
        silent_errors = _number(float((1.0 - top[silent]) @ copies))
        sentence += f", {silent_errors} of them among {items} without responses"
    sentence = f"{sentence}; {n_known:,} are known." if n_known else f"{sentence}."
    sources = [listed(raters) for raters in inputs.evidence.groups.values()]
    if not sources:
        return sentence
    shared = "; ".join(f"[{names}]" for names in sources)
    counted = "Votes of a group count as one."
    if n_known:
        counted = "The known labels correct how far each group is believed."
    elif not inputs.evidence.independent:
        counted = (
            "They share a source, or agree because they are right more often than the others; "
            "labels are between the two, and some known labels would decide."
        )
    return f"{sentence} Groups of raters who do not err independently: {shared}. {counted}"


def _number(labels: float) -> str:
    return f"{labels:,.{0 if labels >= 10 else 1}f}"


def _silent(inputs: Inputs) -> NDArray[np.bool_]:
    """Return which items have no responses and are not known."""
    return ~inputs.answered & ~_known(inputs)


def _known(inputs: Inputs) -> NDArray[np.bool_]:
    """Return which items have known labels."""
    gold_items = np.asarray([*(inputs.gold or ()), *(inputs.known or ())], dtype=object)
    return np.isin(inputs.responses.items, gold_items)


def of_part(inputs: Inputs, part: Inputs) -> list[str]:
    """Say if models were fitted to a part of the items."""
    if inputs.responses is part.responses:
        return []
    return [
        f"Models are fitted to {part.responses.n_items:,} of the {inputs.responses.n_items:,} "
        "items, drawn at random, and predict the labels of the others; more minutes= allow a "
        "larger part."
    ]


def of_model(
    result: xr.DataTree, model: pm.Model, inputs: Inputs, seed: int, schedule: Schedule
) -> list[Finding]:
    """Return the verdicts of the checks of a model for which there is time."""
    checks: list[Any] = [item_difficulty, conditional_dependence]
    if inputs.sequences is not None and "sequences" in observed(model)[1].labels.needs:
        checks.insert(0, runs)
    elif inputs.graph is not None:
        checks.insert(0, neighbour_agreement)
    # without replicated labels, which take time
    findings = [
        Finding(collapse(result, model).attrs["verdict"], "bf.checks.collapse(result, model)")
    ]
    left_out = []
    for check in checks:
        name = f"bf.checks.{check.__name__}"
        run = partial(check, result, model, draws=REPLICATED, random_seed=seed)
        try:
            done = schedule.timed(run)
        except InapplicableError as reason:  # such as too few shared items
            findings.append(Finding(f"{name} is not possible for this table: {reason}"))
            continue
        except Exception as error:  # an answer must not be lost by an error of a check
            warn(f"{name} failed and is left out; please report it. Got: {error!r}.")
            continue
        if done is None:
            left_out.append(name)
            continue
        call = f"{name}(result, model, draws={REPLICATED}, random_seed={seed})"
        findings.append(Finding(done.attrs["verdict"], call))
    if left_out:
        words = f"No time was left for {', '.join(left_out)}: give more minutes= (--time)."
        findings.append(Finding(words))
    return findings + of_rules(result)


def of_rules(result: xr.DataTree) -> list[Finding]:
    """Return which rules count as one, and whether votes of rules are dependent."""
    if (votes := result["posterior"].dataset.get("vote")) is None:
        return []
    copies = [name.rpartition(":")[0] for name in votes.values.tolist() if " = " in name]
    sentences = [f"Near copies count as one rule: {'; '.join(copies) or 'there are none'}."]
    if (factor := float(result.attrs["dispersion"])) > DEPENDENT:
        sentences.append(
            f"Votes are {factor:.1f} times as dispersed as those of independent rules, so their "
            "accuracies are less certain than in the table of raters: see "
            f"bf.rater_table(fused['models/{RULES.name}'])."
        )
    return list(map(Finding, sentences))


def together(by_model: Mapping[str, list[Finding]], kinds: Iterable[str]) -> list[str]:
    """Return the verdicts for several models of these kinds, the same words once."""
    tried = re.compile(rf"[Tt]ry (bayesfuse\.models\.(?:{'|'.join(kinds)}))\b")
    models: dict[str, list[str]] = {}
    for name, findings in by_model.items():
        for finding in findings:
            words = tried.sub(r"\1 allows for it, and is in this average", finding.words)
            models.setdefault(words, []).append(name)
    return [f"{'; '.join(names)}: {line}" for line, names in models.items()]


def of_labels(result: xr.DataTree) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    drawn = np.array([part[:size] for part in parts])
    for code in range(result["label_posterior"].sizes["class"]):
        is_class = (drawn == code).astype(float)
        vary = np.ptp(is_class, axis=(0, 1)) > 0.0  # others have no R-hat
        if vary.any():
            indicators = xr.Dataset({"label": (("chain", "draw", "item"), is_class[..., vary])})
            with np.errstate(divide="ignore"):  # constant in every chain
                rhat = az.rhat(indicators, method="identity")["label"].values
            worst[vary] = np.fmax(worst[vary], rhat)
    return error, worst


def of_chains(error: NDArray[np.float64], rhat: NDArray[np.float64]) -> list[Finding]:
    """Return a finding if chains of a model are too short for its labels (:func:`of_labels`)."""
    if np.isnan(error).any():
        return [Finding("Chains are too short to assess their agreement.")]
    unsure = float(((error > PRECISE) | (rhat > AGREED)).mean())
    if unsure <= FEW_LABELS:
        return []
    return [
        Finding(
            f"Of {unsure:.0%} of the items, the Monte Carlo error of a label probability exceeds "
            f"{PRECISE} or the R-hat of the label {AGREED}: chains should run longer (minutes=, "
            "or if time did not end them draws= in the code of fused.explain())."
        )
    ]


def oddities(responses: Responses, n_known: int = 0) -> list[Advice]:
    """Return advice on what may be wrong with a table."""
    return [*on_classes(responses), *on_repeats(responses), *_single(responses, n_known)]


def _single(responses: Responses, n_known: int) -> list[Advice]:
    """Return advice on tables with one response per item."""
    if n_known or responses.per_item.max(initial=0) > 1 or responses.stated is not None:
        return []
    return [
        Advice(
            "Ask for a second response to some items: one response per item has no information "
            "about raters, and probabilities are those of the prior.",
            "single responses",
        )
    ]
