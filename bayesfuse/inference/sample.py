"""``bf.sample``: draws from the posterior of a label model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.inference.mcmc import (
    ChainInitializer,
    require_settings,
    sample_gibbs,
    sample_nuts,
    thinned,
)
from bayesfuse.inference.plan import Plan, make_plans
from bayesfuse.inference.start import DEFAULT
from bayesfuse.numerics.threads import (
    accept,
    extension,
    hold,
    interruptible,
    is_over,
    seconds_left,
    threads,
)
from bayesfuse.pymc.evaluate import add_deterministics, check_convergence, evaluate
from bayesfuse.results import joint_labels
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Draws, Precision, resolve_storage
from bayesfuse.results.posterior import add_constants, complete, order_variables, round_off, store

SECONDS = 0.6  # for the labels of draws that were interrupted

RESERVED = {"initvals", "return_inferencedata", "step", "trace", "var_names"}


@errors.takes_seed
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
        One of ``bayesfuse.models``, or any model that calls ``bf.build.observe``.
    draws, tune, chains : int
        Draws of a chain that are kept, and tuning draws, which are dropped (default 200 for Gibbs,
        PyMC's choice for NUTS); number of chains.
    cores : int, optional
        Most cores, by default all that the process may use. Gibbs chains, and blocks of a large
        table, run on threads, and draws do not depend on their number. NUTS runs processes.
    sampler, nuts_sampler : str
        "gibbs" draws labels and conjugate parameters with :class:`bayesfuse.build.LabelGibbs`,
        others with NUTS; "nuts" sums the labels out. "auto" is Gibbs if some parameter is
        conjugate. ``nuts_sampler`` is as in :func:`pymc.sample`.
    sweeps : int, optional
        Gibbs sweeps per draw. Default: up to ten, as many as take little time.
    precision, thin : optional
        Precision ("double" or "single") of the stored posterior and log likelihood, and how many
        draws: every ``thin``-th. By default both are reduced for more than 500 MB.
    start : {"moments", "majority", "prior"} or mapping of variables to values
        Where chains begin: at spectral moments or majority vote, whichever EM takes higher, at
        majority vote, at the prior's mean, or at values; attributes record it. Chains are dispersed
        by draws from conditionals, not by jitter, which could switch classes; not from values.
    random_seed : int, Generator, optional
        The same seed gives the same draws.
    progressbar : bool, str or callable
        As in :func:`pymc.sample` (Gibbs chains have one bar), or a function called with the number
        of new draws, of all chains and tuning included.
    log_likelihood : bool, optional
        Whether to store it by item, for ``az.loo``. Default: up to 10⁸ values.
    **kwargs
        For :func:`pymc.sample` where NUTS draws variables; else only ``quiet``.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats, observed_data, constant_data, label_posterior (probability
        and mcse by item and class), log_likelihood (by item) and label_draws: 400 joint draws of
        all labels (sample, item), fewer above 100,000 items and none above 800,000; for labels on a
        graph with circles those drawn with the parameters (chain, draw, item), up to 10⁸ values.
        A model of several tables (``bf.build.observe`` with names) is sampled by NUTS and has a
        child with the labels of each; other functions take ``result[name]``,
        ``bf.build.part(model, name)``. Ctrl-C keeps the draws that all chains have made (attribute
        ``interrupted``). Labels are then those of as many of them as take about a second; log
        likelihoods may be left out (attribute ``missing``), and after a second Ctrl-C all that is
        not computed yet.

    Raises
    ------
    ModelError, ImpossibleDataError
        The model observes no responses; the sampler or its settings do not apply to the model; the
        prior or the gold labels rule out some item's responses.

    Warns
    -----
    LargeResultWarning, CollapseWarning
        Single precision or ``thin`` was chosen; labels have lost a class that the responses favour
        (not with ``quiet``), see :func:`bayesfuse.checks.collapse`.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=200, random_seed=1, progressbar=False)
    >>> result["posterior"]["confusion"].dims
    ('chain', 'draw', 'rater', 'class', 'answer')
    """
    counts = {"draws": (draws, 1), "chains": (chains, 1), "tune": (tune, 0), "cores": (cores, 1)}
    for name, (number, least) in (counts | {"sweeps": (sweeps, 1)}).items():
        if number is not None or name in ("draws", "chains"):
            errors.require_count(name, number, least=least)
    if log_likelihood is not None:
        errors.require_flag("log_likelihood", log_likelihood)
    if isinstance(random_seed, np.random.RandomState):
        raise errors.ModelError(
            "random_seed must be a whole number or a Generator, from which every chain gets a "
            "stream of its own. Got: a RandomState."
        )
    if taken := RESERVED & set(kwargs):
        raise errors.ModelError(
            "bf.sample chooses the step method, the recorded variables and, by start=, where "
            f"chains begin; use pm.sample to choose them. Got: {sorted(taken)}."
        )
    cores = None if cores is None else int(cores)
    # PyMC's own checks would look at every entry of every matrix
    checks = kwargs.pop("compute_convergence_checks", True) and not kwargs.get("quiet", False)
    settings = {
        "model": model,
        "draws": int(draws),
        "tune": None if tune is None else int(tune),
        "chains": int(chains),
        "cores": cores,
        "random_seed": errors.require_seed(random_seed),
        "progressbar": progressbar,
        "compute_convergence_checks": False,
        **kwargs,
    }
    if draw := getattr(model, "draw_posterior", None):  # of a model with a sampler of its own
        refused = {"sweeps": sweeps, "thin": thin, "start": None if start == DEFAULT else start}
        refused |= {"nuts_sampler": nuts_sampler} if sampler != "nuts" else {}
        result = draw(sampler, settings, refused)
        if log_likelihood is False:
            del result["log_likelihood"]
        round_off(result, precision or "double")
        return result
    plans = make_plans(model)
    uses_gibbs = _uses_gibbs(sampler, sweeps, plans)
    foreign = ("nuts_sampler", nuts_sampler) if uses_gibbs else ("sweeps", sweeps)
    if foreign[1] is not None:
        raise errors.ModelError(
            "nuts_sampler= is for NUTS and sweeps= for Gibbs; choose by sampler=. Got: "
            f"{foreign[0]}={foreign[1]!r} for {'Gibbs' if uses_gibbs else 'NUTS'}."
        )
    if uses_gibbs:
        require_settings(settings, next(iter(plans.values())).is_fully_conjugate)
    storage = resolve_storage(
        model,
        [plan.observation for plan in plans.values()],
        (settings["chains"], settings["draws"]),
        precision=precision,
        thin=thin,
        log_likelihood=log_likelihood,
    )
    with threads(cores):
        beginnings = [ChainInitializer(plan, start) for plan in plans.values()]
    summed = None
    if uses_gibbs:
        stored: Any = {"thin": storage.thin, "log_likelihood": storage.log_likelihood}
        result, summed = sample_gibbs(beginnings[0], settings, sweeps=sweeps, **stored)
    else:
        result = thinned(sample_nuts(beginnings, nuts_sampler, settings), storage.thin)
    hold()  # the draws must not be lost
    cut = result["posterior"].sizes["draw"] < -(-settings["draws"] // storage.thin)
    if cut and summed is None:  # fewer draws may have room for it
        storage = storage._replace(log_likelihood=log_likelihood)
    result.attrs |= {"sampler": "gibbs" if uses_gibbs else "nuts", "thin": storage.thin}
    result.attrs["interrupted"] = int(cut)
    if len(plans) == 1:
        result.attrs.update(beginnings[0].start.record())
    else:
        result.attrs["tables"] = list(plans)
    result.attrs.update(getattr(model, "notes", {}))
    _complete(result, model, plans, summed, storage, cores, checks=checks)
    return result


def _complete(
    result: xr.DataTree,
    model: pm.Model,
    plans: dict[str, Plan],
    summed: Draws | None,
    storage: Any,
    cores: int | None,
    *,
    checks: bool,
) -> None:
    """Add what follows from the draws, after an interruption in about a second.

    Label probabilities are then averaged over as many draws as there is time for. A second
    interruption leaves out the rest, with a warning.
    """
    one = len(plans) == 1
    groups = {"label_posterior"} | ({"log_likelihood"} if storage.log_likelihood else set())
    if one:
        (plan,) = plans.values()
        add_constants(result, plan.observation)
        if joint_labels.max_stored_draws(plan.observation):
            groups.add(joint_labels.GROUP)
    if summed is not None:  # at once: labels that were drawn cannot be computed anew
        groups = summed.groups
        store(summed, result)
    missing = {v.name for v in model.deterministics} - set(result["posterior"])

    def add() -> None:
        with threads(cores):
            if missing:
                add_deterministics(result, model)
                missing.clear()
            for name, plan in plans.items() if summed is None else ():
                seconds = (SECONDS if is_cut else seconds_left()) / len(plans) / 2
                observed_name = None if one else name
                add_labels(result, observed_name, plan, storage.log_likelihood, seconds=seconds)
        order_variables(result)

    is_cut = is_over()
    hold(False)
    try:
        if not is_cut:
            try:
                add()
            except KeyboardInterrupt:
                is_cut = True
        if is_cut:
            with extension(math.inf):
                add()
        elif checks:
            check_convergence(result, model)
            if one:
                warn_of_collapse(result, plan.observation)
    except KeyboardInterrupt:
        is_cut = True
    if is_cut:
        accept()
        result.attrs["interrupted"] = 1
        missing |= groups - set(result.children)
    if missing:
        result.attrs["missing"] = ", ".join(sorted(missing))
    if missing - {"log_likelihood"}:
        errors.warn(
            "An interrupted result keeps the draws of the parameters that were made before it "
            f"was completed. Got: an interruption before {result.attrs['missing']}.",
            errors.IncompleteWarning,
        )
    round_off(result, storage.precision)


def add_labels(
    result: xr.DataTree,
    name: str | None,
    plan: Plan,
    log_likelihood: bool | None,
    seconds: float = math.inf,
) -> None:
    """Add the labels of a table, to the child of its name if there are several."""
    posterior = result["posterior"].dataset
    values = evaluate(plan.model, posterior, plan.variables)
    tree = result if name is None else xr.DataTree.from_dict({"posterior": posterior})
    how: dict[str, Any] = {"log_likelihood": log_likelihood, "seconds": seconds}
    complete(tree, plan.observation, values, **how)
    joint_labels.store_draws(tree, plan.observation, values, seconds)
    if name is not None:
        del tree["posterior"]
        result[name] = tree


def _uses_gibbs(sampler: str, sweeps: int | None, plans: dict[str, Plan]) -> bool:
    errors.require_choice("sampler", sampler, "auto", "gibbs", "nuts")
    if len(plans) > 1 and (sampler == "gibbs" or sweeps is not None):
        raise errors.ModelError(
            "Models of several tables are sampled by NUTS, because parameters that tables share "
            "have no update given the labels of one: leave sampler= and sweeps= out. Got: "
            f"{sampler!r} and {sweeps} for {list(plans)}."
        )
    gibbs = sampler == "gibbs" or any(plan.blocks or plan.pools for plan in plans.values())
    if sampler != "nuts" and len(plans) == 1 and gibbs:
        return True
    if indices := {name for plan in plans.values() for name in plan.inferred}:
        raise errors.ModelError(
            "NUTS moves along gradients, which whole numbers do not have; use sampler='gibbs', or "
            f"give their values. Got: {sorted(indices)} to be inferred."
        )
    return False
