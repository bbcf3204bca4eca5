"""Label switching: detecting it, and aligning the classes of all draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.partition import ALONE
from bayesfuse.pymc.model import one_against_rest
from bayesfuse.results import contents, joint_labels
from bayesfuse.results.compatibility import names_differ, observation_of, parameters
from bayesfuse.results.posterior import complete, round_off
from bayesfuse.results.summaries import assignment, posterior_draws, responses_per_rater

RATES = "sensitivity", "specificity"  # variables computed from confusion matrices and prevalence
DENSITIES = "lp", "logp", "model_logp", "potential_energy", "energy"  # a permutation changes them
NEARER = 0.5  # a permutation must reduce the squared distance to the reference to this share
CANDIDATES = 50  # draws among which the most central one is the initial reference
ROUNDS = 20  # largest number of times that the reference is updated


def switching(result: xr.DataTree, reference: xr.DataTree | None = None) -> xr.Dataset:
    """Check for label switching between and within chains.

    The likelihood is invariant to permutations of the classes, so a chain may be in a permuted mode
    or change modes. Classes are matched with those of a reference (Stephens 2000, JRSS B 62,
    795–809) by the squared distances of the prevalence and of the raters' confusion rows, weighted
    by their number of responses. The best assignment counts as a switch if it halves the distance.

    Parameters
    ----------
    result : DataTree with ``confusion`` and ``prevalence``, from ``bf.sample``
    reference : DataTree, optional
        From ``bf.sample`` or ``bf.find_map``. Default the first chain; if labels switch within the
        reference, the mode of its most central draw.

    Returns
    -------
    Dataset
        ``permutation`` (chain, class): the class that matches each class of the reference at most
        draws; ``switched`` (chain,), the share of draws that are permuted. Attributes: ``agree``,
        whether nothing is permuted; ``named``, whether most raters, weighted by their number of
        responses, most often give the reference's classes their own names (see
        ``bf.priors.robust``); ``verdict``.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> print(bf.checks.switching(result).attrs["verdict"])
    Labels are not switched in 2 chains. Most raters give every class its own name.
    """
    target = _target(result, reference)
    by_draw = _orders(_profiles(result), target)
    counted = (np.unique(chain, axis=0, return_counts=True) for chain in by_draw)
    best = np.array([found[count.argmax()] for found, count in counted])  # most frequent
    switched = (by_draw != np.arange(len(target))).any(axis=2).mean(axis=1)
    named = _uses_names(target, _weights(result))
    draws = posterior_draws(result, "confusion")["confusion"]
    return xr.Dataset(
        {
            "permutation": (("chain", "class"), draws["class"].values[best]),
            "switched": ("chain", switched),
        },
        {dim: draws[dim].values for dim in ("chain", "class")},
        {
            "agree": not switched.any(),
            "named": named,
            "verdict": _in_words(best, switched, named),
        },
    )


def align_labels(
    result: xr.DataTree, model: pm.Model | None = None, reference: xr.DataTree | None = None
) -> xr.DataTree:
    """Undo label switching by permuting the classes of every draw.

    Classes are permuted as found by :func:`bayesfuse.checks.switching`; sensitivity, specificity,
    label probabilities and log likelihoods are computed anew. Labels given by raters, known labels
    and verdicts of groups stay. Unless the prior is the same for all classes and no label is known,
    a permuted draw has another posterior density: ``bf.find_map`` tells which mode the prior
    prefers.

    Parameters
    ----------
    result, model : as in :func:`bayesfuse.decode`
    reference : as in :func:`bayesfuse.checks.switching`

    Returns
    -------
    DataTree
        A new result. The attribute ``aligned`` is the number of permuted draws, ``dropped`` lists
        what does not hold for these: densities in ``sample_stats``, ``log_prior``, and with known
        labels on a graph ``label_draws``.

    Raises
    ------
    ModelError : switched labels of raters with accuracies, or with covariates or a classifier

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> bf.align_labels(result).attrs["aligned"]
    0
    """
    posterior = contents.require_draws(result, "Aligning classes")
    if model is not None:
        observation_of(result, model)  # refuses a model of something else
    order = _orders(_profiles(result), _target(result, reference))
    moved = (order != np.arange(order.shape[-1])).any(axis=-1)
    aligned = result.copy()
    aligned.attrs["aligned"] = int(moved.sum())
    if not moved.any():
        return aligned
    what = None
    if "other_class" in posterior.dims or contents.named(posterior, "classifier_scale") is not None:
        what = "covariates or a classifier cannot be permuted, because these inform the classes"
    elif contents.named(posterior, "accuracy") is not None:
        what = "accuracies cannot be permuted, because wrong labels have no accuracy"
    if what is not None:
        raise ModelError(
            f"Classes of models with {what}: start all chains at one point (start='moments') "
            f"instead. Got: {int(moved.sum())} permuted draws of such a model."
        )
    labels = contents.kept_labels(result)
    if "gold" in contents.constants(result):  # a permutation would move the known labels, too
        labels = None
    if labels is not None:
        own = np.take_along_axis(np.argsort(order, axis=2), labels.astype(np.int64), axis=2)
        labels = own.astype(labels.dtype)
    aligned["posterior"] = xr.DataTree(_permuted(result, order))
    dropped = {"log_prior", "label_draws"} & set(result.children)
    for name in dropped:
        del aligned[name]
    if "sample_stats" in result.children:
        stats = aligned["sample_stats"].dataset
        densities = [name for name in DENSITIES if name in stats]
        aligned["sample_stats"] = xr.DataTree(stats.drop_vars(densities))
        dropped.update(densities)
    if {"label_posterior", "log_likelihood"} & set(result.children):
        observation, values = observation_of(aligned, model), parameters(aligned, model)
        pointwise = "log_likelihood" in result.children
        complete(aligned, observation, values, log_likelihood=pointwise, labels=labels)
        joint_labels.keep(aligned, observation, values)
    aligned.attrs["dropped"] = ", ".join(sorted(dropped - set(aligned.children)))
    if aligned.attrs.get("precision") == "single":
        round_off(aligned, "single")
    return aligned


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


def _weights(result: xr.DataTree) -> Array:
    """Return every rater's share of the responses."""
    answered = responses_per_rater(result).astype(float)
    return answered / max(answered.sum(), 1.0)


