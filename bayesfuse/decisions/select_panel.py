"""Correlation of raters' errors, and smaller panels of raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.errors import (
    ModelError,
    brief,
    require_count,
    require_mapping,
    require_number,
    require_positive,
    require_seed,
)
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import constants, evenly_spaced, known_classes, require_rows
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

MAX_RATERS = 500  # matrices of pairs are stored for every draw
MAX_SUMS = 20_000_000  # of votes, in memory
MIN_KNOWN = 30  # known labels by whose loss judges are kept or removed
TEMPERATURES = np.geomspace(0.1, 2.0, 25)  # by which log-odds of votes may be multiplied
ENDS = "", "_low", "_high"


def select_panel(
    result: xr.DataTree,
    cost: Any = None,
    *,
    size: int | None = None,
    tolerance: float = 0.01,
    draws: int = 200,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Return how much the errors of raters have in common, and which raters can be left out.

    Errors are responses that differ from joint draws of the true labels, centred by rater and true
    class, so raters who are merely bad do not correlate. With the mean correlation
    :math:`\bar\rho`, n raters are worth :math:`n / (1 + (n - 1) \bar\rho)` independent ones (Kish
    1965, Survey sampling, section 5.4); raters with one label throughout, or none, do not count.
    Nothing is fitted again: a smaller panel labels items by its votes, weighted by the
    log-likelihoods of the raters' confusion matrices, divided by one plus the sum of a rater's
    positive correlations with those who answer the same items (two copies count as one), shrunk to
    their mean where they are of few items, and is scored by the posterior. So ``wrong`` of all
    raters may differ from ``expected``, and ``known_wrong`` from the errors on known items in
    ``fused.overview()``: these are of the labels of the result itself. Raters are removed greedily,
    by errors per cost saved. With 30 known labels or more that predictions leave out
    (``bf.fuse(gold=…)``), they are removed by the log-loss on these, and a rater is dropped only if
    that is lower by more than a standard error without (by Bonferroni, 1.9 errors where five are
    tried): all judges together are mostly better calibrated than the best few [1]_.

    Parameters
    ----------
    result : DataTree with joint draws of the labels, from ``bf.fuse``, ``bf.sample`` or ``bf.fit``
    cost : mapping or Series of rater to number, default 1 for each
    size : int, optional: number of raters to keep, in place of a tolerance
    tolerance : share of items that a cheaper panel may label worse than the best, default 0.01.
        Not used with ``size``, nor with 30 known labels or more, whose log-loss decides.
    draws : int, default 200: number of joint draws of the labels for the correlations
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    Dataset, dims (rater, other, step)
        With ends ``_low`` and ``_high``: ``correlation`` (rater, other) of the errors on common
        items (NaN without any), ``mean_correlation``, ``effective_votes``, ``lost`` (rater), how
        many more labels are expected to be wrong without this rater, and ``wrong`` (step), the
        expected wrong labels of the panel that is left after each removal. ``removed`` (step), the
        rater whose removal costs least (none at the first step); of the panel that is left:
        ``raters``, ``cost``, ``known_wrong`` (wrong labels among items of known class) and
        ``loss``, the mean log-loss on these (NaN for fewer than 30); ``kept`` (rater): the panel
        chosen by this loss (whose removals surely help), or the cheapest within the tolerance, or
        that of ``size``. Attributes: ``items``, ``known``, and ``expected``, the expected number of
        wrong labels of the result itself; with the loss also ``smallest``, the number of raters of
        the smallest panel whose loss is within a standard error of the best one's.

    References
    ----------
    .. [1] Li (2026), Calibrate, don't curate: label-efficient estimation from noisy LLM judges,
       arXiv:2605.09702.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, 50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.decisions.select_panel(result, random_seed=1)["raters"].values.tolist()
    [5, 4, 3, 2, 1]
    """
    require_count("draws", draws)
    require_number("tolerance", tolerance)
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, rows = joint_labels.stored(result), require_rows(result, "A panel")
    names = constants(result)["rater"].values
    if len(names) > MAX_RATERS:
        raise ModelError(
            f"A panel has at most {MAX_RATERS} raters, because all pairs are compared. Got: "
            f"{len(names)}."
        )
    require_count("size", len(names) if size is None else size)
    if size is not None and size > len(names):
        raise ModelError(f"size must be at most the number of raters, {len(names)}. Got: {size}.")
    labels_by_rater = pd.Series(rows[2]).groupby(rows[1])
    n_varying = int((labels_by_rater.nunique() > 1).sum())
    if n_varying == 0:
        raise ModelError(
            "Raters of one label have no correlation: see bf.rater_table. Got: no others."
        )
    probability = label_probabilities(result).transpose("item", "class").values
    truths = labels[evenly_spaced(draws, len(labels))]
    correlation = _correlations(truths, rows, len(names), rng)
    common = _common_items(rows, len(probability), len(names))
    pairs = ~np.eye(len(names), dtype=bool)
    between = correlation[:, pairs]
    weight = np.where(np.isfinite(between), common[pairs], 0.0)
    mean = (weight * np.nan_to_num(between)).sum(axis=1) / np.maximum(weight.sum(axis=1), 1)
    effective = n_varying / (1.0 + (n_varying - 1) * np.maximum(mean, 0.0))
    estimates = {"correlation": correlation, "mean_correlation": mean, "effective_votes": effective}
    variables: dict[str, Any] = {}
    for name, values in estimates.items():
        ends = np.quantile(values, level, axis=0)  # NaN where it is NaN in some draw
        dims = ("rater", "other")[: values.ndim - 1]
        for end, value in zip(ENDS, (values.mean(axis=0), *ends), strict=True):
            variables[name + end] = dims, value
    gold, predicted = known_classes(result, len(probability)), _predicted(result, probability)
    votes = _Votes(rows, predicted, _repeated(correlation.mean(axis=0), common))
    is_known = (gold >= 0) & (predicted != probability).any(axis=1)
    by_loss = is_known.sum() >= MIN_KNOWN
    order, path, lost = _path(
        votes, probability, _cost(cost, names), labels, gold, level, is_known if by_loss else None
    )
    variables |= {f"lost{end}": ("rater", row) for end, row in zip(ENDS, lost, strict=True)}
    worse, losses = path.pop("worse").to_numpy(), np.stack(path.pop("losses").tolist())
    variables |= {str(name): ("step", column.to_numpy()) for name, column in path.items()}
    limit = path["wrong"].min() + tolerance * len(probability)
    if size is not None:
        n_removed = len(names) - size
    elif by_loss:
        n_removed = int(np.argmax(np.append(worse[1:], True)))
    else:
        n_removed = np.flatnonzero(path["wrong"] <= limit)[-1]
    removed = ["", *pd.Index(names[order]).astype(str)]  # times in any unit are the same text
    variables["removed"] = ("step", np.array(removed))
    variables["kept"] = ("rater", ~np.isin(np.arange(len(names)), order[:n_removed]))
    coords = {"rater": names, "other": names, "step": np.arange(len(names))}
    attrs: dict[str, Any] = {"items": len(probability), "known": int((gold >= 0).sum())}
    attrs |= {"expected": float((1.0 - probability.max(axis=1)).sum())}
    attrs |= {"smallest": _smallest(losses)} if by_loss else {}
    return xr.Dataset(variables, coords, attrs)


