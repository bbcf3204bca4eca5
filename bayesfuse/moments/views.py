"""Starting confusion matrices: from votes, or from the moments of three teams of raters."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import shares

STARTS = ("algebraic", "votes", "diagonal")

DIVISIONS = 5
"""Random divisions into teams: in some of them the information of the members may cancel."""


def starting_points(name: str, responses: Responses, rng: np.random.Generator) -> list[Array]:
    """Return starting points (raters, classes, labels), possibly none."""
    if name == "votes":
        return [from_votes(responses)]
    if name == "diagonal":
        n_classes = responses.n_classes
        one = np.full((n_classes, n_classes), 0.3 / (n_classes - 1))
        np.fill_diagonal(one, 0.7)
        return [np.tile(one, (responses.n_raters, 1, 1))]
    divisions = DIVISIONS if np.count_nonzero(responses.per_rater) > 3 else 1
    found = [from_teams(responses, rng) for _ in range(divisions)]
    return [confusion for confusion in found if confusion is not None]


def incidence(responses: Responses) -> sparse.csr_array:
    """Return the counts of cells (rater × label) of every item, shape (items, cells)."""
    return sparse.csr_array(
        (
            np.ones(responses.n_responses),
            responses.cell.astype(np.int64),
            responses.start.astype(np.int64),
        ),
        shape=(responses.n_items, responses.n_raters * responses.n_classes),
    )


def from_votes(responses: Responses) -> Array:
    """Compare every rater with the majority, splitting ties."""
    votes = responses.votes()
    top = (votes == votes.max(axis=1, keepdims=True)) & (votes > 0)
    share = top / np.maximum(top.sum(axis=1, keepdims=True), 1)
    counts = incidence(responses).T @ (share * responses.multiplicity[:, None])
    return _rows(counts, responses)


def from_teams(responses: Responses, rng: np.random.Generator) -> Array | None:
    """Recover the confusion matrices exactly from exact moments of three random teams of raters.

    A team's view of an item is a vector with one entry per class. With u_k, v_k, w_k the expected
    views of the teams if the truth is k, pairs and triples of views are P = Σ_k π_k u_k v_kᵀ and
    T(η) = Σ_k π_k (η·w_k) u_k v_kᵀ, so the eigenvectors of T(η) P⁻¹ are the u_k. They turn a view
    into an unbiased estimate of the item's class indicator, up to scale, and that with the
    responses of the other teams gives their confusion matrices.

    References
    ----------
    Leurgans, Ross & Abel (1993), SIAM Journal on Matrix Analysis and Applications 14, 1064–1083;
    Anandkumar, Ge, Hsu, Kakade & Telgarsky (2014), JMLR 15, 2773–2832.
    """
    used = incidence(responses)
    weight = responses.multiplicity.astype(np.float64)
    # the three busiest raters go to different teams, so do the next three, and so on
    volume = np.argsort(np.lexsort((rng.random(responses.n_raters), -responses.per_rater)))
    shuffled = np.concatenate([rng.permutation(3) for _ in range(0, responses.n_raters, 3)])
    team = np.repeat(shuffled[volume], responses.n_classes)
    member = np.stack([team == g for g in range(3)], axis=1).astype(np.float64)
    a, b, c = _views(used, member, weight, responses.n_classes)
    common = weight * ((used @ member) > 0).all(axis=1)
    pair = a.T @ (common[:, None] * b)
    triple = np.stack([a.T @ ((common * c[:, k])[:, None] * b) for k in range(a.shape[1])])
    try:
        axes = _common_eigenvectors(triple, pair, rng)
        unmix_a = np.linalg.inv(axes)
        unmix_b = np.linalg.inv(pair.T @ unmix_a.T)
    except np.linalg.LinAlgError:
        return None
    by_a = used.T @ (weight[:, None] * (a @ unmix_a.T))
    by_b = used.T @ (weight[:, None] * (b @ unmix_b.T))
    counts = np.where(team[:, None] == 0, by_b, by_a)
    # with a negative scale of an eigenvector, all its counts are negative
    sign = np.sign(counts.reshape(-1, responses.n_classes, responses.n_classes).sum(axis=1))
    return _rows(np.maximum(counts * np.repeat(sign, responses.n_classes, axis=0), 0.0), responses)


def _views(used: sparse.csr_array, member: Array, weight: Array, n_classes: int) -> list[Array]:
    """Return every team's view of every item (items, classes): the mean over its responses.

    A response counts as the votes that it predicts of the other teams, so that raters who are worse
    than random, or switch classes, are informative.
    """
    n_cells, n_teams = member.shape
    vote = np.tile(np.eye(n_classes), (n_cells // n_classes, 1))
    views = []
    for g in range(n_teams):
        mine, rest = member[:, [g]], 1.0 - member[:, [g]]
        heard = used @ rest
        others = used @ (rest * vote) / np.maximum(heard, 1.0)
        asked = used.T @ (weight[:, None] * (heard > 0))
        predicted = used.T @ (weight[:, None] * others) / np.maximum(asked, 1.0)
        views.append(used @ (mine * predicted) / np.maximum(used @ mine, 1.0))
    return views


def _common_eigenvectors(triple: Array, pair: Array, rng: np.random.Generator) -> Array:
    """Return the eigenvectors of T(η) P⁻¹ for the η, among many, with the largest eigengap."""
    scaled = np.linalg.solve(pair.T, triple.transpose(0, 2, 1)).transpose(0, 2, 1)
    values, vectors = np.linalg.eig(
        np.tensordot(rng.standard_normal((10 * len(pair), len(pair))), scaled, axes=1)
    )
    ordered = np.sort(values.real, axis=1)
    gap = np.diff(ordered, axis=1).min(axis=1) / np.abs(ordered).max(axis=1)
    best = vectors[np.argmax(gap)]
    return best.real + best.imag  # noise can make pairs complex: take two axes of their plane


def _rows(counts: Array, responses: Responses) -> Array:
    """Normalise counts (cells, classes) to confusion rows, uniform without counts."""
    n_raters, n_classes = responses.n_raters, responses.n_classes
    rows = counts.reshape(n_raters, n_classes, n_classes).transpose(0, 2, 1)
    return shares(rows, 1.0 / n_classes)
