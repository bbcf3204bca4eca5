"""``bf.sample``: draws from the posterior of a label model."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.inference.completion import Run, complete
from bayesfuse.inference.mcmc import (
    ChainInitializer,
    require_settings,
    sample_gibbs,
    sample_nuts,
    thinned,
)
from bayesfuse.inference.plan import Plan, make_plans
from bayesfuse.inference.resume import LastDraws, joined
from bayesfuse.inference.start import DEFAULT
from bayesfuse.numerics.threads import hold, interruptible, threads
from bayesfuse.results import schema
from bayesfuse.results.contents import require_draws
from bayesfuse.results.storage import Precision, Storage, resolve_storage

RESERVED = {"initvals", "return_inferencedata", "step", "trace", "var_names"}

CHAINS = 4


@explains_keywords
@interruptible
def sample(
    model: pm.Model,
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int | None = None,
    cores: int | None = None,
    sampler: Literal["auto", "gibbs", "nuts"] = "auto",
    nuts_sampler: Literal["pymc", "nutpie", "numpyro", "blackjax"] | None = None,
    sweeps: int | None = None,
    thin: int | None = None,
    precision: Precision | None = None,
    start: str | xr.DataTree | Mapping[str, Any] = DEFAULT,
    random_seed: Any = None,
    progressbar: Any = True,
    log_likelihood: bool | None = None,
    resume: xr.DataTree | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Draw from the posterior of a label model.

    Parameters
    ----------
    model : pymc.Model
        One of ``bayesfuse.models``, or any model that calls ``bf.build.observe``.
    draws, tune, chains : int
        Draws of a chain, all of which are kept unless ``thin`` is above 1, and tuning draws, which
        are dropped (default 200 for Gibbs, PyMC's choice for NUTS); number of chains (default 4).
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
        draws: every ``thin``-th. By default both are reduced if the draws asked for take more than
        500 MB, also if the run then ends early.
    start : {"moments", "majority", "prior"}, DataTree, or mapping of variables to values
        Where chains begin: at spectral moments or majority vote, whichever EM takes higher, at
        majority vote, at the prior's mean, at the label probabilities of a result of the same
        items, or at values; attributes record it. Chains are dispersed
        by draws from conditionals, not by jitter, which could switch classes; not from values.
    random_seed : int, Generator, optional
        The same seed gives the same draws, and others where chains are resumed.
    progressbar : bool, str or callable
        As in :func:`pymc.sample` (Gibbs chains have one bar; False also leaves out the line on
        their time), or a function called with the number of new draws, of all chains and tuning
        included. KeyboardInterrupt in it ends the run as Ctrl-C does.
    log_likelihood : bool, optional
        Whether to store it by item, for ``az.loo``. Default: up to 10⁸ values.
    resume : DataTree, optional
        A result of Gibbs sampling of the same model, perhaps from a file. Its chains continue from
        their last draws, without tuning, and the new result holds the earlier and the new draws.
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
        prior or the gold labels rule out some item's responses; ``resume`` is of another model, of
        NUTS, or of labels on a graph.

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
    chosen_start = None if isinstance(start, str) and start == DEFAULT else start
    if resume is not None:
        fixed: dict[str, Any] = {"chains": chains, "tune": tune, "start": chosen_start}
        fixed |= {"thin": thin, "precision": precision}
        _refuse("resume= continues the chains of a result as they are", **fixed)
        stored = require_draws(resume, "Resuming")
        chains, tune = stored.sizes["chain"], 0
        if isinstance(random_seed, Integral):
            errors.require_seed(random_seed)
            # chains that continue twice by the same seed would repeat their random numbers
            random_seed = np.random.default_rng([int(random_seed), stored.sizes["draw"]])
        thin, precision = resume.attrs.get("thin"), resume.attrs.get("precision")
    settings = {"model": model, "draws": draws, "tune": tune, "cores": cores, **kwargs}
    settings |= {"chains": CHAINS if chains is None else chains, "random_seed": random_seed}
    settings["progressbar"] = progressbar
    _require_settings(settings, sweeps, log_likelihood)
    # PyMC's own checks would look at every entry of every matrix
    checks = kwargs.get("compute_convergence_checks", True) and not kwargs.get("quiet", False)
    settings["compute_convergence_checks"] = False
    if draw := getattr(model, "draw_posterior", None):  # of a model with a sampler of its own
        refused: dict[str, Any] = {"resume": resume, "sweeps": sweeps, "start": chosen_start}
        refused |= {"thin": thin, "nuts_sampler": None if sampler == "nuts" else nuts_sampler}
        contents: Any = {"log_likelihood": log_likelihood is not False}
        return draw(sampler, settings, refused, precision=precision or "double", **contents)
    plans = make_plans(model)
    uses_gibbs = _uses_gibbs(sampler, sweeps, nuts_sampler, plans)
    if uses_gibbs:
        require_settings(settings, next(iter(plans.values())).is_fully_conjugate)
    requested: Any = {"precision": precision, "thin": thin, "log_likelihood": log_likelihood}
    sizes = settings["chains"], settings["draws"]
    storage = resolve_storage(model, sizes, **requested)
    if resume is None:
        with threads(settings["cores"]):
            initializers: list[Any] = [ChainInitializer(plan, start) for plan in plans.values()]
    else:
        initializers = [LastDraws(resume, model, plans, uses_gibbs)]
    run = _run(initializers, settings, storage, uses_gibbs, sweeps, nuts_sampler)
    if resume is not None:
        run = joined(resume, run, model)
    if resume is not None or (run.is_cut and run.sums is None):
        # the number of draws is another, and so may be the room for log likelihoods
        storage = storage._replace(log_likelihood=log_likelihood)  # type: ignore[arg-type]
    return complete(run, model, plans, storage, settings["cores"], checks=checks)


def _refuse(reason: str, **arguments: Any) -> None:
    """Raise ModelError if one of these arguments is given."""
    for name, value in arguments.items():
        if value is not None:
            raise errors.ModelError(f"{reason}: leave {name}= out. Got: {name}={value!r}.")


def _require_settings(settings: dict[str, Any], sweeps: Any, log_likelihood: Any) -> None:
    """Check arguments of PyMC and others, and convert those of PyMC in place."""
    minima = {"draws": 1, "chains": 1, "tune": 0, "cores": 1, "sweeps": 1}
    for name, number in {**settings, "sweeps": sweeps}.items():
        if name in minima and (number is not None or name == "draws"):
            errors.require_count(name, number, least=minima[name])
            settings[name] = int(number)
    settings.pop("sweeps", None)
    if log_likelihood is not None:
        errors.require_flag("log_likelihood", log_likelihood)
    if isinstance(settings["random_seed"], np.random.RandomState):
        raise errors.ModelError(
            "random_seed must be a whole number or a Generator, from which every chain gets a "
            "stream of its own. Got: a RandomState."
        )
    settings["random_seed"] = errors.require_seed(settings["random_seed"])
    if reserved := RESERVED & set(settings):
        raise errors.ModelError(
            "bf.sample chooses the step method, the recorded variables and, by start=, where "
            f"chains begin; use pm.sample to choose them. Got: {sorted(reserved)}."
        )


def _run(
    initializers: list[Any],
    settings: dict[str, Any],
    storage: Storage,
    uses_gibbs: bool,
    sweeps: int | None,
    nuts_sampler: str | None,
) -> Run:
    """Run all chains, until they are complete or interrupted."""
    sums = None
    if uses_gibbs:
        options: Any = {"thin": storage.thin, "log_likelihood": storage.log_likelihood}
        result, sums = sample_gibbs(initializers[0], settings, sweeps=sweeps, **options)
    else:
        result = thinned(sample_nuts(initializers, nuts_sampler, settings), storage.thin)
    hold()  # the draws must not be lost
    stats = {str(name): node.to_dataset(inherit=False) for name, node in result.children.items()}
    posterior = stats.pop(schema.POSTERIOR)
    is_cut = posterior.sizes["draw"] < -(-settings["draws"] // storage.thin)
    attributes = {"sampler": "gibbs" if uses_gibbs else "nuts", "thin": storage.thin}
    if len(initializers) == 1:
        attributes |= initializers[0].start.record()
    attributes |= getattr(settings["model"], "notes", {})
    return Run(posterior, stats, sums, is_cut, attributes)


def _uses_gibbs(
    sampler: str, sweeps: int | None, nuts_sampler: str | None, plans: dict[str, Plan]
) -> bool:
    errors.require_choice("sampler", sampler, "auto", "gibbs", "nuts")
    if len(plans) > 1 and (sampler == "gibbs" or sweeps is not None):
        raise errors.ModelError(
            "Models of several tables are sampled by NUTS, because parameters that tables share "
            "have no update given the labels of one: leave sampler= and sweeps= out. Got: "
            f"{sampler!r} and {sweeps} for {list(plans)}."
        )
    gibbs = sampler == "gibbs" or any(plan.blocks or plan.pools for plan in plans.values())
    if sampler != "nuts" and len(plans) == 1 and gibbs:
        _refuse("Gibbs sampling has no use for settings of NUTS", nuts_sampler=nuts_sampler)
        return True
    _refuse("NUTS has no sweeps, which are of sampler='gibbs'", sweeps=sweeps)
    if indices := {name for plan in plans.values() for name in plan.inferred}:
        raise errors.ModelError(
            "NUTS moves along gradients, which whole numbers do not have; use sampler='gibbs', or "
            f"give their values. Got: {sorted(indices)} to be inferred."
        )
    return False
