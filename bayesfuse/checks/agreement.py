"""Agreement among raters: coefficients with intervals, and pairs of raters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.data.label_sets import LabelSets
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import ModelError, ResponsesError, require_count, require_seed
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.class_shares import ALL
from bayesfuse.results.contents import observed_labels
from bayesfuse.results.rater_table import over_labels
from bayesfuse.results.summaries import tails

MAX_WEIGHTS = 10_000_000  # numbers in memory for bootstrap weights

MAX_PAIRS = 20_000_000  # pairs of responses to one item above which no raters are compared


class Agreement(NamedTuple):
    """Tables of :func:`agreement`: coefficients of all raters together, and of every pair."""

    measures: pd.DataFrame
    pairs: pd.DataFrame

    def __repr__(self) -> str:
        measures = self.measures.round(2).to_string(index=False)
        return f"{measures}\n\nPairs of raters: {len(self.pairs):,}, in the table .pairs"


@explains_keywords
def agreement(
    responses: Table | LabelSets | xr.DataTree,
    by: Any = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> Agreement:
    """Return coefficients of agreement among raters, with intervals.

    Agreement is not accuracy: raters who share an error agree. With missing responses, Fleiss'
    kappa and AC1 take the mean over items of the label shares (Gwet 2014, Handbook of inter-rater
    reliability, chapter 2); only there do items with one response count. Alpha is that of
    Krippendorff (2011), the error of Cohen's kappa that of Fleiss, Cohen & Everitt (1969).

    Parameters
    ----------
    responses : as in :func:`bayesfuse.fuse`, or a result; repeats count as those of other raters
        Of label sets, groups are the labels.
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
        Undefined values are NaN; so are the ends if all items are alike. Label sets have "MASI"
        (Passonneau 2006), the mean over pairs of sets, first, and "all" is of all questions.
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
    if isinstance(responses, LabelSets):
        return _of_sets(responses, by, draws, ci_prob, random_seed)
    if isinstance(responses, xr.DataTree):
        responses = observed_labels(responses)
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


def _of_sets(
    sets: LabelSets, by: Any, draws: int, ci_prob: float | None, random_seed: Any
) -> Agreement:
    """Return agreement on sets of labels, and on every label."""
    if by is not None:
        raise ModelError(
            f"Groups of label sets are the labels: leave out by=. Got: by of {type(by).__name__}."
        )
    rng, level = require_seed(random_seed), tails(ci_prob)
    table = over_labels(sets)
    if table.per_item.max(initial=0) < 2:
        raise ResponsesError("Agreement needs items with responses of two raters. Got: none.")
    overall = _measures(table, draws, level, rng)
    masi = _masi(sets, draws, level, rng)
    measures, pairs = [(ALL, pd.concat([masi, overall], ignore_index=True))], []
    for label, name in enumerate(sets.labels.tolist()):
        part = table.take(np.flatnonzero(sets.label == label))
        if part.per_item.max(initial=0) >= 2:
            measures.append((name, _measures(part, draws, level, rng)))
            pairs.append((name, _kappas(part, level)))
    return Agreement(_with_groups(measures), _with_groups(pairs))


def _masi(
    sets: LabelSets, draws: int, level: tuple[float, float], rng: np.random.Generator
) -> pd.DataFrame:
    """Return the mean MASI of pairs of sets, with a bootstrap of the items."""
    total, number = sets.masi_by_item().T
    shared = number > 0
    weights = _bootstrap_weights(np.ones(len(total), dtype=np.int64), draws, rng)
    with np.errstate(invalid="ignore"):
        sampled = np.concatenate([(weight @ total) / (weight @ number) for weight in weights])
    low, high = np.nanquantile(sampled, level) if np.ptp(total[shared]) else (np.nan, np.nan)
    row = ["MASI", sets.masi(), low, high, int(shared.sum())]
    return pd.DataFrame([row], columns=["measure", "value", "low", "high", "items"])


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
    weights = _bootstrap_weights(number, draws, rng)
    sampled = [_coefficients(votes, weight, ordered) for weight in weights]
    rows = []
    for name, (value,) in coefficients.items():
        values = np.concatenate([sample[name] for sample in sampled])
        known = values[np.isfinite(values)]
        # no interval from equal items, or from samples without two responses to an item
        differs = np.isfinite(value) and len(known) > 0 and np.ptp(known) > 0
        low, high = np.quantile(known, level) if differs else (np.nan, np.nan)
        rows.append([name, value, low, high, int(number[several].sum())])
    return pd.DataFrame(rows, columns=["measure", "value", "low", "high", "items"])


def _bootstrap_weights(
    number: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield weights (samples, patterns) of patterns with a number of items, few at a time."""
    total = int(number.sum())
    step = max(MAX_WEIGHTS // len(number), 1)
    for at in range(0, draws, step):
        yield rng.multinomial(total, number / total, min(step, draws - at))


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
