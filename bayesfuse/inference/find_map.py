"""``bf.find_map``: the posterior mode by EM, in seconds where sampling takes minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError, require_count, require_number
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.inference import em
from bayesfuse.inference.gradients import Gradients, initialize
from bayesfuse.inference.plan import Plan, make_plan, require_mode
from bayesfuse.inference.start import DEFAULT
from bayesfuse.numerics.threads import on_cores
from bayesfuse.observation.evaluate import as_posterior, with_deterministics
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.results import schema
from bayesfuse.results.build import build
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.error_runs import warn_of_repeated_errors
from bayesfuse.results.label_summary import LabelSummary


@explains_keywords
@on_cores
def find_map(
    model: pm.Model,
    *,
    start: str | xr.DataTree | Mapping[str, Any] = DEFAULT,
    iterations: int = 1000,
    tolerance: float = 1e-8,
    cores: int | None = None,
) -> xr.DataTree:
    """Find the posterior mode of a label model's parameters by expectation maximisation.

    Parameters
    ----------
    model : pymc.Model
        Parameters with Dirichlet or Beta priors, and a coupling, are maximised in closed form or in
        one dimension; other variables take gradient steps. Concentrations below one count as one,
        because densities with poles have no mode. Hyperparameters may have none
        (``pooled=True``): see the attribute ``converged``.
    start, cores, iterations, tolerance : optional
        As in :func:`bayesfuse.sample`; iterations at most, least gain of the density per response.

    Returns
    -------
    DataTree
        Groups ``point`` (the parameters, sensitivity, specificity), ``label_posterior`` (at the
        point) and ``trace`` (the log posterior by iteration, up to a constant); attributes
        ``log_evidence``, ``converged``, ``iterations`` and the start. If the attribute ``exact`` of
        ``label_posterior`` is 0 (graphs with circles), all are approximations by its ``method``.

    Raises
    ------
    ModelError, ImpossibleDataError
        Whole-numbered variables; a model without a mode (item types); a coupling that is an
        expression of other variables; prior or gold labels rule out some item's responses.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28, eqs. 2.3–2.5.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> point = bf.find_map(bf.models.DawidSkene(bf.datasets.anesthesia()))
    >>> point["point"]["prevalence"].round(2).values.tolist()
    [0.4, 0.47, 0.11, 0.02]
    """
    plan = make_plan(model)
    _require_em(plan)
    require_count("iterations", iterations)
    tolerance = require_number("tolerance", tolerance)
    observation = plan.initial_response_model()
    initial, _ = initialize(plan, start)
    nonconjugate = Gradients(plan, jacobian=False) if plan.others else None
    rows = initial.rows
    if nonconjugate is not None and plan.complete:
        rows = nonconjugate.begin(rows)  # variables that responses say nothing about
    fit = em.fit(
        observation,
        rows,
        plan.continuous_priors(),
        nonconjugate=nonconjugate,
        iterations=iterations,
        tolerance=tolerance,
    )
    # concentrations that count as one here may be below one, where the density has poles
    varying = [] if nonconjugate is None else [*nonconjugate.priors(fit.rows).values()]
    rows_below = [prior for prior in varying if isinstance(prior, Dirichlet)]
    converged = fit.converged and all((below.concentration >= 1.0).all() for below in rows_below)
    values = {
        name: observation.support(name).from_kernel(fit.rows[name])[None, None]
        for name in observation.names
    }
    modes = {block.variable.name: values[name] for name, block in plan.blocks.items()}
    if nonconjugate is not None:
        modes |= {name: value[None, None] for name, value in nonconjugate.natural(fit.rows).items()}
    point = with_deterministics(model, as_posterior(model, modes)).isel(chain=0, draw=0, drop=True)
    summary = LabelSummary(observation)
    summary.compute(values, log_likelihood=False)
    if summary.probabilities is not None:
        summary.probabilities = summary.probabilities.drop_vars(schema.MCSE)
    trace = xr.Dataset({"log_posterior": ("iteration", fit.trace)})
    attributes = {
        "log_evidence": fit.log_evidence,
        "converged": int(converged),
        "iterations": len(fit.trace),
        **initial.record(),
        **getattr(model, "notes", {}),
    }
    result = build(model, point, summary, {schema.TRACE: trace}, attributes)
    warn_of_collapse(result, observation)
    warn_of_repeated_errors(result, model, observation)
    return result


def _require_em(plan: Plan) -> None:
    """Raise ModelError unless EM can find the mode of the model."""
    require_mode(plan, "EM")
    if discrete := [v.name for v in plan.model.free_RVs if not v.dtype.startswith("float")]:
        raise ModelError(
            "EM needs real numbers, because whole ones have no gradients; use bf.sample, or "
            f"give their values. Got: {discrete} to be inferred."
        )
    labels = plan.observation.labels
    implied = labels.parameters.keys() - plan.blocks.keys() - plan.constants.keys()
    if implied and not labels.capabilities.linear:
        raise ModelError(
            f"EM for {type(labels).__name__} labels maximises {sorted(implied)} in one dimension, "
            "so it must be a variable with a prior, or a number; for others use bf.sample. Got: an "
            "expression of other variables."
        )
