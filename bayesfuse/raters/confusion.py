"""One confusion matrix per rater, the channel of Dawid and Skene, or one with tied entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import TINY, apply_gold, fill, inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.parameters.capabilities import Capabilities, SweepKernels
from bayesfuse.parameters.contract import Parameter, Role
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.simplex import PROBABILITY, SIMPLEX
from bayesfuse.raters.base import RaterChannel

# Products take classes in blocks of four and two: the compiler keeps four of them in registers,
# while a loop over a run-time number of classes takes up to three times as long. Rows have unsigned
# indices, which need no test for negative ones.

HUGE = 1 / TINY  # a product above this may overflow


@inner
def by_cell(log_confusion, n_more):
    """Turn (rater, class, label) into ((rater, label), class) and more rows, not filled in."""
    n_raters, n_classes, n_labels = log_confusion.shape
    n_rows = n_raters * n_labels + n_more
    table, log_table = np.empty((n_rows, n_classes)), np.empty((n_rows, n_classes))
    for m in range(n_raters):
        for k in range(n_classes):
            for c in range(n_labels):
                log_table[m * n_labels + c, k] = log_confusion[m, k, c]
                table[m * n_labels + c, k] = math.exp(log_confusion[m, k, c])
    return table, log_table


@inner
def by_rater(table, n_raters):
    """Rearrange ((rater, label), class) to (rater, class, label)."""
    n_labels, n_classes = table.shape[0] // n_raters, table.shape[1]
    confusion = np.empty((n_raters, n_classes, n_labels))
    for m in range(n_raters):
        for k in range(n_classes):
            for c in range(n_labels):
                confusion[m, k, c] = table[m * n_labels + c, k]
    return confusion


@inlined
def by_cell_and_pair(log_confusion, pair):
    """As :func:`by_cell`, with the products of pairs of cells in more rows."""
    table, log_table = by_cell(log_confusion, pair.shape[0])
    n_cells, n_classes = table.shape[0] - pair.shape[0], table.shape[1]
    for k in range(n_classes):
        for p in range(pair.shape[0]):
            one, other = pair[p, 0], pair[p, 1]
            table[n_cells + p, k] = table[one, k] * table[other, k]
            log_table[n_cells + p, k] = log_table[one, k] + log_table[other, k]
    return table, log_table


@kernel
def likelihood(log_confusion, start, row, pair, gold):
    """Multiply over the responses to every item: (items, classes), and the rows' log scale."""
    table, log_table = by_cell_and_pair(log_confusion, pair)
    product, in_logs = multiply(table, log_table, start, row)
    return scaled(product, in_logs, gold, 0.0)


@inlined
def scaled(product, in_logs, gold, log_begin):
    """Exclude classes by ``gold`` and exponentiate logarithms; return products and log scale."""
    log_scale = np.full(gold.size, log_begin)
    for n in range(gold.size):
        apply_gold(product, n, gold[n], -np.inf if in_logs[n] else 0.0)
        if in_logs[n]:
            log_scale[n] += rescale(product, n)
    return product, log_scale


@inner
def multiply(table, log_table, start, cell, log_begin=None):
    """Multiply the rows of every item by ``log_begin`` (classes,); return which are in logarithms.

    Products that lost digits are replaced by their logarithms. An entry of ``log_table`` may be
    zero instead of the logarithm of a positive ``table`` entry.
    """
    n_items, n_classes = start.size - 1, table.shape[1]
    log_begin = np.zeros(n_classes) if log_begin is None else log_begin
    begin = np.exp(log_begin)
    product, in_logs = np.empty((n_items, n_classes)), np.empty(n_items, dtype=np.bool_)
    for n in range(n_items):
        first, last = start[n], start[n + 1]
        sound, k = True, 0
        while k + 4 <= n_classes:
            p0, p1, p2, p3 = begin[k], begin[k + 1], begin[k + 2], begin[k + 3]
            for r in range(first, last):
                row = cell[r]
                p0 *= table[row, k]
                p1 *= table[row, k + 1]
                p2 *= table[row, k + 2]
                p3 *= table[row, k + 3]
            product[n, k], product[n, k + 1], product[n, k + 2], product[n, k + 3] = p0, p1, p2, p3
            # also false for NaN
            sound &= min(p0, p1, p2, p3) >= TINY and max(p0, p1, p2, p3) <= HUGE
            k += 4
        while k + 2 <= n_classes:
            p0, p1 = begin[k], begin[k + 1]
            for r in range(first, last):
                row = cell[r]
                p0 *= table[row, k]
                p1 *= table[row, k + 1]
            product[n, k], product[n, k + 1] = p0, p1
            sound &= p0 >= TINY and p0 <= HUGE and p1 >= TINY and p1 <= HUGE
            k += 2
        if k < n_classes:
            p0 = begin[k]
            for r in range(first, last):
                p0 *= table[cell[r], k]
            product[n, k] = p0
            sound &= p0 >= TINY and p0 <= HUGE
        in_logs[n] = not sound
        if not sound:
            for k in range(n_classes):
                product[n, k] = log_begin[k]
                for r in range(first, last):
                    row = cell[r]
                    entry = log_table[row, k]
                    product[n, k] += entry if entry != 0.0 else math.log(table[row, k])
    return product, in_logs