def _smallest(losses: NDArray[Any]) -> int:
    """Return the raters of the last panel whose mean loss is within a standard error of the best.

    ``losses`` (panels, items) are of panels with one rater less each.
    """
    excess = losses - losses[losses.mean(axis=1).argmin()]
    error = excess.std(axis=1) / np.sqrt(max(losses.shape[1] - 1, 1))
    return len(losses) - int(np.flatnonzero(excess.mean(axis=1) <= error)[-1])


def _cost(cost: Any, names: NDArray[Any]) -> NDArray[Any]:
    """Return the cost of every rater."""
    if cost is None:
        return np.ones(len(names))
    require_mapping("cost", cost)
    costs = dict(cost.items())
    code = places(as_array(list(costs)), names)
    if len(code) < len(names) or code.min() < 0 or len(set(code)) < len(names):
        raise ModelError(
            f"cost must have the names of all {len(names)} raters. Got: {brief(costs)}."
        )
    by_rater = np.empty(len(names))
    by_rater[code] = [require_positive("cost", value) for value in costs.values()]
    return by_rater


def _correlations(
    labels: NDArray[Any], rows: tuple[NDArray[Any], ...], n_raters: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Return correlations of centred errors (draws, raters, raters), items reweighted."""
    (item, rater, label), n_items = rows, labels.shape[1]
    n_classes = int(max(labels.max(initial=0), label.max(initial=0))) + 1
    size = n_raters * n_classes
    correlations = np.empty((len(labels), n_raters, n_raters))
    cell = item * n_raters + rater
    cells, cell_of_response, repeats = np.unique(cell, return_inverse=True, return_counts=True)
    shape, (items, raters) = (n_items, n_raters), np.divmod(cells, n_raters)
    answered = csr_array((np.ones(len(cells)), (items, raters)), shape)
    for target, truth in zip(correlations, labels, strict=True):
        weight = rng.standard_exponential(labels.shape[1:])[items]
        error = np.bincount(cell_of_response, label != truth[item]) / repeats
        stratum = raters * n_classes + truth[items]  # errors are centred by rater and true class
        total = np.bincount(stratum, weight, size)
        mean = np.bincount(stratum, weight * error, size) / np.where(total > 0, total, 1.0)
        error = np.sqrt(weight) * (error - mean[stratum])
        matrix = csr_array((error, (items, raters)), shape)
        variance = ((matrix * matrix).T @ answered).toarray()  # on the items of the other rater
        scale = np.sqrt(variance * variance.T)
        with np.errstate(divide="ignore", invalid="ignore"):
            target[:] = (matrix.T @ matrix).toarray() / np.where(scale > 1e-12, scale, np.nan)
    return correlations


def _common_items(rows: tuple[NDArray[Any], ...], n_items: int, n_raters: int) -> NDArray[Any]:
    """Return how many items two raters have in common (raters, raters)."""
    answered = csr_array((np.ones(len(rows[0])), rows[:2]), (n_items, n_raters))
    answered.data[:] = 1.0  # of repeated responses, which have been summed
    return (answered.T @ answered).toarray()


def _repeated(correlation: NDArray[Any], common: NDArray[Any]) -> NDArray[Any]:
    """Return which part of a rater's response the others repeat, (others, raters).

    Correlations of few items are mostly noise: they are shrunk to their mean by the variance
    between pairs (DerSimonian & Laird 1986, Controlled Clinical Trials 7, 177-188), those of n
    items having a variance of 1 / n. Others repeat only what they answer, too.
    """
    pairs = np.isfinite(correlation) & ~np.eye(len(correlation), dtype=bool)
    n, values = common[pairs], correlation[pairs]
    total = max(n.sum(), 1.0)
    mean = (n * values).sum() / total
    excess = (n * (values - mean) ** 2).sum() - (len(n) - 1)
    variance = max(excess, 0.0) / max(total - (n**2).sum() / total, 1.0)
    share = variance * common / (1.0 + variance * common)
    shrunk = np.where(pairs, mean + share * (np.nan_to_num(correlation) - mean), 0.0)
    return np.maximum(shrunk, 0.0) * common / np.maximum(np.diagonal(common), 1.0)


def _predicted(result: xr.DataTree, probability: NDArray[Any]) -> NDArray[Any]:
    """Return label probabilities, of known items those without their labels where there are any."""
    labels = result["label_posterior"].dataset
    if "left_out" not in labels:
        return probability
    left_out = labels["left_out"].transpose("item", "class").values
    return np.where(np.isfinite(left_out), left_out, probability)


class _Votes:
    """Weighted votes of panels of raters; weights are estimated from label probabilities."""

    def __init__(
        self,
        columns: tuple[NDArray[Any], ...],
        probability: NDArray[Any],
        repeated: NDArray[Any],
    ) -> None:
        (item, rater, label), (n_items, n_classes) = columns, probability.shape
        n_raters, self.repeated = len(repeated), repeated
        self.size = n_items, n_classes
        self.prior = np.log(np.maximum(probability.mean(axis=0), 1e-12))
        cell = rater * n_classes + label
        counts = [
            np.bincount(cell, of_class[item], n_raters * n_classes) for of_class in probability.T
        ]
        table = np.stack(counts).reshape(n_classes, n_raters, n_classes) + 1.0 / n_classes
        weight = np.log(table / table.sum(axis=2, keepdims=True))[:, rater, label]
        repeats = np.bincount(item * n_raters + rater)[item * n_raters + rater]
        rows = item * n_classes + np.arange(n_classes)[:, None]
        at = rows.ravel(), np.tile(rater, n_classes)
        shape = n_items * n_classes, n_raters
        self.votes = csr_array(((weight / repeats).ravel(), at), shape)

    def labels(self, panels: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the labels (panels, items) that panels (panels, raters) give."""
        step = max(MAX_SUMS // self.votes.shape[0], 1)
        chunks = [
            self._totals(panels[first : first + step]).argmax(axis=1).T
            for first in range(0, len(panels), step)
        ]
        return np.concatenate(chunks)

    def losses(
        self, panels: NDArray[np.bool_], items: NDArray[np.int64], truth: NDArray[np.int64]
    ) -> NDArray[Any]:
        """Return log-losses (panels, items), scaled by the best temperature of each panel."""
        losses = []
        for panel in panels:
            total = self._totals(panel[None])[items, :, 0]
            total = TEMPERATURES[:, None, None] * (
                total - total[np.arange(len(items)), truth][:, None]
            )
            loss = np.logaddexp.reduce(total, axis=2)
            losses.append(loss[loss.sum(axis=1).argmin()])
        return np.stack(losses)

    def _totals(self, panels: NDArray[np.bool_]) -> NDArray[Any]:
        chunk = panels.astype(float)
        total = self.votes @ (chunk / (1.0 + chunk @ self.repeated)).T
        return np.asarray(total.reshape(*self.size, -1) + self.prior[:, None])


def _path(
    votes: _Votes,
    probability: NDArray[Any],
    cost: NDArray[Any],
    draws: NDArray[Any],
    gold: NDArray[np.int64],
    level: tuple[float, float],
    is_known: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], pd.DataFrame, list[NDArray[Any]]]:
    """Return the order of removal, the panels left, and the errors without each rater."""

    def expected(labels: NDArray[np.int64]) -> NDArray[Any]:
        right = probability[np.arange(len(probability)), labels]
        return np.asarray(len(probability) - right.sum(axis=1))

    panel, order, rows, lost = np.ones(len(cost), dtype=bool), [], [], []
    known = np.arange(0) if is_known is None else np.flatnonzero(is_known)
    truth, is_worse = gold[known], False
    for step in range(len(cost)):
        current, members = votes.labels(panel[None]), np.flatnonzero(panel)
        panels = panel & ~np.eye(len(cost), dtype=bool)[members]
        without = votes.labels(panels)
        increase = expected(without) - expected(current)
        wrong = (draws != current).sum(axis=1)
        if step == 0:
            added = np.stack([(draws != labels).sum(axis=1) - wrong for labels in without])
            lost = [increase, *np.quantile(added, level, axis=1)]
        low, high = np.quantile(wrong, level)
        loss = votes.losses(panel[None], known, truth)[0] if len(known) else np.array([np.nan])
        rows.append(
            {
                "raters": len(members),
                "cost": cost[panel].sum(),
                "wrong": expected(current)[0],
                "wrong_low": low,
                "wrong_high": high,
                "known_wrong": int(((gold >= 0) & (gold != current[0])).sum()),
                "loss": loss.mean(),
                "worse": is_worse,
                "losses": loss,
            }
        )
        # errors per cost saved; without an increase, the most expensive rater is removed first
        saved, change = cost[members], np.zeros((len(members), 1))
        if len(known) and len(members) > 1:
            change = votes.losses(panels, known, truth) - loss
            increase = change.mean(axis=1)
        rate = np.where(increase > 0, increase / saved, increase - 1e-9 * saved)
        removed = int(rate.argmin())
        spread = change[removed].std() / np.sqrt(max(change.shape[1] - 1, 1))  # standard error
        # by chance, the least of several changes is lower than that of a rater named in advance
        is_worse = bool(change[removed].mean() >= spread * ndtri(ndtr(-1.0) / len(members)))
        order.append(members[removed])
        panel[order[-1]] = False
    return np.array(order[:-1], np.int64), pd.DataFrame(rows), lost
