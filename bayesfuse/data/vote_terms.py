"""Inputs of weighted votes: given label probabilities, and the share of a rater's votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.numerics.kernels import Array

CLIP = 1e-3
"""Smallest probability of which the logarithm is taken: zeros of a model are not certain."""


class Agreement(NamedTuple):
    """How often the raters of a table agree with its given labels."""

    share: float  # over all responses
    middle: float  # mean over the responses of the raters' log-odds
    spread: float  # and their standard deviation


@dataclass(frozen=True)
class Terms:
    """Inputs of the logit of every item.

    ``votes`` are the shares of classes among a rater's responses to an item. ``competence`` is the
    log-odds of agreement with the given labels, standardised over the responses of the table in
    which ``agreement`` was measured.
    """

    log_mean: Array  # centred logarithms of average label probabilities (items, classes)
    deviations: Array  # those of each of several results less these (items, classes, results)
    votes: Any  # sparse (items × classes, raters)
    competence: Array  # (raters,)
    agreement: Agreement
    responses: Responses

    @classmethod
    def of(
        cls, responses: Responses, probabilities: list[Array], agreement: Agreement | None = None
    ) -> Terms:
        """Return the terms of a table, given label probabilities (items, classes).

        The ``agreement`` of the fitted table puts the competence in a new table on the same scale.
        """
        mean = np.mean(probabilities, axis=0)
        centre, votes = _centred(mean), _votes(responses)
        differences = np.zeros((*centre.shape, 0))
        if len(probabilities) > 1:
            differences = np.stack(list(map(_centred, probabilities)), axis=-1) - centre[..., None]
        competence, agreement = _competence(votes, mean, agreement)
        return cls(centre, differences, votes, competence, agreement, responses)

    @property
    def per_item(self) -> float:
        """Mean number of raters of an item with responses."""
        voted = self.votes.maximum(0.0).sum()
        return max(float(voted) / max(int(self.answered.sum()), 1), 1.0)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Whether items have responses (items,)."""
        votes = self.votes.getnnz(axis=1).reshape(self.log_mean.shape)
        return np.asarray(votes.any(axis=1))

    def rows(self, items: NDArray[np.int64]) -> tuple[Array, Any]:
        """Return contrasts, given logarithms, these apart, weighted votes and number; and votes."""
        n_classes = self.log_mean.shape[1]
        row = (items[:, None] * n_classes + np.arange(n_classes)).ravel()
        votes = self.votes[row]
        columns = [
            np.tile(contrasts(n_classes), (len(items), 1)),
            self.log_mean[items].reshape(-1, 1),
            self.deviations[items].reshape(len(row), self.deviations.shape[2]),
            (votes @ self.competence)[:, None],
            np.asarray(votes.sum(axis=1)).reshape(-1, 1),
        ]
        return np.hstack(columns), votes


def design_effect(terms: Terms, sequences: Sequences, items: NDArray[np.int64]) -> float:
    """Return how many known labels of these items show as much as one drawn at random from all.

    Raters agree with the given labels more often in some sequences than in others, with an
    intraclass correlation ρ. With shares a of the known and t of all items in sequence s, the
    variance of a mean of n known items is that of random ones times
    1 + n ρ / (1 - ρ) Σ_s (a_s - t_s)² (Kish 1965, Survey Sampling, chapter 5).
    """
    responses, n_sequences = terms.responses, sequences.n_sequences
    sequence = np.empty(responses.n_items, dtype=np.int64)
    sequence[sequences.places(responses)] = np.repeat(np.arange(n_sequences), sequences.lengths)
    probability = np.exp(terms.log_mean)
    probability /= probability.sum(axis=1, keepdims=True)
    votes = terms.votes.maximum(0.0).tocoo()
    agreement = probability.ravel()[votes.row]
    within, between = _variances(
        agreement, votes.col * n_sequences + sequence[votes.row // probability.shape[1]], votes.col
    )
    known, every = (
        np.bincount(sequence[some], minlength=n_sequences) / len(some)
        for some in (items, np.flatnonzero(terms.answered))
    )
    return float(1.0 + len(items) * between / max(within, CLIP) * ((known - every) ** 2).sum())


def _variances(
    values: Array, cell: NDArray[np.integer[Any]], group: NDArray[np.integer[Any]]
) -> tuple[float, float]:
    """Return variances within cells, and between the means of the cells of a group, by ANOVA."""
    _, cell, size = np.unique(cell, return_inverse=True, return_counts=True)
    of_group = np.bincount(group)
    values = values - (np.bincount(group, values) / np.maximum(of_group, 1))[group]
    means = np.bincount(cell, values) / size
    n_free = len(size) - np.count_nonzero(of_group)
    within = float(((values - means[cell]) ** 2).sum()) / max(len(values) - len(size), 1)
    if not n_free:
        return within, 0.0
    per_cell = (len(values) - (size[cell] / of_group[group]).sum()) / n_free
    between = (float((size * means**2).sum()) / n_free - within) / per_cell
    return within, max(between, 0.0)


def _centred(probability: Array) -> Array:
    logs = np.log(np.maximum(probability, CLIP))
    return logs - logs.mean(axis=1, keepdims=True)


def _votes(responses: Responses) -> Any:
    """Return the shares of votes; of stated probabilities, the centred logarithms."""
    from scipy import sparse

    n_classes = responses.n_classes
    item, rater = responses.item.astype(np.int64), responses.rater.astype(np.int64)
    _, pair, times = np.unique(
        item * responses.n_raters + rater, return_inverse=True, return_counts=True
    )
    row, column, value = item * n_classes + responses.label, rater, 1.0 / times[pair]
    if (stated := responses.stated) is not None:
        logs = _centred(stated.probability)
        rows = stated.item[:, None] * n_classes + np.arange(n_classes)
        row = np.concatenate([row, rows.ravel()])
        column = np.concatenate([column, np.repeat(stated.rater.astype(np.int64), n_classes)])
        value = np.concatenate([value, logs.ravel()])
    shape = responses.n_items * n_classes, responses.n_raters
    return sparse.csr_matrix((value, (row, column)), shape=shape)


def _competence(votes: Any, probability: Array, known: Agreement | None) -> tuple[Array, Agreement]:
    """Return standardised log-odds of agreement, shrunk by as much as five responses."""
    n_classes = probability.shape[1]
    votes = votes.maximum(0.0)
    number = np.asarray(votes.sum(axis=0)).ravel()
    agreed = votes.T @ probability.ravel()
    common = agreed.sum() / number.sum() if known is None else known.share
    share = np.clip((agreed + 5.0 * common) / (number + 5.0), CLIP, 1.0 - CLIP)
    odds = np.log(share * (n_classes - 1) / (1.0 - share))
    if known is None:
        middle = number @ odds / number.sum()
        spread = np.sqrt(number @ (odds - middle) ** 2 / number.sum())
        known = Agreement(float(common), float(middle), float(spread))
    odds -= known.middle
    return odds / known.spread if known.spread > CLIP else np.zeros_like(odds), known


def contrasts(n_classes: int) -> Array:
    """Return orthonormal columns that sum to zero, (classes, classes − 1)."""
    centring = np.eye(n_classes) - 1.0 / n_classes
    return np.linalg.qr(centring[:, : n_classes - 1])[0]
