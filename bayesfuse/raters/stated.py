"""Sources that state probabilities, beside sources that name a class."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import TINY, inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import draw_columns, pick, share_out
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.factor import Integers, Structure
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
def mean_of(table, first, probability, k):
    """Return the probability of a statement, up to a constant, if the truth is k."""
    total = 0.0
    for c in range(probability.size):
        total += table[first + c, k] * probability[c]
    return total


@inner
def answers(share, table, log_table, first, probability, k):
    """Fill in how probable hidden answers (1, answers) are; return the log of :func:`mean_of`."""
    log_scale, total = 0.0, mean_of(table, first, probability, k)
    for c in range(probability.size):
        share[0, c] = table[first + c, k] * probability[c]
    if total < TINY:
        for c in range(probability.size):
            share[0, c] = (
                log_table[first + c, k] + math.log(probability[c])
                if probability[c] > 0.0
                else -np.inf
            )
        log_scale, total = rescale(share, 0), 0.0
        for c in range(probability.size):
            total += share[0, c]
    for c in range(probability.size):
        share[0, c] = share[0, c] / total if total > 0.0 else 0.0
    return log_scale + math.log(total) if total > 0.0 else -np.inf


@kernel
def likelihood(log_confusion, start, row, pair, stated, rater, probability, gold):
    """Multiply over responses and statements: (items, classes), and the rows' log scale."""
    _, n_classes, n_labels = log_confusion.shape
    table, log_table = by_cell_and_pair(log_confusion, pair)
    product, in_logs = multiply(table, log_table, start, row)
    share = np.empty((1, n_labels))
    for n in range(gold.size):
        first, last = np.int64(stated[n]), np.int64(stated[n + 1])
        if not in_logs[n]:
            for r in range(first, last):
                for k in range(n_classes):
                    begin = np.int64(rater[r]) * n_labels
                    product[n, k] *= mean_of(table, begin, probability[r], k)
                    in_logs[n] |= product[n, k] < TINY
            if in_logs[n]:  # digits were lost: once more, in logarithms
                for k in range(n_classes):
                    product[n, k] = 0.0
                    for r in range(start[n], start[n + 1]):
                        product[n, k] += log_table[row[r], k]
        if in_logs[n]:
            for r in range(first, last):
                for k in range(n_classes):
                    begin = np.int64(rater[r]) * n_labels
                    product[n, k] += answers(share, table, log_table, begin, probability[r], k)
    return scaled(product, in_logs, gold, 0.0)


@kernel
def count(log_confusion, labels, rng, start, row, pair, stated, rater, probability, gold):
    """Count responses and hidden answers, drawn by an ``rng``; ``labels`` as for `weigh_rows`."""
    n_raters, n_classes, n_labels = log_confusion.shape
    n_cells = n_raters * n_labels
    table, log_table = by_cell(log_confusion, 0)
    counts = weigh_rows(n_cells + pair.shape[0], n_classes, labels, start, row)
    share, parts = np.empty((1, n_labels)), np.empty(n_labels)
    for n in range(gold.size):
        for r in range(np.int64(stated[n]), np.int64(stated[n + 1])):
            first = np.int64(rater[r]) * n_labels
            if labels.ndim == 1:
                k, left = labels[n], rng.random()
                if answers(share, table, log_table, first, probability[r], k) > -np.inf:
                    counts[first + pick(share[0], left), k] += 1.0
                continue
            for k in range(n_classes):
                if labels[n, k] == 0.0:
                    continue
                if answers(share, table, log_table, first, probability[r], k) == -np.inf:
                    continue
                share_out(labels[n, k], share[0], 1.0, rng, parts)
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
    at face value; other rows flatten them or exchange classes, but cannot sharpen them.

    Parameters
    ----------
    confusion : tensor or array, shape (raters, classes, labels)
        :math:`\theta_{mkc}`, the probability that source m answers c, hidden or not, if the truth
        is k.

    Notes
    -----
    A statement is evidence beside the prevalence, as a response is. Probabilities that a classifier
    computed with a prevalence count it twice; where classes are of very unequal size, divide them
    by that prevalence first, and by their sum.

    Predictive draws keep statements and draw hard labels. Calibration (``bf.testing.simulate``)
    keeps the numbers of every statement and rotates them among the classes.

    Examples
    --------
    A classifier that is right in three of four cases, sure of class 0, then unsure:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_probabilities([[[1.0, 0.0]], [[0.5, 0.5]]])
    >>> channel = bf.build.Stated([[[0.75, 0.25], [0.25, 0.75]]])
    >>> structure = channel.structure(responses, gold=np.array([-1, -1]))
    >>> np.exp(channel.log_lik((np.log(channel.parameters["confusion"]),), structure)).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """

    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)
    capabilities = Capabilities(takes=("statements",), free_rows=True)

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        *hard, gold = super().structure(responses, gold)
        if (stated := responses.stated) is None:
            nothing = np.zeros(responses.n_items + 1, dtype=np.uint32)
            soft = nothing, nothing[:0], np.empty((0, responses.n_classes))
        else:
            soft = stated.start, stated.rater, np.ascontiguousarray(stated.probability)
        return *hard, *soft, gold

    def sample_counts(self, tables, drawn, structure, rng):
        return (count(*tables, drawn, rng, *structure),)

    def redraw_fixed_features(self, tables, truth, responses, rng):
        table = super().redraw_fixed_features(tables, truth, responses, rng)
        if (stated := responses.stated) is None:
            return table
        up_to = np.exp(tables[0]).cumsum(axis=-1)[stated.rater, truth[stated.item]]
        return self.state_about(table, draw_columns(up_to, rng), rng)
