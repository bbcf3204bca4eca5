"""Priors of rows, Dirichlet or mixtures of Dirichlet distributions, and what fits ask of either.

A Dirichlet prior is an array of concentrations (…, columns), a mixture a :class:`DirichletMixture`.
Both are conjugate to counts of the columns, so for both ``prior + counts`` is the posterior of the
rows and ``posterior - prior`` the counts. The functions here take either; all that fits do not ask
here they may take from ``+`` and ``-``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from bayesfuse.simplex import Array, invert


@dataclass(frozen=True, eq=False, repr=False)
class DirichletMixture:
    r"""Rows that are each a draw from one of several Dirichlet distributions, independently.

    The prior of a row is :math:`\sum_c s_c\, \mathrm{Dir}(\theta \mid a_c)`. Given counts n of its
    columns it is another such mixture: every :math:`a_c` becomes :math:`a_c + n` and every share is
    multiplied by :math:`B(a_c + n) / B(a_c)`, how well the component has expected the counts.
    :func:`bayesfuse.priors.robust` and :func:`bayesfuse.priors.mixture` make them.

    Attributes
    ----------
    log_shares : ndarray, shape (components, …)
        Logarithms of the probabilities of the components, row by row.
    concentration : ndarray, shape (components, …, columns)

    References
    ----------
    Diaconis & Ylvisaker (1985), Quantifying prior opinion, Bayesian Statistics 2, 133–156.

    Examples
    --------
    Of a rater who has said 1 of fifty items in class 0, that row has hardly come from the first
    component, which leans to the right answer; nothing is learnt of the other row.

    >>> import numpy as np, bayesfuse as bf
    >>> posterior = bf.priors.robust(2) + np.array([[0, 50], [0, 0]])
    >>> posterior.shares.round(2)
    array([[0.16, 0.8 ],
           [0.84, 0.2 ]])
    """

    log_shares: Array
    concentration: Array
    __array_ufunc__ = None  # counts + prior is an error and not an array of objects

    def __repr__(self) -> str:
        rows = " × ".join(map(str, self.shape[:-1])) or "1"
        return (
            f"<DirichletMixture of {len(self.concentration)} components: {rows} rows of "
            f"{self.shape[-1]}>"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the rows, (…, columns)."""
        return self.concentration.shape[1:]

    @property
    def size(self) -> int:
        """Number of concentrations."""
        return self.concentration.size

    @property
    def shares(self) -> Array:
        """Probabilities of the components, (components, …)."""
        return np.exp(self.log_shares)

    @cached_property
    def log_weight(self) -> Array:
        """Log of what stands before every component's product of powers, (components, …)."""
        return self.log_shares - log_beta(self.concentration)

    def __add__(self, counts: Array) -> DirichletMixture:
        """Return the distribution of the rows given counts of their columns, (…, columns)."""
        total = self.concentration + counts
        log_shares = self.log_weight + log_beta(total)
        return DirichletMixture(log_shares - np.logaddexp.reduce(log_shares), total)

    def __sub__(self, other: DirichletMixture) -> Array:
        """Return the counts that were added to ``other``, or to the prior of both."""
        return self.concentration[0] - other.concentration[0]

    def by_component(self, log_rows: Array) -> Array:
        """Return the log of every component's share of the density, (components, …)."""
        power = self.concentration - 1.0
        with np.errstate(invalid="ignore"):  # 0 · log 0 is 0
            logs = np.where(power == 0.0, 0.0, power * log_rows)
        return self.log_weight + logs.sum(axis=-1)

    def at(self, log_rows: Array) -> Array:
        """Return the expected concentration of rows that are known."""
        logs = self.by_component(log_rows)
        total = np.logaddexp.reduce(logs)
        # where no component allows the rows nothing is learnt of which it is
        possible = np.isfinite(total)
        logs = np.where(possible, logs - np.where(possible, total, 0.0), self.log_shares)
        return self._average(logs, self.concentration)

    def mean(self) -> Array:
        """Return the mean rows."""
        total = self.concentration.sum(axis=-1, keepdims=True)
        return self._average(self.log_shares, self.concentration / total)

    def repeated(self, size: int) -> DirichletMixture:
        """Return the prior of as many sets of such rows, (size, …, columns).

        Examples
        --------
        >>> import bayesfuse as bf
        >>> bf.priors.robust(3).repeated(5)
        <DirichletMixture of 2 components: 5 × 3 rows of 3>
        """
        return stacked([self] * size)

    @staticmethod
    def _average(log_shares: Array, values: Array) -> Array:
        average: Array = (np.exp(log_shares)[..., None] * values).sum(axis=0)
        return average


RowPrior = Array | DirichletMixture


def stacked(priors: Sequence[RowPrior]) -> DirichletMixture:
    """Return one prior of the rows of several, along a new first axis.

    A prior with fewer components than others has its last several times, with the share divided
    among them, which is the same distribution.
    """
    mixtures = [p if isinstance(p, DirichletMixture) else _alone(p) for p in priors]
    most = max(len(mixture.concentration) for mixture in mixtures)
    shares, concentrations = [], []
    for mixture in mixtures:
        copies = np.ones(len(mixture.concentration), dtype=int)
        copies[-1] += most - len(copies)
        divided = mixture.log_shares.T - np.log(copies)
        shares.append(np.repeat(divided.T, copies, axis=0))
        concentrations.append(np.repeat(mixture.concentration, copies, axis=0))
    return DirichletMixture(np.stack(shares, axis=1), np.stack(concentrations, axis=1))


