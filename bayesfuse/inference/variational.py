"""``bf.fit``: variational approximations of the posterior, their results completed and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.data.responses import Responses, iterate_batches
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.inference import cavi, collapsed, gibbs
from bayesfuse.inference.gaussian import fit_advi, fit_pathfinder
from bayesfuse.inference.gradients import initialize
from bayesfuse.inference.mcmc import ChainInitializer
from bayesfuse.inference.plan import Plan, make_plan, require_mode
from bayesfuse.inference.start import DEFAULT, Start
from bayesfuse.inference.update import update
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import on_cores
from bayesfuse.observation.evaluate import as_posterior, evaluate, with_deterministics
from bayesfuse.parameters.contract import Known
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.results import natural, schema
from bayesfuse.results.build import build
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.error_runs import warn_of_repeated_errors
from bayesfuse.results.label_summary import summarize_labels
from bayesfuse.results.natural import DirichletPosterior
from bayesfuse.results.storage import Precision, Storage, resolve_storage

Method = Literal["auto", "cavi", "advi", "fullrank_advi", "pathfinder"]

CHECKED = 300  # draws at most that one Gibbs sweep looks at, where no sweeps are asked for
WIDENING = 1.1  # growth of standard deviations by Gibbs sweeps above which a fit is too narrow


@explains_keywords
@on_cores
def fit(
    model: pm.Model,
    method: Method = "auto",
    *,
    draws: int = 1000,
    start: str | xr.DataTree | Mapping[str, Any] = DEFAULT,
    sweeps: int = 0,
    batch_size: int | None = None,
    batches: Iterable[Responses] | None = None,
    iterations: int | None = None,
    tolerance: float | None = None,
    random_seed: Any = None,
    progressbar: bool = True,
    log_likelihood: bool | None = None,
    cores: int | None = None,
    precision: Precision | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Approximate the posterior of a label model, in seconds where sampling may take minutes.

    Parameters
    ----------
    model : pymc.Model
    method : {"auto", "cavi", "advi", "fullrank_advi", "pathfinder"}
        "cavi", coordinate ascent with Dirichlet posteriors, needs Dirichlet or Beta priors of fixed
        concentration on all parameters; it is as fast as EM and deterministic. For
        :class:`bayesfuse.models.ItemTypes` it is collapsed: with shares, competences and guesses
        summed out, hyperparameters at their mode, from votes and from ``start``, of which the fit
        with the higher bound is kept. The others fit
        normal distributions in unconstrained coordinates, without whole-numbered parameters:
        PyMC's ADVI (independent, or of full rank), and Pathfinder of pymc-extras. "auto" is "cavi"
        if possible, else "advi".
    draws, sweeps : int
        Independent draws from the approximation, stored as one chain, and Gibbs sweeps given to
        each, which recover most of what it misses, where parameters are conjugate.
    batch_size : int, optional
        For "cavi": items (for chains, sequences) per step of stochastic natural gradients, where
        passes over all items are wasteful.
    batches : iterable of Responses, optional
        For "cavi": tables of further items, read one by one by :func:`bayesfuse.update` after the
        model's own table; labels in the result are those of the last.
    iterations, tolerance : int and float, optional
        Maximum number of passes (cavi: 1000), epochs (with ``batch_size``: 100) or steps (advi:
        10,000, fullrank_advi: 20,000), and for "cavi" the least gain of the bound per response
        (10⁻⁸; with batches 10⁻⁶ by epoch).
    start, random_seed, progressbar, cores, log_likelihood, precision : optional
        As in :func:`bayesfuse.sample`.
    **kwargs
        For ADVI's step function (``obj_optimizer``, …) or :func:`pymc_extras.fit_pathfinder`.

    Returns
    -------
    DataTree
        The groups of :func:`bayesfuse.sample`, with one chain, and a group ``fit`` with the bound
        of the log evidence, ``elbo``, by iteration, and for "cavi" the Dirichlet distributions.
        Attributes: ``method``, ``converged``, ``iterations``, ``elbo``, ``pareto_k``, ``widening``
        (how much Gibbs sweeps widen the draws; 1 at the posterior), ``sweeps`` and the start.

    Raises
    ------
    ModelError, ImpossibleDataError, ImportError
        As for :func:`bayesfuse.find_map`; the method does not apply, or needs pymc-extras.

    Warns
    -----
    PoorFitWarning
        The fit did not converge; Gibbs sweeps widen its draws by more than a tenth; the Pareto
        shape k̂ of its importance ratios is above 0.7, without sweeps (a joint criterion, hard to
        meet with hundreds of parameters); inferred groups were held at the estimate from moments.
    LargeResultWarning, CollapseWarning
        As for :func:`bayesfuse.sample`, but all draws are kept.

    Notes
    -----
    A product of distributions of labels and parameters is narrower than the posterior, the more so
    the less certain the labels are: on simulated tables, 90 % intervals hold .62 to .71 of the true
    values, with 20 sweeps .79 to .87. k̂ alone cannot detect draws that are too narrow.

    References
    ----------
    Beal (2003), Variational algorithms for approximate Bayesian inference. Asuncion, Welling, Smyth
    & Teh (2009), On smoothing and inference for topic models, UAI (collapsed, of zeroth order).
    Yao, Vehtari, Simpson & Gelman (2018), Yes, but did it work?, ICML.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.fit(bf.models.DawidSkene(bf.datasets.anesthesia()), random_seed=1)
    >>> result["posterior"]["prevalence"].mean(("chain", "draw")).round(1).values.tolist()
    [0.4, 0.4, 0.1, 0.0]
    """
    errors.require_choice("method", method, *get_args(Method))
    counts = {"draws": draws, "batch_size": batch_size, "iterations": iterations}
    for name, number in counts.items():
        if number is not None or name == "draws":
            errors.require_count(name, number)
    errors.require_count("sweeps", sweeps, least=0)
    if tolerance is not None:
        tolerance = errors.require_number("tolerance", tolerance)
    if log_likelihood is not None:
        errors.require_flag("log_likelihood", log_likelihood)
    plan = make_plan(model)
    is_streamed = bool(batch_size) or batches is not None
    chosen = _choose_method(plan, method, is_streamed)
    if not _is_collapsed(plan, chosen):
        require_mode(plan, "A normal approximation")
    if chosen == "cavi" and kwargs:
        raise errors.ModelError(f"CAVI takes no further settings. Got: {sorted(kwargs)}.")
    _require_suitable(plan, chosen, sweeps, is_streamed)
    requested: Any = {"precision": precision, "thin": 1, "log_likelihood": log_likelihood}
    storage = resolve_storage(model, (1, int(draws)), **requested)
    rng = errors.require_seed(random_seed)
    limits = {"iterations": iterations, "tolerance": tolerance, "batch_size": batch_size}
    options = {"draws": int(draws), "rng": rng}
    if chosen != "cavi":
        options |= {"progressbar": progressbar, **kwargs}
    initial, approximation = _approximate(plan, chosen, start, limits, options)
    values, widening = _refine(plan, approximation.values, sweeps, rng)
    _warn_of_poor_fit(approximation, chosen, sweeps, widening, plan)
    attributes = {"method": chosen, "widening": widening, "sweeps": int(sweeps)}
    attributes |= initial.record()
    result = _as_result(plan, approximation, values, attributes, storage)
    warn_of_collapse(result, plan.observation)
    warn_of_repeated_errors(result, model, plan.observation)
    for batch in () if batches is None else iterate_batches(batches):
        result = update(result, batch, draws=draws, random_seed=rng)
    return result


