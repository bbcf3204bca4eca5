"""Groups of raters who share a source: their posterior, their verdicts, and covariances."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.fingerprint import of_responses
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind, require_number
from bayesfuse.moments.pairs import class_moments
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation.model import observed, parameter_variables
from bayesfuse.parameters.partition import ALONE
from bayesfuse.raters.latent_groups import LatentGroups
from bayesfuse.raters.verdicts import add_verdicts
from bayesfuse.results.compatibility import evenly_spaced_rows, observation_of, require_same
from bayesfuse.results.contents import all_draws, constants, evenly_spaced, named
from bayesfuse.results.summaries import assignment, posterior_draws, tails

MAX_DRAWS = 200  # evenly spaced draws for passes over pairs of raters or over all items


def co_assignment(result: xr.DataTree) -> xr.DataArray:
    """Return the posterior probability that two raters share a source, dims (rater, other).

    ``result`` is of :class:`bayesfuse.models.LatentGroup`, else there is a ModelError.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.LatentGroup(bf.datasets.anesthesia(), groups=[[2, 3]]))
    >>> bf.checks.co_assignment(result).sel(rater=2).values.tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0]
    """
    drawn, raters = _by_draw(result, required=True)
    share = np.eye(len(raters))
    for assignment_drawn, times in zip(*np.unique(drawn, axis=0, return_counts=True), strict=True):
        share += _together(assignment_drawn) * times / len(drawn)
    np.fill_diagonal(share, 1.0)
    return xr.DataArray(share, {"rater": raters, "other": raters}, ("rater", "other"))


def group_summary(
    result: xr.DataTree,
    *,
    margin: float = 0.1,
    ci_prob: float | None = None,
    least: float = 0.05,
) -> pd.DataFrame:
    r"""Summarise every group, and whether its verdict is informative about the truth.

    Informedness is :math:`(\sum_k \phi_{gkk} - 1) / (K - 1)`, with two classes Youden's J: 1 for a
    verdict that is the truth, 0 for one independent of it.

    Parameters
    ----------
    result : DataTree of :class:`bayesfuse.models.LatentGroup`
    margin, least : float, default 0.1 and 0.05
        Informedness above which a verdict counts as informative (below minus which as opposed), and
        smallest posterior probability of a group to be listed.
    ci_prob : probability of the equal-tailed interval, default ``az.rcParams["stats.ci_prob"]``

    Returns
    -------
    DataFrame
        By set of raters, the most probable first: ``raters``; ``probability`` that exactly these
        share a source; ``informedness`` (posterior mean), ``low`` and ``high``; ``informative`` and
        ``opposed``, posterior probabilities.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.LatentGroup(bf.datasets.anesthesia(), groups=[[2, 3]]))
    >>> bf.checks.group_summary(result)["raters"].tolist()
    [[2, 3]]
    """
    ends = tails(ci_prob)
    margin, least = require_number("margin", margin, 0, 1), require_number("least", least, 0, 1)
    drawn, raters = _by_draw(result, required=True)
    columns = ["raters", "probability", "informedness", "low", "high", "informative", "opposed"]
    if drawn.max() == ALONE:
        return pd.DataFrame(columns=columns)
    outer = posterior_draws(result, "group_confusion")["group_confusion"].values
    outer = outer.reshape(len(drawn), *outer.shape[2:])
    informed = (np.trace(outer, axis1=2, axis2=3) - 1) / (outer.shape[-1] - 1)  # (draws, groups)
    sets = defaultdict(list)
    for assignment_drawn, accuracy_drawn in zip(drawn, informed, strict=True):
        for g in range(assignment_drawn.max() + 1):
            sets[tuple(np.flatnonzero(assignment_drawn == g))].append(accuracy_drawn[g])
    rows = []
    for members, parts in sets.items():
        values = np.array(parts)
        names, probability = listed(raters[list(members)]), len(values) / len(drawn)
        beyond = [np.mean(sign * values > margin) for sign in (1, -1)]
        rows.append([names, probability, values.mean(), *np.quantile(values, ends), *beyond])
    table = pd.DataFrame(rows, columns=columns)
    table = table[table["probability"] >= least]
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def verdict_probabilities(result: xr.DataTree, model: pm.Model | None = None) -> xr.DataArray:
    """Return the posterior probabilities of the verdicts of known groups on every item.

    Dims are (item, group, verdict), ``result`` and ``model`` as in :func:`bayesfuse.decode`.
    Averages are over up to 200 evenly spaced draws. There is a ModelError if the groups are
    inferred, because they differ between draws.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.LatentGroup(bf.datasets.anesthesia(), groups={"ward": [2, 3]})
    >>> verdicts = bf.checks.verdict_probabilities(bf.find_map(model))
    >>> verdicts.sel(item=1, group="ward").round(1).values.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    observation = observation_of(result, model)
    channel = observation.raters
    if not isinstance(channel, LatentGroups) or "group_confusion" not in channel.parameters:
        raise ModelError(
            "Verdicts need known groups, because inferred ones differ between draws: give the "
            f"model the groups of interest. Got: {type(channel).__name__} without known groups."
        )
    name = "group_confusion"
    if model is not None:
        name = parameter_variables(observed(model)[0])[name].name
    groups = posterior_draws(result, name)[name]
    table = observation.table
    total = np.zeros((table.n_items, groups.sizes["group"], table.n_classes))
    *arranged, _ = observation.rater_structure
    n_draws = min(groups.sizes["chain"] * groups.sizes["draw"], MAX_DRAWS)
    for rows in evenly_spaced_rows(result, model, observation, n_draws):
        probability = observation.marginal(rows).probability
        add_verdicts(total, probability, *observation.tables(rows), *arranged)
    items, classes = observation.responses.items, observation.responses.classes
    coords = {"item": items, "group": groups["group"].values, "verdict": classes}
    return xr.DataArray(observation.by_item(total / n_draws), coords, tuple(coords))


