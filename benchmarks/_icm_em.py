"""The paper's own way with labels on a graph: EM whose labels are iterated conditional modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import bayesfuse as bf
from bayesfuse.labels import potts_kernels
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares

PASSES = 100
"""Passes of iterated modes within every step of EM, at most."""


@dataclass(frozen=True)
class PointLabels:
    """What :func:`icm_em` ends with: no uncertainty but that of each label given its neighbours.

    Attributes
    ----------
    labels : ndarray, shape (items,)
        Number of every item's class: the last iterated modes.
    probability : ndarray, shape (items, classes)
        Given the labels of the neighbours, eq. 34.
    confusion : ndarray, shape (raters, classes, labels)
    converged : bool
    iterations : int
    start : str
        "moments" (Algorithm 4) or "majority" (majority vote and Algorithm 3).
    """

    labels: NDArray[np.int64]
    probability: Array
    confusion: Array
    converged: bool
    iterations: int
    start: str


def icm_em(
    responses: bf.Responses,
    graph: bf.Graph,
    *,
    trust: Literal["paper", "neighbours"] | float = "paper",
    start: Literal["moments", "majority"] = "moments",
    iterations: int = 100,
    tolerance: float = 1e-6,
) -> PointLabels:
    """Estimate labels and confusion matrices by Algorithm 3 or 4 of Traganitis and Giannakis.

    As they stand: no prior, no prevalence, the trust fixed, labels iterated conditional modes. It
    is fast, and what :class:`bayesfuse.models.MarkovRandomField` is to be compared with.

    Parameters
    ----------
    responses : bf.Responses
    graph : bf.Graph
        Which items are neighbours; the same items in any order.
    trust : "paper", "neighbours" or number
        δ of eq. 28, of which every edge counts half: the number of raters, as the paper takes for
        graphs that are given; or for graphs of nearest neighbours half the number of responses to
        the item whose label is updated; or any positive number.
    start : {"moments", "majority"}
        Confusion matrices and labels to begin with: from moments (17), (18), which is Algorithm 4,
        or from majority vote, which the paper calls MV + Alg. 3.
    iterations : int
        EM steps at most.
    tolerance : float
        Stop when no entry of a confusion matrix changes by more.

    Returns
    -------
    PointLabels

    Raises
    ------
    ModelError
        A trust that is not positive, an unknown start, a table of counts.
    MomentsError
        Too few raters or responses for moments.
    ResponsesError
        Graph and responses of different items.

    References
    ----------
    Traganitis & Giannakis (2020), Algorithms 3 and 4, eqs. 31 to 36; Besag (1986).
    """
    bf.errors.require_kind("responses", responses, bf.Responses)
    bf.errors.require_count("iterations", iterations)
    tolerance = bf.errors.require_number("tolerance", tolerance)
    if not responses.is_unweighted:
        raise bf.errors.ModelError(
            "Items on a graph need one row each: call responses.expand(). Got: a table of counts."
        )
    ordered = graph.ordered(responses)
    rows = ordered.start, ordered.neighbour
    weight = ordered.weight
    coupling = 0.25
    if trust == "neighbours":  # not a potential of any field, since it depends on who looks
        weight = weight * np.repeat(responses.per_item, ordered.degree)
    else:
        coupling = (responses.n_raters if trust == "paper" else trust) / 2
    structure = bf.build.Confusion(None).structure(responses, np.full(responses.n_items, -1))
    labels, confusion = _begin(responses, structure, start)
    n_classes = responses.n_classes
    flat = np.full(n_classes, 1 / n_classes)
    change, done = np.inf, 0
    while done < iterations and change > tolerance:
        with np.errstate(divide="ignore"):  # what was never said has probability zero
            log_confusion = np.log(confusion)
        likelihood, log_scale = bf.build.Confusion.likelihood_kernel(log_confusion, *structure)
        potts_kernels.iterate_modes(labels, flat, likelihood, coupling, *rows, weight, PASSES)
        probability, _ = potts_kernels.conditionals(
            labels, flat, likelihood, log_scale, coupling, *rows, weight
        )
        (counts,) = bf.build.Confusion.expected_kernel(log_confusion, probability, *structure)
        new = shares(counts, confusion)
        change = float(np.abs(new - confusion).max())
        confusion, done = new, done + 1
    whole = labels.astype(np.int64)
    return PointLabels(whole, probability, confusion, change <= tolerance, done, start)


def _begin(
    responses: bf.Responses, structure: tuple[Any, ...], start: str
) -> tuple[NDArray[np.int32], Array]:
    """Return labels and confusion matrices from moments or majority vote."""
    if start == "moments":
        estimate = bf.moments.confusion(responses)
        confusion = np.ascontiguousarray(estimate["confusion"].values)
        with np.errstate(divide="ignore"):
            likelihood, _ = bf.build.Confusion.likelihood_kernel(np.log(confusion), *structure)
        labels = (likelihood * estimate["prevalence"].values).argmax(axis=1)
        return labels.astype(np.int32), confusion
    if start != "majority":
        raise bf.errors.ModelError(f"start must be 'moments' or 'majority'. Got: {start!r}.")
    labels = responses.votes().argmax(axis=1)
    n_classes = responses.n_classes
    flat = np.zeros((responses.n_raters, n_classes, n_classes))
    (counts,) = bf.build.Confusion.expected_kernel(flat, np.eye(n_classes)[labels], *structure)
    return labels.astype(np.int32), shares(counts, 1 / n_classes)
