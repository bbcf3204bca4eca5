"""Whether neighbours on a graph agree as the model says, and whether their labels still tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.replicates import (
    DRAWS,
    compare,
    place_among,
    replicate,
    verdict,
    written_out,
)
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array


def neighbour_agreement(
    result: xr.DataTree,
    model: pm.Model,
    graph: Graph | None = None,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how often neighbours on a graph have the same majority, against replicated data.

    A model of independent items, fitted to items on a graph, replicates neighbours that agree no
    more than others do. A Potts prior may still fail: where the graph binds some classes more than
    others, or some of its edges mean nothing.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    graph : Graph, optional
        Who is whose neighbour, for models that do not know. Default the model's own.

    Returns
    -------
    Dataset, dims (class,)
        Share of the edges whose items both have that majority label: ``observed``, ``replicated``
        (mean), ``low``, ``high``, ``p_value`` and ``unusual``. Attributes: ``observed`` and
        ``replicated``, the share of edges whose items have the same majority label, whichever, and
        the mean of its replications; ``p_value``, where the former stands among the latter
        (two-sided); ``verdict``. Edges count by their weight. Of tied labels the first class
        counts, in the data as in replications; edges to items nobody answered are passed over.

    Raises
    ------
    ModelError
        Neither the model nor the caller knows a graph; no edge between answered items; a result
        of another model; a table of counts.
    ResponsesError
        A graph of other items.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> model = DawidSkene(bf.Responses.from_matrix(answers))
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> graph = bf.Graph.grid((4, 10))
    >>> found = bf.checks.neighbour_agreement(result, model, graph, random_seed=1)
    >>> found.attrs["p_value"] < 0.05
    True
    """
    observation = written_out(model, result)
    graph = observation.known_by(
        "graph", graph, "Agreement of neighbours needs to know who they are"
    )
    edges, weights = _answered(observation.responses, as_graph(graph))

    def agreeing(responses: Responses) -> Array:
        return _agreeing(responses, edges, weights)

    seen, others = replicate(agreeing, result, model, observation, draws, random_seed)
    classes = observation.responses.classes
    found = compare(seen, others, {"class": classes}, "class", ci_prob=ci_prob)
    same = place_among(seen.sum(), others.sum(axis=1))
    found.attrs = same | {"verdict": _in_words(same)}
    return found


def _in_words(found: dict[str, float]) -> str:
    same, expected = found["observed"], found["replicated"]
    said = f"{same:.1%} of the edges join the same majorities (expected {expected:.1%})"
    agree = "neighbours agree {} than the model expects"
    return verdict(said, found, agree.format("more"), agree.format("less"))


def _answered(responses: Responses, graph: Graph) -> tuple[NDArray[np.int32], Array]:
    """Return the edges between items that somebody answered, and their shares of the weight."""
    ordered = graph.ordered(responses)
    both = (responses.per_item[ordered.edges] > 0).all(axis=1)
    if not both.any():
        raise ModelError(
            "Neighbours can only agree where both were answered. Got: no edge between such items."
        )
    weights = ordered.weights[both]
    return ordered.edges[both], weights / weights.sum()


def _agreeing(responses: Responses, edges: NDArray[np.int32], weights: Array) -> Array:
    """Return for every class the share of edges whose items both have it as majority."""
    one, other = responses.votes().argmax(axis=1)[edges].T
    same = one == other
    return np.bincount(one[same], weights[same], minlength=responses.n_classes)
