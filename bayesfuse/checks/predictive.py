"""Checks against replicated data: runs in sequences, neighbours on graphs, difficulty of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks import replicates
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_count, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.compatibility import observation_of

LONGEST = 12  # runs of this length and longer are counted together
BINS = 10  # bins of the agreement of an item's raters


def runs(
    result: xr.DataTree,
    model: pm.Model | None = None,
    sequences: Sequences | None = None,
    *,
    longest: int = LONGEST,
    draws: int = replicates.DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how long majority labels stay the same, against replicated data.

    In data replicated from a model of independent items, majority labels change too often. The runs
    of a Markov chain have geometric lengths, which may also be wrong.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    sequences : Sequences, default those of the model
    longest : int, default 12
        Runs of this length and longer are counted together.

    Returns
    -------
    Dataset, dims (length,)
        Runs of one majority label per item: ``observed``, ``replicated`` (mean), ``low``, ``high``,
        ``p_value`` and ``unusual``. Attributes: ``observed``, ``replicated`` and two-sided
        ``p_value`` of the share of consecutive items with the same majority label; ``verdict``.
        Ties go to the first class; items without responses are skipped.

    Raises
    ------
    ModelError, ResponsesError
        No sequences, or those of other items; a result of another model.

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
    observation = replicates.expanded(observation_of(result, model))
    sequences = observation.known_by("sequences", sequences, "Runs need sequences")
    require_kind("sequences", sequences, Sequences)
    place, first = _order(observation.responses, sequences)
    n_items, followers = len(place), max(int((~first).sum()), 1)

    def count(responses: Responses) -> tuple[Array, float]:
        counts = _count(responses, place, first, longest)
        return counts, (n_items - counts.sum()) / followers  # the others begin a run

    fit, entries = (result, model, observation), ("length", np.arange(1, longest + 1))
    total = np.full(longest, float(n_items))
    found, (same,) = replicates.against_replications(
        count, fit, entries, draws, ci_prob, random_seed, total
    )
    said = f"{same['observed']:.1%} of consecutive items have the same majority label"
    ends = (f"labels change {how} often than the model expects" for how in ("less", "more"))
    found.attrs = same | {"verdict": replicates.verdict(said, same, ".1%", *ends)}
    return found


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
    draws: int = replicates.DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how often neighbours on a graph have the same majority label, against replicated data.

    In data replicated from a model of independent items, neighbours agree no more than other items.
    A Potts prior may also fail, if coupling differs by class or some edges are irrelevant.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    graph : Graph, default that of the model

    Returns
    -------
    Dataset, dims (class,)
        Share of the (weighted) edges between items with responses whose items both have that
        majority label, with columns, attributes (of the sum over classes) and ties as in
        :func:`runs`.

    Raises
    ------
    ModelError, ResponsesError
        No graph, or that of other items; no edge between items with responses; a result of another
        model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> result = bf.find_map(bf.models.DawidSkene(bf.Responses.from_matrix(answers)))
    >>> graph = bf.Graph.grid((4, 10))
    >>> found = bf.checks.neighbour_agreement(result, None, graph, random_seed=1)
    >>> found.attrs["p_value"] < 0.05
    True
    """
    observation = replicates.expanded(observation_of(result, model))
    graph = observation.known_by("graph", graph, "Agreement of neighbours needs a graph")
    ordered = as_graph(graph).ordered(observation.responses)
    both = (observation.responses.per_item[ordered.edges] > 0).all(axis=1)
    if not both.any():
        raise ModelError(
            "Agreement of neighbours needs an edge between two items with responses. Got: no edge "
            "between such items."
        )
    edges, weights = ordered.edges[both], ordered.weights[both] / ordered.weights[both].sum()

    def agreeing(responses: Responses) -> tuple[Array, float]:
        one, other = responses.votes().argmax(axis=1)[edges].T
        same = one == other
        share = np.bincount(one[same], weights[same], minlength=responses.n_classes)
        return share, share.sum()

    fit, entries = (result, model, observation), ("class", observation.responses.classes)
    found, (same,) = replicates.against_replications(
        agreeing, fit, entries, draws, ci_prob, random_seed
    )
    said = f"{same['observed']:.1%} of the edges join items with the same majority label"
    ends = (f"neighbours agree {how} than the model expects" for how in ("more", "less"))
    found.attrs = same | {"verdict": replicates.verdict(said, same, ".1%", *ends)}
    return found


def item_difficulty(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = replicates.DRAWS,
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
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.

    Returns
    -------
    Dataset, dims (agreement,)
        Share of the items by the share of their pairs of responses that agree (midpoints of bins),
        with columns as in :func:`runs`. Attributes: ``observed``, ``replicated`` and two-sided
        ``p_value`` of the standard deviation of the agreement over items; ``mean_observed``,
        ``mean_replicated`` and ``mean_p_value`` of its mean; ``verdict``.

    Raises
    ------
    ModelError
        A result of another model; no item with two responses.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> bf.checks.item_difficulty(result, random_seed=1).attrs["p_value"] > 0.05
    True
    """
    observation = replicates.expanded(observation_of(result, model))
    edges = np.linspace(0, 1, BINS + 1)

    def by_agreement(responses: Responses) -> tuple[Array, float, float]:
        agreement = _agreement(responses)
        counts = np.histogram(agreement, edges)[0].astype(float)
        return counts, float(agreement.std()), float(agreement.mean())

    n_items = len(_agreement(observation.responses))
    if n_items == 0:
        raise ModelError("Agreement needs items with two or more responses. Got: no such item.")
    fit, entries = (result, model, observation), ("agreement", (edges[1:] + edges[:-1]) / 2)
    total = np.full(BINS, float(n_items))
    found, (deviation, mean) = replicates.against_replications(
        by_agreement, fit, entries, draws, ci_prob, random_seed, total
    )
    found.attrs = deviation | {f"mean_{name}": value for name, value in mean.items()}
    return found.assign_attrs(verdict=_in_words(deviation, mean, observation))


def _in_words(deviation: dict[str, float], mean: dict[str, float], observation: Any) -> str:
    said = f"The agreement of raters has standard deviation {deviation['observed']:.3f} over items"
    if mean["p_value"] <= replicates.LEVEL:
        more = "more" if mean["observed"] > mean["replicated"] else "less"
        model = replicates.model_of_hard_items(observation)
        learnt = f" ({model} learns it)" if model == replicates.ITEM_TYPES else ""
        said = (
            f"On average, raters agree {more} than the model expects ({mean['observed']:.3f}, "
            f"expected {mean['replicated']:.3f}); with few responses per rater and class the prior "
            f"of the raters may be too strong{learnt}. {said}"
        )
    more = (
        "some items are harder than others of their class, or raters share sources, so label "
        f"probabilities are overconfident. Try {replicates.model_of_hard_items(observation)}"
    )
    less = "agreement varies less than the model expects"
    return replicates.verdict(said, deviation, ".3f", more, less)


def _agreement(responses: Responses) -> Array:
    """Return the share of agreeing pairs of responses, for items with two or more."""
    votes = responses.without_statements().votes()
    votes = votes[votes.sum(axis=1) >= 2]
    size = votes.sum(axis=1)
    share: Array = (votes * (votes - 1)).sum(axis=1) / (size * (size - 1))
    return share
