"""Univariate slice sampling, by stepping out and shrinking.

Neal (2003), Annals of Statistics 31, 705–767.
"""

import numpy as np

from bayesfuse.numerics.kernels import inlined

MAX_WIDTHS = 50  # of a slice: more than any of the package's densities needs
MAX_SHRINKS = 60  # after so many, a slice is narrower than rounding


@inlined
def slice_from(log_density, arguments, old, level, width, rng, steps=MAX_WIDTHS):
    """Draw from the slice of ``log_density(at, arguments)`` above a level, NaN if none is accepted.

    ``steps`` bounds the size of the slice, in widths.
    """
    low = old - width * rng.random()
    high = low + width
    left = np.int64(steps * rng.random())
    right = steps - 1 - left
    while left > 0 and log_density(low, arguments) > level:
        low -= width
        left -= 1
    while right > 0 and log_density(high, arguments) > level:
        high += width
        right -= 1
    accepted = np.nan
    for _ in range(MAX_SHRINKS):
        at = low + (high - low) * rng.random()
        if log_density(at, arguments) > level:
            accepted = at
            break
        if at < old:
            low = at
        else:
            high = at
    return accepted
