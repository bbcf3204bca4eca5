"""Correlation of the errors of raters on an item, beyond that of its class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import invert
from bayesfuse.numerics.threads import check

REPLICATES = 8  # simulated tables with which the correlation is compared

LIMIT = 0.015
"""Correlation of errors up to which models of independent errors have the better labels. Between
.024 and 1 on ten of eleven public crowds; on simulated tables of 10⁵ and 10⁶ responses, at most
.0024 where errors were independent, and .0025 to .01 where a quarter of the items were hard."""


def error_correlation(
    responses: Responses, shares: Array, rows: Array, rng: np.random.Generator
) -> tuple[float, float]:
    r"""Return the mean correlation of two raters' errors on an item given its class.

    With residuals :math:`e_{nmk} = 1[x_{nm} = k] - \theta_{m y_n k}`, labels drawn given the
    responses, it is the sum of products over classes and pairs of responses to an item over its
    scale, less that of tables simulated by the model: raters may err on the same items, and choose
    the same wrong class. The second number is the standard deviation of these; one wrong response
    more or less may have been a shared one, so it is no less than its share of them.
    """
    number = responses.item
    observed, replicated, scale, wrong = [], [], [], 0.0
    probability = _labels(responses, responses.label, shares, rows)
    for _ in range(REPLICATES):
        check()
        truth = _drawn(probability, rng)
        observed.append(_products(responses, responses.label, truth, rows)[0])
        mistaken = responses.label != truth[number]
        wrong += float(responses.multiplicity[number[mistaken]].sum()) / REPLICATES
        answers = _drawn(rows[responses.rater, _drawn(probability, rng)[number]], rng)
        again = _drawn(_labels(responses, answers, shares, rows), rng)
        product, size = _products(responses, answers, again, rows)
        replicated.append(product)
        scale.append(size)
    size = max(float(np.mean(scale)), 1e-12)
    excess = float(np.mean(observed) - np.mean(replicated))
    error = float(np.std(replicated, ddof=1)) / size
    return excess / size, math.hypot(error, 1.0 / (1.0 + wrong))


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
