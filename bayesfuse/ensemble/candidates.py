"""Select the models that suit a table, and write them as a user would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

import bayesfuse.models
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.graph import as_graph
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.evidence import LEAST_WEIGHT, Evidence
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.schedule import CHAINS, Schedule, draws_of_large
from bayesfuse.priors import IDENTIFIED
from bayesfuse.pymc.model import LabelModel

LEAST_VOTES, FEW_VOTES, SEQUENCE_VOTES, RULE_VOTES = 0.01, 0.05, 0.2, 0.25
SPAN_VOTES, MANY_VOTES = 0.4, 0.5
"""Weights of vote shares beside models of independent errors, of people, of sequences, of rules, of
spans, and an overconfident one."""

STRONG = 1.5, 2.0  # couplings that are tried, as multiples of the critical one

RESPONSES_PER_SECOND, MIN_PART = 10_000, 10_000
"""Responses that models are fitted to in a second of the time limit, and at least: the labels of
other items are predicted."""

TYPE_DRAWS = 250, 50  # draws of the variational fits of item types, of large tables at least
DRAFT = {"draws": 60, "iterations": 50, "tolerance": 1e-5}
DRAFT_ON_GRAPHS = DRAFT | {"draws": 4}  # labels on graphs take long
"""Settings of fits in seconds, where sampling may take too long."""

KNOWN, BY_ITEM = ("gold",), ("gold", "covariates")
"""Keywords of every model, and of models of independent items."""


@dataclass(frozen=True)
class Candidate:
    """A model that may be fitted: its name in the answer, its class, and the reason in words.

    ``inputs_used`` are the arguments of ``bf.fuse`` that it takes, and ``options`` its others.
    ``votes`` is the weight of vote shares beside the model, ``sweeps`` are the most draws and
    tuning steps of a chain, and ``start`` is their initialisation. With ``settings``, those of a
    variational fit, it is not sampled. A ``draft`` stands for models that take too long.
    """

    name: str
    model: str
    why: str
    inputs_used: tuple[str, ...] = BY_ITEM
    options: Mapping[str, Any] = field(default_factory=dict)
    votes: float = 0.0
    sweeps: tuple[int, int] = (250, 200)
    start: str = "moments"
    settings: Mapping[str, Any] | None = None
    draft: bool = False

    def within(self, draws: int | None, n_responses: int) -> Candidate:
        """Return the same with at most so many draws of each of four chains, or in all."""
        most, tune = self.sweeps
        settings = self.settings
        if settings is not None:
            of_table = draws_of_large(settings["draws"], TYPE_DRAWS[1], n_responses)
            settings = {**settings, "draws": min(CHAINS * (draws or most), of_table)}
        return replace(self, sweeps=(min(draws or most, most), tune), settings=settings)

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
    Candidate(
        name, "ItemTypes", why, BY_ITEM, options, FEW_VOTES, settings={"draws": TYPE_DRAWS[0]}
    )
    for name, why, options in (
        (
            "consensus",
            "items differ in difficulty, and raters look or guess in their own way",
            LEVELS,
        ),
        ("even guesses", "the same, where guesses prefer no class", LEVELS | {"guesses": "even"}),
        (
            "clean items",
            "the same as the first, beside items on which raters only err in their own ways",
            LEVELS | {"clean": True},
        ),
        ("competing classes", "the same as the first, where two classes may compete", {}),
    )
]
"""Models of labels by people, which have the best labels on real crowds."""

GROUPS = Candidate(
    "groups",
    "LatentGroup",
    "raters share a source",
    ("groups", *BY_ITEM),
    # agreement may also mean that these raters are right more often, which is not identified
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
    votes=LEAST_VOTES,  # an error shared by all raters is not observable
)
ONE_ACCURACY = replace(
    INDEPENDENT,
    name="independent errors, one accuracy",
    why="errors are independent, and a rater is right equally often on items of all classes",
    options={"raters": "coin"},
)
UNPOOLED = replace(
    INDEPENDENT,
    name="independent errors, unpooled",
    why="errors are independent, and the accuracies of raters vary freely",
    options={},
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
    options={"odds": 5.0},  # where rules rarely overlap, this prior determines their accuracy
    votes=RULE_VOTES,
)
CHAIN = Candidate(
    "sequences",
    "HiddenMarkov",
    "items are in sequence, and raters are independent",
    ("sequences", *BY_ITEM),
)
CHAIN_TYPES = replace(
    CHAIN,
    name="types in sequence",
    why="the difficulty of an item, and what raters see in it, is that of the item before or new",
    inputs_used=("sequences", *KNOWN),
    options={"raters": "types"},
    votes=FEW_VOTES,
    sweeps=(60, 40),
    start="majority",
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
        candidate,
        name=f"{candidate.name}, item types",
        why=f"{candidate.why}; raters make the same errors on some items",
        options={**candidate.options, "raters": "types"},
        start="majority",
    )
    for candidate in GRAPH
]


@dataclass(frozen=True)
class Side:
    """Models that share a weight; ``by_prediction`` if it is divided by how well they predict."""

    weight: float
    candidates: list[Candidate]
    by_prediction: bool = False


@dataclass(frozen=True)
class Selection:
    """Models to fit by side, the most important first, and their inputs: a part of large tables.

    ``start`` is a fit of the same items, at whose labels models may start.
    """

    inputs: Inputs
    sides: list[Side]
    start: xr.DataTree | None = None

    @property
    def candidates(self) -> list[Candidate]:
        """The models of all sides, each once."""
        return _distinct(self.sides)

    @property
    def names(self) -> set[str]:
        """Names of the models of all sides."""
        return {candidate.name for candidate in self.candidates}


def choose(
    inputs: Inputs, evidence: Evidence, schedule: Schedule, seed: int, draws: int | None
) -> Selection:
    """Select the models of the answer by the structure of the table and its evidence."""
    part = sample_items(with_sources(inputs, evidence), schedule, seed)
    size = part.responses.n_responses
    return Selection(
        part,
        [
            replace(side, candidates=[c.within(draws, size) for c in side.candidates])
            for side in sides(part, evidence)
        ],
        None if inputs.has_order else evidence.start,
    )


def with_sources(inputs: Inputs, evidence: Evidence) -> Inputs:
    """Return the inputs with estimated groups, unless the user passes groups or a graph."""
    if inputs.graph is not None or inputs.groups is not None or not evidence.groups:
        return inputs
    return replace(inputs, groups=dict(evidence.groups))


def sample_items(inputs: Inputs, schedule: Schedule, seed: int) -> Inputs:
    """Return the inputs for the items that models are fitted to: a part of very large tables."""
    if not inputs.has_only_labels or inputs.has_order or inputs.covariates is not None:
        return inputs
    most = max(int(RESPONSES_PER_SECOND * schedule.seconds), MIN_PART)
    part = part_of(inputs.responses, most, np.random.default_rng(seed), inputs.gold or {})
    return replace(inputs, responses=part)


def has_rivals(inputs: Inputs, evidence: Evidence) -> bool:
    """Return whether only the model that predicts best is used: of labels on a graph."""
    return inputs.graph is not None and not evidence.dependent


def candidates(inputs: Inputs, evidence: Evidence | None = None) -> list[Candidate]:
    """Return the sensible models, the most important first."""
    return _distinct(sides(inputs, Evidence() if evidence is None else evidence))


def _distinct(sides: list[Side]) -> list[Candidate]:
    by_name: dict[str, Candidate] = {}
    for side in sorted(sides, key=lambda side: -side.weight):
        for candidate in side.candidates:
            by_name.setdefault(candidate.name, candidate)
    return list(by_name.values())


def sides(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models of independent and of dependent errors, with weights by the evidence."""
    responses = inputs.responses
    if inputs.sequences is not None:
        return _of_sequences(inputs, evidence)
    if inputs.graph is not None:
        return [Side(1.0, _of_graph(inputs, evidence))]
    if are_labelling_functions(responses):
        every_class_has_votes = np.bincount(responses.label, minlength=responses.n_classes).all()
        # vote shares have no evidence on a class for which no rule votes
        rules = RULES if every_class_has_votes else replace(RULES, votes=LEAST_VOTES)
        return [Side(1.0, [rules])]
    return _of_items(inputs, evidence)


