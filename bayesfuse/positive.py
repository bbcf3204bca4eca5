"""Positive numbers among the parameters: drawn or maximised given a log density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesfuse.simplex import Array

REACH, STEP = 8.0, 0.004
"""A table of a log density: how far it reaches and its steps, on the scale of the logarithm."""

WIDTH = 0.5
"""First width of a slice on the scale of the logarithm."""

STEPS = 50
"""Widths that a slice may be made of: more than any proper density needs."""

FACTOR = 1e6
"""A mode is looked for within this factor of where the search begins, either way."""


@dataclass(frozen=True)
class Positive:
    """The prior of a positive parameter: its log density, and a value it may begin with.

    Without density the parameter is known to be that value.
    """

    log_density: Callable[[float], float] | None
    typical: float


def tabulate(log_density: Callable[[Array], Array], typical: float) -> Callable[[float], float]:
    """Return a log density that is looked up, where that is right to rounding, else it itself.

    A compiled density takes fifty microseconds a call, which is more than many a sweep over all
    labels. What it is between values of a table is a cubic's business in the logarithm; densities
    with an edge (a uniform's) or outside the table are evaluated.

    Parameters
    ----------
    log_density : callable
        From an array of values to theirs.
    typical : float
        The middle of the table, which reaches e⁸ times as far either way.

    Examples
    --------
    >>> import numpy as np
    >>> look_up = tabulate(lambda values: -values + np.log(values), 1.0)
    >>> round(look_up(2.0), 8), round(np.log(2.0) - 2.0, 8)
    (-1.30685282, -1.30685282)
    """
    from scipy.interpolate import CubicSpline  # slow to import

    low = math.log(typical) - REACH
    points = low + np.arange(2 * round(REACH / STEP) + 1) * STEP
    between = (points[1:] + points[:-1]) / 2
    with np.errstate(all="ignore"):  # densities may overflow far out
        values, true = log_density(np.exp(points)), log_density(np.exp(between))

    def exact(value: float) -> float:
        return float(log_density(np.array([value]))[0])

    if not (np.isfinite(values).all() and np.isfinite(true).all()):
        return exact
    spline = CubicSpline(points, values)
    if (np.abs(spline(between) - true) > 1e-9 * (1 + np.abs(true))).any():
        return exact
    cubes = spline.c.T.tolist()

    def look_up(value: float) -> float:
        place = (math.log(value) - low) / STEP
        cell = int(place)
        if not 0 <= cell < len(cubes):
            return exact(value)
        c3, c2, c1, c0 = cubes[cell]
        t = (place - cell) * STEP
        return c0 + t * (c1 + t * (c2 + t * c3))

    return look_up


def draw(
    prior: Positive, log_weight: Callable[[float], float], value: float, rng: np.random.Generator
) -> float:
    """Draw from the density proportional to prior times exp(log_weight), going on from a value.

    Slice sampling of the logarithm, by stepping out and shrinking (Neal 2003, Annals of Statistics
    31, 705–767): nothing to tune, and no draw is refused.

    Examples
    --------
    >>> import numpy as np
    >>> prior, rng = Positive(lambda v: -v, 1.0), np.random.default_rng(1)
    >>> value, values = 1.0, []
    >>> for _ in range(2000):
    ...     value = draw(prior, lambda v: 3 * np.log(v), value, rng)
    ...     values.append(value)
    >>> bool(abs(np.mean(values) - 4) < 0.3)  # Gamma(4)
    True
    """
    density = prior.log_density
    assert density is not None

    def height(log_value: float) -> float:
        at = math.exp(log_value)
        return float(density(at)) + log_weight(at) + log_value

    here = math.log(value)
    level = height(here) - rng.exponential()
    low = here - WIDTH * rng.random()
    high = low + WIDTH
    left = rng.integers(STEPS)
    for _ in range(left):
        if height(low) <= level:
            break
        low -= WIDTH
    for _ in range(STEPS - 1 - left):
        if height(high) <= level:
            break
        high += WIDTH
    while True:
        there = low + (high - low) * rng.random()
        if height(there) > level:
            return math.exp(there)
        if there < here:
            low = there
        else:
            high = there
        if high - low < 1e-12:  # the density is a point to all that numbers can tell
            return value


def climb(prior: Positive, log_weight: Callable[[float], float], value: float) -> float:
    """Return the mode of the density proportional to prior times exp(log_weight), near a value.

    Examples
    --------
    >>> round(climb(Positive(lambda v: -v, 1.0), lambda v: 3 * math.log(v), 1.0), 6)
    3.0
    """
    from scipy.optimize import minimize_scalar  # half a second to import

    density = prior.log_density
    assert density is not None

    def depth(log_value: float) -> float:
        at = math.exp(log_value)
        found = float(density(at)) + log_weight(at)
        return -found if found > -np.inf else np.inf

    middle, reach = math.log(value), math.log(FACTOR)
    found = minimize_scalar(
        depth, bounds=(middle - reach, middle + reach), method="bounded", options={"xatol": 1e-10}
    )
    return math.exp(found.x)
