"""``bf.sample``: PyMC's sampling loop, started in the right place, its result completed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.sampling.mcmc import NUTPIE_INSTALLED

from bayesfuse.errors import ModelError, interruptible, require_count, require_positive
from bayesfuse.factor import require_rows
from bayesfuse.inference.conjugate import Conjugacy, find_conjugate, plain_python
from bayesfuse.inference.gibbs import LabelGibbs
from bayesfuse.inference.recording import (
    add_deterministics,
    check_convergence,
    evaluate,
    parameter_trace,
)
from bayesfuse.inference.start import DEFAULT, Start, disperse, find_start
from bayesfuse.lost import warn_of_collapse
from bayesfuse.model import observed, require_like
from bayesfuse.positive import Positive
from bayesfuse.posterior import Draws, complete

BOOKKEEPING = 130e-6
"""Seconds that PyMC's loop and the passes over the draws spend on each, about.

A sweep that costs less is repeated.
"""

RESERVED = {"initvals", "return_inferencedata", "step", "trace", "var_names"}

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
        Processes. Default one for Gibbs unless the work is worth more, PyMC's choice for NUTS.
    sampler : {"auto", "gibbs", "nuts"}
        "gibbs" draws labels and conjugate parameters with :class:`bayesfuse.LabelGibbs` and leaves
        what is left to NUTS; "nuts" uses NUTS for all, with the labels summed out. "auto" takes
        Gibbs where some parameter is conjugate.
    nuts_sampler : str, optional
        Implementation of NUTS, as in :func:`pymc.sample`.
    sweeps : int, optional
        Gibbs sweeps per draw. Default as many as cost what PyMC's bookkeeping of a draw does.
    start : str or mapping of variable name to value
        Where chains begin: "moments" (default: spectral moments or majority vote, whichever EM
        takes higher), "majority" or "prior", see :func:`bayesfuse.inference.start.find_start`, or
        values. The result's attributes record the choice. Chains are dispersed
        by drawing labels and then parameters from their conditionals, not by jitter, so that they
        do not end in different labellings of the classes.
    random_seed : int, Generator, optional
        The same seed gives the same draws.
    progressbar : bool or str
        As in :func:`pymc.sample`.
    log_likelihood : bool, optional
        Whether to store the pointwise log likelihood for ``az.loo``. Default: if it takes no more
        than 10⁸ values.
    **kwargs
        Passed to :func:`pymc.sample`.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats, observed_data, constant_data, label_posterior
        (probability, mcse by item and class) and log_likelihood (by item); with labels on a
        graph also label_draws, the labels themselves, where they take no more than 10⁸ values.
        Interrupting ends the chain that runs, all of them if they run side by side, and returns
        the chains and draws that PyMC keeps (if all are being tuned there are none: its
        ValueError); ``label_posterior`` is of all draws made.

    Raises
    ------
    ModelError
        The model observes no responses; a sampler it cannot use, or settings of another one;
        numbers of draws below one; values to start at that the variables cannot have.
    ImpossibleDataError
        The prior or the gold labels rule out some item's responses.

    Warns
    -----
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
    require_count("draws", draws)
    require_count("chains", chains)
    if tune is not None:
        require_count("tune", tune, least=0)
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
    conjugacy = find_conjugate(model)
    uses_gibbs = _uses_gibbs(sampler, conjugacy)
    foreign = ("nuts_sampler", nuts_sampler) if uses_gibbs else ("sweeps", sweeps)
    if foreign[1] is not None:
        raise ModelError(
            "nuts_sampler= is for NUTS and sweeps= for Gibbs; choose by sampler=. Got: "
            f"{foreign[0]}={foreign[1]!r} for {'Gibbs' if uses_gibbs else 'NUTS'}."
        )
    generator = np.random.default_rng(random_seed)
    begun = _begin(conjugacy, start)
    initial = _initial_values(conjugacy, begun, generator.spawn(chains))
    # PyMC's own checks would look at every entry of every matrix
    checks = kwargs.pop("compute_convergence_checks", True)
    settings = {
        "model": model,
        "draws": int(draws),
        "tune": tune,
        "chains": int(chains),
        "cores": cores,
        "random_seed": generator,
        "progressbar": progressbar,
        "compute_convergence_checks": False,
        **kwargs,
    }
    if uses_gibbs:
        result, seen = _sample_gibbs(conjugacy, initial, sweeps, log_likelihood, settings)
    else:
        result, seen = _sample_nuts(initial, nuts_sampler, settings), None
    checks = checks and not kwargs.get("quiet", False)
    if checks:
        check_convergence(result, model)
    with plain_python():
        parameters = evaluate(model, result["posterior"].dataset, conjugacy.variables)
    complete(result, conjugacy.observation, parameters, log_likelihood=log_likelihood, seen=seen)
    if checks:
        warn_of_collapse(result, conjugacy.observation)
    result.attrs["sampler"] = "gibbs" if uses_gibbs else "nuts"
    result.attrs.update(begun.record() if begun else {"start": "pymc"})
    result.attrs.update(getattr(model, "notes", {}))
    return result


def _uses_gibbs(sampler: str, conjugacy: Conjugacy) -> bool:
    if sampler not in ("auto", "gibbs", "nuts"):
        raise ModelError(f"sampler must be 'auto', 'gibbs' or 'nuts'. Got: {sampler!r}.")
    if sampler == "nuts" and (indices := conjugacy.inferred):
        raise ModelError(
            "NUTS moves along gradients, which whole numbers do not have; use sampler='gibbs', or "
            f"give their values. Got: {sorted(indices)} to be inferred."
        )
    return sampler == "gibbs" or (sampler == "auto" and bool(conjugacy.blocks))


def _begin(conjugacy: Conjugacy, start: str | Mapping[str, Any]) -> Start | None:
    """Choose the start, or None where the priors are not conjugate and PyMC's own must do."""
    if not isinstance(start, str):
        return Start({}, "given", values=dict(start))
    if not conjugacy.complete:
        return None
    return find_start(conjugacy.begun(), conjugacy.concentrations(), start)


