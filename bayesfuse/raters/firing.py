"""Firing: the channel of sources whose silence is evidence, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesfuse.data import fingerprint
from bayesfuse.data.responses import from_key
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import PROBABILITY
from bayesfuse.raters import abstaining
from bayesfuse.raters.votes import LEAST, NOBODY, Votes


class Firing(Votes):
    r"""The votes of sources that were applied to all items: a vote is there or it is not.

    Votes are independent given the class, each with its rate of firing in every class:

    .. math:: p(x_n \mid y_n = k) = \prod_{v \in x_n} \theta_{vk}
              \prod_{v \notin x_n} (1 - \theta_{vk})

    So a class for which no source votes is recognised by silence. Work is linear in the votes.

    Parameters
    ----------
    firing : tensor or array, shape (votes, classes)
        :math:`\theta_{vk}`, the probability that an item of class k has vote v.
    column : array of int, shape (raters, labels)
        Which vote it is if a source gives a label, as in :class:`bayesfuse.build.Votes`.

    Notes
    -----
    Predictive draws keep the votes; truths are drawn given them.

    Examples
    --------
    Two rules for class 1; an item without a vote is probably of class 0:

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[1, -1], [-1, -1]], classes=[0, 1])
    >>> channel = bf.build.Firing([[0.1, 0.6], [0.2, 0.7]], column=[[-1, 0], [-1, 1]])
    >>> firing = np.array(channel.parameters["firing"])
    >>> rows = np.log(np.stack([firing, 1 - firing], axis=-1))
    >>> structure = channel.structure(responses, gold=np.array([-1, -1]))
    >>> np.exp(channel.log_lik((rows,), structure)).round(2)
    array([[0.08, 0.18],
           [0.72, 0.12]])
    """

    declared = (Parameter("firing", PROBABILITY, ("vote", "class")),)
    likelihood_kernel = staticmethod(abstaining.likelihood)
    expected_kernel = staticmethod(abstaining.expected)

    def __init__(self, firing: Any, column: ArrayLike) -> None:
        super().__init__(None, column)
        self.parameters = {"firing": firing}

    @classmethod
    def rebuild_for(cls, values, settings, raters):
        column = np.asarray(settings["column"])
        return cls(values["firing"], np.where((raters >= 0)[:, None], column[raters], NOBODY))

    @property
    def density(self):
        columns = fingerprint.of_arrays([self.column])
        return f"the votes on every item (columns {columns})"

    def structure(self, responses, gold):
        start, vote = self.rows(responses)
        row = vote + np.uint32(self.n_votes)  # the table of votes with their silence divided out
        return start, row, np.array([1]), gold

    def expand(self, log_rows, n_classes, xp):
        return log_rows

    def collapse(self, counts):
        return counts

    def from_truth(self, rows):
        return {"firing": slice(None)}

    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        rate = xp.exp(tables[0])[..., 0][np.maximum(self.column, 0)]  # (raters, labels, classes)
        rate = rate * (self.column != NOBODY)[..., None] + LEAST
        return (rate / rate.sum(axis=1, keepdims=True)).swapaxes(1, 2)

    def simulate(self, tables, truth, responses, rng):
        return responses.label

    def fixed_feature_likelihood(self, tables, responses):
        unknown = np.full(responses.n_items, -1)
        product, _ = abstaining.likelihood(*tables, *self.structure(responses, unknown))
        return product

    def redraw_fixed_features(self, tables, truth, responses, rng):
        rate = np.exp(tables[0])[..., 0].T[truth]  # (items, votes)
        return self.from_response_codes(
            responses, (rng.random(rate.shape) >= rate).ravel().astype(np.int64)
        )

    def response_codes(self, responses):
        silent = 1 - self.vote_matrix(responses).toarray().astype(np.int64)
        return np.repeat(np.arange(responses.n_items), self.n_votes), silent.ravel(), 2

    def from_response_codes(self, responses, codes):
        """Return the table with a vote, by all of its sources, where the code is 0."""
        n_cells = self.column.size
        item, vote = np.nonzero(codes.reshape(responses.n_items, self.n_votes) == 0)
        one, cell = np.nonzero(vote[:, None] == self.column.ravel())
        ignored = self.column.ravel()[responses.cell] == NOBODY
        ignored_cells = responses.item[ignored] * n_cells + responses.cell[ignored]
        key = np.append(item[one] * n_cells + cell, ignored_cells)
        names = responses.items, responses.raters, responses.classes
        table = from_key(key, *names, responses.silent)
        return replace(table, multiplicity=responses.multiplicity)