@inlined
def without_pairs(counts, pair, n_raters):
    """Add the counts of pairs to both cells, and return (raters, classes, labels)."""
    n_cells, n_classes = counts.shape[0] - pair.shape[0], counts.shape[1]
    for k in range(n_classes):
        for p in range(pair.shape[0]):
            used = counts[n_cells + p, k]
            counts[pair[p, 0], k] += used
            counts[pair[p, 1], k] += used
    return by_rater(counts[:n_cells], n_raters)


@kernel
def expected(log_confusion, labels, start, row, pair, gold):
    """Count responses by rater, truth and label; ``labels`` as for :func:`weigh_rows`."""
    n_raters, n_classes, n_labels = log_confusion.shape
    n_rows = n_raters * n_labels + pair.shape[0]
    return (without_pairs(weigh_rows(n_rows, n_classes, labels, start, row), pair, n_raters),)


@inner
def weigh_rows(n_rows, n_classes, labels, start, cell):
    """Sum the items of every row by class (rows, classes): labels (items,), or weights by class."""
    counts = np.zeros((n_rows, n_classes))
    for n in range(start.size - 1):
        label = labels[n] if labels.ndim == 1 else 0
        for r in range(start[n], start[n + 1]):
            row = cell[r]
            if labels.ndim == 1:
                counts[row, label] += 1.0
            else:
                for k in range(n_classes):
                    counts[row, k] += labels[n, k]
    return counts


@inner
def likelihood_in_chain(tables, structure, n_classes):
    """See :class:`SweepKernels`."""
    return likelihood(tables[0], *structure)


@inner
def count_in_chain(tables, drawn, counts, structure, n_classes):
    """See :class:`SweepKernels`."""
    fill(counts[0], expected(tables[0], drawn, *structure)[0])


# Where the same pairs of responses recur, their products are computed once per sweep: an item of
# ten responses then has five rows.

OFTEN = 24
"""Least mean number of occurrences of a pair.

With fewer, filling in the table takes the time that half as many look-ups save. It is all pairs or
none: a mixture of five and ten rows is slower than ten, because of mispredicted branches.
"""


