"""Several models of the same responses: brought to common units, and averaged."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_mapping, require_weights
from bayesfuse.numerics.kernels import Array
from bayesfuse.pymc.model import observed
from bayesfuse.results.access import constants, require_alike, require_result
from bayesfuse.results.points import parameters
from bayesfuse.results.probabilities import label_posterior

METHODS = ("stacking", "bb-pseudo-bma", "pseudo-bma")
"""Ways in which :func:`arviz.compare` finds weights."""


def common_units(
    results: Mapping[str, xr.DataTree], *, models: Mapping[str, pm.Model] | None = None
) -> dict[str, xr.DataTree]:
    """Bring the log likelihoods of several models to the same units, for ``az.compare``.

    A model of independent items stores one log likelihood per item, a hidden Markov model one per
    sequence, and leaving out an item is another question than leaving out a sequence. Given the
    parameters, though, the items of the former are independent: their sum over a sequence *is* its
    log likelihood of the sequence. So finer units are summed to the coarsest, and all models are
    then asked to predict what none of them has seen.

    Items on a graph are not independent: the log likelihood of each is given all others, and their
    sum is not that of a sequence. The latter is computed from the model where no edges form a
    circle, given the items outside the sequence if edges join them to it.

    Parameters
    ----------
    results : mapping of name to DataTree
        From ``bf.sample`` or ``bf.fit``, with log likelihoods, of the same items.
    models : mapping of name to pymc.Model, optional
        The models that results are of. Needed of labels on a graph, where other models have
        coarser units.

    Returns
    -------
    dict of name to DataTree
        For ``az.loo`` and ``az.compare``. Results already in these units are the same objects.

    Raises
    ------
    ModelError
        No results; other items; no log likelihood; units none of which contain all others; items
        on a graph in coarser units without their model, or on a graph with circles.

    References
    ----------
    Vehtari, Gelman & Gabry (2017), Statistics and Computing 27, 1413–1432, section 1.1, on what to
    leave out.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene, HiddenMarkov
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> models = {
    ...     "independent": DawidSkene(responses),
    ...     "chain": HiddenMarkov(responses, bf.Sequences.from_lengths([3, 2])),
    ... }
    >>> results = {
    ...     name: bf.sample(model, draws=20, chains=1, random_seed=1, progressbar=False, quiet=True)
    ...     for name, model in models.items()
    ... }
    >>> bf.common_units(results)["independent"]["log_likelihood"]["responses"].dims
    ('chain', 'draw', 'sequence')
    """
    require_mapping("results", results)
    if models is not None:
        require_mapping("models", models)
    if not results:
        raise ModelError("Models are compared with each other. Got: no results.")
    partitions = {name: _partition(name, result) for name, result in results.items()}
    first = next(iter(partitions.values()))
    for name, own in partitions.items():
        if not own.index.sort_values().equals(first.index.sort_values()):
            raise ModelError(
                "Models must be of the same items to be compared. Got: "
                f"{len(own)} items in {name!r}, {len(first)} in {next(iter(partitions))!r}, and "
                "not the same."
            )
    require_alike(results)
    if all(own.equals(first) for own in partitions.values()):
        return dict(results)
    coarsest = min(results, key=lambda name: partitions[name].nunique())
    target = _units(results[coarsest])
    found = {}
    for name, result in results.items():
        to = partitions[coarsest].reindex(partitions[name].index)
        pairs = pd.DataFrame({"own": partitions[name], "to": to}).drop_duplicates()
        if pairs["own"].duplicated().any():
            raise ModelError(
                "Units can be summed where they lie within those of another model. Got: "
                f"{_units(result).name}s of {name!r} that reach over several "
                f"{target.name}s of {coarsest!r}."
            )
        found[name] = _in_units(name, result, pairs, target, (models or {}).get(name))
    return found


def average(
    results: Mapping[str, xr.DataTree],
    weights: str | Mapping[str, float] = "stacking",
    *,
    models: Mapping[str, pm.Model] | None = None,
) -> xr.DataTree:
    """Average the label posteriors of several models by how well they predict.

    Parameters
    ----------
    results : mapping of name to DataTree
        From ``bf.sample`` or ``bf.fit``, of the same items and classes.
    weights : {"stacking", "bb-pseudo-bma", "pseudo-bma"} or mapping of name to number
        "stacking" takes the weights whose mixture predicts left-out units best (items, or
        sequences where some model has those, see :func:`common_units`), by Pareto-smoothed
        leave-one-out; the others are those of :func:`arviz.compare`. Numbers are scaled to sum to
        one.
    models : mapping of name to pymc.Model, optional
        The models that results are of, where :func:`common_units` needs them, or results have
        other draws than their label posteriors, as thinned ones do.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` and ``mcse`` by item and class), so that
        ``bf.label_probabilities`` and the pictures of labels work; ``comparison`` by model:
        ``weight`` and, unless weights were given, ``elpd``, ``se``, ``p_loo`` and
        ``worst_pareto_k``; ``constant_data``. Attributes: ``models`` and ``weights``.

    Raises
    ------
    ModelError
        Other items or classes, no label posterior or log likelihood, other names of weights,
        weights that are negative, not finite or all zero.

    Warns
    -----
    UserWarning
        From ArviZ, where leaving out some unit changes a posterior too much for importance
        sampling (``worst_pareto_k`` above 0.7).

    Notes
    -----
    Weights say which mixture predicts *responses*; labels are averaged by them as what the models
    believe behind these. A model that predicts responses a little better by a wrong story about
    the truth is believed as well.

    References
    ----------
    Yao, Vehtari, Simpson & Gelman (2018), Using stacking to average Bayesian predictive
    distributions, Bayesian Analysis 13, 917–1003.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> responses = bf.datasets.simulate_dawid_skene(100, 5, 2, random_seed=1).responses
    >>> results = {
    ...     raters: bf.sample(DawidSkene(responses, raters=raters), draws=200, random_seed=1,
    ...                       progressbar=False, quiet=True)
    ...     for raters in ("confusion", "coin")
    ... }
    >>> both = bf.average(results)
    >>> both.attrs["models"], round(sum(both.attrs["weights"]), 9)
    (['confusion', 'coin'], 1.0)
    >>> bf.label_probabilities(both).sizes["item"]
    100
    """
    require_mapping("results", results)
    if not results:
        raise ModelError("There must be something to average. Got: no results.")
    if models is not None:
        require_mapping("models", models)
    posteriors = _same_labels(results, models or {})
    require_alike(results)
    names = list(results)
    if isinstance(weights, str):
        comparison = _loo_weights(results, weights, models)
    else:
        comparison = _given_weights(names, weights)
    share = comparison["weight"].values
    probability = sum(
        w * each["probability"].values for w, each in zip(share, posteriors, strict=True)
    )
    errors = [each.get("mcse", xr.zeros_like(each["probability"])).values for each in posteriors]
    mcse = np.sqrt(sum((w * error) ** 2 for w, error in zip(share, errors, strict=True)))
    first = posteriors[0]
    pair = ("item", "class")
    labels = xr.Dataset(
        {"probability": (pair, probability), "mcse": (pair, mcse)},
        {dim: first[dim].values for dim in pair},
        {
            "exact": int(all(each.attrs.get("exact", 1) for each in posteriors)),
            "method": "average of " + ", ".join(names),
        },
    )
    children = {"label_posterior": labels, "comparison": comparison}
    if "constant_data" in results[names[0]].children:
        children["constant_data"] = results[names[0]]["constant_data"].dataset
    averaged = xr.DataTree.from_dict(children)
    averaged.attrs = {"models": names, "weights": share.tolist()}
    return averaged


# ---------------------------------------------------------------- units


def _pointwise(result: xr.DataTree) -> xr.DataArray:
    """Return the log likelihood of every unit at every draw, whatever the responses are called."""
    (values,) = result["log_likelihood"].dataset.data_vars.values()
    return values


def _units(result: xr.DataTree) -> Any:
    """Return the coordinate of the units of the log likelihood."""
    values = _pointwise(result)
    (unit,) = (dim for dim in values.dims if dim not in ("chain", "draw"))
    return values[unit]


def _partition(name: str, result: xr.DataTree) -> pd.Series:
    """Return the number of the unit of every item, by item name."""
    if "log_likelihood" not in require_result(result).children:
        raise ModelError(
            "Models are compared by their log likelihoods, which bf.sample stores unless they are "
            f"too many (log_likelihood=True stores them all the same). Got: none in {name!r}."
        )
    units = _units(result)
    if units.name == "item":
        return pd.Series(np.arange(len(units)), index=pd.Index(units.values))
    known = constants(result)
    index = f"{units.name}_index"
    if index not in known:
        raise ModelError(
            f"Which item belongs to which {units.name} must stand in constant_data, as "
            f"{index!r}. Got: {sorted(map(str, known.data_vars))} in {name!r}."
        )
    return pd.Series(known[index].values, index=pd.Index(known["item"].values))


def _in_units(
    name: str, result: xr.DataTree, pairs: pd.DataFrame, target: Any, model: pm.Model | None
) -> xr.DataTree:
    """Return a result with the log likelihoods of the units of another."""
    own = _units(result)
    if own.name == target.name and np.array_equal(own.values, target.values):
        return result
    values = _pointwise(result)
    to = np.empty(len(own), dtype=np.int64)
    to[pairs["own"].to_numpy()] = pairs["to"].to_numpy()
    if len(np.unique(to)) == len(to):  # the same units in another order
        total = values.transpose(..., own.name).values[:, :, np.argsort(to)]
    elif result["log_likelihood"].attrs.get("adds_up", 1):
        order = np.argsort(to, kind="stable")
        begin = np.searchsorted(to[order], np.arange(len(target)))
        total = np.add.reduceat(values.values[:, :, order], begin, axis=2)
    elif model is None:
        raise ModelError(
            "Log likelihoods of items on a graph are given all other items, so their sum is not "
            f"that of a {target.name}, which takes the model: give models={{name: model}}. Got: no "
            f"model of {name!r}."
        )
    else:
        total = _joint(result, model, to)
    dims = ("chain", "draw", target.name)
    coords = {"chain": values["chain"], "draw": values["draw"], target.name: target.values}
    changed = copy(result)
    changed["log_likelihood"] = xr.DataTree(xr.Dataset({values.name: (dims, total)}, coords))
    return changed


def _joint(result: xr.DataTree, model: pm.Model, to: NDArray[np.int64]) -> Array:
    """Return the log likelihood of sets of items at every draw, the labels summed out."""
    _, observation = observed(model)
    draws = parameters(result, model)
    evidence = observation.labels.joint(observation.responses, to)
    sizes = next(iter(draws.values())).shape[:2]
    total = np.empty((*sizes, to.max() + 1))
    for at in np.ndindex(sizes):
        rows = observation.rows({name: values[at] for name, values in draws.items()})
        total[at] = evidence(observation.label_tables(rows), *observation.likelihood(rows))
    return total


# ---------------------------------------------------------------- weights


def _same_labels(
    results: Mapping[str, xr.DataTree], models: Mapping[str, pm.Model]
) -> list[xr.Dataset]:
    """Return the label posteriors, items and classes in the order of the first."""
    posteriors = {name: label_posterior(each, models.get(name)) for name, each in results.items()}
    first = next(iter(posteriors.values()))
    found = []
    for name, own in posteriors.items():
        for dim in ("item", "class"):
            if set(listed(own[dim].values)) != set(listed(first[dim].values)):
                raise ModelError(
                    f"Label posteriors are averaged {dim} by {dim}, so all must have the same. "
                    f"Got: others in {name!r}."
                )
        found.append(own.sel({dim: first[dim].values for dim in ("item", "class")}))
    return found


def _loo_weights(
    results: Mapping[str, xr.DataTree], method: str, models: Mapping[str, pm.Model] | None
) -> xr.Dataset:
    import arviz as az

    if method.lower() not in METHODS:
        raise ModelError(f"weights must be one of {list(METHODS)}, or numbers. Got: {method!r}.")
    names = list(results)
    common = common_units(results, models=models)
    loos = {name: az.loo(each, pointwise=True) for name, each in common.items()}
    table = _weigh(loos, method)
    columns: dict[str, Array] = {
        "weight": table.loc[names, "weight"].to_numpy(dtype=float),
        "elpd": np.array([loos[name].elpd for name in names]),
        "se": np.array([loos[name].se for name in names]),
        "p_loo": np.array([loos[name].p for name in names]),
        "worst_pareto_k": np.array([loos[name].pareto_k.values.max() for name in names]),
    }
    columns["weight"] = np.maximum(columns["weight"], 0.0) / columns["weight"].sum()
    return xr.Dataset(
        {name: ("model", values) for name, values in columns.items()},
        {"model": names},
        {"method": method, "unit": _unit_name(loos)},
    )


def _weigh(loos: Mapping[str, Any], method: str) -> pd.DataFrame:
    """Let ArviZ find the weights, from densities relative to the best model's unit by unit.

    No weights depend on that, while the density of a long sequence is below the smallest number.
    """
    import arviz as az

    if len(loos) == 1:
        return pd.DataFrame({"weight": [1.0]}, index=list(loos))
    best = np.max([each.elpd_i.values for each in loos.values()], axis=0)
    relative = {}
    for name, each in loos.items():
        relative[name] = copy(each)
        relative[name].elpd_i = each.elpd_i - best
        relative[name].elpd = each.elpd - best.sum()
    return az.compare(relative, method=method, round_to="none")


def _unit_name(loos: Mapping[str, Any]) -> str:
    return str(next(iter(loos.values())).elpd_i.dims[0])


def _given_weights(names: list[str], weights: Mapping[str, float]) -> xr.Dataset:
    require_mapping("weights", weights)
    if set(weights) != set(names):
        raise ModelError(f"There must be one number for each of {names}. Got: {dict(weights)}.")
    share = require_weights("weights", {name: weights[name] for name in names})
    return xr.Dataset({"weight": ("model", np.array(share))}, {"model": names})
