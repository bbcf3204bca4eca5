"""Coordinate ascent on a bound of the log evidence: Dirichlet posteriors instead of a point.

Log densities are linear in the logs of rows, so the best q(θ) given q(y) is Dirichlet, and the best
q(y) given q(θ) is what the kernels compute at rows exp E[log θ]: an iteration costs as in EM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.dirichlet import RowPrior

RowPriors = Mapping[str, RowPrior]  # priors or approximations of rows, by parameter

FORGETTING = 0.7  # exponent of the step sizes of the stochastic form
SETTLED = 1e-6  # change of the averaged bound per response that ends the stochastic form


@dataclass(frozen=True)
class VariationalFit:
    """Distributions q of the rows, and the bound of the log evidence (the ELBO) by iteration."""

    approximation: RowPriors
    trace: Array
    converged: bool


def fit(
    observation: Observation,
    rows: Rows,
    priors: RowPriors,
    *,
    held: Rows | None = None,
    iterations: int = 1000,
    tolerance: float = 1e-8,
) -> VariationalFit:
    r"""Climb to the Dirichlet distributions (or mixtures) nearest to the posterior of the rows.

    ``rows`` are where the first counts are taken; ``held`` are parameters that stay where they are.
    The bound is :math:`\log \tilde Z - \mathrm{KL}(q(\theta) \| p(\theta))`, with the evidence at
    :math:`\exp E_q[\log \theta]` (Beal 2003, eq. 2.39). Where counts are not sufficient
    (``counts_all``) it is approximate, and steps are natural gradients, halved until uphill.
    """
    fixed = held or {}  # priors has the names of all the others
    least = tolerance * observation.n_responses
    _, counts = observation.expected(rows | fixed)
    q = _add(priors, counts)
    previous = q
    trace: list[float] = []
    for _ in range(iterations):
        log_rows = expected_log(q)
        log_evidence, counts = observation.expected(fixed | log_rows)
        if log_evidence == -np.inf:
            observation.require_possible_at(fixed | log_rows)
        height = log_evidence - divergence(q, priors, log_rows)
        if trace and height < trace[-1] - least and not observation.labels.counts_all:
            q = _between(previous, q, 0.5)
            continue
        trace.append(height)
        if len(trace) > 1 and trace[-1] - trace[-2] < least:
            return VariationalFit(q, np.array(trace), True)
        previous, q = q, _add(priors, counts)
    return VariationalFit(previous, np.array(trace), False)


def fit_stochastic(
    batches: Iterable[tuple[Observation, float]],
    rows: Rows,
    priors: RowPriors,
    *,
    held: Rows | None = None,
    window: int = 100,
    tolerance: float = SETTLED,
) -> VariationalFit:
    """Follow natural gradients of the bound, each from a part of the data and how often it counts.

    The bound is averaged over ``window`` batches; ends when it gains less than ``tolerance`` per
    response. Step t is :math:`(1 + t)^{-0.7}` of the way to the prior plus scaled counts (Hoffman,
    Blei, Wang & Paisley 2013, JMLR 14, section 2.4).
    """
    fixed = held or {}
    q: RowPriors = {}
    trace: list[float] = []
    bounds: list[float] = []
    for step, (batch, times) in enumerate(batches, 1):
        if not q:
            _, counts = batch.expected(rows | fixed)
            q = _add(priors, counts, times)
        log_rows = expected_log(q)
        log_evidence, counts = batch.expected(fixed | log_rows)
        if log_evidence == -np.inf:
            batch.require_possible_at(fixed | log_rows)
        bounds.append(times * log_evidence - divergence(q, priors, log_rows))
        target = _add(priors, counts, times)
        q = _between(q, target, (1 + step) ** -FORGETTING)
        if len(bounds) == window:
            trace.append(float(np.mean(bounds)))
            bounds.clear()
            least = tolerance * times * batch.n_responses
            if len(trace) > 1 and abs(trace[-1] - trace[-2]) < least:
                return VariationalFit(q, np.array(trace), True)
    if not q:
        raise ModelError("Stochastic fits need at least one batch of responses. Got: none.")
    if bounds:
        trace.append(float(np.mean(bounds)))
    return VariationalFit(q, np.array(trace), False)


def expected_log(approximation: RowPriors) -> Rows:
    """Return E[log θ] of the rows; −inf where an entry is a structural zero."""
    return {name: q.expected_log() for name, q in approximation.items()}


def bound(
    observation: Observation, approximation: RowPriors, priors: RowPriors, held: Rows | None = None
) -> float:
    """Return the bound of the log evidence at Dirichlet distributions of the rows."""
    log_rows = expected_log(approximation)
    log_evidence, _ = observation.expected({**(held or {}), **log_rows})
    return log_evidence - divergence(approximation, priors, log_rows)


def divergence(approximation: RowPriors, priors: RowPriors, log_rows: Rows) -> float:
    """Return KL(q ‖ prior) of all rows; ``log_rows`` are E[log θ] under q."""
    total = 0.0
    for name, q in approximation.items():
        possible = log_rows[name] > -np.inf
        gained = (q - priors[name])[possible]
        total += float(gained @ log_rows[name][possible])
        total += log_constant(q) - log_constant(priors[name])
    return total


def log_constant(prior: RowPrior) -> float:
    """Return the log of the constant before the densities of all rows together."""
    return -float(prior.log_beta().sum())


def log_density(priors: RowPriors, rows: Rows) -> float:
    """Return the log density of log rows."""
    return sum(q.log_density(rows[name]) + log_constant(q) for name, q in priors.items())


def _add(priors: RowPriors, counts: Rows, times: float = 1.0) -> RowPriors:
    return {name: prior.plus(times * counts[name]) for name, prior in priors.items()}


def _between(one: RowPriors, other: RowPriors, share: float) -> RowPriors:
    """Return distributions a share of the way from one to the other, in natural parameters."""
    return {name: one[name] + share * (other[name] - one[name]) for name in one}
