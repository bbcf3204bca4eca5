"""Transition probabilities of a chain of labels, from consecutive responses."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, ResponsesError, require_shape
from bayesfuse.moments.least_squares import simplex_least_squares
from bayesfuse.moments.views import incidence
from bayesfuse.numerics.kernels import Array

BLOCK = 1 << 16  # items read at a time, to bound memory by block × classes²


def transition(responses: Responses, lengths: ArrayLike, confusion: ArrayLike) -> xr.Dataset:
    r"""Estimate the transition probabilities of a Markov chain of labels.

    Given the confusion matrices, the joint distribution A of the labels of neighbours solves

    .. math:: \min_{A \ge 0,\; 1^\top A 1 = 1} \sum_{m, m'} N_{mm'}
        \|S_{mm'} - \Gamma_m A \Gamma_{m'}^\top\|^2,

    where :math:`S_{mm'}` holds the shares of answers c of rater m to an item and c' of rater m' to
    the next item, among :math:`N_{mm'}` such pairs. O(responses × classes + items × classes⁴).

    Parameters
    ----------
    responses : Responses
        With items in order, one sequence after the other, including items without responses.
    lengths : array-like of int, shape (sequences,): number of items of every sequence
    confusion : array-like, shape (raters, classes, labels)
        An estimate, such as that of :func:`confusion`.

    Returns
    -------
    xarray.Dataset
        ``joint`` (class, next_class), the estimate of A, sums to one; ``transition`` (class,
        next_class), its rows normalised (the second margin, if a class never occurs);
        ``stationary`` (class), the mean of its two margins.

    Raises
    ------
    ResponsesError : lengths of another number of items; a table of counts, which has no order
    MomentsError : the responses to neighbours do not identify all transitions

    References
    ----------
    Traganitis & Giannakis (2020), eqs. 21–23.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> truth = np.repeat([0, 1, 0, 1], 250)  # two sequences that change their class once
    >>> made = bf.datasets.simulate_responses(truth, 5, 2, random_seed=1)
    >>> estimate = bf.moments.transition(made.responses, [500, 500], made.confusion)
    >>> bool(estimate.transition.sel({"class": 0, "next_class": 0}) > 0.9)
    True
    """
    if not responses.is_unweighted:
        raise ResponsesError(
            "Items in sequence must be separate: call responses.expand(). Got: a table of counts."
        )
    size = np.asarray(lengths)
    are_integers = size.ndim == 1 and size.size > 0 and np.issubdtype(size.dtype, np.integer)
    if not are_integers or size.min() < 1 or size.sum() != responses.n_items:
        raise ResponsesError(
            f"Lengths must be positive integers and add up to the {responses.n_items} items. Got: "
            f"{size.tolist() if size.size < 10 else f'{size.size} lengths'}, sum {size.sum()}."
        )
    n_classes = responses.n_classes
    values = np.asarray(confusion, dtype=np.float64)
    axes = {"raters": responses.n_raters, "classes": n_classes, "labels": n_classes}
    require_shape("confusion", values.shape, **axes)
    normal, right = normal_equations(responses, size, values)
    spread = np.linalg.eigvalsh(normal)
    if not spread[0] > 1e-12 * spread[-1]:
        raise MomentsError(
            "Transitions need responses to neighbouring items, by raters whose confusion matrices "
            "distinguish all classes, to be identified. Got: normal equations with eigenvalues "
            f"from {spread[0]:.3g} to {spread[-1]:.3g}."
        )
    flat = np.full((n_classes**2, 1), 1.0 / n_classes**2)
    joint = simplex_least_squares(normal, right.reshape(-1, 1), flat, False, 100_000, 1e-14)
    joint = joint.reshape(n_classes, n_classes)
    now, after = joint.sum(axis=1), joint.sum(axis=0)
    rows = np.where(now[:, None] > 0, joint, after)
    dims = ("class", "next_class")
    return xr.Dataset(
        {
            "transition": (dims, rows / rows.sum(axis=1, keepdims=True)),
            "joint": (dims, joint),
            "stationary": ("class", (now + after) / 2.0),
        },
        coords={"class": responses.classes, "next_class": responses.classes},
    )


def normal_equations(
    responses: Responses, lengths: NDArray[np.int64], confusion: Array
) -> tuple[Array, Array]:
    """Return the normal matrix (classes², classes²) and right-hand side (classes, classes) of A.

    They sum G ⊗ G′ and g g′ᵀ over pairs of items, with g and G the sums of Γ_m[·, label] and
    Γ_mᵀΓ_m over the responses to an item.
    """
    n_classes = responses.n_classes
    k, j = np.triu_indices(n_classes)
    gram = (confusion @ confusion.transpose(0, 2, 1))[:, k, j]
    answer = confusion.transpose(0, 2, 1).reshape(-1, n_classes)
    per_cell = np.concatenate([answer, np.repeat(gram, n_classes, axis=0)], axis=1)
    follows = np.ones(responses.n_items, dtype=bool)
    follows[np.concatenate([[0], np.cumsum(lengths)[:-1]])] = False
    used = incidence(responses)
    right = np.zeros((n_classes, n_classes))
    pairs = np.zeros((len(k), len(k)))
    for first in range(0, responses.n_items - 1, BLOCK):
        last = min(first + BLOCK, responses.n_items - 1)
        sums = used[first : last + 1] @ per_cell
        linked = follows[first + 1 : last + 1]
        now, after = sums[:-1][linked], sums[1:][linked]
        right += now[:, :n_classes].T @ after[:, :n_classes]
        pairs += now[:, n_classes:].T @ after[:, n_classes:]
    place = np.empty((n_classes, n_classes), dtype=np.int64)
    place[k, j] = place[j, k] = np.arange(len(k))
    full = pairs[place[:, None, :, None], place[None, :, None, :]]  # k, k′, j, j′
    size = max(int(follows.sum()), 1)
    return full.reshape(n_classes**2, n_classes**2) / size, right / size
