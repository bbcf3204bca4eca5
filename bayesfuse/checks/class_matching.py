"""Matching the classes of draws to those of a reference, for label switching."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.compatibility import names_differ
from bayesfuse.results.contents import all_draws, evenly_spaced, named
from bayesfuse.results.summaries import posterior_draws, responses_per_rater

NEARER = 0.5
"""A permuted draw must be nearer the reference by this factor (of the squared distance)."""

CANDIDATES = 50  # draws among which the most central one is the initial reference
ROUNDS = 20  # largest number of times that the reference is updated
AT_ONCE = 10**7  # entries of confusion matrices compared at one time


def profiles(result: xr.DataTree) -> tuple[Array, Array]:
    """Return prevalence (chain, draw, class) and confusion (chain, draw, rater, class, label)."""
    found = all_draws(result)
    if missing := [name for name in ("prevalence", "confusion") if named(found, name) is None]:
        raise ModelError(
            "Classes are compared by prevalence and confusion matrices; labels on a graph have no "
            f"prevalence. Got: no {missing[0]!r} among {list(found.data_vars)}."
        )
    draws = posterior_draws(result, "prevalence", "confusion")
    return draws["prevalence"].values, draws["confusion"].values


def weights(result: xr.DataTree) -> Array:
    """Return every rater's share of the responses."""
    answered = responses_per_rater(result).astype(float)
    return answered / max(answered.sum(), 1.0)


def target(result: xr.DataTree, reference: xr.DataTree | None) -> tuple[Array, Array]:
    """Return prevalence and confusion of the reference, by default the first chain."""
    if reference is None:
        prevalence, confusion = profiles(result)
        return _one_mode(prevalence[0], confusion[0], weights(result))
    one, other = (posterior_draws(each, "confusion")["confusion"] for each in (reference, result))
    for dim in ("rater", "class"):
        if differ := names_differ(dim, one[dim].values, other[dim].values):
            raise ModelError(
                "The reference must have the same raters and classes as the result, because their "
                f"confusion matrices are compared. Got: {differ}."
            )
    prevalence, confusion = (each.reshape(-1, *each.shape[2:]) for each in profiles(reference))
    return _one_mode(prevalence, confusion, weights(result))


def _one_mode(prevalence: Array, confusion: Array, weight: Array) -> tuple[Array, Array]:
    """Return the mean of draws after aligning them to one mode.

    Draws are aligned to the most central one, then to the mean of the aligned draws, until nothing
    changes (Stephens 2000, section 4).
    """
    few = evenly_spaced(min(CANDIDATES, len(confusion)), len(confusion))
    share, rows = prevalence[few], confusion[few]
    apart = [
        np.trace(costs(share, rows, *one, weight), axis1=1, axis2=2).sum()
        for one in zip(share, rows, strict=True)
    ]
    central = int(np.argmin(apart))
    found = share[central], rows[central]
    order: NDArray[np.int64] | None = None
    for _ in range(ROUNDS):
        before, order = order, orders(prevalence, confusion, *found, weight)
        if before is not None and np.array_equal(before, order):
            break
        found = aligned_mean(prevalence, confusion, order)
    return found


def aligned_mean(
    prevalence: Array, confusion: Array, order: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the mean over draws with classes in the given order, (draw, class)."""
    share, rows = np.zeros(prevalence.shape[1:]), np.zeros(confusion.shape[1:])
    found, place = np.unique(order, axis=0, return_inverse=True)
    for number, one in enumerate(found):
        alike = np.flatnonzero(place.ravel() == number)
        share += prevalence[alike].sum(axis=0)[one]
        rows += confusion[alike].sum(axis=0)[:, one]
    return share / len(order), rows / len(order)


def costs(prevalence: Array, confusion: Array, share: Array, rows: Array, weight: Array) -> Array:
    """Return squared distances (…, class of the target, class), weighted means over raters."""
    # expanded as |a|² − 2ab + |b|² to save memory
    squares = np.einsum("m,...mkc,...mkc->...k", weight, confusion, confusion)
    wanted = np.einsum("m,mkc,mkc->k", weight, rows, rows)
    cross = np.einsum("m,mkc,...mjc->...kj", weight, rows, confusion)
    distance = wanted[:, None] + squares[..., None, :] - 2 * cross
    distance += (share[:, None] - prevalence[..., None, :]) ** 2
    found: Array = np.maximum(distance, 0.0)
    return found


def orders(
    prevalence: Array, confusion: Array, share: Array, rows: Array, weight: Array
) -> NDArray[np.int64]:
    """Return the class that matches each class of the target at every draw, (…, class)."""
    flat = confusion.reshape(-1, *confusion.shape[-3:])
    n_classes = prevalence.shape[-1]
    shares = prevalence.reshape(-1, n_classes)
    step = max(AT_ONCE // flat[0].size, 1)
    order = np.empty(shares.shape, dtype=np.int64)
    for at in range(0, len(flat), step):
        part = slice(at, at + step)
        order[part] = _assign(costs(shares[part], flat[part], share, rows, weight))
    return order.reshape(prevalence.shape)


def _assign(cost: Array) -> NDArray[np.int64]:
    """Return the matching class of each class, (draw, class)."""
    from scipy.optimize import linear_sum_assignment

    own = np.arange(cost.shape[-1])
    order = np.tile(own, (len(cost), 1))
    plain = np.trace(cost, axis1=1, axis2=2)
    for n, each in enumerate(cost):
        _, best = linear_sum_assignment(each)
        if each[own, best].sum() < NEARER * plain[n]:  # rare classes are similar
            order[n] = best
    return order


def uses_names(rows: Array, weight: Array) -> bool:
    """Return whether no permutation of the classes makes more raters mostly right."""
    from scipy.optimize import linear_sum_assignment

    n_classes = rows.shape[-1]
    mostly = rows.argmax(axis=-1)[..., None] == np.arange(n_classes)
    votes = np.einsum("m,mkc->kc", weight, mostly)
    _, best = linear_sum_assignment(votes, maximize=True)
    own = np.arange(n_classes)
    return bool(votes[own, best].sum() <= np.trace(votes) + 1e-9)
