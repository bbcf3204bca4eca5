"""Scores of label probabilities against known labels, and the agreement among raters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, as_python
from bayesfuse.data.gold_tables import Names, read_gold
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import places
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import (
    ResponsesError,
    require_choice,
    require_count,
    require_number,
    require_seed,
    warn,
)
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.class_shares import ALL
from bayesfuse.results.contents import known_classes, responses_of
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

MAX_WEIGHTS = 10_000_000  # numbers in memory for bootstrap weights

FLOOR = 1e-4  # probability of a true class that a log-loss counts at least

MAX_PAIRS = 20_000_000  # pairs of responses to one item above which no raters are compared


def label_scores(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
    *,
    bins: int = 10,
    floor: float = FLOOR,
) -> dict[str, float]:
    r"""Score label probabilities against known labels, but for those that were given to the result.

    Parameters
    ----------
    labels : DataTree, or label probabilities, a DataArray or DataFrame, dims (item, class)
    truth : mapping of item to class, DataFrame or path, as ``gold`` in :func:`bayesfuse.fuse`
    bins : int, default 10: bins of equal width for the calibration error
    floor : float, default 1e-4
        Smallest probability of a true class in the log-loss, which the hard labels of a mode would
        otherwise determine alone; 0 for none.

    Returns
    -------
    dict
        ``accuracy`` of the most probable labels (ties count in part); ``log_loss``, the mean of
        :math:`-\log \max(p(\text{truth}), \text{floor})` in nats; ``brier``, the mean of
        :math:`\sum_k (p_k - 1[k = \text{truth}])^2`, from 0 to 2; ``ece``, the expected
        calibration error (Naeini, Cooper & Hauskrecht 2015, AAAI) of these labels; ``items``, their
        number; ``floor``; and ``clipped``, the number of items whose true class has a probability
        below the floor. Without a floor, the log-loss is infinite (with a warning) if a true class
        has probability zero.

    Examples
    --------
    >>> import xarray as xr, bayesfuse as bf
    >>> sure = xr.DataArray([[0.9, 0.1], [0.2, 0.8]], {"item": ["a", "b"], "class": ["no", "yes"]})
    >>> scores = bf.checks.label_scores(sure, {"a": "no", "b": "no"})
    >>> scores["accuracy"], round(scores["log_loss"], 3), scores["clipped"]
    (0.5, 0.857, 0)
    """
    probability, true, items = of_known(labels, truth)
    require_number("floor", floor, most=0.5)
    zeros = np.flatnonzero(probability[np.arange(len(true)), true] == 0.0)
    if len(zeros) and floor == 0.0:
        warn(
            "A single true class of probability zero makes the log-loss infinite: vote shares may "
            "have zeros, or the model forbids the class (a transition, for example). Got: item "
            f"{as_python(items[zeros[0]])!r} ({len(zeros):,} such of {len(true):,})."
        )
    return _scores(probability, true, bins, floor)


def _scores(
    probability: Array, true: NDArray[np.int64], bins: int, floor: float = FLOOR
) -> dict[str, float]:
    """Return the scores of probabilities (items, classes) of items of known class."""
    require_count("bins", bins)
    every = np.arange(len(true))
    true_probability = probability[every, true]
    top = probability.max(axis=1)
    tied = np.isclose(probability, top[:, None], rtol=1e-12, atol=0)
    right = tied[every, true] / tied.sum(axis=1)
    filled = _reliability(top, right, np.arange(bins) / bins)
    error = np.abs(filled.stated - filled.right)
    with np.errstate(divide="ignore"):
        log_loss = -np.log(np.maximum(true_probability, floor)).mean()
    residual = probability - np.eye(probability.shape[1])[true]
    return {
        "accuracy": float(right.mean()),
        "log_loss": float(log_loss),
        "brier": float((residual**2).sum(axis=1).mean()),
        "ece": float((filled.count * error).sum() / filled.count.sum()),
        "items": len(true),
        "floor": float(floor),
        "clipped": int((true_probability < floor).sum()),
    }


def calibration(
    labels: xr.DataTree | xr.DataArray | pd.DataFrame,
    truth: Any,
    *,
    bins: int = 10,
    equal: Literal["width", "count"] = "width",
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare the probabilities of the most probable labels with the share that is right.

    Parameters
    ----------
    labels, truth, bins : as in :func:`label_scores`
    equal : {"width", "count"}
        Bins of equal width, or of nearly equal numbers of items (of one probability in one bin).
        Most probabilities of labels are near 1, where only the latter have several bins.
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    Dataset, dims (bin,)
        Of the items whose most probable label has a probability between ``lower`` and ``upper``:
        their number ``count``, mean probability ``stated``, share of right labels ``right`` with
        its Jeffreys interval (posterior under Beta(½, ½)) from ``low`` to ``high``. Empty bins are
        omitted. The attributes are those of :func:`label_scores`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(500, 5, 2, random_seed=1)
    >>> point = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> table = bf.checks.calibration(point, dict(enumerate(made.truth.tolist())))
    >>> int(table["count"].sum()), table.attrs["ece"] < 0.05
    (500, True)
    """
    require_choice("equal", equal, "width", "count")
    probability, true, _ = of_known(labels, truth)
    top = probability.max(axis=1)
    right = probability.argmax(axis=1) == true
    scores, lower = _scores(probability, true, bins), np.arange(bins) / bins
    if equal == "count":  # bins with about the same number of items each
        lower = np.unique(np.sort(top)[np.arange(bins) * len(top) // bins])
    filled = _reliability(top, right, lower)
    hits = filled.right * filled.count
    misses = filled.count - hits
    low, high = (scipy.stats.beta.ppf(q, hits + 0.5, misses + 0.5) for q in tails(ci_prob))
    bins_of = {
        "lower": lower[filled.index],
        "upper": np.append(lower, 1.0)[filled.index + 1],
        "count": filled.count,
        "stated": filled.stated,
        "right": filled.right,
        "low": np.where(hits > 0, low, 0.0),
        "high": np.where(misses > 0, high, 1.0),
    }
    by_bin = {name: ("bin", values) for name, values in bins_of.items()}
    return xr.Dataset(by_bin, {"bin": filled.index}, scores)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of probabilities that are not empty."""

    index: NDArray[np.int64]
    count: NDArray[np.int64]
    stated: Array  # mean probability
    right: Array  # share of right labels


def _reliability(top: Array, right: NDArray[Any], lower: Array) -> Reliability:
    bin_of = np.searchsorted(lower, top, side="right") - 1
    count = np.bincount(bin_of)
    used = np.flatnonzero(count)
    means = (np.bincount(bin_of, values)[used] / count[used] for values in (top, right))
    return Reliability(used, count[used], *means)


def of_known(labels: Any, truth: Any) -> tuple[Array, NDArray[np.int64], NDArray[Any]]:
    """Return probability, true class and name of the known items that were not gold in the fit."""
    probability = label_probabilities(labels)
    names, inputs_gold = Names(probability["item"].values, probability["class"].values), set[Any]()
    if isinstance(labels, xr.DataTree):
        inputs_gold = set(names.items[known_classes(labels, len(probability)) >= 0].tolist())
    known = [] if (truth_labels := read_gold(truth, names)) is None else list(truth_labels.items())
    pairs = [pair for pair in known if pair[0] not in inputs_gold]
    if not pairs:
        raise ResponsesError(
            f"Scores need known labels that were not given (gold=). Got: none of {len(known)}."
        )
    items, classes = (as_array(list(column)) for column in zip(*pairs, strict=True))
    item, code = places(items, names.items), places(classes, names.classes)
    for what, place in (("items", item), ("classes", code)):
        if place.min() < 0:
            name, label = pairs[place.argmin()]
            raise ResponsesError(
                f"truth= must name {what} that have probabilities. Got: {name!r}: {label!r}."
            )
    return probability.values[item], code, probability["item"].values[item]


class Agreement(NamedTuple):
    """Tables of :func:`agreement`: coefficients of all raters together, and of every pair."""

    measures: pd.DataFrame
    pairs: pd.DataFrame

    def __repr__(self) -> str:
        measures = self.measures.round(2).to_string(index=False)
        return f"{measures}\n\nPairs of raters: {len(self.pairs):,}, in the table .pairs"


def agreement(
    responses: Table | xr.DataTree,
    by: Any = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> Agreement:
    """Return coefficients of agreement among raters, with intervals.

    Agreement is not accuracy: raters who share an error agree. With missing responses, Fleiss'
    kappa and AC1 take the mean over items of the label shares (Gwet 2014, Handbook of inter-rater
    reliability, chapter 2), for which alone items with one response count. Alpha is that of
    Krippendorff (2011), the error of Cohen's kappa that of Fleiss, Cohen & Everitt (1969).

    Parameters
    ----------
    responses : as in :func:`bayesfuse.fuse`, or a result; repeats count as those of other raters
    by : mapping, Series or array, optional: group of every item, by name or in order
    draws : int, default 1000: number of bootstrap samples of the items
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    measures : DataFrame
        ``group`` (all items first), ``measure``, ``value``, ``low``, ``high`` and ``items``, the
        number of items with at least two responses. Measures are "agreement" (the mean over items
        of the share of pairs of responses that agree), "Krippendorff's alpha" (nominal), for more
        than two ordered classes "Krippendorff's alpha, ordinal", "Fleiss' kappa" and "Gwet's AC1".
        Undefined values are NaN; so are the ends if all items are alike.
    pairs : DataFrame
        For every two raters with common items: ``group``, ``first``, ``second``, ``items``,
        ``agreement``, Cohen's ``kappa``, ``low`` and ``high``. Empty if more than 20 million pairs
        of responses would have to be compared.

    Raises
    ------
    ModelError, ResponsesError : no responses, or no item with two; no draws; other groups

    Examples
    --------
    >>> import bayesfuse as bf
    >>> measures, pairs = bf.agreement(bf.datasets.anesthesia(), random_seed=1)
    >>> measures.set_index("measure")["value"].round(2).tolist()
    [0.73, 0.59, 0.8, 0.58, 0.65]
    """
    if isinstance(responses, xr.DataTree):
        responses = responses_of(responses)
    responses = read_table(responses)[0]
    require_count("draws", draws)
    rng, level = require_seed(random_seed), tails(ci_prob)
    responses = responses.without_statements()
    if responses.per_item.max(initial=0) < 2:
        raise ResponsesError(
            "Agreement needs items with responses of two raters. Got: none among "
            f"{responses.n_items:,} items, of {responses.n_raters:,} raters."
        )
    parts = [(ALL, responses)]
    if by is not None:
        names, code = read_populations(responses.items, by, what="by=", group="group")
        for at, name in enumerate(names.tolist()):
            parts.append((name, responses.take(np.flatnonzero(code == at))))
    measures = [(name, _measures(part, draws, level, rng)) for name, part in parts]
    pairs = [(name, _kappas(part, level)) for name, part in parts]
    return Agreement(_with_groups(measures), _with_groups(pairs))


def _with_groups(tables: list[tuple[Any, pd.DataFrame]]) -> pd.DataFrame:
    """Return tables in one, with the group of every row as the first column."""
    for name, table in tables:
        table.insert(0, "group", [name] * len(table))
    return pd.concat([table for _, table in tables], ignore_index=True)


def _measures(
    responses: Responses, draws: int, level: tuple[float, float], rng: np.random.Generator
) -> pd.DataFrame:
    """Return the coefficients of all raters together."""
    votes, place = np.unique(responses.votes(), axis=0, return_inverse=True)
    number = np.bincount(place.ravel(), responses.multiplicity, len(votes)).astype(np.int64)
    several = votes.sum(axis=1) >= 2
    ordered = responses.ordered and responses.n_classes > 2
    coefficients = _coefficients(votes, number[None], ordered)
    total = int(number.sum())
    step = max(MAX_WEIGHTS // len(votes), 1)
    sampled = [
        _coefficients(votes, rng.multinomial(total, number / total, min(step, draws - at)), ordered)
        for at in range(0, draws, step)
    ]
    rows = []
    for name, (value,) in coefficients.items():
        values = np.concatenate([sample[name] for sample in sampled])
        known = values[np.isfinite(values)]
        differs = np.isfinite(value) and np.ptp(known) > 0  # no interval from equal items
        low, high = np.quantile(known, level) if differs else (np.nan, np.nan)
        rows.append([name, value, low, high, int(number[several].sum())])
    return pd.DataFrame(rows, columns=["measure", "value", "low", "high", "items"])


def _coefficients(votes: NDArray[Any], weight: NDArray[Any], ordered: bool) -> dict[str, Array]:
    """Return coefficients (samples,) of patterns of votes (patterns, classes) and their weights."""
    size = votes.sum(axis=1)
    n_classes = votes.shape[1]
    several, some = size >= 2, size >= 1
    v, n, w = votes[several].astype(float), size[several], weight[:, several].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        agree = (v * (v - 1)).sum(axis=1) / (n * (n - 1))
        observed = w @ agree / w.sum(axis=1)
        share = weight[:, some] @ (votes[some] / size[some, None])
        share /= share.sum(axis=1, keepdims=True)

        def beyond(chance: Array) -> Array:
            return (observed - chance) / (1 - chance)

        total = w @ v  # of pairable labels, (samples, classes)
        every = total.sum(axis=1)
        differ = every - w @ ((v * (v - 1)).sum(axis=1) / (n - 1))
        expected = every**2 - (total**2).sum(axis=1)
        coefficients = {
            "agreement": observed,
            "Krippendorff's alpha": 1 - (every - 1) * differ / expected,
        }
        if ordered:
            middle = total.cumsum(axis=1) - total / 2
            far = (middle[:, :, None] - middle[:, None, :]) ** 2
            differ = np.zeros(len(w))
            for k in range(n_classes):  # of the coincidences, only pairs of different labels count
                differ += ((w @ (v[:, k : k + 1] * v / (n - 1)[:, None])) * far[:, k]).sum(axis=1)
            expected = (total[:, :, None] * total[:, None, :] * far).sum(axis=(1, 2))
            alpha = 1 - (every - 1) * differ / expected
            coefficients["Krippendorff's alpha, ordinal"] = alpha
        coefficients["Fleiss' kappa"] = beyond((share**2).sum(axis=1))
        coefficients["Gwet's AC1"] = beyond((share * (1 - share)).sum(axis=1) / (n_classes - 1))
    return coefficients


def _kappas(responses: Responses, level: tuple[float, float]) -> pd.DataFrame:
    """Return Cohen's kappa of every two raters with common items."""
    columns = ["first", "second", "items", "agreement", "kappa", "low", "high"]
    per_item, n_classes = responses.per_item, responses.n_classes
    if (per_item * (per_item - 1)).sum() / 2 > MAX_PAIRS or per_item.max(initial=0) < 2:
        return pd.DataFrame(columns=columns)
    at = responses.item, responses.cell.astype(np.int64)
    shape = responses.n_items, responses.n_raters * n_classes
    answers = scipy.sparse.csr_array((np.ones(len(at[0])), at), shape)
    met = ((answers * responses.multiplicity[:, None]).T @ answers).tocoo()
    (first, a), (second, b) = (np.divmod(cell, n_classes) for cell in met.coords)
    is_pair = first < second
    pair, of = np.unique((first * responses.n_raters + second)[is_pair], return_inverse=True)
    table = np.zeros((len(pair), n_classes, n_classes))
    table[of, a[is_pair], b[is_pair]] = met.data[is_pair]
    number = table.sum(axis=(1, 2))
    share = table / number[:, None, None]
    rows, sides = share.sum(axis=2), share.sum(axis=1)
    same = np.trace(share, axis1=1, axis2=2)
    chance = (rows * sides).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa = (same - chance) / (1 - chance)
        # the influence of a pair of labels on kappa, whose variance over items is that of kappa
        pull = sides[:, :, None] + rows[:, None, :] - 2 * chance[:, None, None]
        influence = np.eye(n_classes) - same[:, None, None]
        influence = influence / (1 - chance)[:, None, None]
        influence -= ((1 - same) / (1 - chance) ** 2)[:, None, None] * pull
        error = np.sqrt((share * influence**2).sum(axis=(1, 2)) / number)
    error[error < 1e-9] = np.nan  # no interval from equal items
    low, high = (np.clip(kappa + scipy.stats.norm.ppf(q) * error, -1, 1) for q in level)
    names = [responses.raters[end] for end in np.divmod(pair, responses.n_raters)]
    values = [*names, number.astype(np.int64), same, kappa, low, high]
    return pd.DataFrame(dict(zip(columns, values, strict=True)))
