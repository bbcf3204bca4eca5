"""Shares of classes that differ between groups of items, which models of all items do not know."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array

BURN, THIN = 30, 3  # sweeps before the first sample and between samples
FEWEST = 5  # known labels below which their residuals say nothing
OWN = 10  # known labels of a group above which differences have its own variance
TINY = 1e-9

SPREAD = np.array([0.03, 0.06, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.7])
"""Standard deviations of the log-odds of groups, with a half-normal(1) prior."""

RESIDUAL = np.array([0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.26, 0.33, 0.42, 0.55, 0.75, 1.0])
"""Standard deviations of the mean residuals of groups, in those of a residual; half-normal(.5)."""


def in_groups(
    labels: NDArray[np.int64],
    probability: Array,
    honest: Array | None,
    code: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], Array]:
    """Return labels (samples, items) given the groups, and residuals (samples, groups, classes).

    Probabilities are multiplied by ratios of the shares of groups. Residuals are mean differences
    of known labels from ``honest`` probabilities, without these labels, where there are any.
    """
    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    shift = np.zeros((len(labels), n_groups, n_classes))
    if n_groups == 1:
        return labels, shift
    seen, known = probability, None
    if honest is not None and (given := np.isfinite(honest[:, 0])).sum() >= FEWEST:
        known = np.flatnonzero(given)
        seen = np.where(given[:, None], honest, probability)
    labels = labels.copy()
    for sample, ratio in enumerate(_ratios(len(labels), seen, code, rng)):
        by_item = ratio[code]
        _relabel(labels[sample], probability, by_item, rng)
        if known is not None and honest is not None:
            truth = probability[known]  # zeros and ones
            left = truth - _tilted(honest[known], by_item[known])
            shift[sample] = residuals(left, code[known], n_groups, rng)
    return labels, shift


def _tilted(probability: Array, ratio: Array) -> Array:
    weight = probability * ratio
    return weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)


def _draw(weight: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a class for every row of weights."""
    up_to = weight.cumsum(axis=1)
    drawn: NDArray[np.int64] = (rng.random((len(up_to), 1)) * up_to[:, -1:] >= up_to).sum(axis=1)
    return np.minimum(drawn, weight.shape[1] - 1)


