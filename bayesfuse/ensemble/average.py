"""The average of several models: weights, draws of the mixture, and labels of new items."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.candidates import Inputs
from bayesfuse.ensemble.schedule import COUNTED, FITTED, Fit
from bayesfuse.errors import ModelError
from bayesfuse.models import WeightedVotes
from bayesfuse.results.averaging import average, common_units
from bayesfuse.results.collapse import lost_spans
from bayesfuse.results.compatibility import fitted_by
from bayesfuse.results.contents import all_draws, evenly_spaced, gold_of, named, responses_of
from bayesfuse.results.fitted import with_classes
from bayesfuse.results.joint_labels import add_votes_in_sequence
from bayesfuse.results.probabilities import label_probabilities, predict, vote_shares
from bayesfuse.results.rater_table import VOTES

BEHIND, LOST = 0.03, 0.07
"""Nats per response by which a model predicts worse than the best: its weight falls from the first
to the second, where it has none. Even guesses were behind by at most .04 on six public crowds where
they gave better or equal labels, by .05 to .14 on five where they gave equal or worse ones."""

MIXED = "models"  # name of the average of the models, as an input of WeightedVotes
SOURCES = "raters"  # group of predictions that says what is known of each rater
PREDICTED, FEW_PREDICTED = 60, 15  # draws that predict labels of a large table, fewer in haste

SHARED = ("prevalence", "confusion", "sensitivity", "specificity")
"""Variables that mean the same in every model that has them."""

DRAWS, CHAINS = 250, 4  # draws of the mixture


def weigh(
    results: Mapping[str, xr.DataTree], votes: float, responses: Responses, only_best: bool = False
) -> xr.Dataset:
    """Return the weights of models, and of vote shares, and the elpd of models.

    All models have the same weight, unless one of item types predicts responses far worse than
    another (:data:`BEHIND`, :data:`LOST`): its guesses are even, but raters give one label
    throughout. Other weights by leave-one-out were worse on twelve crowds with known labels: it
    prefers models that predict responses, even if their labels are worse. On a graph only the best
    has weight (``only_best``) if errors may be independent: on 33 simulated graphs it always had
    the better labels. A model that lost spans has none beside one that did not.
    """
    names = list(results)
    columns = _loo(results)
    typed = np.array(["type_share" in result["posterior"] for result in results.values()])
    rivals = typed | only_best
    n_responses = int(responses.multiplicity[responses.item].sum())
    behind = np.max(columns["elpd"][rivals], initial=-np.inf) - columns["elpd"]
    if only_best:
        holds = np.where(behind > 0.0, 0.0, 1.0)
    else:
        holds = np.clip((LOST - behind / n_responses) / (LOST - BEHIND), 0.0, 1.0)
    holds[~rivals | np.isnan(behind)] = 1.0
    labels = (
        label_probabilities(member).transpose("item", "class").values for member in results.values()
    )
    lost = np.array([lost_spans(member, responses) is not None for member in labels])
    holds[lost & ~lost.all()] = 0.0
    equal = holds / holds.sum()
    columns = {"weight": equal, **columns}
    if votes:
        names.append(VOTES)
        missing = dict.fromkeys(columns, np.nan) | {"weight": votes}
        columns["weight"] = equal * (1.0 - votes)
        columns = {name: np.append(values, missing[name]) for name, values in columns.items()}
    return xr.Dataset(
        {name: ("model", values) for name, values in columns.items()}, {"model": names}
    )


def _loo(results: Mapping[str, xr.DataTree]) -> dict[str, np.ndarray]:
    """Return elpd and its standard error by truncated importance sampling, NaN where not needed.

    ArviZ's Pareto-smoothed estimate takes seconds for every model, and only large differences
    matter here. See Ionides (2008), Truncated importance sampling, JCGS 17, 295-311.
    """
    columns = {name: np.full(len(results), np.nan) for name in ("elpd", "se")}
    if len(results) < 2 or any(
        "log_likelihood" not in result.children for result in results.values()
    ):
        return columns
    for at, result in enumerate(common_units(results).values()):
        (values,) = result["log_likelihood"].data_vars.values()
        log = values.values.reshape(-1, values[0, 0].size).astype(float)
        ratio = np.exp(log.min(axis=0) - log)
        ratio = np.minimum(ratio, ratio.mean(axis=0) * math.sqrt(len(log)))
        top = log.max(axis=0)
        elpd = np.log((ratio * np.exp(log - top)).sum(axis=0) / ratio.sum(axis=0)) + top
        columns["elpd"][at], columns["se"][at] = elpd.sum(), elpd.std() * math.sqrt(elpd.size)
    return columns


def compare(
    fits: list[Fit],
    weighed: xr.Dataset,
    worst: Mapping[str, tuple[float, float]],
    inputs: Inputs,
) -> xr.Dataset:
    """Return weight, time and outcome of all models, and the worst error and R-hat of a label."""
    tried = pd.DataFrame(
        [(fit.seconds, fit.n_draws, fit.outcome, fit.candidate.why) for fit in fits],
        [fit.candidate.name for fit in fits],
        ["seconds", "draws", "outcome", "why"],
    )
    if VOTES in weighed["model"].values:
        tried.loc[VOTES] = [0.0, 0, COUNTED, "errors may be dependent, which the models ignore"]
    table = weighed.to_dataframe().reindex(tried.index).fillna({"weight": 0.0}).join(tried)
    table["why"] += [why_less(table, name, inputs) for name in table.index]
    of_labels = pd.DataFrame(worst, ["mcse", "rhat"], dtype=float).T
    return table.join(of_labels).rename_axis("model").to_xarray()


def why_less(table: pd.DataFrame, name: str, inputs: Inputs) -> str:
    """Say why a fitted model has less weight than another."""
    fitted = table[table["outcome"] == FITTED]
    if name not in fitted.index or fitted["weight"][name] > 0.99 * fitted["weight"].max():
        return ""
    if inputs.sequences is not None:
        return "; finds less than half of the tags in spans that raters give, so it has no weight"
    return "; predicts the responses worse, so its weight is lower"


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
    parts = np.diff(np.rint(total * up_to / up_to[-1]), prepend=0.0).astype(np.int64)
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
            f"an answer by {', '.join(weights)} without models."
        )
    responses = with_classes(responses, responses_of(fused).classes)
    tree = averaged(results, responses, weights, draws=draws, **places)
    if "known_labels" not in fused.children:
        return tree
    table, sources = responses_of(fused), tree[SOURCES]
    mixed = average({**results, **_votes(table, weights)}, weights)
    model = WeightedVotes(table, gold_of(fused, table), {MIXED: mixed})
    tree = model.predict(fused.children["known_labels"], responses, {MIXED: tree})
    tree[SOURCES] = sources
    return tree


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
    every = {what for arguments in needs.values() for what in arguments}
    predictions = {}
    with warnings.catch_warnings():  # said once, of the answer
        warnings.filterwarnings("ignore", "No rater of the new responses", UserWarning)
        for name, result in results.items():
            arguments = {n: at for n, at in places.items() if n in needs[name] or n not in every}
            predictions[name] = predict(result, responses, draws=draws, **arguments)
    tree = average({**predictions, **_votes(responses, weights)}, weights)
    tree[SOURCES] = next(iter(predictions.values()))[SOURCES]
    return tree


def of_all_items(
    results: Mapping[str, xr.DataTree],
    weights: Mapping[str, float],
    inputs: Inputs,
    part: Inputs,
    seed: int,
    draws: int = PREDICTED,
) -> xr.DataTree:
    """Return the averaged labels of all items, of which models were fitted to a part."""
    gold = dict(inputs.gold or {})
    if inputs.responses is part.responses:
        votes = {VOTES: vote_shares(inputs.responses, gold)} if VOTES in weights else {}
        if votes and results and inputs.sequences is not None:
            add_votes_in_sequence(votes[VOTES], inputs.responses, inputs.sequences, seed)
        return average({**results, **votes}, weights)
    tree = averaged(results, inputs.responses, weights, draws=draws).drop_nodes(SOURCES)
    if gold:
        labels = tree["label_posterior"].to_dataset().transpose("item", "class")
        number = pd.Index(inputs.responses.items).get_indexer(list(gold))
        codes = pd.Index(inputs.responses.classes).get_indexer(list(gold.values()))
        labels["probability"].values[number] = np.eye(inputs.responses.n_classes)[codes]
        tree["label_posterior"] = labels
    return tree


def _votes(responses: Responses, weights: Mapping[str, float]) -> dict[str, xr.DataTree]:
    return {VOTES: vote_shares(responses)} if VOTES in weights else {}
