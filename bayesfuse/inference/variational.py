"""``bf.fit``: variational approximations of the posterior, their results completed and judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.data.responses import Responses
from bayesfuse.inference import cavi, gibbs
from bayesfuse.inference.begin import start_of
from bayesfuse.inference.gaussian import fit_advi, fit_pathfinder
from bayesfuse.inference.plan import Plan, make_plan, require_mode
from bayesfuse.inference.sample import add_labels
from bayesfuse.inference.start import DEFAULT, Start
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import on_cores
from bayesfuse.observation import Rows
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.parameters.contract import Known
from bayesfuse.parameters.dirichlet import RowPrior
from bayesfuse.pymc.evaluate import add_data, add_deterministics, as_posterior
from bayesfuse.results import natural
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Precision, decide
from bayesfuse.results.natural import Natural
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
    start: str = DEFAULT,
    sweeps: int = 0,
    batch_size: int | None = None,
    batches: Iterable[Responses] | None = None,
    n_items: int | None = None,
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
        One of ``bayesfuse.models``, or any model that calls ``bf.observe``.
    method : {"auto", "cavi", "advi", "fullrank_advi", "pathfinder"}
        "cavi", coordinate ascent with Dirichlet posteriors, needs Dirichlet or Beta priors of fixed
        concentration on all parameters; it is as fast as EM and deterministic. The others fit
        normal distributions in unconstrained coordinates, without whole-numbered parameters:
        PyMC's ADVI (independent, or of full rank), and Pathfinder of pymc-extras. "auto" is "cavi"
        if possible, else "advi".
    draws : int, default 1000
        Independent draws from the approximation, stored as one chain.
    sweeps : int, default 0
        Gibbs sweeps given to every draw, which recover most of the posterior that the approximation
        misses; needs conjugate parameters.
    batch_size : int, optional
        For "cavi": items (for chains, sequences) per step of stochastic natural gradients, for
        tables so large that passes over all items are wasteful.
    batches, n_items : iterable of Responses and int, optional
        For "cavi": data that do not fit into memory, read once, each batch with the raters and
        classes of the model's own table and items of its own, their truths unknown; and how many
        items they have together. The fit starts from the model's table, whose label probabilities
        it returns; :func:`bayesfuse.predict` computes those of others, batch by batch. For
        endless streams see :func:`bayesfuse.update`.
    iterations : int, optional
        Maximum number of passes (cavi: 1000), epochs (with ``batch_size``: 100) or steps (advi:
        10,000, fullrank_advi: 20,000).
    tolerance : float, optional
        For "cavi": least gain of the bound per response (10⁻⁸; with batches 10⁻⁶ by epoch).
    start, random_seed, cores, log_likelihood, precision : optional
        As in :func:`bayesfuse.sample`, without values to start from.
    progressbar : bool, default True
        Whether ADVI and Pathfinder show their progress.
    **kwargs
        For ADVI's step function (``obj_optimizer``, ``obj_n_mc``, …) or
        :func:`pymc_extras.fit_pathfinder`.

    Returns
    -------
    DataTree
        The groups of :func:`bayesfuse.sample`, with one chain, and a group ``fit`` with the bound
        of the log evidence, ``elbo``, by iteration, and for "cavi" the Dirichlet concentrations of
        prior and posterior, for :func:`bayesfuse.update`. Attributes: ``method``, ``converged``,
        ``iterations``, ``elbo``, ``pareto_k``, ``widening`` (how much Gibbs sweeps widen the draws;
        1 for draws from the posterior), ``sweeps`` and the start. Label probabilities are averaged
        over the draws (log-loss on RTE 0.281; of the product itself 0.320; exact 0.273).

    Raises
    ------
    ModelError, ImpossibleDataError
        As for :func:`bayesfuse.find_map`; the method does not apply; arguments are out of range.
    ImportError
        "pathfinder" without pymc-extras.

    Warns
    -----
    PoorFitWarning
        The fit did not converge; Gibbs sweeps widen its draws by more than a tenth (one sweep of
        some draws, else the second half of ``sweeps``); the Pareto shape k̂ of its importance ratios
        is above 0.7, without sweeps (a joint criterion, hard to meet with hundreds of parameters);
        inferred groups were held at the estimate from moments.
    LargeResultWarning, CollapseWarning
        As for :func:`bayesfuse.sample`, but all draws are kept.

    Notes
    -----
    A product of distributions of labels and parameters is narrower than the posterior, the more so
    the less certain the labels are (standard deviations on RTE: 0.98 times). Coverage of 90 %
    intervals of prevalence and confusion entries, on 40 data sets simulated from the prior
    (log-loss of the true labels in brackets):

    =============================  ===========  ===========  ==========  ===========
    items × responses, raters      bf.sample    cavi         3 sweeps    20 sweeps
    =============================  ===========  ===========  ==========  ===========
    300 × 5, 10 raters             .90 (.395)   .71 (.435)   .82 (.417)  .87 (.399)
    100 × 3, 5 raters              .89 (.591)   .62 (1.005)  .72 (.855)  .79 (.659)
    =============================  ===========  ===========  ==========  ===========

    ADVI's covered .75 on the first of these (10 data sets, exact .85). Full rank improves small
    tables and converges slowly with hundreds of parameters. Pathfinder's intervals on RTE have 0.63
    times the exact width. ``widening`` is 1.1 to 1.25 where standard deviations are below 0.85
    times the exact ones; k̂ alone cannot detect draws that are too narrow.

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
    numbers: dict[str, Any] = {
        "batch_size": batch_size,
        "n_items": n_items,
        "iterations": iterations,
    }
    if method == "auto" and (batch_size is not None or batches is not None):
        method = "cavi"
    _check(method, sweeps, draws=draws, **numbers)
    if (batches is None) != (n_items is None) or (batches is not None and (batch_size or sweeps)):
        raise errors.ModelError(
            "batches= come with n_items=, how many items there are, and without batch_size= and "
            f"sweeps=, which need all of them at hand. Got: {numbers} and sweeps={sweeps!r}."
        )
    if tolerance is not None:
        tolerance = errors.require_number("tolerance", tolerance)
    if log_likelihood is not None:
        errors.require_flag("log_likelihood", log_likelihood)
    plan = make_plan(model)
    require_mode(plan, "A normal approximation")
    if method == "auto":
        counted = plan.observation.counted_names
        rows = all(isinstance(plan.priors().get(name), RowPrior | Known) for name in counted)
        method = "cavi" if rows and not _not_conjugate(plan) else "advi"
    if method == "cavi" and kwargs:
        raise errors.ModelError(f"CAVI takes no further settings. Got: {sorted(kwargs)}.")
    if method == "cavi" or sweeps:
        need = "CAVI needs" if method == "cavi" else "Gibbs sweeps need"
        if unsuitable := _not_conjugate(plan):
            raise errors.ModelError(
                f"{need} a Dirichlet or Beta prior of fixed concentration on every parameter, and "
                "no other variables; use method='advi' without sweeps, or bf.sample. Got: no such "
                f"prior on {unsuitable}."
            )
    asked: dict[str, Any] = {"precision": precision, "thin": 1, "log_likelihood": log_likelihood}
    kept = decide(model, [plan.observation], (1, int(draws)), **asked)
    keeps = plan.observation.labels.moves_labels
    if sweeps and keeps:
        raise errors.ModelError(
            "Sweeps improve a fit where every one of them draws the labels anew; on a graph they "
            f"go on from where they are, so use bf.sample. Got: sweeps={sweeps}."
        )
    rng = errors.require_seed(random_seed)
    begun, rest = start_of(plan, start)
    settings: dict[str, Any] = {"draws": int(draws), "rng": rng}
    if method == "cavi":
        numbers["tolerance"] = tolerance
        found = _fit_rows(plan, begun, batches=batches, **numbers, **settings)
    else:
        if plan.inferred:
            raise errors.ModelError(
                f"{method} moves along gradients, which whole numbers do not have; use bf.sample, "
                f"or give their values. Got: {sorted(plan.inferred)} to be inferred."
            )
        settings |= {"progressbar": progressbar, **kwargs}
        if method == "pathfinder":
            found = fit_pathfinder(plan, rest, begun, **settings)
        else:
            found = fit_advi(plan, rest, begun, method, iterations=iterations, **settings)
    values, widening = found.values, np.nan
    if sweeps:
        values, widening = _refine(plan, values, sweeps, rng)
    elif not _not_conjugate(plan) and draws >= cavi.FEW_DRAWS and batches is None and not keeps:
        few = {name: drawn[:CHECKED] for name, drawn in values.items()}
        _, widening = _refine(plan, few, 1, rng)
    _warn(found, method, sweeps, widening, plan)
    one_chain = {name: drawn[None] for name, drawn in values.items()}
    result = xr.DataTree(children={"posterior": xr.DataTree(as_posterior(model, one_chain))})
    with plain_python():
        add_deterministics(result, model)
    add_data(result, model)
    add_labels(result, None, plan, kept.log_likelihood)
    warn_of_collapse(result, plan.observation)
    known = {n: Natural(*q, plan.blocks[n].variable.name) for n, q in found.rows.items()}
    natural.store(result, known, found.trace, np.array([natural.digest(plan.observation)]))
    result.attrs |= {
        "method": method,
        "converged": int(found.converged),
        "iterations": len(found.trace),
        "elbo": float(found.trace[-1]),
        "pareto_k": found.pareto_k,
        "widening": widening,
        "sweeps": int(sweeps),
        **begun.record(),
        **getattr(model, "notes", {}),
    }
    round_off(result, kept.precision)
    return result


def _check(method: str, sweeps: Any, **numbers: Any) -> None:
    if method not in get_args(Method):
        raise errors.ModelError(f"method must be one of {list(get_args(Method))}. Got: {method!r}.")
    for name, value in numbers.items():
        if value is not None or name == "draws":
            errors.require_count(name, value)
    errors.require_count("sweeps", sweeps, least=0)
    if method != "cavi" and (numbers["batch_size"] or numbers["n_items"]):
        raise errors.ModelError(
            f"Batches need the natural gradients of method='cavi'. Got: method={method!r}."
        )


def _fit_rows(plan: Plan, begun: Start, *, draws: int, **settings: Any) -> cavi.Approximation:
    """Return draws of every variable; what is no row stays where it began."""
    observation, priors = plan.begun(), plan.continuous_priors()
    found, held = cavi.approximate(observation, begun.rows, priors, draws=draws, **settings)
    still, values = plan.indices() | held, {}
    for name, block in plan.blocks.items():
        own = block.support.from_kernel(found.values[name] if name in found.values else still[name])
        times = () if name in found.values else (draws, *[1] * np.ndim(own))
        values[block.variable.name] = np.tile(own, times)
    return replace(found, values=values)


def _not_conjugate(plan: Plan) -> list[str]:
    """Return names of parameters and other variables that have no update in closed form."""
    unsuitable = set(plan.variables) - set(plan.priors())
    return sorted({v.name for v in plan.others} | unsuitable)


def _refine(
    plan: Plan, values: dict[str, Array], sweeps: int, rng: np.random.Generator
) -> tuple[dict[str, Array], float]:
    """Give every draw sweeps; return draws and the mean ratio of standard deviations after half."""
    sweep = gibbs.Sweep.of(plan)
    before, after = ({name: np.empty_like(v) for name, v in values.items()} for _ in range(2))
    for draw in range(len(next(iter(values.values())))):
        at = {name: values[block.variable.name][draw] for name, block in plan.blocks.items()}
        rows: Rows = {name: known.value for name, known in plan.constants.items()}
        with np.errstate(divide="ignore"):
            rows |= {n: b.support.to_kernel(at[n]) for n, b in plan.blocks.items()}
        state = sweep.begin(rows)
        for number in range(sweeps + 1):
            for kept in [before] * (number == sweeps // 2) + [after] * (number == sweeps):
                for name, block in plan.blocks.items():
                    kept[block.variable.name][draw] = block.support.from_kernel(state.rows[name])
            if number < sweeps:
                state = gibbs.step(sweep, state, rng)
    ratios = []
    for block in plan.blocks.values():
        one, two = (kept[block.variable.name].std(axis=0) for kept in (before, after))
        if block.parameter not in plan.observation.indices:
            # exactly constant where a fit holds the parameter, or the prior has zeros
            varies = np.ptp(before[block.variable.name], axis=0) > 0
            ratios.append((two[varies] / one[varies]).ravel())
    return after, float(np.concatenate(ratios).mean())


def _warn(found: cavi.Approximation, method: str, sweeps: int, widening: float, plan: Plan) -> None:
    def say(what: str) -> None:
        errors.warn(what, errors.PoorFitWarning)

    if not found.converged:
        say(
            "The bound of the log evidence was still rising when the fit ended; allow more "
            f"iterations=. Got: {len(found.trace)} iterations without convergence."
        )
    if plan.inferred and not sweeps:
        say(
            "The groups of raters were held at the estimate from moments, because they are "
            "discrete; with sweeps=50 the draws explore other groups, with bf.sample all of them. "
            f"Got: method={method!r} for groups to be inferred."
        )
    priors = {block.parameter: block.prior for block in plan.blocks.values()}
    held = {n for n, p in priors.items() if not isinstance(p, RowPrior)} - plan.inferred
    if method == "cavi" and held:
        say(
            "CAVI holds parameters without a Dirichlet prior at their mode, so they have no "
            f"interval; use method='advi' or bf.sample for one. Got: {sorted(held)} to be inferred."
        )
    if widening > WIDENING:
        say(
            "Gibbs sweeps keep the posterior, but they widen the intervals of this fit, which are "
            f"too narrow; use more sweeps= (now {sweeps}), or bf.sample, which is exact. Got: "
            f"standard deviations that grow {widening:.2f} times."
        )
    elif found.pareto_k > cavi.LARGE_K and not sweeps:
        few = (
            ""
            if _not_conjugate(plan)
            else "sweeps=3 gives every draw a few Gibbs steps (not on graphs), "
        )
        say(
            "The fit is not close to the joint posterior of all parameters, though it may be to "
            f"each of them; {few}bf.sample is exact. Got: a Pareto shape of "
            f"{found.pareto_k:.2f}, above {cavi.LARGE_K}."
        )
