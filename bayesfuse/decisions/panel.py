"""What each rater of a panel is worth: common errors, effective votes, and cheaper panels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

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

MOST = 500  # raters: matrices of pairs are kept for every draw
AT_ONCE = 20_000_000  # sums of votes in memory


def panel(
    result: xr.DataTree,
    cost: Any = None,
    *,
    tolerance: float = 0.01,
    draws: int = 200,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Return how much the errors of raters have in common, and which raters can be left out.

    Nothing is fitted again. Errors are responses that differ from joint draws of the true labels,
    in which known labels are fixed. A smaller panel labels items by its votes, weighted by the
    log-likelihoods of the raters' confusion matrices, and its labels are scored by the posterior of
    the whole panel.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse``, ``bf.sample`` or ``bf.fit``, with joint draws of the labels.
    cost : mapping or Series of rater to number, optional
        Cost of each rater. Default 1.
    tolerance : float, default 0.01
        Share of all items of which a cheaper panel may label more wrongly than the best of these
        panels, which need not be the whole one.
    draws : int, default 200
        Number of joint draws of the labels for the correlations.
    ci_prob : float, optional
        Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    Dataset, dims (rater, other, step)
        ``correlation`` (rater, other) of the errors on common items, given the true class, with
        ``correlation_low`` and ``correlation_high`` (labels and items uncertain; NaN without
        common items or errors); ``mean_correlation`` and ``effective_votes``, with their ends;
        ``lost`` (rater): how many more labels are expected to be wrong without this rater, with its
        ends; ``removed`` (step), the rater whose removal costs least at every step (none at the
        first), and of the panel that is left: ``raters``, ``cost``, ``wrong`` (expected wrong
        labels) with its ends, ``known_wrong`` (wrong labels among items of known class); ``kept``
        (rater): the cheapest of these panels within the tolerance. Attributes: ``items``,
        ``known``, and ``expected``, the expected number of wrong labels of the result itself, whose
        models make more of the votes than these panels.

    Raises
    ------
    ModelError
        Costs that are not positive or of other raters; a negative tolerance; more than 500 raters;
        as :func:`bayesfuse.draw_labels` without a model.

    Notes
    -----
    Errors are centred by rater and true class, so raters who are merely bad do not correlate. With
    the mean correlation :math:`\bar\rho`, n raters are worth
    :math:`n / (1 + (n - 1) \bar\rho)` independent ones [1]_; raters with one label throughout, or
    none, do not count. In a panel, the votes of a rater are divided by one plus the sum of its
    positive correlations with the others, so that two copies count as one. Repeated responses of a
    rater to an item count as their mean. Raters are removed greedily, by the increase of the
    expected errors per cost saved.

    References
    ----------
    .. [1] Kish (1965), Survey sampling, Wiley, section 5.4.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 5, 2, random_seed=1)
    >>> model = bf.models.DawidSkene(made.responses)
    >>> result = bf.sample(model, 100, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.panel(result, random_seed=1)
    >>> found["correlation"].shape, found["raters"].values.tolist()
    ((5, 5), [5, 4, 3, 2, 1])
    """
    require_count("draws", draws)
    require_number("tolerance", tolerance)
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, seen = joint_labels.stored(result), require_rows(result, "A panel")
    names = constants(result)["rater"].values
    if len(names) > MOST:
        raise ModelError(
            f"A panel has at most {MOST} raters, because every two of them are compared. Got: "
            f"{len(names)}."
        )
    price = _cost(cost, names)
    correlation = _correlations(
        labels[evenly_spaced(draws, len(labels))], seen, len(names), labels.shape[1], rng
    )
    apart = correlation[:, ~np.eye(len(names), dtype=bool)]
    some = np.isfinite(apart)
    mean = np.where(some, apart, 0.0).sum(axis=1) / np.maximum(some.sum(axis=1), 1)
    size = int(seen[2].max(initial=0)) + 1
    spoken = np.unique(seen[1].astype(np.int64) * size + seen[2]) // size  # raters, once a label
    number = int((np.bincount(spoken) > 1).sum())
    worth = number / (1.0 + max(number - 1, 0) * np.maximum(mean, 0.0))
    found: dict[str, Any] = {}
    for name, values in (
        ("correlation", correlation),
        ("mean_correlation", mean),
        ("effective_votes", worth),
    ):
        ends = np.quantile(values, level, axis=0)  # NaN where it is NaN in some draw
        dims = ("rater", "other") if values.ndim > 1 else ()
        for end, value in zip(("", "_low", "_high"), (values.mean(axis=0), *ends), strict=True):
            found[name + end] = (dims, value)
    probability = label_probabilities(result).values
    votes = _Votes(seen, probability, correlation.mean(axis=0))
    found |= {name: ("rater", row) for name, row in votes.lost(labels, level).items()}
    gold = known_classes(result, len(probability))
    order, path = votes.path(price, labels, gold, level)
    found |= {name: ("step", row) for name, row in path.items()}
    within = np.flatnonzero(path["wrong"] <= path["wrong"].min() + tolerance * len(probability))
    removed = ["", *pd.Index(names[order]).astype(str)]  # times in any unit are the same text
    found["removed"] = ("step", np.array(removed))
    found["kept"] = ("rater", ~np.isin(np.arange(len(names)), order[: within[-1]]))
    coords = {"rater": names, "other": names, "step": np.arange(len(names))}
    attrs: dict[str, Any] = {"items": len(probability), "known": int((gold >= 0).sum())}
    attrs |= {"expected": float((1.0 - probability.max(axis=1)).sum())}
    return xr.Dataset(found, coords, attrs)