def _of_graph(inputs: Inputs, evidence: Evidence) -> list[Candidate]:
    if not inputs.has_only_labels:
        return GRAPH
    if has_rivals(inputs, evidence):
        return [*GRAPH, *strong(inputs), *GRAPH_TYPES]
    return [replace(candidate, votes=FEW_VOTES) for candidate in GRAPH_TYPES]


def _of_sequences(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models with order, and without it where it may not help."""
    tags = mark_spans(inputs.responses.classes.tolist())
    if tags or not inputs.has_only_labels:
        votes = SPAN_VOTES if tags else SEQUENCE_VOTES
        votes *= 1.0 - evidence.independence
        chains = [CHAIN, TAGS] if tags and inputs.covariates is None else [CHAIN]
        return [Side(1.0, [replace(candidate, votes=votes) for candidate in chains])]
    of_raters = replace(CHAIN, options={"raters": "confusion"})  # whatever the model's default
    chains = [of_raters, CHAIN_POOLED]
    if np.count_nonzero(inputs.responses.per_rater) < IDENTIFIED:
        chains = [of_raters]
    chains = [replace(chain, votes=LEAST_VOTES) for chain in chains]
    both = []
    for side in _of_items(replace(inputs, sequences=None), evidence):
        order = evidence.order_of_classes if side.by_prediction else evidence.order_of_types
        with_order = chains if side.by_prediction else [CHAIN_TYPES]
        both.append(Side(side.weight * order.weight, with_order))
        both.append(replace(side, weight=side.weight * (1.0 - order.weight)))
    return [side for side in both if side.weight >= LEAST_WEIGHT]


def _of_items(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models of items without order, whose sources are people or classifiers."""
    sources = [] if inputs.groups is None else [GROUPS]
    if not inputs.has_only_labels:
        return [Side(1.0, sources or [OTHERS])]
    n_classes = inputs.responses.n_classes
    graded = [GRADED] if inputs.graded and n_classes > 2 else []
    independent = [UNPOOLED]
    if np.count_nonzero(inputs.responses.per_rater) >= IDENTIFIED:
        independent += [INDEPENDENT, ONE_ACCURACY]
    # with two classes, none competes with another
    dependent = [*(ITEMS[:3] if n_classes == 2 else ITEMS), *graded]
    if sources:
        are_estimated = evidence.groups or isinstance(inputs.groups, str)
        of_groups = replace(GROUPS, votes=FEW_VOTES)
        independent = [of_groups, *independent] if are_estimated else [of_groups]
        dependent = [GROUPS, *dependent] if are_estimated else [GROUPS]
    share = evidence.independence
    both = [Side(share, independent, by_prediction=True), Side(1.0 - share, dependent)]
    return [side for side in both if side.weight >= LEAST_WEIGHT]


def strong(inputs: Inputs) -> list[Candidate]:
    """Return models of smooth images, whose inferred coupling is too weak.

    Above the critical coupling the prior expects one class, so segments of similar size imply a
    coupling near it, and labels that are less certain than right.
    """
    critical = as_graph(inputs.graph).bethe_coupling(inputs.responses.n_classes)
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


def drafts(inputs: Inputs) -> list[Candidate]:
    """Return models that take seconds, the simplest first.

    The last, with the structure of the items, is used; on a graph the one that predicts best.
    """
    if inputs.has_only_labels and not inputs.has_order and inputs.groups is None:
        if not are_labelling_functions(inputs.responses):
            return ITEMS[:1]
    alone = replace(
        OTHERS,
        name="Dawid–Skene, approximate",
        why="takes seconds, and is used where the others take too long",
        inputs_used=KNOWN,
        start="majority",
    )
    members = [alone]
    is_plain = inputs.has_only_labels and not mark_spans(inputs.responses.classes.tolist())
    if inputs.sequences is not None and is_plain:
        # before the evidence on the order, which may mislead
        members.append(replace(ITEMS[0], name="consensus, approximate", why=alone.why))
    elif inputs.sequences is not None:
        chain = replace(CHAIN, name="sequences, approximate", inputs_used=("sequences", *KNOWN))
        members.append(replace(chain, votes=SEQUENCE_VOTES, start="majority"))
    if inputs.graph is not None:
        for candidate in strong(inputs)[:1]:
            name = f"{candidate.name}, approximate"
            members.append(replace(candidate, name=name, start="first fit"))
        drawn = f"{GRAPH[1].name}, approximate"
        members.append(replace(GRAPH[1], name=drawn, start="majority"))
        members = [replace(member, votes=FEW_VOTES) for member in members]
    settings = DRAFT if inputs.graph is None else DRAFT_ON_GRAPHS
    return [replace(member, settings=settings, draft=True) for member in members]