def _initial_values(
    conjugacy: Conjugacy, begun: Start | None, streams: list[np.random.Generator]
) -> list[dict[str, Any]]:
    """Return one starting point per chain, in the variables' own space."""
    if begun is None:
        return [{} for _ in streams]
    if begun.values is not None:
        known = {variable.name for variable in conjugacy.model.free_RVs}
        if unknown := set(begun.values) - known:
            raise ModelError(
                f"A start must give values to free variables of the model, {sorted(known)}. Got: "
                f"{sorted(unknown)}."
            )
        for variable in conjugacy.model.free_RVs:
            if variable.name in begun.values:
                require_like(np.shape(begun.values[variable.name]), variable)
                _require_number(variable.name, begun.values[variable.name])
        for name, variable in conjugacy.variables.items():
            if variable.name in begun.values:
                kind = conjugacy.observation.kind(name)
                require_rows(variable.name, begun.values[variable.name], kind)
                if kind == "positive":
                    require_positive(variable.name, begun.values[variable.name])
        return [dict(begun.values) for _ in streams]
    concentration, observation = conjugacy.prior_parameters(), conjugacy.observation
    begin: dict[str, Any] = {**begun.rows, **conjugacy.indices()}
    return [
        {
            conjugacy.variables[name].name: conjugacy.blocks[name].natural(rows)
            for name, rows in disperse(observation, begin, concentration, stream).items()
        }
        for stream in streams
    ]


def _require_number(name: str, value: Any) -> None:
    if not np.isfinite(np.asarray(value, dtype=float)).all():
        raise ModelError(f"A start must be finite numbers. Got: {value!r} for {name}.")


def _rows(model: pm.Model) -> dict[str, Any]:
    """Number the responses by a range, which takes no memory; ArviZ would write the numbers out."""
    answers, observation = observed(model)
    (dim,) = model.named_vars_to_dims[answers.name]
    return {dim: pd.RangeIndex(observation.responses.n_responses)}


def _sample_gibbs(
    conjugacy: Conjugacy,
    initial: list[dict[str, Any]],
    sweeps: int | None,
    log_likelihood: bool | None,
    settings: dict[str, Any],
) -> tuple[xr.DataTree, Draws | None]:
    """Return the draws and, where the labels are their own next start, what was seen of these."""
    model = conjugacy.model
    cost = _sweep_cost(conjugacy)
    if sweeps is None:
        sweeps = int(np.clip(BOOKKEEPING / cost, 1, 10))
    step = LabelGibbs(model=model, sweeps=sweeps)
    settings |= {"step": step, "initvals": initial}
    settings["idata_kwargs"] = {"coords": _rows(model)} | settings.get("idata_kwargs", {})
    if set(step.vars) != set(model.value_vars):  # NUTS takes the rest
        return pm.sample(**settings), None
    if settings["tune"] is None:
        settings["tune"] = LabelGibbs.default_tune_steps
    if settings["cores"] is None:
        n_steps = settings["chains"] * (settings["draws"] + settings["tune"])
        worth_it = cost * sweeps * n_steps > WORTH_A_PROCESS
        settings["cores"] = min(settings["chains"], os.cpu_count() or 1, 4) if worth_it else 1
    # Nothing here needs a compiled PyTensor function: what PyMC computes per draw is cheaper in
    # Python than the compilation it would take to speed it up.
    seen = None
    if conjugacy.observation.labels.keeps_labels:
        step.shows_labels = True
        sizes = settings["chains"], settings["draws"]
        seen = Draws(conjugacy.observation, *sizes, log_likelihood=log_likelihood)
    with plain_python():
        result = pm.sample(trace=parameter_trace(model, step, seen), **settings)
        add_deterministics(result, model)
    return result, seen


def _sweep_cost(conjugacy: Conjugacy) -> float:
    """Estimate the seconds of a Gibbs sweep from sizes alone, so that it never varies.

    The constants were measured: using a table entry, one class of one drawn label, one gamma.
    """
    table = conjugacy.observation.table
    concentrations = conjugacy.concentrations().values()
    entries = sum(rows.size for rows in concentrations if not isinstance(rows, Positive))
    adds = table.n_responses * table.n_classes
    return 20e-6 + 0.4e-9 * adds + 2e-9 * table.n_items * table.n_classes + 60e-9 * entries


def _sample_nuts(
    initial: list[dict[str, Any]], nuts_sampler: str | None, settings: dict[str, Any]
) -> xr.DataTree:
    nuts_sampler = nuts_sampler or ("nutpie" if NUTPIE_INSTALLED else "pymc")
    settings["nuts_sampler"] = nuts_sampler
    if initial[0]:  # jitter would undo the start
        if nuts_sampler == "nutpie":  # which takes one point for all chains
            settings["initvals"] = initial[0]
            own = settings.get("compile_kwargs", {})
            settings["compile_kwargs"] = {"jitter_rvs": set()} | own
        else:
            settings["initvals"] = initial
    if nuts_sampler == "pymc":
        settings.setdefault("init", "adapt_diag" if initial[0] else "auto")
    elif nuts_sampler in ("numpyro", "blackjax"):
        own = settings.get("nuts", {})
        settings["nuts"] = {"jitter": not initial[0], "chain_method": "vectorized"} | own
    return pm.sample(**settings)
