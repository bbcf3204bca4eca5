"""Label switching: detecting it, and aligning the classes of all draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation.model import one_against_rest
from bayesfuse.parameters.partition import ALONE
from bayesfuse.priors import robust
from bayesfuse.results import contents
from bayesfuse.results.build import rebuild
from bayesfuse.results.compatibility import names_differ, observation_of, parameters
from bayesfuse.results.label_summary import summarize_labels
from bayesfuse.results.summaries import assignment, posterior_draws, responses_per_rater

RATES = "sensitivity", "specificity"  # variables computed from confusion matrices and prevalence
DENSITIES = "lp", "logp", "model_logp", "potential_energy", "energy"  # a permutation changes them
MAX_DISTANCE_RATIO = 0.5  # to which a permutation must reduce the squared distance
N_CANDIDATES = 50  # draws among which the most central one is the initial reference
MIN_PROBABILITY = 1e-9  # of which a logarithm is taken
MAX_ROUNDS = 20  # largest number of times that the reference is updated


def switching(
    result: xr.DataTree, reference: xr.DataTree | None = None, *, random_seed: Any = None
) -> xr.Dataset:
    """Check for label switching between and within chains.

    The likelihood is invariant to permutations of the classes, so a chain may be in a permuted mode
    or change modes. Classes are matched with those of a reference (Stephens 2000, JRSS B 62,
    795–809) by the squared distances of the prevalence and of the raters' confusion rows, weighted
    by their number of responses. The best assignment counts as a switch if it halves the distance.

    Parameters
    ----------
    result : DataTree with ``confusion`` and ``prevalence``, from ``bf.sample``
    reference : DataTree, optional
        From ``bf.sample`` or ``bf.find_map``; if labels switch within it, the mode of its most
        central draw. By default, of the modes that draws are in, the most probable one: by the
        responses to known items, by raters who are better than chance (:func:`bf.priors.robust
        <bayesfuse.priors.robust>`), and by the number of its draws.
    random_seed : as in the other checks, so that all can be called alike; nothing is drawn

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
    require_seed(random_seed)
    target = _target(result, reference)
    by_draw = _orders(_profiles(result), target)
    counted = (np.unique(chain, axis=0, return_counts=True) for chain in by_draw)
    best = np.array([orders_of[count.argmax()] for orders_of, count in counted])  # most frequent
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
            "verdict": _in_words(best, switched, named, _not_permuted(result)),
        },
    )


def align_labels(
    result: xr.DataTree, model: pm.Model | None = None, reference: xr.DataTree | None = None
) -> xr.DataTree:
    """Undo label switching by permuting the classes of every draw.

    Classes are permuted as found by :func:`bayesfuse.checks.switching`, by default to the most
    probable of the modes that draws are in; sensitivity, specificity, label probabilities and log
    likelihoods are computed anew. Labels given by raters, known labels and verdicts of groups stay.
    Where a single chain changes modes, aligned draws are without the uncertainty which class is
    which. Unless the prior is the same for all classes and no label is known,
    a permuted draw has another posterior density: ``bf.find_map`` finds the mode that the prior
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
    >>> bf.checks.align_labels(result).attrs["aligned"]
    0
    """
    contents.require_draws(result, "Aligning classes")
    if model is not None:
        observation_of(result, model)  # raises if the model does not belong to the result
    order = _orders(_profiles(result), _target(result, reference))
    moved = (order != np.arange(order.shape[-1])).any(axis=-1)
    aligned = result.copy()
    aligned.attrs["aligned"] = int(moved.sum())
    if not moved.any():
        return aligned
    if (what := _not_permuted(result)) is not None:
        raise ModelError(
            f"Classes of models with {what}: start all chains at one point (start='moments') "
            f"instead. Got: {int(moved.sum())} permuted draws of such a model."
        )
    labels = contents.stored_label_draws(result)
    if "gold" in contents.constants(result):  # a permutation would move the known labels, too
        labels = None
    if labels is not None:
        permuted = np.take_along_axis(np.argsort(order, axis=2), labels.astype(np.int64), axis=2)
        labels = permuted.astype(labels.dtype)
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
        posterior = aligned["posterior"].dataset
        summary = summarize_labels(
            observation, values, posterior, log_likelihood=pointwise, labels=labels
        )
        aligned = rebuild(aligned, posterior, summary)
    aligned.attrs["dropped"] = ", ".join(sorted(dropped - set(aligned.children)))
    return aligned


