"""Confusion rows of graded raters, and draws of their parameters given counts by class and answer.

Every rater has the coordinates v: the shift of all thresholds, the logarithms of the gaps between
them relative to those between the middles of neighbouring classes, the logarithm of the precision,
and the log-odds of guessing.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel
from bayesfuse.numerics.slice_sampling import slice_from
from bayesfuse.numerics.tables import SMALLEST

ROOT_HALF = math.sqrt(0.5)


@inner
def fill_thresholds(coordinates, midpoints, thresholds):
    """Write the thresholds (classes − 1,) of a rater."""
    threshold, mean_offset = 0.0, 0.0
    for c in range(thresholds.size):
        if c > 0:
            threshold += (midpoints[c] - midpoints[c - 1]) * math.exp(min(coordinates[c], 50.0))
        thresholds[c] = threshold
        mean_offset += (threshold - midpoints[c]) / thresholds.size
    for c in range(thresholds.size):
        thresholds[c] += coordinates[0] - mean_offset


@inner
def precision_and_guess_rate(coordinates):
    """Return the precision of a rater, as :func:`log_answer` takes it, and the rate of guessing."""
    return math.exp(min(coordinates[-2], 50.0)) * ROOT_HALF, 1.0 / (
        1.0 + math.exp(-coordinates[-1])
    )


@inner
def log_answer(precision, guess_rate, position, c, thresholds, guess):
    """Return the log probability of answer ``c`` of a rater with these thresholds."""
    low = -np.inf if c == 0 else precision * (thresholds[c - 1] - position)
    high = np.inf if c == thresholds.size else precision * (thresholds[c] - position)
    if low > 0.0:  # the tail that is exact
        low, high = -high, -low
    informed = 0.5 * (math.erfc(-high) - math.erfc(-low))
    return math.log(max((1.0 - guess_rate) * informed + guess_rate * guess[c], SMALLEST))


@inner
def log_likelihood(coordinates, positions, midpoints, guess, counts, thresholds):
    """Return the log probability of the counts (classes, answers) of a rater."""
    total = 0.0
    fill_thresholds(coordinates, midpoints, thresholds)
    precision, guess_rate = precision_and_guess_rate(coordinates)
    for k in range(positions.size):
        for c in range(positions.size):
            if counts[k, c] > 0.0:
                log_p = log_answer(precision, guess_rate, positions[k], c, thresholds, guess)
                total += counts[k, c] * log_p
    return total


@inner
def midpoints_of(positions):
    """Return the middles between neighbouring positions."""
    return 0.5 * (positions[1:] + positions[:-1])


@kernel
def log_rows(coordinates, positions, guess):
    """Return the log rows (raters, classes, answers) of raters."""
    n_raters, n_classes = coordinates.shape[0], positions.size
    midpoints, thresholds = midpoints_of(positions), np.empty(n_classes - 1)
    rows = np.empty((n_raters, n_classes, n_classes))
    for m in range(n_raters):
        fill_thresholds(coordinates[m], midpoints, thresholds)
        precision, guess_rate = precision_and_guess_rate(coordinates[m])
        for k in range(n_classes):
            for c in range(n_classes):
                rows[m, k, c] = log_answer(
                    precision, guess_rate, positions[k], c, thresholds, guess
                )
    return rows


@inner
def log_density_of_coordinate(at, arguments):
    """Return the log density of a rater whose coordinate j is ``at``."""
    coordinates, j, positions, midpoints, guess, counts, thresholds, mean, spread = arguments
    coordinates[j] = at
    z = (at - mean[j]) / spread[j]
    return (
        log_likelihood(coordinates, positions, midpoints, guess, counts, thresholds) - 0.5 * z * z
    )


@kernel
def move_raters(coordinates, positions, guess, counts, mean, spread, width, rng):
    """Move every coordinate of every rater by slice sampling, in place.

    The prior of coordinates is normal, with ``mean`` and ``spread`` (coordinates,).
    """
    midpoints, thresholds = midpoints_of(positions), np.empty(positions.size - 1)
    for m in range(coordinates.shape[0]):
        v = coordinates[m]
        for j in range(v.size):
            old = v[j]
            arguments = v, j, positions, midpoints, guess, counts[m], thresholds, mean, spread
            level = log_density_of_coordinate(old, arguments) - rng.exponential(1.0)
            accepted = slice_from(
                log_density_of_coordinate, arguments, old, level, width[m, j], rng
            )
            v[j] = old if math.isnan(accepted) else accepted


@inner
def group_of(j, n_classes):
    """Return which spread a coordinate has: of shifts, gaps, precision or guessing."""
    return 0 if j == 0 else (1 if j < n_classes - 1 else (2 if j == n_classes - 1 else 3))


@inner
def fill_positions(gaps, positions):
    """Write the positions of the classes, whose gaps are shares of the line."""
    n_classes = positions.size
    positions[0] = -0.5 * (n_classes - 1)
    for k in range(n_classes - 1):
        positions[k + 1] = positions[k] + (n_classes - 1) * gaps[k]


@inner
def log_density_after_step(at, arguments):
    """Return the log density after a step ``at`` of all raters, written into ``moved``.

    The rows of ``proposal`` are gaps, mean and spread.
    """
    direction, pooled, coordinates, gaps, mean, spread, hyper, guess, counts, moved, proposal = (
        arguments
    )
    n_raters, n_coordinates = coordinates.shape
    n_classes, total, total_gap = gaps.size + 1, 0.0, 0.0
    for k in range(gaps.size):
        proposal[0, k] = gaps[k] * math.exp(at * direction[n_coordinates + k])
        total_gap += proposal[0, k]
    for k in range(gaps.size):
        proposal[0, k] = max(proposal[0, k] / total_gap, SMALLEST)
        total += hyper[3, k] * math.log(proposal[0, k])
    for g in range(4):
        proposal[2, g] = spread[g]
        if pooled:
            log_factor = at * direction[n_coordinates + gaps.size + g]
            proposal[2, g] *= math.exp(log_factor)
            total += log_factor - 0.5 * (proposal[2, g] / hyper[2, g]) ** 2
    for j in range(n_coordinates):
        g = group_of(j, n_classes)
        step, factor = at * direction[j], proposal[2, g] / spread[g]
        proposal[1, j] = mean[j] + step
        if pooled:
            total -= 0.5 * ((proposal[1, j] - hyper[0, j]) / hyper[1, j]) ** 2
        for m in range(n_raters):
            moved[m, j] = proposal[1, j] + (coordinates[m, j] - mean[j]) * factor
            if not pooled:
                total -= 0.5 * ((moved[m, j] - mean[j]) / spread[g]) ** 2
    positions, thresholds = np.empty(n_classes), np.empty(n_classes - 1)
    fill_positions(proposal[0, : gaps.size], positions)
    midpoints = midpoints_of(positions)
    for m in range(n_raters):
        total += log_likelihood(moved[m], positions, midpoints, guess, counts[m], thresholds)
    return total


@kernel
def move_all(directions, pooled, coordinates, gaps, mean, spread, hyper, guess, counts, rng):
    """Move all raters and their common parameters along lines, in place, by slice sampling.

    Pooled raters keep their differences. Every row of ``directions`` is for the coordinates, then
    the logarithms of ``gaps`` and of ``spread``. ``hyper`` has the rows mean and standard
    deviation of ``mean``, scale of ``spread`` and concentrations of ``gaps``.
    """
    moved, proposal = np.empty_like(coordinates), np.ones((3, hyper.shape[1]))
    for direction in directions:
        arguments = (
            direction,
            pooled,
            coordinates,
            gaps,
            mean,
            spread,
            hyper,
            guess,
            counts,
            moved,
            proposal,
        )
        level = log_density_after_step(0.0, arguments) - rng.exponential(1.0)
        if math.isnan(slice_from(log_density_after_step, arguments, 0.0, level, 1.0, rng)):
            continue
        coordinates[:] = moved
        gaps[:] = proposal[0, : gaps.size]
        if pooled:
            mean[:] = proposal[1, : mean.size]
            spread[:] = proposal[2, : spread.size]


@kernel
def move_spreads(coordinates, mean, spread, hyper, n_classes, rng):
    """Draw common means and, by slice sampling, spreads given the raters' coordinates, in place."""
    n_raters, n_coordinates = coordinates.shape
    for j in range(n_coordinates):
        g = group_of(j, n_classes)
        weight = n_raters / spread[g] ** 2 + 1.0 / hyper[1, j] ** 2
        centre = coordinates[:, j].sum() / spread[g] ** 2 + hyper[0, j] / hyper[1, j] ** 2
        mean[j] = centre / weight + rng.normal() / math.sqrt(weight)
    for g in range(4):
        squares, number = 0.0, 0
        for j in range(n_coordinates):
            if group_of(j, n_classes) == g:
                squares += ((coordinates[:, j] - mean[j]) ** 2).sum()
                number += n_raters
        if number == 0:
            continue
        old, arguments = math.log(spread[g]), (squares, number, hyper[2, g])
        level = log_spread(old, arguments) - rng.exponential(1.0)
        accepted = slice_from(log_spread, arguments, old, level, 3.0 / math.sqrt(number), rng)
        if not math.isnan(accepted):
            spread[g] = math.exp(accepted)


