"""Comparing and averaging several models of the same responses."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayesfuse.data.names import listed
from bayesfuse.errors import ModelError, require_choice, require_mapping, require_weights
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.observation.model import observed
from bayesfuse.results import joint_labels, schema
from bayesfuse.results.build import build
from bayesfuse.results.compatibility import parameters, require_alike
from bayesfuse.results.contents import constants, in_double, require_result
from bayesfuse.results.item_knowledge import averaged_knowledge
from bayesfuse.results.label_summary import LabelSummary
from bayesfuse.results.probabilities import label_posterior

METHODS = ("stacking", "bb-pseudo-bma", "pseudo-bma")  # weighting methods of arviz.compare

FEWEST = 25  # draws, a fifth of whose importance weights ArviZ smooths if these are five or more


def common_units(
    results: Mapping[str, xr.DataTree], *, models: Mapping[str, pm.Model] | None = None
) -> dict[str, xr.DataTree]:
    """Convert the log likelihoods of several models to the same units, for ``az.compare``.

    Those of items are summed to sequences where a model has these. Those of items on a graph are
    conditional on all other items: sequences are computed from the model, on graphs without cycles.

    Parameters
    ----------
    results : mapping of name to DataTree
        From ``bf.sample`` or ``bf.fit``, with log likelihoods, of the same items.
    models : mapping of name to pymc.Model, optional
        Needed for labels on a graph if other models have coarser units.

    Returns
    -------
    dict of name to DataTree
        Results already in these units are returned unchanged.

    Raises
    ------
    ModelError
        Other items or densities; no log likelihood; units that are not nested; a graph as above.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1], [1, 1], [0, 0]])
    >>> sequences = bf.Sequences.from_lengths([3, 2])
    >>> chain = bf.models.HiddenMarkov(responses, sequences, raters="confusion")
    >>> models = {"independent": bf.models.DawidSkene(responses), "chain": chain}
    >>> results = {name: bf.fit(each, draws=20, random_seed=1) for name, each in models.items()}
    >>> bf.checks.common_units(results)["independent"]["log_likelihood"]["responses"].dims
    ('chain', 'draw', 'sequence')
    """
    _require_results(results, models)
    partitions = {name: _partition(name, result) for name, result in results.items()}
    first = next(iter(partitions.values()))
    require_alike(results, "responses", "gold", "density")
    if all(partition.equals(first) for partition in partitions.values()):
        return dict(results)
    coarsest = min(results, key=lambda name: partitions[name].nunique())
    target = _units(results[coarsest])
    in_target = {}
    for name, result in results.items():
        to = partitions[coarsest].reindex(partitions[name].index)
        pairs = pd.DataFrame({"own": partitions[name], "to": to}).drop_duplicates()
        if pairs["own"].duplicated().any():
            raise ModelError(
                "Units can only be summed if each lies within one unit of the other model. Got: "
                f"{_units(result).name}s of {name!r} that span several {target.name}s of "
                f"{coarsest!r}."
            )
        in_target[name] = _in_units(name, result, pairs, target, (models or {}).get(name))
    return in_target


@explains_keywords
def average(
    results: Mapping[str, xr.DataTree],
    weights: str | Mapping[str, float] = "stacking",
    *,
    models: Mapping[str, pm.Model] | None = None,
) -> xr.DataTree:
    """Average the label posteriors of several models by how well they predict.

    Weights are for the mixture that best predicts *responses*, not the true labels.

    Parameters
    ----------
    results, models
        As in :func:`bayesfuse.checks.common_units`, of the same classes; models also if results
        have been thinned.
    weights : {"stacking", "bb-pseudo-bma", "pseudo-bma"} or mapping of name to number
        Stacking is for left-out units [1]_. Numbers are scaled to sum to one.

    Returns
    -------
    DataTree
        ``label_posterior``, ``label_draws`` (joint draws of all labels) and ``constant_data``;
        ``comparison`` by model: ``weight`` and, unless weights were given, ``elpd``, ``se``,
        ``p_loo`` and ``worst_pareto_k`` (ArviZ warns above 0.7).

    Raises
    ------
    ModelError
        Other items or classes; invalid weights; as :func:`bayesfuse.checks.common_units` unless
        these are numbers.

    References
    ----------
    .. [1] Yao, Vehtari, Simpson & Gelman (2018), Bayesian Analysis 13, 917–1003.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.simulate_dawid_skene(100, 5, 2, random_seed=1).responses
    >>> models = {name: bf.models.DawidSkene(responses, raters=name) for name in ("class", "coin")}
    >>> quiet = {"random_seed": 1, "progressbar": False, "quiet": True}
    >>> results = {name: bf.sample(each, 100, **quiet) for name, each in models.items()}
    >>> bf.average(results).attrs["models"]
    ['class', 'coin']
    """
    _require_results(results, models)
    owned = {
        name: label_posterior(result, (models or {}).get(name)) for name, result in results.items()
    }
    first, pair, posteriors = next(iter(owned.values())), ["item", "class"], []
    for name, posterior in owned.items():
        for dim in pair:
            if set(listed(posterior[dim].values)) != set(listed(first[dim].values)):
                raise ModelError(
                    f"Averaged label posteriors must have the same {dim} names. Got: others in "
                    f"{name!r}."
                )
            # by place: names that are truth values would select as a mask does
            place = pd.Index(posterior[dim].values).get_indexer(first[dim].values)
            posterior = posterior.isel({dim: place})
        posteriors.append(posterior)
    require_alike(results, "responses", "gold")
    names = list(results)
    if isinstance(weights, str):
        comparison = _loo_weights(results, weights, models)
    else:
        require_mapping("weights", weights)
        if set(weights) != set(names):
            raise ModelError(f"weights must have the names {names}. Got: {dict(weights)}.")
        checked = require_weights("weights", {name: weights[name] for name in names})
        comparison = xr.Dataset({"weight": ("model", np.array(checked))}, {"model": names})
    share = comparison["weight"].values
    probability, variance = 0.0, 0.0
    for weight, posterior in zip(share, posteriors, strict=True):
        probability = probability + weight * posterior["probability"].values
        error = posterior.get("mcse", xr.zeros_like(posterior["probability"])).values
        variance = variance + (weight * error) ** 2
    labels = xr.Dataset(
        {schema.PROBABILITY: (pair, probability), schema.MCSE: (pair, np.sqrt(variance))},
        {dim: first[dim].values for dim in pair},
        {
            "exact": int(all(posterior.attrs.get("exact", 1) for posterior in posteriors)),
            "method": "average of " + ", ".join(map(str, names)),
        },
    )
    groups = {schema.COMPARISON: comparison}
    for group in (schema.CONSTANT_DATA, schema.OBSERVED_DATA):
        if group in results[names[0]].children:
            groups[group] = results[names[0]][group].dataset
    if schema.CONSTANT_DATA in groups:
        groups[schema.CONSTANT_DATA] = _with_sequences(groups[schema.CONSTANT_DATA], results)
    drawn = joint_labels.pooled(results, share, labels)
    knowledge = averaged_knowledge(labels, results, share)
    summary = LabelSummary(None, labels, drawn, knowledge=knowledge)
    return build(None, None, summary, groups, {"models": names, "weights": share.tolist()})


def _require_results(results: Any, models: Any) -> None:
    """Raise ModelError unless there are results by name, and models by name if any."""
    for name, mapping in (("results", results), ("models", {} if models is None else models)):
        require_mapping(name, mapping)
    if isinstance(results, xr.DataTree) or not results:
        got = "one result" if isinstance(results, xr.DataTree) else "no results"
        raise ModelError(f'results must map names to results, as {{"name": result}}. Got: {got}.')


def _with_sequences(known: xr.Dataset, results: Mapping[Any, xr.DataTree]) -> xr.Dataset:
    """Return constants with the sequences of the items, which models without order do not have."""
    names = ["sequence_index", schema.SEQUENCE_PLACE, schema.SEQUENCE_NAME]
    items = [r[schema.LABEL_POSTERIOR].dataset["item"].values for r in results.values()]
    for result, of_result in zip(results.values(), items, strict=True):
        others = constants(result)
        is_known = schema.SEQUENCE_PLACE in known or not set(names) <= set(others)
        if not is_known and np.array_equal(of_result, items[0]):
            known = known.assign({name: others[name].variable for name in names})
    return known


def _pointwise(result: xr.DataTree) -> xr.DataArray:
    """Return the log likelihood of every unit at every draw, (chain, draw, unit)."""
    (values,) = result["log_likelihood"].dataset.data_vars.values()
    return values.transpose("chain", "draw", ...)


def _units(result: xr.DataTree) -> Any:
    """Return the coordinate of the units of the log likelihood."""
    values = _pointwise(result)
    return values[values.dims[2]]


def _partition(name: str, result: xr.DataTree) -> pd.Series:
    """Return the number of the unit of every item, by item name."""
    if "log_likelihood" not in require_result(result).children:
        raise ModelError(
            "Models are compared by their log likelihoods, which bf.sample does not store for very "
            f"large tables unless log_likelihood=True. Got: none in {name!r}."
        )
    units = _units(result)
    if units.name == "item":
        return pd.Series(np.arange(len(units)), index=pd.Index(units.values))
    index = f"{units.name}_index"
    known = constants(result, index)
    return pd.Series(known[index].values, index=pd.Index(known["item"].values))


def _in_units(
    name: str, result: xr.DataTree, pairs: pd.DataFrame, target: Any, model: pm.Model | None
) -> xr.DataTree:
    """Return a result with the log likelihoods of the units of another."""
    units = _units(result)
    if units.name == target.name and np.array_equal(units.values, target.values):
        return result
    values = in_double(_pointwise(result))
    to = pairs.sort_values("own")["to"].to_numpy()
    same = len(np.unique(to)) == len(to)  # in another order
    if same or result["log_likelihood"].attrs.get("adds_up", 1):
        order = np.argsort(to, kind="stable")
        begin = np.searchsorted(to[order], np.arange(len(target)))
        total = np.add.reduceat(values.values[:, :, order], begin, axis=2)
    elif model is None:
        raise ModelError(
            "Log likelihoods of items on a graph are conditional on all other items, so their sum "
            f"is not that of a {target.name}: give models=. Got: no model of {name!r}."
        )
    else:
        _, observation = observed(model)
        draws = parameters(result, model)
        evidence = observation.labels.joint(observation.responses, to)  # labels summed out
        sizes = next(iter(draws.values())).shape[:2]
        total = np.empty((*sizes, to.max() + 1))
        for at in np.ndindex(sizes):
            rows = observation.rows({name: drawn[at] for name, drawn in draws.items()})
            total[at] = evidence(observation.label_tables(rows), *observation.likelihood(rows))
    dims = ("chain", "draw", target.name)
    coords = {"chain": values["chain"], "draw": values["draw"], target.name: target.values}
    changed = copy(result)
    changed["log_likelihood"] = xr.Dataset({values.name: (dims, total)}, coords)
    return changed


def _loo_weights(
    results: Mapping[str, xr.DataTree], method: str, models: Mapping[str, pm.Model] | None
) -> xr.Dataset:
    import arviz as az

    require_choice("weights", method, *METHODS)
    names = list(results)
    common = common_units(results, models=models)
    for name, result in common.items():
        sizes = _pointwise(result).sizes
        if (number := sizes["chain"] * sizes["draw"]) < FEWEST:
            raise ModelError(
                f"Leave-one-out needs at least {FEWEST} draws, whose largest weights it smooths; "
                f"give weights= as numbers, or sample more. Got: {number} draws in {name!r}."
            )
    loos = {name: az.loo(result, pointwise=True) for name, result in common.items()}
    best = np.max([loo.elpd_i.values for loo in loos.values()], axis=0)
    relative = {name: copy(loo) for name, loo in loos.items()}
    for loo in relative.values():  # densities relative to the best do not underflow
        loo.elpd_i, loo.elpd = loo.elpd_i - best, loo.elpd - best.sum()
    weight = np.ones(1)
    if len(names) > 1:
        table = az.compare(relative, method=method, round_to="none")
        weight = table.loc[names, "weight"].to_numpy(dtype=float)
    columns: dict[str, Any] = {"weight": np.maximum(weight, 0.0) / weight.sum()}
    for name, attribute in (("elpd", "elpd"), ("se", "se"), ("p_loo", "p")):
        columns[name] = [getattr(loo, attribute) for loo in loos.values()]
    columns["worst_pareto_k"] = [loo.pareto_k.values.max() for loo in loos.values()]
    return xr.Dataset(
        {name: ("model", values) for name, values in columns.items()},
        {"model": names},
        {"method": method, "unit": str(next(iter(loos.values())).elpd_i.dims[0])},
    )