def _not_permuted(result: xr.DataTree) -> str | None:
    """Return why the classes of a model's draws cannot be permuted, None if they can."""
    posterior = contents.all_draws(result)
    if "other_class" in posterior.dims or contents.named(posterior, "classifier_scale") is not None:
        return "covariates or a classifier cannot be permuted, because these inform the classes"
    if contents.named(posterior, "accuracy") is not None:
        return "accuracies cannot be permuted, because wrong labels have no accuracy"
    return None


def _in_words(
    best: NDArray[np.int64], switched: Array, named: bool, not_permuted: str | None
) -> str:
    """Return the verdict, with a remedy that helps: there is none but known labels for doubt."""
    chains = np.flatnonzero((best != np.arange(best.shape[1])).any(axis=1))
    remedy = "bf.checks.align_labels gives all draws the names of the others"
    if not_permuted is not None:
        remedy = "start all chains at one point (start='moments')"
    if len(chains):
        words = f"Labels are switched in chains {chains.tolist()} of {len(best)}: {remedy}"
    elif switched.any():
        words = f"Labels are switched in {switched.mean():.1%} of the draws"
        doubt = "the responses leave in doubt which class is which"
        words += f": {doubt}, and gold labels would settle it"
    else:
        words = f"Labels are not switched in {len(best)} chain{'s' if len(best) > 1 else ''}"
    if named:
        return f"{words}. Most raters give every class its own name."
    return f"{words}. Most raters give some class another name: a few gold labels would settle it."


def _weights(result: xr.DataTree) -> Array:
    """Return every rater's share of the responses."""
    answered = responses_per_rater(result).astype(float)
    return answered / max(answered.sum(), 1.0)


def _profiles(result: xr.DataTree, weight: Array | None = None) -> Array:
    """Return prevalence and weighted confusion rows (chain, draw, class, 1 + raters × labels)."""
    draws_of, names = contents.all_draws(result), ("prevalence", "confusion")
    if missing := [name for name in names if contents.named(draws_of, name) is None]:
        raise ModelError(
            "Classes are compared by the variables 'prevalence' and 'confusion', by these names "
            "also in a model of your own; labels on a graph have no prevalence. "
            f"Got: no {missing[0]!r} among {list(draws_of.data_vars)}."
        )
    draws = posterior_draws(result, "prevalence", "confusion")
    root = np.sqrt(_weights(result) if weight is None else weight)
    rows = np.moveaxis(draws["confusion"].values * root[:, None, None], 2, 3)
    share = draws["prevalence"].values
    return np.concatenate([share[..., None], rows.reshape(*share.shape, -1)], axis=-1)


def _target(result: xr.DataTree, reference: xr.DataTree | None) -> Array:
    """Return the profile of the reference, by default the most probable mode of the draws."""
    if reference is not None:
        one, other = (posterior_draws(r, "confusion")["confusion"] for r in (reference, result))
        for dim in ("rater", "class"):
            if differ := names_differ(dim, one[dim].values, other[dim].values):
                raise ModelError(
                    "The reference must have the same raters and classes as the result, because "
                    f"their confusion matrices are compared. Got: {differ}."
                )
    profile = _profiles(result if reference is None else reference, _weights(result))
    profile = profile.reshape(-1, *profile.shape[2:])
    few = profile[contents.evenly_spaced(min(N_CANDIDATES, len(profile)), len(profile))]
    distance = [np.trace(_costs(few, candidate), axis1=1, axis2=2).sum() for candidate in few]
    target = few[np.argmin(distance)]
    for _ in range(MAX_ROUNDS):
        order = _orders(profile, target)
        before = target
        target = np.take_along_axis(profile, order[..., None], axis=1).mean(axis=0)
        if np.array_equal(before, target):
            break
    if reference is not None:
        return target
    orders, number = np.unique(_orders(profile, target), axis=0, return_counts=True)
    if len(orders) == 1:
        return target[np.argsort(orders[0])]
    score, identity = _log_score(result, target), np.arange(len(target))
    scores = [score[order, identity].sum() for order in orders] + np.log(number)
    return target[np.argsort(orders[scores.argmax()])]


