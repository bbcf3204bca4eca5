"""``bf.sample``: draws from the posterior of a label model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse import errors
from bayesfuse.data.vote_terms import Terms
from bayesfuse.inference.begin import Beginning
from bayesfuse.inference.by_gibbs import sample_gibbs
from bayesfuse.inference.nuts import sample_nuts, thinned
from bayesfuse.inference.plan import Plan, make_plans
from bayesfuse.inference.recording import add_deterministics, check_convergence
from bayesfuse.inference.start import DEFAULT
from bayesfuse.inference.weighted_votes import sample_weights
from bayesfuse.numerics.interruption import interruptible
from bayesfuse.numerics.threads import threads
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.results import joint_labels
from bayesfuse.results.collapse import warn_of_collapse
from bayesfuse.results.draws import Draws
from bayesfuse.results.posterior import add_constants, complete, order_variables, store
from bayesfuse.results.storage import Precision, decide, round_off

RESERVED = {"initvals", "return_inferencedata", "step", "trace", "var_names"}


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
        Number of draws kept per chain, and number of chains.
    tune : int, optional
        Number of tuning draws, which are dropped. Default 200 for Gibbs, PyMC's choice for NUTS.
    cores : int, optional
        Maximum number of cores, by default all that the process may use (fewer if OMP_NUM_THREADS
        or NUMBA_NUM_THREADS are set). Gibbs chains run on threads; blocks of a large table are
        divided among threads in every sweep. Draws do not depend on the number of cores. NUTS runs
        chains in processes, by default as many as PyMC chooses.
    sampler : {"auto", "gibbs", "nuts"}
        "gibbs" draws labels and conjugate parameters with :class:`bayesfuse.LabelGibbs` and all
        others with NUTS; "nuts" draws all parameters with NUTS, with the labels summed out. "auto"
        is Gibbs if some parameter is conjugate.
    nuts_sampler : str, optional
        Implementation of NUTS, as in :func:`pymc.sample`.
    sweeps : int, optional
        Gibbs sweeps per draw. Default: as many as take the time of the computations after sampling,
        at most ten, and of :class:`bayesfuse.models.ItemTypes` at least four.
    thin : int, optional
        Keep every ``thin``-th draw, for smaller results; the work is the same. Default 1 if
        posterior and log likelihood then take at most 500 MB, else more.
    precision : {"double", "single"}, optional
        Precision of the stored posterior and log likelihood. Default double if they then take at
        most 500 MB, else single. Label probabilities are computed before rounding.
    start : str or mapping of variable name to value
        Where chains begin: "moments" (default: spectral moments or majority vote, whichever EM
        takes higher), "majority", "prior" (its mean), or values. Attributes of the result record
        the choice. Chains are dispersed by draws of labels and parameters from their conditionals,
        not by jitter, which could switch the labels of classes.
    random_seed : int, Generator, optional
        The same seed gives the same draws.
    progressbar : bool, str or callable
        As in :func:`pymc.sample`, or a function called with the number of new draws.
    log_likelihood : bool, optional
        Whether to store the pointwise log likelihood for ``az.loo``. Default: up to 10⁸ values.
    **kwargs
        Passed to :func:`pymc.sample` if NUTS draws some variables, such as ``target_accept``. If
        Gibbs sweeps draw all variables, only ``quiet`` and ``progressbar_theme`` apply.

    Returns
    -------
    DataTree
        Groups posterior, sample_stats, observed_data, constant_data, label_posterior (probability
        and mcse by item and class), log_likelihood (by item) and label_draws: 400 joint draws of
        all labels (sample, item), fewer above 100,000 items and none above 800,000; for labels on a
        graph with circles those drawn with the parameters (chain, draw, item), up to 10⁸ values.
        A model that observes several tables (``bf.observe`` with names) has a child with the labels
        of each, for ``bf.label_probabilities(result[name])``; functions that take a model take
        ``bf.part(model, name)``. It is sampled by NUTS.
        Interrupting Gibbs chains ends all of them and keeps the draws that every chain has made
        (KeyboardInterrupt if there are none). Next to NUTS, an interruption ends the current chain,
        as in :func:`pymc.sample`. Interrupting the computations after sampling leaves out the rest,
        which a warning and the attribute ``missing`` name.

    Raises
    ------
    ModelError
        The model observes no responses; the sampler or its settings do not apply to the model;
        numbers of draws are below one; start values are outside the support.
    ImpossibleDataError
        The prior or the gold labels rule out some item's responses.

    Warns
    -----
    LargeResultWarning
        Draws would take more than 500 MB, so single precision or ``thin`` was chosen; see the
        attributes ``precision`` and ``thin`` of the result.
    CollapseWarning
        The labels have lost a class that the responses favour (suppressed by ``quiet``), see
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
    errors.require_own_names(kwargs)
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
    # PyMC's own checks would look at every entry of every matrix
    checks = kwargs.pop("compute_convergence_checks", True) and not kwargs.get("quiet", False)
    settings = {
        "model": model,
        "draws": int(draws),
        "tune": None if tune is None else int(tune),
        "chains": int(chains),
        "cores": None if cores is None else int(cores),
        "random_seed": errors.require_seed(random_seed),
        "progressbar": progressbar,
        "compute_convergence_checks": False,
        **kwargs,
    }
    if isinstance(getattr(model, "terms", None), Terms):
        refused = {"sweeps": sweeps, "thin": thin, "start": None if start == DEFAULT else start}
        refused |= {"nuts_sampler": nuts_sampler} if sampler != "nuts" else {}
        result = sample_weights(model, sampler, settings, refused)
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
    kept = decide(
        model,
        [plan.observation for plan in plans.values()],
        (settings["chains"], settings["draws"]),
        precision=precision,
        thin=thin,
        log_likelihood=log_likelihood,
    )
    with threads(settings["cores"]):
        beginnings = [Beginning(plan, start, model) for plan in plans.values()]
    seen = None
    if uses_gibbs:
        stored: Any = {"thin": kept.thin, "log_likelihood": kept.log_likelihood}
        result, seen = sample_gibbs(beginnings[0], settings, sweeps=sweeps, **stored)
    else:
        if callable(progressbar):
            settings |= {"progressbar": False, "callback": lambda *_, **__: progressbar(1)}
        result = thinned(sample_nuts(beginnings, nuts_sampler, settings), kept.thin)
    result.attrs |= {"sampler": "gibbs" if uses_gibbs else "nuts", "thin": kept.thin}
    if len(plans) == 1:
        result.attrs.update(beginnings[0].start.record())
    else:
        result.attrs["tables"] = list(plans)
    result.attrs.update(getattr(model, "notes", {}))
    _complete(result, model, plans, seen, kept, settings["cores"], checks=checks)
    return result


def _complete(
    result: xr.DataTree,
    model: pm.Model,
    plans: dict[str, Plan],
    seen: Draws | None,
    kept: Any,
    cores: int | None,
    *,
    checks: bool,
) -> None:
    """Add what follows from the draws; an interruption leaves out the rest, with a warning."""
    groups = {"label_posterior"} | ({"log_likelihood"} if kept.log_likelihood else set())
    one = len(plans) == 1
    if one:
        (plan,) = plans.values()
        add_constants(result, plan.observation)
        if isinstance(joint_labels.most_kept(plan.observation), int):
            groups.add(joint_labels.GROUP)
    missing = {v.name for v in model.deterministics} - set(result["posterior"])
    try:
        with interruptible, threads(cores):
            if seen is not None:  # at once: labels that were drawn cannot be computed anew
                groups = seen.groups
                store(seen, result)
            if missing:
                with plain_python():
                    add_deterministics(result, model)
                missing.clear()
            if checks:
                check_convergence(result, model)
            if seen is not None:
                order_variables(result)
            else:
                for name, plan in plans.items():
                    add_labels(result, None if one else name, plan, kept.log_likelihood)
            if checks and one:
                warn_of_collapse(result, plan.observation, stacklevel=5)
    except KeyboardInterrupt:
        missing |= groups - set(result.children)
        if missing:
            result.attrs["missing"] = ", ".join(sorted(missing))
            warnings.warn(
                "An interrupted result keeps the draws of the parameters that were made before it "
                f"was completed. Got: an interruption before {result.attrs['missing']}.",
                errors.IncompleteWarning,
                stacklevel=4,
            )
    round_off(result, kept.precision)


def add_labels(
    result: xr.DataTree, name: str | None, plan: Plan, log_likelihood: bool | None
) -> None:
    """Add the labels of a table, to the child of its name if there are several."""
    posterior = result["posterior"].dataset
    with plain_python():
        values = evaluate(plan.model, posterior, plan.variables)
    tree = result if name is None else xr.DataTree.from_dict({"posterior": posterior})
    complete(tree, plan.observation, values, log_likelihood=log_likelihood)
    joint_labels.keep(tree, plan.observation, values)
    if name is not None:
        del tree["posterior"]
        result[name] = tree


def _uses_gibbs(sampler: str, sweeps: int | None, plans: dict[str, Plan]) -> bool:
    if sampler not in ("auto", "gibbs", "nuts"):
        raise errors.ModelError(f"sampler must be 'auto', 'gibbs' or 'nuts'. Got: {sampler!r}.")
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
