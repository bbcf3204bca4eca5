"""Expectation maximisation: the posterior mode of the parameters, labels summed out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesfuse import dirichlets
from bayesfuse.observation import Observation, Rows
from bayesfuse.positive import Positive
from bayesfuse.simplex import Array


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
    concentration: Rows,
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
    concentration : dict of ndarray
        Dirichlet concentrations of the rows, or mixtures. Those below one count as one: their
        density has no mode, only poles at zero. Positive parameters have their prior here.
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
    numbers, alphas = positives(concentration)
    alphas = {name: dirichlets.with_mode(alpha) for name, alpha in alphas.items()}
    least = tolerance * observation.n_responses
    trace: list[float] = []
    counts_all, log_evidence = observation.labels.counts_all, -np.inf
    previous = rows
    for _ in range(iterations):
        total, counts = observation.expected(rows)
        if total == -np.inf and (counts_all or not trace):
            observation.require_possible(observation.marginal(rows))
        height = total + _log_prior(alphas, rows) + _log_density(numbers, rows)
        if trace and height < trace[-1] - least and not counts_all:
            # Not EM but a step uphill that was too long: half of it, until it is not
            rows = {name: _between(previous[name], rows[name]) for name in rows}
            continue
        log_evidence = total
        trace.append(height)
        if len(trace) > 1 and trace[-1] - trace[-2] < least:
            return PointFit(rows, log_evidence, np.array(trace), True)
        previous = rows
        # which component of a mixture a row is from is hidden, too: at() is its expectation
        found = {
            name: _mode(dirichlets.at(alpha, rows[name]) - 1.0 + counts[name], rows[name])
            for name, alpha in alphas.items()
        }
        rows = rows | found | observation.climb(rows, counts, numbers)
    # the last step of what is not EM has not been judged
    return PointFit(rows if counts_all else previous, log_evidence, np.array(trace), False)


def mean(concentration: Rows) -> Rows:
    """Return the logarithm of the mean of Dirichlet rows, and typical values of positives."""
    numbers, alphas = positives(concentration)
    with np.errstate(divide="ignore"):  # a concentration of zero: an entry that is always zero
        rows = {name: np.log(dirichlets.mean(alpha)) for name, alpha in alphas.items()}
    return rows | {name: np.asarray(prior.typical) for name, prior in numbers.items()}


def positives(concentration: Mapping[str, Any]) -> tuple[dict[str, Positive], Rows]:
    """Part the priors of positive parameters from the concentrations of rows."""
    numbers = {name: prior for name, prior in concentration.items() if isinstance(prior, Positive)}
    return numbers, {name: alpha for name, alpha in concentration.items() if name not in numbers}


def _log_density(numbers: dict[str, Positive], rows: Rows) -> float:
    return sum(
        float(prior.log_density(float(rows[name])))
        for name, prior in numbers.items()
        if prior.log_density is not None
    )


def _mode(counts: Array, previous: Array) -> Array:
    """Log of the normalised rows; a row without any count has no mode and stays as it was."""
    counts = np.maximum(counts, 0.0)  # those of a prior that has more than counts may be negative
    total = counts.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, np.log(counts / total), previous)


def _between(one: Array, other: Array) -> Array:
    """Return the log of the mean of two sets of rows."""
    return np.logaddexp(one, other) - np.log(2.0)


def _log_prior(concentration: Rows, rows: Rows) -> float:
    """Log density of the rows up to a constant."""
    return sum(dirichlets.log_density(alpha, rows[name]) for name, alpha in concentration.items())
