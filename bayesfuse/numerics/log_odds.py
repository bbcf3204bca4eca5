r"""Draws of shifts of populations, slopes and a classifier's scale, which set log-odds of items.

An item of kind r is of class k with probability proportional to :math:`A_k e^{\eta_{rk}}`. Moves
are slices (Neal 2003, Annals of Statistics 31, 705–767) of the likelihood of every row (items, or
counts of labels), with classes summed out. Shifts and slopes sum to zero over the classes.
"""

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel
from bayesfuse.numerics.slice_sampling import slice_from

MAX_WIDTHS = 8  # maximum size of a slice, in widths
MIN_LIKELIHOOD = 1e-150  # minimum likelihood of a row, so that logarithms are finite
MIN_PRODUCT = 1e-100  # products below this are added up as logarithms
POPULATION, SLOPE, CLASSIFIER = 0, 1, 2  # places of the logarithms of the three scales


@inner
def _log_density(by, arguments):
    """Return the log density after a move; ``prior`` holds the coefficients of its terms."""
    prior, multiplies, delta, places, log_odds, average, rows, odds = arguments
    likelihood, copies, total_copies, order, start = rows
    height = prior[0] * by - 0.5 * prior[1] * by * by
    step = by
    if multiplies:
        step = math.expm1(by)
        height -= prior[2] * step + prior[3] * math.expm1(2.0 * by)
    product = 1.0
    for i in range(places.size):
        r = places[i]
        if total_copies[r] == 0.0:
            continue
        top, total = -np.inf, 0.0
        for k in range(odds.size):
            odds[k] = log_odds[r, k] + step * delta[r, k]
            top = max(top, odds[k])
        for k in range(odds.size):
            odds[k] = math.exp(odds[k] - top)
            total += average[k] * odds[k]
        height -= total_copies[r] * math.log(max(total, MIN_LIKELIHOOD))
        for j in range(start[r], start[r + 1]):
            n = order[j]
            if copies[n] == 0.0:
                continue
            row = 0.0
            for k in range(odds.size):
                row += likelihood[n, k] * odds[k]
            row = max(row, MIN_LIKELIHOOD)
            if copies[n] != 1.0:
                height += copies[n] * math.log(row)
            else:  # logarithms take longer than products
                product *= row
                if product < MIN_PRODUCT:
                    height += math.log(product)
                    product = 1.0
    return height + math.log(product)


@inner
def _move_log_odds(width, arguments, rng):
    """Return how far the log-odds move, and move them."""
    _, multiplies, delta, places, log_odds, _, _, _ = arguments
    level = math.log(1.0 - rng.random()) + _log_density(0.0, arguments)
    by = slice_from(_log_density, arguments, 0.0, level, width, rng, MAX_WIDTHS)
    if math.isnan(by):
        return 0.0
    step = math.expm1(by) if multiplies else by
    for i in range(places.size):
        for k in range(log_odds.shape[1]):
            log_odds[places[i], k] += step * delta[places[i], k]
    return by


@inner
def _log_density_of_scale(log_scale, arguments):
    shape, rate, number, squares = arguments
    height = (shape - number) * log_scale - rate * math.exp(log_scale)
    return height - squares * math.exp(-2.0 * log_scale)


@inner
def _draw_scale(values, log_scales, place, prior, delta, places, context, rng):
    """Move the scale of shifts or slopes given these, then together with them."""
    log_odds, average, rows, odds = context
    n_rows, n_classes = values.shape
    squares = 0.0
    for j in range(n_rows):
        for k in range(n_classes):
            squares += values[j, k] * values[j, k]
    arguments = prior[place, 0], prior[place, 1], n_rows * (n_classes - 1.0), squares
    current = log_scales[place]
    level = math.log(1.0 - rng.random()) + _log_density_of_scale(current, arguments)
    drawn = slice_from(_log_density_of_scale, arguments, current, level, 2.0, rng, MAX_WIDTHS)
    if not math.isnan(drawn):
        log_scales[place] = drawn
    terms = np.zeros(4)
    terms[0], terms[2] = prior[place, 0], prior[place, 1] * math.exp(log_scales[place])
    by = _move_log_odds(1.0, (terms, True, delta, places, log_odds, average, rows, odds), rng)
    log_scales[place] += by
    for j in range(n_rows):
        for k in range(n_classes):
            values[j, k] *= math.exp(by)


