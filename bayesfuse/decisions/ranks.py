"""Ranking items by the uncertainty of their labels, raters, and further responses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.errors import (
    ModelError,
    require_choice,
    require_count,
    require_flag,
    require_kind,
    require_names,
    require_seed,
)
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of
from bayesfuse.results.contents import constants, joint_labels, require_result
from bayesfuse.results.paths import draw_labels
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import around, balanced_accuracy, most_uncertain, tails

ROWS_AT_ONCE = 2_000_000  # responses in memory, in copies of the table with one more response


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
    >>> found = bf.decisions.expected_errors(result)
    >>> bool(found["low"] <= found["expected"] <= found["high"]), int(found["items"])
    (True, 45)
    """
    require_count("draws", draws)
    generator = require_seed(random_seed)
    probability = label_probabilities(result, model).transpose("item", "class").values
    copies = np.ones(len(probability), dtype=np.int64)
    if "multiplicity" in (known := constants(result)):
        copies = known["multiplicity"].values
    drawn = joint_labels(result)
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
    if drawn is None or (copies != 1).any():
        below = number_of_errors(1 - probability.max(axis=1), copies).cumsum()
        low, high = np.searchsorted(below, ends)
        expected = float(copies @ (1 - probability.max(axis=1)))
        if 0.0 < expected:  # strictly inside, also where nearly all of the probability is at zero
            low, high = min(low, math.ceil(expected) - 1), max(high, math.floor(expected) + 1)
        return float(low), float(high), "independent items"
    wrong = (drawn != probability.argmax(axis=1)).sum(axis=1)
    expected = float((1 - probability.max(axis=1)).sum())
    if wrong.mean() > 0.0:  # of fewer draws than probabilities, which draws in sequence fit roughly
        wrong = wrong * (expected / wrong.mean())
    low, high = np.quantile(wrong, ends, method="inverted_cdf")
    low, high = around(wrong[:, None], np.array([expected]), low, high)
    return math.floor(low[0]), math.ceil(high[0]), "joint draws of the labels"


