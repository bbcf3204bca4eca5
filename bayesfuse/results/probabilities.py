"""Label probabilities, as stored in a result or recomputed from its draws, and vote shares."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.data import fingerprint
from bayesfuse.data.known import gold_labels
from bayesfuse.data.tables import Table, read_gold, read_table
from bayesfuse.errors import ModelError
from bayesfuse.results.compatibility import observation_of, parameters
from bayesfuse.results.contents import kept_labels, of_all_draws, require_result
from bayesfuse.results.draws import sum_up
from bayesfuse.results.posterior import OBSERVED, ORDERED, of_items


def label_probabilities(
    result: xr.DataTree | xr.DataArray, model: pm.Model | None = None
) -> xr.DataArray:
    """Return the posterior probability of every class for every item.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``. Label probabilities are returned
        unchanged.
    model : pymc.Model, optional
        The model of the result. Needed if draws have been dropped from the result
        (``result.isel(chain=[0])``, thinning), to recompute the mean.

    Returns
    -------
    DataArray, dims (item, class)
        Averaged over the posterior of the parameters (Rao–Blackwellised: the mean of exact
        probabilities). The Monte Carlo error is ``result["label_posterior"]["mcse"]``.

    Raises
    ------
    ModelError
        No model is given and the result has no label posterior, or one of other draws; a result of
        another model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> point = bf.find_map(DawidSkene(bf.datasets.anesthesia()))
    >>> bf.label_probabilities(point).sel(item=1).round(2).values.tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    if isinstance(result, xr.DataArray):
        if set(result.dims) != {"item", "class"}:
            dims = list(map(str, result.dims))
            raise ModelError(f"Label probabilities have dimensions item and class. Got: {dims}.")
        return result.transpose("item", "class")
    return label_posterior(result, model)["probability"]


def label_posterior(result: xr.DataTree, model: pm.Model | None = None) -> xr.Dataset:
    """Return label probabilities and, if averaged over draws, their Monte Carlo error."""
    observation = None if model is None else observation_of(result, model)
    there = "label_posterior" in require_result(result).children
    if there and of_all_draws(result):
        return result["label_posterior"].dataset
    if observation is not None and model is not None:
        values = parameters(result, model)
        sizes = next(iter(values.values())).shape[:2]
        labels = kept_labels(result) if observation.labels.moves_labels else None
        draws = sum_up(observation, values, labels, sizes, log_likelihood=False)
        return draws.label_posterior()
    if there:
        raise ModelError(
            "The label posterior is a mean over all draws, some of which have been dropped from "
            "the result: bf.label_probabilities(result, model) recomputes it. Got: other draws "
            "than those of the mean, and no model."
        )
    raise ModelError(
        "Label probabilities are read from the group label_posterior of results of bf.sample, "
        "bf.fit and bf.find_map; bf.label_probabilities(result, model) computes them from the "
        f"parameters. Got: groups {sorted(result.children)}."
    )


def vote_shares(responses: Table, gold: Any = None) -> xr.DataTree:
    """Return the shares of the votes for every class as label probabilities.

    One more vote is spread over all classes, so that no class is impossible, and items without
    responses have even shares. Items of known class have that class.

    Parameters
    ----------
    responses : Responses, DataFrame or array
        As in :func:`bayesfuse.fuse`.
    gold : mapping of item name to class name, DataFrame or path, optional
        Known labels.

    Returns
    -------
    DataTree
        ``label_posterior`` (``probability`` by item and class) for ``bf.label_probabilities``,
        ``bf.average`` and other functions of labels. It has no parameters of raters.

    Raises
    ------
    ResponsesError
        Gold labels of unknown items or classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.Responses.from_matrix([["no", "no", "yes"], ["yes", None, None]])
    >>> bf.label_probabilities(bf.vote_shares(responses)).values
    array([[0.625, 0.375],
           [0.25 , 0.75 ]])
    """
    responses, _ = read_table(responses)
    gold = read_gold(gold, responses)
    shares = responses.votes() + 1.0 / responses.n_classes
    shares /= shares.sum(axis=1, keepdims=True)
    known = gold_labels(responses, gold)
    at = np.flatnonzero(known >= 0)
    shares[at] = np.eye(responses.n_classes)[known[at]]
    coords = {"item": responses.items, "class": responses.classes}
    labels = xr.Dataset({"probability": (("item", "class"), shares)}, coords)
    told = fingerprint.of_responses(responses) | {"gold": fingerprint.of_gold(responses, known)}
    attrs = {OBSERVED: json.dumps(told), ORDERED: int(responses.ordered)}
    data = xr.Dataset(of_items(responses, known), coords, attrs)
    return xr.DataTree.from_dict({"label_posterior": labels, "constant_data": data})