def _log_score(result: xr.DataTree, target: Array) -> Array:
    """Return the log probability of each name (rows) for each class of a mode (columns).

    The likelihood is invariant to permutations of the classes, so the known items and the prior
    decide.
    """
    weight, (n_classes, _) = _weights(result), target.shape
    used = np.flatnonzero(weight)
    rows = target[:, 1:].reshape(n_classes, len(weight), -1)[:, used]
    log_rows = np.log(np.maximum(rows / np.sqrt(weight[used])[:, None], MIN_PROBABILITY))
    prior = robust(n_classes)
    logs = np.tensordot(prior.concentration - 1.0, log_rows, axes=(2, 2))
    score = np.logaddexp.reduce(logs + prior.log_weight[..., None, None]).sum(axis=-1)
    gold = contents.constants(result).get("gold")
    if gold is not None and (columns := contents.observed_rows(result)) is not None:
        item, rater, label = columns
        known = gold.values
        share = np.log(np.maximum(target[:, 0], MIN_PROBABILITY))
        at = known[item] >= 0
        place = np.searchsorted(used, rater[at])
        np.add.at(score, known[known >= 0], share)
        np.add.at(score, known[item[at]], log_rows[:, place, label[at]].T)
    return np.asarray(score)


def _costs(profile: Array, target: Array) -> Array:
    """Return squared distances (…, class of the target, class)."""
    # expanded as |a|² − 2ab + |b|² to save memory
    squares, wanted = (profile**2).sum(axis=-1), (target**2).sum(axis=-1)
    distance = wanted[:, None] + squares[..., None, :] - 2 * target @ profile.swapaxes(-1, -2)
    return np.maximum(distance, 0.0)


def _orders(profile: Array, target: Array) -> NDArray[np.int64]:
    """Return the class that matches each class of the target at every draw, (…, class)."""
    flat, identity = profile.reshape(-1, *target.shape), np.arange(len(target))
    order = np.tile(identity, (len(flat), 1))
    for n, draw in enumerate(flat):
        cost = _costs(draw, target)
        _, best = scipy.optimize.linear_sum_assignment(cost)
        if cost[identity, best].sum() < MAX_DISTANCE_RATIO * np.trace(
            cost
        ):  # rare classes are similar
            order[n] = best
    return order.reshape(profile.shape[:-1])


def _uses_names(target: Array, weight: Array) -> bool:
    """Return whether no permutation of the classes makes more raters mostly right."""
    identity = np.arange(len(target))
    rows = target[:, 1:].reshape(len(identity), len(weight), -1)
    label = rows.argmax(axis=-1)  # (classes, raters)
    votes = (label[..., None] == identity).swapaxes(1, 2) @ weight
    _, best = scipy.optimize.linear_sum_assignment(votes, maximize=True)
    return bool(votes[identity, best].sum() <= np.trace(votes) + 1e-9)


def _permuted(result: xr.DataTree, order: NDArray[np.int64]) -> xr.Dataset:
    """Return the posterior with its classes in the order of each draw."""
    all_variables = contents.all_draws(result)
    posterior = contents.without_prefix(all_variables)
    back = dict(zip(posterior.data_vars, all_variables.data_vars, strict=True))
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
    permuted = posterior.assign(changed)
    if "sensitivity" not in posterior:
        return permuted.rename(back)
    rates = np.empty((2, *permuted["sensitivity"].shape))
    for at in np.ndindex(order.shape[:2]):
        confusion, prevalence = (permuted[n].values[at] for n in ("confusion", "prevalence"))
        rates[(slice(None), *at)] = one_against_rest(confusion, prevalence, order.shape[-1])
    dims = permuted["sensitivity"].dims
    permuted = permuted.assign(
        {name: (dims, rate) for name, rate in zip(RATES, rates, strict=True)}
    )
    for name in RATES if grouped else ():
        values = posterior[f"verdict_{name}"]
        verdicts = xr.where(groups == ALONE, permuted[name], values).transpose(*values.dims)
        permuted[f"verdict_{name}"] = (values.dims, verdicts.values)
    return permuted.rename(back)
