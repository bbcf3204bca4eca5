"""The labels of new items by the models of an answer, or of all if these saw a part."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.answer.average import VOTES
from bayesfuse.answer.candidates import Inputs
from bayesfuse.answer.known import MIXED
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.models import WeightedVotes
from bayesfuse.results.averaging import average
from bayesfuse.results.compatibility import fitted_by
from bayesfuse.results.contents import gold_of, responses_of
from bayesfuse.results.fitted import with_classes
from bayesfuse.results.joint_labels import add_votes_in_sequence
from bayesfuse.results.predict import predict
from bayesfuse.results.probabilities import vote_shares

SOURCES = "raters"  # group that says what is known of each rater
PREDICTED = 60  # draws from which labels of a large table are predicted


def predicted(
    fused: xr.DataTree, responses: Responses, *, draws: int, **places: Any
) -> xr.DataTree:
    """Return the average of the predictions of models, corrected by known labels as the answer."""
    results = fused["models"].children if "models" in fused.children else {}
    weights = dict(zip(fused.attrs["models"], fused.attrs["weights"], strict=True))
    if not results and len(weights) > 1:
        raise ModelError(
            "New items are predicted by the models of an answer: fused.to_netcdf(path) saves them, "
            "and the command line up to 200 MB. Got: an answer without them."
        )
    if not results:
        raise ModelError(
            "New items are predicted by models, and vote shares have none: give more minutes=. "
            "Got: an answer by vote shares."
        )
    responses = with_classes(responses, responses_of(fused).classes)
    found = averaged(results, responses, weights, draws=draws, **places)
    if "known_labels" not in fused.children:
        return found
    own, sources = responses_of(fused), found[SOURCES]
    mixed = average({**results, **_votes(own, weights)}, weights)
    model = WeightedVotes(own, gold_of(fused, own), {MIXED: mixed})
    found = model.predict(fused.children["known_labels"], responses, {MIXED: found})
    found[SOURCES] = sources
    return found


def averaged(
    results: Mapping[str, xr.DataTree],
    responses: Responses,
    weights: Mapping[str, float],
    *,
    draws: int,
    **places: Any,
) -> xr.DataTree:
    """Return the average of the predictions of several results.

    Each gets what it needs, and what no result needs, which is then refused.
    """
    needs = {name: fitted_by(result, None).needs for name, result in results.items()}
    every = {what for own in needs.values() for what in own}
    own = {
        name: {
            what: each for what, each in places.items() if what in needs[name] or what not in every
        }
        for name in results
    }
    with warnings.catch_warnings():  # said once, of the answer
        warnings.filterwarnings("ignore", "No rater of the new responses", UserWarning)
        each = {
            name: predict(result, responses, draws=draws, **own[name])
            for name, result in results.items()
        }
    found = average({**each, **_votes(responses, weights)}, weights)
    found[SOURCES] = next(iter(each.values()))[SOURCES]
    return found


def of_all_items(
    results: Mapping[str, xr.DataTree],
    weights: Mapping[str, float],
    inputs: Inputs,
    part: Inputs,
    seed: int,
) -> xr.DataTree:
    """Return the averaged labels of all items, of which models were fitted to a part."""
    gold = dict(inputs.gold or {})
    if inputs.responses is part.responses:
        votes = {VOTES: vote_shares(inputs.responses, gold)} if VOTES in weights else {}
        if votes and inputs.sequences is not None:
            add_votes_in_sequence(votes[VOTES], inputs.responses, inputs.sequences, seed)
        return average({**results, **votes}, weights)
    found = averaged(results, inputs.responses, weights, draws=PREDICTED).drop_nodes(SOURCES)
    if gold:
        labels = found["label_posterior"].to_dataset().transpose("item", "class")
        number = pd.Index(inputs.responses.items).get_indexer(list(gold))
        own = pd.Index(inputs.responses.classes).get_indexer(list(gold.values()))
        labels["probability"].values[number] = np.eye(inputs.responses.n_classes)[own]
        found["label_posterior"] = labels
    return found


def _votes(responses: Responses, weights: Mapping[str, float]) -> dict[str, xr.DataTree]:
    return {VOTES: vote_shares(responses)} if VOTES in weights else {}
