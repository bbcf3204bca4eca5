"""The sentences of an answer: its headline, and findings in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from bayesfuse.checks.advice import Advice, listing
from bayesfuse.data.describing import summarise
from bayesfuse.decisions import expected_errors
from bayesfuse.ensemble.doubtful_raters import DoubtfulRaters
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import judges_raters

SURE = 0.95  # labels of at least this probability count as sure
MENTIONED = 0.5  # groups of raters of at least this probability are in the headline


@dataclass(frozen=True)
class Finding:
    """An observation about an answer: its kind, a key of SENTENCES, and the values to insert.

    ``call`` repeats the check, given ``result`` and ``model``.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""


SENTENCES = {
    # of a model
    "approximation": "An approximation in seconds, whose intervals are too narrow: more minutes= "
    "(--time) draw from the posterior.",
    "short chains": "Chains are too short to assess their agreement.",
    "imprecise labels": "Of {share:.0%} of the items, the Monte Carlo error of a label probability "
    "exceeds {max_error} or the R-hat of the label {max_rhat}: chains should run longer (minutes=, "
    "--time; or, if time did not end them, draws=, --draws).",
    "verdict": "{verdict}",
    "inapplicable check": "The table has too few responses to tell {question} ({check}).",
    "omitted checks": "No time was left for {checks}: give more minutes= (--time).",
    "interrupted checks": "The checks were interrupted.",
    "near copies": "Near copies count as one rule: {copies}.",
    "dispersed votes": "Votes are {factor:.1f} times as dispersed as those of independent rules, "
    "and the intervals in the table of raters are wider by that. Known labels narrow them.",
    # of the table
    "dependence": "The errors of {raters} on an item are correlated by {correlation:.2f} ± "
    "{error:.2f}: models of independent errors have a weight of {independence:.0%}, those of items "
    "that are hard for all raters the others.",
    "incomplete sides": "If all fits had finished, models of independent errors would have "
    "{planned:.0%}.",
    "order": "The order of the items predicts a rater who is left out {comparison}: models with it "
    "have a weight of {weight:.0%}, models without it the others.",
    "lost order": "They have none because item types, which they extend, predict the responses "
    "far worse than other models.",
    "neighbours": "The labels of its neighbours predict a response to an item {comparison} than "
    "the shares of the classes: models with the graph have a weight of {weight:.0%}, models "
    "without it the others.",
    "unknown dependence": "Up to three raters, or groups of them, cannot show whether errors are "
    "independent: models of independent errors have a weight of {independence:.0%}, those of items "
    "that are hard for all raters the others.",
    "subset": "Models are fitted to {fitted:,} of the {items:,} items, drawn at random, and "
    "predict the labels of the others; more minutes= allow a larger part.",
    "mended tags": "Known tags that continue a span that has not begun were read as its beginning "
    "({count:,}): item {tags}.",
    # of the number of wrong labels
    "wide by models": "This interval is wide because the models disagree: by “{best}”, {few:,.0f} "
    "of these labels are wrong, and by “{worst}” {many:,.0f}.",
    "wide by modes": "This interval is wide because the chains of “{model}” found different "
    "answers (R-hat of a label {rhat:.2f}); known labels would show which is right.",
    "wide by order": "This interval is wide because labels beside each other are wrong together.",
    "wide by few raters": "This interval is wide because up to three raters, or groups of raters, "
    "hardly show how accurate each of them is, and if one is worse than it seems, many labels are "
    "wrong together. Known labels, or further raters, would narrow it.",
    "wide": "This interval is wide because it is uncertain how accurate raters are, and if they "
    "are worse than they seem, many labels are wrong together. Known labels would narrow it.",
    # of known labels
    "gold without responses": "No known item has responses ({known:,} known), so known labels show "
    "nothing of the raters and the models.",
    "right on gold": "Of the known labels of items with responses ({known:,}), the models have "
    "{right:,} right without using them.",
    "held-out loss": "If the label of a known item is left out, its true class has a probability "
    "of {likely:.0%} on average given the other known labels, and of {alone:.0%} without any "
    "(log-loss {loss:.2f} and {models_alone:.2f}; difference {difference:+.2f} ± {error:.2f}).",
    "no correction": "With a probability of {none:.2f}, the models are as certain as they should "
    "be.",
    "correction": "With a probability of {none:.2f}, the models are as certain as they should be; "
    "else known labels multiply their log-odds by {trust:.2f} ({low:.2f}–{high:.2f}; below 1, they "
    "are too certain).",
    "rater weights": "The known labels raise the weight of raters {higher}, and lower that of "
    "raters {lower}.",
    "selected gold": "Known items look chosen, not random: the models are {how} of them than of "
    "the others ({known:.2f} and {others:.2f}). Expected errors hold for items like the known "
    "ones (bf.class_shares(chosen=…) takes those that are not typical).",
    "more gold": "After {numbers} more known labels, {random} are expected to be wrong if items "
    "are chosen at random, {uncertain} if the least certain are. Better estimates of the raters "
    "reduce errors further.",
}

