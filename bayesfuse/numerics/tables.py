r"""Dirichlet rows with a common mean, whose posterior is sampled by the Chinese restaurant process.

Counts n of a row θ ~ Dirichlet(κ b), with θ summed out, are those of guests in a restaurant: guest
i + 1 of dish c opens a new table with probability :math:`\kappa b_c / (\kappa b_c + i)`. Given the
numbers of tables, the mean b has a multinomial likelihood, so its prior is conjugate (Antoniak
1974, Annals of Statistics 2, 1152–1174; Teh, Jordan, Beal & Blei 2006, Journal of the American
Statistical Association 101, 1566–1581, appendix A).
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import Array, fill, inlined, inner, kernel
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.slice_sampling import slice_from

SMALLEST = 1e-300  # least concentration of an entry: zero would be a structural zero

MIN_CONCENTRATION = 1e-9  # minimum concentration drawn, so that logarithms are finite


N_TABULATED = 32  # guests of a dish up to which restaurants are counted, not visited one by one
SLICE_WIDTH = 1.0  # width of a slice of the log concentration, as of a posterior of few raters


@inlined
def _draw_n_tables(guests, weight, rng):
    """Draw the number of tables of a dish in a restaurant."""
    tables = 0.0
    for seated in range(int(guests)):
        if seated == 0 or rng.random() * (weight + seated) < weight:
            tables += 1.0
    return tables


def draw_shared(
    concentration: Array,
    mean: Array,
    guests: Array,
    shape: float,
    rate: float,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    r"""Draw concentrations κ ~ Gamma(shape, rate) of restaurants with a common mean, then tables.

    Slice sampling of κ (…) given the guests (restaurants, …, dishes) alone has twenty times the
    effective sample size of draws that also condition on tables. Mean and tables: (…, dishes).
    """
    dishes = guests.shape[-1]
    drawn, tables = _draw_shared(
        np.array(concentration, dtype=float).reshape(-1),
        np.ascontiguousarray(mean, dtype=float).reshape(-1, dishes),
        np.ascontiguousarray(guests, dtype=float).reshape(len(guests), -1, dishes),
        float(shape),
        float(rate),
        rng,
    )
    return drawn.reshape(guests.shape[1:-1]), tables.reshape(guests.shape[1:])


@kernel
def _draw_shared(concentration, mean, guests, shape, rate, rng):
    n_kinds, n_dishes = mean.shape
    tables = np.zeros((n_kinds, n_dishes))
    for k in range(n_kinds):
        arguments = mean, guests, _tail_counts(guests, k), shape, rate, k
        current = math.log(concentration[k])
        level = _log_density(current, arguments) - rng.exponential(1.0)
        accepted = slice_from(_log_density, arguments, current, level, SLICE_WIDTH, rng)
        if not math.isnan(accepted):
            concentration[k] = math.exp(accepted)
        for c in range(n_dishes):
            for m in range(guests.shape[0]):
                tables[k, c] += _draw_n_tables(guests[m, k, c], concentration[k] * mean[k, c], rng)
    return concentration, tables


@inner
def draw_pooled(pool, counts, prior, at, rng):
    """Draw mean and concentration of rows (rows, columns), and write the prior that follows.

    ``pool`` has the mean (kinds, columns), the concentration (kinds,), the prior of the mean,
    shape and rate of that of the concentration, and draws of both, written at ``at``.
    """
    mean, concentration, mean_prior, shape, rate, means, concentrations = pool
    n_kinds, n_columns = mean.shape
    n_raters = counts.shape[0] // n_kinds
    guests = np.empty((n_raters, n_kinds, n_columns))
    fill(guests, counts)
    drawn, tables = _draw_shared(concentration, mean, guests, shape, rate, rng)
    log_mean = np.empty((n_kinds, n_columns))
    draw_rows(mean_prior, tables, log_mean, rng)
    for k in range(n_kinds):
        for c in range(n_columns):
            mean[k, c] = max(math.exp(log_mean[k, c]), SMALLEST)
            base = max(drawn[k] * mean[k, c], SMALLEST)
            for m in range(n_raters):
                prior[m * n_kinds + k, c] = base
            if at >= 0:
                means[at, k, c] = log_mean[k, c]
        if at >= 0:
            concentrations[at, k] = drawn[k]


@inner
def _tail_counts(guests, k):
    """Count the restaurants with more than 0, 1, … FEW guests, by dish and for all together."""
    n_restaurants, _, n_dishes = guests.shape
    more = np.zeros((n_dishes + 1, N_TABULATED + 1))
    for m in range(n_restaurants):
        total = 0.0
        for c in range(n_dishes + 1):
            number = guests[m, k, c] if c < n_dishes else total
            total += number
            for i in range(min(int(number), N_TABULATED + 1)):
                more[c, i] += 1.0
    return more


@inner
def _log_density(log_kappa, arguments):
    r"""Return the log density of log κ given the guests of the restaurants of one kind.

    It has a term :math:`\log\Gamma(a + n) - \log\Gamma(a)` for n guests, the sum of log(a + i) for
    i < n, which restaurants share up to ``N_TABULATED``.
    """
    mean, guests, more, shape, rate, k = arguments
    kappa = math.exp(log_kappa)
    if kappa < MIN_CONCENTRATION:
        return -np.inf
    log_density = shape * log_kappa - rate * kappa
    n_restaurants, _, n_dishes = guests.shape
    for c in range(n_dishes + 1):
        weight, sign = (kappa * mean[k, c], 1.0) if c < n_dishes else (kappa, -1.0)
        i = 0
        while i < N_TABULATED and more[c, i] > 0.0:
            log_density += sign * more[c, i] * math.log(weight + i)
            i += 1
        if more[c, N_TABULATED] > 0.0:
            log_density -= sign * more[c, N_TABULATED] * _log_gamma(weight + N_TABULATED)
            for m in range(n_restaurants):
                number = guests[m, k, c] if c < n_dishes else guests[m, k].sum()
                if number > N_TABULATED:
                    log_density += sign * _log_gamma(weight + number)
    return log_density


@inlined
def _log_gamma(x):
    """Return log Γ(x) but for a constant, for x from ``N_TABULATED`` on, to 10⁻¹¹ (Stirling)."""
    return (x - 0.5) * math.log(x) - x + (1.0 - 1.0 / (30.0 * x * x)) / (12.0 * x)
