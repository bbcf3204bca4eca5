"""The mode of the mean and concentration of rows of raters, in variational fits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.parameters.pool import SharedMean

LOG_RANGE = -4.0, 6.0  # of the logarithms of concentrations


@dataclass
class SharedRows:
    """Rows of raters around a mean: their soft counts, and the mode of the hyperparameters."""

    pool: SharedMean
    mean: Array = field(init=False)
    concentration: float = field(init=False)
    tables: Array = field(init=False)
    log_sd: float = 1.0

    def __post_init__(self) -> None:
        self.mean = self.pool.mean_prior / self.pool.mean_prior.sum()
        self.concentration = self.pool.shape / self.pool.rate
        self.tables = np.zeros_like(self.mean)

    def move(self, counts: Array) -> None:
        """Move mean and concentration towards their mode given counts (raters, columns)."""
        total = counts.sum(axis=1)
        x = math.log(self.concentration)
        digamma, trigamma = scipy.special.digamma, lambda a: scipy.special.polygamma(1, a)
        for _ in range(3):
            kappa = math.exp(x)
            base = kappa * self.mean
            slope = (digamma(kappa) - digamma(kappa + total)).sum()
            slope += (self.mean * (digamma(base + counts) - digamma(base))).sum()
            bend = (trigamma(kappa) - trigamma(kappa + total)).sum()
            bend += (self.mean**2 * (trigamma(base + counts) - trigamma(base))).sum()
            first = kappa * slope + self.pool.shape - self.pool.rate * kappa
            second = kappa * slope + kappa**2 * bend - self.pool.rate * kappa
            step = first / max(-second, abs(first), 1e-8)
            x = float(np.clip(x + step, *LOG_RANGE))
            self.log_sd = 1.0 / math.sqrt(max(-second, 1.0))
        self.concentration = math.exp(x)
        base = self.concentration * self.mean
        # expected numbers of draws from the mean, as in a Chinese restaurant
        self.tables = (base * (digamma(base + counts) - digamma(base))).sum(axis=0)
        self.mean = self.pool.mean_prior + self.tables
        self.mean /= self.mean.sum()

    @property
    def prior(self) -> Array:
        """Concentrations of the rows of all raters, (columns,)."""
        return self.concentration * self.mean

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw log means (draws, columns) and concentrations (draws,)."""
        rows = np.tile(self.pool.mean_prior + self.tables, (draws, 1))
        log_sd = self.log_sd * rng.standard_normal(draws)
        return draw_dirichlet(rows, rng), self.concentration * np.exp(log_sd)
