"""Data replicated from the posterior, compared with the data: runs, and neighbours on graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import InapplicableError, require_count, require_kind, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of
from bayesfuse.results.summaries import tails

DRAWS = 200  # posterior draws at which data are replicated
LEVEL = 0.05  # of p-values that are evidence against the model, and of false discoveries
LONGEST = 12  # runs of this length and longer are counted together


def runs(
    result: xr.DataTree,
    model: pm.Model | None = None,
    sequences: Sequences | None = None,
    *,
    longest: int = LONGEST,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how long majority labels stay the same, against replicated data.

    In data replicated from a model of independent items, majority labels change too often. The runs
    of a Markov chain have geometric lengths, which may also be wrong.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed : as in :func:`bayesfuse.checks.pairwise_agreement`
    sequences : Sequences, default those of the model
    longest : int, default 12: runs of this length and longer are counted together

    Returns
    -------
    Dataset, dims (length,)
        Runs of one majority label per item: ``observed``, ``replicated`` (mean), ``low``, ``high``,
        ``p_value`` and ``unusual``. Attributes: ``observed``, ``replicated`` and two-sided
        ``p_value`` of the share of consecutive items with the same majority label; ``verdict``.
        Ties go to the first class; items without responses are skipped.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> result = bf.find_map(bf.models.DawidSkene(bf.Responses.from_matrix(answers)))
    >>> sequences = bf.Sequences.from_lengths([40])
    >>> bf.checks.runs(result, None, sequences, random_seed=1).attrs["p_value"] < 0.05
    True
    """
    require_count("longest", longest)
    data = Replicated(result, model, draws, random_seed)
    sequences = data.observation.known_by("sequences", sequences, "Runs need sequences")
    require_kind("sequences", sequences, Sequences)
    place, first = _order(data.responses, sequences)
    n_items, followers = len(place), max(int((~first).sum()), 1)

    def count(responses: Responses) -> tuple[Array, float]:
        counts = _count(responses, place, first, longest)
        return counts, (n_items - counts.sum()) / followers  # the others begin a run

    entries, total = ("length", np.arange(1, longest + 1)), np.full(longest, float(n_items))
    comparison, (same,) = data.compared(count, entries, total, ci_prob)
    sentence = f"{same['observed']:.1%} of consecutive items have the same majority label"
    ends = (f"labels change {how} often than the model expects" for how in ("less", "more"))
    return comparison.assign_attrs(same, verdict=verdict(sentence, same, ".1%", *ends))


