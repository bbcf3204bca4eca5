"""Ranking items by the uncertainty of their labels."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.summaries import most_uncertain


def rank_items(
    result: xr.DataTree | xr.DataArray, *, by: Literal["error", "entropy"] = "error"
) -> pd.DataFrame:
    r"""Rank items by the uncertainty of their labels, the most uncertain first.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        A result, or its label probabilities.
    by : {"error", "entropy"}
        By the probability that the most probable label is wrong, or by the entropy of the label,
        which may differ with more than two classes.

    Returns
    -------
    DataFrame
        One row per item: ``item``, ``label`` (the most probable), ``error`` (the probability that
        it is wrong) and ``entropy`` (:math:`-\sum_k p_k \log p_k`, in nats).

    Raises
    ------
    ModelError
        No label probabilities, or another ``by``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.decisions.rank_items(point)["item"].head(3).tolist()
    [30, 32, 7]
    """
    if by not in ("error", "entropy"):
        raise ModelError(f"Items are ranked by 'error' or 'entropy'. Got: {by!r}.")
    probability = most_uncertain(result)  # by error
    values = probability.values
    table = pd.DataFrame(
        {
            "item": probability["item"].values,
            "label": probability["class"].values[values.argmax(axis=1)],
            "error": 1 - values.max(axis=1),
            "entropy": entropy(values),
        }
    )
    if by == "error":
        return table
    return table.sort_values(by, ascending=False, kind="stable", ignore_index=True)


def entropy(probability: Array) -> Array:
    """Return the entropy of rows of probabilities, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probability > 0, probability * np.log(probability), 0.0)
    return np.maximum(-terms.sum(axis=-1), 0.0)