def _profiles(result: xr.DataTree, weight: Array | None = None) -> Array:
    """Return prevalence and weighted confusion rows (chain, draw, class, 1 + raters × labels)."""
    found, names = contents.all_draws(result), ("prevalence", "confusion")
    if missing := [name for name in names if contents.named(found, name) is None]:
        raise ModelError(
            "Classes are compared by prevalence and confusion matrices; labels on a graph have no "
            f"prevalence. Got: no {missing[0]!r} among {list(found.data_vars)}."
        )
    draws = posterior_draws(result, "prevalence", "confusion")
    root = np.sqrt(_weights(result) if weight is None else weight)
    rows = np.moveaxis(draws["confusion"].values * root[:, None, None], 2, 3)
    share = draws["prevalence"].values
    return np.concatenate([share[..., None], rows.reshape(*share.shape, -1)], axis=-1)


def _target(result: xr.DataTree, reference: xr.DataTree | None) -> Array:
    """Return the profile of the reference, by default the first chain: the mean in one mode."""
    if reference is None:
        profile = _profiles(result)[0]
    else:
        one, other = (posterior_draws(r, "confusion")["confusion"] for r in (reference, result))
        for dim in ("rater", "class"):
            if differ := names_differ(dim, one[dim].values, other[dim].values):
                raise ModelError(
                    "The reference must have the same raters and classes as the result, because "
                    f"their confusion matrices are compared. Got: {differ}."
                )
        profile = _profiles(reference, _weights(result))
        profile = profile.reshape(-1, *profile.shape[2:])
    few = profile[contents.evenly_spaced(min(CANDIDATES, len(profile)), len(profile))]
    apart = [np.trace(_costs(few, one), axis1=1, axis2=2).sum() for one in few]
    found = few[np.argmin(apart)]
    for _ in range(ROUNDS):
        order = _orders(profile, found)
        before, found = found, np.take_along_axis(profile, order[..., None], axis=1).mean(axis=0)
        if np.array_equal(before, found):
            break
    return found


def _costs(profile: Array, target: Array) -> Array:
    """Return squared distances (…, class of the target, class)."""
    # expanded as |a|² − 2ab + |b|² to save memory
    squares, wanted = (profile**2).sum(axis=-1), (target**2).sum(axis=-1)
    distance = wanted[:, None] + squares[..., None, :] - 2 * target @ profile.swapaxes(-1, -2)
    return np.maximum(distance, 0.0)


def _orders(profile: Array, target: Array) -> NDArray[np.int64]:
    """Return the class that matches each class of the target at every draw, (…, class)."""
    flat, own = profile.reshape(-1, *target.shape), np.arange(len(target))
    order = np.tile(own, (len(flat), 1))
    for n, one in enumerate(flat):
        cost = _costs(one, target)
        _, best = scipy.optimize.linear_sum_assignment(cost)
        if cost[own, best].sum() < NEARER * np.trace(cost):  # rare classes are similar
            order[n] = best
    return order.reshape(profile.shape[:-1])


def _uses_names(target: Array, weight: Array) -> bool:
    """Return whether no permutation of the classes makes more raters mostly right."""
    own = np.arange(len(target))
    label = target[:, 1:].reshape(len(own), len(weight), -1).argmax(axis=-1)  # (classes, raters)
    votes = (label[..., None] == own).swapaxes(1, 2) @ weight
    _, best = scipy.optimize.linear_sum_assignment(votes, maximize=True)
    return bool(votes[own, best].sum() <= np.trace(votes) + 1e-9)


def _permuted(result: xr.DataTree, order: NDArray[np.int64]) -> xr.Dataset:
    """Return the posterior with its classes in the order of each draw."""
    whole = contents.all_draws(result)
    posterior = contents.without_prefix(whole)
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
    groups: Any = assignment(result)  # raters in one respond to its verdict, not to the truth
    if grouped := "rater_confusion" in posterior:
        values = posterior["rater_confusion"]
        rows = np.take_along_axis(values.values, order[:, :, None, :, None], axis=3)
        rows = xr.where(groups == ALONE, values.copy(data=rows), values).transpose(*values.dims)
        changed["rater_confusion"] = (values.dims, rows.values)
    found = posterior.assign(changed)
    if "sensitivity" not in posterior:
        return found.rename(back)
    rates = np.empty((2, *found["sensitivity"].shape))
    for at in np.ndindex(order.shape[:2]):
        confusion, prevalence = (found[n].values[at] for n in ("confusion", "prevalence"))
        rates[(slice(None), *at)] = one_against_rest(confusion, prevalence, order.shape[-1])
    dims = found["sensitivity"].dims
    found = found.assign({name: (dims, rate) for name, rate in zip(RATES, rates, strict=True)})
    for name in RATES if grouped else ():
        values = posterior[f"verdict_{name}"]
        own = xr.where(groups == ALONE, found[name], values).transpose(*values.dims)
        found[f"verdict_{name}"] = (values.dims, own.values)
    return found.rename(back)
