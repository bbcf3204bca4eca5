"""Items to label next, labels to accept, and errors expected after further known labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.decisions.best_labels import interval_of_costs, read_costs, require_items
from bayesfuse.decisions.ranks import interval_of_errors
from bayesfuse.errors import (
    ModelError,
    brief,
    require_choice,
    require_count,
    require_number,
    require_seed,
)
from bayesfuse.results.contents import known_classes
from bayesfuse.results.joint_labels import SAMPLES, if_stored, independent
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import are_answered, tails


def next_items(
    result: xr.DataTree,
    n: int = 20,
    *,
    aim: Literal["learn", "correct"] = "learn",
    random_seed: Any = None,
) -> pd.DataFrame:
    """Choose the items to label next, among those of unknown label.

    The least certain items improve the labels of other items about as much as random ones, and
    correct more labels (``benchmarks/known_labels.py --ask``). But accuracies, shares and expected
    errors are unbiased only if known items are random.

    Parameters
    ----------
    result : DataTree with label probabilities, such as that of ``bf.fuse``
    n : int, default 20: number of items, fewer if fewer are unknown
    aim : {"learn", "correct"}
        "learn" chooses at random among the items with responses, which identifies the accuracy of
        raters and models. "correct" chooses the least certain labels.
    random_seed : int, Generator, optional

    Returns
    -------
    DataFrame
        ``item``, its most probable label as ``guess``, and ``error``, the probability that it is
        wrong.

    Notes
    -----
    Items in sequence are chosen from all sequences, since the known labels of a few whole ones
    improve the labels of the others little. The sequences with the most errors are those of the
    largest sum of ``error`` in :func:`rank_items`: the guide to sequences has the call.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [0, 1], [1, 1], [0, 1]])
    >>> shares = bf.vote_shares(responses, gold={1: 0})
    >>> bf.decisions.next_items(shares, 2, aim="correct")["item"].tolist()
    [3, 0]
    """
    require_count("n", n)
    require_choice("aim", aim, "learn", "correct")
    rng = require_seed(random_seed)
    labels, error, chosen = _uncertain(result)
    if aim == "learn":
        unknown = np.sort(chosen)
        with_responses = unknown[are_answered(result, len(error))[unknown]]
        chosen = rng.permutation(with_responses if len(with_responses) else unknown)
    chosen = chosen[:n]
    return pd.DataFrame(
        {
            "item": labels["item"].values[chosen],
            "guess": labels["class"].values[labels.values[chosen].argmax(axis=1)],
            "error": error[chosen],
        }
    )


def accept_labels(
    result: xr.DataTree, error: float = 0.02, *, costs: Any = None, ci_prob: float | None = None
) -> xr.Dataset:
    """Choose the labels to accept as they are, so that at most a share of them is wrong.

    With costs, labels are those of :func:`best_labels`, and ``error`` is the largest expected cost
    of an accepted label; items that are better rejected are not accepted.

    The most certain labels are accepted as long as the expected share of wrong ones among them is
    at most ``error`` (El-Yaniv & Wiener 2010, JMLR 11). Known labels do not count.

    Parameters
    ----------
    result : DataTree with label probabilities, such as that of ``bf.fuse``
    error : float, default 0.02: largest expected share of wrong labels, or mean cost
    costs : optional, as in :func:`best_labels`
    ci_prob : probability of the equal-tailed interval, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset
        ``accepted`` by item (also if known); ``items``, the number of accepted labels that were not
        known, and ``coverage``, their share of all unknown ones; ``expected``, ``low`` and
        ``high``, the share of wrong labels among them, or their mean cost (NaN if none). By
        ``order``, from the most to the least certain unknown item (or by cost, without those to
        reject): ``item_of_order``, and ``risk``, the expected share of wrong labels or mean cost up
        to there. The attribute ``method``, without costs, is as in :func:`expected_errors`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(200, 9, 2, random_seed=1)
    >>> result = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> bool(bf.decisions.accept_labels(result, error=0.02)["expected"] <= 0.02)
    True
    """
    limit = require_number("error", error, most=1.0 if costs is None else math.inf)
    labels, wrong, unknown = _uncertain(result)
    require_items(result)
    if costs is not None:
        return _accepted_by_cost(result, labels, np.sort(unknown), costs, limit, tails(ci_prob))
    order = np.sort(unknown)
    order = order[np.argsort(wrong[order], kind="stable")]
    risk = wrong[order].cumsum() / np.arange(1, len(order) + 1)
    size = _n_accepted(risk, limit)
    taken = order[:size]
    drawn = if_stored(result)
    drawn = None if drawn is None else drawn[:, taken]
    low, high, method = interval_of_errors(labels.values[taken], drawn, tails(ci_prob))
    return _acceptance(labels, order, risk, size, (low, high)).assign_attrs(method=method)


def _accepted_by_cost(
    result: xr.DataTree,
    labels: xr.DataArray,
    unknown: NDArray[np.int64],
    costs: Any,
    limit: float,
    ends: tuple[float, float],
) -> xr.Dataset:
    """Return the labels to accept by their expected costs, the least first."""
    table = read_costs(costs, labels["class"].values)
    chosen, cost = table.cheapest(labels.values)
    order = unknown[np.argsort(cost[unknown], kind="stable")]
    if table.rejects:
        order = order[chosen[order] < len(table.labels) - 1]
    mean_cost = cost[order].cumsum() / np.arange(1, len(order) + 1)
    size = _n_accepted(mean_cost, limit)
    is_taken = np.isin(np.arange(len(cost)), order[:size])
    totals = interval_of_costs(result, labels, table.cost[:, chosen] * is_taken, ends)
    accepted = _acceptance(labels, order, mean_cost, size, totals)
    accepted["coverage"] = size / max(len(unknown), 1)
    rejected = np.isin(np.arange(len(cost)), np.setdiff1d(unknown, order[:size]))
    return accepted.assign(accepted=("item", ~rejected))


def _n_accepted(risk: NDArray[Any], limit: float) -> int:
    """Return how many labels have at most this mean risk, which never falls."""
    return int(np.searchsorted(risk, limit + 1e-12, side="right"))


def _acceptance(
    labels: xr.DataArray,
    order: NDArray[np.int64],
    risk: NDArray[Any],
    size: int,
    ends: tuple[float, float],
) -> xr.Dataset:
    """Return the first items in an order as accepted, with the interval of their total risk."""
    low, high = ends
    return xr.Dataset(
        {
            "accepted": ("item", ~np.isin(np.arange(len(labels)), order[size:])),
            "items": size,
            "coverage": size / max(len(order), 1),
            "expected": float(risk[size - 1]) if size else np.nan,
            "low": low / size if size else np.nan,
            "high": high / size if size else np.nan,
            "item_of_order": ("order", labels["item"].values[order]),
            "risk": ("order", risk),
        },
        {"item": labels["item"].values},
    )


def errors_after(
    result: xr.DataTree,
    sizes: Iterable[int] = (10, 20, 50, 100),
    *,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> pd.DataFrame:
    """Return how many labels are expected to be wrong after more items are labelled.

    Only the labels of these items are corrected. Better estimates of the raters correct others,
    too, but may also show that more labels are wrong than expected.

    Parameters
    ----------
    result : DataTree with label probabilities, such as that of ``bf.fuse``
    sizes : numbers of additional known labels, default (10, 20, 50, 100); at most all unknown ones
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    DataFrame
        ``aim`` ("learn": random items, "correct": the least certain ones), ``labels`` (0 first,
        every number once), and the expected number of ``wrong`` labels of all items with its
        interval ``low`` to ``high``, from joint draws of the labels.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 3, 2, random_seed=1)
    >>> result = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> errors = bf.decisions.errors_after(result, [10], random_seed=1)
    >>> bool(errors["wrong"][3] < errors["wrong"][1] < errors["wrong"][0])
    True
    """
    rng, level = require_seed(random_seed), tails(ci_prob)
    if not np.iterable(sizes) or not (more := list(sizes)):
        raise ModelError(f"sizes must be whole numbers, as in [10, 50]. Got: {brief(sizes)}.")
    for size in more:
        require_count("sizes", size, 0)
    labels, error, order = _uncertain(result)
    require_items(result)
    drawn = if_stored(result)
    drawn = independent(labels, SAMPLES, rng) if drawn is None else drawn
    wrong = drawn != labels.values.argmax(axis=1)
    n_open, total, of_open = len(order), wrong.sum(axis=1), wrong[:, order].sum(axis=1)
    of_known = error.sum() - error[order].sum()  # known labels may be wrong, with gold_error=
    numbers = [*dict.fromkeys([0, *(min(size, n_open) for size in more)])]
    rows = []
    for number in numbers:
        left = n_open - number
        errors = total - of_open
        if left:
            errors = errors + rng.hypergeometric(of_open, n_open - of_open, left)
        expected = of_known + error[order].sum() * left / max(n_open, 1)
        rows.append(["learn", number, expected, errors])
    for number in numbers:
        errors = total - wrong[:, order[:number]].sum(axis=1)
        rows.append(["correct", number, of_known + error[order[number:]].sum(), errors])
    table = pd.DataFrame(rows, columns=["aim", "labels", "wrong", "low"])
    ends = np.quantile(np.stack(table["low"]), level, axis=1, method="inverted_cdf").astype(float)
    return table.assign(low=ends[0], high=ends[1])


def _uncertain(result: xr.DataTree) -> tuple[xr.DataArray, NDArray[Any], NDArray[np.int64]]:
    """Return label probabilities, errors, and the items of unknown class, least certain first."""
    labels = label_probabilities(result).transpose("item", "class")
    error = 1.0 - labels.values.max(axis=1)
    unknown = np.flatnonzero(known_classes(result, len(error)) < 0)
    return labels, error, unknown[np.argsort(-error[unknown], kind="stable")]
