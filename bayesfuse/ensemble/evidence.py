"""Evidence on the errors of raters, before any model of the answer is fitted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from bayesfuse.checks.repeats import part_of
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.data.sequences import Sequences, previous_labels
from bayesfuse.data.silence import are_labelling_functions
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import ModelError, MomentsError
from bayesfuse.inference.find_map import find_map
from bayesfuse.models import DawidSkene
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import invert
from bayesfuse.numerics.threads import check
from bayesfuse.priors import IDENTIFIED, diagonal
from bayesfuse.raters.dependence import Groups

if TYPE_CHECKING:
    from bayesfuse.ensemble.inputs import Inputs

MAX_RESPONSES, MIN_PER_RATER = 200_000, 50
"""Responses from which the correlation is estimated, more if that is fewer than so many per rater:
with ten per rater, imprecise confusion matrices inflate the correlation."""

MAX_RATERS_FOR_GROUPS = 100
MIN_NEIGHBOURS = 100  # responses to neighbouring items of a span that show whether errors go on
REPLICATES, STEPS = 8, 10
"""Simulated tables with which the correlation is compared, and EM steps of their fits."""

USUAL = 0.05
"""Mean of the exponential prior of the correlation where errors are dependent: between .014 and .1
on eleven public crowds."""

INFORMATIVE = 0.3
"""Standard error of the correlation at which it has half the weight: where next to no error is
seen, nothing speaks for independence."""

FEW_RATERS = 0.5
"""Weight of independent errors of up to three raters, who cannot show it."""

SPAN_THRESHOLD = 0.3  # correlation along spans above which errors of a rater go on


@dataclass(frozen=True)
class Evidence:
    """Correlation of the errors of two sources on an item, its standard error, and groups.

    A group of raters is one source, as is every rater outside groups. ``unmeasured`` is the weight
    of models of independent errors where the correlation is unknown. ``start`` is the fit of
    independent errors that it comes from, at whose labels other models may start.
    """

    correlation: float = math.nan
    error: float = math.nan
    groups: Mapping[Any, list[Any]] = field(default_factory=dict)
    unmeasured: float = 0.0
    start: xr.DataTree | None = None

    @property
    def independence(self) -> float:
        """Weight of models of independent errors, the others have the rest.

        The probability that the correlation is zero if that is as probable as one of :data:`USUAL`
        size, times the reliability of its estimate.
        """
        if math.isnan(self.correlation):
            return self.unmeasured
        error = max(self.error, 1e-6)
        z, scale = self.correlation / error, error / USUAL
        # log densities of the estimate: exponential and normal, or normal around zero
        dependent = 0.5 * scale**2 - z * scale + float(log_ndtr(z - scale)) - math.log(USUAL)
        independent = -0.5 * z**2 - math.log(error * math.sqrt(2.0 * math.pi))
        return float(expit(independent - dependent)) / (1.0 + (error / INFORMATIVE) ** 2)

    @property
    def dependent(self) -> bool:
        """Whether the errors of raters are clearly dependent given the class."""
        return bool(self.groups) or (self.correlation > 0.0 and self.independence < 0.5)


def examine(inputs: Inputs) -> Evidence:
    """Return the evidence of a table of labels; none of labelling functions, which are sparse."""
    responses = inputs.responses
    if not inputs.has_only_labels:
        return Evidence()
    if inputs.graph is None and are_labelling_functions(responses):
        return Evidence()
    # a property of the table, whatever the seed of the answer
    evidence = measure_dependence(responses, inputs.gold, 0, inputs.user_groups)
    if inputs.sequences is not None:  # no model has groups and an order
        along = correlation_along(responses, inputs.sequences)
        correlation = along if along > SPAN_THRESHOLD else evidence.correlation
        return replace(evidence, groups={}, correlation=correlation)
    return evidence if inputs.user_groups is None else replace(evidence, groups={})


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
    table = part_of(responses, max(MAX_RESPONSES, MIN_PER_RATER * responses.n_raters), rng)
    members: Mapping[Any, list[Any]] = {}
    with warnings.catch_warnings():
        # the package warns of defects of a result, and this fit is none
        warnings.simplefilter("ignore", UserWarning)
        if groups is not None:
            members = Groups.read(groups, responses).members
        elif responses.n_raters <= MAX_RATERS_FOR_GROUPS:
            with suppress(ModelError):
                estimated = Groups.read("moments", table).members.values()
                members = {f"source {i + 1}": raters for i, raters in enumerate(estimated)}
        table = _one_rater_per_group(table, members)
        known = {name: label for name, label in (gold or {}).items() if name in set(table.items)}
        try:
            fit = find_map(DawidSkene(table, gold=known or None))
        except (ModelError, MomentsError):
            return Evidence(groups=members)
    shares, rows = fit["point"]["prevalence"].values, fit["point"]["confusion"].values
    start = None if members or table.n_items < responses.n_items else fit
    return Evidence(*error_correlation(table, shares, rows, rng), members, start=start)


def correlation_along(responses: Responses, sequences: Sequences) -> float:
    """Return the correlation of a rater's errors on neighbouring items in spans of the majority.

    It is .69 for named entities and .75 to .95 on simulated abstracts, where raters miss whole
    spans, and at most .12 on tables simulated with independent errors.
    """
    if not mark_spans(responses.classes.tolist()):
        return math.nan
    best = responses.votes().argmax(axis=1)[responses.item]
    inside = responses.classes[best] != "O"
    _, before = previous_labels(sequences, responses)
    # pairs of an item and a rater are numbered in the order of the rows: see previous_labels
    key = responses.item.astype(np.int64) * responses.n_raters + responses.rater
    _, first = np.unique(key, return_index=True)
    later = np.flatnonzero((before >= 0) & inside)
    later = later[inside[first[before[later]]]]
    if len(later) < MIN_NEIGHBOURS:
        return math.nan
    wrong = responses.label != best
    errors = pd.DataFrame(
        {"now": wrong[later], "earlier": wrong[first[before[later]]]}, dtype=float
    )
    errors -= errors.groupby(responses.rater[later]).transform("mean")
    return float(errors["now"].corr(errors["earlier"]))


def _one_rater_per_group(responses: Responses, groups: Mapping[Any, list[Any]]) -> Responses:
    """Return the responses of the first rater of every group, and of those outside groups."""
    others = [name for raters in groups.values() for name in raters[1:]]
    is_used = ~np.isin(responses.raters, others)[responses.rater]
    row = (responses.item * responses.n_raters + responses.rater)[is_used]
    key = row * responses.n_classes + responses.label[is_used]
    table = from_key(key, responses.items, responses.raters, responses.classes)
    return replace(table, multiplicity=responses.multiplicity)


def error_correlation(
    responses: Responses, shares: Array, rows: Array, rng: np.random.Generator
) -> tuple[float, float]:
    r"""Return the mean correlation of two raters' errors on an item given its class.

    With residuals :math:`e_{nmk} = 1[x_{nm} = k] - \theta_{m y_n k}`, labels drawn given the
    responses, it is the sum of products over classes and pairs of responses to an item over its
    scale, less that of tables simulated by the model and fitted in the same way (a parametric
    bootstrap): raters may err on the same items, and choose the same wrong class. The second number
    is the standard deviation of these; one wrong response more or less may have been a shared one,
    so it is no less than its share of them.
    """
    shares, rows = _refitted(responses, responses.label, shares, rows)
    products, _, wrong = _product_sum(responses, responses.label, shares, rows, rng)
    replicated, scales = [], []
    for _ in range(REPLICATES):
        check()
        truth = _drawn(_labels(responses, responses.label, shares, rows), rng)
        answers = _drawn(rows[responses.rater, truth[responses.item]], rng)
        again = _refitted(responses, answers, shares, rows)
        product, size, _ = _product_sum(responses, answers, *again, rng)
        replicated.append(product)
        scales.append(size)
    size = max(float(np.mean(scales)), 1e-12)
    excess = products - float(np.mean(replicated))
    error = float(np.std(replicated, ddof=1)) / size
    return excess / size, math.hypot(error, 1.0 / (1.0 + wrong))


def _refitted(
    responses: Responses, answers: NDArray[Any], shares: Array, rows: Array
) -> tuple[Array, Array]:
    """Return class shares and confusion matrices after EM steps of their posterior means."""
    n_classes = len(shares)
    weight = responses.multiplicity[responses.item].astype(float)
    code = responses.rater.astype(np.int64) * n_classes + answers
    for _ in range(STEPS):
        labels = _labels(responses, answers, shares, rows)
        shares = 1.0 + responses.multiplicity @ labels
        counts = [
            np.bincount(code, weight * labels[responses.item, k], rows.shape[0] * n_classes)
            for k in range(n_classes)
        ]  # of answers by rater, for every class
        rows = np.stack(counts).reshape(n_classes, -1, n_classes).swapaxes(0, 1)
        rows = rows + diagonal(n_classes)
        shares, rows = shares / shares.sum(), rows / rows.sum(axis=2, keepdims=True)
    return shares, rows


def _product_sum(
    responses: Responses,
    answers: NDArray[Any],
    shares: Array,
    rows: Array,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Return the sum of products of residuals, its scale and wrong answers, over drawn labels."""
    probability = _labels(responses, answers, shares, rows)
    sums = []
    for _ in range(REPLICATES):
        truth = _drawn(probability, rng)
        mistaken = answers != truth[responses.item]
        wrong = float(responses.multiplicity[responses.item[mistaken]].sum())
        sums.append((*_products(responses, answers, truth, rows), wrong))
    product, scale, wrong = np.mean(sums, axis=0).tolist()
    return product, scale, wrong