def _cost(cost: Any, names: NDArray[Any]) -> NDArray[Any]:
    """Return the cost of every rater."""
    if cost is None:
        return np.ones(len(names))
    require_mapping("cost", cost)
    given = dict(cost.items())
    code = places(as_array(list(given)), names)
    if len(code) < len(names) or code.min() < 0 or len(set(code)) < len(names):
        raise ModelError(
            f"cost must have the names of all {len(names)} raters. Got: {brief(given)}."
        )
    found = np.empty(len(names))
    found[code] = [require_positive("cost", each) for each in given.values()]
    return found


def _correlations(
    labels: NDArray[Any],
    seen: tuple[NDArray[Any], ...],
    n_raters: int,
    n_items: int,
    rng: np.random.Generator,
) -> NDArray[Any]:
    """Return correlations of centred errors (draws, raters, raters), items reweighted."""
    from scipy.sparse import csr_array

    item, rater, label = seen
    size = n_raters * (int(max(labels.max(initial=0), label.max(initial=0))) + 1)
    n_classes = size // n_raters
    found = np.empty((len(labels), n_raters, n_raters))
    pair, place, repeats = np.unique(
        item * n_raters + rater, return_inverse=True, return_counts=True
    )
    shape, at = (n_items, n_raters), np.divmod(pair, n_raters)
    there = csr_array((np.ones(len(pair)), at), shape)
    for target, truth in zip(found, labels, strict=True):
        weight = rng.standard_exponential(n_items)
        own = weight[at[0]]
        error = np.bincount(place, label != truth[item]) / repeats
        kind = at[1] * n_classes + truth[at[0]]
        total = np.bincount(kind, own, size)
        mean = np.bincount(kind, own * error, size) / np.where(total > 0, total, 1.0)
        error = np.sqrt(own) * (error - mean[kind])
        matrix = csr_array((error, at), shape)
        spread = (matrix * matrix).T @ there  # of a rater, on the items of the other
        scale = np.sqrt(spread.toarray() * spread.toarray().T)
        with np.errstate(divide="ignore", invalid="ignore"):
            target[:] = (matrix.T @ matrix).toarray() / np.where(scale > 1e-12, scale, np.nan)
    return found