def _ratios(
    samples: int, probability: Array, code: NDArray[np.int64], rng: np.random.Generator
) -> Array:
    """Return Gibbs draws of shares of groups over those of all items (samples, groups, classes).

    Shares are Dirichlet around those of all items, with a concentration from a grid.
    """
    from scipy.special import gammaln

    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    share = np.maximum(probability.mean(axis=0), TINY)
    share /= share.sum()
    grid = 4.0 / SPREAD**2  # of two even classes, the variance of log-odds is 4 / concentration
    prior = -0.5 * SPREAD**2 + np.log(np.gradient(SPREAD))
    sizes = np.bincount(code)
    around = grid[:, None, None] * share
    fixed = prior + n_groups * (gammaln(grid) - gammaln(grid[:, None] * share).sum(axis=1))
    fixed -= gammaln(grid[:, None] + sizes).sum(axis=1)
    own, found = np.tile(share, (n_groups, 1)), np.empty((samples, n_groups, n_classes))
    for sweep in range(-BURN, samples * THIN):
        ratio = np.where(share > 2 * TINY, own / share, 1.0)
        if sweep >= 0 and sweep % THIN == 0:
            found[sweep // THIN] = ratio
        label = _draw(probability * ratio[code], rng)
        count = np.bincount(code * n_classes + label, minlength=own.size).reshape(own.shape)
        evidence = fixed + gammaln(around + count).sum(axis=(1, 2))
        weight = np.exp(evidence - evidence.max())
        at = rng.choice(len(grid), p=weight / weight.sum())
        own = rng.standard_gamma(around[at] + count) + 1e-300
        own /= own.sum(axis=1, keepdims=True)
    return found


def _relabel(
    labels: NDArray[np.int64], probability: Array, ratio: Array, rng: np.random.Generator
) -> None:
    """Make labels draws of tilted probabilities; few change, so what they share is kept."""
    then = _tilted(probability, ratio)
    rows = np.arange(len(labels))
    now = np.maximum(probability[rows, labels], 1e-300)
    change = np.flatnonzero(rng.random(len(labels)) * now >= then[rows, labels])
    gain = np.maximum(then[change] - probability[change], 0.0)
    some = gain.sum(axis=1) > 0
    labels[change[some]] = _draw(gain[some], rng)


def residuals(
    left: Array, code: NDArray[np.int64], n_groups: int, rng: np.random.Generator
) -> Array:
    """Draw the mean residual of every group, partially pooled towards zero (groups, classes)."""
    size = left.shape[1] - 1
    left = left[:, :-1]
    spread = np.atleast_2d(np.cov(left.T)) + 1e-6 * np.eye(size)
    spread += 0.02 * np.trace(spread) / size * np.eye(size)
    number = np.bincount(code, minlength=n_groups)
    mean = np.zeros((n_groups, size))
    np.add.at(mean, code, left)
    mean /= np.maximum(number, 1)[:, None]
    root = np.linalg.cholesky(spread)
    far = (np.linalg.solve(root, mean.T) ** 2).sum(axis=0)
    some = number > 0
    within = RESIDUAL[:, None] ** 2 + 1.0 / number[some]
    evidence = -0.5 * (far[some] / within + size * np.log(within)).sum(axis=1)
    evidence += np.log(np.gradient(RESIDUAL)) - 0.5 * (RESIDUAL / 0.5) ** 2
    weight = np.exp(evidence - evidence.max())
    variance = rng.choice(RESIDUAL, p=weight / weight.sum()) ** 2
    shrunk = variance * number / (variance * number + 1.0)
    noise = rng.standard_normal((n_groups, size)) @ root.T
    drawn = shrunk[:, None] * mean + np.sqrt(variance / (variance * number + 1.0))[:, None] * noise
    return np.column_stack([drawn, -drawn.sum(axis=1)])


def by_differences(
    samples: int,
    probability: Array,
    honest: Array,
    code: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """Draw shares (samples, groups, classes) by PPI++: mean predictions, corrected by known labels.

    Predictions are ``honest`` label probabilities, scaled by the power of least variance. Draws are
    of Student's distribution; groups without known labels have any share.
    """
    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    known = np.flatnonzero(np.isfinite(honest[:, 0]))
    truth, predicted, of = probability[known], honest[known], code[known]
    every = np.where(np.isfinite(honest), honest, probability)
    found = np.empty((samples, n_groups, n_classes))
    for group in range(n_groups):
        own, size = of == group, int((code == group).sum())
        n = int(own.sum())
        some = own if n >= OWN else np.ones(len(of), dtype=bool)
        if n == 0 or some.sum() < 2:
            found[:, group] = rng.dirichlet(np.ones(n_classes), samples)
            continue
        spread = np.maximum(predicted[some].var(axis=0, ddof=1), TINY)
        apart = truth - truth[some].mean(axis=0)
        power = (apart[some] * predicted[some]).sum(axis=0) / (some.sum() - 1) / spread
        left = truth - np.clip(power, 0.0, 1.0) * predicted
        mean = left[own].mean(axis=0) + np.clip(power, 0.0, 1.0) * every[code == group].mean(axis=0)
        scale = np.atleast_2d(np.cov(left[some].T)) * (1.0 - n / size) / n
        freedom = int(some.sum()) - 1
        zero = np.zeros(n_classes)  # classes sum to one, so the covariance is singular
        noise = rng.multivariate_normal(zero, scale, samples, "ignore", method="eigh")
        found[:, group] = mean + noise / np.sqrt(rng.chisquare(freedom, (samples, 1)) / freedom)
    found = np.clip(found, 0.0, 1.0)
    return found / np.maximum(found.sum(axis=2, keepdims=True), TINY)
