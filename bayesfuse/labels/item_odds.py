"""Log-odds of the classes of items with populations, covariates or a classifier's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array

LEAST = 1e-6  # minimum probability of a classifier: zero would overrule all raters


@dataclass(frozen=True)
class ItemRows:
    """What is known about items, with one row for all items with the same values."""

    kind: NDArray[np.int64]  # the row of every item (items,)
    population: NDArray[np.int64] | None  # (rows,)
    covariates: Array | None  # standardised (rows, covariates)
    word: Array | None  # centred log probabilities of a classifier (rows, classes)

    @classmethod
    def build(
        cls,
        n_items: int,
        population: NDArray[np.int64] | None,
        covariates: Array | None,
        word: Array | None,
    ) -> ItemRows:
        """Merge items with equal populations (items,), covariates and words (items, …)."""
        given = [None if population is None else population[:, None], covariates, word]
        known = [np.zeros((n_items, 0)) if each is None else each for each in given]
        table = np.concatenate(known, axis=1)
        rows, kind = np.unique(table, axis=0, return_inverse=True)
        ends = np.cumsum([each.shape[1] for each in known])[:-1]
        parts: list[Array] = np.split(rows, ends, axis=1)
        number, x, own = parts
        return cls(
            kind.ravel().astype(np.int64),
            None if population is None else number[:, 0].astype(np.int64),
            None if covariates is None else x,
            None if word is None else own,
        )

    @property
    def told(self) -> tuple[NDArray[Any], ...]:
        """All values by row, rounded, so that digests do not depend on rounding errors."""
        each = self.population, self.covariates, self.word
        return tuple(np.round(known, 9) + 0 for known in each if known is not None)

    def log_odds(self, share: Any, slope: Any, scale: Any, xp: Any) -> Any:
        """Return log-odds (rows, classes), up to a constant, from shares of an average item."""
        return self.moved(xp.log(share), slope, scale, xp)

    def moved(self, log_odds: Any, slope: Any, scale: Any, xp: Any) -> Any:
        """Return log-odds, (classes,) or (populations, classes), moved by other knowledge."""
        found = log_odds[None] if self.population is None else log_odds[self.population]
        if self.covariates is not None:
            found = found + xp.dot(self.covariates, slope)
        return found if self.word is None else found + scale * self.word


def log_word(probability: Array) -> Array:
    """Return the log probabilities of a classifier (items, classes), bounded below."""
    return np.log(np.maximum(probability, LEAST))
