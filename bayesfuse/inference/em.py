"""Expectation maximisation: the posterior mode of the parameters, labels summed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import Prior

Priors = Mapping[str, Prior]
"""The fixed prior of every parameter."""


@dataclass(frozen=True)
class PointFit:
    """Where EM ended: ``rows``, the log posterior after every iteration, and whether it settled.

    ``log_evidence`` is the marginal likelihood of the responses alone, without the priors.
    """

    rows: Rows
    log_evidence: float
    trace: Array
    converged: bool


def fit(
    observation: Observation,
    rows: Rows,
    priors: Priors,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-8,
) -> PointFit:
    """Climb from ``rows`` to a mode of the posterior of the parameters.

    Parameters
    ----------
    observation : Observation
    rows : dict of ndarray
        Log rows to start from.
    priors : dict of Prior
        Of every parameter. Dirichlet concentrations below one count as one: such densities have
        no mode, only poles at zero.
    iterations : int, default 1000
        At most so many.
    tolerance : float, default 1e-8
        Stop when the log posterior gains less than this per response.

    Returns
    -------
    PointFit

    Raises
    ------
    ImpossibleDataError
        The parameters rule out what was observed.
    """
    priors = {name: prior.with_mode() for name, prior in priors.items()}
    least = tolerance * observation.n_responses
    trace: list[float] = []
    counts_all, log_evidence = observation.labels.counts_all, -np.inf
    previous = rows
    for _ in range(iterations):
        total, counts = observation.expected(rows)
        if total == -np.inf and (counts_all or not trace):
            observation.require_possible(observation.marginal(rows))
        height = total + sum(prior.log_density(rows[name]) for name, prior in priors.items())
        if trace and height < trace[-1] - least and not counts_all:
            # Not EM but a step uphill that was too long: half of it, until it is not
            rows = {name: _between(previous[name], rows[name]) for name in rows}
            continue
        log_evidence = total
        trace.append(height)
        if len(trace) > 1 and trace[-1] - trace[-2] < least:
            return PointFit(rows, log_evidence, np.array(trace), True)
        previous = rows
        statistics = observation.statistics(rows, counts)
        rows = rows | {
            name: prior.maximise(statistics[name], rows[name]) for name, prior in priors.items()
        }
    # the last step of what is not EM has not been judged
    return PointFit(rows if counts_all else previous, log_evidence, np.array(trace), False)


def centre(priors: Priors) -> Rows:
    """Return a typical value of every parameter: the mean of rows."""
    return {name: prior.centre() for name, prior in priors.items()}


def _between(one: Array, other: Array) -> Array:
    """Return the log of the mean of two sets of rows."""
    return np.logaddexp(one, other) - np.log(2.0)
