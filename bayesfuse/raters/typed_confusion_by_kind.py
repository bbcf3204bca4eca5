"""Item types whose draws are counted by what is known of the items."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.numerics.kernels import Array, kernel
from bayesfuse.raters.confusion import by_cell, by_rater
from bayesfuse.raters.typed_confusion import (
    TypedConfusion,
    divide,
    expected,
    likelihood,
    share_of_types,
    weigh,
)


@kernel
def likelihood_of_kinds(log_share, log_confusion, start, cell, gold, kind):
    """As :func:`likelihood`."""
    return likelihood(log_share, log_confusion, start, cell, gold)


@kernel
def expected_of_kinds(log_share, log_confusion, given, start, cell, gold, kind):
    """As :func:`expected`."""
    return expected(log_share, log_confusion, given, start, cell, gold)


# Items of unknown class without responses are left out below: their types are drawn from the
# prior, and parameters drawn given these would only move less.


@kernel
def count_by_kind(log_share, log_confusion, labels, uniform, start, cell, gold, kind, by_kind):
    """Draw the type of every item given its label, and count; also in ``by_kind``."""
    _, _, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight, up_to = np.exp(log_share), np.empty((1, n_types)), np.empty(n_types)
    by_class, used = np.zeros(log_share.shape), np.zeros(table.shape)
    for n in range(gold.size):
        known, k, total = 1 if gold[n] >= 0 else 0, labels[n], 0.0
        if known == 0 and start[n] == start[n + 1]:
            continue
        weigh(weight, table, log_table, cell, start[n], start[n + 1])
        for z in range(n_types):
            total += share[known, k, z] * weight[0, z]
            up_to[z] = total
        left, drawn = uniform[n] * total, 0
        for z in range(n_types - 1):  # branches would be mispredicted
            drawn += up_to[z] <= left
        by_class[known, k, drawn] += 1.0
        by_kind[known, kind[n], drawn] += 1.0
        for r in range(start[n], start[n + 1]):
            used[cell[r], drawn] += 1.0
    return by_class, by_rater(used, log_confusion.shape[0])


@kernel
def count_copies_by_kind(log_share, log_confusion, copies, start, cell, gold, kind, by_kind, rng):
    """As :func:`count_by_kind`, for items that stand for several: ``copies`` of each class."""
    _, n_classes, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    by_class, used = np.zeros(log_share.shape), np.zeros(table.shape)
    of_type = np.empty(n_types)
    for n in range(gold.size):
        known = 1 if gold[n] >= 0 else 0
        if known == 0 and start[n] == start[n + 1]:
            continue
        weigh(weight, table, log_table, cell, start[n], start[n + 1])
        for z in range(n_types):
            of_type[z] = 0.0
        for k in range(n_classes):
            own = share[known, k]
            divide(np.int64(copies[n, k]), own, weight[0], rng, by_class[known, k], of_type)
        for z in range(n_types):
            by_kind[known, kind[n], z] += of_type[z]
        for r in range(start[n], start[n + 1]):
            for z in range(n_types):
                used[cell[r], z] += of_type[z]
    return by_class, by_rater(used, log_confusion.shape[0])


class TypedConfusionByKind(TypedConfusion):
    """As :class:`bayesfuse.TypedConfusion`, for items of which more is known than their responses.

    Draws count the types of items of every kind, which is what a pool needs to draw the classes of
    the types (``bayesfuse.parameters.tilted_rows.TiltedRows``).

    Parameters
    ----------
    share, type_confusion : tensor or array
        As in :class:`bayesfuse.TypedConfusion`.
    kind : array of int, shape (items,), optional
        Items with the same number have the same prior of their class. By default all.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> share, rows = np.full((2, 2, 1), 1.0), np.full((3, 2, 2), 0.5)
    >>> bf.raters.TypedConfusionByKind(share, rows, kind=[0, 0, 1]).n_kinds
    2
    """

    likelihood_kernel = staticmethod(likelihood_of_kinds)
    expected_kernel = staticmethod(expected_of_kinds)

    def __init__(self, share: Any, type_confusion: Any, kind: ArrayLike | None = None) -> None:
        super().__init__(share, type_confusion)
        self.kind = None if kind is None else np.asarray(kind, dtype=np.int64)
        self.n_kinds = 1 if self.kind is None else int(self.kind.max(initial=0)) + 1

    def taken(self, items):
        if self.kind is None:
            return self
        other = copy.copy(self)
        other.kind = self.kind[items]
        return other

    def structure(self, responses, gold):
        kind = self.kind
        if kind is None or len(kind) != responses.n_items:  # of other items nothing is counted
            kind = np.zeros(responses.n_items, dtype=np.int64)
        return *super().structure(responses, gold), kind

    def collapse(self, counts):
        return super().collapse(counts[:2])

    def tally(self, tables, drawn, structure, rng):
        by_kind = np.zeros((2, self.n_kinds, tables[0].shape[2]))
        if drawn.ndim == 2:
            counts = count_copies_by_kind(*tables, drawn, *structure, by_kind, rng)
        else:
            uniform = rng.random(len(drawn))
            counts = count_by_kind(*tables, drawn, uniform, *structure, by_kind)
        return *counts, by_kind

    def types(
        self, tables: tuple[Array, ...], probability: Array, structure: tuple[NDArray[Any], ...]
    ) -> Array:
        """Return the probability of every type for every item, (items, types)."""
        found: Array = share_of_types(*tables, probability, *structure[:3])
        return found

    @staticmethod
    def log_lik_jax(log_share, log_confusion, start, cell, gold, kind=None):
        return TypedConfusion.log_lik_jax(log_share, log_confusion, start, cell, gold)
