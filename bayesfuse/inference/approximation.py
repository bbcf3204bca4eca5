"""What every variational method hands back, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.dirichlet import RowPrior

LARGE_K = 0.7
"""Pareto shape above which a fit could not even serve as a proposal."""

FEW_DRAWS = 100
"""Below so many draws nothing can be said about the tail of their importance ratios."""

SAME = 1e-6
"""Log ratios that differ by less differ by rounding."""


@dataclass(frozen=True)
class Approximation:
    """Draws from a fitted approximation of the posterior.

    ``values`` (draw, …) holds them for every free variable by name; ``trace`` is the bound of the
    log evidence by iteration, ``pareto_k`` see :func:`pareto_shape`. ``rows`` are prior and fitted
    distribution by parameter, of fits of Dirichlet distributions.
    """

    values: dict[str, Array]
    trace: Array
    converged: bool
    pareto_k: float
    rows: Mapping[str, tuple[RowPrior, RowPrior]] = field(default_factory=dict)


def pareto_shape(log_ratio: Array) -> float:
    """Judge an approximation by how heavy the tail of its importance ratios is.

    Parameters
    ----------
    log_ratio : ndarray, shape (draws,)
        Log density of the model, up to a constant, minus that of the approximation, at draws from
        the latter.

    Returns
    -------
    float
        The shape k̂ of a generalised Pareto distribution fitted to the largest ratios: below 0.5
        the approximation is close, above 0.7 it misses much of the posterior, in the joint
        distribution of all parameters if not in each of them. Zero where all ratios are the same;
        NaN for fewer than 100 draws.

    References
    ----------
    Yao, Vehtari, Simpson & Gelman (2018), Yes, but did it work? Evaluating variational inference,
    ICML, algorithm 1.
    """
    from arviz_stats.base import array_stats

    finite = log_ratio[np.isfinite(log_ratio)]
    if len(finite) < FEW_DRAWS:
        return float("nan")
    if np.ptp(finite) < SAME:
        return 0.0
    return float(array_stats.psislw(-finite)[1])  # made for the ratios 1 / likelihood
