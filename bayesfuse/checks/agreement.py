"""Agreement among raters, without a model: the usual coefficients, with intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import ResponsesError, require_count, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.class_shares import ALL
from bayesfuse.results.contents import responses_of
from bayesfuse.results.summaries import tails

AT_ONCE = 10_000_000  # numbers in memory for bootstrap weights

MOST_PAIRS = 20_000_000  # pairs of responses to one item above which no raters are compared


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
    kappa and AC1 take the mean over items of the label shares [3]_; items with one response count
    in these shares only.

    Parameters
    ----------
    responses : Responses, DataFrame, array or result
        As in :func:`bayesfuse.fuse`, or those of a result. Repeated responses of a rater count as
        those of others.
    by : mapping, Series or array, optional
        Group of every item: a mapping or Series by item, or an array in the order of the items.
    draws : int, default 1000
        Number of bootstrap samples of the items.
    ci_prob : probability of the intervals, default ``az.rcParams["stats.ci_prob"]``
    random_seed : int, Generator, optional

    Returns
    -------
    measures : DataFrame
        ``group`` (all items first), ``measure``, ``value``, ``low``, ``high`` and ``items``, the
        number of items with at least two responses. Measures are "agreement" (the mean over items
        of the share of pairs of responses that agree), "Krippendorff's alpha" (nominal), for more
        than two ordered classes "Krippendorff's alpha, ordinal", "Fleiss' kappa" and "Gwet's AC1".
        Undefined values are NaN: no items, or, but for the first and last, a single label
        throughout. So are the ends if all items are alike.
    pairs : DataFrame
        For every two raters with common items: ``group``, ``first``, ``second``, ``items``,
        ``agreement``, Cohen's ``kappa``, ``low`` and ``high`` (from its asymptotic standard error).
        Empty if more than 20 million pairs of responses would have to be compared.

    Raises
    ------
    ModelError
        Not responses, fewer than one draw.
    ResponsesError
        No item has two responses. Groups of unknown items, or none for some item.

    References
    ----------
    .. [1] Krippendorff (2011), Computing Krippendorff's alpha-reliability, Univ. of Pennsylvania.
    .. [2] Fleiss (1971), Psychological Bulletin 76, 378–382. Cohen (1960), Educational and
       Psychological Measurement 20, 37–46; its standard error: Fleiss, Cohen & Everitt (1969),
       Psychological Bulletin 72, 323–327.
    .. [3] Gwet (2014), Handbook of inter-rater reliability, 4th edition, chapter 2.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> measures, pairs = bf.agreement(bf.datasets.anesthesia(), random_seed=1)
    >>> measures.set_index("measure")["value"].round(2).tolist()
    [0.73, 0.59, 0.8, 0.58, 0.65]
    >>> pairs.shape
    (10, 8)
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
        parts += [
            (name, responses.take(np.flatnonzero(code == at)))
            for at, name in enumerate(names.tolist())
        ]
    tables = []
    for name, part in parts:
        tables.append((_measures(part, draws, level, rng), _pairs(part, level)))
        for table in tables[-1]:
            table.insert(0, "group", [name] * len(table))
    measures, pairs = (pd.concat(each, ignore_index=True) for each in zip(*tables, strict=True))
    return Agreement(measures, pairs)


def _measures(
    responses: Responses, draws: int, level: tuple[float, float], rng: np.random.Generator
) -> pd.DataFrame:
    """Return the coefficients of all raters together."""
    votes, place = np.unique(responses.votes(), axis=0, return_inverse=True)
    number = np.bincount(place.ravel(), responses.multiplicity, len(votes)).astype(np.int64)
    several = votes.sum(axis=1) >= 2
    ordered = responses.ordered and responses.n_classes > 2
    found = _coefficients(votes, number[None], ordered)
    total = int(number.sum())
    step = max(AT_ONCE // len(votes), 1)
    sampled = [
        _coefficients(votes, rng.multinomial(total, number / total, min(step, draws - at)), ordered)
        for at in range(0, draws, step)
    ]
    rows = []
    for name, (value,) in found.items():
        values = np.concatenate([each[name] for each in sampled])
        known = values[np.isfinite(values)]
        differs = np.isfinite(value) and np.ptp(known) > 0  # alike items say nothing of others
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
        found = {
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
            found["Krippendorff's alpha, ordinal"] = alpha
        found["Fleiss' kappa"] = beyond((share**2).sum(axis=1))
        found["Gwet's AC1"] = beyond((share * (1 - share)).sum(axis=1) / (n_classes - 1))
    return found


def _pairs(responses: Responses, level: tuple[float, float]) -> pd.DataFrame:
    """Return Cohen's kappa of every two raters with common items."""
    from scipy.sparse import csr_array
    from scipy.stats import norm

    columns = ["first", "second", "items", "agreement", "kappa", "low", "high"]
    per_item, n_classes = responses.per_item, responses.n_classes
    if (per_item * (per_item - 1)).sum() / 2 > MOST_PAIRS or per_item.max(initial=0) < 2:
        return pd.DataFrame(columns=columns)
    at = responses.item, responses.cell.astype(np.int64)
    shape = responses.n_items, responses.n_raters * n_classes
    given = csr_array((np.ones(len(at[0])), at), shape)
    met = ((given * responses.multiplicity[:, None]).T @ given).tocoo()
    (first, a), (second, b) = (np.divmod(cell, n_classes) for cell in met.coords)
    kept = first < second
    pair, of = np.unique((first * responses.n_raters + second)[kept], return_inverse=True)
    table = np.zeros((len(pair), n_classes, n_classes))
    table[of, a[kept], b[kept]] = met.data[kept]
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
    error[error < 1e-9] = np.nan  # items that are alike say nothing of others
    low, high = (np.clip(kappa + norm.ppf(q) * error, -1, 1) for q in level)
    names = [responses.raters[each] for each in np.divmod(pair, responses.n_raters)]
    values = [*names, number.astype(np.int64), same, kappa, low, high]
    return pd.DataFrame(dict(zip(columns, values, strict=True)))
