"""``bf.sample``: PyMC's sampling loop, started in the right place, its result completed."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.sampling.mcmc import NUTPIE_INSTALLED

from bayesfuse.errors import (
    IncompleteWarning,
    ModelError,
    interruptible,
    require_count,
    require_flag,
    require_own_names,
    require_seed,
)
from bayesfuse.inference.chains import (
    as_begun,
    begin,
    drawn_anew,
    initial_values,
    sample_nuts,
    thinned,
)
from bayesfuse.inference.gibbs import LabelGibbs
from bayesfuse.inference.plan import Plan, make_plan
from bayesfuse.inference.pooling import rest_of
from bayesfuse.inference.recording import (
    add_deterministics,
    check_convergence,
    label_trace,
    parameter_trace,
)
from bayesfuse.inference.several import sample_several
from bayesfuse.inference.start import DEFAULT
from bayesfuse.numerics.threads import available, threads
from bayesfuse.observation import Blocks, RatersInBlocks, Spread
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import all_observed
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Draws
from bayesfuse.results.partitions import complete
from bayesfuse.results.posterior import add_constants, order_variables, store
from bayesfuse.results.storage import Precision, decide, round_off

BOOKKEEPING = 130e-6
"""Seconds that PyMC's loop and the passes over the draws spend on each, about.

