"""Evidence on the errors of raters, before any model of the answer is fitted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.checks.error_correlation import error_correlation, independence
from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences, consecutive_rows
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tags import mark_spans
from bayesfuse.ensemble.members import LEAST_WEIGHT
from bayesfuse.ensemble.order import UNKNOWN, OrderEvidence, measure_neighbours, measure_order
from bayesfuse.ensemble.sources import measure_groups
from bayesfuse.errors import CollapseWarning, ModelError, MomentsError
from bayesfuse.inference.find_map import find_map
from bayesfuse.models import DawidSkene
from bayesfuse.priors import IDENTIFIED
from bayesfuse.raters.dependence import Groups

if TYPE_CHECKING:
    from bayesfuse.ensemble.inputs import Inputs

MAX_RESPONSES, MIN_PER_RATER = 200_000, 50
"""Responses from which the correlation is estimated, more if that is fewer than so many per rater:
with ten per rater, imprecise confusion matrices inflate the correlation."""

MAX_RATERS_FOR_GROUPS = 100
MIN_NEIGHBOURS = 100  # responses to neighbouring items of a span that show whether errors go on
FEW_RATERS = 0.5
"""Weight of independent errors of up to three raters or groups, which cannot show it."""


@dataclass(frozen=True)
class Evidence:
    """Correlation of the errors of two sources on an item, its standard error, and groups.

    A group of raters is one source, as is every rater outside groups. Estimated groups have the
    probability ``grouped``, and ``ungrouped`` is the evidence if there are none (None if they are
    certain or given). ``unmeasured`` is the weight of models of independent errors where the
    correlation is unknown. ``along`` is the correlation of a rater's errors on neighbouring items,
    where classes are tags of spans, which serves as the probability that errors are dependent.
    ``start`` is the fit of independent errors that the evidence comes from, at whose labels other
    models may start.
    """

    correlation: float = math.nan
    error: float = math.nan
    groups: Mapping[Any, list[Any]] = field(default_factory=dict)
    grouped: float = 0.0
    ungrouped: Evidence | None = None
    unmeasured: float = 0.0
    along: float = 0.0
    start: xr.DataTree | None = None
    order_of_types: OrderEvidence = UNKNOWN
    order_of_classes: OrderEvidence = UNKNOWN
    neighbours: OrderEvidence = UNKNOWN

    @property
    def independence(self) -> float:
        """Weight of models of independent errors, the others have the rest."""
        if math.isnan(self.correlation):
            return self.unmeasured
        return independence(self.correlation, self.error) * (1.0 - self.along)

    @property
    def dependent(self) -> bool:
        """Whether the errors of raters are clearly dependent given the class."""
        return self.correlation > 0.0 and self.independence < 0.5


def examine(inputs: Inputs) -> Evidence:
    """Return the evidence of a table of labels; none of labelling functions, which are sparse."""
    responses = inputs.responses
    if inputs.has_partial_answers:
        evidence = measure_dependence(responses.without_statements(), inputs.gold, 0)
        # no model has groups of raters and partial answers
        return replace(evidence.ungrouped or evidence, groups={}, grouped=0.0, start=None)
    if not inputs.has_only_labels:
        return Evidence()
    if inputs.graph is None and are_labelling_functions(responses):
        return Evidence()
    groups = {} if inputs.has_order else inputs.user_groups  # no model has groups and an order
    # a seed of its own: evidence is a property of the table
    evidence = measure_dependence(responses, inputs.gold, 0, groups)
    if inputs.sequences is not None:
        if mark_spans(responses.classes.tolist()):
            return replace(evidence, along=correlation_along(responses, inputs.sequences))
        return _of_order(inputs, evidence)
    if inputs.graph is not None:
        return replace(evidence, neighbours=measure_neighbours(inputs.responses, inputs.graph))
    return evidence if inputs.user_groups is None else replace(evidence, groups={})


def _of_order(inputs: Inputs, evidence: Evidence) -> Evidence:
    """Return evidence with that on the order, by the models that will have a weight."""
    kinds = {"order_of_types": ("types", 1.0 - evidence.independence)}
    kinds["order_of_classes"] = "confusion", evidence.independence
    measured: Any = {
        name: measure_order(inputs.responses, inputs.sequences, raters)  # type: ignore[arg-type]
        for name, (raters, weight) in kinds.items()
        if weight >= LEAST_WEIGHT
    }
    return replace(evidence, **measured)


def measure_dependence(
    responses: Responses, gold: Mapping[Any, Any] | None, seed: int, groups: Any = None
) -> Evidence:
    """Return the correlation of errors, and groups unless they are given.

    No evidence where responses are too few.
    """
    rng = np.random.default_rng(seed)
    if np.count_nonzero(responses.per_rater) <= IDENTIFIED:
        return Evidence(unmeasured=FEW_RATERS)
    if responses.per_item.max(initial=0) < 2:
        return Evidence()
    with warnings.catch_warnings():
        # of a defect of results, which these fits are not
        warnings.simplefilter("ignore", CollapseWarning)
        if groups is not None:
            return _of_groups(responses, Groups.read(groups, responses).members, gold, rng)
        ungrouped = _correlation(responses, gold, rng)
        if responses.n_raters > MAX_RATERS_FOR_GROUPS or math.isnan(ungrouped.correlation):
            return ungrouped
        explanation = measure_groups(responses, gold, ungrouped.independence)
        if explanation is None:
            return ungrouped
        of_sources = _of_groups(responses, explanation.members, gold, rng)
        grouped = explanation.probability(of_sources.independence)
        if grouped < LEAST_WEIGHT:
            return ungrouped
    return replace(of_sources, grouped=grouped, ungrouped=ungrouped, start=None)


def _of_groups(
    responses: Responses,
    groups: Mapping[Any, list[Any]],
    gold: Mapping[Any, Any] | None,
    rng: np.random.Generator,
) -> Evidence:
    """Return evidence of the correlation of errors of groups, and of raters outside groups."""
    sources = _one_rater_per_group(responses, groups)
    if np.count_nonzero(sources.per_rater) <= IDENTIFIED:
        return Evidence(groups=groups, unmeasured=FEW_RATERS)
    return replace(_correlation(sources, gold, rng), groups=groups)


def _correlation(
    responses: Responses, gold: Mapping[Any, Any] | None, rng: np.random.Generator
) -> Evidence:
    """Return evidence of the correlation of errors alone, of a part of large tables."""
    table = part_of(responses, max(MAX_RESPONSES, MIN_PER_RATER * responses.n_raters), rng)
    known = {name: label for name, label in (gold or {}).items() if name in set(table.items)}
    try:
        fit = find_map(DawidSkene(table, gold=known or None))
    except (ModelError, MomentsError):
        return Evidence()
    point = fit["point"].dataset
    shares, rows = point["prevalence"].values, point["confusion"].values
    start = fit if table.n_items == responses.n_items else None
    return Evidence(*error_correlation(table, shares, rows, rng), start=start)


def correlation_along(responses: Responses, sequences: Sequences) -> float:
    """Return the correlation of a rater's errors on neighbouring items in spans of the majority.

    It is .69 for named entities and .75 to .95 on simulated abstracts, where raters miss whole
    spans, and at most .12 on tables simulated with independent errors. It is zero if it is
    negative, or few responses show it.
    """
    best = responses.votes().argmax(axis=1)[responses.item]
    inside = responses.classes[best] != "O"
    later, earlier = consecutive_rows(sequences, responses)
    in_span = inside[later] & inside[earlier]
    later, earlier = later[in_span], earlier[in_span]
    if len(later) < MIN_NEIGHBOURS:
        return 0.0
    wrong = responses.label != best
    errors = pd.DataFrame({"now": wrong[later], "earlier": wrong[earlier]}, dtype=float)
    errors -= errors.groupby(responses.rater[later]).transform("mean")
    correlation = errors["now"].corr(errors["earlier"])
    return max(float(np.nan_to_num(correlation)), 0.0)  # NaN where a rater's errors do not vary


def _one_rater_per_group(responses: Responses, groups: Mapping[Any, list[Any]]) -> Responses:
    """Return the responses of a rater of every group, and of those outside groups.

    It is the one with most responses. Answers of several raters have no common confusion matrix, so
    their errors would correlate with those of other groups whose raters differ on the same items.
    """
    number = dict(zip(responses.raters.tolist(), responses.per_rater.tolist(), strict=True))
    used = [max(raters, key=number.__getitem__) for raters in groups.values()]
    others = [name for raters in groups.values() for name in raters if name not in used]
    is_used = ~np.isin(responses.raters, others)[responses.rater]
    codes = (code[is_used] for code in (responses.item, responses.rater, responses.label))
    return responses.with_rows(*codes)
