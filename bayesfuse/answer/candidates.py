"""Which models are sensible for a table, and how a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesfuse import models
from bayesfuse.data.graph import Graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError
from bayesfuse.pymc.model import LabelModel

SINGLE = 0.9  # share of sources with one label only, above which sources are taken for rules

FEW_VOTES, MANY_VOTES = 0.05, 0.5
"""Weights of vote shares beside models with calibrated probabilities, and an overconfident one."""

KNOWN, TOLD = ("gold",), ("gold", "covariates")
"""Keywords of every model, and of models of independent items."""


@dataclass(frozen=True)
class Inputs:
    """Arguments of ``bf.fuse``."""

    responses: Responses
    sequences: Sequences | None = None
    graph: Graph | None = None
    groups: Any = None
    covariates: Any = None
    gold: Mapping[Any, Any] | None = None
    ordered: bool | None = None

    @property
    def plain(self) -> bool:
        """Whether the table has labels only: neither silence nor stated probabilities."""
        return self.responses.silent is None and self.responses.stated is None

    @property
    def graded(self) -> bool:
        """Whether classes are grades; numbers may be codes, so these need ``ordered``."""
        if self.ordered is not None:
            return self.ordered
        return self.responses.ordered and self.responses.classes.dtype.kind not in "iuf"


@dataclass(frozen=True)
class Candidate:
    """A model that may be fitted: its name in the answer, its class, and the reason in words.

    ``given`` are the inputs after the responses, ``told`` keywords that are passed if they are
    given, ``options`` other arguments. ``votes`` is the weight of vote shares beside the model, for
    dependent errors, which the model ignores.
    """

    name: str
    model: str
    why: str
    given: tuple[str, ...] = ()
    told: tuple[str, ...] = KNOWN
    options: Mapping[str, Any] = field(default_factory=dict)
    votes: float = 0.0

    def build(self, inputs: Inputs) -> LabelModel:
        """Return the model."""
        given = [getattr(inputs, name) for name in self.given]
        told = {name: getattr(inputs, name) for name in self._told(inputs)}
        model: LabelModel = getattr(models, self.model)(
            inputs.responses, *given, **self.options, **told
        )
        return model

    def code(self, inputs: Inputs) -> str:
        """Return the call that makes it, as a user would write it."""
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        told = [f"{name}={name}" for name in self._told(inputs)]
        return f"{self.model}({', '.join(['responses', *self.given, *options, *told])})"

    def _told(self, inputs: Inputs) -> list[str]:
        return [name for name in self.told if getattr(inputs, name) is not None]


ITEMS = [
    Candidate(name, "ItemTypes", why, told=TOLD, options=options, votes=FEW_VOTES)
    for name, why, options in (
        ("item types", "items differ in difficulty, and raters look or guess", {}),
        (
            "shared rows",
            "the same, where raters differ by competence and guesses only",
            {"own_rows": False},
        ),
        ("one type per class", "the same, where all items of a class are alike", {}),
    )
]
"""Models of labels by people, which have the best labels on real crowds."""

GROUPS = Candidate(
    "groups", "LatentGroup", "raters share the given sources", ("groups",), TOLD, votes=FEW_VOTES
)
GRADED = Candidate(
    "graded",
    "DawidSkene",
    "classes are ordered, and raters have thresholds",
    told=TOLD,
    options={"raters": "graded", "pooled": True},
    votes=FEW_VOTES,
)
QUICK = Candidate(
    "Dawid–Skene",
    "DawidSkene",
    "quicker than the others; overconfident, so that vote shares have the same weight",
    told=TOLD,
    votes=MANY_VOTES,
)
RULES = Candidate(
    "labelling functions",
    "LabellingFunctions",
    "sources are silent on most items and know one label each",
)
SEQUENCES = [
    Candidate(
        "sequences, pooled",
        "HiddenMarkov",
        "items are in sequence; raters are alike unless their responses differ",
        ("sequences",),
        options={"pooled": True},
    ),
    Candidate(
        "sequences",
        "HiddenMarkov",
        "items are in sequence, and raters are independent",
        ("sequences",),
    ),
]
GRAPH = [
    Candidate(
        f"graph, edges {edges}",
        "MarkovRandomField",
        f"neighbours are alike, and edges {how} on the labels",
        ("graph",),
        options={"edges": edges},
    )
    for edges, how in (("given", "do not depend"), ("drawn", "depend"))
]


def candidates(inputs: Inputs) -> list[Candidate]:
    """Return the sensible models, the most important first, or raise ModelError if none fits."""
    given = {"sequences", "graph", "groups", "covariates"}
    given = {name for name in given if getattr(inputs, name) is not None}
    if len(given) > 1 and given != {"groups", "covariates"}:
        raise ModelError(
            "bf.fuse takes sequences, a graph, or groups and covariates, because no model of this "
            f"package has labels of two structures. Got: {' and '.join(sorted(given))}."
        )
    if "sequences" in given:  # raters share a mean only if all their responses are labels
        return SEQUENCES if inputs.plain else SEQUENCES[1:]
    if "graph" in given:
        return GRAPH
    if is_rules(inputs.responses):
        return [RULES]
    if "groups" in given:
        return [GROUPS, ITEMS[0]]
    if not inputs.plain:
        why = "takes silence and stated probabilities; overconfident, unlike vote shares"
        return [replace(QUICK, why=why)]
    last = replace(ITEMS[2], options={"types": inputs.responses.n_classes})
    graded = inputs.graded and inputs.responses.n_classes > 2
    return [*ITEMS[:2], last, *([GRADED] if graded else [])]


def spare(inputs: Inputs) -> list[Candidate]:
    """Return quicker models for tables too large for the others; none for other structures."""
    if any(each.votes != FEW_VOTES for each in candidates(inputs)):
        return []
    return [QUICK]


def is_rules(responses: Responses) -> bool:
    """Return whether sources look like rules: silent on most items, one label each."""
    if responses.n_raters < 2:
        return False
    said = np.zeros((responses.n_raters, responses.n_classes), dtype=bool)
    said[responses.rater, responses.label] = True
    single = said.sum(axis=1) == 1
    speaks = responses.n_responses < 0.5 * responses.n_items * responses.n_raters
    several = responses.per_rater >= 10  # fewer say little of how a rater answers
    if not several.any() or said.any(axis=0).sum() < 2:
        return False
    return bool(speaks and single[several].mean() >= SINGLE)