QUESTIONS = {  # of the checks that need more than some tables have
    "item_difficulty": "whether items differ in difficulty",
    "conditional_dependence": "whether pairs of raters share mistakes",
    "runs": "whether labels last as long as the model expects",
    "neighbour_agreement": "whether neighbours agree as often as the model expects",
}

ADVICE = {  # by kind: a sentence without numbers that change from run to run, and its call
    "order": (
        "Give the order of the items (sequences=, or --sequence and --position): the classes are "
        "tags of spans, which depend on the tags before them.",
        "bf.fuse(responses, sequences=sequences{other_arguments})",
    ),
    "single responses": (
        "Ask for a second response to some items: one response per item has no information about "
        "raters, and probabilities are those of the prior.",
        "",
    ),
    "grades": (
        "If the classes are grades, state so (ordered=True, --ordered), which adds a model of "
        "grades: their numbers might be codes.",
        "bf.fuse(responses, ordered=True{other_arguments})",
    ),
    "no gold": ("No label is known, so it is uncertain whether the majority is right.", ""),
    "some gold": (
        "Known labels so far: {known:,}. More of them improve the weights of raters and models.",
        "",
    ),
    "gold": (
        "{reason} Label {number} randomly chosen items yourself (bf.decisions.next_items, --ask), "
        "and fit again with these known labels (gold=, --gold).",
        "bf.decisions.next_items(fused, {missing})",
    ),
    "gold in sequences": (
        "{reason} Label {number} items yourself, chosen at random from all sequences "
        "(bf.decisions.next_items, --ask), and fit again with these known labels (gold=, --gold): "
        "sequences differ, so labels of a few whole ones count little.",
        "bf.decisions.next_items(fused, {missing})",
    ),
    "gold of patterns": (
        "{reason} Known labels belong to single items, so every item of a pattern needs a row of "
        "its own (responses.expand()).",
        "responses.expand()",
    ),
    "one more response": (
        "If you can ask for more responses, ask for those that correct most "
        "(bf.decisions.value_of_response(fused) lists items and raters to ask).",
        "bf.decisions.value_of_response(fused)",
    ),
    "uncertain items": (
        "Look at the items of the least certain labels: those of the lowest probability in the "
        "file of labels (bf.decisions.rank_items(fused) lists them).",
        "bf.decisions.rank_items(fused)",
    ),
    "confused raters": (
        "Ask {raters} what the labels mean: averaged over the classes, their answers are right "
        "less often than guesses, so the classes may have been confused. The models take this into "
        "account (fused.raters() lists all).",
        "fused.raters()",
    ),
    "guessing raters": (
        "{remedy} {raters}: averaged over the classes, their answers are probably hardly better "
        "than guesses, after {responses} responses or more (fused.raters() lists all). These do no "
        "harm here, but cost and add little.",
        "fused.raters()",
    ),
    "vote shares": ("These labels are vote shares, and raters are not judged: {remedy}.", ""),
}


def advice(kind: str, **values: Any) -> Advice:
    """Return advice of a kind as a sentence with its call."""
    sentence, call = ADVICE[kind]
    return Advice(sentence.format(**values), kind, call.format(**values))


