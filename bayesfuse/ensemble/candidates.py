"""Which models are sensible for a table, and how a user would write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesfuse.models
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.errors import ModelError
from bayesfuse.labels.couplings import bethe_coupling
from bayesfuse.priors import IDENTIFIED
from bayesfuse.pymc.model import LabelModel

SINGLE = 0.9  # share of sources with one label only, above which sources are taken for rules

LEAST_VOTES, FEW_VOTES, SEQUENCE_VOTES, RULE_VOTES = 0.01, 0.05, 0.2, 0.25
SPAN_VOTES, MANY_VOTES = 0.4, 0.5
"""Weights of vote shares beside models of independent errors, of people, of sequences, of rules, of
spans, and an overconfident one."""

STRONG = 1.5, 2.0  # couplings that are tried, in critical ones

KNOWN, BY_ITEM = ("gold",), ("gold", "covariates")
"""Keywords of every model, and of models of independent items."""


@dataclass(frozen=True)
class Inputs:
    """Arguments of ``bf.fuse``; models see ``gold``, and ``known`` are used on top of them.

    ``mended`` are those of ``gold`` that are not as given.
    """

    responses: Responses
    sequences: Sequences | None = None
    graph: Graph | None = None
    groups: Any = None
    covariates: Any = None
    gold: Mapping[Any, Any] | None = None
    ordered: bool | None = None
    evidence: Evidence = field(default_factory=Evidence)
    mended: Mapping[Any, Any] = field(default_factory=dict)
    known: Mapping[Any, Any] | None = None
    gold_error: float = 0.0
    read: str = ""
    calls: str = ""
    limits: Sequence[str] = ()
    """How the table was read, in words and as code, and what it cannot tell."""

    @property
    def has_only_labels(self) -> bool:
        """Whether the table has labels only: neither silence nor stated probabilities."""
        return self.responses.silent is None and self.responses.stated is None

    @property
    def user_groups(self) -> Any:
        """Groups as given, not to be found."""
        return None if isinstance(self.groups, str) else self.groups

    @property
    def graded(self) -> bool:
        """Whether classes are grades; numbers may be codes, so these need ``ordered``."""
        if self.ordered is not None:
            return self.ordered
        return self.responses.ordered and self.responses.classes.dtype.kind not in "iuf"

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which items have responses, or statements of probabilities."""
        answered: NDArray[np.bool_] = self.responses.per_item > 0
        stated = self.responses.stated
        return answered if stated is None else answered | (stated.per_item > 0)

    @property
    def n_known(self) -> int:
        """Number of known labels."""
        return len(self.gold or self.known or ())

    @property
    def rivals(self) -> bool:
        """Whether only the model that predicts best is used: of labels on a graph."""
        return self.graph is not None and not self.evidence.dependent


@dataclass(frozen=True)
class Candidate:
    """A model that may be fitted: its name in the answer, its class, and the reason in words.

    ``told`` are keywords that are passed if they are given, ``options`` other arguments. ``votes``
    is the weight of vote shares beside the model, ``sweeps`` are the most draws and tuning steps of
    a chain, ``start`` is where these begin.
    """

    name: str
    model: str
    why: str
    inputs_used: tuple[str, ...] = BY_ITEM
    options: Mapping[str, Any] = field(default_factory=dict)
    votes: float = 0.0
    sweeps: tuple[int, int] = (250, 200)
    start: str = "moments"

    def within(self, draws: int | None) -> Candidate:
        """Return the same with at most so many draws of a chain."""
        most, tune = self.sweeps
        return replace(self, sweeps=(min(draws or most, most), tune))

    @property
    def tabulates(self) -> bool:
        """Whether building it may take long, for a table of the constants of a coupling."""
        return self.options.get("edges") == "given" and "trust" not in self.options

    def build(self, inputs: Inputs) -> LabelModel:
        """Return the model."""
        arguments = {name: getattr(inputs, name) for name in self._arguments_of(inputs)}
        build: type[LabelModel] = getattr(bayesfuse.models, self.model)
        return build(inputs.responses, **self.options, **arguments)

    def code(self, inputs: Inputs) -> str:
        """Return the call that makes it, as a user would write it."""
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        arguments = [f"{name}={name}" for name in self._arguments_of(inputs)]
        return f"{self.model}({', '.join(['responses', *options, *arguments])})"

    def _arguments_of(self, inputs: Inputs) -> list[str]:
        return [name for name in self.inputs_used if getattr(inputs, name) is not None]