def _labels(responses: Responses, answers: NDArray[Any], shares: Array, rows: Array) -> Array:
    """Return label probabilities given answers, (items, classes)."""
    with np.errstate(divide="ignore"):
        log_rows = np.log(np.maximum(rows, 1e-12))[responses.rater, :, answers]
    posterior = np.tile(np.log(np.maximum(shares, 1e-12)), (responses.n_items, 1))
    for k in range(len(shares)):
        posterior[:, k] += np.bincount(responses.item, log_rows[:, k], responses.n_items)
    posterior = np.exp(posterior - posterior.max(axis=1, keepdims=True))
    return posterior / posterior.sum(axis=1, keepdims=True)


def _drawn(probability: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    return invert(probability.cumsum(axis=1), rng.random(len(probability)))


def _products(
    responses: Responses, answers: NDArray[Any], truth: NDArray[np.int64], rows: Array
) -> tuple[float, float]:
    """Return the sum over items and pairs of products of residuals, and of their scales."""
    expected = rows[responses.rater, truth[responses.item]]  # (responses, classes)
    copies = responses.multiplicity

    def pairs(values: Array) -> float:
        total = np.bincount(responses.item, values, responses.n_items)
        squares = np.bincount(responses.item, values**2, responses.n_items)
        return float(copies @ (total**2 - squares)) / 2.0

    product_sum, scale = 0.0, 0.0
    for k, chance in enumerate(expected.T):
        product_sum += pairs((answers == k) - chance)
        scale += pairs(np.sqrt(chance * (1.0 - chance)))
    return product_sum, scale