def log_evidence(model: pm.Model) -> float:
    """Return the bound of :func:`cavi.log_evidence` for a model of item types."""
    limits: dict[str, Any] = {"iterations": cavi.BOUNDED, "tolerance": None, "batch_size": None}
    options = {"draws": 1, "rng": np.random.default_rng(0)}
    approximation = _approximate(make_plan(model), "cavi", "majority", limits, options)[1]
    return float(approximation.trace[-1]) + cavi.gain_of_accuracies(approximation.rows)


def _is_collapsed(plan: Plan, method: str) -> bool:
    """Return whether hidden types are fitted, with the parameters that items share summed out."""
    return method == "cavi" and collapsed.suits(plan)


def _approximate(
    plan: Plan, method: str, start: Any, limits: dict[str, Any], options: dict[str, Any]
) -> tuple[Start, cavi.Approximation]:
    """Return the start, and the approximation that is fitted from it."""
    if _is_collapsed(plan, method):
        del limits["batch_size"]
        initializer = ChainInitializer(plan, start)
        return initializer.start, collapsed.approximate(
            plan, initializer.labels(), **limits, **options
        )
    initial, nonconjugate = initialize(plan, start)
    if method == "cavi":
        return initial, cavi.approximate(plan, initial.rows, **limits, **options)
    if method == "pathfinder":
        return initial, fit_pathfinder(plan, nonconjugate, initial, **options)
    options["iterations"] = limits["iterations"]
    return initial, fit_advi(plan, nonconjugate, initial, method, **options)


