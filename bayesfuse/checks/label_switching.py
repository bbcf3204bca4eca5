"""Label switching: detecting it, and aligning the classes of all draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.checks import class_matching
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.partition import ALONE
from bayesfuse.pymc.model import one_against_rest
from bayesfuse.results import joint_labels
from bayesfuse.results.compatibility import observation_of, parameters
from bayesfuse.results.contents import (
    all_draws,
    constants,
    kept_labels,
    named,
    of_all_draws,
    require_draws,
    without_prefix,
)
from bayesfuse.results.posterior import complete, note_draws
from bayesfuse.results.storage import round_off
from bayesfuse.results.summaries import assignment, posterior_draws

RATES = "sensitivity", "specificity"  # variables computed from confusion matrices and prevalence

DENSITIES = "lp", "logp", "model_logp", "potential_energy", "energy"
"""Sampler statistics of the posterior density, which a permutation may change."""


def switching(result: xr.DataTree, reference: xr.DataTree | None = None) -> xr.Dataset:
    r"""Check for label switching between and within chains.

    The likelihood is invariant to permuting the classes in all confusion matrices and the
    prevalence, so a chain may be in a permuted mode or change modes. Draws are compared with a
    reference class by class, by the squared distances of the raters' confusion rows (weighted by
    their number of responses) and of the prevalence. The best one-to-one assignment counts as a
    switch if it halves the distance.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, with ``confusion`` and ``prevalence``.
    reference : DataTree, optional
        From ``bf.sample`` or ``bf.find_map``. Default the first chain; if labels switch within the
        reference, the mode of its most central draw.

    Returns
    -------
    Dataset
        ``permutation`` (chain, class): the class that matches each class of the reference at most
        draws of the chain; ``distance`` and ``best_distance`` (chain,), root mean squared distance
        between the chain's mean and the reference, before and after permuting; ``switched``
        (chain,), the share of draws that are permuted. Attributes: ``agree``, whether nothing is
        permuted; ``named``, whether most raters, weighted by their number of responses, give the
        reference's classes their own names; ``verdict``, both in words.

    Raises
    ------
    ModelError
        The result lacks the variables; a reference of other raters or classes.

    Notes
    -----
    The prior identifies the classes, and a Dirichlet prior weighs raters by log odds: one rater who
    almost never gives a class its name can outweigh several that mostly do. ``named`` detects this
    by one vote per rater and class, the rater's most frequent label; with ``bf.priors.robust`` it
    is rare.

    References
    ----------
    Stephens (2000), Dealing with label switching in mixture models, Journal of the Royal
    Statistical Society B 62, 795–809.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> print(bf.checks.switching(result).attrs["verdict"])
    Labels are not switched in 2 chains. Most raters give every class its own name.
    """
    prevalence, confusion = class_matching.profiles(result)
    share, rows = class_matching.target(result, reference)
    weight = class_matching.weights(result)
    by_draw = class_matching.orders(prevalence, confusion, share, rows, weight)
    counted = (np.unique(chain, axis=0, return_counts=True) for chain in by_draw)
    best = np.array([found[count.argmax()] for found, count in counted])  # most frequent
    own = np.arange(prevalence.shape[-1])
    plain, nearest = (
        [
            np.trace(
                class_matching.costs(*class_matching.aligned_mean(*chain), share, rows, weight)
            )
            for chain in zip(prevalence, confusion, order, strict=True)
        ]
        for order in (np.broadcast_to(own, by_draw.shape), by_draw)
    )
    switched = (by_draw != own).any(axis=2).mean(axis=1)
    named = class_matching.uses_names(rows, weight)
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
    """Undo label switching by permuting the classes of every draw.

    Classes are permuted as found by :func:`bayesfuse.checks.switching`, and sensitivity and
    specificity recomputed. The labels given by raters and known labels are not permuted; with known
    labels, label probabilities and log likelihoods are recomputed, too.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``.
    model : pymc.Model, optional
        The model of the result. Needed to recompute label probabilities, which are means over
        draws, if only some draws are permuted or some labels are known.
    reference : DataTree, optional
        As in :func:`bayesfuse.checks.switching`.

    Returns
    -------
    DataTree
        A new result with the groups of ``result``. The attribute ``aligned`` is the number of
        permuted draws, ``dropped`` lists what does not hold for permuted draws: the densities in
        ``sample_stats``, ``log_prior``, and with known labels ``label_draws``.

    Raises
    ------
    ModelError
        Raters with accuracies instead of confusion matrices; covariates or a classifier, which
        inform the classes; different permutations, or known labels, without a model; a result
        without ``confusion``.

    Notes
    -----
    A permuted draw has the same likelihood but, unless the prior is the same for all classes and no
    label is known, not the same posterior density: if chains are in different modes, check which
    mode the prior prefers, see ``bf.find_map``. The verdicts of groups are not permuted.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> bf.align_labels(result).attrs["aligned"]
    0
    """
    posterior = require_draws(result, "Aligning classes")
    observation = None if model is None else observation_of(result, model)
    order = class_matching.orders(
        *class_matching.profiles(result),
        *class_matching.target(result, reference),
        class_matching.weights(result),
    )
    moved = (order != np.arange(order.shape[-1])).any(axis=-1)
    aligned = result.copy()
    aligned.attrs["aligned"] = int(moved.sum())
    if not moved.any():
        return aligned
    has_covariates = "other_class" in posterior.dims
    for found, what, reason in (
        (named(posterior, "accuracy") is not None, "accuracies", "wrong labels have no accuracy"),
        (
            has_covariates or named(posterior, "classifier_scale") is not None,
            "covariates or a classifier",
            "these inform the classes, and the likelihood would change",
        ),
    ):
        if found:
            raise ModelError(
                f"Classes of models with {what} cannot be permuted, because {reason}: start all "
                "chains at one point (start='moments') instead. Got: "
                f"{int(moved.sum())} permuted draws of such a model."
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
            "Label probabilities must be recomputed if only some draws are permuted or some labels "
            f"are known: give the model. Got: {int(moved.sum())} of {moved.size} draws to permute, "
            "and no model."
        )
    aligned["posterior"] = xr.DataTree(_permuted(result, order))
    dropped = _align_others(aligned, order, known, common)
    if anew and observation is not None:
        values, labels = parameters(aligned, model), kept_labels(aligned)
        complete(aligned, observation, values, log_likelihood=has_likelihood, labels=labels)
        joint_labels.keep(aligned, observation, values)
    elif has_labels:
        probability = result["label_posterior"].dataset
        changed = {
            name: (values.dims, values.values[:, order[0, 0]])
            for name, values in probability.data_vars.items()
        }
        aligned["label_posterior"] = xr.DataTree(probability.assign(changed))
    note_draws(aligned)
    aligned.attrs["dropped"] = ", ".join(sorted(dropped - set(aligned.children)))
    if aligned.attrs.get("precision") == "single":
        round_off(aligned, "single")
    return aligned


def _align_others(
    aligned: xr.DataTree, order: NDArray[np.int64], known: bool, common: bool
) -> set[str]:
    """Permute the drawn labels; drop and return what does not hold for permuted draws."""
    dropped = {"log_prior"} & set(aligned.children)
    if "label_draws" in aligned.children:
        drawn = aligned["label_draws"].dataset
        values = drawn["label"].values
        if known or ("sample" in drawn.dims and not common):
            dropped.add("label_draws")
        elif "sample" in drawn.dims:
            moved = np.argsort(order[0, 0]).astype(values.dtype)[values]
            aligned["label_draws"] = xr.DataTree(drawn.assign(label=(drawn["label"].dims, moved)))
        else:
            # −1 stands for no label and must not index the last class
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
    return dropped


def _in_words(best: NDArray[np.int64], switched: Array, named: bool) -> str:
    chains = np.flatnonzero((best != np.arange(best.shape[1])).any(axis=1))
    if len(chains):
        said = f"Labels are switched in chains {chains.tolist()} of {len(best)}"
    elif switched.any():
        said = f"Labels are switched in {switched.mean():.1%} of the draws"
    else:
        said = f"Labels are not switched in {len(best)} chain{'s' if len(best) > 1 else ''}"
    if len(chains) or switched.any():
        said += ": use bf.align_labels"
    if named:
        return f"{said}. Most raters give every class its own name."
    return f"{said}. Most raters give some class another name: a few gold labels would settle it."


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
    """Return ``own`` for raters in no group and ``values`` for others, (chain, draw, rater, …).

    Only the former respond to the truth, whose classes are permuted, and not to a verdict.
    """
    groups: Any = assignment(result)
    alone = np.broadcast_to(groups.values == ALONE, own.shape[:3])
    return values.dims, np.where(alone.reshape(*alone.shape, *[1] * (own.ndim - 3)), own, values)


def _rates(posterior: xr.Dataset) -> dict[Any, Any]:
    """Compute sensitivity and specificity as models define them."""
    dims = posterior["sensitivity"].dims
    shape = posterior["sensitivity"].shape
    found = np.empty((2, *shape))
    n_classes = posterior.sizes["class"]
    for at in np.ndindex(shape[:2]):
        confusion, prevalence = (posterior[n].values[at] for n in ("confusion", "prevalence"))
        found[(slice(None), *at)] = one_against_rest(confusion, prevalence, n_classes)
    return {name: (dims, rate) for name, rate in zip(RATES, found, strict=True)}
