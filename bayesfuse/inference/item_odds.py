"""The mode of the effects of populations, covariates and a classifier on the log-odds of items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.tables import SMALLEST
from bayesfuse.parameters.item_log_odds import SCALES, ItemLogOdds

STEPS = 30  # of L-BFGS in a move
LOG_SCALES = -6.0, 4.0  # of the logarithms of scales


class OddsFit:
    """Values of :class:`ItemLogOdds` at their mode given class counts, with standard deviations."""

    def __init__(self, known: ItemLogOdds) -> None:
        self.known = known
        shape = known.n_populations, known.n_classes
        n_covariates = 0 if known.covariates is None else known.covariates.shape[1]
        self.shift, self.slope = np.zeros(shape), np.zeros((n_covariates, known.n_classes))
        self.scale = 1.0
        self.log_spread = np.log([shape / rate for shape, rate in known.prior])
        self.deviations: tuple[Array, Array, float] = np.zeros(shape), np.zeros_like(self.slope), 0

    def values(self) -> dict[str, Any]:
        """Return all values by role."""
        spreads = [*np.exp(self.log_spread), self.scale]
        return {"population_shift": self.shift, "standard_slope": self.slope} | dict(
            zip(SCALES, map(np.asarray, spreads), strict=True)
        )

    def log_odds(self) -> Array:
        """Return the log-odds of kinds of items, (kinds, classes)."""
        return self.known.log_odds(self.values())

    def move(self, counts: Array, average: Array) -> None:
        """Move to the mode given class counts by kind (kinds, classes) and shares of average items.

        Standard deviations of shifts and slopes are held, then moved given these.
        """
        known, total = self.known, counts.sum(axis=1, keepdims=True)
        cuts = np.cumsum([self.shift.size, self.slope.size])
        variance = 0.5 * np.exp(2.0 * self.log_spread)
        offset = np.log(np.maximum(average, SMALLEST))

        def unpacked(x: Array) -> tuple[Array, Array, float]:
            shift, slope, scale = np.split(x, cuts)
            return shift.reshape(self.shift.shape), slope.reshape(self.slope.shape), scale[0]

        def height(x: Array) -> tuple[float, Array]:
            shift, slope, scale = unpacked(x)
            log_p = offset + known.log_odds(
                {
                    "population_shift": shift,
                    "standard_slope": slope,
                    "classifier_scale": np.asarray(scale),
                }
            )
            log_p = log_p - scipy.special.logsumexp(log_p, axis=1, keepdims=True)
            difference = counts - total * np.exp(log_p)
            value = (counts * log_p).sum() - 0.5 * scale**2
            value -= 0.5 * ((shift**2).sum() / variance[0] + (slope**2).sum() / variance[1])
            of_shift = -shift / variance[0]
            if known.population is not None:
                np.add.at(of_shift, known.population, difference)
            of_slope, of_scale = -slope / variance[1], -scale
            if known.covariates is not None:
                of_slope = of_slope + known.covariates.T @ difference
            if known.classifier is not None:
                of_scale += float((difference * known.classifier).sum())
            return -value, -np.concatenate([of_shift.ravel(), of_slope.ravel(), [of_scale]])

        x = np.concatenate([self.shift.ravel(), self.slope.ravel(), [self.scale]])
        bounds = [(None, None)] * (len(x) - 1) + [(0.0, None)]
        options = {"maxiter": STEPS}
        optimum = scipy.optimize.minimize(
            height, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        self.shift, self.slope, self.scale = unpacked(optimum.x)
        self._set_deviations(total, offset, variance)
        for place, (values, deviation) in enumerate(
            ((self.shift, self.deviations[0]), (self.slope, self.deviations[1]))
        ):
            if values.size:
                self.log_spread[place] = self._spread(place, values, deviation)

    def _set_deviations(self, total: Array, offset: Array, variance: Array) -> None:
        """Set standard deviations by the diagonal of the Hessian."""
        known = self.known
        p = scipy.special.softmax(offset + self.log_odds(), axis=1)
        information = total * p * (1.0 - p)
        of_shift, of_slope = np.full(self.shift.shape, 1 / variance[0]), 1.0 / variance[1]
        of_scale = 1.0
        if known.population is not None:
            np.add.at(of_shift, known.population, information)
        if known.covariates is not None:
            of_slope = of_slope + (known.covariates**2).T @ information
        if known.classifier is not None:
            centred = known.classifier - (p * known.classifier).sum(axis=1, keepdims=True)
            of_scale += float((total * p * centred**2).sum())
        of_slope = np.broadcast_to(of_slope, self.slope.shape)
        self.deviations = of_shift**-0.5, of_slope**-0.5, of_scale**-0.5

    def _spread(self, place: int, values: Array, deviation: Array) -> float:
        """Return the mode of the logarithm of a spread given values and their deviations."""
        shape, rate = self.known.prior[place]
        size = len(values) * (values.shape[1] - 1)
        squares = (values**2).sum() + (deviation**2).sum() * (1.0 - 1.0 / values.shape[1])
        optimum = scipy.optimize.minimize_scalar(
            lambda x: size * x + squares * math.exp(-2.0 * x) - shape * x + rate * math.exp(x),
            bounds=LOG_SCALES,
            method="bounded",
        )
        return float(optimum.x)

    def draw(self, draws: int, rng: np.random.Generator) -> dict[str, Array]:
        """Draw all values from normal distributions around their mode, (draws, …) by role."""
        drawn: dict[str, Array] = {}
        for role, values, deviation in (
            ("population_shift", self.shift, self.deviations[0]),
            ("standard_slope", self.slope, self.deviations[1]),
        ):
            noise = deviation * rng.standard_normal((draws, *values.shape))
            drawn[role] = values + noise - noise.mean(axis=-1, keepdims=True)
        for place, role in enumerate(SCALES[:2]):
            size = max((self.shift, self.slope)[place].size, 1)
            noise = rng.standard_normal(draws) / math.sqrt(2.0 * size)
            drawn[role] = np.exp(self.log_spread[place] + noise)
        drawn[SCALES[2]] = np.abs(self.scale + self.deviations[2] * rng.standard_normal(draws))
        return drawn