def _unsuitable(plan: Plan) -> list[str]:
    """Return variables and parameters without a Dirichlet or Beta prior of fixed concentration."""
    return sorted({v.name for v in plan.others} | (set(plan.variables) - set(plan.priors())))


def _choose_method(plan: Plan, method: str, is_streamed: bool) -> str:
    """Return the method in place of "auto"."""
    if method != "auto":
        return method
    if is_streamed or collapsed.suits(plan):
        return "cavi"
    priors = plan.priors()
    counted = [priors.get(name) for name in plan.observation.counted_names]
    has_dirichlet_priors = all(isinstance(prior, Dirichlet | Known) for prior in counted)
    return "cavi" if has_dirichlet_priors and not _unsuitable(plan) else "advi"


def _require_suitable(plan: Plan, method: str, sweeps: int, is_streamed: bool) -> None:
    """Raise ModelError unless the method, sweeps and batches apply to the model."""
    if method != "cavi" and is_streamed:
        raise errors.ModelError(
            f"Batches need the natural gradients of method='cavi'. Got: method={method!r}."
        )
    is_collapsed = _is_collapsed(plan, method)
    if is_collapsed and is_streamed:
        raise errors.ModelError(
            "Types of items are fitted with all items at once, because their shares are summed "
            "out: leave out batch_size= and batches=. Got: one of these."
        )
    unsuitable = [] if is_collapsed else _unsuitable(plan)
    if unsuitable and (method == "cavi" or sweeps):
        subject = "CAVI needs" if method == "cavi" else "Gibbs sweeps need"
        raise errors.ModelError(
            f"{subject} a Dirichlet or Beta prior of fixed concentration on every parameter, and "
            "no other variables; use method='advi' without sweeps, or bf.sample. Got: no such "
            f"prior on {unsuitable}."
        )
    if sweeps and plan.observation.labels.capabilities.moves_labels:
        raise errors.ModelError(
            "Sweeps improve a fit where each of them draws the labels independently of the "
            "previous ones; on a graph label updates form a Markov chain, so use bf.sample. Got: "
            f"sweeps={sweeps}."
        )
    if method != "cavi" and plan.inferred:
        raise errors.ModelError(
            f"{method} moves along gradients, which whole numbers do not have; use bf.sample, "
            f"or give their values. Got: {sorted(plan.inferred)} to be inferred."
        )


def _as_result(
    plan: Plan,
    approximation: cavi.Approximation,
    values: dict[str, Array],
    attributes: dict[str, Any],
    storage: Storage,
) -> xr.DataTree:
    """Return draws of an approximation as a result of one chain."""
    model, observation = plan.model, plan.observation
    one_chain = {name: drawn[None] for name, drawn in values.items()}
    posterior = with_deterministics(model, as_posterior(model, one_chain))
    parameters = evaluate(model, posterior, plan.variables)
    pointwise = storage.log_likelihood
    summary = summarize_labels(observation, parameters, posterior, log_likelihood=pointwise)
    known = {
        name: DirichletPosterior(prior, fitted, plan.blocks[name].variable.name)
        for name, (prior, fitted) in approximation.rows.items()
    }
    digests = np.array([natural.digest(observation)])
    group = natural.fit_group(posterior, known, approximation.trace, digests)
    stats = {schema.FIT: group}
    attributes = {
        **attributes,
        "converged": int(approximation.converged),
        "iterations": len(approximation.trace),
        "elbo": float(approximation.trace[-1]),
        "pareto_k": approximation.pareto_k,
        **getattr(model, "notes", {}),
    }
    return build(model, posterior, summary, stats, attributes, precision=storage.precision)


