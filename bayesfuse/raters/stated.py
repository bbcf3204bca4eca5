"""Sources that state probabilities, beside sources that name a class."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import TINY, inlined, inner, kernel
from bayesfuse.numerics.rows import invert, pick, share_out
from bayesfuse.raters.confusion import (
    Confusion,
    by_cell,
    by_cell_and_pair,
    multiply,
    scaled,
    weigh_rows,
    without_pairs,
)

# The likelihood of a statement is a mean of the rater's columns, taken when it is used, so work is
# linear in hard rows and statements.


@inlined
def mean_of(table, first, said, k):
    """Return the probability of a statement, up to a constant, if the truth is k."""
    total = 0.0
    for c in range(said.size):
        total += table[first + c, k] * said[c]
    return total


@inner
def log_mean_of(log_table, first, said, k):
    """Return the logarithm of :func:`mean_of`, also where the table underflows."""
    top = -np.inf
    for c in range(said.size):
        if said[c] > 0.0:
            top = max(top, log_table[first + c, k] + math.log(said[c]))
    if top == -np.inf:
        return top
    total = 0.0
    for c in range(said.size):
        if said[c] > 0.0:
            total += math.exp(log_table[first + c, k] + math.log(said[c]) - top)
    return top + math.log(total)


@inner
def answers(share, table, log_table, first, said, k):
    """Fill in how probable every hidden answer is if the truth is k; return whether any is."""
    total = mean_of(table, first, said, k)
    if total >= TINY:
        for c in range(said.size):
            share[c] = table[first + c, k] * said[c] / total
        return True
    log_total = log_mean_of(log_table, first, said, k)
    for c in range(said.size):
        share[c] = 0.0
        if said[c] > 0.0 and log_total > -np.inf:
            share[c] = math.exp(log_table[first + c, k] + math.log(said[c]) - log_total)
    return log_total > -np.inf


@kernel
def likelihood(log_confusion, start, row, pair, stated, who, said, gold):
    """Multiply over responses and statements: (items, classes), and the rows' log scale."""
    _, n_classes, n_labels = log_confusion.shape
    table, log_table = by_cell_and_pair(log_confusion, pair)
    found, in_logs = multiply(table, log_table, start, row)
    for n in range(gold.size):
        first, last = np.int64(stated[n]), np.int64(stated[n + 1])
        if not in_logs[n]:
            for r in range(first, last):
                for k in range(n_classes):
                    found[n, k] *= mean_of(table, np.int64(who[r]) * n_labels, said[r], k)
                    in_logs[n] |= found[n, k] < TINY
            if in_logs[n]:  # digits were lost: once more, in logarithms
                for k in range(n_classes):
                    found[n, k] = 0.0
                    for r in range(start[n], start[n + 1]):
                        found[n, k] += log_table[row[r], k]
        if in_logs[n]:
            for r in range(first, last):
                for k in range(n_classes):
                    begin = np.int64(who[r]) * n_labels
                    found[n, k] += log_mean_of(log_table, begin, said[r], k)
    return scaled(found, in_logs, gold, 0.0)


@kernel
def count(log_confusion, given, rng, start, row, pair, stated, who, said, gold):
    """Count responses and hidden answers, drawn by an ``rng``; ``given`` as for `weigh_rows`."""
    n_raters, n_classes, n_labels = log_confusion.shape
    n_cells = n_raters * n_labels
    table, log_table = by_cell(log_confusion, 0)
    counts = weigh_rows(n_cells + pair.shape[0], n_classes, given, start, row)
    share, parts = np.empty(n_labels), np.empty(n_labels)
    for n in range(gold.size):
        for r in range(np.int64(stated[n]), np.int64(stated[n + 1])):
            first = np.int64(who[r]) * n_labels
            if given.ndim == 1:
                k, left = given[n], rng.random()
                if answers(share, table, log_table, first, said[r], k):
                    counts[first + pick(share, left), k] += 1.0
                continue
            for k in range(n_classes):
                own = given[n, k]
                if own != 0.0 and answers(share, table, log_table, first, said[r], k):
                    share_out(own, share, 1.0, rng, parts)
                    for c in range(n_labels):
                        counts[first + c, k] += parts[c]
    return without_pairs(counts, pair, n_raters)


