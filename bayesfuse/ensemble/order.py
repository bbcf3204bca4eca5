"""Evidence on an order or a graph of items: whether it helps to predict a rater left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, softmax

from bayesfuse.data.graph import Graph, as_graph
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, MomentsError, PoorFitWarning
from bayesfuse.inference.find_map import find_map
from bayesfuse.models import DawidSkene, HiddenMarkov
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import LabelModel, observed

MAX_RESPONSES = 40_000  # of whole sequences, from which the evidence is estimated
MAX_RATERS = 6  # who are left out, those with the most responses
ITERATIONS = 60  # of EM; weights differ by less than .02 from those at the mode
EM_ROUNDS = 50  # of EM for the rows of a rater who is left out
LEAST = 1e-9  # weight
PRIOR_WITH, PRIOR_WITHOUT = 0.05, 0.5
"""Predictions by either model as which the prior of its weight counts: a structure that predicts no
better has a weight of a tenth or less."""

# per mean weight of an edge; the first is that of items alone
COUPLINGS = 0.0, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0
PASSES = 5  # of messages
ERRORS_BEYOND = 1.0  # standard errors of a gain that has an even weight
TINY = 1e-300


@dataclass(frozen=True)
class OrderEvidence:
    """How much better the order, or neighbours, predict a response of a rater who is left out.

    ``gain`` in nats per response and its standard error over units, and the ``weight`` of models
    that use it. With an order, it is that of the mixture that predicts best: stacking (Yao,
    Vehtari, Simpson & Gelman 2018, Bayesian Analysis 13, 917–1007). On a graph, it is the
    probability of a gain, less one standard error (Breiman et al. 1984, section 3.4.3).
    """

    gain: float = math.nan
    error: float = math.nan
    weight: float = 0.5


UNKNOWN = OrderEvidence()


def measure_order(responses: Responses, sequences: Sequences, raters: str) -> OrderEvidence:
    """Compare labels with and without order, at the parameters of one chain fitted to all raters.

    ``raters`` are those of :class:`bayesfuse.models.HiddenMarkov`. Labels are those given all other
    raters; the rows by which a rater answers them are estimated for both. No evidence where raters
    are too few.
    """
    responses, sequences = some_sequences(responses, sequences)
    model = HiddenMarkov(responses, sequences, raters=raters)  # type: ignore[arg-type]
    fit = _fitted(model)
    if fit is None:
        return UNKNOWN
    observation, values = fit
    shares = observation.marginal_of_states(observation.rows(values)).probability.mean(axis=0)
    rows, alone = (observation.rows(v) for v in (values, values | _without_order(values, shares)))

    def labels(table: Responses) -> list[Array]:
        others = ResponseModel.build(table, observation.labels, observation.raters)
        return [others.marginal(values).probability for values in (alone, rows)]

    return _compare(responses, labels, observation.unit_of_item)


def measure_neighbours(responses: Responses, graph: Graph) -> OrderEvidence:
    """Compare labels given those of the neighbours alone with the prevalence.

    The neighbours' labels are those of Dawid and Skene given all other raters. Responses to the
    item itself are not used: where raters err together, labels that repeat their errors predict
    another rater better than true ones. The coupling is the one of :data:`COUPLINGS` that predicts
    best. It is positive, as in the models of labels on graphs, so where neighbours differ it
    predicts worse than none.
    """
    fit = _fitted(DawidSkene(responses))
    if fit is None:
        return UNKNOWN
    observation, values = fit
    rows = observation.rows(values)
    shares = observation.by_item(observation.marginal(rows).probability).mean(axis=0)
    ordered = as_graph(graph).ordered(responses)

    def labels(table: Responses) -> list[Array]:
        others = ResponseModel.build(table, observation.labels, observation.raters)
        likelihood = others.by_item(others.likelihood(rows)[0])
        return [_given_neighbours(likelihood, shares, ordered, c) for c in COUPLINGS]

    # a graph may be connected, so that components have no standard error
    evidence = _compare(responses, labels, np.arange(responses.n_items), values["confusion"])
    if evidence is UNKNOWN:
        return evidence
    # stacking would weigh predictions by neighbours alone, not answers that use all responses
    weight = ndtr(evidence.gain / max(evidence.error, TINY) - ERRORS_BEYOND)
    return replace(evidence, weight=float(weight))


def _given_neighbours(likelihood: Array, shares: Array, graph: Graph, coupling: float) -> Array:
    """Return label probabilities given the responses to all other items, (items, classes).

    By belief propagation: a message to an item does not depend on the responses to it.
    """
    item = np.repeat(np.arange(graph.n_items), np.diff(graph.start))  # of messages
    source, edge = graph.neighbour, graph.edge
    reverse = np.empty_like(edge)  # of a message, the one in the other direction
    order = np.lexsort((item, edge)).reshape(-1, 2)
    reverse[order] = order[:, ::-1]
    mean_weight = graph.weights.mean() if graph.n_edges else 1.0
    bond = np.expm1(coupling * graph.weights[edge] / mean_weight)[:, None]
    evidence = np.log(np.maximum(shares * likelihood, TINY))
    message = np.zeros((len(edge), len(shares)))
    sums = np.zeros_like(likelihood)
    for _ in range(PASSES):
        cavity = softmax(evidence[source] + sums[source] - message[reverse], axis=1)
        # a class of many items has many neighbours of its own class by chance
        message = np.log1p(bond * cavity) - np.log1p(bond * shares)
        sums = np.stack([np.bincount(item, m, graph.n_items) for m in message.T], axis=1)
    result: Array = softmax(np.log(np.maximum(shares, TINY)) + sums, axis=1)
    return result


def _fitted(model: LabelModel) -> tuple[Any, dict[str, Any]] | None:
    """Return what a model observes and its parameters, or None where raters are too few."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoorFitWarning)  # its labels are not used
            point = find_map(model, iterations=ITERATIONS)["point"].dataset
    except (ModelError, MomentsError):
        return None
    observation = observed(model)[1]
    return observation, {name: point[name].values for name in observation.names}


