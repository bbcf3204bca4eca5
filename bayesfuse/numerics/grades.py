"""Confusion rows of graded raters, and draws of their parameters given counts by class and answer.

Every rater has the coordinates v: the shift of all thresholds, the logarithms of the gaps between
them relative to those between the middles of neighbouring classes, the logarithm of the precision,
and the log-odds of guessing.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inlined, inner, kernel

ROOT_HALF = math.sqrt(0.5)
LEAST = 1e-300  # minimum probability of an answer, so that logarithms are finite
MAX_WIDTHS = 50  # of a slice: more than any of these densities needs
MAX_SHRINKS = 60  # after so many, a slice is narrower than rounding


@inner
def cut(coordinates, middles, cuts):
    """Fill in the thresholds (classes − 1,) of a rater."""
    place, mean = 0.0, 0.0
    for c in range(cuts.size):
        if c > 0:
            place += (middles[c] - middles[c - 1]) * math.exp(min(coordinates[c], 50.0))
        cuts[c] = place
        mean += (place - middles[c]) / cuts.size
    for c in range(cuts.size):
        cuts[c] += coordinates[0] - mean


@inner
def clarity(coordinates):
    """Return the precision of a rater, as :func:`log_answer` takes it, and the rate of guessing."""
    return math.exp(min(coordinates[-2], 50.0)) * ROOT_HALF, 1.0 / (
        1.0 + math.exp(-coordinates[-1])
    )


@inner
def log_answer(precision, guesses, position, c, cuts, guess):
    """Return the log probability of answer ``c`` of a rater with thresholds ``cuts``."""
    low = -np.inf if c == 0 else precision * (cuts[c - 1] - position)
    high = np.inf if c == cuts.size else precision * (cuts[c] - position)
    if low > 0.0:  # the tail that is exact
        low, high = -high, -low
    informed = 0.5 * (math.erfc(-high) - math.erfc(-low))
    return math.log(max((1.0 - guesses) * informed + guesses * guess[c], LEAST))


@inner
def weigh(coordinates, positions, middles, guess, counts, cuts):
    """Return the log probability of the counts (classes, answers) of a rater."""
    total = 0.0
    cut(coordinates, middles, cuts)
    precision, guesses = clarity(coordinates)
    for k in range(positions.size):
        for c in range(positions.size):
            if counts[k, c] > 0.0:
                log_p = log_answer(precision, guesses, positions[k], c, cuts, guess)
                total += counts[k, c] * log_p
    return total


@inner
def middles_of(positions):
    """Return the middles between neighbouring positions."""
    return 0.5 * (positions[1:] + positions[:-1])


@kernel
def log_rows(coordinates, positions, guess):
    """Return the log rows (raters, classes, answers) of raters."""
    n_raters, n_classes = coordinates.shape[0], positions.size
    middles, cuts = middles_of(positions), np.empty(n_classes - 1)
    rows = np.empty((n_raters, n_classes, n_classes))
    for m in range(n_raters):
        cut(coordinates[m], middles, cuts)
        precision, guesses = clarity(coordinates[m])
        for k in range(n_classes):
            for c in range(n_classes):
                rows[m, k, c] = log_answer(precision, guesses, positions[k], c, cuts, guess)
    return rows


@inlined
def slice_from(density, arguments, old, level, width, rng, steps=MAX_WIDTHS):
    """Draw from the slice of ``density(at, arguments)`` above a level, NaN if none is accepted.

    Slices are found by stepping out and shrinking (Neal 2003, Annals of Statistics 31, 705–767).
    """
    low = old - width * rng.random()
    high = low + width
    left = np.int64(steps * rng.random())
    right = steps - 1 - left
    while left > 0 and density(low, arguments) > level:
        low -= width
        left -= 1
    while right > 0 and density(high, arguments) > level:
        high += width
        right -= 1
    accepted = np.nan
    for _ in range(MAX_SHRINKS):
        at = low + (high - low) * rng.random()
        if density(at, arguments) > level:
            accepted = at
            break
        if at < old:
            low = at
        else:
            high = at
    return accepted


@inner
def height(at, arguments):
    """Return the log density of a rater whose coordinate j is ``at``."""
    coordinates, j, positions, middles, guess, counts, cuts, mean, spread = arguments
    coordinates[j] = at
    z = (at - mean[j]) / spread[j]
    return weigh(coordinates, positions, middles, guess, counts, cuts) - 0.5 * z * z


@kernel
def move_raters(coordinates, positions, guess, counts, mean, spread, width, rng):
    """Move every coordinate of every rater by slice sampling, in place.

    Their normal prior has ``mean`` and ``spread`` (coordinates,).
    """
    middles, cuts = middles_of(positions), np.empty(positions.size - 1)
    for m in range(coordinates.shape[0]):
        v = coordinates[m]
        for j in range(v.size):
            old = v[j]
            arguments = v, j, positions, middles, guess, counts[m], cuts, mean, spread
            level = height(old, arguments) - rng.exponential(1.0)
            accepted = slice_from(height, arguments, old, level, width[m, j], rng)
            v[j] = old if math.isnan(accepted) else accepted


@inner
def group_of(j, n_classes):
    """Return which spread a coordinate has: of shifts, gaps, precision or guessing."""
    return 0 if j == 0 else (1 if j < n_classes - 1 else (2 if j == n_classes - 1 else 3))


@inner
def place(gaps, positions):
    """Fill in the positions of the classes, whose gaps are shares of the line."""
    n_classes = positions.size
    positions[0] = -0.5 * (n_classes - 1)
    for k in range(n_classes - 1):
        positions[k + 1] = positions[k] + (n_classes - 1) * gaps[k]


@inner
def try_all(at, arguments):
    """Return the log density after a step ``at`` of all raters, written into ``trial``.

    The rows of ``proposal`` are gaps, mean and spread.
    """
    along, pooled, coordinates, gaps, mean, spread, hyper, guess, counts, trial, proposal = (
        arguments
    )
    n_raters, n_coordinates = coordinates.shape
    n_classes, total, total_gap = gaps.size + 1, 0.0, 0.0
    for k in range(gaps.size):
        proposal[0, k] = gaps[k] * math.exp(at * along[n_coordinates + k])
        total_gap += proposal[0, k]
    for k in range(gaps.size):
        proposal[0, k] = max(proposal[0, k] / total_gap, LEAST)
        total += hyper[3, k] * math.log(proposal[0, k])
    for g in range(4):
        proposal[2, g] = spread[g]
        if pooled:
            log_factor = at * along[n_coordinates + gaps.size + g]
            proposal[2, g] *= math.exp(log_factor)
            total += log_factor - 0.5 * (proposal[2, g] / hyper[2, g]) ** 2
    for j in range(n_coordinates):
        g = group_of(j, n_classes)
        step, factor = at * along[j], proposal[2, g] / spread[g]
        proposal[1, j] = mean[j] + step
        if pooled:
            total -= 0.5 * ((proposal[1, j] - hyper[0, j]) / hyper[1, j]) ** 2
        for m in range(n_raters):
            trial[m, j] = proposal[1, j] + (coordinates[m, j] - mean[j]) * factor
            if not pooled:
                total -= 0.5 * ((trial[m, j] - mean[j]) / spread[g]) ** 2
    positions, cuts = np.empty(n_classes), np.empty(n_classes - 1)
    place(proposal[0, : gaps.size], positions)
    middles = middles_of(positions)
    for m in range(n_raters):
        total += weigh(trial[m], positions, middles, guess, counts[m], cuts)
    return total


@kernel
def move_all(directions, pooled, coordinates, gaps, mean, spread, hyper, guess, counts, rng):
    """Move all raters and their common parameters along lines, in place, by slice sampling.

    Pooled raters keep their differences. Every row of ``directions`` is for the coordinates, then
    the logarithms of ``gaps`` and of ``spread``. ``hyper`` has the rows mean and standard
    deviation of ``mean``, scale of ``spread`` and concentrations of ``gaps``.
    """
    trial, tried = np.empty_like(coordinates), np.ones((3, hyper.shape[1]))
    for along in directions:
        arguments = (
            along,
            pooled,
            coordinates,
            gaps,
            mean,
            spread,
            hyper,
            guess,
            counts,
            trial,
            tried,
        )
        level = try_all(0.0, arguments) - rng.exponential(1.0)
        if math.isnan(slice_from(try_all, arguments, 0.0, level, 1.0, rng)):
            continue
        coordinates[:] = trial
        gaps[:] = tried[0, : gaps.size]
        if pooled:
            mean[:] = tried[1, : mean.size]
            spread[:] = tried[2, : spread.size]


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
        place(stretched, positions)
        rows[i] = np.exp(log_rows(moved.reshape(1, -1), positions, guess)[0])
    for i in range(n_all):
        rows[i] = (rows[i] - rows[n_all]) / step
    return rows