class _Votes:
    """Votes of any panel of the raters, and the labels they give."""

    def __init__(
        self, seen: tuple[NDArray[Any], ...], probability: NDArray[Any], correlation: NDArray[Any]
    ) -> None:
        from scipy.sparse import csr_array

        (item, rater, label), (n_items, n_classes) = seen, probability.shape
        n_raters = len(correlation)
        self.probability = probability
        self.prior = np.log(np.maximum(probability.mean(axis=0), 1e-12))
        common = np.maximum(np.nan_to_num(correlation), 0.0)
        self.common = np.where(np.eye(n_raters, dtype=bool), 0.0, common)
        cell = rater * n_classes + label
        counts = [np.bincount(cell, own[item], n_raters * n_classes) for own in probability.T]
        table = np.stack(counts).reshape(n_classes, n_raters, n_classes) + 1.0 / n_classes
        weight = np.log(table / table.sum(axis=2, keepdims=True))[:, rater, label]
        repeats = np.bincount(item * n_raters + rater)[item * n_raters + rater]
        rows = item * n_classes + np.arange(n_classes)[:, None]
        at = rows.ravel(), np.tile(rater, n_classes)
        shape = n_items * n_classes, n_raters
        self.votes = csr_array(((weight / repeats).ravel(), at), shape)

    def labels(self, panels: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the labels (panels, items) that panels (panels, raters) give."""
        step = max(AT_ONCE // self.votes.shape[0], 1)
        found = []
        for at in range(0, len(panels), step):
            some = panels[at : at + step].astype(float)
            total = self.votes @ (some / (1.0 + some @ self.common)).T
            total = total.reshape(*self.probability.shape, -1) + self.prior[:, None]
            found.append(total.argmax(axis=1).T)
        return np.concatenate(found)

    def expected(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Return the expected number of wrong ones among labels (panels, items)."""
        right = self.probability[np.arange(labels.shape[1]), labels]
        return labels.shape[1] - right.sum(axis=1)

    def lost(self, draws: NDArray[Any], level: tuple[float, float]) -> dict[str, Any]:
        """Return how many more labels are wrong without each rater."""
        n_raters = len(self.common)
        (now,) = self.labels(np.ones((1, n_raters), dtype=bool))
        without = self.labels(~np.eye(n_raters, dtype=bool))
        mean = self.expected(without) - self.expected(now[None])
        right = (draws == now).sum(axis=1)
        more = np.stack([right - (draws == then).sum(axis=1) for then in without])
        ends = np.quantile(more, level, axis=1)
        return dict(zip(("lost", "lost_low", "lost_high"), (mean, *ends), strict=True))

    def path(
        self,
        cost: NDArray[Any],
        draws: NDArray[Any],
        gold: NDArray[np.int64],
        level: tuple[float, float],
    ) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Remove one rater after the other; return these, and what is known of every panel."""
        left, order, rows = np.ones(len(cost), dtype=bool), [], []
        while True:
            now = self.labels(left[None])
            wrong = np.quantile((draws != now[0]).sum(axis=1), level)
            missed = int(((gold >= 0) & (gold != now[0])).sum())
            expected = self.expected(now)[0]
            rows.append([int(left.sum()), cost[left].sum(), expected, *wrong, missed])
            if left.sum() == 1:
                break
            choice = np.flatnonzero(left)
            fewer = np.tile(left, (len(choice), 1))
            fewer[np.arange(len(choice)), choice] = False
            more = self.expected(self.labels(fewer)) - expected
            # the increase per cost saved; where there is none, the dearest rater goes first
            rate = np.where(more > 0, more / cost[choice], more - 1e-9 * cost[choice])
            order.append(choice[rate.argmin()])
            left[order[-1]] = False
        columns = ["raters", "cost", "wrong", "wrong_low", "wrong_high", "known_wrong"]
        table = zip(columns, zip(*rows, strict=True), strict=True)
        return np.array(order, dtype=np.int64), {name: np.array(row) for name, row in table}
