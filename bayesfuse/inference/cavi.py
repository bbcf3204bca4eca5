"""Coordinate ascent on a bound of the log evidence: Dirichlet posteriors instead of a point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from bayesfuse.inference.start import find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet

if TYPE_CHECKING:  # the algorithms do not need PyMC
    from bayesfuse.inference.plan import Plan

RowPriors = Mapping[str, Dirichlet]  # priors or approximations of rows, by parameter

BOUNDED = 100  # iterations that bound the log evidence
MAX_EPOCHS = 100  # of stochastic fits
FORGETTING = 0.7  # exponent of the step sizes of stochastic fits
MIN_GAIN = 1e-6  # of the mean bound per response in an epoch of stochastic fits
LARGE_K = 0.7  # above it, a fit could not even serve as a proposal
FEW_DRAWS = 100  # to estimate the tail of importance ratios
ROUNDING = 1e-6  # smaller differences of log ratios are rounding errors


@dataclass(frozen=True)
class Approximation:
    """Draws (draw, …), bound by iteration, k̂, and prior and fit by parameter where Dirichlet."""

    values: dict[str, Array]
    trace: Array
    converged: bool
    pareto_k: float
    rows: Mapping[str, tuple[Dirichlet, Dirichlet]] = field(default_factory=dict)


def pareto_shape(log_ratio: Array) -> float:
    """Return k̂ of log importance ratios (draws,), NaN for fewer than 100 draws.

    Yao, Vehtari, Simpson & Gelman (2018), Yes, but did it work?, ICML, algorithm 1.
    """
    from arviz_stats.base import array_stats

    finite = log_ratio[np.isfinite(log_ratio)]
    if len(finite) < FEW_DRAWS:
        return float("nan")
    if np.ptp(finite) < ROUNDING:
        return 0.0
    return float(array_stats.psislw(-finite)[1])  # made for the ratios 1 / likelihood


@dataclass(frozen=True)
class VariationalFit:
    """Distributions q of the rows, and the bound of the log evidence (the ELBO) by iteration."""

    approximation: RowPriors
    trace: Array
    converged: bool


def fit(
    observation: ResponseModel,
    rows: LogParameters,
    priors: RowPriors,
    *,
    held: LogParameters | None = None,
    iterations: int = 1000,
    tolerance: float = 1e-8,
) -> VariationalFit:
    """Maximise the bound over Dirichlet distributions (or mixtures) of the rows.

    ``rows`` give the first counts; the parameters ``held`` are fixed. The bound is the log evidence
    at exp E[log θ] less KL(q ‖ prior) (Beal 2003, eq. 2.39). Where counts are not sufficient it is
    approximate, and steps that lower it are halved.
    """
    fixed = held or {}  # priors has the names of all the others
    min_gain = tolerance * observation.n_responses
    _, counts = observation.expected(rows | fixed)
    q = _add(priors, counts)
    previous = q
    trace: list[float] = []
    is_em = observation.labels.capabilities.sufficient
    for _ in range(iterations):
        log_rows = expected_log(q)
        log_evidence, counts = observation.expected(fixed | log_rows)
        if log_evidence == -np.inf:
            observation.require_possible_at(fixed | log_rows)
        height = log_evidence - divergence(q, priors, log_rows)
        if trace and height < trace[-1] - min_gain and not is_em:
            q = _between(previous, q, 0.5)
            continue
        trace.append(height)
        if len(trace) > 1 and trace[-1] - trace[-2] < min_gain:
            return VariationalFit(q, np.array(trace), True)
        previous, q = q, _add(priors, counts)
    return VariationalFit(previous, np.array(trace), False)


def log_evidence(observation: ResponseModel, priors: RowPriors) -> float:
    """Return a bound of the log evidence, where a source has free rows or one accuracy.

    Both are equally probable a priori. With free rows alone, a source costs about two nats more on
    a few hundred items, so that a model with fewer sources would be preferred for that.
    """
    rows = find_start(observation, priors, "majority").rows
    fitted = fit(observation, rows, priors, iterations=BOUNDED)
    pairs = {name: (priors[name], q) for name, q in fitted.approximation.items()}
    return float(fitted.trace[-1]) + gain_of_accuracies(pairs)


def gain_of_accuracies(fitted: Mapping[str, tuple[Dirichlet, Dirichlet]]) -> float:
    """Return the gain in log evidence if sources may have one accuracy, from priors and fits."""
    gains = [_gain_of_source(*pair) for pair in fitted.values() if len(pair[0].shape) == 3]
    return sum(float((np.logaddexp(gain, 0.0) - math.log(2.0)).sum()) for gain in gains)


def _gain_of_source(prior: Dirichlet, posterior: Dirichlet) -> Array:
    """Return the gain in log evidence if all errors of a source are equally probable, (sources,).

    The distribution of the labels is held; rows are (sources, classes, answers).
    """
    alpha, counts = prior.concentration, posterior - prior
    n_classes = counts.shape[-1]
    right, wrong = np.trace(counts, axis1=1, axis2=2), _errors(counts)
    beta = np.trace(alpha, axis1=1, axis2=2) / n_classes, _errors(alpha) / n_classes
    gain = scipy.special.betaln(beta[0] + right, beta[1] + wrong) - scipy.special.betaln(*beta)
    gain -= wrong * math.log(n_classes - 1)
    return gain - (posterior.log_beta() - prior.log_beta()).sum(axis=1)


def _errors(counts: Array) -> Array:
    return counts.sum(axis=(1, 2)) - np.trace(counts, axis1=1, axis2=2)


def fit_stochastic(
    parts: list[ResponseModel],
    rows: LogParameters,
    priors: RowPriors,
    rng: np.random.Generator,
    *,
    held: LogParameters,
    epochs: int,
    tolerance: float = MIN_GAIN,
) -> VariationalFit:
    """Take steps along natural gradients of the bound, of one part of the data at a time.

    Ends when an epoch's mean bound gains less than ``tolerance`` per response. Step sizes are those
    of Hoffman, Blei, Wang & Paisley (2013), JMLR 14, section 2.4.
    """
    times, step = float(len(parts)), 0
    q: RowPriors = {}
    trace: list[float] = []
    for _ in range(epochs):
        bounds = []
        for index in rng.permutation(len(parts)):
            part, step = parts[index], step + 1
            if not q:
                _, counts = part.expected(rows | held)
                q = _add(priors, counts, times)
            log_rows = expected_log(q)
            log_evidence, counts = part.expected(held | log_rows)
            if log_evidence == -np.inf:
                part.require_possible_at(held | log_rows)
            bounds.append(times * log_evidence - divergence(q, priors, log_rows))
            q = _between(q, _add(priors, counts, times), (1 + step) ** -FORGETTING)
        trace.append(float(np.mean(bounds)))
        min_gain = tolerance * times * part.n_responses
        if len(trace) > 1 and abs(trace[-1] - trace[-2]) < min_gain:
            return VariationalFit(q, np.array(trace), True)
    return VariationalFit(q, np.array(trace), False)


def expected_log(approximation: RowPriors) -> LogParameters:
    """Return E[log θ] of the rows; −inf where an entry is a structural zero."""
    return {name: q.expected_log() for name, q in approximation.items()}


def bound(
    observation: ResponseModel,
    approximation: RowPriors,
    priors: RowPriors,
    held: LogParameters | None = None,
) -> float:
    """Return the bound of the log evidence at Dirichlet distributions of the rows."""
    log_rows = expected_log(approximation)
    log_evidence, _ = observation.expected({**(held or {}), **log_rows})
    return log_evidence - divergence(approximation, priors, log_rows)


def divergence(approximation: RowPriors, priors: RowPriors, log_rows: LogParameters) -> float:
    """Return KL(q ‖ prior) of all rows; ``log_rows`` are E[log θ] under q."""
    total = 0.0
    for name, q in approximation.items():
        possible = log_rows[name] > -np.inf
        gained = (q - priors[name])[possible]
        total += float(gained @ log_rows[name][possible])
        total += log_constant(q) - log_constant(priors[name])
    return total


def log_constant(prior: Dirichlet) -> float:
    """Return the log of the constant before the densities of all rows together."""
    return -float(prior.log_beta().sum())


def log_density(priors: RowPriors, rows: LogParameters) -> float:
    """Return the log density of log rows."""
    return sum(q.log_density(rows[name]) + log_constant(q) for name, q in priors.items())


def _add(priors: RowPriors, counts: LogParameters, times: float = 1.0) -> RowPriors:
    return {name: prior.plus(times * counts[name]) for name, prior in priors.items()}


def _between(one: RowPriors, other: RowPriors, share: float) -> RowPriors:
    """Interpolate between two distributions, in natural parameters."""
    return {name: one[name] + share * (other[name] - one[name]) for name in one}


def approximate(
    plan: Plan,
    initial: LogParameters,
    *,
    batch_size: int | None,
    iterations: int | None,
    tolerance: float | None,
    draws: int,
    rng: np.random.Generator,
) -> Approximation:
    """Fit to all data at once, or to random batches of units, other parameters held."""
    observation, priors = plan.initial_response_model(), plan.continuous_priors()
    prior = {name: prior_of for name, prior_of in priors.items() if isinstance(prior_of, Dirichlet)}
    held = {name: initial[name] for name in priors if name not in prior}
    options: dict[str, Any] = {"held": held} | (
        {} if tolerance is None else {"tolerance": tolerance}
    )
    if batch_size:
        order = rng.permutation(len(observation.labels.units(observation.table)))
        cuts = np.split(order, range(batch_size, len(order), batch_size))
        parts = [observation.part(np.sort(units)) for units in cuts]
        fitted_q = fit_stochastic(
            parts, initial, prior, rng, epochs=iterations or MAX_EPOCHS, **options
        )
        total_bound = bound(observation, fitted_q.approximation, prior, held)
        fitted_q = replace(fitted_q, trace=np.append(fitted_q.trace, total_bound))
    else:
        options |= {} if iterations is None else {"iterations": iterations}
        fitted_q = fit(observation, initial, prior, **options)
    rows = draw_rows(fitted_q.approximation, draws, rng)
    shape = _judge(observation, prior, fitted_q.approximation, rows, held)
    constant, values = plan.indices() | held, {}
    for name, block in plan.blocks.items():
        if name in rows:
            values[block.variable.name] = block.support.from_kernel(rows[name])
        else:
            value = block.support.from_kernel(constant[name])
            values[block.variable.name] = np.tile(value, (draws, *[1] * np.ndim(value)))
    fitted = {name: (prior[name], prior_of) for name, prior_of in fitted_q.approximation.items()}
    return Approximation(values, fitted_q.trace, fitted_q.converged, shape, fitted)


def draw_rows(approximation: RowPriors, draws: int, rng: np.random.Generator) -> LogParameters:
    """Draw log rows (draw, …) of every parameter."""
    return {
        name: draw_dirichlet(q.sample_component(rng, draws), rng)
        for name, q in approximation.items()
    }


def _judge(
    observation: ResponseModel,
    priors: RowPriors,
    q: RowPriors,
    rows: LogParameters,
    held: LogParameters,
) -> float:
    """Return the Pareto shape of draws of log rows (draw, …)."""
    log_ratio = np.empty(len(next(iter(rows.values()))))
    if len(log_ratio) < FEW_DRAWS:
        return float("nan")  # before the evidence is computed
    for draw in range(len(log_ratio)):
        at = {name: drawn[draw] for name, drawn in rows.items()}
        log_ratio[draw] = observation.evidence(at | held)[0] + log_density(priors, at)
        log_ratio[draw] -= log_density(q, at)
    return pareto_shape(log_ratio)
