"""How many known labels make the intervals of class shares narrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtri

from bayesfuse.errors import require_probability
from bayesfuse.results.class_shares import class_shares
from bayesfuse.results.contents import known_classes
from bayesfuse.results.group_shares import MIN_KNOWN
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def labels_needed(
    result: xr.DataTree,
    *,
    width: float,
    by: Any = None,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> pd.DataFrame:
    r"""Return how many known labels give shares of classes an interval of some width.

    With n of N items known at random, the error of the shares is that of the unknown items, with a
    standard deviation in proportion to :math:`(1 - n / N) / \sqrt n`; shares of new items have the
    error of a sample of items besides, which known labels do not reduce.

    Parameters
    ----------
    result : DataTree, as in :func:`bayesfuse.class_shares`, best with known labels
        With fewer than five, which do not show the errors of the model, label probabilities are
        assumed to be calibrated; call this again when more labels are known.
    width : float
        Of the interval, such as .1 for ± .05.
    by : optional, groups of items as in :func:`bayesfuse.class_shares`
        Labels are spread over groups in proportion to their items.
    ci_prob, random_seed : probability of the interval, default that of ArviZ, and seed

    Returns
    -------
    DataFrame
        By ``group`` and ``class`` (of two, the second): ``items`` and ``known`` ones, the
        ``width`` now and of new items (``new_width``), and the number of known labels of all items
        together that is needed, those known included: ``labels`` for these items and ``new_labels``
        for new ones (NaN if no number of labels is enough, because more items are needed).

    Raises
    ------
    ModelError
        As :func:`bayesfuse.class_shares`; a width that is not between 0 and 1.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(300, 4, 2, random_seed=1)
    >>> gold = {item: int(made.truth[item]) for item in range(30)}
    >>> model = bf.models.WeightedVotes(made.responses, gold)
    >>> result = bf.sample(model, 50, random_seed=1, progressbar=False)
    >>> needed = bf.decisions.labels_needed(result, width=0.1, random_seed=1)
    >>> bool(needed["labels"][0] > 30)
    True
    """
    require_probability("width", width)
    shares = class_shares(result, by, contrasts=False, ci_prob=ci_prob, random_seed=random_seed)[0]
    classes = shares["class"].unique()
    table = shares[shares["class"] != classes[0]] if len(classes) == 2 else shares
    table = table[["group", "class", "items", "known"]].reset_index(drop=True)
    now, new = (
        (shares[f"{prefix}high"] - shares[f"{prefix}low"]).loc[shares["class"].isin(table["class"])]
        for prefix in ("", "new_")
    )
    table["width"], table["new_width"] = now.to_numpy(), new.to_numpy()
    n_items, n_known = int(table["items"][0]), int(table["known"][0])
    numbers = np.arange(max(n_known, 1), n_items + 1)
    if n_known >= MIN_KNOWN:
        error = table["width"].to_numpy() / max(_error(n_known, n_items), 1e-12)
    else:
        error = _error_of_labels(result, table, ci_prob)
    widths = error[:, None] * _error(numbers, n_items)  # (rows, numbers)
    of_sample = np.maximum(table["new_width"] ** 2 - table["width"] ** 2, 0.0).to_numpy()
    for name, reached in (
        ("labels", widths),
        ("new_labels", np.sqrt(widths**2 + of_sample[:, None])),
    ):
        is_enough = reached <= width
        first = numbers[is_enough.argmax(axis=1)].astype(float)
        table[name] = np.where(is_enough.any(axis=1), first, np.nan)
    return table


def _error(n_known: Any, n_items: int) -> Any:
    """Return the standard deviation of the error of a share, up to a constant factor."""
    return (1.0 - n_known / n_items) / np.sqrt(n_known)


def _error_of_labels(result: xr.DataTree, table: pd.DataFrame, ci_prob: float | None) -> Any:
    """Return the factor by which ``_error`` is a width, if label probabilities are calibrated."""
    probability = label_probabilities(result)
    unknown = known_classes(result, probability.sizes["item"]) < 0
    spread = (probability * (1.0 - probability)).values[unknown].mean(axis=0)
    # by place: names that are truth values would select as a mask does
    place = pd.Index(probability["class"].values).get_indexer(table["class"])
    low, high = ndtri(tails(ci_prob))
    share = np.sqrt(table["items"][0] / table["items"])  # a group has its share of the labels
    return (high - low) * np.sqrt(spread[place]) * share.to_numpy()