LEVELS = {"consensus": "levels"}
ITEMS = [
    Candidate(name, "ItemTypes", why, BY_ITEM, options, FEW_VOTES, (250, 50), "majority")
    for name, why, options in (
        (
            "consensus",
            "items differ in difficulty, and raters look or guess in their own way",
            LEVELS,
        ),
        ("even guesses", "the same, where guesses prefer no class", LEVELS | {"guesses": "even"}),
        ("competing classes", "the same as the first, where two classes may compete", {}),
    )
]
"""Models of labels by people, which have the best labels on real crowds."""

GROUPS = Candidate(
    "groups",
    "LatentGroup",
    "raters share a source",
    ("groups", *BY_ITEM),
    # raters also agree with each other where they alone are right, which labels cannot tell apart
    votes=MANY_VOTES,
)
GRADED = Candidate(
    "graded",
    "DawidSkene",
    "classes are ordered, and raters have thresholds",
    options={"raters": "graded", "pooled": True},
    votes=FEW_VOTES,
)
INDEPENDENT = Candidate(
    "independent errors",
    "DawidSkene",
    "the errors of raters are independent given the class",
    options={"pooled": True},
    votes=LEAST_VOTES,  # errors that all make cannot be seen
)
FEW_RATERS = replace(
    INDEPENDENT,
    why="up to three raters do not show whether errors are independent: accuracies vary freely",
    options={},
    votes=FEW_VOTES,
)
OTHERS = Candidate(
    "Dawid–Skene",
    "DawidSkene",
    "takes silence and stated probabilities; overconfident, unlike vote shares",
    votes=MANY_VOTES,
)
RULES = Candidate(
    "labelling functions",
    "LabellingFunctions",
    "sources are silent on most items and know one label each",
    inputs_used=KNOWN,
    options={"odds": 5.0},  # where rules hardly meet, nothing else says how often they are right
    votes=RULE_VOTES,
)
CHAIN = Candidate(
    "sequences",
    "HiddenMarkov",
    "items are in sequence, and raters are independent",
    ("sequences", *BY_ITEM),
)
CHAIN_POOLED = replace(
    CHAIN,
    name="sequences, pooled",
    why="items are in sequence; raters are alike unless their responses differ",
    options={"pooled": True},
)
TAGS = Candidate(
    "tags alone",
    "DawidSkene",
    "the order is not used, which is better where raters miss or shift whole spans",
    inputs_used=KNOWN,
)
GRAPH = [
    Candidate(
        f"graph, edges {edges}",
        "MarkovRandomField",
        f"neighbours are alike, and edges {how} on the labels",
        ("graph", *KNOWN),
        options={"edges": edges},
    )
    for edges, how in (("given", "do not depend"), ("drawn", "depend"))
]
GRAPH_TYPES = [
    replace(
        each,
        name=f"{each.name}, item types",
        why=f"{each.why}; raters make the same errors on some items",
        options={**each.options, "raters": "types"},
        start="majority",
    )
    for each in GRAPH
]


