"""Select the models that suit a table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from bayesfuse.checks.repeats import part_of
from bayesfuse.data.graph import as_graph
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.evidence import Evidence
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.members import (
    CHAIN,
    CHAIN_POOLED,
    CHAIN_TYPES,
    FEW_VOTES,
    GRADED,
    GRAPH,
    GRAPH_TYPES,
    GROUPS,
    INDEPENDENT,
    ITEMS,
    KNOWN,
    LEAST_VOTES,
    LEAST_WEIGHT,
    ONE_ACCURACY,
    OTHERS,
    RULES,
    SEQUENCE_VOTES,
    SPAN_VOTES,
    TAGS,
    UNPOOLED,
    Candidate,
)
from bayesfuse.ensemble.schedule import Schedule
from bayesfuse.priors import IDENTIFIED

STRONG = 1.5, 2.0  # couplings that are tried, as multiples of the critical one

RESPONSES_PER_SECOND, MIN_PART = 4_000, 10_000
"""Responses that models are fitted to in a second of the time limit, and at least: the labels of
other items are predicted."""

DRAFT = {"draws": 60, "iterations": 50, "tolerance": 1e-5}
DRAFT_ON_GRAPHS = DRAFT | {"draws": 4}  # labels on graphs take long
"""Settings of fits in seconds, where sampling may take too long."""


@dataclass(frozen=True)
class Side:
    """Models that share a weight; ``by_prediction`` if it is divided by how well they predict.

    Of ``rivals``, only the one that predicts best is used. A side that ``extends`` a model of
    another by an order has a weight only as far as that model, with the ``gain`` of the order in
    nats per response, predicts as well as the others beside it.
    """

    weight: float
    candidates: list[Candidate]
    by_prediction: bool = False
    rivals: bool = False
    extends: str | None = None
    gain: float = 0.0


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
        return _of_graph(inputs, evidence)
    if are_labelling_functions(responses) and not inputs.has_partial_answers:
        every_class_has_votes = np.bincount(responses.label, minlength=responses.n_classes).all()
        # vote shares have no evidence on a class for which no rule votes
        rules = RULES if every_class_has_votes else replace(RULES, votes=LEAST_VOTES)
        if inputs.user_groups is not None:
            rules = replace(rules, inputs_used=("groups", *rules.inputs_used))
        return [Side(1.0, [rules])]
    return _of_items(inputs, evidence)


def _of_graph(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models with neighbours, and without them where they may not be alike."""
    if not inputs.has_only_labels:
        return [Side(1.0, GRAPH, rivals=True)]
    # raters too few to be left out cannot show whether neighbours are alike, as the user says
    weight = 1.0 if math.isnan(evidence.neighbours.gain) else evidence.neighbours.weight
    together = Side(weight, [*GRAPH, *strong(inputs), *GRAPH_TYPES], rivals=True)
    if evidence.dependent:
        types = [replace(candidate, votes=FEW_VOTES) for candidate in GRAPH_TYPES]
        together = Side(weight, types)
    alone = _of_items(replace(inputs, graph=None), evidence)
    both = [together, *(replace(side, weight=side.weight * (1.0 - weight)) for side in alone)]
    return [side for side in both if side.weight >= LEAST_WEIGHT]


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
        weight = side.weight * order.weight
        if side.by_prediction:
            both.append(Side(weight, chains))
        else:
            both.append(Side(weight, [CHAIN_TYPES], extends=ITEMS[0].name, gain=order.gain))
        both.append(replace(side, weight=side.weight * (1.0 - order.weight)))
    return [side for side in both if side.weight >= LEAST_WEIGHT]


def _of_items(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models of items without order, whose sources are people or classifiers."""
    are_estimated = bool(evidence.groups) or isinstance(inputs.groups, str)
    if inputs.has_partial_answers:
        return _of_partial_answers(inputs, evidence)
    if not inputs.has_only_labels:
        return [Side(1.0, [OTHERS] if inputs.groups is None else [GROUPS])]
    independent = [UNPOOLED]
    if np.count_nonzero(inputs.responses.per_rater) >= IDENTIFIED:
        independent += [INDEPENDENT, ONE_ACCURACY]
    n_classes = inputs.responses.n_classes
    graded = [GRADED] if inputs.graded and n_classes > 2 else []
    independent += [replace(candidate, votes=LEAST_VOTES) for candidate in graded]
    # with two classes, none competes with another
    dependent = [*(ITEMS[:3] if n_classes == 2 else ITEMS), *graded]
    if inputs.responses.is_of_votes:
        # of voters without names, no rater can have a row of their own on clean items
        crowd = [candidate for candidate in dependent if not candidate.options.get("clean")]
        return [Side(1.0, crowd)]
    of_groups = replace(GROUPS, votes=FEW_VOTES)
    share, grouped = evidence.independence, 0.0
    alone = evidence if evidence.ungrouped is None else evidence.ungrouped
    if inputs.groups is not None:
        grouped = evidence.grouped if evidence.groups else 1.0
    with_groups = [of_groups, *dependent] if are_estimated else [GROUPS]
    weighed = [
        Side(grouped * share, [of_groups]),
        Side(grouped * (1.0 - share), with_groups),
        Side((1.0 - grouped) * alone.independence, independent, by_prediction=True),
        Side((1.0 - grouped) * (1.0 - alone.independence), dependent),
    ]
    return [side for side in weighed if side.weight >= LEAST_WEIGHT]


def _of_partial_answers(inputs: Inputs, evidence: Evidence) -> list[Side]:
    """Return models of answers of several classes; their item types have no variational fit."""
    sampled = [replace(candidate, settings=None) for candidate in ITEMS[:3]]
    share = evidence.independence
    both = [Side(share, [UNPOOLED]), Side(1.0 - share, sampled)]
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
    has_tags = inputs.sequences is not None and mark_spans(inputs.responses.classes.tolist())
    if inputs.has_only_labels and not has_tags and inputs.graph is None and inputs.groups is None:
        # in sequences as well, before the evidence on the order, which may mislead
        if inputs.sequences is not None or not are_labelling_functions(inputs.responses):
            return ITEMS[:1]
    alone = replace(
        OTHERS,
        name="Dawid–Skene, approximate",
        why="takes seconds, and is used where the others take too long",
        inputs_used=KNOWN,
        start="majority",
    )
    members = [alone]
    if inputs.sequences is not None:
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