A sweep that costs less is repeated.
"""

RESERVED = {"initvals", "return_inferencedata", "step", "trace", "var_names"}

OF_NUTS = {"init", "n_init", "jitter_max_retries", "nuts_sampler_kwargs"}
"""Arguments of ``pm.sample`` that are settings of NUTS, beside those that it does not name."""

WORTH_A_PROCESS = 20.0
"""Seconds of sweeps above which chains get processes of their own; starting one costs seconds."""


@interruptible
def sample(
    model: pm.Model,
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int = 4,
    cores: int | None = None,
    sampler: Literal["auto", "gibbs", "nuts"] = "auto",
    nuts_sampler: Literal["pymc", "nutpie", "numpyro", "blackjax"] | None = None,
    sweeps: int | None = None,
    thin: int | None = None,
    precision: Precision | None = None,
    start: str | Mapping[str, Any] = DEFAULT,
    random_seed: Any = None,
    progressbar: Any = True,
    log_likelihood: bool | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Draw from the posterior of a label model.

    Parameters
    ----------
    model : pymc.Model
        One of ``bayesfuse.models``, or any model that calls ``bf.observe``.
    draws, chains : int
        Draws kept per chain, and chains.
    tune : int, optional
        Draws before those, dropped. Default 200 for Gibbs, PyMC's choice for NUTS.
    cores : int, optional
        Cores that may work. Large tables are cut into blocks that threads share, in every step, by
        default as many as there are cores (or as OMP_NUM_THREADS or NUMBA_NUM_THREADS allow);
        the draws do not depend on their number. Smaller ones have a process for each chain if the
        work is worth it. For NUTS processes, by default PyMC's choice.
    sampler : {"auto", "gibbs", "nuts"}
        "gibbs" draws labels and conjugate parameters with :class:`bayesfuse.LabelGibbs` and leaves
        what is left to NUTS; "nuts" uses NUTS for all, with the labels summed out. "auto" takes
        Gibbs where some parameter is conjugate.
    nuts_sampler : str, optional
        Implementation of NUTS, as in :func:`pymc.sample`.
    sweeps : int, optional
        Gibbs sweeps per draw. Default as many as cost what PyMC's bookkeeping of a draw does.
    thin : int, optional
        Keep one draw in so many, for results that take less memory; the work is the same. Default
        1 if posterior and log likelihood then take at most 500 MB, else as many as it takes.
    precision : {"double", "single"}, optional
        Precision of the stored posterior and log likelihood: single takes half the memory. Default
        double if they then take at most 500 MB, else single. Label probabilities are computed
        before rounding.
    start : str or mapping of variable name to value
        Where chains begin: "moments" (default: spectral moments or majority vote, whichever EM
        takes higher), "majority", "prior" (its mean), or values. The result's attributes record
        the choice. Chains are dispersed by drawing labels and then parameters from their
        conditionals, not by jitter, so that they do not end in different labellings of the classes.
    random_seed : int, Generator, optional
        The same seed gives the same draws.
    progressbar : bool or str
        As in :func:`pymc.sample`.
    log_likelihood : bool, optional
        Whether to store the pointwise log likelihood for ``az.loo``. Default: if it takes no more
        than 10⁸ values.
    **kwargs
        Passed to :func:`pymc.sample`; settings of NUTS, such as ``target_accept``, only where it
        draws some variables.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats, observed_data, constant_data, label_posterior
        (probability, mcse by item and class) and log_likelihood (by item); with labels on a
        graph with circles also label_draws, the labels themselves, where they take no more than
        10⁸ values.
        Where the model observes several tables, by ``bf.observe`` with names: a child by each
        name, with these groups of its labels, for ``bf.label_probabilities(result[name])``;
        functions that take a model take ``bf.part(model, name)``. Sampled by NUTS.
        Interrupting ends the chain that runs, all of them if they run side by side, and returns
        the chains and draws that PyMC keeps (if all are being tuned there are none: its
        ValueError); ``label_posterior`` is of all draws made. Interrupting what follows leaves
        out the rest, which a warning and the attribute ``missing`` name.

    Raises
    ------
    ModelError
        The model observes no responses; a sampler it cannot use, or settings of another one;
        numbers of draws below one; values to start at that the variables cannot have.
    ImpossibleDataError
        The prior or the gold labels rule out some item's responses.

    Warns
    -----
    LargeResultWarning
        Draws would take more than 500 MB, so single precision or ``thin`` was chosen; the
        attributes ``precision`` and ``thin`` of the result say which.
    CollapseWarning
        The labels have lost a class that the responses favour (not said if ``quiet``), see
        :func:`bayesfuse.checks.collapse`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False)
    >>> result["posterior"]["confusion"].dims
    ('chain', 'draw', 'rater', 'class', 'answer')
    """
    require_own_names(kwargs)
    require_count("draws", draws)
    require_count("chains", chains)
    if tune is not None:
        require_count("tune", tune, least=0)
    if cores is not None:
        require_count("cores", cores)
        cores = int(cores)
    if log_likelihood is not None:
        require_flag("log_likelihood", log_likelihood)
    if isinstance(random_seed, np.random.RandomState):
        raise ModelError(
            "random_seed must be a whole number or a Generator, from which every chain gets a "
            "stream of its own. Got: a RandomState."
        )
    if taken := RESERVED & set(kwargs):
        raise ModelError(
            "bf.sample chooses the step method, the recorded variables and, by start=, where "
            f"chains begin; use pm.sample to choose them. Got: {sorted(taken)}."
        )
    # PyMC's own checks would look at every entry of every matrix
    checks = kwargs.pop("compute_convergence_checks", True) and not kwargs.get("quiet", False)
    generator = require_seed(random_seed)
    settings = {
        "model": model,
        "draws": int(draws),
        "tune": None if tune is None else int(tune),
        "chains": int(chains),
        "cores": cores,
        "random_seed": generator,
        "progressbar": progressbar,
        "compute_convergence_checks": False,
        **kwargs,
    }
    stored: dict[str, Any] = {
        "precision": precision,
        "thin": thin,
        "log_likelihood": log_likelihood,
    }
    if len(all_observed(model)) > 1:
        chosen = {"sampler": sampler, "nuts_sampler": nuts_sampler, "sweeps": sweeps}
        several = sample_several(model, start, chosen, stored, settings)
        if checks:
            check_convergence(several, model)
        return several
    plan = make_plan(model)
    uses_gibbs = _uses_gibbs(sampler, plan)
    foreign = ("nuts_sampler", nuts_sampler) if uses_gibbs else ("sweeps", sweeps)
    if foreign[1] is not None:
        raise ModelError(
            "nuts_sampler= is for NUTS and sweeps= for Gibbs; choose by sampler=. Got: "
            f"{foreign[0]}={foreign[1]!r} for {'Gibbs' if uses_gibbs else 'NUTS'}."
        )
    kept = decide(model, [plan.observation], (int(chains), int(draws)), **stored)
    thin, log_likelihood = kept.thin, kept.log_likelihood
    with threads(cores):
        rest = rest_of(plan) if isinstance(start, str) else None
        begun = begin(plan, rest, start)
        initial = initial_values(plan, rest, begun, generator.spawn(chains))
    if uses_gibbs:
        result, seen = _sample_gibbs(plan, initial, sweeps, thin, log_likelihood, settings)
    else:
        if nuts_sampler is None:
            nuts_sampler = "nutpie" if NUTPIE_INSTALLED else "pymc"
        if nuts_sampler == "nutpie":
            settings["initvals"] = drawn_anew(plan, rest, begun, initial[0])
        result, seen = thinned(sample_nuts(initial, nuts_sampler, settings), thin), None
    result.attrs |= {"sampler": "gibbs" if uses_gibbs else "nuts", "thin": thin}
    result.attrs.update(begun.record())
    result.attrs.update(getattr(model, "notes", {}))
    observation = plan.observation
    add_constants(result, observation)
    missing = {v.name for v in model.deterministics} - set(result["posterior"])
    groups = {"label_posterior"} | ({"log_likelihood"} if log_likelihood else set())
    try:
        with interruptible, threads(cores):
            if seen is not None:  # at once: labels that were drawn cannot be worked out anew
                groups = seen.groups
                store(seen, result)
            if missing:
                with plain_python():
                    add_deterministics(result, model)
                missing.clear()
            if checks:
                check_convergence(result, model)
            if seen is None:
                with plain_python():
                    parameters = evaluate(model, result["posterior"].dataset, plan.variables)
                complete(result, observation, parameters, log_likelihood=log_likelihood)
            else:
                order_variables(result)
            if checks:
                warn_of_collapse(result, observation)
            round_off(result, kept.precision)
    except KeyboardInterrupt:
        round_off(result, kept.precision)
        _say_what_is_missing(result, missing | (groups - set(result.children)))
    return result


