"""Which items to label next, and which labels to accept as they are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.decisions.ranks import number_of_errors
from bayesfuse.errors import ModelError, require_count, require_number, require_seed
from bayesfuse.results.contents import constants, joint_labels, known_classes
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def next_items(
    result: xr.DataTree,
    n: int = 20,
    *,
    aim: Literal["learn", "correct"] = "learn",
    random_seed: Any = None,
) -> pd.DataFrame:
    """Choose the items whose labels to find out next; never one whose label is known.

    Parameters
    ----------
    result : DataTree
        With label probabilities, such as that of ``bf.fuse``.
    n : int, default 20
        Number of items, fewer if fewer are unknown.
    aim : {"learn", "correct"}
        "learn" chooses at random among the items with responses, to learn how far raters and models
        are to be believed on all others. "correct" chooses the least certain labels, to correct as
        many of them as possible.
    random_seed : int, Generator, optional

    Returns
    -------
    DataFrame
        ``item``, its most probable ``label``, and ``error``, the probability that it is wrong.

    Raises
    ------
    ModelError
        No label probabilities; another aim.

    Notes
    -----
    In simulations with the real truth of six tables (``benchmarks/known_labels.py --ask``), least
    certain items taught as much of the other items as random ones, and corrected more labels. But
    raters' accuracies, shares and expected errors are safe only if known items are random: others
    need a model that is right about them.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [0, 1], [1, 1], [0, 1]])
    >>> shares = bf.vote_shares(responses, gold={1: 0})
    >>> bf.decisions.next_items(shares, 2, aim="correct")["item"].tolist()
    [3, 0]
    """
    require_count("n", n)
    if aim not in ("learn", "correct"):
        raise ModelError(f"aim must be 'learn' or 'correct'. Got: {aim!r}.")
    rng = require_seed(random_seed)
    probability = label_probabilities(result).transpose("item", "class")
    error = 1.0 - probability.values.max(axis=1)
    unknown = np.flatnonzero(known_classes(result, len(error)) < 0)
    if aim == "correct":
        chosen = unknown[np.argsort(-error[unknown], kind="stable")][:n]
    else:
        data = constants(result)
        if "item_index" in data:
            answered = np.bincount(data["item_index"].values, minlength=len(error)) > 0
            unknown = unknown[answered[unknown]] if answered[unknown].any() else unknown
        chosen = rng.permutation(unknown)[:n]
    return pd.DataFrame(
        {
            "item": probability["item"].values[chosen],
            "label": probability["class"].values[probability.values[chosen].argmax(axis=1)],
            "error": error[chosen],
        }
    )


def accept(result: xr.DataTree, error: float = 0.02, *, ci_prob: float | None = None) -> xr.Dataset:
    """Choose the labels to accept as they are, so that at most a share of them is wrong.

    The most certain labels are accepted as long as the expected share of wrong ones among them is
    at most ``error``. Known labels do not count.

    Parameters
    ----------
    result : DataTree
        With label probabilities, such as that of ``bf.fuse``.
    error : float, default 0.02
        Largest expected share of wrong labels.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset
        ``accepted`` by item (also if known); ``items``, the number of accepted labels that were not
        known, and ``coverage``, their share of all unknown ones; ``expected``, ``low`` and
        ``high``, the share of wrong labels among them. And by ``order``, from the most to the least
        certain unknown item: ``item_of_order``, and ``risk``, the expected share of wrong labels up
        to there. The attribute ``method`` names the method of the interval: joint draws of labels
        where the result has ``label_draws`` (``bf.fuse(gold=…)``), else independent items, whose
        interval is too narrow.

    Raises
    ------
    ModelError
        No label probabilities; an error that is no probability; tables of counts.

    References
    ----------
    El-Yaniv & Wiener (2010), On the foundations of noise-free selective classification, JMLR 11
    (risk and coverage).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(200, 9, 2, random_seed=1)
    >>> result = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> found = bf.decisions.accept(result, error=0.02)
    >>> bool(found["expected"] <= 0.02), bool(found["low"] <= found["high"])
    (True, True)
    """
    limit = require_number("error", error, most=1.0)
    probability = label_probabilities(result).transpose("item", "class")
    wrong = 1.0 - probability.values.max(axis=1)
    require_plain(result)
    known = known_classes(result, len(wrong)) >= 0
    order = np.flatnonzero(~known)
    order = order[np.argsort(wrong[order], kind="stable")]
    risk = wrong[order].cumsum() / np.arange(1, len(order) + 1)
    size = int(np.searchsorted(risk, limit + 1e-12, side="right"))  # risk never falls
    taken = order[:size]
    ends, method = tails(ci_prob), "independent items"
    if (drawn := joint_labels(result)) is not None:
        method = "joint draws of the labels"
        guess = probability.values.argmax(axis=1)
        errors = (drawn[:, taken] != guess[taken]).sum(axis=1)
        low, high = np.quantile(errors, ends, method="inverted_cdf")
    else:
        below = number_of_errors(wrong[taken], np.ones(size, dtype=np.int64)).cumsum()
        low, high = (int(np.searchsorted(below, q)) for q in ends)
    accepted = known.copy()
    accepted[taken] = True
    return xr.Dataset(
        {
            "accepted": ("item", accepted),
            "items": size,
            "coverage": size / max(len(order), 1),
            "expected": float(risk[size - 1]) if size else 0.0,
            "low": float(low) / max(size, 1),
            "high": float(high) / max(size, 1),
            "item_of_order": ("order", probability["item"].values[order]),
            "risk": ("order", risk),
        },
        {"item": probability["item"].values},
        {"method": method},
    )


def require_plain(result: xr.DataTree) -> None:
    """Raise ModelError for a result of a table of counts."""
    if "multiplicity" in constants(result):
        raise ModelError(
            "Items are labelled one by one: use the table with one row per response, "
            "responses.expand(). Got: a result of a table of counts."
        )
