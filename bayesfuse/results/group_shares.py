"""Class shares of groups of items, which models of all items do not contain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.results.item_knowledge import TINY, ItemKnowledge

N_CORRECTIONS = 3  # of corrections of ratios to the totals of the classes
BURN, THIN = 30, 3  # sweeps before the first sample and between samples
MIN_KNOWN = 5  # smallest number of known labels from which residuals are estimated
PRIOR_ITEMS = 10.0  # known items of its own that all others count for in the power of a group
HALF = 0.5  # weight of each of four items that may be among the unknown ones

SPREAD = np.array([0.03, 0.06, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.7])
"""Standard deviations of the log-odds of groups, with a half-normal(1) prior."""

RESIDUAL = np.array([0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.26, 0.33, 0.42, 0.55, 0.75, 1.0])
"""Standard deviations of the mean residuals of groups, in those of a residual; half-normal(.5)."""


class GroupShares(NamedTuple):
    """Labels given the groups, corrected by known labels: see :func:`in_groups`."""

    labels: NDArray[np.int64]  # (samples, items)
    shift: Array  # of the share among unknown items (samples, groups, classes)
    mean: Array  # expected shares (groups, classes)


def in_groups(
    labels: NDArray[np.int64],
    probability: Array,
    left_out: Array | None,
    code: NDArray[np.int64],
    gold: NDArray[np.int64],
    known: ItemKnowledge,
    overall: Array,
    rng: np.random.Generator,
) -> GroupShares:
    """Return labels given the groups, residuals of known labels, and the expected shares.

    Joint draws are the posterior in groups that the model knows. In others, prior probabilities of
    the model are multiplied by ratios, whose spread is in proportion to what the model leaves
    unexplained. Residuals are mean differences of known labels from ``left_out`` probabilities,
    without these labels, where there are any; on average over groups they are ``overall`` (samples,
    1, classes), so that groups weighted by their size give the shares of all items.
    """
    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    size, total = np.bincount(code), group_sums(probability, code)
    shift = np.tile(overall, (1, n_groups, 1))
    totals = expected_share(probability, gold, overall) * len(code)
    if n_groups == 1:
        return GroupShares(labels, shift, totals / len(code))
    at, used = _checked(left_out), probability
    if left_out is not None and len(at):
        used = probability.copy()
        used[at] = left_out[at]
    unknown = np.bincount(code, gold < 0, minlength=n_groups)
    unexplained = known.unexplained(code)
    moved = np.flatnonzero((unexplained > 0.0)[code])
    labels, expected = labels.copy(), total
    ratios = np.ones((len(labels), n_groups, n_classes))
    if len(moved):
        ratios = _ratios(len(labels), used, code, rng, known.prior, unexplained)
        expected = np.zeros_like(total)
    for sample, ratio in enumerate(ratios):
        if len(moved):
            ratio = _without_total(ratio, probability, code, total)
            tilted = _tilted(probability, ratio[code])
            _relabel(labels[sample], probability, tilted, rng)
            expected += group_sums(tilted, code) / len(labels)
        if left_out is not None and len(at):  # known labels are zeros and ones
            left = probability[at] - _tilted(left_out[at], ratio[code[at]])
            drawn = residuals(left, code[at], n_groups, rng)
            shift[sample] += drawn - unknown @ drawn / max(unknown.sum(), 1.0)
    expected = expected + unknown[:, None] * shift.mean(axis=0)
    certain = group_sums(np.where((gold >= 0)[:, None], probability, 0.0), code)
    free = _with_margins(expected - certain, unknown, totals[0] - certain.sum(axis=0))
    return GroupShares(labels, shift, (certain + free) / size[:, None])


def of_all(
    samples: int, probability: Array, left_out: Array | None, rng: np.random.Generator
) -> Array:
    """Draw the mean residual of known labels among all items (samples, 1, classes)."""
    drawn = np.zeros((samples, 1, probability.shape[1]))
    if left_out is not None and len(at := _checked(left_out)):
        left = probability[at] - left_out[at]
        for sample in range(samples):
            drawn[sample] = residuals(left, np.zeros_like(at), 1, rng)
    return drawn


def expected_share(probability: Array, gold: NDArray[np.int64], shift: Array) -> Array:
    """Return the shares of all items (1, classes), with the mean ``shift`` of unknown ones."""
    share = probability.mean(axis=0) + (gold < 0).mean() * shift.mean(axis=0)
    certain = np.where((gold >= 0)[:, None], probability, 0.0).mean(axis=0)
    share = np.maximum(share, certain)
    shares: Array = share / share.sum()
    return shares


def _checked(left_out: Array | None) -> NDArray[np.int64]:
    """Return the known items with probabilities without their labels, none if they are few."""
    at = np.arange(0) if left_out is None else np.flatnonzero(np.isfinite(left_out[:, 0]))
    return at if len(at) >= MIN_KNOWN else at[:0]


def group_sums(values: Array, code: NDArray[np.int64]) -> Array:
    """Return the sums of values (items, classes) by group (groups, classes)."""
    sums = [np.bincount(code, column) for column in values.T]
    return np.stack(sums, axis=1)


def _without_total(
    ratio: Array, probability: Array, code: NDArray[np.int64], total: Array
) -> Array:
    """Return ratios that leave the totals of all items, which the model knows, as they are."""
    wanted = np.maximum(total.sum(axis=0), TINY)
    for _ in range(N_CORRECTIONS):
        now = _tilted(probability, ratio[code]).sum(axis=0)
        ratio = ratio * (wanted / np.maximum(now, TINY))
    return ratio


def _with_margins(table: Array, rows: Array, columns: Array) -> Array:
    """Return a table with these sums by row and column: iterative proportional fitting."""
    fitted = np.maximum(table, TINY)
    for _ in range(1000):
        fitted = fitted * (rows / np.maximum(fitted.sum(axis=1), SMALLEST))[:, None]
        fitted = fitted * (columns / np.maximum(fitted.sum(axis=0), SMALLEST))
        if np.abs(fitted.sum(axis=1) - rows).max() < 1e-12 * max(rows.sum(), 1.0):
            break
    return fitted


def _tilted(probability: Array, ratio: Array) -> Array:
    weight = probability * ratio
    return weight / np.maximum(weight.sum(axis=1, keepdims=True), SMALLEST)


def _ratios(
    samples: int,
    probability: Array,
    code: NDArray[np.int64],
    rng: np.random.Generator,
    prior: Array | None = None,
    unexplained: Array | None = None,
) -> Array:
    """Return Gibbs draws of shares of groups over their prior ones (samples, groups, classes).

    Shares are Dirichlet around the mean of the ``prior`` probabilities (items, classes) in the
    group, with a concentration from a grid, divided by what is ``unexplained`` of the group. Items
    with different priors have a normaliser, which a gamma variable by item makes conjugate.
    """
    from scipy.special import gammaln

    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    ratios_drawn = np.ones((samples, n_groups, n_classes))
    active = np.ones(n_groups, dtype=bool) if unexplained is None else unexplained > 0.0
    if prior is None:
        prior = np.broadcast_to(probability.mean(axis=0), probability.shape)
    some = active[code]
    number = np.cumsum(active) - 1
    probability, prior, code = probability[some], np.maximum(prior[some], TINY), number[code[some]]
    share_left = np.ones(len(active)) if unexplained is None else unexplained
    share_left, sizes = share_left[active], np.bincount(code)
    mean = group_sums(prior, code) / sizes[:, None]
    is_same = bool(np.abs(prior - mean[code]).max() < TINY)
    mean /= mean.sum(axis=1, keepdims=True)
    # of two even classes, the variance of log-odds is 4 / concentration
    total = 4.0 / SPREAD[:, None] ** 2 / share_left
    around = total[:, :, None] * mean
    fixed = -0.5 * SPREAD**2 + np.log(np.gradient(SPREAD))
    fixed += (gammaln(total) - gammaln(around).sum(axis=2)).sum(axis=1)
    group_share = mean.copy()
    for sweep in range(-BURN, samples * THIN):
        ratio = np.where(mean > 2 * TINY, group_share / mean, 1.0)
        if sweep >= 0 and sweep % THIN == 0:
            ratios_drawn[sweep // THIN, active] = ratio
        label = draw_columns((probability * ratio[code]).cumsum(axis=1), rng)
        count = np.bincount(code * n_classes + label, minlength=group_share.size).reshape(
            group_share.shape
        )
        if is_same:  # with the shares summed out
            evidence = fixed + gammaln(around + count).sum(axis=(1, 2))
            evidence -= gammaln(total + sizes).sum(axis=1)
        else:
            evidence = fixed + ((around - 1.0) * np.log(group_share)).sum(axis=(1, 2))
        weight = np.exp(evidence - evidence.max())
        at = rng.choice(len(SPREAD), p=weight / weight.sum())
        shape = around[at] + count
        pull = 0.0 if is_same else _pull(group_share, prior / mean[code], total[at], code, rng)
        group_share = rng.standard_gamma(shape) / (1.0 + pull) + SMALLEST
        group_share /= group_share.sum(axis=1, keepdims=True)
    return ratios_drawn


def _pull(
    share: Array, relative: Array, total: Array, code: NDArray[np.int64], rng: np.random.Generator
) -> Array:
    """Return rates of the gamma variables behind shares, given one more variable by item."""
    level = share * rng.standard_gamma(total)[:, None]
    normaliser = np.maximum((relative * level[code]).sum(axis=1, keepdims=True), SMALLEST)
    return group_sums(rng.standard_exponential((len(code), 1)) / normaliser * relative, code)


def _relabel(
    labels: NDArray[np.int64], probability: Array, then: Array, rng: np.random.Generator
) -> None:
    """Change a few labels, so that draws have other probabilities and keep their dependence."""
    rows = np.arange(len(labels))
    now = np.maximum(probability[rows, labels], SMALLEST)
    change = np.flatnonzero(rng.random(len(labels)) * now >= then[rows, labels])
    gain = np.maximum(then[change] - probability[change], 0.0)
    some = gain.sum(axis=1) > 0
    labels[change[some]] = draw_columns(gain[some].cumsum(axis=1), rng)


def residuals(
    residual: Array, code: NDArray[np.int64], n_groups: int, rng: np.random.Generator
) -> Array:
    """Draw the mean residual of every group, partially pooled towards zero (groups, classes)."""
    size = residual.shape[1] - 1
    residual = residual[:, :-1]
    spread = np.atleast_2d(np.cov(residual.T)) + 1e-6 * np.eye(size)
    spread += 0.02 * np.trace(spread) / size * np.eye(size)
    number = np.bincount(code, minlength=n_groups)
    mean = np.zeros((n_groups, size))
    np.add.at(mean, code, residual)
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
    left_out: Array,
    code: NDArray[np.int64],
    rng: np.random.Generator,
    is_certain: NDArray[np.bool_] | None = None,
) -> Array:
    """Draw shares (samples, groups, classes) by PPI++: mean predictions, corrected by known labels.

    Predictions are ``left_out`` label probabilities, scaled by the power of least variance.
    Variances are of the known items and of two more, one in the class and one not, half of each
    where predictions are high and half where they are low: known items of one class do not show
    that there are no others. Shares of the unknown items are Beta with this mean and variance.
    """
    n_groups, n_classes = int(code.max()) + 1, probability.shape[1]
    is_known = np.isfinite(left_out[:, 0])
    known = np.flatnonzero(is_known)
    truth, predicted, group_of = probability[known], left_out[known], code[known]
    is_certain = is_known if is_certain is None else is_certain
    every = np.where(is_known[:, None], left_out, probability)
    high = (every**2).sum(axis=0) / np.maximum(every.sum(axis=0), TINY)
    low = (every * (1.0 - every)).sum(axis=0) / np.maximum((1.0 - every).sum(axis=0), TINY)
    more_truth = np.tile([[1.0], [1.0], [0.0], [0.0]], n_classes)
    more_predicted = np.stack([high, low, high, low])
    truth, predicted = np.vstack([truth, more_truth]), np.vstack([predicted, more_predicted])
    is_more = np.arange(len(truth)) >= len(known)
    # all known items count as PRIOR_ITEMS more in the power of every group
    trust = PRIOR_ITEMS / (PRIOR_ITEMS + len(known))
    squares, products = _moments(truth, predicted, np.where(is_more, HALF, 1.0))
    shares = np.empty((samples, n_groups, n_classes))
    for group in range(n_groups):
        here = code == group
        unknown, is_member = here & ~is_certain, np.append(group_of == group, np.zeros(4, bool))
        in_class, n_unknown = probability[here & is_certain].sum(axis=0), int(unknown.sum())
        if not n_unknown:
            shares[:, group] = in_class / here.sum()
            continue
        near, with_truth = _moments(truth, predicted, is_member.astype(float))
        power = (with_truth + trust * products) / np.maximum(near + trust * squares, TINY)
        power = np.clip(power, 0.0, 1.0)
        residual = (truth - power * predicted)[is_member | is_more]
        n = len(residual) - 4
        weight = np.where(np.arange(len(residual)) < n, 1.0, HALF)
        mean_residual = residual[:n].mean(axis=0) if n else residual.mean(axis=0)
        spread = weight @ (residual - np.average(residual, 0, weight)) ** 2
        variance = spread / weight.sum() / (weight.sum() - 1.0) * (1.0 + weight.sum() / n_unknown)
        mean = mean_residual + power * every[unknown].mean(axis=0)
        drawn = _beta_shares(mean, variance, samples, rng)
        shares[:, group] = (in_class + n_unknown * drawn) / here.sum()
    return shares


def _moments(truth: Array, predicted: Array, weight: Array) -> tuple[Array, Array]:
    """Return sums of squares of predictions, and of products with the truth (classes,)."""
    centred = predicted - weight @ predicted / max(weight.sum(), TINY)
    return weight @ centred**2, weight @ (centred * truth)


def _beta_shares(mean: Array, variance: Array, samples: int, rng: np.random.Generator) -> Array:
    """Draw shares of the classes (samples, classes), Beta with these moments and multinomial."""
    from scipy.special import betaincinv, ndtr

    least = np.minimum(np.sqrt(variance), 0.5)  # a share has a mean above its deviation
    mean = np.clip(mean, least, 1.0 - least)
    size = mean * (1.0 - mean) / np.maximum(variance, TINY) - 1.0
    size = np.maximum(size, 1.0 / np.minimum(mean, 1.0 - mean))
    even = mean / mean.sum()
    odds = np.sqrt(even / (1.0 - even))
    correlation = np.where(np.eye(len(mean)) > 0, 1.0, -np.outer(odds, odds))
    zeros = np.zeros(len(mean))
    normal = rng.multivariate_normal(zeros, correlation, samples, "ignore", method="eigh")
    drawn = betaincinv(mean * size, (1.0 - mean) * size, ndtr(normal))
    drawn /= np.maximum(drawn.sum(axis=1, keepdims=True), TINY)
    return np.asarray(drawn)
