"""Ranking items by the uncertainty of their labels, raters, and further responses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.errors import ModelError, require_count, require_kind, require_mapping, require_seed
from bayesfuse.results.abilities import abilities, quality
from bayesfuse.results.contents import copies_of
from bayesfuse.results.joint_labels import if_stored
from bayesfuse.results.paths import draw_labels
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import most_uncertain, tails

MAX_COMPARED = 500  # raters of whom all pairs are compared


def rank_items(result: xr.DataTree | xr.DataArray) -> pd.DataFrame:
    r"""Rank items by the probability that their most probable label is wrong, the largest first.

    Parameters
    ----------
    result : DataTree, or its label probabilities, a DataArray, dims (item, class)

    Returns
    -------
    DataFrame
        One row per item: ``item``, ``label`` (the most probable), ``error`` (the probability that
        it is wrong) and ``entropy`` (:math:`-\sum_k p_k \log p_k`, in nats).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.decisions.rank_items(point)["item"].head(3).tolist()
    [30, 32, 7]
    """
    probability = most_uncertain(result)
    values = probability.values
    return pd.DataFrame(
        {
            "item": probability["item"].values,
            "label": probability["class"].values[values.argmax(axis=1)],
            "error": 1 - values.max(axis=1),
            "entropy": entropy(values),
        }
    )


def entropy(probability: NDArray[Any]) -> NDArray[Any]:
    """Return the entropy of rows of probabilities, in nats."""
    return np.maximum(scipy.special.entr(probability).sum(axis=-1), 0.0)


def expected_errors(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Return the expected number of wrong labels among the most probable ones, with an interval.

    The expectation is exactly :math:`\sum_n (1 - \max_k p_{nk})`. With the model, or if the result
    has ``label_draws``, the interval is from joint draws of the labels, scaled to have this mean.
    Else labels are treated as independent given the data (Poisson-binomial), and
    the interval is too narrow if raters are few or of uncertain accuracy.

    Parameters
    ----------
    result, model : a result with label probabilities and, optionally, its model
    draws : int, default 1000: number of joint draws of the labels, with a model
    ci_prob, random_seed : probability of the interval, default that of ArviZ, and seed

    Returns
    -------
    Dataset
        ``expected``, ``low``, ``high`` and ``items`` (in a table of counts by their count). The
        attribute ``method`` names the method of the interval.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.fit(bf.models.DawidSkene(bf.datasets.anesthesia()), random_seed=1)
    >>> errors = bf.decisions.expected_errors(result)
    >>> bool(errors["low"] <= errors["expected"] <= errors["high"]), int(errors["items"])
    (True, 45)
    """
    require_count("draws", draws)
    generator = require_seed(random_seed)
    probability = label_probabilities(result, model).transpose("item", "class").values
    copies = copies_of(result, len(probability))
    drawn = if_stored(result)
    if model is not None:
        drawn = draw_labels(result, model, draws, random_seed=generator).values
    low, high, method = interval_of_errors(probability, drawn, tails(ci_prob), copies)
    expected = float(copies @ (1 - probability.max(axis=1)))
    numbers = {"expected": expected, "low": low, "high": high, "items": int(copies.sum())}
    return xr.Dataset(numbers, attrs={"method": method})


def interval_of_errors(
    probability: NDArray[Any],
    drawn: NDArray[Any] | None,
    ends: tuple[float, float],
    copies: NDArray[np.int64] | None = None,
) -> tuple[float, float, str]:
    """Return quantiles of the number of wrong labels, and the method: joint draws, if there are."""
    copies = np.ones(len(probability), dtype=np.int64) if copies is None else copies
    expected = float(copies @ (1 - probability.max(axis=1)))
    wrong = np.zeros(1) if drawn is None else (drawn != probability.argmax(axis=1)).sum(axis=1)
    too_few = 0 < wrong.min() == wrong.max()  # draws, whose number of errors does not vary
    if drawn is None or too_few or (copies != 1).any():
        below = number_of_errors(1 - probability.max(axis=1), copies).cumsum()
        low, high = np.searchsorted(below, ends)
        method = "independent items"
    else:
        low, high = np.quantile(wrong, ends, method="inverted_cdf")
        if wrong.any():  # of fewer draws than probabilities, which draws in sequence fit roughly
            low, high = np.rint(np.array([low, high]) * (expected / wrong.mean()))
        method = "joint draws of the labels"
    if 0.0 < expected:  # strictly inside, also where nearly all of the probability is at zero
        low, high = min(low, math.ceil(expected) - 1), max(high, math.floor(expected) + 1)
    return float(low), float(high), method


