"""Whether all draws mean the same by a class, and how to make them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks.matching import (
    costs,
    mean,
    most_frequent,
    orders,
    profiles,
    target,
    uses_names,
    weights,
)
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.partition import ALONE
from bayesfuse.pymc.model import one_against_rest
from bayesfuse.results.access import (
    all_draws,
    constants,
    kept_labels,
    named,
    observation_of,
    of_all_draws,
    require_draws,
    without_prefix,
)
from bayesfuse.results.points import parameters
from bayesfuse.results.posterior import complete, note_draws
from bayesfuse.results.summaries import assignment, posterior_draws

RATES = "sensitivity", "specificity"
"""What follows from confusion matrices and prevalence."""

DENSITIES = "lp", "logp", "model_logp", "potential_energy", "energy"
"""Statistics of samplers that hold the density of a draw, which depends on the prior's classes."""


def switching(result: xr.DataTree, reference: xr.DataTree | None = None) -> xr.Dataset:
    r"""Check whether chains, and draws, mean the same by each class.

    A likelihood does not know the names of the classes: permute them in all confusion matrices and
    the prevalence, and it stays the same. So a chain may sit in a permuted mode, or change modes.
    Draws are compared with a reference class by class, by the squared distances of the raters'
    confusion rows (weighed by their number of responses) and of the prevalence; the best
    one-to-one assignment counts as a switch if it is nearer by half than none.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, with ``confusion`` and ``prevalence``.
    reference : DataTree, optional
        From ``bf.sample`` or ``bf.find_map``. Default the first chain; where the reference changes
        modes itself, the mode of its most typical draw.

    Returns
    -------
    Dataset
        ``permutation`` (chain, class): which class plays each class of the reference at most draws
        of the chain; ``distance`` and ``best_distance`` (chain,), root mean squares between the
        chain's mean and the reference, draws as they are and permuted; ``switched`` (chain,), the
        share of draws that are permuted. Attributes:
        ``agree``, whether nothing is permuted; ``named``, whether most raters, weighed by their
        number of responses, use the classes' names for what the reference means by them;
        ``verdict``, both in words.

    Raises
    ------
    ModelError
        The result lacks the variables; a reference of other raters or classes.

    Notes
    -----
    Names come from the prior, and a Dirichlet prior weighs raters by log odds: one who hardly ever
    says a class's name for it can outweigh several who mostly do. ``named`` gives every rater one
    vote on every class, what they say of it most often, and so tells where that has happened; with
    ``bf.priors.robust`` it seldom does.

    References
    ----------
    Stephens (2000), Dealing with label switching in mixture models, Journal of the Royal
    Statistical Society B 62, 795–809.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> print(bf.checks.switching(result).attrs["verdict"])
    All 4 chains mean the same by each class. Raters use the classes' names for what ...
    """
    prevalence, confusion = profiles(result)
    share, rows = target(result, reference)
    weight = weights(result)
    by_draw = orders(prevalence, confusion, share, rows, weight)
    best = np.array([most_frequent(chain) for chain in by_draw])
    own = np.arange(prevalence.shape[-1])
    plain, nearest = (
        [
            np.trace(costs(*mean(*chain), share, rows, weight))
            for chain in zip(prevalence, confusion, order, strict=True)
        ]
        for order in (np.broadcast_to(own, by_draw.shape), by_draw)
    )
    switched = (by_draw != own).any(axis=2).mean(axis=1)
    named = uses_names(rows, weight)
    agree = bool((best == own).all() and not switched.any())
    draws = posterior_draws(result, "confusion")["confusion"]
    chain = {"chain": draws["chain"].values}
    return xr.Dataset(
        {
            "permutation": (("chain", "class"), draws["class"].values[best]),
            "distance": ("chain", np.sqrt(np.array(plain) / len(own))),
            "best_distance": ("chain", np.sqrt(np.array(nearest) / len(own))),
            "switched": ("chain", switched),
        },
        chain | {"class": draws["class"].values},
        {"agree": agree, "named": named, "verdict": _in_words(best, switched, named)},
    )


