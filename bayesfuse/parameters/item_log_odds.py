"""Log-odds of items by populations, covariates and a classifier, drawn with labels summed out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.log_odds import draw_log_odds
from bayesfuse.parameters.factor import Integers, Structure

Values = dict[str, Array]
CONTRASTS = "population_shift", "standard_slope"
SCALES = "population_scale", "slope_scale", "classifier_scale"  # in the order of the kernels


@dataclass(frozen=True)
class ItemLogOdds:
    """Inputs of the kinds of items, and the prior of their effects on log-odds.

    ``population`` (kinds,), ``covariates`` (kinds, covariates) and ``classifier`` (kinds, classes)
    are None if not known; ``prior`` holds shape and rate of the gamma priors of two scales.
    """

    n_kinds: int
    n_classes: int
    population: Any
    n_populations: int
    covariates: Any
    classifier: Any
    prior: tuple[tuple[float, float], tuple[float, float]]

    @cached_property
    def design(self) -> Structure:
        """The inputs as :func:`draw_log_odds` takes them."""
        known = self.population is not None
        population = np.asarray(self.population if known else np.zeros(self.n_kinds), dtype=int)
        sorted_kinds = np.argsort(population, kind="stable")
        begins = np.searchsorted(population[sorted_kinds], np.arange(self.n_populations + 1))
        x = np.zeros((self.n_kinds, 0)) if self.covariates is None else self.covariates
        # along these, slopes are nearly independent, however correlated the covariates are
        directions = np.ascontiguousarray(np.linalg.eigh(x.T @ x)[1].T)
        classifier = np.zeros((0, self.n_classes)) if self.classifier is None else self.classifier
        along = np.ascontiguousarray(directions @ x.T)
        prior = np.array([*self.prior, (0.0, 0.0)])
        return population, sorted_kinds, begins, along, directions, classifier.copy(), prior

    def begin(self, rng: Generator) -> Values:
        """Return values to begin with: scales near their prior means, all others near zero."""
        initial: Values = {}
        for name, number in zip(CONTRASTS, (self.n_populations, len(self.design[4])), strict=True):
            drawn = 0.1 * rng.standard_normal((number, self.n_classes))
            initial[name] = drawn - drawn.mean(axis=1, keepdims=True)
        for name, (shape, rate) in zip(SCALES, (*self.prior, (1.0, 2.0)), strict=True):
            initial[name] = np.array(shape / rate)
        return initial

    def log_odds(self, values: Values) -> Array:
        """Return the log-odds (kinds, classes) against those of an average item."""
        log_odds = np.zeros((self.n_kinds, self.n_classes))
        if self.population is not None:
            log_odds += values["population_shift"][self.population]
        if self.covariates is not None:
            log_odds += self.covariates @ values["standard_slope"]
        if self.classifier is not None:
            log_odds += values["classifier_scale"] * self.classifier
        return log_odds

    def state(self, values: Values) -> tuple[Array, Array, Array, Array]:
        """Return shifts, slopes, logarithms of scales and log-odds, which kernels overwrite."""
        none = np.zeros((0, self.n_classes))
        shift, slope = (np.array(values.get(name, none), dtype=float) for name in CONTRASTS)
        scales = np.log([max(float(values.get(name, 1.0)), 1e-300) for name in SCALES])
        return shift, slope, scales, self.log_odds(values)

    def draw(self, values: Values, average: Array, counts: Array, rng: Generator) -> Values:
        """Draw values given counts of labels by kind and the shares of an average item."""
        state = self.state(values)
        likelihood = np.tile(np.eye(self.n_classes), (self.n_kinds, 1))
        order = np.arange(counts.size)
        copies = np.ascontiguousarray(counts, dtype=float)
        rows = likelihood, copies.ravel(), copies.sum(axis=1), order, order_of_equal(counts.shape)
        draw_log_odds(*state, self.design, average, rows, rng)
        shift, slope, scales, _ = state
        drawn: Values = dict(zip(CONTRASTS, (shift, slope), strict=True))
        drawn |= dict(zip(SCALES, map(np.asarray, np.exp(scales)), strict=True))
        return {name: drawn[name] for name in values if name in drawn}


def order_of_equal(shape: tuple[int, int]) -> Integers:
    """Return where the rows of every kind begin if all kinds have as many."""
    n_kinds, n_rows = shape
    return np.arange(n_kinds + 1, dtype=np.int64) * n_rows
