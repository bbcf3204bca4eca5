"""Votes that nearly copy each other, and how far votes are from being independent."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.raters.votes import NOBODY, Votes, per_item

ALIKE = 0.5
"""Two votes are near copies if they meet on more than this share of the items of either."""

SURE = 3.0
"""Standard deviations above what independent sources without errors would have in common."""

ITEMS = 10_000
"""Items from which dispersion is found, or a trifle would become a doubt in a large table."""

BLOCK = 1 << 22
"""Pairs of votes that are compared at a time."""


def columns(responses: Responses, shares: Array) -> NDArray[np.int64]:
    r"""Number the votes that occur (raters, labels), near copies alike; −1 for labels never given.

    Independent sources agree at most as often as sources without errors, on
    :math:`n_i n_j / (N \pi_k)` items. Votes for one label that agree much more often, on most of
    their items, are copies. ``shares`` (classes,) are the class shares of the items.
    """
    column = numbered(responses, np.arange(responses.n_raters))
    votes = Votes(None, column)
    label = votes.label_of
    met = _meetings(votes, responses).tocoo()
    number = votes.numbers(responses)
    one, other, both = met.row, met.col, met.data
    expected = number[one] * number[other] / responses.multiplicity.sum() / shares[label[one]]
    either = number[one] + number[other] - both
    copies = (label[one] == label[other]) & (both > ALIKE * either)
    copies &= both - expected > SURE * np.sqrt(np.maximum(expected, 1.0))
    pairs = scipy.sparse.coo_array(
        (np.ones(copies.sum()), (one[copies], other[copies])), shape=(len(label), len(label))
    )
    _, group = scipy.sparse.csgraph.connected_components(pairs, directed=False)
    return np.where(column == NOBODY, NOBODY, group[column])


def numbered(responses: Responses, group: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the votes that occur, (raters, labels); sources of one group (raters,) share them."""
    n_raters, n_classes = responses.n_raters, responses.n_classes
    given = np.zeros(n_raters * n_classes, dtype=bool)
    given[responses.cell] = True
    vote = (group[:, None] * n_classes + np.arange(n_classes)).ravel()
    column = np.full(given.size, NOBODY)
    column[given] = np.unique(vote[given], return_inverse=True)[1]
    return column.reshape(n_raters, n_classes)


def dispersion(votes: Votes, responses: Responses, share: Array, probability: Array) -> float:
    """Return the mean over pairs of :math:`(O - E)^2 / E`, about one for independent sources.

    O is the number of items with both votes, E its expectation given the classes, from the
    ``share`` of the votes in every class (classes, votes) and the label probabilities (items,
    classes). See McCullagh & Nelder (1989), Generalized Linear Models, section 4.5.
    """
    met = _meetings(votes, responses)
    number = per_item(votes.rows(responses)[0]).astype(float)
    pairs = (responses.multiplicity * number * (number - 1.0)) @ probability
    # who has spoken on an item does not speak again; near copies count as the first of them
    speaker = np.zeros(votes.n_votes, dtype=np.int64)
    source, label = (each[::-1] for each in np.nonzero(votes.column != NOBODY))
    speaker[votes.column[source, label]] = source
    own = np.stack([np.bincount(speaker, row, len(votes.column)) for row in share])
    again = (own**2).sum(axis=1)
    weight = pairs / np.maximum(1.0 - again, 0.01)
    total, n_pairs = 0.0, 0
    step = max(BLOCK // votes.n_votes, 1)
    for first in range(0, votes.n_votes, step):
        block = slice(first, min(first + step, votes.n_votes))
        expected = (share[:, block].T * weight) @ share
        observed = met[block].toarray()
        # every pair once, and none of two labels of one source
        counted = np.triu(np.ones(expected.shape, dtype=bool), first + 1)
        counted &= speaker[block, None] != speaker
        gap = (observed - expected) ** 2 / np.maximum(expected, 1.0)
        total += float(gap[counted].sum())
        n_pairs += int(counted.sum())
    return total / n_pairs if n_pairs else 1.0


def _meetings(votes: Votes, responses: Responses) -> scipy.sparse.csr_array:
    """Return on how many items every pair of votes meets, (votes, votes), zero with itself."""
    start, vote = votes.rows(responses)
    ones = np.ones(len(vote))
    shape = responses.n_items, votes.n_votes
    said = scipy.sparse.csr_array(
        (ones, vote.astype(np.int64), start.astype(np.int64)), shape=shape
    )
    copies = np.repeat(responses.multiplicity, per_item(start)).astype(float)
    weighed = scipy.sparse.csr_array((copies, said.indices, said.indptr), shape=said.shape)
    met = scipy.sparse.csr_array(said.T @ weighed)
    met.setdiag(0.0)
    met.eliminate_zeros()
    return met
