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
from bayesfuse.priors import diagonal

REPLICATES, STEPS = 8, 10
"""Simulated tables with which the correlation is compared, and EM steps of their fits."""


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
