"""``bf.fit``: variational approximations of the posterior, their results completed and judged."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.inference import cavi
from bayesfuse.inference.approximation import LARGE_K, Approximation, pareto_shape
from bayesfuse.inference.conjugate import Conjugacy, find_conjugate, plain_python
from bayesfuse.inference.gaussian import fit_advi, fit_pathfinder
from bayesfuse.inference.gibbs import LabelGibbs
from bayesfuse.inference.recording import add_data, add_deterministics, as_posterior, evaluate
from bayesfuse.inference.start import DEFAULT, Start, find_start
from bayesfuse.observation import Observation, Rows
from bayesfuse.posterior import complete
from bayesfuse.simplex import Array, draw_dirichlet, from_log_rows

Method = Literal["cavi", "advi", "fullrank_advi", "pathfinder"]

MOST_STEPS = {"cavi": 1000, "advi": 10_000, "fullrank_advi": 20_000, "batches": 100}
"""Iterations at most: of coordinate ascent, stochastic gradient steps, epochs of batches."""

TOLERANCE = {"cavi": 1e-8, "batches": 1e-6}
"""Gain in the bound per response below which a fit has settled."""


def fit(
    model: pm.Model,
    method: Method = "cavi",
    *,
    draws: int = 1000,
    start: str = DEFAULT,
    sweeps: int = 0,
    batch_size: int | None = None,
    iterations: int | None = None,
    tolerance: float | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    log_likelihood: bool | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    r"""Approximate the posterior of a label model, in seconds where sampling may take minutes.

    Parameters
    ----------
    model : pymc.Model
        One of ``bayesfuse.models``, or any model that calls ``bf.observe``.
    method : {"cavi", "advi", "fullrank_advi", "pathfinder"}
        "cavi", coordinate ascent with Dirichlet posteriors, needs Dirichlet or Beta priors of
        fixed concentration on all parameters; it takes as long as EM and depends on no random
        numbers. The others fit normal distributions in unconstrained coordinates to any model
        without whole-numbered parameters: PyMC's ADVI with independent coordinates or a full
        covariance matrix (of as many rows as there are coordinates), and Pathfinder of
        pymc-extras.
    draws : int, default 1000
        Independent draws from the approximation, kept as one chain: there is nothing for R̂ to
        compare.
    start : {"moments", "majority", "prior"}
        Where to begin, see :func:`bayesfuse.inference.start.find_start`.
    sweeps : int, default 0
        Gibbs sweeps given to every draw, each from where it is. They bring back what the
        approximation leaves out, most of it in the first; needs conjugate parameters.
    batch_size : int, optional
        Items (sequences, for chains) per step of stochastic natural gradients, for "cavi" on
        tables so large that passes over all of it are wasteful.
    iterations : int, optional
        At most so many passes (cavi: 1000), steps (advi: 10,000, fullrank_advi: 20,000) or epochs
        (with batches: 100).
    tolerance : float, optional
        For "cavi": stop when the bound gains less than this per response (10⁻⁸; with batches 10⁻⁶
        by epoch).
    random_seed : int, Generator, optional
        The same seed gives the same draws.
    progressbar : bool, default True
        Of ADVI and Pathfinder.
    log_likelihood : bool, optional
        As in :func:`bayesfuse.sample`.
    **kwargs
        For ADVI's step function (``obj_optimizer``, ``obj_n_mc``, …) or
        :func:`pymc_extras.fit_pathfinder`.

    Returns
    -------
    DataTree
        The groups of :func:`bayesfuse.sample`, with one chain, and a group ``fit`` with the bound
        of the log evidence, ``elbo``, by iteration. The attributes say ``method``, ``converged``,
        ``iterations``, ``elbo``, ``pareto_k``, ``sweeps`` and the start that won. Label
        probabilities are averaged over the draws.

    Raises
    ------
    ModelError
        The model observes no responses; a method it cannot use; numbers that make no sense.
    ImpossibleDataError
        The prior or the gold labels rule out some item's responses.
    ImportError
        "pathfinder" without pymc-extras.

    Warns
    -----
    PoorFitWarning
        The fit did not settle; the Pareto shape k̂ of its importance ratios is above 0.7 and no
        sweeps make up for it (a joint criterion, hard to meet with hundreds of parameters); groups
        that were to be inferred were held where the moments put them.

    References
    ----------
    Beal (2003), Variational algorithms for approximate Bayesian inference. Yao, Vehtari, Simpson &
    Gelman (2018), Yes, but did it work?, ICML.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> result = bf.fit(DawidSkene(bf.datasets.anesthesia()), random_seed=1)
    >>> result["posterior"]["prevalence"].mean(("chain", "draw")).round(1).values.tolist()
    [0.4, 0.4, 0.1, 0.0]
    """
    _check(method, draws=draws, batch_size=batch_size, iterations=iterations, kwargs=kwargs)
    if not isinstance(sweeps, int | np.integer) or sweeps < 0:
        raise ModelError(f"sweeps must be a whole number, at least 0. Got: {sweeps!r}.")
    conjugacy = find_conjugate(model)
    if method == "cavi" or sweeps:
        _require_conjugate(conjugacy, "CAVI needs" if method == "cavi" else "Gibbs sweeps need")
    rng = np.random.default_rng(random_seed)
    begun = _begin(conjugacy, start)
    kind = "batches" if batch_size else method
    steps = iterations or MOST_STEPS.get(kind, 0)
    if method == "cavi":
        least = TOLERANCE[kind] if tolerance is None else tolerance
        found = _fit_cavi(conjugacy, begun, int(draws), batch_size, steps, least, rng)
    else:
        _require_gradients(conjugacy, method)
        settings = {"draws": int(draws), "rng": rng, "progressbar": progressbar, **kwargs}
        if method == "pathfinder":
            found = fit_pathfinder(conjugacy, begun, **settings)
        else:
            found = fit_advi(conjugacy, begun, method, iterations=steps, **settings)
    _warn(found, method, sweeps, conjugacy)
    values = _refine(conjugacy, found.values, sweeps, rng) if sweeps else found.values
    result = xr.DataTree(children={"posterior": xr.DataTree(as_posterior(model, values))})
    with plain_python():
        add_deterministics(result, model)
        parameters = evaluate(model, result["posterior"].dataset, conjugacy.variables)
    add_data(result, model)
    complete(result, conjugacy.observation, parameters, log_likelihood=log_likelihood)
    result["fit"] = xr.DataTree(xr.Dataset({"elbo": ("iteration", found.trace)}))
    result.attrs |= {
        "method": method,
        "converged": int(found.converged),
        "iterations": len(found.trace),
        "elbo": float(found.trace[-1]),
        "pareto_k": found.pareto_k,
        "sweeps": int(sweeps),
        **(begun.record() if begun else {"start": "pymc"}),
        **getattr(model, "notes", {}),
    }
    return result


def _check(method: str, *, kwargs: dict[str, Any], **numbers: Any) -> None:
    if method not in get_args(Method):
        raise ModelError(f"method must be one of {list(get_args(Method))}. Got: {method!r}.")
    for name, value in numbers.items():
        optional = value is None and name != "draws"
        if not optional and (not isinstance(value, int | np.integer) or value < 1):
            raise ModelError(f"{name} must be a whole number, at least 1. Got: {value!r}.")
    if method == "cavi" and kwargs:
        raise ModelError(f"CAVI takes no further settings. Got: {sorted(kwargs)}.")
    if method != "cavi" and numbers["batch_size"]:
        raise ModelError(
            "Batches need the natural gradients of method='cavi'. Got: batch_size="
            f"{numbers['batch_size']} with method={method!r}."
        )


def _require_conjugate(conjugacy: Conjugacy, need: str) -> None:
    blocks = {block.variable for block in conjugacy.blocks.values()}
    others = {v.name for v in conjugacy.model.free_RVs if v not in blocks}
    fixed = set(conjugacy.variables) - set(conjugacy.prior_parameters()) - set(conjugacy.known)
    if others or fixed:
        raise ModelError(
            f"{need} a Dirichlet or Beta prior of fixed concentration on every parameter, and no "
            "other unknowns; use method='advi' without sweeps, or bf.sample. Got: none such on "
            f"{sorted(others | fixed)}."
        )


def _require_gradients(conjugacy: Conjugacy, method: str) -> None:
    if indices := conjugacy.inferred:
        raise ModelError(
            f"{method} moves along gradients, which whole numbers do not have; use bf.sample, or "
            f"give their values. Got: {sorted(indices)} to be inferred."
        )


def _begin(conjugacy: Conjugacy, start: str) -> Start | None:
    """Choose the start, or None where the priors are not conjugate and PyMC's own must do."""
    if not conjugacy.complete:
        return None
    observation = conjugacy.observation.known(conjugacy.indices())
    return find_start(observation, conjugacy.concentrations(), start)


