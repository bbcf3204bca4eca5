"""Test helpers: enumeration of labels, checks of kernels, simulation-based calibration.

Use them for your own label priors and rater channels, as the package's tests do. Failures name the
worst point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import logsumexp

from bayesfuse.data.responses import Responses
from bayesfuse.inference.sample import sample
from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.kernels import Array, rescale
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.parameters.factor import weight_of
from bayesfuse.pymc.model import observed, parameter_variables
from bayesfuse.raters.base import RaterChannel
from bayesfuse.results.probabilities import label_probabilities


@dataclass(frozen=True)
class Enumerated:
    """Posterior of the labels; ``configurations`` (number, items) and their ``weight``."""

    total: float
    probability: Array
    expected: tuple[Array, ...]
    configurations: NDArray[np.int64]
    weight: Array


def enumerate_labels(
    prior: LabelPrior,
    log_parameters: tuple[Array, ...],
    log_lik: Array,
    structure: tuple[Any, ...],
) -> Enumerated:
    """Sum over all ``classes ** items`` configurations: slow but exact.

    Parameters
    ----------
    prior : LabelPrior
    log_parameters : tuple of ndarray
    log_lik : ndarray, shape (items, classes)
    structure : tuple of ndarray
        From ``prior.structure``, with every item once.

    Returns
    -------
    Enumerated
    """
    n_items, n_classes = log_lik.shape
    configurations = np.array(list(product(range(n_classes), repeat=n_items)))
    every = np.arange(n_items)
    log_prior = [prior.log_prob(log_parameters, labels, structure) for labels in configurations]
    log_joint = np.array(log_prior) + log_lik[every, configurations].sum(axis=1)
    total = float(logsumexp(log_joint))
    weight = np.exp(log_joint - total)
    probability = np.zeros((n_items, n_classes))
    expected = [np.zeros_like(rows, dtype=float) for rows in log_parameters]
    for labels, share in zip(configurations, weight, strict=True):
        probability[every, labels] += share
        for sum_, counts in zip(expected, prior.tally(labels, structure, n_classes), strict=True):
            sum_[...] += share * counts
    return Enumerated(total, probability, tuple(expected), configurations, weight)


def relative(log_lik: Array) -> tuple[Array, Array]:
    """Return likelihoods relative to the largest of each item, and the log scales.

    Rater channels pass these to label priors; ``log_lik`` has shape (items, classes).
    """
    likelihood = log_lik.copy()
    return likelihood, np.array([rescale.py_func(likelihood, n) for n in range(len(likelihood))])


def check_label_prior(
    prior: LabelPrior,
    log_parameters: tuple[Array, ...],
    log_lik: Array,
    structure: tuple[Any, ...],
    *,
    draws: int = 4000,
    random_seed: int = 0,
) -> None:
    """Compare a label prior's kernels with enumeration.

    Log evidence, label probabilities and expected counts must agree to rounding (if the prior is
    exact), decoded labels must be a mode (among those that differ in one label, for a local
    decoder), and drawn configurations must have the right frequencies (chi-square test at level
    10⁻⁵). Draws of priors with ``keeps_labels`` are thinned by ten.

    Raises
    ------
    AssertionError
        Names the quantity and its worst entry.
    """
    exact = enumerate_labels(prior, log_parameters, log_lik, structure)
    likelihood, log_scale = relative(log_lik)
    found = prior.marginal(log_parameters, likelihood, log_scale, structure)
    arrays = found.log_evidence, found.probability, *found.expected
    for one, other in combinations(arrays, 2):
        assert not np.shares_memory(one, other), "outputs share memory, which PyTensor overwrites"
    if prior.exact:
        assert_close(found.total, exact.total, "log evidence", rtol=1e-9)
        assert_close(found.probability, exact.probability, "label probability", atol=1e-9)
        used = prior.used(found.expected, log_parameters, structure)
        for name, one, other in zip(prior.parameters, used, exact.expected, strict=True):
            assert_close(one, other, f"expected counts of {name}", atol=1e-8)
    if prior.adds_up:
        assert_close(found.log_evidence.sum(), exact.total, "sum of the units' log evidence")
    labels = prior.decode(log_parameters, likelihood, structure)
    differ = (exact.configurations != labels).sum(axis=1)
    near = differ <= (1 if not prior.decodes_exactly else len(labels))
    chosen = exact.weight[differ == 0][0]
    assert_close(chosen, exact.weight[near].max(), "probability of the decoded labels")
    rng = np.random.default_rng(random_seed)
    radix = log_lik.shape[1] ** np.arange(len(log_lik))[::-1]
    seen = np.zeros(len(exact.weight))
    labels = prior.draw(log_parameters, likelihood, structure, rng)
    for _ in range(draws):
        for _ in range(10 if prior.moves_labels else 1):
            labels = prior.draw(log_parameters, likelihood, structure, rng, labels)
        seen[labels @ radix] += 1
    impossible = exact.weight < 1e-14
    assert not seen[impossible].any(), f"drew impossible labels {exact.configurations[impossible]}"
    assert_frequencies(seen, exact.weight, "drawn labels")


HIDDEN = 1000
"""Draws of a channel's hidden variables whose mean is compared with its expectation."""


