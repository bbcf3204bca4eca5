"""Value of one more response, by item and rater."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.decisions.ranks import entropy
from bayesfuse.errors import ModelError, require_choice, require_count, require_flag, require_names
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of
from bayesfuse.results.contents import require_result
from bayesfuse.results.summaries import balanced_accuracy

ROWS_AT_ONCE = 2_000_000  # responses in memory, in copies of the table with one more response


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
    wrong labels falls by :math:`\sum_c \max_k J_{kc} - \max_k \sum_c J_{kc}`, and the entropy by
    the mutual information of label and response. The mean over θ is over posterior draws.
    After two raters of a group, the third is worth little. The information about other items (of
    the same sequence, or through the rater's accuracy) is ignored, so values are slightly too low.
    Labels on graphs are summed out approximately. If rows depend on the rater's previous answer,
    their average over these is used.

    Parameters
    ----------
    result : DataTree, from ``bf.sample`` (or ``bf.find_map``)
        Of ``bf.fuse``, the model of the largest weight is used, without known labels.
    model : pymc.Model, optional
        The model of the result. Needed for labels on a graph or with covariates, a classifier or
        populations of sequences, silence, stated probabilities or factors of your own.
    raters : list of names, optional
        Raters who can be asked. Default the ``candidates`` raters of highest balanced accuracy.
    candidates, most, draws : int, default 20, 3 and 50
        Numbers of raters who can be asked, unless they are named, of raters to return for each
        item, and of evenly spaced posterior draws to average over.
    of : {"errors", "entropy"}
        Minimise the expected number of wrong labels, or the entropy (in nats).
    repeats : bool, default False
        Whether raters may be asked again about an item. The model assumes that their second
        response is independent of the first, which is rarely true.

    Returns
    -------
    Dataset, dims (item, choice)
        ``rater``, the best choice first, and ``value``; an empty name and NaN if no rater is left
        to ask. ``now`` (item,), the current expected error or entropy.

    Raises
    ------
    ModelError
        A result of another model, unknown raters, numbers below one, another ``of``, nobody to ask.

    References
    ----------
    Howard (1966), Information value theory, IEEE Transactions on Systems Science and Cybernetics
    2, 22–26. Lindley (1956), Annals of Mathematical Statistics 27, 986–1005 (mutual information).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.value_of_response(result, model, repeats=True)
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
    for at in range(0, n_items, step):
        part = np.arange(at, min(at + step, n_items))
        joint = _joint(responses, channel, at_points, probability[:, part], part, asked)
        gain = _gain(joint, of)
        if not repeats:
            gain[_has_responded(responses, part, asked)] = -np.inf
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


def _has_responded(
    responses: Responses, part: NDArray[np.int64], asked: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which candidates responded to which items, (items, candidates)."""
    rows = slice(int(responses.start[part[0]]), int(responses.start[part[-1] + 1]))
    item = np.repeat(np.arange(len(part)), responses.per_item[part])
    own = pd.Index(asked).get_indexer(responses.cell[rows] // responses.n_classes)
    found = np.zeros((len(part), len(asked)), dtype=bool)
    found[item[own >= 0], own[own >= 0]] = True
    return found


def _joint(
    responses: Responses,
    channel: Any,
    points: list[tuple[dict[str, Any], tuple[Any, ...]]],
    probability: NDArray[Any],
    part: NDArray[np.int64],
    asked: NDArray[np.int64],
) -> NDArray[Any]:
    """Return p(class, next response) of some items, (items, candidates, classes, labels).

    ``points`` are parameters and log tables of the rater channel at some draws. The probability of
    the response is the ratio of the likelihoods with and without it, so any
    dependence on earlier responses is included.
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