def _fit_cavi(
    conjugacy: Conjugacy,
    begun: Start | None,
    draws: int,
    batch_size: int | None,
    iterations: int,
    tolerance: float,
    rng: np.random.Generator,
) -> Approximation:
    assert begun is not None  # the parameters are conjugate
    prior, indices = conjugacy.concentrations(), conjugacy.indices()
    observation = conjugacy.observation.known(indices)
    if batch_size is None:
        settings = {"iterations": iterations, "tolerance": tolerance}
        fitted = cavi.fit(observation, begun.rows, prior, **settings)
    else:
        parts = _cut(observation, batch_size, rng)
        fitted = cavi.fit_stochastic(
            _epochs(parts, iterations, rng),
            begun.rows,
            prior,
            window=len(parts),
            tolerance=tolerance,
        )
        exact = cavi.bound(observation, fitted.concentration, prior)
        fitted = replace(fitted, trace=np.append(fitted.trace, exact))
    rows = {
        name: draw_dirichlet(np.broadcast_to(alpha, (draws, *alpha.shape)), rng)
        for name, alpha in fitted.concentration.items()
    }
    log_ratio = np.empty(draws)
    for draw in range(draws):
        at = {name: drawn[draw] for name, drawn in rows.items()}
        log_ratio[draw] = observation.marginal(at).total + cavi.log_density(prior, at)
        log_ratio[draw] -= cavi.log_density(fitted.concentration, at)
    values = {
        conjugacy.variables[name].name: from_log_rows(drawn, conjugacy.blocks[name].kind)
        for name, drawn in rows.items()
    }
    for name in conjugacy.inferred:
        index = indices[name]
        values[conjugacy.variables[name].name] = np.tile(index, (draws, 1))
    return Approximation(values, fitted.trace, fitted.converged, pareto_shape(log_ratio))


