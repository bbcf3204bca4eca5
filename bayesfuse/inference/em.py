"""Expectation maximisation: the posterior mode of the parameters, labels summed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, LogParameters, ResponseModel
from bayesfuse.parameters.contract import Prior

Priors = Mapping[str, Prior]  # the fixed priors of parameters by name

STEPS = 5  # gradient steps of variables without a closed form in every iteration

Nonconjugate = Any  # gradients.Gradients: variables without a fixed conjugate prior


@dataclass(frozen=True)
class PointFit:
    """Where EM ended, the log posterior by iteration, and the log evidence without the priors."""

    rows: LogParameters
    log_evidence: float
    trace: Array
    converged: bool


def fit(
    observation: ResponseModel,
    rows: LogParameters,
    priors: Priors,
    *,
    nonconjugate: Nonconjugate | None = None,
    iterations: int = 1000,
    tolerance: float = 1e-8,
) -> PointFit:
    """Climb from ``rows`` to a mode of the posterior of the parameters.

    Concentrations below one count as one, because such densities have poles and no mode.
    """
    priors = {name: prior.with_mode() for name, prior in priors.items()}
    min_gain = tolerance * observation.n_responses
    trace: list[float] = []
    counts_all, log_evidence = observation.labels.counts_all, -np.inf
    previous = rows
    for _ in range(iterations):
        total, counts = observation.expected(rows)
        if total == -np.inf and (counts_all or not trace):
            observation.require_possible_at(rows)
        height = total + sum(prior.log_density(rows[name]) for name, prior in priors.items())
        if nonconjugate is not None:
            height += nonconjugate.log_density(rows)
            if trace and not np.isfinite(height):  # a density with a pole has no mode
                return PointFit(previous, log_evidence, np.array(trace), False)
        if trace and height < trace[-1] - min_gain and not counts_all:
            # generalised EM overshot: halve the step
            if nonconjugate is None:
                rows = between(previous, rows, previous)
            else:
                rows = nonconjugate.between(previous, rows)
            continue
        log_evidence = total
        trace.append(height)
        if len(trace) > 1 and trace[-1] - trace[-2] < min_gain:
            return PointFit(rows, log_evidence, np.array(trace), True)
        previous = rows
        rows = updated(observation, rows, counts, priors, nonconjugate, "maximise")
        if nonconjugate is not None:
            rows = nonconjugate.climb(rows, counts, STEPS)
    # the density after the last step of generalised EM is not known
    return PointFit(rows if counts_all else previous, log_evidence, np.array(trace), False)


def centre(priors: Priors) -> LogParameters:
    """Return a typical value of every parameter: the mean of rows."""
    return {name: prior.centre() for name, prior in priors.items()}


def updated(
    observation: ResponseModel,
    rows: LogParameters,
    counts: Counts,
    priors: Priors,
    nonconjugate: Nonconjugate | None,
    how: Literal["maximise", "expect", "interior"],
) -> LogParameters:
    """Return all rows updated by the method ``how`` of their priors, given counts."""
    statistics = observation.statistics(rows, counts)
    if nonconjugate is not None:
        priors = {**priors, **nonconjugate.priors(rows)}
    if how == "maximise":
        priors = {name: prior.with_mode() for name, prior in priors.items()}
    return rows | {n: getattr(p, how)(statistics[n], rows[n]) for n, p in priors.items()}


def between(one: LogParameters, other: LogParameters, names: Iterable[str]) -> LogParameters:
    """Return the logs of the means of two sets of rows."""
    return {name: np.logaddexp(one[name], other[name]) - np.log(2.0) for name in names}
