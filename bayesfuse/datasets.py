"""Two classic tables, and simulators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.errors import ModelError
from bayesfuse.responses import Responses
from bayesfuse.simplex import Array

_ANESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223 2322223 4444444 2223343
1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222
1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""

_CARIES = """
00000:1880 00001:789 00010:43 00011:75 00100:23 00101:63 00110:8 00111:22 01000:188 01001:191
01010:17 01011:67 01100:15 01101:85 01110:8 01111:56 10000:22 10001:26 10010:6 10011:14 10100:1
10101:20 10110:2 10111:17 11000:2 11001:20 11010:6 11011:27 11100:3 11101:72 11110:1 11111:100
"""


def anesthesia() -> Responses:
    """Return five anaesthetists' assessments of 45 patients on a scale from 1 to 4.

    The first of them judged every patient three times.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28, Table 1.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.anesthesia().n_responses
    315
    """
    patterns = _ANESTHESIA.split()
    return Responses.from_long(
        {
            "item": np.repeat(np.arange(1, 46), 7),
            "rater": np.tile([1, 1, 1, 2, 3, 4, 5], 45),
            "label": np.array([int(digit) for pattern in patterns for digit in pattern]),
        }
    )


def caries() -> Responses:
    """Return five dentists' verdicts (sound or carious) on 3,869 radiographs, as 32 patterns.

    References
    ----------
    Espeland & Handelman (1989), Biometrics 45, 587–599.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> int(bf.datasets.caries().multiplicity.sum())
    3869
    """
    pairs = [entry.split(":") for entry in _CARIES.split()]
    names = {"0": "sound", "1": "carious"}
    return Responses.from_counts(
        np.array([[names[digit] for digit in pattern] for pattern, _ in pairs]),
        [int(count) for _, count in pairs],
        items=[pattern for pattern, _ in pairs],
        raters=[f"dentist {number}" for number in range(1, 6)],
        classes=["sound", "carious"],
    )


@dataclass(frozen=True)
class Simulated:
    """Simulated responses and what they were made from.

    ``truth`` (items,) numbers the true classes; ``prevalence`` (classes,) and ``confusion``
    (raters, classes, labels) are the parameters.
    """

    responses: Responses
    truth: NDArray[np.int64]
    prevalence: Array
    confusion: Array


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
    """Simulate the model of Dawid and Skene.

    Parameters
    ----------
    n_items, n_raters, n_classes : int
        Sizes.
    per_item : int, optional
        Raters who answer an item, chosen at random. Default all of them.
    prevalence : array-like, shape (classes,), optional
        Default a draw from Dirichlet(5, …, 5).
    confusion : array-like, shape (raters, classes, labels), optional
        Default: a diagonal drawn uniformly from ``accuracy`` for every rater and class, the rest
        of the row spread by a flat Dirichlet.
    accuracy : pair of float
        Range of that diagonal.
    random_seed : int or Generator, optional

    Returns
    -------
    Simulated

    Raises
    ------
    ModelError
        More raters per item than raters.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 5, 3, per_item=2, random_seed=1)
    >>> made.responses.n_responses, made.confusion.shape
    (200, (5, 3, 3))
    """
    rng = np.random.default_rng(random_seed)
    per_item = n_raters if per_item is None else per_item
    if not 1 <= per_item <= n_raters:
        raise ModelError(
            f"An item is answered by between one and all {n_raters} raters. Got: {per_item}."
        )
    if prevalence is None:
        prevalence = rng.dirichlet(np.full(n_classes, 5.0))
    if confusion is None:
        right = rng.uniform(*accuracy, size=(n_raters, n_classes, 1))
        wrong = rng.dirichlet(np.ones(n_classes - 1), size=(n_raters, n_classes)) * (1 - right)
        confusion = np.empty((n_raters, n_classes, n_classes))
        for k in range(n_classes):
            confusion[:, k] = np.insert(wrong[:, k], k, right[:, k, 0], axis=1)
    share, table = np.asarray(prevalence, dtype=float), np.asarray(confusion, dtype=float)
    truth = rng.choice(n_classes, size=n_items, p=share)
    item = np.repeat(np.arange(n_items), per_item)
    if per_item == n_raters:
        rater = np.tile(np.arange(n_raters), n_items)
    else:
        rater = rng.random((n_items, n_raters)).argpartition(per_item - 1)[:, :per_item].ravel()
    cumulative = table.cumsum(axis=-1)[rater, truth[item]]
    label = (rng.random(len(item))[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)
    responses = Responses.from_long(
        {"item": item, "rater": rater, "label": label},
        items=range(n_items),
        raters=range(n_raters),
        classes=range(n_classes),
    )
    return Simulated(responses, truth, share, table)
