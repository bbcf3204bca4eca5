"""Votes given their number: the channel of sources that speak on few items only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import of_pairs
from bayesfuse.errors import ModelError, require_shape
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns
from bayesfuse.parameters.capabilities import Capabilities
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.factor import Integers, Structure, Tables
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.abstaining import known_pairs
from bayesfuse.raters.confusion import Confusion, pair_up

NO_VOTE = -1  # column of a label that its source never gives
MIN_SHARE = 1e-12  # smaller shares are rounded up, so that all votes can be drawn


class Alternatives(NamedTuple):
    """Items of votes, rows of responses that are votes, the vote of each, and shares.

    Shares (classes, votes, labels) are of the labels that the sources of a vote have in common.
    """

    item: Integers
    row: Integers
    vote: Integers
    share: Array


class Votes(Confusion):
    r"""The votes of sources that are mostly silent, given how many there are.

    The votes on an item are drawn from those that items of its class get:

    .. math:: p(x_n \mid y_n = k, \text{number of votes}) = \prod_{v \in x_n} \psi_{kv}

    So silence is not evidence, and silent sources take no computation. Votes are drawn with
    replacement, so the likelihood sums to one over items with one vote, and nearly so if votes are
    rare.

    Parameters
    ----------
    vote_share : tensor or array, shape (classes, votes)
        :math:`\psi_{kv}`, the share of vote v among the votes on items of class k.
    column : array of int, shape (raters, labels)
        Number of the vote, from 0, if a source gives a label; −1 for none. Votes
        of one column count once per item: near copies share one.

    Notes
    -----
    Predictive draws keep which sources spoke where; truths are drawn given that. Simulated tables
    keep the number of votes on every item, each given by all of its sources.

    Examples
    --------
    A rule for label 0, and two near copies for label 1 that count once:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, -1, -1], [-1, 1, 1]])
    >>> channel = bf.build.Votes([[0.8, 0.2], [0.3, 0.7]], column=[[0, -1], [-1, 1], [-1, 1]])
    >>> channel.vote_matrix(responses).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    declared = (Parameter("vote_share", SIMPLEX, ("class", "vote")),)
    capabilities = Capabilities(takes=("silence",), by_rater=())

    def __init__(self, vote_share: Any, column: ArrayLike) -> None:
        self.parameters = {"vote_share": vote_share}
        self.column = np.asarray(column, dtype=np.int64)
        self.n_votes = int(self.column.max(initial=NO_VOTE)) + 1

    @classmethod
    def rebuild_for(cls, values, settings, raters):
        column = np.asarray(settings["column"])
        return cls(
            values[cls.declared[0].name], np.where((raters >= 0)[:, None], column[raters], NO_VOTE)
        )

    def settings(self):
        return {"column": self.column.tolist()}

    @property
    def density(self):
        columns = fingerprint.of_arrays([self.column])  # which votes count once per item
        return f"the votes on every item, given their number (columns {columns})"

    def check(self, shapes, responses):
        sizes = {"raters": responses.n_raters, "classes": responses.n_classes}
        require_shape("column", self.column.shape, **sizes)
        if self.n_votes == 0:
            raise ModelError("Some source must give some label. Got: -1 in all of column.")
        super().check(shapes, responses)

    def sizes(self, name, shape, responses):
        return super().sizes(name, shape, responses) | {"vote": self.n_votes}

    @property
    def label_of(self) -> Integers:
        """The label of every vote, shape (votes,)."""
        label = np.zeros(self.n_votes, dtype=np.int64)
        has_vote = self.column != NO_VOTE
        label[self.column[has_vote]] = np.nonzero(has_vote)[1]
        return label

    def numbers(self, responses: Responses) -> Array:
        """Return the number of items with every vote, shape (votes,)."""
        return self.vote_matrix(responses).T @ responses.multiplicity.astype(float)

    def by_class(self, responses: Responses, known: Integers) -> Array:
        """Count the votes on items of known class (−1 for others), shape (votes, classes)."""
        is_class = known[:, None] == np.arange(responses.n_classes)
        return self.vote_matrix(responses).T @ (
            is_class * responses.multiplicity[:, None].astype(float)
        )

    def vote_matrix(self, responses: Responses) -> Any:
        """Return which votes every item has, a sparse array (items, votes) of zeros and ones."""
        start, vote = self.rows(responses)
        entries = np.ones(len(vote)), vote.astype(np.int64), start.astype(np.int64)
        return scipy.sparse.csr_array(entries, shape=(responses.n_items, self.n_votes))

    def rows(self, responses: Responses) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the different votes of every item: item n has ``vote[start[n]:start[n + 1]]``."""
        vote = self.column.ravel()[responses.cell]
        has_vote = vote != NO_VOTE
        key = responses.item[has_vote] * self.n_votes + vote[has_vote]
        key.sort(kind="stable")  # rows are in the order of items, which `unique` does not know
        key = key[np.append(True, key[1:] != key[:-1])] if len(key) else key
        start = np.searchsorted(key, np.arange(responses.n_items + 1) * self.n_votes)
        return start.astype(np.uint32), (key % self.n_votes).astype(np.uint32)

    def structure(self, responses: Responses, gold: Integers) -> Structure:
        return *pair_up(*self.rows(responses), self.n_votes), gold

    def expand(self, log_rows, n_classes, xp):
        return (log_rows[0][None],)  # as one rater with all votes

    def collapse(self, counts):
        return (counts[0][0],)

    def from_truth(self, rows):
        return {"vote_share": None}  # one matrix, as if it had a first axis

    def confusion(self, tables, n_classes, xp):
        share = xp.exp(tables[0][0])[:, np.maximum(self.column, 0)]  # (classes, raters, labels)
        share = share * (self.column != NO_VOTE) + MIN_SHARE
        return (share / share.sum(axis=-1, keepdims=True)).swapaxes(0, 1)

    def votes(self, responses):
        return self.vote_matrix(responses) @ np.eye(responses.n_classes)[self.label_of]

    def simulate(self, tables, truth, responses, rng):
        votes = self._alternatives(tables, responses)
        number = np.arange(len(votes.item))
        up_to = votes.share[truth[votes.item], number].cumsum(axis=-1)
        label = responses.label
        label[votes.row] = draw_columns(up_to, rng)[votes.vote]
        return label

    def fixed_feature_likelihood(self, tables, responses):
        votes = self._alternatives(tables, responses)
        log_weight = np.zeros((responses.n_items, responses.n_classes))
        np.add.at(log_weight, votes.item, np.log(votes.share.sum(axis=-1)).T)
        return np.exp(log_weight - log_weight.max(axis=1, keepdims=True))

    def _alternatives(self, tables: Tables, responses: Responses) -> Alternatives:
        number = self.column.ravel()[responses.cell]
        row = np.flatnonzero(number != NO_VOTE)
        key = responses.item[row] * self.n_votes + number[row]
        key, first, vote = np.unique(key, return_index=True, return_inverse=True)
        column = self.column[responses.rater[row]]  # (rows, labels)
        together = np.ones((len(key), responses.n_classes), dtype=bool)
        np.logical_and.at(together, vote, column == column[first][vote])
        together &= column[first] != NO_VOTE
        share = np.maximum(np.exp(tables[0][0]), MIN_SHARE)[:, column[first]] * together
        return Alternatives(key // self.n_votes, row, vote, share)

    def redraw_fixed_features(self, tables, truth, responses, rng):
        left = np.diff(self.rows(responses)[0]).astype(np.int64)
        log_share = np.log(np.maximum(np.exp(tables[0][0]), MIN_SHARE))  # (classes, votes)
        # up_to[v, k, j]: log of the summed products of all sets of j of the votes from v on
        up_to = np.full((self.n_votes + 1, len(log_share), left.max(initial=0) + 1), -np.inf)
        up_to[:, :, 0] = 0.0
        for v in range(self.n_votes)[::-1]:
            up_to[v, :, 1:] = np.logaddexp(
                up_to[v + 1, :, 1:], log_share[:, v, None] + up_to[v + 1, :, :-1]
            )
        chosen = np.zeros((responses.n_items, self.n_votes), dtype=bool)
        for v in range(self.n_votes):
            with_v = log_share[truth, v] + up_to[v + 1, truth, left - 1] - up_to[v, truth, left]
            chosen[:, v] = (left > 0) & (rng.random(len(left)) < np.exp(with_v))
            left -= chosen[:, v]
        return self.from_response_codes(responses, chosen.nonzero()[1])

    def response_codes(self, responses):
        start, vote = self.rows(responses)
        owner = np.repeat(np.arange(responses.n_items), np.diff(start))
        return owner, vote.astype(np.int64), self.n_votes

    def from_response_codes(self, responses, codes):
        return self.with_votes(responses, self.response_codes(responses)[0], codes)

    def with_votes(self, responses: Responses, item: Integers, vote: Integers) -> Responses:
        """Return the table in which items get these votes, from all of their sources."""
        n_cells, silent = self.column.size, responses.silent
        one, cell = np.nonzero(vote[:, None] == self.column.ravel())
        key = responses.item * n_cells + responses.cell
        ignored = self.column.ravel()[responses.cell] == NO_VOTE
        new = np.append(item[one] * n_cells + cell, key[ignored])
        if silent is not None and not silent.complete:
            known_item, rater, _ = known_pairs(responses)
            known = known_item * responses.n_raters + rater
            mute = np.setdiff1d(known, new // responses.n_classes)
            silent = of_pairs(mute, responses.n_items, responses.n_raters)
        owner, cell = np.divmod(new, n_cells)
        return responses.with_rows(owner, *np.divmod(cell, responses.n_classes), silent=silent)