def _compare(
    responses: Responses,
    labels: Callable[[Responses], list[Array]],
    unit: NDArray[np.integer[Any]],
    confusion: Array | None = None,
) -> OrderEvidence:
    """Compare how ``labels`` of a table, without structure and with it, predict a rater left out.

    The rater's rows are those of ``confusion``, by default estimated for each. Of several
    structures, the one that predicts best is compared.
    """
    predictions, units = [], []
    for rater in np.argsort(-responses.per_rater)[:MAX_RATERS]:
        at = responses.rater == rater
        if at.all() or not at.any():
            continue
        item, label = responses.item[at], responses.label[at]
        probabilities = labels(_without_rater(responses, rater))
        row = None if confusion is None else confusion[rater]
        predictions.append([_predict(p[item], label, row) for p in probabilities])
        units.append(unit[item])
    if not predictions:
        return UNKNOWN
    without, *structures = np.concatenate(predictions, axis=1)
    structure = max(structures, key=lambda density: float(np.log(density).sum()))
    gains, of_gain, n_units = np.log(structure / without), np.concatenate(units), unit.max() + 1
    gain, error = float(gains.mean()), math.nan  # a single unit shows no error
    if n_units > 1:
        residuals = np.bincount(of_gain, gains - gain, n_units)
        variance = float((residuals**2).sum()) * n_units / (n_units - 1)
        error = math.sqrt(variance) / len(gains)
    return OrderEvidence(gain, error, stack(structure, without))


def some_sequences(responses: Responses, sequences: Sequences) -> tuple[Responses, Sequences]:
    """Return whole sequences, drawn at random, with about :data:`MAX_RESPONSES`."""
    if responses.n_responses <= MAX_RESPONSES:
        return responses, sequences
    place = sequences.places(responses)
    per_place = responses.per_item[place]
    size = np.add.reduceat(per_place, sequences.start[:-1])
    order = np.random.default_rng(0).permutation(sequences.n_sequences)
    n_chosen = int(np.searchsorted(size[order].cumsum(), MAX_RESPONSES)) + 1
    chosen = np.sort(order[:n_chosen])
    spans = [np.arange(sequences.start[s], sequences.start[s + 1]) for s in chosen]
    rows = place[np.concatenate(spans)]
    part = Sequences.from_lengths(
        sequences.lengths[chosen], items=responses.items[rows].tolist(), names=chosen.tolist()
    )
    return responses.take(rows), part


def _without_order(values: Mapping[str, Array], shares: Array) -> dict[str, Any]:
    """Return the parameters of a chain whose items are independent, with these shares of states."""
    if "persistence" in values:
        return {"type_share": shares, "persistence": np.zeros_like(shares)}
    return {"initial": shares, "transition": np.tile(shares, (len(shares), 1))}


def _without_rater(responses: Responses, rater: int) -> Responses:
    """Return the table without the responses of a rater, who keeps a place in it."""
    other = responses.rater != rater
    codes = (code[other] for code in (responses.item, responses.rater, responses.label))
    return responses.with_rows(*codes)


def _predict(probability: Array, label: NDArray[np.int64], rows: Array | None = None) -> Array:
    """Return the probability of a rater's labels given those of their items, (responses,).

    The rater's rows are estimated from them by EM, unless they are known.
    """
    if rows is None:
        rows = _estimate_rows(probability, label)
    density: Array = np.maximum((probability * rows[:, label].T).sum(axis=1), TINY)
    return density


def _estimate_rows(probability: Array, label: NDArray[np.int64]) -> Array:
    """Return a rater's confusion matrix given label probabilities of their items, by EM."""
    n_classes = probability.shape[1]
    rows: Array = np.full((n_classes, n_classes), 0.2 / n_classes) + 0.8 * np.eye(n_classes)
    for _ in range(EM_ROUNDS):
        joint = probability * rows[:, label].T
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), TINY)
        counts = np.full((n_classes, n_classes), 0.5)
        np.add.at(counts.T, label, joint)
        rows = counts / counts.sum(axis=1, keepdims=True)
    return rows


def stack(structure: Array, without: Array) -> float:
    """Return the weight of the first of two predictive densities in the mixture that fits best.

    Both have a prior weight (:data:`PRIOR_WITH`, :data:`PRIOR_WITHOUT`).
    """

    def slope(weight: float) -> float:
        mixture = weight * structure + (1.0 - weight) * without
        prior = PRIOR_WITH / weight - PRIOR_WITHOUT / (1.0 - weight)
        return float(((structure - without) / mixture).sum()) + prior

    return float(brentq(slope, LEAST, 1.0 - LEAST))