def rater_covariance(result: xr.DataTree, responses: Responses) -> xr.Dataset:
    """Compare the observed covariances of raters with those implied by the posterior.

    Dependence that the model ignores makes raters agree more than it implies (Jaffe, Fetaya,
    Nadler, Jiang & Kluger 2016, AISTATS, eq. 10–12).

    Parameters
    ----------
    result, responses : DataTree of ``DawidSkene`` or ``LatentGroup``, and its Responses

    Returns
    -------
    Dataset, dims (rater, other)
        Symmetric, NaN for pairs with fewer than two common items: ``observed`` covariance of the
        labels, coded as −1 and +1 (with more than two classes, the sum of one-versus-rest
        covariances); ``implied``, its posterior mean; ``z``, their difference in standard errors
        (sampling and posterior); ``together``, the probability that they share a source.
        Attributes: ``excess``, the mean of z², about 1 if the model fits.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.caries()
    >>> model = bf.models.DawidSkene(responses)
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> 0.5 < bf.checks.rater_covariance(result, responses).attrs["excess"] < 2
    True
    """
    require_kind("responses", responses, Responses)
    require_same(result, of_responses(responses), responses)
    moments = class_moments(responses)
    observed = sum(value.covariance.values for value in moments)
    if np.isnan(observed[~np.eye(len(observed), dtype=bool)]).all():
        raise ModelError(
            "Covariances need pairs of raters with two or more common items. Got: no such pair of "
            f"{responses.n_raters} raters."
        )
    variance = _sampling_variance(responses)
    if len(moments) == 1:  # with two classes both terms of the sum are equal
        variance /= 4.0
    classes = range(responses.n_classes) if len(moments) > 1 else [responses.n_classes - 1]
    variables = ["prevalence", "confusion"]
    if named(all_draws(result), "group_confusion") is not None:
        variables += ["group_confusion", "rater_confusion"]
    draws = posterior_draws(result, *variables)
    n_draws = draws.sizes["chain"] * draws.sizes["draw"]
    chosen = evenly_spaced(min(n_draws, MAX_DRAWS), n_draws)
    sources = _by_draw(result)[0][chosen]
    drawn = [value.values.reshape(n_draws, *value.shape[2:])[chosen] for value in draws.values()]
    values = np.zeros((len(sources), *observed.shape))
    for value, *point in zip(values, sources, *drawn, strict=True):
        for label in classes:
            value += _implied(label, *point)
    implied = values.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (observed - implied) / np.sqrt(variance + values.var(axis=0))
    np.fill_diagonal(z, np.nan)
    together = np.mean([_together(value) for value in sources], axis=0)
    matrices = {"observed": observed, "implied": implied, "z": z, "together": together}
    names = {"rater": responses.raters, "other": responses.raters}
    by_pair = {name: (tuple(names), value) for name, value in matrices.items()}
    return xr.Dataset(by_pair, names, {"excess": float(np.nanmean(z**2))})


