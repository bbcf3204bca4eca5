"""The expected value of one more response, by item and rater."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses
from bayesfuse.decisions.ranks import entropy
from bayesfuse.errors import (
    InapplicableError,
    ModelError,
    require_choice,
    require_count,
    require_flag,
    require_names,
)
from bayesfuse.numerics.threads import check
from bayesfuse.results.abilities import abilities, quality
from bayesfuse.results.compatibility import observation_of, parameters
from bayesfuse.results.contents import require_result, spaced_rows
from bayesfuse.results.draws import N_BATCHES

ROWS_AT_ONCE = 2_000_000  # responses in memory, in copies of the table with one more response
MAX_PROBABILITIES, MIN_DRAWS = 40_000_000, 50  # label probabilities in memory, for so many draws


def value_of_response(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    raters: Any = None,
    candidates: int = 20,
    most: int = 3,
    of: Literal["errors", "entropy"] = "errors",
    repeats: bool = False,
    draws: int = 400,
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
    raters : raters who can be asked, by name; default the ``candidates`` of highest accuracy
    candidates, most, draws : int, default 20, 3 and 400
        Numbers of raters who can be asked, unless they are named, of raters to return for each
        item, and of evenly spaced posterior draws to average over, at most. Large tables have
        fewer (see the attribute ``draws``).
    of : minimise the expected number of wrong labels ("errors"), or the "entropy" (in nats)
    repeats : whether raters may be asked again (as if independently, rarely true), default False

    Returns
    -------
    Dataset, dims (item, choice)
        ``rater``, the best choice first, and ``value`` with its Monte Carlo error, ``mcse`` (zero
        for a point estimate); an empty name and NaN if no rater is left to ask. Choices whose
        values differ by less than about two errors may be in another order. ``now`` (item,), the
        current expected error or entropy.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> gains = bf.decisions.value_of_response(result, repeats=True)
    >>> gains.sizes["choice"], bool((gains["value"] <= gains["now"] + 1e-9).all())
    (3, True)
    """
    require_choice("of", of, "errors", "entropy")
    for name, number in (("candidates", candidates), ("most", most), ("draws", draws)):
        require_count(name, number)
    require_flag("repeats", repeats)
    if model is None and "models" in require_result(result).children:
        result = _heaviest_member(result)
    observation = observation_of(result, model)
    responses = observation.responses
    if responses.silent is not None:
        raise ModelError(
            "One more response is of value where a rater was not asked yet, and sources that may "
            "abstain have been. Got: a table with silence."
        )
    asked = _candidates(result, responses, raters, candidates)
    values = parameters(result, model)
    n_items, n_classes = responses.n_items, responses.n_classes
    n_points = np.prod(next(iter(values.values())).shape[:2])
    draws = int(min(draws, n_points, max(MAX_PROBABILITIES // (n_items * n_classes), MIN_DRAWS)))
    points = list(spaced_rows(observation, values, draws))
    probability = np.array(
        [observation.by_item(observation.marginal(p).probability) for p in points]
    )  # (draws, items, classes)
    channel = observation.raters.without_parameters()
    at_points = [(point, observation.tables(point)) for point in points]
    # draws in sequence, whose means give the Monte Carlo error
    batches = np.array_split(np.arange(draws), min(N_BATCHES, draws))
    joint = partial(_joint, responses, channel, at_points, probability, asked, batches)
    gain, mcse = _gains(joint, responses, asked, batches, of)
    if not repeats:
        answered = responses.item.astype(np.int64) * responses.n_raters + responses.rater
        options = np.arange(n_items)[:, None] * responses.n_raters + asked
        gain[np.isin(options, answered)] = -np.inf
    mean = probability.mean(axis=0)
    now = 1 - mean.max(axis=1) if of == "errors" else entropy(mean)
    choices = _best_choices(responses, asked, gain, mcse, most)
    return choices.assign(now=("item", now)).assign_attrs(of=of, draws=len(points))


def _heaviest_member(fused: xr.DataTree) -> xr.DataTree:
    """Return the result of the model of the largest weight, of those that are stored."""
    stored = dict(fused["models"].children)
    weight = fused["comparison"].dataset["weight"].to_series()
    return stored[weight[list(stored)].idxmax()]


def _best_choices(
    responses: Responses,
    asked: NDArray[np.int64],
    gain: NDArray[Any],
    mcse: NDArray[Any],
    most: int,
) -> xr.Dataset:
    """Return the raters of the largest gains for every item; a gain of −∞ is of no choice."""
    choice = np.argsort(-gain, axis=1, kind="stable")[:, :most]  # (items, choices)
    value = np.take_along_axis(gain, choice, axis=1)
    error = np.take_along_axis(mcse, choice, axis=1)
    nobody = value == -np.inf
    if nobody.all():
        raise InapplicableError(
            "One more response is by a rater who has not answered the item; repeats=True asks "
            f"raters again. Got: {len(asked)} raters who have answered all items."
        )
    names = responses.raters[asked][choice].astype(object)
    names[nobody], value[nobody], error[nobody] = "", np.nan, np.nan
    pair = ("item", "choice")
    return xr.Dataset(
        {"rater": (pair, names), "value": (pair, value), "mcse": (pair, error)},
        {"item": responses.items, "choice": np.arange(1, choice.shape[1] + 1)},
    )


def _gains(
    joint: Callable[[NDArray[np.int64]], NDArray[Any]],
    responses: Responses,
    asked: NDArray[np.int64],
    batches: list[NDArray[np.int64]],
    of: str,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the gain of every response and its error, (items, candidates), part by part."""
    sizes = np.array(list(map(len, batches)))
    gain, mcse = np.empty((2, responses.n_items, len(asked)))
    rows_per_item = (responses.per_item.mean() + 1 + len(batches)) * len(asked)
    step = max(int(ROWS_AT_ONCE / (rows_per_item * responses.n_classes)), 1)
    for at in range(0, responses.n_items, step):
        check()
        part = np.arange(at, min(at + step, responses.n_items))
        gain[part], mcse[part] = _gain(joint(part), sizes, of)
    return gain, mcse


def _candidates(
    result: xr.DataTree, responses: Responses, raters: Any, candidates: int
) -> NDArray[np.int64]:
    """Return the indices of the raters who can be asked."""
    if raters is None and candidates >= responses.n_raters:
        return np.arange(responses.n_raters)
    if raters is None:
        mean = quality(abilities(result)).mean(("chain", "draw")).values
        return np.argsort(-mean, kind="stable")[:candidates]
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
    asked: NDArray[np.int64],
    batches: list[NDArray[np.int64]],
    part: NDArray[np.int64],
) -> NDArray[Any]:
    """Return p(class, next response) of some items, (batches, items, candidates, classes, labels).

    ``points`` are parameters and log tables of the channel. The probability of a response is a
    ratio of likelihoods with and without it, so any dependence on earlier responses is included.
    """
    n_classes, probability = responses.n_classes, probability[:, part]
    total = np.zeros((len(batches), len(part), len(asked), n_classes, n_classes))
    # of rows that depend on the answer to another item or on its type, the average is used
    can = channel.capabilities
    if can.independent or can.by_state or channel.needs:
        for mean, batch in zip(total, batches, strict=True):
            rows = []
            for point, tables in (points[at] for at in batch):
                at_point, _ = channel.at(point, ())
                rows.append(at_point.confusion(tables, n_classes, np)[asked])
            mean[:] = np.einsum("tik,takc->iakc", probability[batch], rows, optimize=True)
            mean /= len(batch)
        return total
    before = replace(responses.take(part), multiplicity=np.ones(len(part), dtype=np.int64))
    both = before, _with_one_more(before, asked)
    structures = [channel.structure(table_of, np.full(table_of.n_items, -1)) for table_of in both]
    for mean, batch in zip(total, batches, strict=True):
        for n in batch:
            point, tables = points[n]
            at = (channel.at(point, structure) for structure in structures)
            now, then = (known.log_lik(tables, arranged) for known, arranged in at)
            then = then.reshape(mean.shape)  # (…, label, class)
            now = np.where(now > -np.inf, now, np.inf)[:, None, None, :]  # ratios of zero
            ratio = np.exp(then - now).swapaxes(2, 3)
            mean += probability[n][:, None, :, None] * ratio
        mean /= len(batch)
    return total


def _with_one_more(responses: Responses, asked: NDArray[np.int64]) -> Responses:
    """Return a copy of every item for each candidate and label, with that response added."""
    raters, labels = np.indices((len(asked), responses.n_classes)).reshape(2, -1)
    number = np.arange(responses.n_items * len(raters))
    copies = responses.take(np.repeat(np.arange(responses.n_items), len(raters)))
    old = copies.item, copies.rater, copies.label
    new = number, np.tile(asked[raters], responses.n_items), np.tile(labels, responses.n_items)
    codes = (np.concatenate(both) for both in zip(old, new, strict=True))
    return copies.with_rows(*codes, items=number)


def _gain(
    joint: NDArray[Any], sizes: NDArray[np.int64], of: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the expected decrease of errors or entropy and its error, (items, candidates).

    A gain is linear in the joint probabilities near their mean, so its Monte Carlo error is that of
    this linear function, by means of batches of ``sizes`` draws.
    """
    weight = sizes / sizes.sum()
    mean = np.tensordot(weight, joint, axes=1)
    label, response = mean.sum(axis=3), mean.sum(axis=2)
    if of == "errors":
        best, now = mean.argmax(axis=2), label.argmax(axis=2)
        slope = np.zeros_like(mean)
        np.put_along_axis(slope, best[:, :, None, :], 1.0, axis=2)
        at = np.take_along_axis(slope, now[:, :, None, None], axis=2) - 1.0
        np.put_along_axis(slope, now[:, :, None, None], at, axis=2)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.log(mean) - np.log(label[..., None] * response[:, :, None, :])
        slope = np.where(mean > 0, slope, 0.0)
    gains = np.einsum("biakc,iakc->bia", joint, slope)
    gain = np.tensordot(weight, gains, axes=1)
    n_batches = len(sizes)
    variance = ((gains - gain) ** 2).sum(axis=0) / max(n_batches * (n_batches - 1), 1)
    return np.maximum(gain, 0.0), np.sqrt(variance)
