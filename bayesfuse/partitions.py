"""A prior over partitions of the raters, as a variable of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

from bayesfuse.raters.groups import ALONE
from bayesfuse.raters.inferred import number_groups


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

    variable = pm.CustomDist(
        name,
        np.float64(concentration),
        start,  # whose length is the variable's
        logp=logp,
        random=random,
        signature="(),(r)->(r)",
        dtype="int64",
        initval=start,
        dims=dims,
    )
    variable.owner.op.partition_start = start
    return variable


def draw(
    n_raters: int, n_groups: int, concentration: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw an assignment from the prior: seat one rater after another, until few enough groups."""
    while True:
        seat = np.empty(n_raters, dtype=np.int64)
        size: list[int] = []
        for m in range(n_raters):
            weight = np.array([*size, concentration])
            seat[m] = rng.choice(len(weight), p=weight / weight.sum())
            if seat[m] == len(size):
                size.append(0)
            size[seat[m]] += 1
        several = np.array(size)[seat] > 1
        if len(set(seat[several].tolist())) <= n_groups:
            return number_groups(np.where(several, seat, ALONE), n_raters)[0]
