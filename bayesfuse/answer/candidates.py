"""Which models are sensible for a table, and how a user would write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayesfuse import models
from bayesfuse.data.graph import Graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError
from bayesfuse.pymc.model import LabelModel

RULES = 0.9
"""Share of sources that only ever give one label, from which on sources are taken for rules."""

FEW_VOTES, MANY_VOTES = 0.05, 0.5
"""Weights of vote shares beside models of honest probabilities, and beside one that is too bold."""

KNOWN = "gold"
"""What every model can be told."""


@dataclass(frozen=True)
class Inputs:
    """What the user gave."""

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
        """Whether classes are grades: numbers may be mere codes, so these must be said to be."""
        if self.ordered is not None:
            return self.ordered
        return self.responses.ordered and self.responses.classes.dtype.kind not in "iuf"


@dataclass(frozen=True)
class Candidate:
    """A model that may be fitted.

    Attributes
    ----------
    name : str
        How the answer names it.
    model : str
        Its class in ``bayesfuse.models``.
    why : str
        Why it is sensible, in words.
    given : tuple of str
        The inputs after the responses.
    told : tuple of str
        The inputs that are keywords, where there are any.
    options : mapping
        Its other arguments.
    votes : float
        Weight of vote shares beside it: a chance that raters err together, which no model of them
        sees.
    """

    name: str
    model: str
    why: str
    given: tuple[str, ...] = ()
    told: tuple[str, ...] = (KNOWN,)
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


def candidates(inputs: Inputs) -> list[Candidate]:
    """Return the models that are sensible for what was given, the most important first.

    Raises
    ------
    ModelError
        Inputs that no model takes together.
    """
    _require_one_structure(inputs)
    if inputs.sequences is not None:
        return _of_sequences(inputs.plain)
    if inputs.graph is not None:
        return _of_graph()
    if is_rules(inputs.responses):
        return [
            Candidate(
                "labelling functions",
                "LabellingFunctions",
                "sources are silent on most items and know one label each",
            )
        ]
    if inputs.groups is not None:
        told = (KNOWN, "covariates")
        grouped = Candidate(
            "groups",
            "LatentGroup",
            "raters share sources, as you say",
            ("groups",),
            told,
            votes=FEW_VOTES,
        )
        return [grouped, *_of_items(told, inputs.responses.n_classes)[:1]]
    if not inputs.plain:
        return [_independent("silence and stated probabilities count; too bold, as votes are not")]
    told = (KNOWN, "covariates")
    return _of_items(told, inputs.responses.n_classes) + _of_kind(inputs)


def _independent(why: str) -> Candidate:
    """Return the quickest model, which takes every table but is too bold."""
    told = (KNOWN, "covariates")
    return Candidate("Dawid–Skene", "DawidSkene", why, told=told, votes=MANY_VOTES)


def _of_items(told: tuple[str, ...], n_classes: int) -> list[Candidate]:
    """Return the models of labels by people, which have the best labels on real crowds."""
    variants: dict[str, tuple[str, dict[str, Any]]] = {
        "item types": ("items differ in difficulty, and raters look or guess", {}),
        "shared rows": (
            "the same, where raters differ by competence and guesses only",
            {"own_rows": False},
        ),
        "one type per class": (
            "the same, where all items of a class are alike",
            {"types": n_classes},
        ),
    }
    return [
        Candidate(name, "ItemTypes", why, told=told, options=options, votes=FEW_VOTES)
        for name, (why, options) in variants.items()
    ]


def _of_kind(inputs: Inputs) -> list[Candidate]:
    """Return what is added for ordered classes."""
    if not inputs.graded or inputs.responses.n_classes < 3:
        return []
    told = (KNOWN, "covariates")
    options = {"raters": "graded", "pooled": True}
    why = "classes are ordered, and raters have thresholds"
    return [Candidate("graded", "DawidSkene", why, told=told, options=options, votes=FEW_VOTES)]


def _of_sequences(plain: bool) -> list[Candidate]:
    """Return hidden Markov models; raters share a mean only where all they give is labels."""
    both = [
        Candidate(
            "sequences, pooled",
            "HiddenMarkov",
            "items are in sequence; raters are alike unless their responses say otherwise",
            ("sequences",),
            options={"pooled": True},
        ),
        Candidate(
            "sequences",
            "HiddenMarkov",
            "items are in sequence, every rater on their own",
            ("sequences",),
        ),
    ]
    return both if plain else both[1:]


def _of_graph() -> list[Candidate]:
    return [
        Candidate(
            f"graph, edges {edges}",
            "MarkovRandomField",
            f"neighbours are alike, and edges {how} on the labels",
            ("graph",),
            options={"edges": edges},
        )
        for edges, how in (("given", "do not depend"), ("drawn", "depend"))
    ]


def spare(inputs: Inputs) -> list[Candidate]:
    """Return what is quicker, for tables too large for the others; nothing for other structures."""
    if any(each.votes != FEW_VOTES for each in candidates(inputs)):
        return []
    return [_independent("quicker than the others; too bold, so that votes count as much")]


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
    return bool(speaks and single[several].mean() >= RULES)


def _require_one_structure(inputs: Inputs) -> None:
    given = [
        name
        for name in ("sequences", "graph", "groups", "covariates")
        if getattr(inputs, name) is not None
    ]
    together = {"groups", "covariates"}
    if len(given) > 1 and not set(given) <= together:
        raise ModelError(
            "bf.fuse takes sequences, a graph, or groups and covariates, because no model of this "
            f"package has labels of two structures. Got: {' and '.join(given)}."
        )