def number_of_errors(error: NDArray[Any], copies: NDArray[np.int64]) -> NDArray[Any]:
    """Return the Poisson-binomial distribution of the number of errors, by convolution in pairs."""
    one, several = (error > 0) & (copies == 1), (error > 0) & (copies > 1)
    rows = np.column_stack([1.0 - error[one], error[one]])
    while len(rows) > 1:
        if len(rows) % 2:
            rows = np.vstack([rows, np.eye(1, rows.shape[1])])  # surely no error
        size = 2 * rows.shape[1] - 1
        length = scipy.fft.next_fast_len(size, real=True)
        halves = (scipy.fft.rfft(half, length, axis=1) for half in (rows[::2], rows[1::2]))
        rows = scipy.fft.irfft(math.prod(halves), length, axis=1)[:, :size]
    pairs = zip(error[several], copies[several], strict=True)
    parts = [*rows, *(scipy.stats.binom.pmf(np.arange(m + 1), m, q) for q, m in pairs)]
    parts = parts or [np.ones(1)]
    while len(parts) > 1:
        paired = [np.convolve(*parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return np.maximum(parts[0], 0.0)  # a Fourier transform may round below zero


def rank_raters(
    result: xr.DataTree,
    by: xr.DataArray | str | None = None,
    *,
    groups: Mapping[Any, Any] | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Rank the raters, with the probability of every rank (Laird & Louis 1989), and of differences.

    Differences are paired on the draws: what is uncertain about the labels is common to raters.

    Parameters
    ----------
    result : DataTree, as in :func:`bayesfuse.rater_table`
    by : str or DataArray, dims (chain, draw, rater), optional
        What is ranked: an ability, named as in the table (``"accuracy"``, ``"sensitivity"``, of
        more than two classes ``"sensitivity[class]"``), or draws of anything else. Default the
        balanced accuracy (informedness gives the same ranks), of rules the accuracy.
    groups : mapping of rater to group, optional
        Such as the family of a judge; the mean of each group is compared with that of all other
        raters.
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset, dims (rater, rank, other, group)
        ``probability`` of every rank (rater, rank), 1 being the best; ``expected_rank``, ``low``
        and ``high`` (rater,); ``quality``, the mean of what is ranked. Raters are sorted by
        expected rank. Of up to 500 raters, by rater and ``other``: ``difference`` of what is ranked
        with ``difference_low`` and ``difference_high``, and the probability that the rater is
        ``better``.
        The same by group, with ``group_`` before the names.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.sample(bf.models.DawidSkene(bf.datasets.caries()), 50, random_seed=1,
    ...                    progressbar=False, quiet=True)
    >>> ranks = bf.decisions.rank_raters(result)
    >>> ranks["rater"].values.tolist()[0]
    'dentist 2'
    >>> bool(ranks["better"].sel(rater="dentist 2", other="dentist 5") > 0.5)
    True
    """
    if isinstance(by, str) or by is None:
        drawn = abilities(result)
        by = quality(drawn) if by is None else _ability(drawn, by)
    name = str(require_kind("by", by, xr.DataArray).name or "quality")
    by = by.transpose("chain", "draw", "rater")
    values = by.values.reshape(-1, by.sizes["rater"])
    n_draws, n_raters = values.shape
    order = np.argsort(-values, axis=1, kind="stable")
    counts = np.apply_along_axis(np.bincount, 0, order, minlength=n_raters)  # (raters, ranks)
    probability = counts / n_draws
    ranks = np.arange(1, n_raters + 1)
    expected = probability @ ranks
    below, level = probability.cumsum(axis=1), tails(ci_prob)
    low, high = ((below < q - 1e-12).sum(axis=1) + 1 for q in level)
    variables: dict[str, Any] = {
        "probability": (("rater", "rank"), probability),
        "expected_rank": ("rater", expected),
        "low": ("rater", low),
        "high": ("rater", high),
        "quality": ("rater", values.mean(axis=0)),
    }
    names = by["rater"].values
    coords = {"rater": names, "rank": ranks}
    best_first = np.argsort(expected, kind="stable")
    if n_raters <= MAX_COMPARED:
        rows = [_differences(values[:, [rater]] - values, level) for rater in range(n_raters)]
        for key in rows[0]:
            pairs = np.stack([row[key] for row in rows])[:, best_first]
            variables[key] = ("rater", "other"), pairs
        coords["other"] = names[best_first]
    if groups is not None:
        group_names, contrasts = _against_others(values, names, groups)
        for key, column in _differences(contrasts, level).items():
            variables[f"group_{key}"] = "group", column
        coords["group"] = group_names
    return xr.Dataset(variables, coords, {"by": name}).isel(rater=best_first)


def _ability(drawn: xr.Dataset, name: str) -> xr.DataArray:
    """Return draws of an ability by its name in the table of raters."""
    dims = ("chain", "draw", "rater")
    by_rater = {str(key): values for key, values in drawn.items() if values.dims == dims}
    sensitivity = drawn.get("sensitivity")
    if sensitivity is not None and "class" in sensitivity.dims:
        for at, truth in enumerate(sensitivity["class"].values.tolist()):
            column = f"sensitivity[{truth}]"
            by_rater[column] = sensitivity.isel({"class": at}, drop=True).rename(column)
    if name not in by_rater:
        raise ModelError(
            "by must be an ability with one number by rater, or draws, a DataArray. Got: "
            f"{name!r}, not one of {list(by_rater)}."
        )
    return by_rater[name]


def _differences(contrasts: NDArray[Any], level: tuple[float, float]) -> dict[str, NDArray[Any]]:
    """Return the mean of differences (draws, columns), their interval, and how often they win."""
    low, high = np.quantile(contrasts, level, axis=0)
    better = (contrasts > 0.0).mean(axis=0) + 0.5 * (contrasts == 0.0).mean(axis=0)
    ends = {"difference_low": low, "difference_high": high}
    return {"difference": contrasts.mean(axis=0), **ends, "better": better}


def _against_others(
    values: NDArray[Any], raters: NDArray[Any], groups: Mapping[Any, Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return names of groups, and their means minus those of all other raters (draws, groups)."""
    require_mapping("groups", groups)
    names, code = read_populations(raters, groups, what="groups=", group="group", unit="rater")
    if len(names) < 2:
        raise ModelError(
            "groups must be two or more, because each is compared with the others. Got: "
            f"{len(names)}."
        )
    member = code[:, None] == np.arange(len(names))
    inside = values @ member / member.sum(axis=0)
    return names, inside - values @ ~member / (~member).sum(axis=0)
