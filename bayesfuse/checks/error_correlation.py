"""Correlation of the errors of raters on an item, beyond that of its class, and independence."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from bayesfuse.data.responses import Responses
from bayesfuse.inference import em
from bayesfuse.numerics.kernels import TINY, Array
from bayesfuse.numerics.residuals import products
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.numerics.threads import check
from bayesfuse.observation import LogParameters, through_matrices
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import diagonal

REPLICATES, STEPS = 8, 10
"""Simulated tables with which the correlation is compared, and EM steps of their fits."""

USUAL = 0.05
"""Mean of the exponential prior of the correlation where errors are dependent: between .014 and .1
on eleven public crowds."""

INFORMATIVE = 0.3
"""Standard error of the correlation at which it has half the weight: where next to no error is
seen, nothing speaks for independence."""


def independence(correlation: float, error: float) -> float:
    """Return the probability that the errors of raters on an item are independent.

    That the correlation is zero is as probable as one of :data:`USUAL` size before it is estimated
    with this standard error; the result is multiplied by the reliability of the estimate.
    """
    error = max(error, 1e-6)
    z, scale = correlation / error, error / USUAL
    # log densities of the estimate: exponential and normal, or normal around zero
    dependent = 0.5 * scale**2 - z * scale + float(log_ndtr(z - scale)) - math.log(USUAL)
    independent = -0.5 * z**2 - math.log(error * math.sqrt(2.0 * math.pi))
    return float(expit(independent - dependent)) / (1.0 + (error / INFORMATIVE) ** 2)


def expected_correlation(correlation: float, error: float) -> float:
    """Return the posterior mean of the correlation, zero where errors are independent."""
    error = max(error, 1e-6)
    mode = correlation - error**2 / USUAL  # of a normal posterior, truncated to positive numbers
    z = mode / error
    tail = math.exp(-0.5 * z**2 - float(log_ndtr(z))) / math.sqrt(2.0 * math.pi)
    return (1.0 - independence(correlation, error)) * max(mode + error * tail, 0.0)


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
    start = {"prevalence": shares, "confusion": rows}
    log_rows = {name: np.log(np.maximum(values, TINY)) for name, values in start.items()}
    labels, log_rows = _refitted(responses, log_rows)
    product_sum, _, wrong = _product_sum(responses, labels, log_rows, rng)
    replicated, scales = [], []
    for _ in range(REPLICATES):
        check()
        truth = _drawn(labels, rng)
        cells = np.exp(log_rows["confusion"])[responses.rater, truth[responses.item]]
        table = responses.relabelled(_drawn(cells, rng))
        product, size, _ = _product_sum(table, *_refitted(table, log_rows), rng)
        replicated.append(product)
        scales.append(size)
    size = max(float(np.mean(scales)), 1e-12)
    excess = product_sum - float(np.mean(replicated))
    error = float(np.std(replicated, ddof=1)) / size
    return excess / size, math.hypot(error, 1.0 / (1.0 + wrong))


def _refitted(responses: Responses, log_rows: LogParameters) -> tuple[Array, LogParameters]:
    """Return label probabilities (items, classes) and log rows after EM steps from log rows.

    Steps are to posterior means: modes of sparse rows lie on the boundary, where nothing is shared.
    """
    observation = through_matrices(responses, np.full(responses.n_items, -1))
    rows = np.tile(diagonal(responses.n_classes), (responses.n_raters, 1, 1))
    priors = {"prevalence": Dirichlet(np.ones(responses.n_classes)), "confusion": Dirichlet(rows)}
    for _ in range(STEPS):
        _, counts = observation.expected(log_rows)
        log_rows = em.updated(observation, log_rows, counts, priors, None, "interior")
    return observation.by_item(observation.marginal(log_rows).probability), log_rows


def _product_sum(
    responses: Responses, labels: Array, log_rows: LogParameters, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the sum of products of residuals, its scale and wrong answers, over drawn labels."""
    table = responses.start, responses.rater, responses.label
    rows, copies = np.exp(log_rows["confusion"]), responses.multiplicity
    sums = [products(*table, _drawn(labels, rng), rows, copies) for _ in range(REPLICATES)]
    product, scale, wrong = np.mean(sums, axis=0).tolist()
    return product, scale, wrong


def _drawn(probability: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    return draw_columns(probability.cumsum(axis=1), rng)