def _alone(concentration: Array) -> DirichletMixture:
    return DirichletMixture(np.zeros((1, *concentration.shape[:-1])), concentration[None])


def broadcast(prior: Any, shape: tuple[int, ...]) -> Any:
    """Return the prior of rows (…, columns) of which several may have one prior, one for each.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> broadcast(np.ones((1, 3)), (4, 2, 3)).shape
    (4, 2, 3)
    >>> broadcast(bf.priors.robust(3), (5, 3, 3))
    <DirichletMixture of 2 components: 5 × 3 rows of 3>
    """
    if not isinstance(prior, DirichletMixture):
        return np.broadcast_to(prior, shape).copy()
    missing = tuple(range(1, 1 + len(shape) - len(prior.shape)))
    log_shares, concentration = (
        np.expand_dims(array, missing) for array in (prior.log_shares, prior.concentration)
    )
    n = len(concentration)
    return DirichletMixture(
        np.broadcast_to(log_shares, (n, *shape[:-1])).copy(),
        np.broadcast_to(concentration, (n, *shape)).copy(),
    )


def plus(prior: Any, counts: Array, least: float = 0.1) -> Any:
    """Return prior plus counts, of which no less than a share of the prior is left.

    What stands for counts may be negative, concentrations may not.
    """
    if isinstance(prior, DirichletMixture):
        return prior + np.maximum(counts, (least - 1.0) * prior.concentration.min(axis=0))
    return np.where(prior > 0, np.maximum(prior + counts, least * prior), 0.0)


def mean(prior: RowPrior) -> Array:
    """Return the mean rows, (…, columns)."""
    if isinstance(prior, DirichletMixture):
        return prior.mean()
    return prior / prior.sum(axis=-1, keepdims=True)


def at(prior: RowPrior, log_rows: Array) -> Array:
    """Return the concentration (…, columns) of rows that are known, for mixtures the expected."""
    return prior.at(log_rows) if isinstance(prior, DirichletMixture) else prior


def with_mode(prior: Any) -> Any:
    """Return the prior with no concentration below one: such have poles at zero and no mode.

    A component of a mixture gets the constant of what it has become.
    """
    if isinstance(prior, DirichletMixture):
        return DirichletMixture(prior.log_shares, np.maximum(prior.concentration, 1.0))
    return np.maximum(prior, 1.0)


def picked(prior: RowPrior, rng: np.random.Generator, size: int | None = None) -> Array:
    """Draw a component for every row and return its concentration, (…, columns).

    With ``size`` that many times, (size, …, columns). Rows drawn from that concentration are
    draws from the prior.
    """
    if not isinstance(prior, DirichletMixture):
        return prior if size is None else np.broadcast_to(prior, (size, *prior.shape))
    times = 1 if size is None else size
    up_to = np.moveaxis(np.cumsum(prior.shares, axis=0), 0, -1)
    up_to = np.broadcast_to(up_to, (times, *up_to.shape))
    flat = up_to.reshape(-1, up_to.shape[-1])
    which = invert(flat, rng.random(len(flat))).reshape(*up_to.shape[:-1], 1)
    drawn: Array = np.take_along_axis(prior.concentration, which, axis=0)
    return drawn[0] if size is None else drawn


def has_zeros(prior: RowPrior) -> bool:
    """Say whether some entry is zero for good."""
    return not isinstance(prior, DirichletMixture) and bool(np.min(prior) <= 0)


def log_beta(prior: RowPrior) -> Array:
    r"""Return by row the log of :math:`B(a) = \prod_j \Gamma(a_j) / \Gamma(\sum_j a_j)`, (…).

    Of a mixture it is minus ``log_weight`` of the first component. For both,
    ``log_beta(prior + counts) - log_beta(prior)`` is the log probability of the counts, in one
    order.
    """
    if isinstance(prior, DirichletMixture):
        return -prior.log_weight[0]
    logs = gammaln(np.where(prior > 0, prior, 1.0))  # what is zero for good has no part in it
    total: Array = logs.sum(axis=-1) - gammaln(prior.sum(axis=-1))
    return total


def log_density(prior: RowPrior, log_rows: Array) -> float:
    """Return the log density of all rows together, but for ``-log_beta(prior)`` of every row."""
    if isinstance(prior, DirichletMixture):
        logs = np.logaddexp.reduce(prior.by_component(log_rows))
        return float((logs - prior.log_weight[0]).sum())
    used = (prior > 0) & (prior != 1)  # 0 · log 0 is 0
    return float(((prior[used] - 1.0) * log_rows[used]).sum())


def log_ratio(prior: RowPrior, new: Array, old: Array, places: Any) -> float:
    """Return the log density of new rows less that of old ones, which differ in some places."""
    if isinstance(prior, DirichletMixture):
        return log_density(prior, new) - log_density(prior, old)
    return float(((prior[places] - 1.0) * (new[places] - old[places])).sum())


def expected_log(prior: RowPrior) -> Array:
    """Return E[log θ] of the rows; −inf where an entry is zero for good."""
    if isinstance(prior, DirichletMixture):
        return prior._average(prior.log_shares, expected_log(prior.concentration))
    total = digamma(prior.sum(axis=-1, keepdims=True))
    return np.where(prior > 0, digamma(np.where(prior > 0, prior, 1.0)) - total, -np.inf)
