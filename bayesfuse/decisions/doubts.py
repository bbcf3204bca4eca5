"""Which labels to doubt: items by how unsure they are, and how many labels are wrong."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_count, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.access import constants
from bayesfuse.results.paths import draw_labels
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import most_uncertain, tails


def rank_items(
    result: xr.DataTree | xr.DataArray, *, by: Literal["error", "entropy"] = "error"
) -> pd.DataFrame:
    r"""List the items by how unsure their labels are, the least sure first.

    Parameters
    ----------
    result : DataTree or DataArray, dims (item, class)
        A result, or its label probabilities.
    by : {"error", "entropy"}
        By the probability that the most probable label is wrong, or by the entropy of all classes:
        with more than two they may differ.

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
    >>> from bayesfuse.models import DawidSkene
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
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


def expected_errors(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Say how many of the most probable labels are wrong: the expected number and an interval.

    The expectation is :math:`\sum_n (1 - \max_k p_{nk})`, exactly. For the interval labels are
    drawn jointly (with the model), so that it counts that errors come together: a rater worse than
    thought, a sequence misread. Without the model labels count as independent given the data, the
    number of errors as Poisson-binomial, and the interval is too narrow where raters are few or
    the posterior of their quality is wide.

    Parameters
    ----------
    result : DataTree
        With label probabilities.
    model : pymc.Model, optional
        The model it is of.
    draws : int, default 1000
        Joint draws of the labels, with a model.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional
        For the joint draws.

    Returns
    -------
    Dataset
        Numbers ``expected``, ``low``, ``high`` and ``items`` (how many labels there are, copies of
        an item included). The attribute ``method`` says where the interval is from.

    Raises
    ------
    ModelError
        A result without label probabilities, or of another model; with a model, a table of counts.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.expected_errors(result, model, random_seed=1)
    >>> bool(found["low"] <= found["expected"] <= found["high"]), int(found["items"])
    (True, 45)
    """
    require_count("draws", draws)
    generator = require_seed(random_seed)
    probability = label_probabilities(result, model)
    error = 1 - probability.max("class").values
    copies = _copies(result, len(error))
    ends = tails(ci_prob)
    if model is None:
        method = "independent items"
        below = _number_of_errors(error, copies).cumsum()
        low, high = (int(np.searchsorted(below, q)) for q in ends)
    else:
        method = "joint draws of the labels"
        drawn = draw_labels(result, model, draws, random_seed=generator)
        best = probability.values.argmax(axis=1)  # of the same items, as the model's are compared
        wrong = (drawn.values != best).sum(axis=1)
        low, high = np.quantile(wrong, ends, method="inverted_cdf")
    numbers = {
        "expected": float(copies @ error),
        "low": float(low),
        "high": float(high),
        "items": int(copies.sum()),
    }
    return xr.Dataset(numbers, attrs={"method": method})


def entropy(probability: Array) -> Array:
    """Return the entropy of rows of probabilities, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(probability > 0, probability * np.log(probability), 0.0)
    return np.maximum(-terms.sum(axis=-1), 0.0)


def _copies(result: xr.DataTree, n_items: int) -> NDArray[np.int64]:
    known = constants(result)
    if "multiplicity" not in known:
        return np.ones(n_items, dtype=np.int64)
    copies: NDArray[np.int64] = known["multiplicity"].values
    return copies


def _number_of_errors(error: Array, copies: NDArray[np.int64]) -> Array:
    """Return the Poisson-binomial distribution of a number of errors, by convolution in pairs."""
    from scipy.signal import convolve
    from scipy.stats import binom

    used = (error > 0) & (copies > 0)
    parts = [
        binom.pmf(np.arange(m + 1), m, q) for q, m in zip(error[used], copies[used], strict=True)
    ] or [np.ones(1)]
    while len(parts) > 1:
        paired = [convolve(*parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return np.maximum(parts[0], 0.0)  # a transform may leave rounding below zero