def align_labels(
    result: xr.DataTree, model: pm.Model | None = None, reference: xr.DataTree | None = None
) -> xr.DataTree:
    """Permute the classes, draw by draw, so that all draws mean the same by each.

    What :func:`bayesfuse.checks.switching` calls a switch is undone: the rows of every variable
    that belong to classes change places, and sensitivity and specificity are computed anew. The
    labels that raters give keep their names, and so do known truths: with these, label
    probabilities and log likelihoods are those of other classes and are computed anew, too.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``.
    model : pymc.Model, optional
        The model it is of. Label probabilities are means over draws, so they have to be computed
        anew where some draws are permuted and others are not, or truths are known: that takes the
        model.
    reference : DataTree, optional
        Whose classes to take, see :func:`bayesfuse.checks.switching`. Default the first chain's.

    Returns
    -------
    DataTree
        A new one, with the groups of ``result``; the attribute ``aligned`` says how many draws
        were permuted, ``dropped`` what is left out because it is not that of permuted draws: their
        density in ``sample_stats``, ``log_prior``, and with known truths ``label_draws``.

    Raises
    ------
    ModelError
        Raters with accuracies in place of confusion matrices (permuted, they are none);
        different permutations, or known truths, without a model; a result without ``confusion``.

    Notes
    -----
    A permuted draw has the same likelihood but, unless the prior is the same for all classes (and
    no truth is known), not the same posterior density: chains in different modes are a reason to
    ask which mode the prior prefers, see ``bf.find_map``. Verdicts of groups keep their own order.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> bf.align_labels(result).attrs["aligned"]
    0
    """
    posterior = require_draws(result, "Classes are aligned draw by draw")
    observation = None if model is None else observation_of(result, model)
    order = orders(*profiles(result), *target(result, reference), weights(result))
    moved = (order != np.arange(order.shape[-1])).any(axis=-1)
    aligned = result.copy()
    aligned.attrs["aligned"] = int(moved.sum())
    if not moved.any():
        return aligned
    if named(posterior, "accuracy") is not None:
        raise ModelError(
            "Accuracies belong to classes, so a permuted model has none: start all chains in one "
            f"place (start='moments') instead. Got: {int(moved.sum())} permuted draws of a model "
            "with accuracies."
        )
    common = bool((order == order[0, 0]).all()) and (
        "label_posterior" not in result.children or of_all_draws(result)
    )
    known = "constant_data" in result.children and "gold" in constants(result)
    has_labels = "label_posterior" in result.children
    has_likelihood = "log_likelihood" in result.children
    anew = (has_labels and not common) or (known and (has_labels or has_likelihood))
    if observation is None and anew:
        raise ModelError(
            "Label probabilities are means over all draws, and known truths keep their names. So "
            "where only some draws are permuted or truths are known, they must be computed anew: "
            f"give the model. Got: {int(moved.sum())} of {moved.size} draws to permute, and no "
            "model."
        )
    aligned["posterior"] = xr.DataTree(_permuted(result, order))
    _align_others(aligned, order, known)
    if anew and observation is not None:
        values, labels = parameters(aligned, model), kept_labels(aligned)
        return complete(aligned, observation, values, log_likelihood=has_likelihood, labels=labels)
    if has_labels:
        probability = result["label_posterior"].dataset
        changed = {
            name: (values.dims, values.values[:, order[0, 0]])
            for name, values in probability.data_vars.items()
        }
        aligned["label_posterior"] = xr.DataTree(probability.assign(changed))
    note_draws(aligned)
    return aligned