def pair_up(
    start: NDArray[np.uint32], cell: NDArray[np.uint32], n_cells: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the first row of every item, the rows, and the pairs of cells (pairs, 2).

    Item ``n`` has the responses ``cell[start[n]:start[n + 1]]``. Rows are cells, or from
    ``n_cells`` pairs of cells; there are no pairs if these are rare.
    """
    none = start, cell, np.empty((0, 2), dtype=np.uint32)
    if n_cells**2 > len(cell):  # possible pairs would outnumber the responses
        return none
    # one byte per response, because memory use is near its peak here
    second = np.repeat(start[:-1] % 2 == 1, np.diff(start))
    second[1::2] ^= True  # whether a response is the second of a pair
    key = cell[:-1][second[1:]]
    key *= n_cells
    key += cell[second]
    met = np.bincount(key) > 0
    if OFTEN * met.sum() > len(key):
        return none
    row = cell.copy()
    row[:-1][second[1:]] = (np.cumsum(met, dtype=np.uint32) + (n_cells - 1))[key]
    rows_before = np.zeros(len(cell) + 1, dtype=np.uint32)
    np.cumsum(~second, out=rows_before[1:])
    pair = np.stack(np.divmod(np.flatnonzero(met), n_cells), axis=1)
    return rows_before[start], row[~second], pair.astype(np.uint32)


class Confusion(RaterChannel):
    r"""One confusion matrix per rater; responses are independent given the truth.

    See Dawid & Skene (1979), Applied Statistics 28, 20–28, eq. 2.1.

    Parameters
    ----------
    confusion : tensor or array, shape (raters, classes, labels)
        :math:`\theta_{mkc}`, the probability that rater m answers c if the truth is k.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 1], [1, 1]])
    >>> channel = bf.build.Confusion([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]]])
    >>> structure = channel.structure(responses, gold=np.array([-1, -1]))
    >>> np.exp(channel.log_lik((np.log(channel.parameters["confusion"]),), structure)).round(2)
    array([[0.36, 0.1 ],
           [0.04, 0.4 ]])
    """

    declared = (Parameter("confusion", SIMPLEX, ("rater", "class", "answer"), Role.ANSWERS),)
    capabilities = Capabilities(
        compiled=SweepKernels(count_in_chain, likelihood=likelihood_in_chain),
        exchangeable=True,
        independent=True,
        free_rows=True,
    )
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)

    def __init__(self, confusion: Any) -> None:
        self.parameters = {"confusion": confusion}

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        n_cells = responses.n_raters * responses.n_classes
        return *pair_up(responses.start, responses.cell, n_cells), gold

    def sample_counts(self, tables, drawn, structure, rng):
        return type(self).expected_kernel(*tables, drawn, *structure)

    def confusion(self, tables, n_classes, xp):
        return xp.exp(tables[0])

    def from_truth(self, rows):
        # a mixture of tied rows is not tied
        return {self.declared[0].name: slice(None)} if self.capabilities.free_rows else {}

    def simulate(self, tables, truth, responses, rng):
        up_to = self.confusion(tables, responses.n_classes, np).cumsum(axis=-1)
        cumulative = up_to[responses.rater, truth[responses.item]]
        return draw_columns(cumulative, rng)


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
def tied_likelihood_in_chain(tables, structure, n_classes):
    """See :class:`SweepKernels`."""
    return likelihood(tied(tables[0], n_classes), *structure)


@inner
def tied_count_in_chain(tables, drawn, counts, structure, n_classes):
    """Count right and wrong responses (raters, 1 or classes, 2)."""
    (confusion,) = expected(tied(tables[0], n_classes), drawn, *structure)
    right_wrong, last = counts[0], counts[0].shape[1] - 1
    for m in range(right_wrong.shape[0]):
        for k in range(right_wrong.shape[1]):
            right_wrong[m, k, 0] = right_wrong[m, k, 1] = 0.0
        for k in range(n_classes):
            for c in range(n_classes):
                right_wrong[m, min(k, last), np.int64(c != k)] += confusion[m, k, c]


class OneCoin(Confusion):
    r"""One accuracy per rater (and class), with uniform errors (Raykar et al., 2010, JMLR 11).

    Parameters
    ----------
    accuracy : tensor or array, shape (raters,) or (raters, classes)
        Probability of the right label, per rater or per rater and true class (the
        class-conditional model); the other labels are equally probable.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> channel = bf.build.OneCoin(accuracy=np.array([0.9, 0.7]))
    >>> rows = np.log([[0.9, 0.1], [0.7, 0.3]])
    >>> np.exp(channel.expand((rows,), n_classes=3, xp=np)[0])[1].round(2)
    array([[0.7 , 0.15, 0.15],
           [0.15, 0.7 , 0.15],
           [0.15, 0.15, 0.7 ]])
    """

    declared = (Parameter("accuracy", PROBABILITY, ("rater",)),)
    capabilities = Capabilities(
        compiled=SweepKernels(tied_count_in_chain, likelihood=tied_likelihood_in_chain, axes=3),
        independent=True,
    )

    def __init__(self, accuracy: Any) -> None:
        self.parameters = {"accuracy": accuracy}
        self.by_class = np.ndim(accuracy) == 2
        if self.by_class:
            self.declared = (Parameter("accuracy", PROBABILITY, ("rater", "class")),)

    def expand(self, log_rows, n_classes, xp):
        (rows,) = log_rows  # (raters, 2) or (raters, classes, 2)
        if rows.ndim == 2:
            rows = rows[:, None, :]
        right, wrong = rows[..., 0, None], rows[..., 1, None] - np.log(n_classes - 1)
        diagonal = np.eye(n_classes, dtype=bool)
        return (xp.where(diagonal, right, wrong),)  # (raters, classes, labels)

    def collapse(self, counts):
        (confusion,) = counts
        right = np.diagonal(confusion, axis1=1, axis2=2)
        by_class = np.stack([right, confusion.sum(axis=2) - right], axis=-1)
        return (by_class if self.by_class else by_class.sum(axis=1),)
