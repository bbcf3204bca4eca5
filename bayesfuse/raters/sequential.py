"""Confusion matrices that depend on the rater's own answer to the previous item."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences, positions_of, previous_labels
from bayesfuse.numerics.kernels import Array, fill, inner
from bayesfuse.numerics.rows import draw_columns, shares
from bayesfuse.parameters.capabilities import Capabilities, SweepKernels
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.confusion import Confusion, expected, likelihood, pair_up


@inner
def likelihood_in_chain(tables, structure, n_classes):
    """See :class:`SweepKernels`."""
    return likelihood(tables[0].reshape(-1, n_classes, n_classes), *structure)


@inner
def count_in_chain(tables, labels, counts, structure, n_classes):
    """Count the responses by rater, previous answer, true label and response."""
    (row_counts,) = expected(tables[0].reshape(-1, n_classes, n_classes), labels, *structure)
    fill(counts[0].reshape(-1, n_classes, n_classes), row_counts)


class SequentialConfusion(Confusion):
    r"""One confusion matrix per rater and own answer to the previous item of the sequence.

    .. math:: p(x_{tm} = c \mid y_t = k, x_{t-1,m} = p) = \theta_{mpkc}

    So errors along a span are dependent ("seq" of Simpson & Gurevych, 2019, EMNLP, 1093–1104). If
    rows do not depend on :math:`p`, this is :class:`bayesfuse.build.Confusion`.

    Parameters
    ----------
    sequential_confusion : tensor or array, shape (raters, classes + 1, classes, labels)
        The first matrix of a rater is for items without a previous answer, the others are by it.
    sequences : Sequences
        The order of the items.
    shares : array-like, shape (classes + 1, classes), optional
        Share of every previous answer at items of a class, by which "confusion", "sensitivity" and
        "specificity" average the matrices of a rater. Default: equal ones.

    Examples
    --------
    A rater who repeats the first answer for any truth:

    >>> import numpy as np, bayesfuse as bf
    >>> first, stays = [[0.8, 0.2], [0.3, 0.7]], [[0.9, 0.1], [0.8, 0.2]]
    >>> rows = np.array([[first, stays, np.flip(stays)]])
    >>> channel = bf.build.SequentialConfusion(rows, bf.Sequences.from_lengths([3]))
    >>> channel.confusion((np.log(rows),), 2, np).round(2).tolist()
    [[[0.63, 0.37], [0.4, 0.6]]]
    """

    declared = (
        Parameter("sequential_confusion", SIMPLEX, ("rater", "previous", "class", "answer")),
    )
    needs = ("sequences",)
    capabilities = Capabilities(
        compiled=SweepKernels(count_in_chain, likelihood=likelihood_in_chain), by_rater=()
    )

    def __init__(
        self, sequential_confusion: Any, sequences: Sequences, shares: ArrayLike | None = None
    ) -> None:
        self.parameters = {"sequential_confusion": sequential_confusion}
        self.sequences = sequences
        self.shares = None if shares is None else np.asarray(shares, dtype=float)

    @staticmethod
    def shares_in(responses: Responses, sequences: Sequences) -> Array:
        """Return the share of every previous answer (classes + 1) by class of the majority vote."""
        previous, _ = previous_labels(sequences, responses)
        best = responses.votes().argmax(axis=1)[responses.item]
        counts = np.zeros((responses.n_classes + 1, responses.n_classes))
        np.add.at(counts, (previous + 1, best), 1.0)
        return shares(counts.T, 1 / len(counts)).T

    def kinds(self, responses):
        return None  # the likelihood of an item depends on the responses to another

    def settings(self):
        return {} if self.shares is None else {"shares": self.shares.tolist()}

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"previous": responses.n_classes + 1}

    def expand(self, values, n_classes, xp):
        return (values[0].reshape((-1, n_classes, n_classes)),)

    def collapse(self, counts):
        n_classes = counts[0].shape[-1]
        return (counts[0].reshape(-1, n_classes + 1, n_classes, n_classes),)

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        previous, _ = previous_labels(self.sequences, responses)
        n_classes = responses.n_classes
        row = (responses.rater * (n_classes + 1) + previous + 1) * n_classes + responses.label
        n_cells = responses.n_raters * (n_classes + 1) * n_classes
        return *pair_up(responses.start, row.astype(np.uint32), n_cells), gold

    def confusion(self, tables, n_classes, xp):
        """Return the matrices of every rater, averaged over previous answers."""
        rows = xp.exp(tables[0]).reshape((-1, n_classes + 1, n_classes, n_classes))
        equal = np.full((n_classes + 1, n_classes), 1 / (n_classes + 1))
        share = equal if self.shares is None else self.shares
        return (rows * share[..., None]).sum(axis=1)

    def simulate(self, tables, truth, responses, rng):
        n_classes = responses.n_classes
        cumulative = np.exp(tables[0]).cumsum(axis=-1)
        item, rater = responses.item, responses.rater
        _, before = previous_labels(self.sequences, responses)
        pair = np.unique(item * responses.n_raters + rater, return_inverse=True)[1]
        previous = np.full(len(pair) + 1, -1)  # by item and rater; the last one is for none
        place = positions_of(self.sequences, responses.items)
        label = np.empty(len(item), dtype=np.int64)
        turn = place[item]
        order = np.argsort(turn, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(turn[order])) + 1):
            matrix = rater[rows] * (n_classes + 1) + previous[before[rows]] + 1
            label[rows] = draw_columns(cumulative[matrix, truth[item[rows]]], rng)
            np.maximum.at(previous, pair[rows], label[rows])
        return label