def _align_others(aligned: xr.DataTree, order: NDArray[np.int64], known: bool) -> None:
    """Permute the labels that were drawn, and drop what is not of permuted draws."""
    dropped = {"log_prior"} & set(aligned.children)
    if "label_draws" in aligned.children:
        if known:
            dropped.add("label_draws")
        else:
            drawn = aligned["label_draws"].dataset
            values = drawn["label"].values
            # −1 stands for none and, as an index, must not mean the last class
            moved = np.take_along_axis(np.argsort(order, axis=2), np.maximum(values, 0), axis=2)
            moved = np.where(values < 0, values, moved).astype(values.dtype)
            aligned["label_draws"] = xr.DataTree(drawn.assign(label=(drawn["label"].dims, moved)))
    for name in dropped:
        del aligned[name]
    if "sample_stats" in aligned.children:
        stats = aligned["sample_stats"].dataset
        densities = [name for name in DENSITIES if name in stats]
        aligned["sample_stats"] = xr.DataTree(stats.drop_vars(densities))
        dropped.update(densities)
    aligned.attrs["dropped"] = ", ".join(sorted(dropped))


def _in_words(best: NDArray[np.int64], switched: Array, named: bool) -> str:
    chains = np.flatnonzero((best != np.arange(best.shape[1])).any(axis=1))
    if len(chains):
        said = f"Chains {chains.tolist()} of {len(best)} mean other classes: use bf.align_labels."
    elif switched.any():
        said = f"{switched.mean():.1%} of the draws mean other classes: use bf.align_labels."
    else:
        who = f"{len(best)} chains" if len(best) > 1 else "draws"
        said = f"All {who} mean the same by each class."
    if named:
        return f"{said} Raters use the classes' names for what is meant by them."
    return (
        f"{said} Most raters use another name for some class than it has: a few gold labels would "
        "say which is which."
    )


# ---------------------------------------------------------------- permuting


def _permuted(result: xr.DataTree, order: NDArray[np.int64]) -> xr.Dataset:
    """Return the posterior with its classes in the order of each draw."""
    whole = all_draws(result)
    posterior = without_prefix(whole)
    back = dict(zip(posterior.data_vars, whole.data_vars, strict=True))
    places = xr.DataArray(order, dims=("chain", "draw", "class"))
    changed = {}
    for name, values in posterior.data_vars.items():
        if str(name).removeprefix("verdict_") in RATES:
            continue
        for dim in {"class", "next_class"} & set(values.dims):
            index = places.rename({"class": dim})
            picked = values.drop_vars(dim, errors="ignore").isel({dim: index})
            values = picked.transpose(*values.dims)
        changed[name] = (values.dims, values.values)
    if grouped := "rater_confusion" in posterior:
        values = posterior["rater_confusion"]
        rows = np.take_along_axis(values.values, order[:, :, None, :, None], axis=3)
        changed["rater_confusion"] = _where_alone(result, rows, values)
    found = posterior.assign(changed)
    if "sensitivity" not in posterior:
        return found.rename(back)
    found = found.assign(_rates(found))
    for name in RATES if grouped else ():
        verdict = f"verdict_{name}"
        found[verdict] = _where_alone(result, found[name].values, posterior[verdict])
    return found.rename(back)


def _where_alone(
    result: xr.DataTree, own: Array, values: xr.DataArray
) -> tuple[tuple[Any, ...], Array]:
    """Take ``own`` for raters alone, who answer to the truth, and ``values`` for those in a group.

    Verdicts of groups keep their order. All are (chain, draw, rater, …).
    """
    groups: Any = assignment(result)
    alone = np.broadcast_to(groups.values == ALONE, own.shape[:3])
    return values.dims, np.where(alone.reshape(*alone.shape, *[1] * (own.ndim - 3)), own, values)


def _rates(posterior: xr.Dataset) -> dict[Any, Any]:
    """Compute sensitivity and specificity, as models define them, from confusion matrices."""
    dims = posterior["sensitivity"].dims
    shape = posterior["sensitivity"].shape
    found = np.empty((2, *shape))
    n_classes = posterior.sizes["class"]
    for at in np.ndindex(shape[:2]):
        confusion, prevalence = (posterior[n].values[at] for n in ("confusion", "prevalence"))
        found[(slice(None), *at)] = one_against_rest(confusion, prevalence, n_classes)
    return {name: (dims, rate) for name, rate in zip(RATES, found, strict=True)}
