"""Simulation-based calibration, and comparisons of numbers, frequencies and fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from bayesfuse.data.responses import Responses
from bayesfuse.inference.sample import sample
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation.model import observed, parameter_variables
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.results.probabilities import label_probabilities


def simulate(
    model: pm.Model, random_seed: int | np.random.Generator | None = None
) -> tuple[dict[str, Array], NDArray[np.int64], Responses]:
    """Draw parameters, truths and responses from the prior of a model.

    Returns
    -------
    parameters : dict
        Values of the parameters of both factors, and of the model's other free variables by name.
    truth : ndarray of int64, shape (items,)
    responses : Responses
        The model's table with what was drawn: labels, and silence if the table knows it.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> parameters, truth, responses = bf.testing.simulate(model, random_seed=1)
    >>> parameters["confusion"].shape, truth.shape, responses.n_responses
    ((5, 4, 4), (45,), 315)
    """
    rng = np.random.default_rng(random_seed)
    variable, observation = observed(model)
    variables = parameter_variables(variable)
    variables = {v.name: v for v in model.free_RVs if v not in variables.values()} | variables
    with without_compilation():  # compilation does not pay for one draw
        values = pm.draw(list(variables.values()), random_seed=rng)
    parameters = dict(zip(variables, values, strict=True))
    truth, table = observation.simulate_table(observation.rows(parameters), rng)
    return parameters, truth, table


def sbc_ranks(
    build: Callable[..., pm.Model],
    responses: Responses,
    *,
    revealed: Iterable[Any] = (),
    simulations: int = 200,
    draws: int = 100,
    thin: int = 1,
    random_seed: int = 0,
    **kwargs: Any,
) -> xr.Dataset:
    """Simulation-based calibration: ranks of prior draws among posterior draws.

    For a correct sampler, ranks are uniform on 0, …, draws, and for labels the randomised
    probability integral transform of the true class on (0, 1) (Talts et al. 2018,
    arXiv:1804.06788).

    Parameters
    ----------
    build : callable
        From responses (and ``gold=``, with ``revealed``) to the model, with a fixed prior.
    responses : Responses: the design; its labels are replaced by simulated ones
    revealed : iterable of item names, optional
        Items whose simulated truth is given: fixed gold labels are no draws from the prior.
    simulations, draws, thin : int
        Number of data sets; number of posterior draws, every ``thin``-th of one chain.
    **kwargs : passed to :func:`bayesfuse.sample`

    Returns
    -------
    Dataset
        Ranks (simulation, …) by variable that is a parameter or a hyperparameter; ``labels``
        (simulation, item). The attribute ``draws`` is the highest rank.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> design = bf.datasets.simulate_dawid_skene(12, 3, 2, random_seed=1).responses
    >>> ranks = bf.testing.sbc_ranks(bf.models.DawidSkene, design, simulations=3, draws=20)
    >>> bf.testing.assert_uniform(ranks["labels"], 1, "labels")
    """
    known = {item: responses.items.tolist().index(item) for item in revealed}
    template = build(responses)
    called = {k: v.name for k, v in parameter_variables(observed(template)[0]).items() if v.name}
    by_name: dict[str, list[Array]] = {}
    for stream in np.random.default_rng(random_seed).spawn(simulations):
        parameters, truth, table = simulate(template, stream)
        gold = {item: responses.classes[truth[n]] for item, n in known.items()}
        result = sample(
            build(table, gold=gold) if gold else build(table),
            draws * thin,
            chains=1,
            random_seed=stream,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            log_likelihood=False,
            **kwargs,
        )
        posterior = result["posterior"].dataset
        for key, value in parameters.items():
            if (name := called.get(key, key)) in posterior:  # else an expression of others
                thinned = posterior[name].values[0, ::thin]
                by_name.setdefault(name, []).append((thinned < value).sum(axis=0).astype(float))
        probability = label_probabilities(result).values
        below = np.where(np.arange(probability.shape[1]) < truth[:, None], probability, 0).sum(1)
        mass = probability[np.arange(len(truth)), truth]
        by_name.setdefault("labels", []).append(below + stream.random(len(truth)) * mass)
    ranks = xr.Dataset(attrs={"draws": draws})
    for name, values in by_name.items():
        axes = (f"{name}_{axis}" for axis in range(values[0].ndim))
        ranks[name] = ("simulation", *axes), np.stack(values)
    return ranks


def assert_uniform(values: ArrayLike, highest: float, name: str, *, bins: int = 10) -> None:
    """Fail if values on [0, highest] are not uniform (chi-square test at level 10⁻⁵).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> bf.testing.assert_uniform(np.random.default_rng(1).random(1000), 1, "numbers")
    """
    flat = np.asarray(values, dtype=float).ravel()
    edges, share = np.linspace(0, 1, bins + 1), np.ones(bins)
    if highest > 1:  # whole numbers, and bins may hold different numbers of them
        edges = np.linspace(-0.5, highest + 0.5, bins + 1)
        share = np.histogram(np.arange(int(highest) + 1), edges)[0].astype(float)
    counts, _ = np.histogram(flat, edges)
    assert_frequencies(counts.astype(float), share / share.sum(), name)


def assert_frequencies(
    counts: Array, probability: Array, name: str, *, alpha: float = 1e-5
) -> None:
    """Fail if counts do not match their probabilities (chi-square test at level ``alpha``).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> bf.testing.assert_frequencies(np.array([400.0, 600.0]), np.array([0.5, 0.5]), "a coin")
    Traceback (most recent call last):
        ...
    AssertionError: a coin: frequencies differ from their probabilities (p = 2.5e-10); ...
    """
    expected = counts.sum() * probability
    order = np.argsort(expected)
    rare = order[np.cumsum(expected[order]) < 5]  # pooled: the test needs five in every cell
    observed, expected_counts = (
        np.append(np.delete(numbers, rare), numbers[rare].sum()) for numbers in (counts, expected)
    )
    expected_counts[-1] = max(
        expected_counts[-1], 1e-300
    )  # also if something impossible was observed
    if observed[-1] == 0.0 and expected_counts[-1] == 1e-300:
        observed, expected_counts = observed[:-1], expected_counts[:-1]
    if len(observed) < 2:
        return
    distances = (observed - expected_counts) ** 2 / expected_counts
    p_value, worst = stats.chi2.sf(distances.sum(), len(observed) - 1), int(np.argmax(distances))
    assert p_value > alpha, (
        f"{name}: frequencies differ from their probabilities (p = {p_value:.1e}); worst in cell "
        f"{worst}: {observed[worst]:.0f} observed, {expected_counts[worst]:.1f} expected"
    )


def assert_close(
    actual: ArrayLike, expected: ArrayLike, name: str, *, rtol: float = 1e-10, atol: float = 1e-12
) -> None:
    """Fail if arrays differ by more than the tolerances, naming the worst entry.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.testing.assert_close([1.0, 2.0], [1.0, 2.5], "means")
    Traceback (most recent call last):
        ...
    AssertionError: means: worst at (1,): 2.0, expected 2.5
    """
    computed, target = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert computed.shape == target.shape, f"{name}: shape {computed.shape}, not {target.shape}"
    with np.errstate(invalid="ignore"):
        excess = np.abs(computed - target) - atol - rtol * np.abs(target)
    excess = np.where(computed == target, -np.inf, np.where(np.isnan(excess), np.inf, excess))
    if excess.size and excess.max() > 0:
        worst = tuple(map(int, np.unravel_index(int(np.argmax(excess)), excess.shape)))
        raise AssertionError(
            f"{name}: worst at {worst}: {computed[worst]}, expected {target[worst]}"
        )