def _order(
    responses: Responses, sequences: Sequences
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the items with responses in order, and which of them begin a sequence."""
    place = sequences.places(responses)
    number = np.repeat(np.arange(sequences.n_sequences), sequences.lengths)
    answered = responses.per_item[place] > 0
    place, number = place[answered], number[answered]
    return place, np.append(True, number[1:] != number[:-1])


def _count(
    responses: Responses, place: NDArray[np.int64], first: NDArray[np.bool_], longest: int
) -> Array:
    """Count runs of one majority label by length."""
    majority = responses.votes().argmax(axis=1)[place]
    new = first | np.append(True, majority[1:] != majority[:-1])
    length = np.diff(np.append(np.flatnonzero(new), len(new)))
    return np.bincount(np.minimum(length, longest), minlength=longest + 1)[1:].astype(float)


def neighbour_agreement(
    result: xr.DataTree,
    model: pm.Model | None = None,
    graph: Graph | None = None,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how often neighbours on a graph have the same majority label, against replicated data.

    In data replicated from a model of independent items, neighbours agree no more than other items.
    A Potts prior may also fail, if coupling differs by class or some edges are irrelevant.

    Parameters
    ----------
    result, model, graph, draws, ci_prob, random_seed
        As in :func:`runs`, with the graph of the model by default.

    Returns
    -------
    Dataset, dims (class,)
        Share of the (weighted) edges between items with responses whose items both have that
        majority label, with columns, attributes (of the sum over classes) and ties as in
        :func:`runs`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> result = bf.find_map(bf.models.DawidSkene(bf.Responses.from_matrix(answers)))
    >>> graph = bf.Graph.grid((4, 10))
    >>> bf.checks.neighbour_agreement(result, None, graph, random_seed=1).attrs["p_value"] < 0.05
    True
    """
    data = Replicated(result, model, draws, random_seed)
    graph = data.observation.known_by("graph", graph, "Agreement of neighbours needs a graph")
    ordered = as_graph(graph).ordered(data.responses)
    both = (data.responses.per_item[ordered.edges] > 0).all(axis=1)
    if not both.any():
        raise InapplicableError(
            "Agreement of neighbours needs an edge between two items with responses. Got: no edge "
            "between such items."
        )
    edges, weights = ordered.edges[both], ordered.weights[both] / ordered.weights[both].sum()

    def agreeing(responses: Responses) -> tuple[Array, float]:
        one, other = responses.votes().argmax(axis=1)[edges].T
        same = one == other
        share = np.bincount(one[same], weights[same], minlength=responses.n_classes)
        return share, share.sum()

    comparison, (same,) = data.compared(agreeing, ("class", data.responses.classes), None, ci_prob)
    sentence = f"{same['observed']:.1%} of the edges join items with the same majority label"
    ends = (f"neighbours agree {how} than the model expects" for how in ("more", "less"))
    return comparison.assign_attrs(same, verdict=verdict(sentence, same, ".1%", *ends))


def expanded(observation: ResponseModel) -> ResponseModel:
    """Return an observation with one row per item, as replicated data have."""
    if observation.table is observation.responses and observation.responses.is_unweighted:
        return observation
    table = observation.responses
    copies = np.repeat(np.arange(table.n_items), table.multiplicity)
    responses = table.expand()
    labels = observation.labels.subset(copies)
    return replace(
        observation,
        responses=responses,
        table=responses,
        labels=labels,
        raters=observation.raters.subset(copies),
        inverse=np.arange(responses.n_items),
        gold=observation.gold[copies],
        label_structure=labels.structure(responses),
    )


def relabelled(observation: ResponseModel, label: NDArray[np.int64]) -> ResponseModel:
    """Return an :func:`expanded` observation with other responses, row by row."""
    table = observation.responses.relabelled(label)
    return replace(observation, responses=table, table=table)


class Replicated:
    """Responses of a result, and others drawn with their labels for the same items and raters."""

    def __init__(self, result: xr.DataTree, model: Any, draws: int, random_seed: Any) -> None:
        self.observation = expanded(observation_of(result, model))
        self.responses = self.observation.responses
        self.rng = require_seed(random_seed)
        self.points = evenly_spaced_rows(result, model, self.observation, draws, least=2)

    def compared(
        self,
        statistic: Callable[[Responses], tuple[Any, ...]],
        entries: tuple[str, Any],
        total: Array | None,
        ci_prob: float | None,
    ) -> tuple[xr.Dataset, list[dict[str, float]]]:
        """Compare statistics of the responses with those of the replications.

        ``statistic`` returns an array of ``entries`` (dimension and coordinate), then single
        numbers, which are returned with their places among the replications.
        """
        observed, *numbers = statistic(self.responses)
        labels = (self.observation.simulate(rows, self.rng)[1] for rows in self.points)
        drawn = [statistic(self.responses.relabelled(label)) for label in labels]
        replicated, *others = (np.array(replicates) for replicates in zip(*drawn, strict=True))
        places = [place_among(*both) for both in zip(numbers, others, strict=True)]
        return compare(observed, replicated, entries, total, ci_prob), places


def compare(
    observed: Array,
    replicated: Array,
    entries: tuple[str, Any],
    total: Array | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare statistics (entries,) with their replications (draws, entries).

    Counts with a ``total`` become shares and have beta-binomial tails, others normal ones. The
    attribute ``p_value`` is of the sum of squared standardised deviations of all entries.
    """
    n_draws = len(replicated)
    mean, variance = replicated.mean(axis=0), replicated.var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (np.vstack([observed, replicated]) - mean) / np.sqrt(variance)
    if total is not None:
        below, above = _tails(observed, mean, variance, total, n_draws)
    else:
        distance = np.where(observed == mean, 0.0, z[0])
        below, above = scipy.stats.norm.cdf(distance), scipy.stats.norm.sf(distance)
    p_value = np.minimum(2 * np.minimum(below, above), 1.0)
    scale = 1.0 if total is None else total
    low, high = np.quantile(replicated, tails(ci_prob), axis=0) / scale
    observed_square, *others = (z[:, variance > 0] ** 2).sum(axis=1)
    # the mean includes the replication that is compared with it
    further = np.array(others) * (n_draws / (n_draws - 1)) ** 2 >= observed_square
    dim, coordinate = entries
    variables = {
        "observed": observed / scale,
        "replicated": mean / scale,
        "low": low,
        "high": high,
        "p_value": p_value,
        "unusual": unusual(p_value),
    }
    return xr.Dataset(
        {name: (dim, values) for name, values in variables.items()},
        {dim: coordinate},
        {"p_value": float(1 + further.sum()) / (1 + n_draws)},
    )


def place_among(observed: float, replicated: Array) -> dict[str, float]:
    """Return a statistic, the mean of its replications, and its two-sided p-value among them."""
    below = 1 + np.count_nonzero(replicated <= observed)
    above = 1 + np.count_nonzero(replicated >= observed)
    return {
        "observed": float(observed),
        "replicated": float(replicated.mean()),
        "p_value": float(min(1.0, 2 * min(below, above) / (1 + len(replicated)))),
    }


def verdict(sentence: str, place: Mapping[str, float], digits: str, more: str, less: str) -> str:
    """Return a sentence on the result of :func:`place_among`."""
    sentence = f"{sentence} (expected {format(place['replicated'], digits)})"
    if place["p_value"] > LEVEL:
        return f"{sentence}: no evidence against the model."
    return f"{sentence}: {more if place['observed'] > place['replicated'] else less}."


def unusual(p_value: Array) -> NDArray[np.bool_]:
    """Return which p-values are small, given their number (Benjamini & Hochberg 1995)."""
    rank = np.arange(1, len(p_value) + 1)
    small = np.sort(p_value) <= LEVEL * rank / max(len(p_value), 1)  # SciPy's would import jax
    flagged: NDArray[np.bool_] = p_value <= np.sort(p_value)[small].max(initial=-1.0)
    return flagged


def _tails(
    observed: Array, mean: Array, variance: Array, total: Array, n_draws: int
) -> tuple[Array, Array]:
    """Return the lower and upper tail (mid-p: each counts half of the observed value)."""
    share = (mean * n_draws + 0.5) / (total * n_draws + 1)  # never quite 0 or 1
    binomial = total * share * (1 - share)
    correlation = np.divide(
        variance / binomial - 1, total - 1, out=np.zeros_like(mean), where=total > 1
    )
    correlation = np.clip(correlation, 1e-6, 0.999)  # at the lower end nearly a binomial
    a, b = (p * (1 - correlation) / correlation for p in (share, 1 - share))
    exactly = scipy.stats.betabinom.pmf(observed, total, a, b)
    below = scipy.stats.betabinom.cdf(observed, total, a, b) - exactly / 2
    above = scipy.stats.betabinom.sf(observed, total, a, b) + exactly / 2
    return below, above
