"""The words of an answer: its certainty, verdicts of checks, and advice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.answer.budget import Budget, Finding
from bayesfuse.answer.candidates import RULES, Inputs, is_rules
from bayesfuse.checks import (
    collapse,
    conditional_dependence,
    item_difficulty,
    neighbour_agreement,
    runs,
)
from bayesfuse.data.describing import in_one_line, summarise
from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import mark_spans
from bayesfuse.decisions import expected_errors, value_of_response
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.pymc.model import observed
from bayesfuse.results import joint_labels
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import rater_accuracy

REPLICATED = 50  # draws for checks by replicated tables

SURE = 0.95  # labels of at least this probability count as sure
PRECISE, AGREED = 0.02, 1.1  # Monte Carlo error and R-hat of a label that chains should reach
FEW_LABELS = 0.01  # share of the items that may exceed these
ENOUGH = 100  # known labels that show whether the majority is right
DEPENDENT = 2.0  # dispersion of rules above which intervals of their accuracies are too narrow
RARE = 0.005  # share of the responses below which a class may be a spelling mistake

MANY, SEVERAL = 20, 5  # least responses of a rater to be judged; names that a sentence lists

ASKED = 20  # items that should get one more response

WORK = 3e7
"""Entries of the table of one more response (items × raters × classes²) that are worked out."""


def headline(fused: xr.DataTree, inputs: Inputs) -> str:
    """Return how many labels are sure and how many are expected to be wrong."""
    top = label_probabilities(fused).values.max(axis=1)
    known = _known(inputs)
    sure = int(inputs.responses.multiplicity[(top >= SURE) & ~known].sum())
    errors = expected_errors(fused, random_seed=0)
    wrong, low, high = (float(errors[name]) for name in ("expected", "low", "high"))
    n_known = inputs.n_known
    said = f"{inputs.read} " if inputs.read else ""
    among = "Unknown items" if n_known else "Items"
    said += (
        f"{summarise(inputs.responses)[0]}. {among} with a label of probability {SURE} or more: "
        f"{sure:,}. In all, {_number(wrong)} labels ({low:,.0f}–{high:,.0f}) are expected to be "
        "wrong"
    )
    silent = _silent(inputs)
    if silent.any():
        copies = inputs.responses.multiplicity[silent]
        items = f"{copies.sum():,} items" if copies.sum() > 1 else "one item"
        apart = _number(float((1.0 - top[silent]) @ copies))
        said += f", {apart} of them among {items} without responses"
    said = f"{said}; {n_known:,} are known." if n_known else f"{said}."
    sources = [_names(raters) for raters in inputs.evidence.groups.values()]
    if not sources:
        return said
    shared = "; ".join(f"[{names}]" for names in sources)
    counted = "Votes of a group count as one."
    if n_known:
        counted = "The known labels correct how far each group is believed."
    elif not inputs.evidence.independent:
        counted = (
            "They share a source, or agree because they are right more often than the others; "
            "labels are between the two, and some known labels would decide."
        )
    return f"{said} Groups of raters who do not err independently: {shared}. {counted}"


def _number(labels: float) -> str:
    return f"{labels:,.{0 if labels >= 10 else 1}f}"


def _silent(inputs: Inputs) -> NDArray[np.bool_]:
    """Return which items have no responses and are not known."""
    return ~inputs.answered & ~_known(inputs)


def _known(inputs: Inputs) -> NDArray[np.bool_]:
    """Return which items have known labels."""
    given = np.asarray([*(inputs.gold or ()), *(inputs.known or ())], dtype=object)
    return np.isin(inputs.responses.items, given)


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
    result: xr.DataTree, model: pm.Model, inputs: Inputs, seed: int, budget: Budget
) -> list[Finding]:
    """Return the verdicts of the checks of a model for which there is time."""
    checks: list[Any] = [item_difficulty, conditional_dependence]
    if inputs.sequences is not None and "sequences" in observed(model)[1].labels.needs:
        checks.insert(0, runs)
    elif inputs.graph is not None:
        checks.insert(0, neighbour_agreement)
    # without replicated labels, which take time
    found = [Finding(collapse(result, model).attrs["verdict"], "bf.checks.collapse(result, model)")]
    left_out = []
    for check in checks:
        name = f"bf.checks.{check.__name__}"
        run = partial(check, result, model, draws=REPLICATED, random_seed=seed)
        try:
            done = budget.timed(run)
        except (ModelError, ResponsesError) as reason:  # such as too few shared items
            found.append(Finding(f"{name} does not apply: {reason}"))
            continue
        if done is None:
            left_out.append(name)
            continue
        call = f"{name}(result, model, draws={REPLICATED}, random_seed={seed})"
        found.append(Finding(done.attrs["verdict"], call))
    if left_out:
        words = f"No time was left for {', '.join(left_out)}: give more minutes= (--time)."
        found.append(Finding(words))
    return found + of_rules(result)


def of_rules(result: xr.DataTree) -> list[Finding]:
    """Return which rules count as one, and whether votes of rules are dependent."""
    if (votes := result["posterior"].dataset.get("vote")) is None:
        return []
    copies = [name.rpartition(":")[0] for name in votes.values.tolist() if " = " in name]
    said = [f"Near copies count as one rule: {'; '.join(copies) or 'there are none'}."]
    if (factor := float(result.attrs["dispersion"])) > DEPENDENT:
        said.append(
            f"Votes are {factor:.1f} times as dispersed as those of independent rules, so their "
            "accuracies are less certain than in the table of raters: see "
            f"bf.sources(fused['models/{RULES.name}'])."
        )
    return list(map(Finding, said))


def together(found: Mapping[str, list[Finding]], kinds: Iterable[str]) -> list[str]:
    """Return the verdicts for several models of these kinds, the same words once."""
    tried = re.compile(rf"[Tt]ry (bayesfuse\.models\.(?:{'|'.join(kinds)}))\b")
    models: dict[str, list[str]] = {}
    for name, own in found.items():
        for each in own:
            words = tried.sub(r"\1 allows for it, and is in this average", each.words)
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
        own = (drawn == code).astype(float)
        vary = np.ptp(own, axis=(0, 1)) > 0.0  # others have no R-hat
        if vary.any():
            each = xr.Dataset({"label": (("chain", "draw", "item"), own[..., vary])})
            with np.errstate(divide="ignore"):  # constant in every chain
                rhat = az.rhat(each, method="identity")["label"].values
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


def advise(fused: xr.DataTree, inputs: Inputs, told: list[str]) -> list[str]:
    """Return advice, the most important first."""
    responses, advice = inputs.responses, []
    if inputs.sequences is None and mark_spans(responses.classes.tolist()):
        advice.append(
            "Give the order of the items (sequences=, or --sequence and --position): the classes "
            "are tags of spans, which depend on the tags before them."
        )
    advice += oddities(responses)
    alone = inputs.sequences is None and inputs.graph is None and inputs.plain
    undecided = inputs.ordered is None and responses.ordered and not inputs.graded
    if alone and undecided and responses.n_classes > 2:
        advice.append(
            "If the classes are grades, pass ordered=True (--ordered), which adds a model of "
            "grades: their numbers might be codes."
        )
    advice += [*_gold(fused, inputs), *told]
    unsure = label_probabilities(fused).max("class").isel(item=~_silent(inputs))
    unsure = unsure.isel(item=np.argsort(unsure.values, kind="stable")[:SEVERAL])
    advice.append(
        f"Look at the items of the least certain labels: {_names(unsure['item'].values)} "
        f"(probabilities {float(unsure.min()):.2f} to {float(unsure.max()):.2f}; "
        "bf.decisions.rank_items lists all)."
    )
    return advice


def oddities(responses: Responses) -> list[str]:
    """Return advice on what may be wrong with a table."""
    return [*_classes(responses), *_repeats(responses)]


def _classes(responses: Responses) -> list[str]:
    """Return advice on classes that are rare, or differ only by case or spaces."""
    names = [str(name) for name in responses.classes.tolist()]
    plain = [name.strip().casefold() for name in names]
    alike = [repr(name) for name, same in zip(names, plain, strict=True) if plain.count(same) > 1]
    if alike:
        return [
            f"Check the classes {', '.join(alike[:SEVERAL])}: they differ only by case or spaces, "
            "but are different classes here."
        ]
    copies = responses.multiplicity[responses.item]
    number = np.bincount(responses.label, copies, minlength=responses.n_classes)
    rare = responses.classes[(number > 0) & (number < RARE * number.sum())]
    if not len(rare) or mark_spans(responses.classes.tolist()):
        return []
    return [
        f"Check the class {_names(rare)}: very few responses name it. If it is a spelling mistake, "
        "correct it, because another class makes all labels less certain."
    ]


def _repeats(responses: Responses) -> list[str]:
    """Return advice on single and repeated responses to items."""
    if responses.per_item.max() < 2 and responses.stated is None:
        return [
            "Ask for a second response to some items: one response per item has no information "
            "about raters, and probabilities are those of the prior."
        ]
    pair = responses.item.astype(np.int64) * responses.n_raters + responses.rater
    n_pairs = len(np.unique(pair))
    if not (again := len(pair) - n_pairs):
        return []
    other = len(np.unique(pair * responses.n_classes + responses.label)) - n_pairs
    return [
        f"Check that {again:,} responses are no copies: their raters responded to the same item "
        f"before (with another label: {other:,}). They count as separate responses; "
        "frame.drop_duplicates() leaves exact copies out."
    ]


def _gold(fused: xr.DataTree, inputs: Inputs) -> list[str]:
    n_known = inputs.n_known
    wanted = max(1, min(ENOUGH, int(inputs.responses.multiplicity.sum()) // 3))
    if n_known >= wanted:
        return []
    said = "No label is known, so it is uncertain whether the majority is right."
    if n_known:
        said = f"{n_known:,} labels are known; more correct raters and models better."
    number = f"{wanted - n_known:,}{' more' if n_known else ''}"
    how = ", chosen at random (bf.decisions.next_items, --ask in the shell)"
    if inputs.sequences is not None:
        how = " in whole sequences, chosen at random (rng.choice(sequences.names, …))"
    said += f" Find out those of {number} items{how}, and pass them as gold= (--gold)."
    models = [label_probabilities(own) for own in fused["models"].children.values()]
    if len(models) > 1:
        each = np.array([own.values for own in models])
        apart = np.abs(each - each.mean(axis=0)).sum(axis=(0, 2))
        most = np.argsort(-apart, kind="stable")[:SEVERAL]
        said += f" The models disagree most about items {_names(models[0]['item'].values[most])}."
    return [said]


def one_more_response(result: xr.DataTree, model: pm.Model, inputs: Inputs) -> list[str]:
    """Return advice on the items and raters for one more response."""
    responses = inputs.responses
    candidates = min(SEVERAL, responses.n_raters)
    if (
        inputs.known is not None  # models that have not seen these labels would ask about them
        or inputs.sequences is not None  # a rater is asked for whole ones
        or responses.n_items * candidates * responses.n_classes**2 > WORK
    ):
        return []
    try:
        found = value_of_response(result, model, candidates=candidates, most=1, draws=10)
    except ModelError:  # sources that may abstain have seen all items
        return []
    value = found["value"].isel(choice=0).fillna(0.0)
    best = np.argsort(-value.values, kind="stable")[:ASKED]
    best = best[value.values[best] > 0.0]  # others have all responses, or are of no use
    gain = float(value[best].sum())
    if gain < 0.05:
        return []
    asked = found["rater"].isel(choice=0)[best].values
    raters = list(dict.fromkeys(asked[asked != ""].tolist()))
    items = f"each of {len(best)} items" if len(best) > 1 else "one item"
    return [
        f"One more response to {items} would lower the expected number of wrong labels by "
        f"{gain:.1f}: begin with {_names(found['item'].values[best])}; ask raters {_names(raters)} "
        "(bf.decisions.value_of_response lists all)."
    ]


def about_raters(fused: xr.DataTree, responses: Responses) -> list[str]:
    """Return advice on raters who are no better than guessing, or worse."""
    # rules of one label each are right about one class alone: half of the time, balanced over two
    if joint_labels.GROUP not in fused.children or is_rules(responses):
        return []
    chance = 1.0 / fused["label_posterior"].sizes["class"]
    table = rater_accuracy(fused)
    labels = label_probabilities(fused).transpose("item", "class").values[responses.item]
    met = np.zeros((responses.n_raters, labels.shape[1]))  # expected items by class
    np.add.at(met, responses.rater, labels)
    second = pd.Series(np.sort(met, axis=1)[:, -2], responses.raters)
    table = table[(second.loc[table["rater"]] >= SEVERAL).to_numpy()]  # others met one class
    table = table[table["responses"] >= MANY]
    low, high = table["balanced_accuracy_low"], table["balanced_accuracy_high"]
    said = []
    if len(against := table.loc[high < chance, "rater"]):
        said.append(
            f"Ask what raters {_names(against)} mean by their labels: averaged over the classes, "
            "they are right less often than by guessing, so they may have confused the classes. "
            "The models take this into account."
        )
    if len(guessing := table.loc[(low <= chance) & (high >= chance), "rater"]):
        begin = "Do without" if 2 * len(guessing) <= len(table) else "Check the instructions of"
        said.append(
            f"{begin} raters {_names(guessing)}: averaged over the classes, they cannot be told "
            f"from guessing after {MANY} responses or more (fused.raters() lists all). Their "
            "responses do no harm here, but cost and add little."
        )
    return said


def _names(names: Any) -> str:
    listed = [in_one_line(name) for name in names]
    shown = ", ".join(listed[:SEVERAL])
    left_out = len(listed) - SEVERAL
    return f"{shown} and {left_out:,} more" if left_out > 0 else shown