def word(findings: Iterable[Finding]) -> list[str]:
    """Return the findings as sentences."""
    return [SENTENCES[finding.kind].format(**finding.values) for finding in findings]


def word_by_model(by_model: Mapping[str, list[Finding]], kinds: Iterable[str]) -> list[str]:
    """Return the findings of several models of these classes, the same sentence once."""
    tried = re.compile(rf"[Tt]ry (bayesfuse\.models\.(?:{'|'.join(kinds)}))\b")
    models: dict[str, list[str]] = {}
    for name, findings in by_model.items():
        for sentence in word(findings):
            sentence = tried.sub(r"\1 allows for it, and is in this average", sentence)
            models.setdefault(sentence, []).append(name)
    return [f"{'; '.join(names)}: {sentence}" for sentence, names in models.items()]


def headline(fused: xr.DataTree, inputs: Inputs, evidence: Evidence, why: list[Finding]) -> str:
    """Return how many labels are sure, how many are expected wrong, and ``why`` it is uncertain."""
    top = label_probabilities(fused).values.max(axis=1)
    copies, known = inputs.responses.multiplicity, inputs.is_known
    n_sure, n_known = int(copies[(top >= SURE) & ~known].sum()), inputs.n_known
    errors = expected_errors(fused, random_seed=0)
    wrong, low, high = (float(errors[name]) for name in ("expected", "low", "high"))
    sentence = (
        f"{summarise(inputs.responses)[0]}. {'Unknown items' if n_known else 'Items'} with a label "
        f"of probability {SURE} or more: {n_sure:,}. In all, {_number(wrong)} labels "
        f"({low:,.0f}–{high:,.0f}) are expected to be wrong"
    )
    silent = ~inputs.answered & ~known
    if silent.any():
        n_silent = copies[silent].sum()
        items = f"{n_silent:,} items" if n_silent > 1 else "one item"
        silent_errors = _number(float((1.0 - top[silent]) @ copies[silent]))
        sentence += f", {silent_errors} of them among {items} without responses"
    sentence += f"{_known(n_known)}."
    parts = [inputs.read, sentence, *word(why)]
    parts.append(sources(evidence, inputs))
    return " ".join(filter(None, parts))


def opening(fused: xr.DataTree, n_known: int, doubtful: DoubtfulRaters | None) -> str:
    """Return the result in a sentence: how many labels, and which raters, are expected wrong."""
    errors = expected_errors(fused, random_seed=0)
    wrong, low, high, total = (float(errors[name]) for name in ("expected", "low", "high", "items"))
    sentence = (
        f"{_number(wrong)} of {total:,.0f} labels are expected to be wrong ({low:,.0f}–{high:,.0f})"
    )
    sentence += _known(n_known)
    if not judges_raters(fused):
        sentence += ", if votes are right in proportion to their shares; raters are not judged"
    elif doubtful is not None and doubtful.n_judged:
        n_worse = len(doubtful.worse)
        count = f"{n_worse:,} raters are" if n_worse > 1 else "1 rater is"
        sentence += f"; {count if n_worse else 'no rater is clearly'} worse than guessing"
    return f"{sentence}."


def sources(evidence: Evidence, inputs: Inputs) -> str:
    """Return probable groups of raters that share a source, and how their votes count."""
    if not evidence.groups or evidence.grouped < MENTIONED:
        return ""
    counted = (
        "Votes of a group then count as one: its raters share a source, or agree because they are "
        "right more often than the others. Some known labels would decide."
    )
    if inputs.has_judging_gold:
        counted = "The known labels correct the weight of each group."
    groups = "; ".join(f"[{listing(raters)}]" for raters in evidence.groups.values())
    return (
        f"Groups of raters who, with a probability of {min(evidence.grouped, 0.99):.0%}, do not "
        f"err independently: {groups}. {counted}"
    )


def _known(number: int) -> str:
    """Return how many labels are known, as the end of a sentence."""
    return f"; {number:,} {'is' if number == 1 else 'are'} known" if number else ""


def _number(labels: float) -> str:
    return f"{labels:,.{0 if labels >= 10 else 1}f}"