def candidates(inputs: Inputs) -> list[Candidate]:
    """Return the sensible models, the most important first, or raise ModelError if none fits."""
    n_classes = inputs.responses.n_classes
    structures = "sequences", "graph", "groups", "covariates"
    structure = {name for name in structures if getattr(inputs, name) is not None}
    if len(structure) > 1 and structure not in (
        {"groups", "covariates"},
        {"sequences", "covariates"},
    ):
        raise ModelError(
            "bf.fuse takes sequences or groups, each with or without covariates, or a graph, "
            "because no model of this package has labels of two structures. Got: "
            f"{' and '.join(sorted(structure))}."
        )
    if "sequences" in structure:
        tags = mark_spans(inputs.responses.classes.tolist())
        votes = SPAN_VOTES if tags else SEQUENCE_VOTES
        votes = 0.0 if inputs.evidence.independent else votes
        # raters share a mean if all they do is label, and have rows by their own last tag for spans
        chains = [CHAIN, CHAIN_POOLED] if inputs.has_only_labels and not tags else [CHAIN]
        chains += [TAGS] if tags and inputs.covariates is None else []
        return [replace(candidate, votes=votes) for candidate in chains]
    if "graph" in structure:
        if not inputs.has_only_labels:
            return GRAPH
        if inputs.rivals:
            return [*GRAPH, *strong(inputs), *GRAPH_TYPES]
        return [replace(candidate, votes=FEW_VOTES) for candidate in GRAPH_TYPES]
    if is_rules(inputs.responses):
        every_class_has_votes = np.bincount(inputs.responses.label, minlength=n_classes).all()
        # vote shares know nothing of a class for which no rule votes
        return [RULES if every_class_has_votes else replace(RULES, votes=LEAST_VOTES)]
    sources = [GROUPS] if "groups" in structure else []
    if not inputs.has_only_labels:
        return sources or [OTHERS]
    graded = [GRADED] if inputs.graded and inputs.responses.n_classes > 2 else []
    if np.count_nonzero(inputs.responses.per_rater) <= IDENTIFIED and not sources:
        return [FEW_RATERS, ITEMS[0], *graded]
    if inputs.evidence.independent:
        return [replace(GROUPS, votes=FEW_VOTES)] if sources else [INDEPENDENT]
    if sources and not (inputs.evidence.groups or isinstance(inputs.groups, str)):
        return sources  # known ones, not found in the responses
    if n_classes == 2:
        return [*sources, *ITEMS[:2]]
    return [*sources, *ITEMS, *graded]


def strong(inputs: Inputs) -> list[Candidate]:
    """Return models of smooth images, whose inferred coupling is too weak.

    Above the critical coupling the prior expects one class, so segments of similar size imply a
    coupling near it, and labels that are less certain than right.
    """
    critical = bethe_coupling(as_graph(inputs.graph), inputs.responses.n_classes)
    return [
        replace(
            GRAPH[0],
            name=f"graph, {factor} times critical",
            why=f"neighbours are alike, with {factor} times the critical coupling of a tree",
            options={"trust": round(2.0 * factor * critical, 2)},
        )
        for factor in STRONG
        if 0.0 < critical < np.inf
    ]


def quick(inputs: Inputs) -> list[Candidate]:
    """Return models that are approximated in seconds, the simplest first.

    The last, with the structure of the items, is used; on a graph the one that predicts best.
    """
    alone = replace(
        OTHERS,
        name="Dawid–Skene, approximate",
        why="takes seconds, and is used where the others take too long",
        inputs_used=KNOWN,
        start="majority",
    )
    if inputs.sequences is not None:
        chain = replace(CHAIN, name="sequences, approximate", inputs_used=("sequences", *KNOWN))
        return [alone, replace(chain, votes=SEQUENCE_VOTES, start="majority")]
    if inputs.graph is None:
        return [alone]
    strongest = [replace(candidate, start="begun") for candidate in strong(inputs)[:1]]
    drawn = [replace(GRAPH[1], start="majority")]
    graphs = [
        replace(candidate, name=f"{candidate.name}, approximate") for candidate in strongest + drawn
    ]
    return [replace(candidate, votes=FEW_VOTES) for candidate in (alone, *graphs)]


def is_rules(responses: Responses) -> bool:
    """Return whether sources are labelling functions: one label each, and mostly no vote at all."""
    if responses.n_raters < 2:
        return False
    votes_for = np.zeros((responses.n_raters, responses.n_classes), dtype=bool)
    votes_for[responses.rater, responses.label] = True
    is_active = responses.per_rater >= 10  # fewer say little of how a rater answers
    if not is_active.any():
        return False
    n_pairs = responses.n_items * responses.n_raters
    if votes_for.any(axis=0).sum() == 1:
        # without any vote for another class, only silence can speak for it
        return responses.n_responses < n_pairs
    is_unipolar = votes_for.sum(axis=1) == 1
    is_sparse = responses.n_responses < 0.5 * n_pairs
    return bool(is_sparse and is_unipolar[is_active].mean() >= SINGLE)