@inner
def log_spread(log_value, arguments):
    """Return the log density of the logarithm of a spread, of a half-normal prior."""
    squares, number, scale = arguments
    value = math.exp(log_value)
    return (1 - number) * log_value - 0.5 * squares / value**2 - 0.5 * (value / scale) ** 2


@kernel
def slopes(coordinates, gaps, guess, step):
    """Return the rows of one rater and their derivatives (coordinates and log gaps, k, c)."""
    n_classes, n_coordinates = gaps.size + 1, coordinates.size
    n_all = n_coordinates + gaps.size
    positions, rows = np.empty(n_classes), np.empty((n_all + 1, n_classes, n_classes))
    moved, stretched = coordinates.copy(), gaps.copy()
    for i in range(n_all + 1):
        for j in range(n_coordinates):
            moved[j] = coordinates[j] + (step if i == j else 0.0)
        total_gap = 0.0
        for k in range(gaps.size):
            stretched[k] = gaps[k] * math.exp(step if i == n_coordinates + k else 0.0)
            total_gap += stretched[k]
        for k in range(gaps.size):
            stretched[k] /= total_gap
        fill_positions(stretched, positions)
        rows[i] = np.exp(log_rows(moved.reshape(1, -1), positions, guess)[0])
    for i in range(n_all):
        rows[i] = (rows[i] - rows[n_all]) / step
    return rows