def _refine(
    plan: Plan, values: dict[str, Array], sweeps: int, rng: np.random.Generator
) -> tuple[dict[str, Array], float]:
    """Return draws after Gibbs sweeps, and the factor by which sweeps increase their spread.

    Without sweeps, the draws are returned unchanged, and the factor is that of one sweep of a few.
    """
    if sweeps:
        return _sweep(plan, values, sweeps, rng)
    n_draws = len(next(iter(values.values())))
    can_sweep = not (_unsuitable(plan) or plan.observation.labels.capabilities.moves_labels)
    if n_draws < cavi.FEW_DRAWS or not can_sweep:
        return values, np.nan
    some = {name: drawn[:CHECKED] for name, drawn in values.items()}
    return values, _sweep(plan, some, 1, rng)[1]


def _sweep(
    plan: Plan, values: dict[str, Array], sweeps: int, rng: np.random.Generator
) -> tuple[dict[str, Array], float]:
    """Sweep from every draw; return draws and the mean ratio of standard deviations after half."""
    sweep = gibbs.Sweep.of(plan)
    before = {name: np.empty_like(v) for name, v in values.items()}
    after = {name: np.empty_like(v) for name, v in values.items()}
    for draw in range(len(next(iter(values.values())))):
        state = sweep.init(plan.rows_at({name: drawn[draw] for name, drawn in values.items()}))
        for stored, n_sweeps in ((before, sweeps // 2), (after, sweeps - sweeps // 2)):
            for _ in range(n_sweeps):
                state = gibbs.step(sweep, state, rng)
            for block in plan.all_blocks:
                row = state.rows[block.parameter]
                stored[block.variable.name][draw] = block.support.from_kernel(row)
    ratios = []
    for block in plan.all_blocks:
        if block.parameter in plan.observation.indices:
            continue
        name = block.variable.name
        # exactly constant where a fit holds the parameter, or the prior has zeros
        varies = np.ptp(before[name], axis=0) > 0
        ratio = after[name].std(axis=0)[varies] / before[name].std(axis=0)[varies]
        ratios.append(ratio.ravel())
    return after, float(np.concatenate(ratios).mean())


def _warn_of_poor_fit(
    fitted: cavi.Approximation, method: str, sweeps: int, widening: float, plan: Plan
) -> None:
    problems = []
    if not fitted.converged:
        problems.append(
            "The bound of the log evidence was still rising when the fit ended; allow more "
            f"iterations=. Got: {len(fitted.trace)} iterations without convergence."
        )
    if plan.inferred and not sweeps:
        problems.append(
            "The groups of raters were held at the estimate from moments, because they are "
            "discrete; with sweeps=50 the draws explore other groups, with bf.sample all of them. "
            f"Got: method={method!r} for groups to be inferred."
        )
    priors = {block.parameter: block.prior for block in plan.blocks.values()}
    held = {n for n, p in priors.items() if not isinstance(p, Dirichlet)} - plan.inferred
    if method == "cavi" and held and not collapsed.suits(plan):
        problems.append(
            "CAVI holds parameters without a Dirichlet prior at their mode, so they have no "
            f"interval; use method='advi' or bf.sample for one. Got: {sorted(held)} to be inferred."
        )
    if widening > WIDENING:
        problems.append(
            "Gibbs sweeps leave the posterior unchanged, but they widen the intervals of this fit, "
            f"which are too narrow; use more sweeps= (now {sweeps}), or bf.sample, which is exact. "
            f"Got: standard deviations that grow {widening:.2f} times."
        )
    elif fitted.pareto_k > cavi.LARGE_K and not sweeps:
        problems.append(
            "The fit is not close to the joint posterior of all parameters, though it may be to "
            "each of them; bf.sample is exact, and sweeps=3 is nearer (where priors are conjugate, "
            f"not on graphs). Got: a Pareto shape of {fitted.pareto_k:.2f}, above {cavi.LARGE_K}."
        )
    for problem in problems:
        errors.warn(problem, errors.PoorFitWarning)
