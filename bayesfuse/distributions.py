"""Dirichlet rows with entries that are zero for good, as a variable of a PyMC model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pymc.logprob.transforms import Transform
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError
from bayesfuse.simplex import Array, draw_dirichlet


def sparse_dirichlet(name: str, concentration: ArrayLike, **kwargs: Any) -> TensorVariable:
    """Register Dirichlet rows of which entries of concentration zero are zero for good.

    What is left of a row has the Dirichlet distribution of its positive concentrations. Unlike a
    mask over :class:`pymc.Dirichlet` this leaves no coordinates that mean nothing: NUTS moves in
    one vector of as many as there are free entries, row after row.

    Parameters
    ----------
    name : str
    concentration : array-like, shape (…, classes)
        Non-negative numbers; every row needs a positive one. Without zeros the variable is a
        :class:`pymc.Dirichlet`.
    **kwargs
        Such as ``dims``, for the variable.

    Returns
    -------
    TensorVariable, like ``concentration``

    Raises
    ------
    ModelError
        Concentrations that are negative, not finite, or all zero in some row.

    Examples
    --------
    >>> import pymc as pm, bayesfuse as bf
    >>> with pm.Model() as model:
    ...     transition = bf.sparse_dirichlet("transition", [[2, 1, 0], [0, 1, 1], [1, 1, 1]])
    >>> model.initial_point()["transition_sparse_simplex__"].shape
    (4,)
    >>> model.rvs_to_transforms[transition].backward([0.0, 0.0, 0.0, 0.0]).eval()[1]
    array([0. , 0.5, 0.5])
    """
    alpha = np.asarray(concentration, dtype=float)
    if alpha.ndim == 0 or not np.all(np.isfinite(alpha) & (alpha >= 0)):
        raise ModelError(
            "Concentrations must be finite, and positive or (for an entry that is always zero) "
            f"zero. Got: {alpha.tolist()}."
        )
    if not alpha.any(axis=-1).all():
        raise ModelError(
            "Every row must have an entry that may be positive, because its entries sum to one. "
            f"Got: concentrations {alpha[~alpha.any(axis=-1)][0].tolist()}."
        )
    if alpha.all():
        return pm.Dirichlet(name, alpha, **kwargs)
    rows = SparseRows.of(alpha > 0)
    core = ",".join("abcdefgh"[: alpha.ndim])
    variable = pm.CustomDist(
        name,
        alpha,
        logp=partial(_logp, rows),
        random=_random,
        support_point=_mean,
        signature=f"({core})->({core})",
        class_name="SparseDirichlet",
        default_transform=SparseSimplexTransform(rows),
        **kwargs,
    )
    # Samplers recognise the variable by it; every copy keeps its Op.
    variable.owner.op.sparse_rows = rows
    return variable


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Where rows may be positive, and their coordinates.

    The coordinates of a row are its centred logarithms over the allowed entries without the last
    of them, as PyMC's SimplexTransform has them for whole rows.

    Attributes
    ----------
    shape : tuple of int
    allowed : ndarray of int, shape (allowed,)
        Flat places of the entries that may be positive.
    row : ndarray of int, shape (allowed,)
        Row of each.
    size : ndarray of int, shape (rows,)
        How many a row has.
    free : ndarray of bool, shape (allowed,)
        Whether an entry has a coordinate: all but the last of a row.
    """

    shape: tuple[int, ...]
    allowed: NDArray[np.int64]
    row: NDArray[np.int64]
    size: NDArray[np.int64]
    free: NDArray[np.bool_]

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> SparseRows:
        """Build it from where rows may be positive, (…, classes)."""
        row, _ = np.nonzero(mask.reshape(-1, mask.shape[-1]))
        free = np.append(np.diff(row) == 0, False)
        return cls(mask.shape, np.flatnonzero(mask), row, np.bincount(row), free)

    def coordinates(self, log_rows: Array) -> Array:
        """Return the coordinates of log rows."""
        logs = log_rows.ravel()[self.allowed]
        mean = np.bincount(self.row, logs) / self.size
        return (logs - mean[self.row])[self.free]

    def log_rows(self, coordinates: Array) -> Array:
        """Invert :meth:`coordinates`."""
        centred = np.empty(len(self.allowed))
        centred[self.free] = coordinates
        centred[~self.free] = -np.bincount(
            self.row[self.free], coordinates, minlength=len(self.size)
        )
        # every row has an allowed entry, and a centred one is not negative
        top = np.maximum.reduceat(centred, np.append(0, np.cumsum(self.size)[:-1]))
        total = np.bincount(self.row, np.exp(centred - top[self.row]))
        rows = np.full(int(np.prod(self.shape)), -np.inf)
        rows[self.allowed] = centred - (top + np.log(total))[self.row]
        return rows.reshape(self.shape)

    def indicator(self, chosen: NDArray[np.bool_] | slice = slice(None)) -> Array:
        """Return a matrix (rows, chosen) that sums over the chosen allowed entries of each row."""
        return (np.arange(len(self.size))[:, None] == self.row[chosen]).astype(float)


