"""Simulators of responses whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse import errors
from bayesfuse.data.arrays import shown
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns


@dataclass(frozen=True)
class Simulated:
    """Simulated responses and their parameters.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.simulate_dawid_skene(100, 5, 3, random_seed=1).confusion.shape
    (5, 3, 3)
    """

    responses: Responses
    truth: NDArray[np.int64]  # indices of the true classes (items,)
    prevalence: Array  # (classes,)
    confusion: Array  # (raters, classes, labels)


def simulate_dawid_skene(
    n_items: int,
    n_raters: int,
    n_classes: int,
    *,
    per_item: int | None = None,
    prevalence: ArrayLike | None = None,
    confusion: ArrayLike | None = None,
    accuracy: tuple[float, float] = (0.5, 0.9),
    random_seed: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate the Dawid–Skene model.

    Parameters
    ----------
    n_items, n_raters, n_classes : int
    per_item : int, optional
        Raters per item, at most ``n_raters``, chosen at random. Default all.
    prevalence : array-like, shape (classes,), optional: default a draw from Dirichlet(5, …, 5)
    confusion : array-like, shape (raters, classes, labels), optional
        Default: diagonals uniform in the range ``accuracy``, the rest of a row flat Dirichlet.
    accuracy : pair of float
    random_seed : int or Generator, optional

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 5, 3, per_item=2, random_seed=1)
    >>> made.responses.n_responses
    200
    """
    rng = _generator(random_seed, n_items=n_items, n_raters=n_raters, n_classes=n_classes)
    if prevalence is None:
        share = rng.dirichlet(np.full(n_classes, 5.0))
    else:
        share = _checked("prevalence", prevalence, True, classes=n_classes)
    table = _confusion(confusion, n_raters, n_classes, accuracy, rng)
    truth = rng.choice(n_classes, size=n_items, p=share)
    return Simulated(_answers(truth, table, per_item, rng), truth, share, table)


def simulate_responses(
    truth: ArrayLike,
    n_raters: int,
    n_classes: int,
    *,
    per_item: int | None = None,
    confusion: ArrayLike | None = None,
    accuracy: tuple[float, float] = (0.5, 0.9),
    random_seed: int | np.random.Generator | None = None,
) -> Simulated:
    """Simulate responses to items with given true classes, of shares ``prevalence``.

    Parameters
    ----------
    truth : array-like of int: indices of the true classes, of any shape; items are in C order
    n_raters, n_classes, per_item, confusion, accuracy, random_seed
        As in :func:`simulate_dawid_skene`.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> made = bf.datasets.simulate_responses(np.eye(20, dtype=int), 3, 2, random_seed=1)
    >>> made.responses.n_items, made.prevalence.round(2).tolist()
    (400, [0.95, 0.05])
    """
    rng = _generator(random_seed, n_raters=n_raters, n_classes=n_classes)
    known = np.asarray(truth).ravel()
    inside = known.dtype.kind in "iu" and len(known) and known.min() >= 0
    if not (inside and known.max() < n_classes):
        raise errors.ModelError(
            f"truth must hold whole numbers from 0 to {n_classes - 1}. Got: {shown(known, 5)}."
        )
    table = _confusion(confusion, n_raters, n_classes, accuracy, rng)
    share = np.bincount(known, minlength=n_classes) / len(known)
    return Simulated(_answers(known, table, per_item, rng), known, share, table)


def _generator(random_seed: Any, **sizes: int) -> np.random.Generator:
    """Check sizes and return the generator of a seed."""
    for name, size in sizes.items():
        errors.require_count(name, size, least=2 if name == "n_classes" else 1)
    return errors.require_seed(random_seed)


def _checked(name: str, value: ArrayLike, rows: bool, **axes: int) -> Array:
    values = errors.require_numbers(name, value)
    errors.require_shape(name, values.shape, **axes)
    errors.require_probabilities(name, values, rows=rows)
    return values


def _confusion(confusion: Any, n_raters: int, n_classes: int, accuracy: Any, rng: Any) -> Array:
    if confusion is not None:
        axes = {"raters": n_raters, "classes": n_classes, "labels": n_classes}
        return _checked("confusion", confusion, True, **axes)
    ends = _checked("accuracy", accuracy, False, ends=2)
    right = rng.uniform(*ends, size=(n_raters, n_classes, 1))
    wrong = rng.dirichlet(np.ones(n_classes - 1), size=(n_raters, n_classes)) * (1 - right)
    rows = [np.insert(wrong[:, k], k, right[:, k, 0], axis=1) for k in range(n_classes)]
    return np.stack(rows, axis=1)


def _answers(
    truth: NDArray[np.int64], confusion: Array, per_item: int | None, rng: np.random.Generator
) -> Responses:
    """Simulate responses of all raters, or of some chosen at random, to every item."""
    n_items, (n_raters, n_classes, _) = len(truth), confusion.shape
    per_item = n_raters if per_item is None else per_item
    errors.require_count("per_item", per_item)
    if per_item > n_raters:
        raise errors.ModelError(
            f"per_item must be at most {n_raters}, all raters. Got: {per_item}."
        )
    item = np.repeat(np.arange(n_items), per_item)
    rater = np.tile(np.arange(n_raters), n_items)
    if per_item < n_raters:
        rater = rng.random((n_items, n_raters)).argpartition(per_item - 1)[:, :per_item].ravel()
    label = draw_columns(confusion.cumsum(axis=-1)[rater, truth[item]], rng)
    rows = {"item": item, "rater": rater, "label": label}
    items, raters = range(n_items), range(n_raters)
    return Responses.from_long(rows, items=items, raters=raters, classes=range(n_classes))