def _sampling_variance(responses: Responses) -> Array:
    """Return the variance of the raters' covariances, means over common items, over all classes."""
    n_raters = responses.n_raters
    place = responses.item.astype(np.int64) * n_raters + responses.rater
    pairs, which, times = np.unique(place, return_inverse=True, return_counts=True)
    item, rater = np.divmod(pairs, n_raters)
    answer = np.zeros((len(pairs), responses.n_classes))
    np.add.at(answer, (which, responses.label), 1.0 / times[which])  # a rater's mean, if several
    weight = responses.multiplicity[item].astype(float)
    variance = np.empty((n_raters, n_raters))
    index_of = np.empty(responses.n_items, dtype=np.int64)
    for m in range(n_raters):
        index_of[:] = -1
        index_of[item[rater == m]] = np.flatnonzero(rater == m)
        shared = np.flatnonzero(index_of[item] >= 0)
        other_rater = rater[shared]
        at = other_rater, np.arange(len(other_rater))
        common = scipy.sparse.csr_array((weight[shared], at), shape=(n_raters, len(other_rater)))
        size = common.sum(axis=1)
        size[size < 2] = np.nan
        both = np.stack([answer[index_of[item[shared]]], answer[shared]])
        centred = (
            both - np.stack([common @ vector / size[:, None] for vector in both])[:, other_rater]
        )
        product = centred.prod(axis=0).sum(axis=1)
        mean, square = common @ product / size, common @ product**2 / size
        variance[m] = (square - mean**2) / (size - 1.0)
    return 16.0 * variance  # of labels that are ±1


def _implied(
    label: int,
    assignment: NDArray[np.int64],
    prevalence: Array,
    confusion: Array,
    outer: Array | None = None,
    inner: Array | None = None,
) -> Array:
    """Return the covariances of the ±1 indicators of ``label`` of all pairs at one draw."""
    label_probability = confusion[:, :, label]  # (raters, classes)
    both = (label_probability * prevalence) @ label_probability.T
    if outer is not None and inner is not None:
        for g in range(assignment.max() + 1):
            members = np.flatnonzero(assignment == g)
            by_verdict = inner[members, :, label]  # (members, verdicts)
            both[np.ix_(members, members)] = (by_verdict * (prevalence @ outer[g])) @ by_verdict.T
    mean = label_probability @ prevalence
    return 4 * (both - np.outer(mean, mean))


def _together(assignment: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which raters share a source, (raters, raters)."""
    return (assignment[:, None] == assignment) & (assignment >= 0)


def _by_draw(
    result: xr.DataTree, *, required: bool = False
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the assignment at every draw (draws, raters), and the raters' names."""
    sizes, groups = all_draws(result).sizes, assignment(result)
    if required and groups is None:
        raise ModelError(
            "Groups need a result of bayesfuse.models.LatentGroup. Got: a result without a "
            "variable 'assignment'."
        )
    raters = constants(result, "rater_index")["rater"].values
    shape = sizes["chain"] * sizes["draw"], len(raters)
    drawn = np.array(ALONE) if groups is None else groups.values.reshape(-1, len(raters))
    return np.broadcast_to(drawn, shape).astype(np.int64), raters
