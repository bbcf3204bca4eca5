"""Conjugate priors of rows: Dirichlet distributions and mixtures of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_columns, draw_dirichlet
from bayesfuse.parameters.contract import Prior

MIN_SHARE = np.finfo(float).tiny  # share of a concentration that remains if statistics are negative


@dataclass(eq=False, repr=False)
class Dirichlet(Prior):
    """Independent rows; a concentration (…, columns) of zero is a structural zero."""

    concentration: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows, (…, columns)."""
        return self.concentration.shape

    def __add__(self, counts: Array) -> Dirichlet:
        """Return the distribution of the rows given counts of their columns, (…, columns)."""
        return Dirichlet(self.concentration + counts)

    def __sub__(self, other: Dirichlet) -> Array:
        """Return the counts that were added to ``other``, or to the prior of both."""
        return self.concentration - other.concentration

    def plus(self, counts: Array, least: float = 0.1) -> Dirichlet:
        """Return prior plus counts, which may be negative, but at least this share of the prior."""
        prior = self.concentration
        return Dirichlet(np.where(prior > 0, np.maximum(prior + counts, least * prior), 0.0))

    def mean(self) -> Array:
        """Return the mean rows, (…, columns)."""
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    def at(self, log_rows: Array) -> Array:
        """Return the (for mixtures, expected) concentration of known rows, (…, columns)."""
        return self.concentration

    def sample_component(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw a component for every row; return its concentration, (…, columns) or (size, …)."""
        prior = self.concentration
        return prior if size is None else np.broadcast_to(prior, (size, *prior.shape))

    def log_beta(self) -> Array:
        r"""Return :math:`\log B(a)` by row, (…): differences are log probabilities of counts."""
        prior = self.concentration
        logs = scipy.special.gammaln(np.where(prior > 0, prior, 1.0))  # without structural zeros
        return logs.sum(axis=-1) - scipy.special.gammaln(prior.sum(axis=-1))

    def expected_log(self) -> Array:
        """Return E[log θ] of the rows; −inf for structural zeros."""
        prior, total = self.concentration, self.concentration.sum(axis=-1, keepdims=True)
        # ψ is a pole at structural zeros
        log_mean = scipy.special.digamma(np.where(prior > 0, prior, 1.0))
        return np.where(prior > 0, log_mean - scipy.special.digamma(total), -np.inf)

    def centre(self) -> Array:
        with np.errstate(divide="ignore"):  # structural zeros
            return np.log(self.mean())

    def log_density(self, value: Array) -> float:
        prior = self.concentration
        used = (prior > 0) & (prior != 1)  # 0 · log 0 is 0
        return float(((prior[used] - 1.0) * value[used]).sum())

    def with_mode(self) -> Dirichlet:
        return Dirichlet(np.maximum(self.concentration, 1.0))

    def maximise(self, statistic: Array, value: Array) -> Array:
        # the component of a row is latent; at() is the expectation
        counts = np.maximum(self.at(value) - 1.0 + statistic, 0.0)
        total = counts.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(total > 0, np.log(counts / total), value)

    def expect(self, statistic: Array, value: Array) -> Array:
        return self.plus(statistic, MIN_SHARE).centre()

    interior = expect

    def draw(self, statistic: Array, value: Array, rng: np.random.Generator) -> Array:
        return draw_dirichlet((self + statistic).sample_component(rng), rng)


class DirichletMixture(Dirichlet):
    r"""Independent rows, each from a mixture :math:`\sum_c s_c\, \mathrm{Dir}(\theta \mid a_c)`.

    Given counts n of the columns of a row, :math:`a_c` becomes :math:`a_c + n`, and the share is
    multiplied by the evidence :math:`B(a_c + n) / B(a_c)` of the component. Made by
    :func:`bayesfuse.priors.robust` and :func:`bayesfuse.priors.mixture`. ``log_shares``
    (components, …) and ``concentration`` (components, …, columns) are by row.

    References
    ----------
    Diaconis & Ylvisaker (1985), Quantifying prior opinion, Bayesian Statistics 2, 133–156.

    Examples
    --------
    The row of a rater who answered 1 for fifty items of class 0 favours wrong answers:

    >>> import numpy as np, bayesfuse as bf
    >>> posterior = bf.priors.robust(2) + np.array([[0, 50], [0, 0]])
    >>> posterior.shares.round(2)
    array([[0.16, 0.8 ],
           [0.84, 0.2 ]])
    """

    __array_ufunc__ = None  # counts + prior is an error and not an array of objects

    def __init__(self, log_shares: Array, concentration: Array) -> None:
        self.log_shares, self.concentration = log_shares, concentration

    @property
    def shape(self) -> tuple[int, ...]:
        return self.concentration.shape[1:]

    @property
    def shares(self) -> Array:
        """Probabilities of the components, (components, …)."""
        return np.exp(self.log_shares)

    @cached_property
    def log_weight(self) -> Array:
        """Log normalising constant of every component, its share included, (components, …)."""
        return self.log_shares - Dirichlet(self.concentration).log_beta()

    def __add__(self, counts: Array) -> DirichletMixture:
        total = self.concentration + counts
        log_shares = self.log_weight + Dirichlet(total).log_beta()
        return DirichletMixture(log_shares - np.logaddexp.reduce(log_shares), total)

    def __sub__(self, other: Dirichlet) -> Array:
        return self.concentration[0] - other.concentration[0]

    def by_component(self, log_rows: Array) -> Array:
        """Return the log of every component's share of the density, (components, …)."""
        power = self.concentration - 1.0
        with np.errstate(invalid="ignore"):  # 0 · log 0 is 0
            logs = np.where(power == 0.0, 0.0, power * log_rows)
        return self.log_weight + logs.sum(axis=-1)

    def at(self, log_rows: Array) -> Array:
        logs = self.by_component(log_rows)
        total = np.logaddexp.reduce(logs)
        # rows that are impossible in all components keep the prior shares
        possible = np.isfinite(total)
        logs = np.where(possible, logs - np.where(possible, total, 0.0), self.log_shares)
        return self._average(logs, self.concentration)

    def mean(self) -> Array:
        total = self.concentration.sum(axis=-1, keepdims=True)
        return self._average(self.log_shares, self.concentration / total)

    def plus(self, counts: Array, least: float = 0.1) -> DirichletMixture:
        return self + np.maximum(counts, (least - 1.0) * self.concentration.min(axis=0))

    def with_mode(self) -> DirichletMixture:
        return DirichletMixture(self.log_shares, np.maximum(self.concentration, 1.0))

    def sample_component(self, rng: np.random.Generator, size: int | None = None) -> Array:
        times = 1 if size is None else size
        up_to = np.moveaxis(np.cumsum(self.shares, axis=0), 0, -1)
        up_to = np.broadcast_to(up_to, (times, *up_to.shape))
        flat = up_to.reshape(-1, up_to.shape[-1])
        which = draw_columns(flat, rng).reshape(*up_to.shape[:-1], 1)
        drawn: Array = np.take_along_axis(self.concentration, which, axis=0)
        return drawn[0] if size is None else drawn

    def log_beta(self) -> Array:
        return -self.log_weight[0]

    def log_density(self, value: Array) -> float:
        logs = np.logaddexp.reduce(self.by_component(value))
        return float((logs - self.log_weight[0]).sum())

    def expected_log(self) -> Array:
        return self._average(self.log_shares, Dirichlet(self.concentration).expected_log())

    @staticmethod
    def _average(log_shares: Array, values: Array) -> Array:
        return (np.exp(log_shares)[..., None] * values).sum(axis=0)


def stacked(priors: Sequence[Array | DirichletMixture]) -> DirichletMixture:
    """Return one prior of the rows of several along a new axis; last components may be divided."""
    mixtures = []
    for prior in priors:
        if not isinstance(prior, DirichletMixture):
            prior = DirichletMixture(np.zeros((1, *prior.shape[:-1])), prior[None])
        mixtures.append(prior)
    most = max(len(mixture.concentration) for mixture in mixtures)
    shares, concentrations = [], []
    for mixture in mixtures:
        copies = np.ones(len(mixture.concentration), dtype=int)
        copies[-1] += most - len(copies)
        divided = mixture.log_shares.T - np.log(copies)
        shares.append(np.repeat(divided.T, copies, axis=0))
        concentrations.append(np.repeat(mixture.concentration, copies, axis=0))
    return DirichletMixture(np.stack(shares, axis=1), np.stack(concentrations, axis=1))


def broadcast(prior: Any, shape: tuple[int, ...]) -> Any:
    """Return the prior of rows (…, columns), broadcast to a shape."""
    if not isinstance(prior, DirichletMixture):
        return np.broadcast_to(prior, shape).copy()
    missing = tuple(range(1, 1 + len(shape) - len(prior.shape)))

    def to(values: Array, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(np.expand_dims(values, missing), (len(values), *shape)).copy()

    return DirichletMixture(to(prior.log_shares, shape[:-1]), to(prior.concentration, shape))
