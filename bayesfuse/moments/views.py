"""Starting confusion matrices: from votes, or from the moments of three teams of raters."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares

STARTS = ("algebraic", "votes", "diagonal")

N_DIVISIONS = 5  # random divisions into teams: in some, the information of the members may cancel
ITEMS_AT_ONCE = 1000  # items whose products of views are added up at a time, in a processor's cache


def starting_points(name: str, responses: Responses, rng: np.random.Generator) -> list[Array]:
    """Return starting points (raters, classes, labels), possibly none."""
    if name == "votes":
        return [from_votes(responses)]
    if name == "diagonal":
        n_classes = responses.n_classes
        one = np.full((n_classes, n_classes), 0.3 / (n_classes - 1))
        np.fill_diagonal(one, 0.7)
        return [np.tile(one, (responses.n_raters, 1, 1))]
    divisions = N_DIVISIONS if np.count_nonzero(responses.per_rater) > 3 else 1
    used = incidence(responses).tocsc()
    starts = [from_teams(responses, used, rng) for _ in range(divisions)]
    return [confusion for confusion in starts if confusion is not None]


def incidence(responses: Responses) -> scipy.sparse.csr_array:
    """Return the counts of cells (rater × label) of every item, shape (items, cells)."""
    cell, start = responses.cell.astype(np.int64), responses.start.astype(np.int64)
    shape = responses.n_items, responses.n_raters * responses.n_classes
    return scipy.sparse.csr_array((np.ones(len(cell)), cell, start), shape=shape)


def from_votes(responses: Responses) -> Array:
    """Compare every rater with the majority, splitting ties."""
    votes = responses.votes()
    top = (votes == votes.max(axis=1, keepdims=True)) & (votes > 0)
    share = top / np.maximum(top.sum(axis=1, keepdims=True), 1)
    counts = incidence(responses).T @ (share * responses.multiplicity[:, None])
    return _rows(counts, responses)


def from_teams(
    responses: Responses, used: scipy.sparse.csc_array, rng: np.random.Generator
) -> Array | None:
    """Recover the confusion matrices exactly from exact moments of three random teams of raters.

    A team's view of an item is a vector with one entry per class. With u_k, v_k, w_k the expected
    views of the teams if the truth is k, pairs and triples of views are P = Σ_k π_k u_k v_kᵀ and
    T(η) = Σ_k π_k (η·w_k) u_k v_kᵀ, so the eigenvectors of T(η) P⁻¹ are the u_k (Leurgans, Ross &
    Abel 1993, SIAM J. Matrix Anal. Appl. 14, 1064; Anandkumar et al. 2014, JMLR 15, 2773). They
    turn a view into an unbiased estimate of the item's class indicator, up to scale, and that with
    the responses of the other teams gives their confusion matrices. ``used``: :func:`incidence`.
    """
    weight = responses.multiplicity.astype(np.float64)
    # the three busiest raters go to different teams, so do the next three, and so on
    volume = np.argsort(np.lexsort((rng.random(responses.n_raters), -responses.per_rater)))
    shuffled = np.concatenate([rng.permutation(3) for _ in range(0, responses.n_raters, 3)])
    team = np.repeat(shuffled[volume], responses.n_classes)
    views, has_view = _views(used, team, weight, responses.n_classes)
    a, b, c = views.transpose(1, 0, 2)
    a_common = (weight * has_view.all(axis=1))[:, None] * a
    pair, triple = a_common.T @ b, np.zeros((a.shape[1], a.shape[1] ** 2))
    for first in range(0, len(a), ITEMS_AT_ONCE):
        part = slice(first, first + ITEMS_AT_ONCE)
        both = c[part, :, None] * b[part, None, :]
        triple += a_common[part].T @ both.reshape(len(both), -1)
    triple = triple.reshape(-1, *pair.shape).transpose(1, 0, 2)
    try:
        axes = _common_eigenvectors(triple, pair, rng)
        unmix_a = np.linalg.inv(axes)
        unmix_b = np.linalg.inv(pair.T @ unmix_a.T)
    except np.linalg.LinAlgError:
        return None
    by_a, by_b = a @ unmix_a.T, b @ unmix_b.T
    counts = np.empty((len(team), responses.n_classes))
    for t, team_truth in enumerate((by_b, by_a, by_a)):  # by another team
        counts[team == t] = used[:, team == t].T @ (weight[:, None] * team_truth)
    # with a negative scale of an eigenvector, all its counts are negative
    sign = np.sign(counts.reshape(-1, responses.n_classes, responses.n_classes).sum(axis=1))
    return _rows(np.maximum(counts * np.repeat(sign, responses.n_classes, axis=0), 0.0), responses)


def _views(
    used: scipy.sparse.csc_array, team: NDArray[np.int64], weight: Array, n_classes: int
) -> tuple[Array, NDArray[np.bool_]]:
    """Return every team's view of every item, the mean over its responses, and whether it exists.

    Shapes (items, teams, classes) and (items, teams). A response counts as the votes that it
    predicts of the other teams, so that raters worse than random, or with switched classes, are
    informative.
    """
    label = np.eye(n_classes)[np.arange(len(team)) % n_classes]
    votes = np.stack([used @ (label * (team == t)[:, None]) for t in range(3)], axis=1)
    others = votes.sum(axis=1, keepdims=True) - votes
    n_votes, n_others = votes.sum(axis=2), others.sum(axis=2)
    others *= (weight[:, None] / np.maximum(n_others, 1.0))[:, :, None]
    views = np.empty_like(votes)
    for t in range(3):
        team_responses = used[:, team == t]
        n_items = team_responses.T @ (weight * (n_others[:, t] > 0))
        predicted = (team_responses.T @ others[:, t]) / np.maximum(n_items, 1.0)[:, None]
        views[:, t] = team_responses @ predicted
    return views / np.maximum(n_votes, 1.0)[:, :, None], n_votes > 0


def _common_eigenvectors(triple: Array, pair: Array, rng: np.random.Generator) -> Array:
    """Return the eigenvectors of T(η) P⁻¹ for the η, among many, with the largest eigengap."""
    scaled = np.linalg.solve(pair.T, triple.transpose(0, 2, 1)).transpose(0, 2, 1)
    directions = rng.standard_normal((10 * len(pair), len(pair)))
    values, vectors = np.linalg.eig(np.tensordot(directions, scaled, axes=1))
    ordered = np.sort(values.real, axis=1)
    gap = np.diff(ordered, axis=1).min(axis=1) / np.abs(ordered).max(axis=1)
    best = vectors[np.argmax(gap)]
    return best.real + best.imag  # noise can make pairs complex: take two axes of their plane


def _rows(counts: Array, responses: Responses) -> Array:
    """Normalise counts (cells, classes) to confusion rows, uniform without counts."""
    n_raters, n_classes = responses.n_raters, responses.n_classes
    rows = counts.reshape(n_raters, n_classes, n_classes).transpose(0, 2, 1)
    return shares(rows, 1.0 / n_classes)
