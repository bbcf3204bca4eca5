"""Checks of the agreement of raters, by pair and by item, and of their common mistakes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks import predictive
from bayesfuse.checks.advice import listing
from bayesfuse.checks.predictive import Replicated
from bayesfuse.data.responses import Responses
from bayesfuse.errors import InapplicableError, require_count
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.parameters.partition import ALONE
from bayesfuse.raters.consensus import Consensus
from bayesfuse.raters.latent_groups import LatentGroups

ITEM_TYPES = "bayesfuse.models.ItemTypes"
N_BINS = 10  # bins of the agreement of an item's raters
MIN_ITEMS = 10  # items that two raters must share to be compared: fewer carry little information
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]  # first and second rater of every pair

MAX_MEETINGS = 10_000_000
"""Meetings of two raters at an item that are kept in memory; if there are more, those of evenly
spaced items."""

PAIRS_AT_ONCE = 10_000  # pairs whose tables (classes or types × labels) are in memory


def pairwise_agreement(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    least: int = MIN_ITEMS,
    draws: int = predictive.DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how often each pair of raters agrees, against data replicated from the posterior.

    Raters who copy each other agree more often than the model expects, and so do all raters if
    items of a class differ in difficulty. P-values are conservative, because the data are used
    twice (Gelman, Meng & Stern 1996, Statistica Sinica 6, 733–807).

    Parameters
    ----------
    result, model : as in :func:`bayesfuse.decode`; the point of ``bf.find_map`` is the only draw
    least, draws : int, default 10 and 200
        Smallest number of shared items of a pair, and number of replicated data sets. Where raters
        meet more than ten million times, evenly spaced items are compared.
    ci_prob, random_seed : probability of the interval, default that of ArviZ, and seed

    Returns
    -------
    Dataset, dims (pair,)
        ``first`` and ``second`` rater, ``items`` they share; of the share of their responses that
        agree: ``observed``, ``replicated`` (mean), ``low``, ``high``, ``p_value`` and ``unusual``
        (false discovery rate 0.05). Attributes: ``p_value`` of all pairs together; ``observed``,
        ``replicated`` and ``mean_p_value`` of their mean agreement, which too strong a prior
        lowers.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> check = bf.checks.pairwise_agreement(result, random_seed=1)
    >>> check.sizes["pair"], int(check["unusual"].sum())
    (10, 0)
    """
    data = Replicated(result, model, draws, random_seed)
    pairs, shared, meetings = _pairs(data.responses, least)
    together = meetings.sums(len(shared))

    def agreeing(answers: Responses) -> tuple[Array, float]:
        same = meetings.sums(len(shared), meetings.agree(answers))
        return same, (same / together).mean()

    entries = "pair", np.arange(len(shared))
    comparison, (mean,) = data.compared(agreeing, entries, together, ci_prob)
    mean["mean_p_value"] = mean.pop("p_value")  # p_value is of all pairs together
    comparison.attrs |= mean
    comparison = comparison.drop_vars("pair").assign_coords(_pair_coords(data.responses, pairs))
    return comparison.assign(items=("pair", shared))


