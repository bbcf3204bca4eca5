"""Items of several types within a class: one confusion row per rater and type."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import TINY, Array, inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import invert
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.raters.base import RaterChannel, add_rows_jax, by_cell_jax
from bayesfuse.raters.confusion import by_cell, by_rater

UNORDERED = "type"
"""The dimension whose entries have no fixed order: types may exchange places between chains."""

# All kernels go through the items with one row of memory, the weights of an item's types: a matrix
# (items, types) would be larger than the responses.


@inlined
def weigh(weight, table, log_table, cell, first, last):
    """Multiply the rows of an item by type (1, types); return the log of what divided them."""
    n_types, small, z = weight.shape[1], False, 0
    # as `multiply` in confusion.py, which takes three quarters more if both call one function
    while z + 4 <= n_types:
        p0 = p1 = p2 = p3 = 1.0
        for r in range(first, last):
            row = cell[r]
            p0 *= table[row, z]
            p1 *= table[row, z + 1]
            p2 *= table[row, z + 2]
            p3 *= table[row, z + 3]
        weight[0, z], weight[0, z + 1], weight[0, z + 2], weight[0, z + 3] = p0, p1, p2, p3
        small |= p0 < TINY or p1 < TINY or p2 < TINY or p3 < TINY
        z += 4
    while z < n_types:
        p0 = 1.0
        for r in range(first, last):
            p0 *= table[cell[r], z]
        weight[0, z] = p0
        small |= p0 < TINY
        z += 1
    if not small:
        return 0.0
    for z in range(n_types):  # digits were lost: once more, in logarithms
        weight[0, z] = 0.0
        for r in range(first, last):
            weight[0, z] += log_table[cell[r], z]
    return rescale(weight, 0)


@kernel
def likelihood(log_share, log_confusion, start, cell, gold, kind):
    """Sum over the types of every class: (items, classes), and the rows' log scale."""
    _, n_classes, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    found, log_scale = np.zeros((gold.size, n_classes)), np.empty(gold.size)
    for n in range(gold.size):
        log_scale[n] = weigh(weight, table, log_table, cell, start[n], start[n + 1])
        known = 1 if gold[n] >= 0 else 0
        for k in range(n_classes):
            if known == 0 or gold[n] == k:
                for z in range(n_types):
                    found[n, k] += share[known, k, z] * weight[0, z]
    return found, log_scale


@inner
def divide(number, share, weight, rng, by_class, of_type):
    """Divide items of a class among the types: expected or, with an ``rng``, multinomial."""
    total = 0.0
    for z in range(weight.size):
        total += share[z] * weight[z]
    if rng is None:
        for z in range(weight.size if total > 0.0 else 0):
            part = number * share[z] * weight[z] / total
            by_class[z] += part
            of_type[z] += part
        return
    left = np.int64(number)
    for z in range(weight.size):
        if left == 0:
            return
        own = share[z] * weight[z]
        drawn = left
        if own < total:
            drawn = np.int64(rng.binomial(left, own / total))
        by_class[z] += drawn
        of_type[z] += drawn
        left -= drawn
        total -= own


@inlined
def is_blank(by_kind, gold, first, last):
    """Whether an item is left out of the counts by kind, for want of responses and a class.

    Its type would be drawn from the prior, and parameters drawn given it would only move less.
    """
    return by_kind.shape[1] > 0 and gold < 0 and first == last


@inlined
def count_given(log_share, log_confusion, given, start, cell, gold, kind, by_kind, rng):
    """Divide items among types, ``given`` the weight or number by class, and count."""
    _, n_classes, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    by_class, used = np.zeros(log_share.shape), np.zeros(table.shape)
    of_type = np.empty(n_types)
    for n in range(gold.size):
        if is_blank(by_kind, gold[n], start[n], start[n + 1]):
            continue
        weigh(weight, table, log_table, cell, start[n], start[n + 1])
        known = 1 if gold[n] >= 0 else 0
        for z in range(n_types):
            of_type[z] = 0.0
        for k in range(n_classes):
            if given[n, k] != 0.0:
                own = by_class[known, k]
                divide(given[n, k], share[known, k], weight[0], rng, own, of_type)
        if by_kind.shape[1] > 0:
            for z in range(n_types):
                by_kind[known, kind[n], z] += of_type[z]
        for r in range(start[n], start[n + 1]):
            for z in range(n_types):
                used[cell[r], z] += of_type[z]
    return by_class, by_rater(used, log_confusion.shape[0])


