"""Weigh the models of an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from bayesfuse.data.responses import Responses
from bayesfuse.ensemble.candidates import Selection, Side
from bayesfuse.ensemble.fits import Fits
from bayesfuse.ensemble.members import GROUPS
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.averaging import common_units
from bayesfuse.results.collapse import lost_spans
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import VOTES

FULL_WEIGHT, NO_WEIGHT = 0.03, 0.07
"""Nats per response by which a model predicts worse than the best: its weight falls from the first
to the second, where it has none. Even guesses were behind by at most .04 on six public crowds where
they gave better or equal labels, by .05 to .14 on five where they gave equal or worse ones."""

WORSE = "; predicts the responses worse than “{better}”, so its weight is lower"
EXTENDS = "; extends “{extended}”, which predicts the responses worse than “{better}”"
LOST = "; finds less than half of the tags in spans that raters give, so it has no weight"
OF_GROUPS = "; its weight depends on the probability of these groups"
"""Why a model has less weight than a better one."""

COUNTED = "counted"  # outcome of vote shares, which are not fitted


def weigh(fits: Fits, selection: Selection) -> xr.Dataset:
    """Return the weights of the complete fits and of vote shares, by model.

    The attributes are why models have less weight than others (``less``), and the weight that
    kinds of models with a complete fit would have if all fits had finished (``planned``).
    """
    complete = fits.complete
    if not complete:
        return xr.Dataset({"weight": ("model", [1.0])}, {"model": [VOTES]})
    results = fits.results
    sides = [side for side in selection.sides if any(c.name in results for c in side.candidates)]
    drafts = [fit.candidate for fit in complete if fit.name not in selection.names]
    planned = sum(side.weight for side in sides)
    if drafts:  # they replace or rival the models of the first side
        first = selection.sides[0]
        if first not in sides and drafts[0].draft:  # else a model that the evidence rules out
            planned += first.weight
        rivals = [*(c for c in first.candidates if c.name in results), *drafts]
        others = [side for side in sides if side is not first]
        sides = [Side(first.weight, rivals, rivals=fits.inputs.graph is not None), *others]
    columns = {name: pd.Series(np.nan, list(results)) for name in ("elpd", "se")}
    weight, votes = pd.Series(0.0, list(results)), 0.0
    members = [{c.name: results[c.name] for c in s.candidates if c.name in results} for s in sides]
    tables = [
        model_weights(of_side, fits.inputs.responses, s.rivals, s.by_prediction).to_dataframe()
        for of_side, s in zip(members, sides, strict=True)
    ]
    shares = _shares(sides, tables)
    for side, inside, share in zip(sides, tables, shares, strict=True):
        for name, column in columns.items():
            column.update(inside[name])
        of_votes = max(c.votes for c in side.candidates if c.name in results)
        votes += share * of_votes
        weight[inside.index] += share * (1.0 - of_votes) * inside["weight"]
    if votes:
        weight[VOTES] = votes
    table = pd.DataFrame({"weight": weight} | columns).reindex(weight.index)
    weights = table.rename_axis("model").to_xarray()
    weights.attrs["less"] = _why_less(sides, tables, shares, weight)
    weights.attrs["planned"] = planned / sum(side.weight for side in selection.sides)
    return weights


def _shares(sides: list[Side], tables: list[pd.DataFrame]) -> Array:
    """Return the weights of sides; one that extends a poor model loses its own to the other."""
    share = np.array([side.weight for side in sides])
    share /= share.sum()
    for number, side in enumerate(sides):
        for other, table in enumerate(tables):
            if side.extends in table.index:
                lost = share[number] * (1.0 - _as_good(table["behind"][side.extends] - side.gain))
                share[number] -= lost
                share[other] += lost
    return share


def _why_less(
    sides: list[Side], tables: list[pd.DataFrame], shares: Array, weight: pd.Series
) -> dict[str, str]:
    """Return why models have less weight, to two digits, than a better one that is named."""
    reasons = {GROUPS.name: (weight.idxmax(), OF_GROUPS)}
    for side, inside, share in zip(sides, tables, shares / shares.sum(), strict=True):
        best = inside["weight"].idxmax()
        for name in inside.index[inside["weight"] < inside["weight"].max()]:
            reasons[name] = best, LOST if inside["lost"][name] else WORSE.format(better=best)
        of_extended = [table for table in tables if side.extends in table.index]
        if of_extended and share < 0.999 * side.weight / sum(other.weight for other in sides):
            best = of_extended[0]["elpd"].idxmax()
            reason = EXTENDS.format(extended=side.extends, better=best)
            reasons |= {name: (best, reason) for name in inside.index}
    return {
        name: reason
        for name, (better, reason) in reasons.items()
        if name in weight and round(weight[name], 2) < round(weight[better], 2)
    }


def _as_good(behind: Any) -> Any:
    """Return the weight of models that predict worse than the best, by nats per response."""
    share = np.clip((NO_WEIGHT - behind) / (NO_WEIGHT - FULL_WEIGHT), 0.0, 1.0)
    return np.where(np.isnan(share), 1.0, share)


def model_weights(
    results: Mapping[str, xr.DataTree],
    responses: Responses,
    only_best: bool = False,
    by_prediction: bool = False,
) -> xr.Dataset:
    """Return the weights of the models of a side, and their elpd.

    All models have the same weight, unless one of item types predicts responses far worse than
    another (:data:`FULL_WEIGHT`, :data:`NO_WEIGHT`): its guesses are even, but raters give one
    label throughout. Other weights by leave-one-out were worse on twelve crowds with known labels:
    it prefers models that predict responses, even if their labels are worse. Models of independent
    errors are alike in that, so they have weights by the probability that they predict better than
    the best (``by_prediction``). Of those on a graph only the best has weight (``only_best``): on
    33 simulated graphs it always had the better labels. A model that lost spans
    has none beside one that did not.
    """
    pointwise = _loo(results)  # (models, items), or NaN
    elpd = pointwise.sum(axis=1)
    columns = {"elpd": elpd, "se": pointwise.std(axis=1) * math.sqrt(pointwise.shape[1])}
    has_types = ["type_share" in result["posterior"] for result in results.values()]
    rivals = np.array(has_types) | only_best
    n_responses = int(responses.multiplicity[responses.item].sum())
    behind = (np.max(elpd[rivals], initial=-np.inf) - elpd) / n_responses
    share = np.where(behind > 0.0, 0.0, 1.0) if only_best else _as_good(behind)
    share[~rivals] = 1.0
    if by_prediction and np.isfinite(elpd).all():
        difference = pointwise - pointwise[elpd.argmax()]
        error = difference.std(axis=1) * math.sqrt(difference.shape[1])
        share = ndtr(difference.sum(axis=1) / np.maximum(error, 1e-12))
    labels = [label_probabilities(member).transpose("item", "class") for member in results.values()]
    lost = np.array([lost_spans(member.values, responses) is not None for member in labels])
    if not lost.all():
        share[lost] = 0.0
        share = share if share.any() else np.where(lost, 0.0, 1.0)
    columns = {"weight": share / share.sum(), "behind": behind, "lost": lost, **columns}
    return xr.Dataset(
        {name: ("model", values) for name, values in columns.items()}, {"model": list(results)}
    )


def _loo(results: Mapping[str, xr.DataTree]) -> Array:
    """Return elpd by model and unit by truncated importance sampling, NaN where not needed.

    ArviZ's Pareto-smoothed estimate takes seconds for every model, and only large differences
    matter here. See Ionides (2008), Truncated importance sampling, JCGS 17, 295-311.
    """
    if len(results) < 2 or any(
        "log_likelihood" not in result.children for result in results.values()
    ):
        return np.full((len(results), 1), np.nan)
    rows = []
    for result in common_units(results).values():
        (values,) = result["log_likelihood"].data_vars.values()
        log = values.values.reshape(-1, values[0, 0].size).astype(float)
        ratio = np.exp(log.min(axis=0) - log)
        ratio = np.minimum(ratio, ratio.mean(axis=0) * math.sqrt(len(log)))
        top = log.max(axis=0)
        rows.append(np.log((ratio * np.exp(log - top)).sum(axis=0) / ratio.sum(axis=0)) + top)
    return np.stack(rows)


def compare(
    fits: Fits, weights: xr.Dataset, precision: Mapping[str, tuple[float, float]]
) -> xr.Dataset:
    """Return weight, time and outcome of all models, and the worst error and R-hat of a label."""
    tried = pd.DataFrame(
        [(fit.seconds, fit.n_draws, fit.outcome, fit.candidate.why) for fit in fits.tried],
        [fit.name for fit in fits.tried],
        ["seconds", "draws", "outcome", "why"],
    )
    if VOTES in weights["model"].values:
        tried.loc[VOTES] = [0.0, 0, COUNTED, "errors may be dependent, which the models ignore"]
    table = weights.to_dataframe().reindex(tried.index).fillna({"weight": 0.0}).join(tried)
    table["why"] += [weights.attrs.get("less", {}).get(name, "") for name in table.index]
    of_labels = pd.DataFrame(precision, ["mcse", "rhat"], dtype=float).T
    return table.join(of_labels).rename_axis("model").to_xarray()