def _say_what_is_missing(result: xr.DataTree, missing: set[str]) -> None:
    """Warn, and note in the result, that what follows from the draws was not worked out."""
    if not missing:
        return
    result.attrs["missing"] = ", ".join(sorted(missing))
    warnings.warn(
        "An interrupted result keeps the draws of the parameters that were made before it was "
        f"completed. Got: an interruption before {result.attrs['missing']}.",
        IncompleteWarning,
        stacklevel=4,
    )


def _uses_gibbs(sampler: str, plan: Plan) -> bool:
    if sampler not in ("auto", "gibbs", "nuts"):
        raise ModelError(f"sampler must be 'auto', 'gibbs' or 'nuts'. Got: {sampler!r}.")
    if sampler == "nuts" and (indices := plan.inferred):
        raise ModelError(
            "NUTS moves along gradients, which whole numbers do not have; use sampler='gibbs', or "
            f"give their values. Got: {sorted(indices)} to be inferred."
        )
    return sampler == "gibbs" or (sampler == "auto" and bool(plan.blocks or plan.pools))


def _require_settings(settings: Mapping[str, Any], whole: bool) -> None:
    """Raise ModelError for what has no effect where Gibbs steps draw all variables, or the rest."""
    known = inspect.signature(pm.sample).parameters.keys()
    given = {name for name in settings if name not in known or (whole and name in OF_NUTS)}
    if whole:
        rule = (
            "settings of NUTS, such as target_accept=, have no effect where Gibbs steps draw all "
            "variables, as here (sampler='nuts' uses them)"
        )
    else:
        given -= {"nuts", "target_accept"}
        rule = "settings of NUTS, for the variables that are left to it, go into nuts={…}"
    if given:
        raise ModelError(
            f"bf.sample takes its own arguments and those of pm.sample; {rule}. Got: "
            f"{sorted(given)}."
        )