def check_rater_channel(
    channel: RaterChannel, tables: tuple[Array, ...], responses: Responses, *, step: float = 1e-6
) -> None:
    """Check the kernels of a rater channel.

    The probabilities of all possible answers to an item must sum to one for every truth; expected
    counts must be the derivative of the weighted log-likelihood (central differences); the
    log-likelihood must not lie below its tangent, which EM maximises; a known truth must rule out
    the other classes.

    Raises
    ------
    AssertionError
        Names the quantity and its worst entry.
    """
    n_items, n_classes = responses.n_items, responses.n_classes
    unknown = np.full(n_items, -1)
    structure = channel.structure(responses, unknown)
    rng = np.random.default_rng(0)
    weight = rng.random((n_items, n_classes))

    def total(*changed: Array) -> float:
        return float((weight * channel.log_lik(changed, structure)).sum())

    found = channel.expected_kernel(*tables, weight, *structure)
    for which, table in enumerate(tables):
        slope = np.empty_like(table)
        for place in np.ndindex(table.shape):
            moved = [t.copy() for t in tables]
            moved[which][place] += step
            above = total(*moved)
            moved[which][place] -= 2 * step
            slope[place] = (above - total(*moved)) / (2 * step)
        scale = max(abs(total(*tables)), 1.0)
        # central differences lose rounding / step, and the third derivative times step²
        assert_close(found[which], slope, "expected counts", atol=scale * 1e-15 / step + 1e-6)
    labels = channel.log_lik(tables, structure).argmax(axis=1)
    expected = channel.expected_kernel(*tables, np.eye(n_classes)[labels], *structure)
    drawn = [channel.tally(tables, labels, structure, rng) for _ in range(HIDDEN)]
    for counts, weighed in zip(zip(*drawn, strict=True), expected, strict=True):
        # of what is rarely drawn, the sample says little about its own variance
        error = np.sqrt(np.maximum(np.var(counts, axis=0), np.minimum(weighed, 1.0)) / HIDDEN)
        gap = np.abs(np.mean(counts, axis=0) - weighed)
        assert (gap <= 5 * error + 1e-3 * weighed + 1e-9).all(), "tally differs from expectation"
    check_tangent(channel, tables, structure)
    gold = np.arange(n_items) % n_classes
    known = channel.log_lik(tables, channel.structure(responses, gold))
    free = channel.log_lik(tables, structure)
    only = np.where(np.arange(n_classes) == gold[:, None], free, -np.inf)
    assert_close(known, only, "log-likelihood of known labels")
    first = int(np.argmax(responses.per_item))
    mass = np.zeros(n_classes)
    for other in channel.outcomes(responses, first):
        mass += np.exp(channel.log_lik(tables, channel.structure(other, unknown))[first])
    assert_close(mass, np.ones(n_classes), "sum of the probabilities of all answers")


def check_tangent(
    channel: RaterChannel, tables: tuple[Array, ...], structure: tuple[Any, ...]
) -> None:
    """Fail if a log-likelihood at random other tables lies below its tangent at these.

    EM maximises the tangent, so it must be a lower bound. It is one where the likelihood is a sum
    of exponentials of linear functions of the tables.
    """
    rng = np.random.default_rng(1)
    other = [np.array(table + rng.standard_normal(table.shape)) for table in tables]
    for table, moved in zip(tables, other, strict=True):
        rows = np.isclose(np.exp(np.atleast_1d(table)).sum(axis=-1), 1.0)  # sum to one again
        moved[rows] -= logsumexp(moved[rows], axis=-1, keepdims=True)
    log_lik, tangent = (channel.log_lik(each, structure) for each in (tuple(other), tables))
    for weight in np.eye(tangent.size).reshape(-1, *tangent.shape):  # one item, one class
        slope = channel.expected_kernel(*tables, weight, *structure)
        tangent += weight * (weight_of(tuple(other), slope) - weight_of(tables, slope))
    name = "log-likelihood below its tangent, but EM needs it convex in the tables"
    assert_close(np.minimum(log_lik, tangent), tangent, name, rtol=1e-9, atol=1e-9)


