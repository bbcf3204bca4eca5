"""One accuracy per rater, or per rater and class: a confusion matrix with tied entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import inner
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import InChain
from bayesfuse.parameters.simplex import PROBABILITY
from bayesfuse.raters.confusion import Confusion, count, expected, likelihood


@inner
def tied(log_rows, n_classes):
    """Return log confusion matrices from log accuracies (raters, 1 or classes, 2)."""
    n_raters, last = log_rows.shape[0], log_rows.shape[1] - 1
    table, others = np.empty((n_raters, n_classes, n_classes)), math.log(n_classes - 1.0)
    for m in range(n_raters):
        for k in range(n_classes):
            for c in range(n_classes):
                table[m, k, c] = log_rows[m, min(k, last), 1] - others
            table[m, k, k] = log_rows[m, min(k, last), 0]
    return table


@inner
def untied(confusion, counts):
    """Write counts of accuracies (raters, 1 or classes, 2) from those of matrices."""
    last = counts.shape[1] - 1
    for m in range(counts.shape[0]):
        for k in range(counts.shape[1]):
            counts[m, k, 0] = counts[m, k, 1] = 0.0
        for k in range(confusion.shape[1]):
            for c in range(confusion.shape[2]):
                counts[m, min(k, last), np.int64(c != k)] += confusion[m, k, c]


@inner
def likelihood_in_chain(tables, structure, n_classes):
    """See :class:`InChain`."""
    start, row, pair, gold = structure
    return likelihood(tied(tables[0], n_classes), start, row, pair, gold)


@inner
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count right and wrong responses."""
    start, row, pair, _ = structure
    untied(count(tied(tables[0], n_classes), labels, start, row, pair), counts[0])


@inner
def count_copies_in_chain(tables, copies, counts, structure, n_classes):
    """Count them for numbers of copies by true label."""
    start, row, pair, gold = structure
    untied(expected(tied(tables[0], n_classes), copies, start, row, pair, gold)[0], counts[0])


class OneCoin(Confusion):
    r"""One accuracy per rater (and class), with uniform errors.

    Parameters
    ----------
    accuracy : tensor or array, shape (raters,) or (raters, classes)
        Probability of the right label, per rater or per rater and true class (the
        class-conditional model); the other labels are equally probable.

    References
    ----------
    Raykar et al. (2010), Journal of Machine Learning Research 11, 1297–1322.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> channel = bf.OneCoin(accuracy=np.array([0.9, 0.7]))
    >>> rows = np.log([[0.9, 0.1], [0.7, 0.3]])
    >>> np.exp(channel.expand((rows,), n_classes=3, xp=np)[0])[1].round(2)
    array([[0.7 , 0.15, 0.15],
           [0.15, 0.7 , 0.15],
           [0.15, 0.15, 0.7 ]])
    """

    declared = (Parameter("accuracy", PROBABILITY, ("rater",)),)

    def __init__(self, accuracy: Any) -> None:
        self.parameters = {"accuracy": accuracy}
        self.by_class = np.ndim(accuracy) == 2
        if self.by_class:
            self.declared = (Parameter("accuracy", PROBABILITY, ("rater", "class")),)

    def in_chain(self, *, copies):
        own = count_copies_in_chain if copies else count_in_chain
        return InChain(own, likelihood=likelihood_in_chain, axes=3)

    def check(self, shapes: Mapping[str, tuple[int | None, ...]], responses: Responses) -> None:
        if len(shapes["accuracy"]) not in (1, 2):
            raise ModelError(
                "accuracy must be one number per rater, or per rater and class. Got: shape "
                f"{shapes['accuracy']}."
            )
        super().check(shapes, responses)

    def expand(self, log_rows: tuple[Any, ...], n_classes: int, xp: Any) -> tuple[Any, ...]:
        (rows,) = log_rows  # (raters, 2) or (raters, classes, 2)
        if rows.ndim == 2:
            rows = rows[:, None, :]
        right, wrong = rows[..., 0, None], rows[..., 1, None] - np.log(n_classes - 1)
        diagonal = np.eye(n_classes, dtype=bool)
        return (xp.where(diagonal, right, wrong),)  # (raters, classes, labels)

    def from_truth(self, rows):
        return {}  # a mixture of tied rows is not tied

    def collapse(self, counts):
        (confusion,) = counts
        right = np.diagonal(confusion, axis1=1, axis2=2)
        by_class = np.stack([right, confusion.sum(axis=2) - right], axis=-1)
        return (by_class if self.by_class else by_class.sum(axis=1),)