@kernel
def expected(log_share, log_confusion, given, start, cell, gold, kind):
    """Divide the weights of every item and class among the types, and count."""
    none = np.empty((2, 0, log_share.shape[2]))
    return count_given(log_share, log_confusion, given, start, cell, gold, kind, none, None)


@kernel
def count_copies(log_share, log_confusion, copies, start, cell, gold, kind, by_kind, rng):
    """As :func:`count`, for items that stand for several, of which ``copies`` are of each class."""
    return count_given(log_share, log_confusion, copies, start, cell, gold, kind, by_kind, rng)


@kernel
def share_of_types(log_share, log_confusion, given, start, cell, gold, kind):
    """Divide every item among the types, its classes being ``given``: (items, types)."""
    _, n_classes, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight = np.exp(log_share), np.empty((1, n_types))
    found, unused = np.zeros((gold.size, n_types)), np.zeros(n_types)
    for n in range(gold.size):
        weigh(weight, table, log_table, cell, start[n], start[n + 1])
        known = 1 if gold[n] >= 0 else 0
        for k in range(n_classes):
            if given[n, k] != 0.0:
                divide(given[n, k], share[known, k], weight[0], None, unused, found[n])
    return found


@kernel
def count(log_share, log_confusion, labels, uniform, start, cell, gold, kind, by_kind):
    """Draw the type of every item given its label, and count; by kind, too, if there are any."""
    _, _, n_types = log_share.shape
    table, log_table = by_cell(log_confusion)
    share, weight, up_to = np.exp(log_share), np.empty((1, n_types)), np.empty(n_types)
    by_class, used = np.zeros(log_share.shape), np.zeros(table.shape)
    for n in range(gold.size):
        if is_blank(by_kind, gold[n], start[n], start[n + 1]):
            continue
        weigh(weight, table, log_table, cell, start[n], start[n + 1])
        known, k, total = 1 if gold[n] >= 0 else 0, labels[n], 0.0
        for z in range(n_types):
            total += share[known, k, z] * weight[0, z]
            up_to[z] = total
        left, drawn = uniform[n] * total, 0
        for z in range(n_types - 1):  # branches would be mispredicted
            drawn += up_to[z] <= left
        by_class[known, k, drawn] += 1.0
        if by_kind.shape[1] > 0:
            by_kind[known, kind[n], drawn] += 1.0
        for r in range(start[n], start[n + 1]):
            used[cell[r], drawn] += 1.0
    return by_class, by_rater(used, log_confusion.shape[0])