def number_of_errors(error: NDArray[Any], copies: NDArray[np.int64]) -> NDArray[Any]:
    """Return the Poisson-binomial distribution of the number of errors, by convolution in pairs."""
    one, several = (error > 0) & (copies == 1), (error > 0) & (copies > 1)
    rows = np.column_stack([1.0 - error[one], error[one]])
    while len(rows) > 1:
        if len(rows) % 2:
            rows = np.vstack([rows, np.eye(1, rows.shape[1])])  # surely no error
        rows = scipy.signal.fftconvolve(rows[::2], rows[1::2], axes=1)
    pairs = zip(error[several], copies[several], strict=True)
    parts = [*rows, *(scipy.stats.binom.pmf(np.arange(m + 1), m, q) for q, m in pairs)]
    parts = parts or [np.ones(1)]
    while len(parts) > 1:
        paired = [scipy.signal.convolve(*parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return np.maximum(parts[0], 0.0)  # a Fourier transform may round below zero


def rank_raters(
    result: xr.DataTree, by: xr.DataArray | None = None, *, ci_prob: float | None = None
) -> xr.Dataset:
    """Rank the raters, with the posterior probability of every rank (Laird & Louis 1989).

    Parameters
    ----------
    result : DataTree with ``sensitivity`` and ``specificity``, from ``bf.sample``
    by : DataArray, dims (chain, draw, rater), optional
        Draws of what is ranked, such as ``result["posterior"]["specificity"]``. Default the
        balanced accuracy, the mean over classes (informedness gives the same ranks).
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset, dims (rater, rank)
        ``probability`` of every rank, 1 being the best; ``expected_rank``, ``low`` and ``high``
        (rater,); ``quality``, the posterior mean of what is ranked. Raters are sorted by expected
        rank.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.decisions.rank_raters(result)["rater"].values.tolist()[0]
    'dentist 2'
    """
    if by is None:
        by = balanced_accuracy(result).rename("balanced_accuracy")
    quality = require_kind("by", by, xr.DataArray).transpose("chain", "draw", "rater")
    values = quality.values.reshape(-1, quality.sizes["rater"])
    n_draws, n_raters = values.shape
    order = np.argsort(-values, axis=1, kind="stable")
    counts = np.apply_along_axis(np.bincount, 0, order, minlength=n_raters)  # (raters, ranks)
    probability = counts / n_draws
    ranks = np.arange(1, n_raters + 1)
    expected = probability @ ranks
    below = probability.cumsum(axis=1)
    low, high = ((below < q - 1e-12).sum(axis=1) + 1 for q in tails(ci_prob))
    found = xr.Dataset(
        {
            "probability": (("rater", "rank"), probability),
            "expected_rank": ("rater", expected),
            "low": ("rater", low),
            "high": ("rater", high),
            "quality": ("rater", values.mean(axis=0)),
        },
        {"rater": quality["rater"].values, "rank": ranks},
        {"by": str(by.name or "quality")},
    )
    return found.isel(rater=np.argsort(expected, kind="stable"))


def value_of_response(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    raters: Any = None,
    candidates: int = 20,
    most: int = 3,
    of: Literal["errors", "entropy"] = "errors",
    repeats: bool = False,
    draws: int = 50,
) -> xr.Dataset:
    r"""Return the expected value of one more response, and the best raters to ask, for every item.

    With :math:`J_{kc} = \mathrm{E}_\theta[p(y_n = k \mid x, \theta)\, p(c \mid k, x_n, \theta)]`,
    the probability that item n is of class k *and* the rater responds c, the expected number of
    wrong labels falls by :math:`\sum_c \max_k J_{kc} - \max_k \sum_c J_{kc}` (Howard 1966), and the
    entropy by the mutual information of label and response (Lindley 1956). The information about
    other items is ignored. Labels on graphs are summed out approximately; of rows that depend on
    the rater's previous answer, the average is used.

    Parameters
    ----------
    result, model : as in :func:`bayesfuse.decode`; of ``bf.fuse``, the model of the largest weight
    raters : names of those who can be asked, default the ``candidates`` of highest accuracy
    candidates, most, draws : int, default 20, 3 and 50
        Numbers of raters who can be asked, unless they are named, of raters to return for each
        item, and of evenly spaced posterior draws to average over.
    of : minimise the expected number of wrong labels ("errors"), or the "entropy" (in nats)
    repeats : whether raters may be asked again (as if independently, rarely true), default False

    Returns
    -------
    Dataset, dims (item, choice)
        ``rater``, the best choice first, and ``value``; an empty name and NaN if no rater is left
        to ask. ``now`` (item,), the current expected error or entropy.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> found = bf.decisions.value_of_response(result, repeats=True)
    >>> found.sizes["choice"], bool((found["value"] <= found["now"] + 1e-9).all())
    (3, True)
    """
    require_choice("of", of, "errors", "entropy")
    for name, number in (("candidates", candidates), ("most", most), ("draws", draws)):
        require_count(name, number)
    require_flag("repeats", repeats)
    if model is None and "models" in require_result(result).children:
        fitted = dict(result["models"].children)
        weight = result["comparison"].dataset["weight"].to_series()
        result = fitted[weight[list(fitted)].idxmax()]
    observation = observation_of(result, model)
    responses = observation.responses
    if responses.silent is not None:
        raise ModelError(
            "One more response is of value where a rater was not asked yet, and sources that may "
            "abstain have been. Got: a table with silence."
        )
    asked = _candidates(result, responses, raters, candidates)
    points = list(evenly_spaced_rows(result, model, observation, draws))
    probability = np.array(
        [observation.by_item(observation.marginal(p).probability) for p in points]
    )
    channel = observation.raters.bare()
    at_points = [(point, observation.tables(point)) for point in points]
    n_items, n_classes = probability.shape[1:]
    most = min(most, len(asked))
    value, choice = np.full((n_items, most), np.nan), np.zeros((n_items, most), dtype=np.int64)
    rows_each = (responses.per_item.mean() + 1) * len(asked) * n_classes
    step = max(int(ROWS_AT_ONCE / rows_each), 1)
    answered = responses.item.astype(np.int64) * responses.n_raters + responses.rater
    for at in range(0, n_items, step):
        part = np.arange(at, min(at + step, n_items))
        joint = _joint(responses, channel, at_points, probability[:, part], part, asked)
        gain = _gain(joint, of)
        if not repeats:
            own = answered[responses.start[at] : responses.start[part[-1] + 1]]
            gain[np.isin(part[:, None] * responses.n_raters + asked, own)] = -np.inf
        choice[part] = np.argsort(-gain, axis=1, kind="stable")[:, :most]
        value[part] = np.take_along_axis(gain, choice[part], axis=1)
    if (nobody := value == -np.inf).all():
        raise ModelError(
            "One more response is by a rater who has not answered the item; repeats=True asks "
            f"raters again. Got: {len(asked)} raters who have answered all items."
        )
    names = responses.raters[asked][choice].astype(object)
    names[nobody], value[nobody] = "", np.nan
    mean = probability.mean(axis=0)
    now = 1 - mean.max(axis=1) if of == "errors" else entropy(mean)
    pair = ("item", "choice")
    return xr.Dataset(
        {"rater": (pair, names), "value": (pair, value), "now": ("item", now)},
        {"item": responses.items, "choice": np.arange(1, most + 1)},
        {"of": of, "draws": len(points)},
    )


def _candidates(
    result: xr.DataTree, responses: Responses, raters: Any, candidates: int
) -> NDArray[np.int64]:
    """Return the indices of the raters who can be asked."""
    if raters is None:
        quality = balanced_accuracy(result).mean(("chain", "draw")).values
        return np.argsort(-quality, kind="stable")[:candidates]
    raters = require_names("raters", raters)
    code = places(as_array(raters), responses.raters)
    if code.min() < 0:
        raise ModelError(
            "raters must be raters of the table, because the accuracy of others is unknown. Got: "
            f"{raters[code.argmin()]!r}."
        )
    return code


def _joint(
    responses: Responses,
    channel: Any,
    points: list[tuple[dict[str, Any], tuple[Any, ...]]],
    probability: NDArray[Any],
    part: NDArray[np.int64],
    asked: NDArray[np.int64],
) -> NDArray[Any]:
    """Return p(class, next response) of some items, (items, candidates, classes, labels).

    ``points`` are parameters and log tables of the channel. The probability of a response is a
    ratio of likelihoods with and without it, so any dependence on earlier responses is included.
    """
    n_classes = responses.n_classes
    before = replace(responses.take(part), multiplicity=np.ones(len(part), dtype=np.int64))
    structures = []
    if not channel.needs:
        both = before, _with_one_more(before, asked)
        structures = [channel.structure(each, np.full(each.n_items, -1)) for each in both]
    total = np.zeros((len(part), len(asked), n_classes, n_classes))
    for (point, tables), share in zip(points, probability, strict=True):
        if channel.needs:  # the answer to another item decides on the matrix: take the average one
            total += share[:, None, :, None] * channel.confusion(tables, n_classes, np)[asked]
            continue
        at = (channel.at(point, structure) for structure in structures)
        now, then = (known.log_lik(tables, arranged) for known, arranged in at)
        then = then.reshape(total.shape)  # (…, label, class)
        now = np.where(now > -np.inf, now, np.inf)[:, None, None, :]  # ratios of zero
        total += share[:, None, :, None] * np.exp(then - now).swapaxes(2, 3)
    return total / len(points)


def _with_one_more(responses: Responses, asked: NDArray[np.int64]) -> Responses:
    """Return a copy of every item for each candidate and label, with that response added."""
    n_classes = responses.n_classes
    n_cells = responses.n_raters * n_classes
    options = (asked[:, None] * n_classes + np.arange(n_classes)).ravel()
    number = np.arange(responses.n_items * len(options))
    copies = responses.take(np.repeat(np.arange(responses.n_items), len(options)))
    old = copies.item * n_cells + copies.cell
    new = number * n_cells + np.tile(options, responses.n_items)
    key = np.concatenate([old, new])
    table = from_key(key, number, responses.raters, responses.classes)
    return replace(table, stated=copies.stated)


def _gain(joint: NDArray[Any], of: str) -> NDArray[Any]:
    """Return the expected decrease of errors or entropy, (items, candidates)."""
    label, response = joint.sum(axis=3), joint.sum(axis=2)
    if of == "errors":
        gain = joint.max(axis=2).sum(axis=2) - label.max(axis=2)
    else:
        whole = entropy(joint.reshape(*joint.shape[:2], -1))
        gain = entropy(label) + entropy(response) - whole
    return np.maximum(gain, 0.0)
