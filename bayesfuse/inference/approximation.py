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
    """Draws (draw, …) by free variable, the bound by iteration, and k̂ of :func:`pareto_shape`.

    ``rows`` are prior and fitted distribution by parameter, where these are Dirichlet.
    """

    values: dict[str, Array]
    trace: Array
    converged: bool
    pareto_k: float
    rows: Mapping[str, tuple[RowPrior, RowPrior]] = field(default_factory=dict)


def pareto_shape(log_ratio: Array) -> float:
    """Return k̂ of log importance ratios (draws,), NaN for fewer than 100 draws.

    Below 0.5 an approximation is close, above 0.7 it misses much of the joint posterior. Yao,
    Vehtari, Simpson & Gelman (2018), Yes, but did it work?, ICML, algorithm 1.
    """
    from arviz_stats.base import array_stats

    finite = log_ratio[np.isfinite(log_ratio)]
    if len(finite) < FEW_DRAWS:
        return float("nan")
    if np.ptp(finite) < SAME:
        return 0.0
    return float(array_stats.psislw(-finite)[1])  # made for the ratios 1 / likelihood