class TypedConfusion(RaterChannel):
    r"""Items have a hidden type within their class; raters have one confusion row per type.

    Types are easy and hard items, or items that are often mistaken for another class. Errors are
    dependent on items of a hard type, so many equal answers there are little evidence. The type is
    summed out:

    .. math:: p(x_n \mid y_n = k) = \sum_z \omega_{kz} \prod_m \theta_{m z x_{nm}}

    Parameters
    ----------
    share : tensor or array, shape (classes, types)
        :math:`\omega_{kz}`, the probability that an item of class k is of type z.
    type_confusion : tensor or array, shape (raters, types, labels)
        :math:`\theta_{mzc}`, the probability that rater m answers c to an item of type z.

    References
    ----------
    Li, Rubinstein & Cohn (2019), Exploiting worker correlation for label aggregation in
    crowdsourcing, ICML (enhanced Bayesian classifier combination: types within classes).

    Examples
    --------
    Half of the items of class 1 are hard, so five answers "0" are weaker evidence against class 1.

    >>> import numpy as np, bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0, 0, 0, 0]], classes=[0, 1])
    >>> rows = np.tile([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2]], (5, 1, 1))
    >>> share = np.array([[1, 0, 0], [0, 0.5, 0.5]])
    >>> channel = bf.TypedConfusion(share, rows)
    >>> with np.errstate(divide="ignore"):
    ...     tables = channel.expand((np.log(share), np.log(rows)), 2, np)
    >>> structure = channel.structure(responses, gold=np.array([-1]))
    >>> np.exp(channel.log_lik(tables, structure)).round(3)
    array([[0.59 , 0.164]])
    """

    declared = (
        Parameter("share", SIMPLEX, ("class", "type")),
        Parameter("type_confusion", SIMPLEX, ("rater", "type", "answer")),
    )
    likelihood_kernel = staticmethod(likelihood)
    expected_kernel = staticmethod(expected)
    n_kinds = 0
    """Number of kinds of items, by which draws are counted apart."""

    def __init__(self, share: Any, type_confusion: Any) -> None:
        self.parameters = {"share": share, "type_confusion": type_confusion}

    def structure(self, responses: Responses, gold: NDArray[np.int64]) -> tuple[Any, ...]:
        return responses.start, responses.cell, gold, np.empty(0, dtype=np.int64)

    def sizes(self, name, shape, responses):
        n_types = shape[1] if len(shape) > 1 else None
        return super().sizes(name, shape, responses) | {"type": n_types}

    def check(self, shapes, responses):
        super().check(shapes, responses)
        of_share, of_rows = shapes["share"][1], shapes["type_confusion"][1]
        if None not in (of_share, of_rows) and of_share != of_rows:
            raise ModelError(
                "share and type_confusion must have the same number of types, along their second "
                f"axis. Got: {of_share} and {of_rows}."
            )

    def expand(self, log_rows: tuple[Any, ...], n_classes: int, xp: Any) -> tuple[Any, ...]:
        """Give the shares a first axis: items of unknown and of known class count apart."""
        log_share, log_confusion = log_rows
        return xp.stack([log_share, log_share]), log_confusion

    def collapse(self, counts):
        by_class, used, *_ = counts
        return by_class.sum(axis=0), used

    def tally(self, tables, drawn, structure, rng):
        by_kind = np.zeros((2, self.n_kinds, tables[0].shape[2]))
        if drawn.ndim == 2:
            counts = count_copies(*tables, drawn, *structure, by_kind, rng)
        else:
            counts = count(*tables, drawn, rng.random(len(drawn)), *structure, by_kind)
        return (*counts, by_kind) if self.n_kinds else counts

    def confusion(self, tables: tuple[Any, ...], n_classes: int, xp: Any) -> Any:
        """Return the mean of the types' rows within every class."""
        log_share, log_confusion = tables
        return xp.matmul(xp.exp(log_share[0]), xp.exp(log_confusion))

    def types(
        self, tables: tuple[Array, ...], probability: Array, structure: tuple[Any, ...]
    ) -> Array:
        """Return the probability of every type for every item, (items, types).

        Parameters
        ----------
        tables, structure : tuple of ndarray
            From :meth:`expand` and :meth:`structure`.
        probability : ndarray, shape (items, classes)
            Of the labels given the responses, at the same parameters.
        """
        found: Array = share_of_types(*tables, probability, *structure)
        return found

    def same_mistake(
        self, tables: tuple[Array, ...], first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> Array:
        """Return how probably pairs of raters give one wrong answer to an item, (pairs, classes).

        This is more than for independent raters with the rows of :meth:`confusion`.
        """
        log_share, log_confusion = tables
        rows = np.exp(log_confusion)
        both = rows[first] * rows[second]  # (pairs, types, answers)
        wrong = both.sum(axis=-1)[..., None] - both
        found: Array = np.einsum("kz,pzk->pk", np.exp(log_share[0]), wrong)
        return found

    def from_truth(self, rows):
        return {"share": None}  # one matrix, as if it had a first axis

    def simulate(self, tables, truth, responses, rng):
        share, confusion = (np.exp(table).cumsum(axis=-1) for table in tables)
        types = invert(share[0][truth], rng.random(len(truth)))
        up_to = confusion[responses.rater, types[responses.item]]
        return invert(up_to, rng.random(len(up_to)))

    @staticmethod
    def log_lik_jax(log_share, log_confusion, start, cell, gold, kind):
        import jax.numpy as jnp
        from jax.scipy.special import logsumexp

        by_type = add_rows_jax(by_cell_jax(log_confusion), cell, start)
        known = (gold >= 0).astype(int)
        classes = [
            jnp.where(
                (gold < 0) | (gold == k), logsumexp(log_share[known, k] + by_type, axis=1), -jnp.inf
            )
            for k in range(log_share.shape[1])
        ]
        return jnp.stack(classes, axis=1)


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
        return *super().structure(responses, gold)[:-1], kind
