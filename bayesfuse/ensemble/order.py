"""Evidence on the order of items: whether it helps to predict a rater who is left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from bayesfuse.data.responses import Responses, from_key
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, MomentsError, PoorFitWarning
from bayesfuse.inference.find_map import find_map
from bayesfuse.models import HiddenMarkov
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.observation.model import observed

MAX_RESPONSES = 40_000  # of whole sequences, from which the evidence is estimated
MAX_RATERS = 6  # who are left out, those with the most responses
ITERATIONS = 60  # of EM; weights differ by less than .02 from those at the mode
EM_ROUNDS = 50  # of EM for the rows of a rater who is left out
LEAST = 1e-9  # weight
PRIOR_PREDICTIONS = 5.0  # predictions by each of the two as which the prior of their weights counts


@dataclass(frozen=True)
class OrderEvidence:
    """How much better the order predicts a response of a rater who is left out.

    ``gain`` in nats per response and its standard error over sequences, and the ``weight`` of
    labels with order in the mixture that predicts best: stacking (Yao, Vehtari, Simpson & Gelman
    2018, Bayesian Analysis 13, 917–1007).
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PoorFitWarning)  # its labels are not used
            point = find_map(model, iterations=ITERATIONS)["point"].dataset
    except (ModelError, MomentsError):
        return UNKNOWN
    observation = observed(model)[1]
    values = {name: point[name].values for name in observation.names}
    with_order = observation.rows(values)
    shares = observation.marginal_of_states(with_order).probability.mean(axis=0)
    without = observation.rows(values | _without_order(values, shares))
    unit = observation.unit_of_item
    both, units = [], []
    for rater in np.argsort(-responses.per_rater)[:MAX_RATERS]:
        at = responses.rater == rater
        if at.all() or not at.any():
            continue
        others = ResponseModel.build(
            _without_rater(responses, rater), observation.labels, observation.raters
        )
        item, label = responses.item[at], responses.label[at]
        labels = [others.marginal(rows).probability[item] for rows in (with_order, without)]
        both.append([_predict(probability, label) for probability in labels])
        units.append(unit[item])
    if not both:
        return UNKNOWN
    ordered, alone = np.concatenate(both, axis=1)
    gains, unit, n_units = np.log(ordered / alone), np.concatenate(units), len(sequences.names)
    gain, error = float(gains.mean()), math.nan  # a single sequence shows no error
    if n_units > 1:
        residuals = np.bincount(unit, gains - gain, n_units)
        variance = float((residuals**2).sum()) * n_units / (n_units - 1)
        error = math.sqrt(variance) / len(gains)
    return OrderEvidence(gain, error, stack(ordered, alone))


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
    pair = responses.item[other].astype(np.int64) * responses.n_raters + responses.rater[other]
    key = pair * responses.n_classes + responses.label[other]
    return from_key(key, responses.items, responses.raters, responses.classes)


def _predict(probability: Array, label: NDArray[np.int64]) -> Array:
    """Return the probability of a rater's labels given those of their items, (responses,).

    The rater's rows are estimated from them by EM.
    """
    n_classes = probability.shape[1]
    rows = np.full((n_classes, n_classes), 0.2 / n_classes) + 0.8 * np.eye(n_classes)
    for _ in range(EM_ROUNDS):
        joint = probability * rows[:, label].T
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        counts = np.full((n_classes, n_classes), 0.5)
        np.add.at(counts.T, label, joint)
        rows = counts / counts.sum(axis=1, keepdims=True)
    return np.maximum((probability * rows[:, label].T).sum(axis=1), 1e-300)


def stack(first: Array, second: Array) -> float:
    """Return the weight of the first of two predictive densities in the mixture that fits best."""

    def slope(weight: float) -> float:
        mixture = weight * first + (1.0 - weight) * second
        prior = PRIOR_PREDICTIONS / weight - PRIOR_PREDICTIONS / (1.0 - weight)
        return float(((first - second) / mixture).sum()) + prior

    return float(brentq(slope, LEAST, 1.0 - LEAST))