def conditional_dependence(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    least: int = MIN_ITEMS,
    draws: int = predictive.DRAWS,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Find pairs of raters who make the same mistakes more often than the model allows.

    The number of common mistakes of raters a and b (the same wrong label for the same item) has a
    known mean, given parameters and labels. The excess over it, by the labels' posterior,

    .. math:: \sum_n \sum_k p(y_n = k \mid x, \theta) \Bigl( 1[x_{an} = x_{bn} \ne k]
              - \sum_{c \ne k} \theta_{akc} \theta_{bkc} \Bigr)

    (the latter summed over verdicts of groups and types of items), is compared with that of data
    replicated at the same draws of θ, for which it is zero on average. If a cartel outvotes the
    other raters, the others appear to share mistakes; mistakes shared by all indicate hard items.

    Parameters
    ----------
    result, model, least, draws, random_seed : as in :func:`pairwise_agreement`

    Returns
    -------
    Dataset, dims (pair,) and (rater,)
        ``first`` and ``second`` rater, ``items`` they share; ``observed`` and ``expected`` common
        mistakes (posterior means), ``p_value`` (one-sided, of a Poisson variable scaled to the
        replications' variance) and ``unusual``. ``cluster`` numbers the raters connected by unusual
        pairs, −1 for all others. The attribute ``groups`` lists these clusters by name, as
        :class:`bayesfuse.models.LatentGroup` takes them; ``verdict`` is a summary in words.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.checks.conditional_dependence(result, random_seed=1).attrs["groups"]
    []
    """
    data = Replicated(result, model, draws, random_seed)
    observation, responses = data.observation, data.responses
    pairs, shared, meetings = _pairs(responses, least)
    numbers, excess = [], []
    for rows in data.points:
        chance = _common_mistake(observation, rows, pairs)
        other = predictive.relabelled(observation, observation.simulate(rows, data.rng)[1])
        numbers.append(_mistakes(observation, rows, chance, meetings))
        excess.append(np.subtract(*_mistakes(other, rows, chance, meetings)))
    mistakes, expected = np.mean(numbers, axis=0)
    p_value = _more(mistakes, expected, np.var(excess, axis=0))
    flagged = predictive.unusual(p_value)
    cluster = _clusters((pairs[0][flagged], pairs[1][flagged]), responses.n_raters)
    groups = [responses.raters[cluster == g].tolist() for g in range(cluster.max() + 1)]
    table = {"observed": mistakes, "expected": expected, "p_value": p_value, "unusual": flagged}
    variables = {name: ("pair", values) for name, values in table.items()}
    variables |= {"items": ("pair", shared), "cluster": ("rater", cluster)}
    coords = _pair_coords(responses, pairs) | {"rater": responses.raters}
    verdict = _in_words(groups, len(shared), observation)
    return xr.Dataset(variables, coords, {"groups": groups, "verdict": verdict})


def _in_words(groups: list[list[Any]], n_pairs: int, observation: ResponseModel) -> str:
    if not groups and _is_saturated(observation):
        return (
            f"{observation.responses.n_raters} raters cannot show shared mistakes: the model "
            "can explain any agreement by accuracies."
        )
    if not groups:
        pairs = "The pair of raters shares no" if n_pairs == 1 else f"No pair of {n_pairs} shares"
        return f"{pairs} more mistakes than the model expects."
    named = "; ".join(listing(group, 6) for group in groups)
    sentence = f"These raters share more mistakes than the model expects: {named}."
    if not _has_only_labels(observation.responses):  # which no other model takes
        return f"{sentence} Some items may be harder than others, or these raters share a source."
    model = _model_of_hard_items(observation)
    source = "share a source: try bayesfuse.models.LatentGroup."
    if max(map(len, groups)) > max(observation.responses.n_raters / 2, 4):
        hard = "some items may be harder than others (see item_difficulty)"
        return f"{sentence} With so many, {hard}: try {model}."
    if isinstance(observation.raters, Consensus):
        return f"{sentence} They may {source}"
    return f"{sentence} Some items may be harder: try {model}. Or these raters may {source}"


def _is_saturated(observation: ResponseModel) -> bool:
    """Return whether raters' rows and class shares can fit the frequencies of all responses."""
    labels, responses = observation.labels, observation.responses
    n_raters, n_classes = responses.n_raters, responses.n_classes
    if n_raters > 3 or set(labels.needs) - {"populations"}:  # an order, for example, informs
        return False
    n_populations = labels.n_populations if isinstance(labels, Independent) else 1
    n_parameters = (n_raters * n_classes + n_populations) * (n_classes - 1)
    return bool(n_parameters >= n_populations * (n_classes**n_raters - 1))


def item_difficulty(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = predictive.DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how much agreement varies over items, against replicated data.

    If some items are harder than others of their class, agreement varies more over items than
    confusion matrices can explain; :class:`bayesfuse.models.ItemTypes` models this. If the prior of
    the raters is flatter than these and responses are few, replicated raters agree too little, with
    another deviation, so the verdict starts with the mean.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed : as in :func:`bayesfuse.checks.pairwise_agreement`

    Returns
    -------
    Dataset, dims (agreement,)
        Share of the items by the share of their pairs of responses that agree (midpoints of bins),
        with columns as in :func:`runs`. Attributes: ``observed``, ``replicated`` and two-sided
        ``p_value`` of the standard deviation of the agreement over items; ``mean_observed``,
        ``mean_replicated`` and ``mean_p_value`` of its mean; ``verdict``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.checks.item_difficulty(result, random_seed=1).attrs["p_value"] > 0.05
    True
    """
    data = Replicated(result, model, draws, random_seed)
    n_items = len(_agreement(data.responses))
    if n_items == 0:
        raise InapplicableError("Agreement needs items with two responses. Got: no such item.")
    edges = np.linspace(0, 1, N_BINS + 1)

    def by_agreement(responses: Responses) -> tuple[Array, float, float]:
        agreement = _agreement(responses)
        counts = np.histogram(agreement, edges)[0].astype(float)
        return counts, float(agreement.std()), float(agreement.mean())

    entries, total = ("agreement", (edges[1:] + edges[:-1]) / 2), np.full(N_BINS, float(n_items))
    comparison, (deviation, mean) = data.compared(by_agreement, entries, total, ci_prob)
    attrs = deviation | {f"mean_{name}": value for name, value in mean.items()}
    return comparison.assign_attrs(attrs, verdict=_of_difficulty(deviation, mean, data.observation))


def _of_difficulty(deviation: dict[str, float], mean: dict[str, float], observation: Any) -> str:
    observed = f"{deviation['observed']:.3f}"
    sentence = f"The agreement of raters has standard deviation {observed} over items"
    if mean["p_value"] <= predictive.LEVEL:
        more = "more" if mean["observed"] > mean["replicated"] else "less"
        model = _model_of_hard_items(observation)
        learnt = f" ({model} learns it)" if model == ITEM_TYPES else ""
        sentence = (
            f"On average, raters agree {more} than the model expects ({mean['observed']:.3f}, "
            f"expected {mean['replicated']:.3f}); with few responses per rater and class the prior "
            f"of the raters may be too strong{learnt}. {sentence}"
        )
    more = (
        "some items are harder than others of their class, or raters share sources, so label "
        "probabilities are overconfident"
    )
    if _has_only_labels(observation.responses):
        more += f". Try {_model_of_hard_items(observation)}"
    less = "agreement varies less than the model expects"
    return predictive.verdict(sentence, deviation, ".3f", more, less)


def _agreement(responses: Responses) -> Array:
    """Return the share of agreeing pairs of responses, for items with two or more."""
    votes = responses.without_statements().votes()
    votes = votes[votes.sum(axis=1) >= 2]
    size = votes.sum(axis=1)
    share: Array = (votes * (votes - 1)).sum(axis=1) / (size * (size - 1))
    return share


def _has_only_labels(responses: Responses) -> bool:
    """Return whether sources neither abstain nor state probabilities."""
    return responses.silent is None and responses.stated is None


def _model_of_hard_items(observation: ResponseModel) -> str:
    """Return the model for data in which some items of a class are harder than others."""
    if isinstance(raters := observation.raters, Consensus):
        if raters.pairs or observation.table.n_classes == 2:
            return "bayesfuse.models.LatentGroup"
        return 'classes that compete (consensus="pairs")'
    if isinstance(observation.labels, Independent):
        return ITEM_TYPES
    on_graph = observation.labels.capabilities.moves_labels
    model = "MarkovRandomField" if on_graph else "HiddenMarkov"
    return f'bayesfuse.models.{model} with raters="types"'


class Meetings(NamedTuple):
    """Every two responses of different raters to one item, of pairs that are compared."""

    first: NDArray[np.int64]  # place of the response
    second: NDArray[np.int64]
    pair: NDArray[np.int64]

    def agree(self, responses: Responses) -> NDArray[np.bool_]:
        """Return whether the labels are equal."""
        agree: NDArray[np.bool_] = responses.label[self.first] == responses.label[self.second]
        return agree

    def sums(self, n_pairs: int, weight: NDArray[Any] | None = None) -> Array:
        """Return sums of weights, default 1, by pair."""
        return np.bincount(self.pair, weight, n_pairs).astype(float)


def _pairs(responses: Responses, least: int) -> tuple[Pairs, NDArray[np.int64], Meetings]:
    """Return pairs of raters with common items, their numbers of items, and their meetings."""
    require_count("least", least)
    n_raters, per_item = responses.n_raters, responses.per_item
    number = (per_item * (per_item - 1) // 2).sum()
    part = np.arange(responses.n_items) % max(-(-int(number) // MAX_MEETINGS), 1) == 0
    rows = np.flatnonzero(part[responses.item])
    rows = rows[np.lexsort((responses.rater[rows], responses.item[rows]))]
    item, rater = responses.item[rows].astype(np.int64), responses.rater[rows].astype(np.int64)
    cells = np.unique(item * n_raters + rater)
    shape = responses.n_items, n_raters
    answered = scipy.sparse.csr_array((np.ones(len(cells)), np.divmod(cells, n_raters)), shape)
    shared = scipy.sparse.triu(answered.T @ answered, 1).tocsr().sorted_indices().tocoo()
    is_frequent = shared.data >= least
    if not is_frequent.any():
        raise InapplicableError(
            "Raters are compared on the items they share; least= sets how many these must be. "
            f"Got: no pair of {n_raters} raters with {least} in common."
        )
    first, second = (where[is_frequent].astype(np.int64) for where in shared.coords)
    known, meeting_rows = first * n_raters + second, []
    for lag in range(1, int(per_item.max())):
        (at,) = np.nonzero(item[lag:] == item[:-lag])
        pair_code = rater[at] * n_raters + rater[at + lag]
        place = np.minimum(np.searchsorted(known, pair_code), len(known) - 1)
        here = known[place] == pair_code
        meeting_rows.append((rows[at[here]], rows[at[here] + lag], place[here]))
    meetings = Meetings(*map(np.concatenate, zip(*meeting_rows, strict=True)))
    return (first, second), shared.data[is_frequent].astype(np.int64), meetings


def _mistakes(
    observation: ResponseModel, rows: LogParameters, chance: Array, meetings: Meetings
) -> tuple[Array, Array]:
    """Return the common mistakes of every pair and their mean, averaged over the labels."""
    responses, n_pairs = observation.responses, len(chance)
    probability = observation.marginal(rows).probability
    item = responses.item[meetings.first]
    expected = np.zeros(n_pairs)
    for k in range(responses.n_classes):
        expected += meetings.sums(n_pairs, probability[item, k]) * chance[:, k]
    agree = meetings.agree(responses)
    wrong = 1.0 - probability[item[agree], responses.label[meetings.first[agree]]]
    observed = np.bincount(meetings.pair[agree], wrong, n_pairs)
    return np.maximum(observed, 0.0), expected


def _more(observed: Array, mean: Array, variance: Array) -> Array:
    """Return the upper tail (mid-p) of Poisson variables, scaled to a given variance."""
    unit = np.maximum(variance, 1e-12) / np.maximum(mean, 1e-12)
    many, rate = observed / unit, np.maximum(mean, 1e-12) / unit
    as_many = np.where(many > 0, scipy.special.gammainc(np.maximum(many, 1e-12), rate), 1.0)
    p_value: Array = (as_many + scipy.special.gammainc(many + 1, rate)) / 2
    return p_value


def _common_mistake(observation: ResponseModel, rows: LogParameters, pairs: Pairs) -> Array:
    """Return the probability of the same wrong label for an item of class k, (pairs, classes)."""
    first, second = pairs
    channel, _ = observation.channel_at(rows)
    tables, n_classes = observation.tables(rows), observation.table.n_classes
    common, wrong = np.empty((len(first), n_classes)), 1.0 - np.eye(n_classes)
    alone = channel.confusion(tables, n_classes, np)
    for at in range(0, len(first), PAIRS_AT_ONCE):
        part = slice(at, at + PAIRS_AT_ONCE)
        a, b = first[part], second[part]
        if isinstance(channel, Consensus):
            common[part] = channel.same_mistake(tables, a, b)
        else:
            common[part] = np.einsum("pkc,pkc,kc->pk", alone[a], alone[b], wrong)
    if isinstance(channel, LatentGroups):
        outer, inner = map(np.exp, tables)
        group = channel.assignment
        for g in range(group.max() + 1):
            (within,) = np.nonzero((group[first] == g) & (group[second] == g))
            by_verdict = inner[first[within]] * inner[second[within]]
            common[within] = np.einsum("kv,pvc,kc->pk", outer[g], by_verdict, wrong)
    return common


def _clusters(pairs: Pairs, n_raters: int) -> NDArray[np.int64]:
    """Number the connected components of raters in order; −1 for raters in no pair."""
    graph = scipy.sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=(n_raters, n_raters))
    _, component = scipy.sparse.csgraph.connected_components(graph, directed=False)
    several = np.bincount(component)[component] > 1
    number = np.full(n_raters, ALONE)
    number[several] = pd.factorize(component[several])[0]
    return number


def _pair_coords(responses: Responses, pairs: Pairs) -> dict[Any, Any]:
    names = zip(("first", "second"), pairs, strict=True)
    return {name: ("pair", responses.raters[end]) for name, end in names}