def _cut(observation: Observation, batch_size: int, rng: np.random.Generator) -> list[Observation]:
    """Cut the units of an observation into batches at random."""
    order = rng.permutation(len(observation.labels.units(observation.table)))
    places = range(batch_size, len(order), batch_size)
    return [observation.part(np.sort(units)) for units in np.split(order, places)]


def _epochs(
    parts: list[Observation], epochs: int, rng: np.random.Generator
) -> Iterator[tuple[Observation, float]]:
    """Yield all parts, epoch after epoch, each time in another order."""
    for _ in range(epochs):
        for index in rng.permutation(len(parts)):
            yield parts[index], float(len(parts))


def _refine(
    conjugacy: Conjugacy, values: dict[str, Array], sweeps: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Give every draw Gibbs sweeps of its own."""
    step = LabelGibbs(model=conjugacy.model, rng=rng)
    refined = {name: np.empty_like(drawn) for name, drawn in values.items()}
    for draw in range(len(next(iter(values.values())))):
        at = {name: values[block.variable.name][draw] for name, block in conjugacy.blocks.items()}
        at |= conjugacy.known
        rows: Rows = conjugacy.observation.rows(at)
        for _ in range(sweeps):
            rows |= step.sweep(rows, step.fixed)
        for name, block in conjugacy.blocks.items():
            refined[block.variable.name][draw] = from_log_rows(rows[name], block.kind)
    return refined


def _warn(found: Approximation, method: str, sweeps: int, conjugacy: Conjugacy) -> None:
    def say(what: str) -> None:
        warnings.warn(what, PoorFitWarning, stacklevel=4)

    if not found.converged:
        say(
            "The bound of the log evidence was still rising when the fit ended; allow more "
            f"iterations=. Got: {len(found.trace)} and no end."
        )
    if sweeps:
        return
    if conjugacy.inferred:
        say(
            "Which raters share a source was held where the moments put it, as a product of "
            "distributions has no room for it; sweeps=50 lets every draw leave that place, "
            f"bf.sample explores. Got: method={method!r} for groups to be inferred."
        )
    if found.pareto_k > LARGE_K:
        say(
            "The fit is not close to the joint posterior of all parameters, whose intervals may be "
            "too narrow: sweeps=3 gives every draw a few Gibbs steps, bf.sample is exact. Got: a "
            f"Pareto shape of {found.pareto_k:.2f}, above {LARGE_K}."
        )