def _rows(plan: Plan) -> dict[str, Any]:
    """Number the responses by a range, which takes no memory; ArviZ would write the numbers out."""
    (dim,) = plan.model.named_vars_to_dims[plan.answers.name]
    return {dim: pd.RangeIndex(plan.observation.responses.n_responses)}


def _sample_gibbs(
    plan: Plan,
    initial: list[dict[str, Any]],
    sweeps: int | None,
    thin: int,
    log_likelihood: bool | None,
    settings: dict[str, Any],
) -> tuple[xr.DataTree, Draws | None]:
    """Return the draws and, where the labels are their own next start, what was seen of these."""
    model = plan.model
    cost = sweep_cost(plan)
    if isinstance(plan.observation, Spread):
        sweeps = sweeps or 1
    if sweeps is None:
        sweeps = int(np.clip(BOOKKEEPING / cost, 1, 10))
    step = LabelGibbs(model=model, plan=plan, sweeps=sweeps)
    whole = set(step.vars) == set(model.value_vars)  # else NUTS takes the rest
    _require_settings(settings, whole)
    settings |= {"step": step, "initvals": initial}
    settings["idata_kwargs"] = {"coords": _rows(plan)} | settings.get("idata_kwargs", {})
    seen = None
    if plan.observation.labels.moves_labels:
        step.shows_labels = True
        sizes = settings["chains"], -(-settings["draws"] // thin)
        seen = Draws(plan.observation, *sizes, log_likelihood=log_likelihood)
    if not whole:
        trace = label_trace(plan, seen, thin) if seen is not None else None
        return thinned(pm.sample(trace=trace, **settings), thin), seen
    if settings["tune"] is None:
        settings["tune"] = LabelGibbs.default_tune_steps
    side_by_side = isinstance(plan.observation, Blocks | RatersInBlocks | Spread)
    step.sweeps = sweeps = sweeps * thin  # as good as draws that are made and dropped
    settings |= {name: -(-settings[name] // thin) for name in ("draws", "tune")}
    team = threads(settings["cores"]) if side_by_side else nullcontext()
    if side_by_side:  # a chain uses all cores, and chains follow each other
        settings["cores"] = 1
    elif settings["cores"] is None:
        n_steps = settings["chains"] * (settings["draws"] + settings["tune"])
        table, labels = plan.observation.table, plan.observation.labels
        cost += labels.seconds(table.n_items, table.n_classes)
        worth_it = cost * sweeps * n_steps > WORTH_A_PROCESS
        settings["cores"] = min(settings["chains"], available(), 4) if worth_it else 1
    # Nothing here needs a compiled PyTensor function: what PyMC computes per draw is cheaper in
    # Python than the compilation it would take to speed it up.
    if {block.variable.name for block in step.blocks} <= set(initial[0]):  # users may give a part
        settings["model"] = as_begun(model, step.blocks)
    with plain_python(), team:
        return pm.sample(trace=parameter_trace(model, step, seen), **settings), seen


def sweep_cost(plan: Plan) -> float:
    """Estimate the seconds of a Gibbs sweep from sizes alone, so that it never varies.

    The constants were measured: using a table entry, one class of one drawn label, one gamma.
    """
    table = plan.observation.table
    entries = sum(prior.size for prior in plan.continuous_priors().values())
    adds = table.n_responses * table.n_classes
    pools = sum(each.pool.seconds(plan.observation.n_responses) for each in plan.pools)
    return 20e-6 + 0.4e-9 * adds + 2e-9 * table.n_items * table.n_classes + 60e-9 * entries + pools
