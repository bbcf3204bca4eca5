"""Check how often neighbours on a graph agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.replicates import DRAWS, compare, expanded, place_among, replicate, verdict
from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.compatibility import observation_of


def neighbour_agreement(
    result: xr.DataTree,
    model: pm.Model,
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
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.
    graph : Graph, optional
        For models without a graph. Default the model's own.

    Returns
    -------
    Dataset, dims (class,)
        Share of the edges whose items both have that majority label: ``observed``, ``replicated``
        (mean), ``low``, ``high``, ``p_value`` and ``unusual``. Attributes: ``observed`` and
        ``replicated``, the share of edges whose items have the same majority label, and the mean of
        its replications; ``p_value`` of the former among the latter (two-sided); ``verdict``.
        Edges are weighted. Ties go to the first class, in the data as in replications; edges to
        items without responses are ignored.

    Raises
    ------
    ModelError
        No graph, neither given nor in the model; no edge between items with responses; a result of
        another model; a table of counts.
    ResponsesError
        A graph of other items.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> answers = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 20
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(answers))
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> graph = bf.Graph.grid((4, 10))
    >>> found = bf.checks.neighbour_agreement(result, model, graph, random_seed=1)
    >>> found.attrs["p_value"] < 0.05
    True
    """
    observation = expanded(observation_of(result, model))
    graph = observation.known_by("graph", graph, "Agreement of neighbours needs a graph")
    edges, weights = _answered_edges(observation.responses, as_graph(graph))

    def agreeing(responses: Responses) -> Array:
        """Return for every class the share of edges whose items both have it as majority."""
        one, other = responses.votes().argmax(axis=1)[edges].T
        same = one == other
        return np.bincount(one[same], weights[same], minlength=responses.n_classes)

    seen, others = replicate(agreeing, result, model, observation, draws, random_seed)
    classes = observation.responses.classes
    found = compare(seen, others, {"class": classes}, "class", ci_prob=ci_prob)
    same = place_among(seen.sum(), others.sum(axis=1))
    said = (
        f"{same['observed']:.1%} of the edges join items with the same majority label (expected "
        f"{same['replicated']:.1%})"
    )
    agree = "neighbours agree {} than the model expects"
    found.attrs = same | {
        "verdict": verdict(said, same, agree.format("more"), agree.format("less"))
    }
    return found


def _answered_edges(responses: Responses, graph: Graph) -> tuple[NDArray[np.int32], Array]:
    """Return the edges between items with responses, and their shares of the weight."""
    ordered = graph.ordered(responses)
    both = (responses.per_item[ordered.edges] > 0).all(axis=1)
    if not both.any():
        raise ModelError(
            "Agreement of neighbours needs an edge between two items with responses. Got: no edge "
            "between such items."
        )
    weights = ordered.weights[both]
    return ordered.edges[both], weights / weights.sum()
