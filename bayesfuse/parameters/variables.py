"""PyMC variables: Dirichlet rows, mixtures of such rows, their coordinates, and partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.random import Generator
from numpy.typing import ArrayLike
from pymc.distributions.mixture import MixtureRV
from pymc.logprob.transforms import Transform
from pytensor.tensor.random.basic import DirichletRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet, normalise
from bayesfuse.parameters.compiled import shape_of
from bayesfuse.parameters.dirichlet import DirichletMixture, broadcast
from bayesfuse.parameters.factor import Integers
from bayesfuse.parameters.partition import ALONE, SEATING, draw

ENDS = np.array([0.0, -np.inf])  # log ratios of the reference to itself, and of structural zeros


class LogRatio(Transform):
    r"""Simplex rows as :math:`\log(p_j / p_r)`, r the largest entry of each row of ``weight``.

    They are nearly independent, while all of PyMC's centred logarithms depend on the rarest entry:
    NUTS needs a third of the steps for three times the effective draws. Zeros of ``weight`` (…,
    columns) are structural zeros, without a coordinate. Coordinates are (…, columns − 1), or with
    structural zeros one vector (Aitchison 1982, additive log-ratios).
    """

    name = "logratio"

    def __init__(self, weight: ArrayLike) -> None:
        weights = np.asarray(weight)
        self.shape, self.allowed = weights.shape, weights > 0
        n_columns = self.shape[-1]
        reference = (
            n_columns * np.arange(weights.size // n_columns) + weights.argmax(axis=-1).ravel()
        )
        free = self.allowed.ravel().copy()
        free[reference] = False
        self.free = np.flatnonzero(free)
        self.against = reference[self.free // n_columns]
        # index of every entry into the coordinates, then 0 and −inf
        self.source = np.full(weights.size, len(self.free) + 1)
        self.source[self.free] = np.arange(len(self.free))
        self.source[reference] = len(self.free)
        all_positive = self.allowed.all()
        self.ndim_supp = 1 if all_positive else weights.ndim
        self.value_shape = (*self.shape[:-1], n_columns - 1) if all_positive else (len(self.free),)

    def forward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the coordinates of rows."""
        return self.from_log(pt.log(value))

    def backward(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the rows."""
        return pt.exp(self._log(value))

    def log_jac_det(self, value: Any, *inputs: Any) -> TensorVariable:
        """Return the log Jacobian of :meth:`backward`: the sum of a row's logarithms."""
        by_row = pt.switch(self.allowed, self._log(value), 0.0).sum(axis=-1)
        return by_row if self.ndim_supp == 1 else by_row.sum()

    def _log(self, value: Any) -> TensorVariable:
        """Return the log rows."""
        entries = pt.concatenate([pt.as_tensor(value).ravel(), ENDS])[self.source]
        return pt.special.log_softmax(entries.reshape(self.shape), axis=-1)

    def from_log(self, rows: Any) -> Any:
        """Return the coordinates of log rows."""
        logs = rows.ravel()
        return (logs[self.free] - logs[self.against]).reshape(self.value_shape)

    def to_log(self, value: Array) -> Array:
        """Invert :meth:`from_log`, for one set of rows or, along first axes, many."""
        many = value.shape[: value.ndim - len(self.value_shape)]
        entries = [value.reshape(*many, len(self.free)), np.broadcast_to(ENDS, (*many, 2))]
        rows = np.concatenate(entries, axis=-1).take(self.source, axis=-1)
        return normalise(rows.reshape(*many, *self.shape))


def dirichlet(
    name: str, concentration: ArrayLike | DirichletMixture, **kwargs: Any
) -> TensorVariable:
    """Register Dirichlet rows, in which concentrations of zero are structural zeros.

    NUTS uses log ratios to the entry of largest concentration. Zeros have no coordinate.

    Parameters
    ----------
    name : str
    concentration : array-like, shape (…, classes), or DirichletMixture
        Non-negative numbers; every row needs a positive one. Without zeros the variable is a
        :class:`pymc.Dirichlet`, for a mixture a :class:`pymc.Mixture`.
    **kwargs
        Of the variable, such as ``dims``. The concentration is broadcast to ``shape`` or ``dims``.

    Returns
    -------
    TensorVariable, like ``concentration``

    Examples
    --------
    >>> import pymc as pm, bayesfuse as bf
    >>> with pm.Model() as model:
    ...     transition = bf.build.dirichlet("transition", [[2, 1, 0], [0, 1, 1], [1, 1, 1]])
    >>> model.rvs_to_transforms[transition].backward([0.0, 0.0, 0.0, 0.0]).eval()[1]
    array([0. , 0.5, 0.5])
    """
    dims, shape = kwargs.get("dims") or (), kwargs.pop("shape", None)
    shape_of_rows: Any = getattr(concentration, "shape", None) or np.shape(concentration)
    if shape_of_rows and shape is None and not isinstance(dims, str):
        if len(dims) > len(shape_of_rows):
            shape = [int(pm.modelcontext(None).dim_lengths[dim].eval()) for dim in dims]
    if shape is not None:  # coordinates are of all rows
        concentration = broadcast(concentration, tuple(shape))
    if isinstance(concentration, DirichletMixture):
        prior, rows = concentration, np.moveaxis(concentration.concentration, 0, -2)
        weights = np.moveaxis(prior.shares, 0, -1)
        kwargs = {"default_transform": LogRatio(prior.mean())} | kwargs
        return pm.Mixture(name, w=weights, comp_dists=pm.Dirichlet.dist(rows), **kwargs)
    alpha = np.asarray(concentration, dtype=float)
    if alpha.ndim == 0 or not np.all(np.isfinite(alpha) & (alpha >= 0)):
        raise ModelError(
            f"Concentrations must be finite and at least zero (structural). Got: {alpha.tolist()}."
        )
    if not alpha.any(axis=-1).all():
        raise ModelError(
            "Every row must have a positive concentration, because its entries sum to one. "
            f"Got: concentrations {alpha[~alpha.any(axis=-1)][0].tolist()}."
        )
    kwargs = {"default_transform": LogRatio(alpha)} | kwargs
    if alpha.all():
        return pm.Dirichlet(name, alpha, **kwargs)
    return SparseDirichlet(name, alpha, **kwargs)


class SparseDirichletRV(RandomVariable):
    """Dirichlet rows with structural zeros; the support is all rows together."""

    name = "sparse_dirichlet"
    dtype = "floatX"
    _print_name = ("SparseDirichlet", "\\operatorname{SparseDirichlet}")

    @classmethod
    def rng_fn(cls, rng: Generator, alpha: Array, size: Any) -> Array:
        shape = (*(size if size is not None else ()), *np.shape(alpha))
        return np.exp(draw_dirichlet(np.broadcast_to(alpha, shape), rng))


class SparseDirichlet(pm.Distribution):
    """Dirichlet rows with structural zeros, as a PyMC distribution."""

    rv_type = SparseDirichletRV

    @classmethod
    def dist(cls, alpha: Any, **kwargs: Any) -> Any:
        return super().dist([pt.as_tensor(alpha)], **kwargs)

    @classmethod
    def rv_op(cls, alpha: Any, rng: Any = None, **kwargs: Any) -> Any:
        core = ",".join("abcdefgh"[: alpha.type.ndim])
        rng = pt.random.shared_rng(seed=None) if rng is None else rng
        op = SparseDirichletRV(signature=f"({core})->({core})")
        return op(alpha, rng=rng, return_next_rng=True, **kwargs)[1]

    def support_point(rv: Any, size: Any, alpha: Any) -> TensorVariable:
        return alpha / pt.sum(alpha, axis=-1, keepdims=True)

    def logp(value: Any, alpha: Any) -> TensorVariable:
        weight = pt.switch(pt.gt(alpha, 0.0), alpha, 1.0)  # a weight of one adds nothing below
        constant = pt.gammaln(pt.sum(alpha, axis=-1)).sum() - pt.gammaln(weight).sum()
        # 0 · log 0 is 0
        logs = pt.log(pt.switch(pt.eq(weight, 1.0), 1.0, value))
        return constant + pt.sum((weight - 1.0) * logs)


class RaterGroupingRV(RandomVariable):
    """A partition of the raters; inputs are the concentration, the groups and the start."""

    name = SEATING
    signature = "(),(),(r)->(r)"
    dtype = "int64"
    _print_name = ("Seating", "\\operatorname{Seating}")

    @classmethod
    def rng_fn(cls, rng: Generator, alpha: Any, n_groups: Any, start: Array, size: Any) -> Integers:
        shape = tuple(size) if size is not None else ()
        n_raters = np.shape(start)[-1]
        # PyMC may give every draw its own, equal arguments
        alpha, n_groups = float(np.ravel(alpha)[0]), int(np.ravel(n_groups)[0])
        draws = [draw(n_raters, n_groups, alpha, rng) for _ in range(int(np.prod(shape)))]
        return np.array(draws, dtype=np.int64).reshape(*shape, n_raters)


class RaterGrouping(pm.Distribution):
    r"""A partition of raters by source (Pitman 2006, section 3.1), −1 for raters alone.

    .. math:: p(\text{partition}) = \frac{\Gamma(\alpha)}{\Gamma(\alpha + M)}
              \prod_{\text{sets } S} \alpha\, (|S| - 1)!

    It is not renormalised for the limit ``n_groups``; chains begin at ``start`` (raters,).
    """

    rv_op = RaterGroupingRV()

    @classmethod
    def dist(cls, alpha: Any, n_groups: Any, start: Any, **kwargs: Any) -> Any:
        inputs = [pt.as_tensor(np.float64(alpha)), pt.as_tensor(n_groups), pt.as_tensor(start)]
        return super().dist(inputs, **kwargs)

    def support_point(rv: Any, size: Any, alpha: Any, n_groups: Any, start: Any) -> Any:
        return start

    def logp(value: Any, alpha: Any, n_groups: Any, start: Any) -> TensorVariable:
        n_raters = start.shape[-1]
        member = pt.eq(value[:, None], pt.arange(n_groups))
        size = member.sum(axis=0)
        first = pt.where(member, pt.arange(n_raters)[:, None], n_raters).min(axis=0)
        n_alone = pt.eq(value, ALONE).sum()
        seating = pt.where(size > 0, pt.log(alpha) + pt.gammaln(pt.maximum(size, 1)), 0.0).sum()
        total = seating + n_alone * pt.log(alpha) + pt.gammaln(alpha) - pt.gammaln(alpha + n_raters)
        numbered = pt.all(pt.ge(value, ALONE) & pt.lt(value, n_groups))
        numbered &= pt.all(pt.neq(size, 1))
        # unused groups have no first rater and come last
        numbered &= pt.all(pt.lt(first[:-1], first[1:]) | pt.eq(size[1:], 0))
        return pt.where(numbered, total, -np.inf)


def mixture_of(variable: TensorVariable) -> DirichletMixture | None:
    """Return the prior of a variable that :func:`dirichlet` made from a mixture, else None."""
    op = variable.owner.op
    if not isinstance(op, MixtureRV):
        return None
    weights, *components = op.dist_params(variable.owner)
    if len(components) != 1 or not isinstance(components[0].owner.op, DirichletRV):
        return None
    (alpha,) = components[0].owner.op.dist_params(components[0].owner)
    concentration, shares = np.moveaxis(alpha.eval(), -2, 0), np.moveaxis(weights.eval(), -1, 0)
    shape = shape_of(variable)
    return broadcast(DirichletMixture(np.log(shares), concentration), shape)
