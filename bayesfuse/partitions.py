"""A prior over partitions of the raters, as a variable of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaln

from bayesfuse.raters.groups import ALONE
from bayesfuse.raters.inferred import number_groups
from bayesfuse.simplex import Array


def partition(
    name: str,
    n_raters: int,
    n_groups: int,
    concentration: float,
    *,
    start: NDArray[np.int64],
    dims: Any = None,
) -> TensorVariable:
    r"""Register who shares a source with whom, a priori seated in a Chinese restaurant.

    .. math:: p(\text{partition}) = \frac{\Gamma(\alpha)}{\Gamma(\alpha + M)}
              \prod_{\text{sets } S} \alpha\, (|S| - 1)!

    Sets of one are raters alone, the others are groups, numbered by their first rater. Of the
    usual priors this is the one under which whether two raters share a source does not depend on
    who else there is: they do with probability :math:`1 / (1 + \alpha)`.

    Parameters
    ----------
    name : str
        Name of the variable.
    n_raters, n_groups : int
        Raters, and groups there may be at most; above that the prior is zero (and not
        normalised).
    concentration : float
        The prior's α.
    start : ndarray of int64, shape (raters,)
        Where chains begin.

    Returns
    -------
    TensorVariable of int64, shape (raters,)
        Number of every rater's group, −1 for raters alone.

    References
    ----------
    Pitman (2006), Combinatorial Stochastic Processes, section 3.1.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from bayesfuse.partitions import partition
    >>> with pm.Model():
    ...     seats = partition("seats", 3, 1, 2.0, start=np.array([-1, -1, -1]))
    >>> # three alone, three pairs, all together: α³, α² and 2 α over α (α + 1) (α + 2)
    >>> [round(float(np.exp(pm.logp(seats, np.array(each)).eval())), 3)
    ...  for each in ([-1, -1, -1], [0, -1, 0], [0, 0, 0], [-1, 0, -1])]
    [0.333, 0.167, 0.167, 0.0]
    """

    def logp(value: TensorVariable, alpha: TensorVariable, _: TensorVariable) -> TensorVariable:
        member = pt.eq(value[:, None], np.arange(n_groups))
        size = member.sum(axis=0)
        first = pt.where(member, np.arange(n_raters)[:, None], n_raters).min(axis=0)
        n_alone = pt.eq(value, ALONE).sum()
        seating = pt.where(size > 0, pt.log(alpha) + pt.gammaln(pt.maximum(size, 1)), 0.0).sum()
        total = seating + n_alone * pt.log(alpha) + pt.gammaln(alpha) - pt.gammaln(alpha + n_raters)
        numbered = pt.all(pt.ge(value, ALONE) & pt.lt(value, n_groups))
        numbered &= pt.all(pt.neq(size, 1))
        # unused groups have no first rater and come last
        numbered &= pt.all(pt.lt(first[:-1], first[1:]) | pt.eq(size[1:], 0))
        return pt.where(numbered, total, -np.inf)

    def random(alpha: float, _: Any, rng: np.random.Generator, size: Any = None) -> Any:
        shape = tuple(size or ())
        draws = [draw(n_raters, n_groups, float(alpha), rng) for _ in range(int(np.prod(shape)))]
        return np.array(draws).reshape(*shape, n_raters)

    def begin(_: TensorVariable, size: Any, alpha: Any, start: TensorVariable) -> TensorVariable:
        return start

    variable = pm.CustomDist(
        name,
        np.float64(concentration),
        start,  # whose length is the variable's
        logp=logp,
        random=random,
        support_point=begin,  # models with an initval= cannot be copied
        signature="(),(r)->(r)",
        dtype="int64",
        dims=dims,
    )
    variable.owner.op.partition_start = start
    return variable


def draw(
    n_raters: int, n_groups: int, concentration: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw an assignment from the prior, given that there are no more groups than there may be.

    First how many raters are in how many groups, then who, then with whom.
    """
    log_ways = log_seatings(n_raters, n_groups)
    together, groups = np.arange(n_raters + 1)[:, None], np.arange(n_groups + 1)
    log_who = gammaln(n_raters + 1) - gammaln(together + 1) - gammaln(n_raters - together + 1)
    log_weight = log_ways + log_who + np.log(concentration) * (n_raters - together + groups)
    weight = np.exp(log_weight - log_weight.max()).ravel()
    n, left = divmod(int(rng.choice(weight.size, p=weight / weight.sum())), n_groups + 1)
    waiting = rng.permutation(n_raters)[:n].tolist()
    assignment = np.full(n_raters, ALONE)
    followers = []
    while waiting:
        rater = waiting.pop()
        other = int(rng.integers(len(waiting)))
        n = len(waiting)
        log_pair = log_ways[n - 1, left - 1]
        if np.log(rng.random()) < log_pair - np.logaddexp(log_ways[n, left], log_pair):
            left -= 1
            assignment[[rater, waiting.pop(other)]] = left
        else:
            followers.append((rater, waiting[other]))
    for rater, other in reversed(followers):
        assignment[rater] = assignment[other]
    return number_groups(assignment, n_groups)[0]


def log_seatings(n_raters: int, n_groups: int) -> Array:
    """Log number of ways to seat n raters at g round tables, two or more at each.

    Shape (raters + 1, groups + 1). The last rater sits beside one of the others or makes a table
    with one: the associated Stirling numbers of the first kind.

    Examples
    --------
    >>> np.exp(log_seatings(4, 2)).round().astype(int)[4].tolist()
    [0, 6, 3]
    """
    ways = np.full((n_raters + 1, n_groups + 1), -np.inf)
    ways[0, 0] = 0.0
    for n in range(2, n_raters + 1):
        ways[n] = ways[n - 1]
        ways[n, 1:] = np.logaddexp(ways[n, 1:], ways[n - 2, :-1])
        ways[n] += np.log(n - 1)
    return ways