@kernel
def expected(log_confusion, weight, *structure):
    """Sum the weights of every item into responses and hidden answers (raters, classes, labels)."""
    return (count(log_confusion, weight, None, *structure),)


class Stated(Confusion):
    r"""Sources that state probabilities of the classes, each with its own calibration.

    A source has a hidden answer c, which follows its confusion row, and about which the
    probabilities :math:`\hat p` that it states are right:

    .. math:: p(\hat p_{nm} \mid y_n = k) \propto \sum_c \theta_{mkc}\, \hat p_{nmc}

    So a statement of zeros and a one is a hard label, as of :class:`Confusion` (a source may give
    both), and a uniform statement is uninformative. The identity :math:`\theta_m` takes statements
    at face value; flat rows discount an overconfident source.

    Parameters
    ----------
    confusion : tensor or array, shape (raters, classes, labels)
        :math:`\theta_{mkc}`, the probability that source m answers c, hidden or not, if the truth
        is k.

    Notes
    -----
    The rows can flatten statements, or exchange classes, but not sharpen them. Several statements
    by one source on one item each have a hidden answer.

    A statement is evidence beside the prevalence, as a response is. Probabilities that a classifier
    computed with a prevalence count it twice; where classes are of very unequal size, divide them
    by that prevalence first, and by their sum.

    Predictive draws keep statements and draw hard labels, given truths drawn given the statements.
    Calibration (``bf.testing.simulate``) keeps the numbers of every statement and rotates them
    among the classes.

    Examples
    --------
    A classifier that is right in three of four cases, sure of class 0, then unsure:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_probabilities([[[1.0, 0.0]], [[0.8, 0.2]], [[0.5, 0.5]]])
    >>> rows = [[[0.75, 0.25], [0.25, 0.75]]]
    >>> channel = bf.Stated(rows)
    >>> structure = channel.structure(responses, gold=np.array([-1, -1, -1]))
    >>> np.exp(channel.log_lik((np.log(rows),), structure)).round(3)
    array([[0.75, 0.25],
           [0.65, 0.35],
           [0.5 , 0.5 ]])
    """

    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    def require_statements(self, responses: Responses) -> None:
        """Accept tables with and without statements."""

    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        *hard, gold = super().structure(responses, gold)
        if (stated := responses.stated) is None:
            nothing = np.zeros(responses.n_items + 1, dtype=np.uint32)
            soft = nothing, nothing[:0], np.empty((0, responses.n_classes))
        else:
            soft = stated.start, stated.rater, np.ascontiguousarray(stated.probability)
        return *hard, *soft, gold

    def tally(self, tables, drawn, structure, rng):
        return (count(*tables, drawn, rng, *structure),)

    def kept(self, tables, responses):
        """Return the likelihood of the statements, (items, classes)."""
        if responses.stated is None:
            return None
        nothing = np.zeros(responses.n_items + 1, dtype=np.uint32)
        soft = replace(responses, start=nothing, cell=responses.cell[:0])
        unknown = np.full(responses.n_items, -1)
        found, _ = likelihood(*tables, *self.structure(soft, unknown))
        return found

    def redrawn(self, tables, truth, responses, rng):
        table = super().redrawn(tables, truth, responses, rng)
        if (stated := responses.stated) is None:
            return table
        up_to = np.exp(tables[0]).cumsum(axis=-1)[stated.rater, truth[stated.item]]
        answer = invert(up_to, rng.random(len(up_to)))
        chosen = invert(stated.probability.cumsum(axis=1), rng.random(len(up_to)))
        return moved(table, chosen - answer)

    def outcomes(self, responses, item):
        if responses.stated is None:
            yield from super().outcomes(responses, item)
            return
        own = responses.stated.item == item
        for hard in super().outcomes(responses, item):
            for steps in product(range(responses.n_classes), repeat=int(own.sum())):
                by = np.zeros(len(own), dtype=np.int64)
                by[own] = steps
                yield moved(hard, by)


def moved(responses: Responses, steps: NDArray[np.int64]) -> Responses:
    """Return the table with the numbers of every statement moved so many classes back."""
    stated: Any = responses.stated
    column = (np.arange(responses.n_classes) + steps[:, None]) % responses.n_classes
    probability = np.take_along_axis(stated.probability, column, axis=1)
    return replace(responses, stated=replace(stated, probability=probability))
