"""The average of several models: draws of the mixture, and labels of new items."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.data.names import unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.inputs import Inputs
from bayesfuse.ensemble.schedule import CHAINS
from bayesfuse.errors import ModelError, NewRatersWarning
from bayesfuse.models import WeightedVotes
from bayesfuse.results.averaging import average
from bayesfuse.results.compatibility import fitted_by
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    evenly_spaced,
    gold_of,
    named,
    responses_of,
)
from bayesfuse.results.fitted import with_classes
from bayesfuse.results.joint_labels import add_votes_in_sequence
from bayesfuse.results.probabilities import predict, vote_shares
from bayesfuse.results.rater_table import VOTES

MIXED = "models"  # name of the average of the models, as an input of WeightedVotes
SOURCES = "raters"  # group of predictions: whether raters were fitted
PREDICTED, FEW_PREDICTED = 60, 15  # draws that predict labels of a large table, fewer in haste

SHARED = ("prevalence", "confusion", "sensitivity", "specificity")
"""Variables that mean the same in every model that has them."""

DRAWS = 250  # draws of each chain of the mixture


def mixture(
    results: Mapping[str, xr.DataTree], weights: Mapping[str, float], rng: np.random.Generator
) -> xr.Dataset | None:
    """Return draws of the variables that all models share, None if there are none.

    Draws of a model are evenly spaced, and all are in random order, so that every chain and every
    part of it is of the mixture. Diagnostics of chains belong to the models, not to the mixture.
    """
    if not results:
        return None
    draws = {name: all_draws(result) for name, result in results.items()}
    total = CHAINS * DRAWS
    up_to = np.cumsum([weights[name] for name in draws])
    parts = np.diff(np.rint(np.round(total * up_to / up_to[-1], 6)), prepend=0.0).astype(np.int64)
    order = rng.permutation(total)
    variables: dict[str, xr.DataArray] = {}
    for variable in SHARED:
        values = [
            value for draws_of in draws.values() if (value := named(draws_of, variable)) is not None
        ]
        if len(values) < len(draws) or any(value.dims != values[0].dims for value in values):
            continue
        spaced = []
        for value, number in zip(values, parts.tolist(), strict=True):
            flat = value.values.reshape(-1, *value.shape[2:])
            spaced.append(flat[evenly_spaced(number, len(flat))])
        pooled = np.concatenate(spaced)[order].astype(np.float32)
        dims = values[0].dims
        coords = {dim: values[0][dim].values for dim in dims[2:] if dim in values[0].coords}
        variables[variable] = xr.DataArray(
            pooled.reshape(CHAINS, DRAWS, *pooled.shape[1:]),
            {"chain": np.arange(CHAINS), "draw": np.arange(DRAWS)} | coords,
            dims,
        )
    return xr.Dataset(variables) if variables else None


def predicted(
    fused: xr.DataTree, responses: Responses, *, draws: int, **places: Any
) -> xr.DataTree:
    """Return the average of the predictions of models, corrected by known labels as the answer."""
    results = fused["models"].children if "models" in fused.children else {}
    weights = dict(zip(fused.attrs["models"], fused.attrs["weights"], strict=True))
    if not results:
        raise ModelError(
            "New items are predicted by the models of an answer: fused.to_netcdf(path) saves them, "
            "the command line up to 200 MB, and vote shares have none (give more minutes=). Got: "
            f"an answer by {'; '.join(weights)} without models."
        )
    responses = with_classes(responses, unique_names(class_names(fused), "class"))
    tree = average_predictions(results, responses, weights, draws=draws, **places)
    if "known_labels" not in fused.children:
        return tree
    table, known, sources = responses_of(fused), fused.children["known_labels"], tree[SOURCES]
    # models may be fitted to a part of the table
    given = known["label_posterior"].dataset["given"]
    model = WeightedVotes(table, gold_of(fused, table), {MIXED: given})
    tree = model.predict(known, responses, {MIXED: tree})
    tree[SOURCES] = sources
    return tree


def average_predictions(
    results: Mapping[str, xr.DataTree],
    responses: Responses,
    weights: Mapping[str, float],
    *,
    draws: int,
    **places: Any,
) -> xr.DataTree:
    """Return the average of the predictions of several results.

    A result is passed the arguments that it needs, and those that none needs, to raise its error.
    """
    needs = {name: fitted_by(result, None).needs for name, result in results.items()}
    needed = {argument for arguments in needs.values() for argument in arguments}
    predictions = {}
    with warnings.catch_warnings():  # the warning is given once, of the answer
        warnings.simplefilter("ignore", NewRatersWarning)
        for name, result in results.items():
            arguments = {
                argument: at
                for argument, at in places.items()
                if argument in needs[name] or argument not in needed
            }
            predictions[name] = predict(result, responses, draws=draws, **arguments)
    tree = average({**predictions, **_votes(responses, weights)}, weights)
    tree[SOURCES] = next(iter(predictions.values()))[SOURCES]
    return tree


def average_items(
    results: Mapping[str, xr.DataTree],
    weights: Mapping[str, float],
    inputs: Inputs,
    part: Inputs,
    seed: int,
    draws: int = PREDICTED,
) -> xr.DataTree:
    """Return the averaged labels of all items; models may be fitted to a part of them."""
    gold = dict(inputs.gold or {})
    if inputs.responses is part.responses or not results:
        votes = {VOTES: vote_shares(inputs.responses, gold)} if VOTES in weights else {}
        if votes and results and inputs.sequences is not None:
            add_votes_in_sequence(votes[VOTES], inputs.responses, inputs.sequences, seed)
        return average({**results, **votes}, weights)
    tree = average_predictions(results, inputs.responses, weights, draws=draws).drop_nodes(SOURCES)
    if gold:
        labels = tree["label_posterior"].to_dataset().transpose("item", "class")
        number = pd.Index(inputs.responses.items).get_indexer(list(gold))
        codes = pd.Index(inputs.responses.classes).get_indexer(list(gold.values()))
        labels["probability"].values[number] = np.eye(inputs.responses.n_classes)[codes]
        tree["label_posterior"] = labels
    return tree


def _votes(responses: Responses, weights: Mapping[str, float]) -> dict[str, xr.DataTree]:
    return {VOTES: vote_shares(responses)} if VOTES in weights else {}
