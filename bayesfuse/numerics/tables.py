r"""Rows that share a mean: what their counts say of it, by the Chinese restaurant process.

Counts n of a row θ ~ Dirichlet(κ b), with θ summed out, are those of guests in a restaurant: guest
i + 1 of dish c opens a new table with probability :math:`\kappa b_c / (\kappa b_c + i)`. Given the
numbers of tables, the mean b has a multinomial likelihood, and κ a gamma one (with an auxiliary
beta variable), so their priors are conjugate.

References
----------
Antoniak (1974), Mixtures of Dirichlet processes, Annals of Statistics 2, 1152–1174; Escobar & West
(1995), Bayesian density estimation and inference using mixtures, Journal of the American
Statistical Association 90, 577–588; Teh, Jordan, Beal & Blei (2006), Hierarchical Dirichlet
processes, ibid. 101, 1566–1581, appendix A.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesfuse.numerics.kernels import Array, kernel
from bayesfuse.numerics.rows import draw_dirichlet

LEAST = 1e-9
"""Least concentration that is drawn, so that logarithms are finite."""


@kernel
def _open_tables(counts, concentration, rng):
    tables = np.zeros(counts.size)
    for i in range(counts.size):
        for guests in range(int(counts[i])):
            if guests == 0 or rng.random() * (concentration[i] + guests) < concentration[i]:
                tables[i] += 1.0
    return tables


def draw_tables(counts: Array, concentration: Array, rng: np.random.Generator) -> Array:
    """Draw the number of tables for every count, given concentrations κ b of the same shape.

    Examples
    --------
    The first guest always opens one.

    >>> import numpy as np
    >>> draw_tables(np.array([0.0, 1.0, 9.0]), np.full(3, 1e-9), np.random.default_rng(1))
    array([0., 1., 1.])
    """
    flat = np.ascontiguousarray(counts, dtype=float).ravel()
    spread = np.ascontiguousarray(np.broadcast_to(concentration, counts.shape)).ravel()
    drawn: Array = _open_tables(flat, spread, rng).reshape(counts.shape)
    return drawn


def draw_concentration(
    now: Array,
    tables: Array,
    guests: Array,
    shape: float,
    rate: float,
    rng: np.random.Generator,
    axis: Any = None,
) -> Array:
    r"""Draw concentrations κ ~ Gamma(shape, rate) given tables and guests of their restaurants.

    With :math:`\eta_i \sim \mathrm{Beta}(\kappa, n_i)`, κ is
    :math:`\mathrm{Gamma}(shape + \sum t_i,\ rate - \sum \log \eta_i)`.

    Parameters
    ----------
    now : ndarray
        The concentrations.
    tables, guests : ndarray
        Totals by restaurant; those along ``axis`` (default: all) have the same κ.
    """
    spread = np.broadcast_to(now if axis is None else np.expand_dims(now, axis), guests.shape)
    busy = guests > 0
    logs = np.zeros(guests.shape)
    if busy.any():
        # the logarithm of a beta variable, which itself may underflow
        logs[busy] = draw_dirichlet(np.stack([spread[busy], guests[busy]], axis=-1), rng)[..., 0]
    drawn = rng.standard_gamma(shape + tables.sum(axis=axis)) / (rate - logs.sum(axis=axis))
    return np.maximum(drawn, LEAST)
