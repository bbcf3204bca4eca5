"""All partitions of a few raters, and their prior."""

import numpy as np
from scipy.special import gammaln


def partitions(n):
    """Return all assignments of n raters, as the model numbers them."""
    every = [[]]
    for m in range(n):
        every = [
            [*p[:i], [*p[i], m], *p[i + 1 :]] if i < len(p) else [*p, [m]]
            for p in every
            for i in range(len(p) + 1)
        ]
    found = []
    for sets in every:
        assignment = np.full(n, -1)
        several = sorted((s for s in sets if len(s) > 1), key=min)
        for number, members in enumerate(several):
            assignment[members] = number
        found.append((tuple(assignment.tolist()), [len(s) for s in sets]))
    return found


def log_prior(sizes, alpha):
    n = sum(sizes)
    seats = sum(np.log(alpha) + gammaln(size) for size in sizes)
    return seats + gammaln(alpha) - gammaln(alpha + n)
