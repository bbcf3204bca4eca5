"""``bf.fit``: variational approximations of the posterior, their results completed and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.data.responses import Responses, iterate_batches
from bayesfuse.inference import cavi, collapsed, gibbs
from bayesfuse.inference.gaussian import fit_advi, fit_pathfinder
from bayesfuse.inference.gradients import initialize
from bayesfuse.inference.mcmc import ChainInitializer
from bayesfuse.inference.plan import Plan, make_plan, require_mode
from bayesfuse.inference.sample import add_labels
from bayesfuse.inference.start import DEFAULT, majority
from bayesfuse.inference.update import update
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import on_cores
from bayesfuse.observation import LogParameters
from bayesfuse.parameters.contract import Known
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.pymc.evaluate import as_result
from bayesfuse.results import natural
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Precision, resolve_storage
from bayesfuse.results.natural import DirichletPosterior
from bayesfuse.results.posterior import round_off

Method = Literal["auto", "cavi", "advi", "fullrank_advi", "pathfinder"]

CHECKED = 300  # draws at most that one Gibbs sweep looks at, where no sweeps are asked for
WIDENING = 1.1  # growth of standard deviations by Gibbs sweeps above which a fit is too narrow


@errors.takes_seed
@on_cores
def fit(
    model: pm.Model,
    method: Method = "auto",
    *,
    draws: int = 1000,
    start: str | Mapping[str, Any] = DEFAULT,
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
    for name, number in {"batch_size": batch_size, "iterations": iterations}.items():
        if number is not None:
            errors.require_count(name, number)
    errors.require_count("draws", draws)
    errors.require_count("sweeps", sweeps, least=0)
    if tolerance is not None:
        tolerance = errors.require_number("tolerance", tolerance)
    if log_likelihood is not None:
        errors.require_flag("log_likelihood", log_likelihood)
    plan = make_plan(model)
    has_types = collapsed.suits(plan) and method in ("auto", "cavi")
    if not has_types:
        require_mode(plan, "A normal approximation")
    streamed = batch_size or batches is not None
    unsuitable = sorted({v.name for v in plan.others} | (set(plan.variables) - set(plan.priors())))
    if has_types:
        method, unsuitable = "cavi", []
        if streamed:
            raise errors.ModelError(
                "Types of items are fitted with all items at once, because their shares are summed "
                "out: leave out batch_size= and batches=. Got: "
                f"{'batch_size' if batch_size else 'batches'}=."
            )
    elif method == "auto":
        counted = plan.observation.counted_names
        rows = all(isinstance(plan.priors().get(name), Dirichlet | Known) for name in counted)
        method = "cavi" if streamed or (rows and not unsuitable) else "advi"
    if method == "cavi" and kwargs:
        raise errors.ModelError(f"CAVI takes no further settings. Got: {sorted(kwargs)}.")
    if method != "cavi" and streamed:
        raise errors.ModelError(
            f"Batches need the natural gradients of method='cavi'. Got: method={method!r}."
        )
    if unsuitable and (method == "cavi" or sweeps):
        need = "CAVI needs" if method == "cavi" else "Gibbs sweeps need"
        raise errors.ModelError(
            f"{need} a Dirichlet or Beta prior of fixed concentration on every parameter, and "
            "no other variables; use method='advi' without sweeps, or bf.sample. Got: no such "
            f"prior on {unsuitable}."
        )
    asked: dict[str, Any] = {"precision": precision, "thin": 1, "log_likelihood": log_likelihood}
    storage = resolve_storage(model, [plan.observation], (1, int(draws)), **asked)
    keeps = plan.observation.labels.moves_labels
    if sweeps and keeps:
        raise errors.ModelError(
            "Sweeps improve a fit where every one of them draws the labels anew; on a graph they "
            f"go on from where they are, so use bf.sample. Got: sweeps={sweeps}."
        )
    rng = errors.require_seed(random_seed)
    settings: dict[str, Any] = {"draws": int(draws), "rng": rng}
    if has_types:
        initializer = ChainInitializer(plan, start)
        initial = initializer.start
        starts = [majority(plan.observation), initializer.labels()]
        approximation = collapsed.approximate(
            plan, starts, iterations=iterations, tolerance=tolerance, **settings
        )
    else:
        initial, nonconjugate = initialize(plan, start)
    if has_types:
        pass
    elif method == "cavi":
        sizes: dict[str, Any] = {
            "batch_size": batch_size,
            "iterations": iterations,
            "tolerance": tolerance,
        }
        approximation = cavi.approximate(plan, initial.rows, **sizes, **settings)
    else:
        if plan.inferred:
            raise errors.ModelError(
                f"{method} moves along gradients, which whole numbers do not have; use bf.sample, "
                f"or give their values. Got: {sorted(plan.inferred)} to be inferred."
            )
        settings |= {"progressbar": progressbar, **kwargs}
        if method == "pathfinder":
            approximation = fit_pathfinder(plan, nonconjugate, initial, **settings)
        else:
            approximation = fit_advi(
                plan, nonconjugate, initial, method, iterations=iterations, **settings
            )
    values, widening = approximation.values, np.nan
    if sweeps:
        values, widening = _refine(plan, values, sweeps, rng)
    elif not has_types and not unsuitable and draws >= cavi.FEW_DRAWS and not keeps:
        few = {name: drawn[:CHECKED] for name, drawn in values.items()}
        _, widening = _refine(plan, few, 1, rng)
    _warn(approximation, method, sweeps, widening, plan, has_types)
    one_chain = {name: drawn[None] for name, drawn in values.items()}
    result = as_result(model, one_chain)
    add_labels(result, None, plan, storage.log_likelihood)
    warn_of_collapse(result, plan.observation)
    known = {
        n: DirichletPosterior(*q, plan.blocks[n].variable.name)
        for n, q in approximation.rows.items()
    }
    natural.store(result, known, approximation.trace, np.array([natural.digest(plan.observation)]))
    result.attrs |= {
        "method": method,
        "converged": int(approximation.converged),
        "iterations": len(approximation.trace),
        "elbo": float(approximation.trace[-1]),
        "pareto_k": approximation.pareto_k,
        "widening": widening,
        "sweeps": int(sweeps),
        **initial.record(),
        **getattr(model, "notes", {}),
    }
    round_off(result, storage.precision)
    for batch in () if batches is None else iterate_batches(batches):
        result = update(result, batch, draws=draws, random_seed=rng)
    return result


def _refine(
    plan: Plan, values: dict[str, Array], sweeps: int, rng: np.random.Generator
) -> tuple[dict[str, Array], float]:
    """Give every draw sweeps; return draws and the mean ratio of standard deviations after half."""
    sweep = gibbs.Sweep.of(plan)
    before, after = ({name: np.empty_like(v) for name, v in values.items()} for _ in range(2))
    blocks = {block.parameter: block for block in plan.all_blocks}
    for draw in range(len(next(iter(values.values())))):
        at = {name: values[block.variable.name][draw] for name, block in blocks.items()}
        rows: LogParameters = {name: known.value for name, known in plan.constants.items()}
        with np.errstate(divide="ignore"):
            rows |= {name: block.support.to_kernel(at[name]) for name, block in blocks.items()}
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.values(rows))
        state = sweep.begin(rows)
        for moments, times in ((before, sweeps // 2), (after, sweeps - sweeps // 2)):
            for _ in range(times):
                state = gibbs.step(sweep, state, rng)
            for name, block in blocks.items():
                moments[block.variable.name][draw] = block.support.from_kernel(state.rows[name])
    ratios = []
    for block in blocks.values():
        one, two = (moments[block.variable.name].std(axis=0) for moments in (before, after))
        if block.parameter not in plan.observation.indices:
            # exactly constant where a fit holds the parameter, or the prior has zeros
            varies = np.ptp(before[block.variable.name], axis=0) > 0
            ratios.append((two[varies] / one[varies]).ravel())
    return after, float(np.concatenate(ratios).mean())


def _warn(
    fitted: cavi.Approximation,
    method: str,
    sweeps: int,
    widening: float,
    plan: Plan,
    has_types: bool,
) -> None:
    warnings_ = []
    if not fitted.converged:
        warnings_.append(
            "The bound of the log evidence was still rising when the fit ended; allow more "
            f"iterations=. Got: {len(fitted.trace)} iterations without convergence."
        )
    if plan.inferred and not sweeps:
        warnings_.append(
            "The groups of raters were held at the estimate from moments, because they are "
            "discrete; with sweeps=50 the draws explore other groups, with bf.sample all of them. "
            f"Got: method={method!r} for groups to be inferred."
        )
    priors = {block.parameter: block.prior for block in plan.blocks.values()}
    held = {n for n, p in priors.items() if not isinstance(p, Dirichlet)} - plan.inferred
    if method == "cavi" and held and not has_types:
        warnings_.append(
            "CAVI holds parameters without a Dirichlet prior at their mode, so they have no "
            f"interval; use method='advi' or bf.sample for one. Got: {sorted(held)} to be inferred."
        )
    if widening > WIDENING:
        warnings_.append(
            "Gibbs sweeps keep the posterior, but they widen the intervals of this fit, which are "
            f"too narrow; use more sweeps= (now {sweeps}), or bf.sample, which is exact. Got: "
            f"standard deviations that grow {widening:.2f} times."
        )
    elif fitted.pareto_k > cavi.LARGE_K and not sweeps:
        warnings_.append(
            "The fit is not close to the joint posterior of all parameters, though it may be to "
            "each of them; bf.sample is exact, and sweeps=3 is nearer (where priors are conjugate, "
            f"not on graphs). Got: a Pareto shape of {fitted.pareto_k:.2f}, above {cavi.LARGE_K}."
        )
    for words in warnings_:
        errors.warn(words, errors.PoorFitWarning)
