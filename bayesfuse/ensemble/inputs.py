"""Read the arguments of ``bf.fuse``: the table, its structure, and known labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.checks import identifiability
from bayesfuse.checks.advice import on_repeats
from bayesfuse.checks.repeats import collapse_repeats, in_words
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.known import gold_labels, read_covariates
from bayesfuse.data.names import listed, places
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tables import Table, read_table, require_few_classes
from bayesfuse.data.tags import legal_tags, spans_begin_with_b
from bayesfuse.errors import (
    ModelError,
    require_choice,
    require_flag,
    require_kind,
    require_number,
)
from bayesfuse.raters.dependence import Groups

STRUCTURES = "sequences", "graph", "groups", "covariates"
COMBINATIONS = {"groups", "covariates"}, {"sequences", "covariates"}


@dataclass(frozen=True)
class Inputs:
    """Arguments of ``bf.fuse``.

    Models are fitted with ``gold``, and ``known`` labels are used on top of them. ``mended`` are
    the known tags that were corrected. ``read`` and ``calls`` state how the table was read, in
    words and as code, and ``limits`` what it cannot identify; ``columns`` are its items, raters and
    labels, and ``source`` the name of its file.
    """

    responses: Responses
    sequences: Sequences | None = None
    graph: Graph | None = None
    groups: Any = None
    covariates: Any = None
    gold: Mapping[Any, Any] | None = None
    ordered: bool | None = None
    mended: Mapping[Any, Any] = field(default_factory=dict)
    known: Mapping[Any, Any] | None = None
    gold_error: float = 0.0
    read: str = ""
    calls: str = ""
    limits: Sequence[str] = ()
    columns: Sequence[str] = ()
    source: str = ""

    @property
    def has_only_labels(self) -> bool:
        """Whether the table has labels only: neither silence nor stated probabilities."""
        return self.responses.silent is None and self.responses.stated is None

    @property
    def has_partial_answers(self) -> bool:
        """Whether the table has labels and answers of several classes, and no other structure."""
        responses = self.responses
        if responses.stated is None or responses.silent is not None or not responses.n_responses:
            return False
        return not self.has_order and self.groups is None and responses.stated.are_sets

    @property
    def has_order(self) -> bool:
        """Whether items are in sequence or on a graph."""
        return self.sequences is not None or self.graph is not None

    @property
    def user_groups(self) -> Any:
        """Groups of raters, unless they are to be estimated."""
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
    def is_known(self) -> NDArray[np.bool_]:
        """Which items have known labels."""
        return gold_labels(self.responses, self.gold or self.known) >= 0

    @property
    def n_known(self) -> int:
        """Number of known labels."""
        return len(self.gold or self.known or ())

    @property
    def has_judging_gold(self) -> bool:
        """Whether a label of an item with responses is known, which shows how good raters are."""
        return bool((self.answered & self.is_known).any())


def read(
    table: Table,
    columns: dict[str, Any],
    structure: dict[str, Any],
    gold: Any,
    gold_error: float,
    ordered: bool | None,
) -> Inputs:
    """Return the table, its structure and known labels, after their checks."""
    if ordered is not None:
        require_flag("ordered", ordered)
    if structure["sequences"] is not None:
        require_kind("sequences", structure["sequences"], Sequences)
    responses, how, calls, names = read_table(table, **columns)
    require_few_classes(responses)
    if ordered and how and not responses.ordered:
        raise ModelError(
            "Text has only alphabetical order: for ordered=True give the labels as an ordered "
            "categorical, or bf.Responses with classes= from the lowest to the highest. Got: "
            f"classes {responses.classes.tolist()}."
        )
    # from_long sorts items by name; only covariates given in order depend on that order
    is_sorted = not isinstance(table, Responses) and "from_long(" in calls
    in_sequence = is_sorted and structure["covariates"] is None
    responses, code_of_items = _with_items_of_structure(responses, structure, in_sequence)
    calls += code_of_items
    gold = read_gold(gold, responses, columns["item"], columns["label"])
    if gold is not None:
        gold_labels(responses, gold)  # before repeated names of a Series are lost
        gold = dict(gold.items())
    groups = structure["groups"]
    has_groups = groups is not None and not isinstance(groups, str)  # which may contain copies
    copies = not has_groups and not are_labelling_functions(responses)
    repeated: list[str] = []
    if not responses.is_of_votes:  # voters may be as many as votes
        repeated += on_repeats(responses)
        collapsed, repeats = collapse_repeats(responses, copies=copies)
        is_copy = np.isin(responses.raters, collapsed.raters, invert=True)
        n_left_out = int((~is_copy[responses.rater]).sum()) - collapsed.n_responses
        responses = collapsed
        repeated += in_words(repeats, n_left_out)
        if len(repeats):
            call = f"bf.checks.collapse_repeats(responses, copies={copies})"
            calls += f"\nresponses, repeats = {call}"
    inputs = Inputs(responses, **structure, gold=gold, ordered=ordered, read=how, calls=calls)
    source = Path(table).name if isinstance(table, str | PathLike) else ""
    inputs = replace(inputs, columns=names, source=source)
    inputs = _with_checked_structure(inputs)
    limits: list[str] = []
    if not inputs.has_order and not responses.is_of_votes:
        problems = identifiability(responses, gold, inputs.user_groups).problems
        limits += [problem for problem in problems if problem.kind != "repeats"]
    inputs = replace(mend_tags(inputs), limits=[*limits, *repeated])
    return hold_out_gold(inputs, require_number("gold_error", gold_error, most=0.5))


def _with_items_of_structure(
    responses: Responses, structure: Mapping[str, Any], in_sequence: bool
) -> tuple[Responses, str]:
    """Return the table with items of sequences or a graph that have no responses, and the code.

    Items are in the order of the structure if it has more of them, or if they are to be
    ``in_sequence``.
    """
    has_more = responses.silent is not None or responses.stated is not None
    if has_more or not responses.is_unweighted:
        return responses, ""
    for name in ("sequences", "graph"):
        if (units := structure[name]) is None:
            continue
        items: Any = (units if name == "sequences" else as_graph(units)).items
        is_new = places(items, responses.items) < 0
        moves = in_sequence and name == "sequences" and not np.array_equal(items, responses.items)
        if not (is_new.any() or moves) or (places(responses.items, items) < 0).any():
            continue
        names: dict[str, Any] = {"raters": responses.raters, "classes": responses.classes}
        names |= {"items": items, "ordered": responses.ordered}
        table = Responses.from_long(responses.to_frame(), **names)
        code = (
            f"\nresponses = bf.Responses.from_long(\n    responses.to_frame(), items={name}.items, "
            "raters=responses.raters,\n    classes=responses.classes, ordered=responses.ordered,\n)"
        )
        return replace(table, normalised=responses.normalised), code
    return responses, ""


def _with_checked_structure(inputs: Inputs) -> Inputs:
    """Raise errors of structure here, because there may be no time for a model that would."""
    if inputs.covariates is not None:
        read_covariates(inputs.responses, inputs.covariates)
        if inputs.graph is None and are_labelling_functions(inputs.responses):
            raise ModelError(
                "The model of labelling functions has no covariates: leave them out, and train a "
                "classifier on the labels, with the covariates as its features. Got: covariates "
                f"and {inputs.responses.n_raters:,} rules that vote for one label or abstain."
            )
    if isinstance(inputs.groups, str):
        require_choice("groups", inputs.groups, "moments", "posterior")
    elif inputs.groups is not None:
        Groups.read(inputs.groups, inputs.responses)
    if inputs.groups is not None and inputs.responses.silent is not None:
        if not are_labelling_functions(inputs.responses):
            raise ModelError(
                "The models of groups have no abstentions: leave out groups=, or abstain= where "
                "the table is read, so that an abstention is no response. Got: groups= and raters "
                "who may abstain."
            )
    present = {name for name in STRUCTURES if getattr(inputs, name) is not None}
    if len(present) > 1 and present not in COMBINATIONS:
        raise ModelError(
            "bf.fuse takes sequences or groups, each with or without covariates, or a graph, "
            "because no model of this package has labels of two structures. Got: "
            f"{' and '.join(sorted(present))}."
        )
    inputs = inputs if inputs.graph is None else replace(inputs, graph=as_graph(inputs.graph))
    for units in (inputs.sequences, inputs.graph):
        if units is not None:
            units.places(inputs.responses)  # raises
    return inputs


def mend_tags(inputs: Inputs) -> Inputs:
    """Return inputs whose known tags are legal: a span of known tags begins with its B."""
    responses, sequences = inputs.responses, inputs.sequences
    if not inputs.gold or sequences is None or not spans_begin_with_b(responses, sequences):
        return inputs
    known_tags = gold_labels(responses, inputs.gold)
    legal = legal_tags(known_tags, responses, sequences)
    at = np.flatnonzero(legal != known_tags)
    tags = listed(responses.classes[legal[at]])
    mended = dict(zip(listed(responses.items[at]), tags, strict=True))
    return replace(inputs, gold=dict(inputs.gold) | mended, mended=mended)


def hold_out_gold(inputs: Inputs, gold_error: float = 0.0) -> Inputs:
    """Return inputs with known labels in ``known``, where they are used on top of the models."""
    if not inputs.gold:
        if gold_error:
            raise ModelError(
                "gold_error= is the probability that a known label is wrong, so it needs known "
                f"labels (gold=). Got: gold_error={gold_error:g} alone."
            )
        return inputs
    in_models = inputs.graph is not None or not inputs.responses.is_unweighted
    if in_models or not inputs.has_judging_gold:
        if gold_error:
            raise ModelError(
                "On graphs, in tables of counts, and if no known item has responses, models take "
                "known labels as certain: leave out the doubtful ones. Got: "
                f"gold_error={gold_error:g}."
            )
        return inputs
    return replace(inputs, gold=None, known=inputs.gold, gold_error=gold_error)