@inner
def _draw_contrasts(values, direction, log_scale, along, places, delta, context, rng):
    """Move every class against all others, in rows that change in proportion to ``direction``.

    ``along`` (kinds,) is the change of the log-odds per unit of the direction.
    """
    log_odds, average, rows, odds = context
    n_classes, terms = values.shape[1], np.zeros(4)
    precision, length = math.exp(-2.0 * log_scale), 0.0
    for j in range(direction.size):
        length += direction[j] * direction[j]
    for k_moved in range(n_classes if n_classes > 2 else 1):
        projection = 0.0
        for j in range(direction.size):
            projection += direction[j] * values[j, k_moved]
        terms[0] = -2.0 * projection * precision
        terms[1] = 2.0 * length * (1.0 - 1.0 / n_classes) * precision
        for i in range(places.size):
            r = places[i]
            for k in range(n_classes):
                delta[r, k] = along[r] * ((1.0 if k == k_moved else 0.0) - 1.0 / n_classes)
        width = 2.0 * math.exp(log_scale)
        by = _move_log_odds(
            width, (terms, False, delta, places, log_odds, average, rows, odds), rng
        )
        for j in range(direction.size):
            for k in range(n_classes):
                contrast = (1.0 if k == k_moved else 0.0) - 1.0 / n_classes
                values[j, k] += by * direction[j] * contrast


@kernel
def draw_log_odds(shift, slope, log_scales, log_odds, design, average, rows, rng):
    """Move shifts (populations, classes), slopes (covariates, classes), scales and log-odds.

    ``design`` holds the population of every kind, kinds sorted by population and their first index,
    covariates along the directions (covariates, directions) in which slopes move, logarithms of a
    classifier's probabilities, and priors of scales. ``rows`` are their likelihood (rows, classes),
    copies, copies by kind, rows sorted by kind, and the first index of every kind.
    """
    population, sorted_kinds, population_start, covariates, directions, classifier, prior = design
    n_kinds, n_classes = log_odds.shape
    odds, delta, all_kinds = np.empty(n_classes), np.empty((n_kinds, n_classes)), np.arange(n_kinds)
    context = log_odds, average, rows, odds
    one, ones = np.ones(1), np.ones(n_kinds)
    for g in range(shift.shape[0]):
        places = sorted_kinds[population_start[g] : population_start[g + 1]]
        spread = log_scales[POPULATION]
        _draw_contrasts(shift[g : g + 1], one, spread, ones, places, delta, context, rng)
    if shift.shape[0] > 0:
        for r in range(n_kinds):
            for k in range(n_classes):
                delta[r, k] = shift[population[r], k]
        _draw_scale(shift, log_scales, POPULATION, prior, delta, all_kinds, context, rng)
    for j in range(slope.shape[0]):
        along, direction = covariates[j], directions[j]
        _draw_contrasts(slope, direction, log_scales[SLOPE], along, all_kinds, delta, context, rng)
    if slope.shape[0] > 0:
        for r in range(n_kinds):
            for k in range(n_classes):
                delta[r, k] = 0.0
                for j in range(slope.shape[0]):
                    projection = 0.0
                    for i in range(slope.shape[0]):
                        projection += directions[j, i] * slope[i, k]
                    delta[r, k] += covariates[j, r] * projection
        _draw_scale(slope, log_scales, SLOPE, prior, delta, all_kinds, context, rng)
    if classifier.shape[0] > 0:
        scale, terms = math.exp(log_scales[CLASSIFIER]), np.zeros(4)
        for r in range(n_kinds):
            for k in range(n_classes):
                delta[r, k] = scale * classifier[r, k]
        terms[0], terms[3] = 1.0, 0.5 * scale * scale  # of a half-normal scale, in logarithms
        arguments = terms, True, delta, all_kinds, log_odds, average, rows, odds
        log_scales[CLASSIFIER] += _move_log_odds(1.0, arguments, rng)