def simulate(
    model: pm.Model, random_seed: int | np.random.Generator | None = None
) -> tuple[dict[str, Array], NDArray[np.int64], Responses]:
    """Draw parameters, truths and responses from the prior of a model.

    Returns
    -------
    parameters : dict
        Values of the parameters of the label prior and the channel, and of the model's other free
        variables by name.
    truth : ndarray of int64, shape (items,)
    responses : Responses
        The model's table with what was drawn: labels, and silence if the table knows it.
    """
    rng = np.random.default_rng(random_seed)
    variable, observation = observed(model)
    variables = parameter_variables(variable)
    variables = {v.name: v for v in model.free_RVs if v not in variables.values()} | variables
    with plain_python():  # compilation does not pay for one draw
        values = pm.draw(list(variables.values()), random_seed=rng)
    parameters = dict(zip(variables, values, strict=True))
    truth, table = observation.redraw(observation.rows(parameters), rng)
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

    For a correct sampler, ranks are uniform on 0, …, draws. For labels the rank is replaced by the
    randomised probability integral transform of the true class.

    Parameters
    ----------
    build : callable
        From responses (and ``gold=``, with ``revealed``) to the model, with a fixed prior.
    responses : Responses
        The design; its labels are replaced by simulated ones.
    revealed : iterable of item names, optional
        Items whose simulated truth is given to the model. Fixed gold labels would not be draws
        from the prior.
    simulations, draws, thin : int
        Number of data sets; number of posterior draws, every ``thin``-th of one chain.
    **kwargs
        Passed to :func:`bayesfuse.sample`.

    Returns
    -------
    Dataset
        Ranks (simulation, …) by variable that is a parameter or a hyperparameter; ``labels``
        (simulation, item), uniform on (0, 1). The attribute ``draws`` is the highest rank.

    References
    ----------
    Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based
    calibration, arXiv:1804.06788.
    """
    place = {item: n for n, item in enumerate(responses.items.tolist())}
    known = {item: place[item] for item in revealed}
    template = build(responses)
    called = {k: v.name for k, v in parameter_variables(observed(template)[0]).items() if v.name}
    found: dict[str, list[Array]] = {}
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
                kept = posterior[name].values[0, ::thin]
                found.setdefault(name, []).append((kept < value).sum(axis=0).astype(float))
        probability = label_probabilities(result).values
        below = np.where(np.arange(probability.shape[1]) < truth[:, None], probability, 0).sum(1)
        own = probability[np.arange(len(truth)), truth]
        found.setdefault("labels", []).append(below + stream.random(len(truth)) * own)
    ranks = xr.Dataset(attrs={"draws": draws})
    for name, values in found.items():
        axes = (f"{name}_{axis}" for axis in range(values[0].ndim))
        ranks[name] = ("simulation", *axes), np.stack(values)
    return ranks


def assert_uniform(values: ArrayLike, highest: float, name: str, *, bins: int = 10) -> None:
    """Fail if values on [0, highest] are not uniform (chi-square test at level 10⁻⁵)."""
    flat = np.asarray(values, dtype=float).ravel()
    edges, share = np.linspace(0, 1, bins + 1), np.ones(bins)
    if highest > 1:  # whole numbers, and bins may hold different numbers of them
        edges = np.linspace(-0.5, highest + 0.5, bins + 1)
        share = np.histogram(np.arange(int(highest) + 1), edges)[0].astype(float)
    seen, _ = np.histogram(flat, edges)
    assert_frequencies(seen.astype(float), share / share.sum(), name)


def assert_frequencies(seen: Array, probability: Array, name: str, *, alpha: float = 1e-5) -> None:
    """Fail if counts do not match their probabilities (chi-square test at level ``alpha``)."""
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
    """Fail if arrays differ by more than the tolerances, naming the worst entry."""
    one, other = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    assert one.shape == other.shape, f"{name}: shape {one.shape}, expected {other.shape}"
    with np.errstate(invalid="ignore"):
        excess = np.abs(one - other) - atol - rtol * np.abs(other)
    excess = np.where(one == other, -np.inf, np.where(np.isnan(excess), np.inf, excess))
    if excess.size and excess.max() > 0:
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        where = tuple(int(index) for index in place)
        raise AssertionError(f"{name}: worst at {where}: {one[place]!r}, expected {other[place]!r}")


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