class SparseSimplexTransform(Transform):
    """PyMC's side of the coordinates of :class:`SparseRows`."""

    name = "sparse_simplex"

    def __init__(self, rows: SparseRows) -> None:
        self.rows = rows
        self.ndim_supp = len(rows.shape)

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the coordinates of rows."""
        rows = self.rows
        logs = pt.log(pt.as_tensor(value).flatten()[rows.allowed])
        mean = pt.dot(rows.indicator(), logs) / rows.size
        return logs[np.flatnonzero(rows.free)] - mean[rows.row[rows.free]]

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the rows; entries that are not allowed are zeros without gradient."""
        rows = self.rows
        centred, mask = self._centred(value)
        # the largest of centred numbers is not negative, so the zeros beside them do not overflow
        top = pt.max(pt.switch(mask, centred, 0.0), axis=-1, keepdims=True)
        weight = pt.switch(mask, pt.exp(centred - top), 0.0)
        flat = weight / pt.sum(weight, axis=-1, keepdims=True)
        return flat.reshape(rows.shape)

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the log determinant: for a row of m allowed entries m ∏ p, as for whole rows."""
        rows = self.rows
        centred, mask = self._centred(value)
        total = pt.logsumexp(pt.switch(mask, centred, -np.inf), axis=-1)
        return np.log(rows.size).sum() - pt.sum(rows.size * total)

    def _centred(self, value: Any) -> tuple[TensorVariable, NDArray[np.bool_]]:
        """Return centred logarithms (rows, classes), 0 where not allowed, and where allowed."""
        rows = self.rows
        value = pt.as_tensor(value)
        last = -pt.dot(rows.indicator(rows.free), value)
        # one look-up for all entries: a coordinate, a row's last, or the zero at the end
        n_free, n_rows = int(rows.free.sum()), len(rows.size)
        source = np.full(int(np.prod(rows.shape)), n_free + n_rows)
        source[rows.allowed[rows.free]] = np.arange(n_free)
        source[rows.allowed[~rows.free]] = n_free + np.arange(n_rows)
        entries = pt.concatenate([value, last, np.zeros(1)])[source]
        mask = (source < n_free + n_rows).reshape(n_rows, -1)
        return entries.reshape(mask.shape), mask


def _logp(rows: SparseRows, value: Any, alpha: Any) -> TensorVariable:
    """Sum the log densities of all rows over their allowed entries."""
    entries = pt.as_tensor(value).flatten()[rows.allowed]
    weight = pt.as_tensor(alpha).flatten()[rows.allowed]
    constant = pt.gammaln(pt.dot(rows.indicator(), weight)).sum() - pt.gammaln(weight).sum()
    # 0 · log 0 is 0: a flat density has no opinion where a float has underflowed
    terms = pt.switch(pt.eq(weight, 1.0), 0.0, (weight - 1.0) * pt.log(entries))
    return constant + terms.sum()


def _random(alpha: Array, rng: np.random.Generator, size: Any = None) -> Array:
    return np.exp(draw_dirichlet(np.broadcast_to(alpha, (*(size or ()), *np.shape(alpha))), rng))


def _mean(variable: Any, size: Any, alpha: Any) -> TensorVariable:
    return alpha / pt.sum(alpha, axis=-1, keepdims=True)
