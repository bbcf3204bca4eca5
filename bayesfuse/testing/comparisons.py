"""Comparisons of numbers, frequencies and fits; failures name the worst point."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy import stats

from bayesfuse.numerics.kernels import Array


def assert_uniform(values: ArrayLike, highest: float, name: str, *, bins: int = 10) -> None:
    """Fail if values on [0, highest] are not uniform (chi-square test at level 10⁻⁵).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.testing import assert_uniform
    >>> assert_uniform(np.random.default_rng(1).random(1000), 1, "numbers")
    """
    flat = np.asarray(values, dtype=float).ravel()
    edges, share = np.linspace(0, 1, bins + 1), np.ones(bins)
    if highest > 1:  # whole numbers, and bins may hold different numbers of them
        edges = np.linspace(-0.5, highest + 0.5, bins + 1)
        share = np.histogram(np.arange(int(highest) + 1), edges)[0].astype(float)
    seen, _ = np.histogram(flat, edges)
    assert_frequencies(seen.astype(float), share / share.sum(), name)


def assert_frequencies(seen: Array, probability: Array, name: str, *, alpha: float = 1e-5) -> None:
    """Fail if counts do not match their probabilities (chi-square test at level ``alpha``).

    Examples
    --------
    >>> import numpy as np
    >>> from bayesfuse.testing import assert_frequencies
    >>> assert_frequencies(np.array([480.0, 520.0]), np.array([0.5, 0.5]), "a fair coin")
    >>> assert_frequencies(np.array([400.0, 600.0]), np.array([0.5, 0.5]), "another")
    Traceback (most recent call last):
        ...
    AssertionError: another: frequencies differ from their probabilities (p = 2.5e-10); worst in ...
    """
    expected = seen.sum() * probability
    order = np.argsort(expected)
    rare = order[np.cumsum(expected[order]) < 5]  # pooled: the test needs five in every cell
    common = np.setdiff1d(order, rare)
    cells = [*zip(seen[common], expected[common], strict=True)]
    if len(rare) and expected[rare].sum() > 0:
        cells.append((seen[rare].sum(), max(expected[rare].sum(), 1e-300)))
    if len(cells) < 2:
        return
    distances = np.array([(one - other) ** 2 / other for one, other in cells])
    p_value = float(stats.chi2.sf(distances.sum(), len(cells) - 1))
    worst = int(np.argmax(distances))
    assert p_value > alpha, (
        f"{name}: frequencies differ from their probabilities (p = {p_value:.1e}); worst in cell "
        f"{worst}: {cells[worst][0]:.0f} seen, {cells[worst][1]:.1f} expected"
    )


def assert_close(
    found: ArrayLike, expected: ArrayLike, name: str, *, rtol: float = 1e-10, atol: float = 1e-12
) -> None:
    """Fail if arrays differ by more than the tolerances, naming the worst entry.

    Examples
    --------
    >>> from bayesfuse.testing import assert_close
    >>> assert_close([0.1 + 0.2, 1.0], [0.3, 1.0], "sums")
    >>> assert_close([1.0, 2.0], [1.0, 2.5], "means")
    Traceback (most recent call last):
        ...
    AssertionError: means: worst at (1,): 2.0, expected 2.5
    """
    one, other = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert one.shape == other.shape, f"{name}: shape {one.shape}, expected {other.shape}"
    with np.errstate(invalid="ignore"):
        excess = np.abs(one - other) - atol - rtol * np.abs(other)
    excess = np.where(one == other, -np.inf, np.where(np.isnan(excess), np.inf, excess))
    if excess.size and excess.max() > 0:
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        where = tuple(int(index) for index in place)
        raise AssertionError(f"{name}: worst at {where}: {one[place]}, expected {other[place]}")


def assert_within_mcse(
    found: xr.Dataset, other: xr.Dataset, names: Iterable[str], *, sigmas: float = 5.0
) -> None:
    """Fail if the posterior means of two fits differ by more than Monte Carlo error allows.

    Parameters
    ----------
    found, other : Dataset
        Posterior groups with chain and draw.
    names : iterable of str
    sigmas : float, default 5
        Allowed difference in standard errors: by chance once in two million comparisons.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.testing import assert_within_mcse
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> one, other = (
    ...     bf.sample(model, 50, chains=2, random_seed=seed, progressbar=False, quiet=True)
    ...     for seed in (1, 2)
    ... )
    >>> assert_within_mcse(one["posterior"].dataset, other["posterior"].dataset, ["prevalence"])
    """
    import arviz as az

    for name in names:
        means, errors = [], []
        for posterior in (found, other):
            means.append(posterior[name].mean(("chain", "draw")).values)
            errors.append(az.mcse(posterior[[name]])[name].values)
        allowed = sigmas * np.hypot(*errors)
        excess = np.abs(means[0] - means[1]) / np.maximum(allowed, 1e-12)
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        assert excess.max() <= 1, (
            f"{name}: means differ by more than {sigmas} standard errors, worst at {place}: "
            f"{means[0][place]:.4f} and {means[1][place]:.4f}, allowed {allowed[place]:.4f}"
        )
