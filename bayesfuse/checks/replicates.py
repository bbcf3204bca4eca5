"""Data replicated from the posterior, compared with the observed data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import require_seed
from bayesfuse.labels.independent import Independent
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation
from bayesfuse.raters.consensus import Consensus
from bayesfuse.results.compatibility import evenly_spaced_rows
from bayesfuse.results.summaries import tails

DRAWS = 200  # posterior draws at which data are replicated
LEVEL = 0.05  # P-values above this are reported as no evidence against the model

ITEM_TYPES = "bayesfuse.models.ItemTypes"

RATE = 0.05  # false discovery rate of what is flagged as unusual (Benjamini & Hochberg 1995)


def expanded(observation: Observation) -> Observation:
    """Return an observation with one row per item, as replicated data have."""
    if observation.table is observation.responses and observation.responses.is_plain:
        return observation
    responses = observation.responses.expand()
    gold = np.repeat(observation.gold, observation.responses.multiplicity)
    return replace(
        observation,
        responses=responses,
        table=responses,
        inverse=np.arange(responses.n_items),
        gold=gold,
        label_structure=observation.labels.structure(responses),
    )


def replicate(
    statistic: Callable[[Responses], Array],
    result: xr.DataTree,
    model: pm.Model | None,
    observation: Observation,
    draws: int,
    random_seed: Any,
) -> tuple[Array, Array]:
    """Return a statistic of the responses and of their replications.

    New labels and responses are drawn at evenly spaced posterior draws, for the same items and
    raters. Known labels are kept, and the others drawn given them. Shapes (entries,), (draws,
    entries).
    """
    seen = statistic(observation.responses)
    rng = require_seed(random_seed)
    replicated = []
    for rows in evenly_spaced_rows(result, model, observation, draws, least=2):
        _, label = observation.simulate(rows, rng)
        replicated.append(statistic(observation.responses.relabelled(label)))
    return seen, np.array(replicated)


def relabelled(observation: Observation, label: NDArray[np.int64]) -> Observation:
    """Return an :func:`expanded` observation with other responses, row by row."""
    table = observation.responses.relabelled(label)
    return replace(observation, responses=table, table=table)


def against_replications(
    statistic: Callable[[Responses], Array],
    summary: Callable[[Array], Any],
    fit: tuple[xr.DataTree, pm.Model, Observation],
    entries: tuple[str, Any],
    *,
    draws: int,
    random_seed: Any,
    total: Array | None = None,
    ci_prob: float | None = None,
) -> tuple[xr.Dataset, dict[str, float]]:
    """Compare a statistic and a summary of it with those of replicated data.

    ``summary`` reduces entries, the last axis, to a number; ``entries`` are a dimension and its
    coordinate.
    """
    seen, others = replicate(statistic, *fit, draws, random_seed)
    dim, names = entries
    found = compare(seen, others, {dim: names}, dim, total=total, ci_prob=ci_prob)
    return found, place_among(summary(seen), summary(others))


def compare(
    seen: Array,
    replicated: Array,
    coords: Mapping[Hashable, Any],
    dims: str,
    *,
    total: Array | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare statistics of the data with their replications.

    Counts (entries,) and (draws, entries) with their ``total`` are returned as shares, and their
    tails are those of a beta-binomial with the replications' mean and variance, else of a normal
    distribution. The attribute ``p_value`` is of all entries together: how often replications are
    as far from their mean, in the sum of squared standardised deviations.
    """
    from scipy import stats

    n_draws = len(replicated)
    mean, variance = replicated.mean(axis=0), replicated.var(axis=0, ddof=1)
    if total is not None:
        below, above = _tails(seen, mean, variance, total, n_draws)
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = np.where(seen == mean, 0.0, (seen - mean) / np.sqrt(variance))
        below, above = stats.norm.cdf(z), stats.norm.sf(z)
    p_value = np.minimum(2 * np.minimum(below, above), 1.0)
    scale = 1.0 if total is None else total
    low, high = np.quantile(replicated, tails(ci_prob), axis=0) / scale
    found = {
        "observed": seen / scale,
        "replicated": mean / scale,
        "low": low,
        "high": high,
        "p_value": p_value,
        "unusual": unusual(p_value),
    }
    far = _distance(seen, mean, variance)
    # the mean includes the replication that is compared with it
    others = _distance(replicated, mean, variance) * (n_draws / (n_draws - 1)) ** 2
    overall = float(1 + np.count_nonzero(others >= far)) / (1 + n_draws)
    return xr.Dataset(
        {name: (dims, values) for name, values in found.items()}, coords, {"p_value": overall}
    )


def place_among(seen: float, replicated: Array) -> dict[str, float]:
    """Return a statistic, the mean of its replications, and its two-sided p-value among them."""
    below = 1 + np.count_nonzero(replicated <= seen)
    above = 1 + np.count_nonzero(replicated >= seen)
    return {
        "observed": float(seen),
        "replicated": float(replicated.mean()),
        "p_value": float(min(1.0, 2 * min(below, above) / (1 + len(replicated)))),
    }


def verdict(said: str, found: Mapping[str, float], digits: str, more: str, less: str) -> str:
    """Return a sentence on the result of :func:`place_among`."""
    said = f"{said} (expected {format(found['replicated'], digits)})"
    if found["p_value"] > LEVEL:
        return f"{said}: no evidence against the model."
    return f"{said}: {more if found['observed'] > found['replicated'] else less}."


def unusual(p_value: Array) -> NDArray[np.bool_]:
    """Return which p-values are small, given their number (Benjamini & Hochberg 1995)."""
    from scipy import stats

    if len(p_value) == 0:
        return np.zeros(0, dtype=bool)
    flagged: NDArray[np.bool_] = stats.false_discovery_control(p_value) <= RATE
    return flagged


def _distance(values: Array, mean: Array, variance: Array) -> Any:
    """Sum squared standardised deviations over the entries that vary."""
    varies = variance > 0
    return ((values - mean)[..., varies] ** 2 / variance[varies]).sum(axis=-1)


def _tails(
    seen: Array, mean: Array, variance: Array, total: Array, n_draws: int
) -> tuple[Array, Array]:
    """Return the lower and upper tail (mid-p: each counts half of the observed value)."""
    from scipy import stats

    share = (mean * n_draws + 0.5) / (total * n_draws + 1)  # never quite 0 or 1
    binomial = total * share * (1 - share)
    correlation = np.divide(
        variance / binomial - 1, total - 1, out=np.zeros_like(mean), where=total > 1
    )
    correlation = np.clip(correlation, 1e-6, 0.999)  # at the lower end nearly a binomial
    a, b = (p * (1 - correlation) / correlation for p in (share, 1 - share))
    exactly = stats.betabinom.pmf(seen, total, a, b)
    below = stats.betabinom.cdf(seen, total, a, b) - exactly / 2
    above = stats.betabinom.sf(seen, total, a, b) + exactly / 2
    return below, above


def has_types(observation: Observation) -> bool:
    """Return whether items have types within their classes."""
    return isinstance(observation.raters, Consensus)


def model_of_hard_items(observation: Observation) -> str:
    """Return the model for data in which some items of a class are harder than others."""
    if isinstance(raters := observation.raters, Consensus):
        if raters.pairs or observation.table.n_classes == 2:
            return "bayesfuse.models.LatentGroup"
        return 'classes that compete (consensus="pairs")'
    if isinstance(observation.labels, Independent):
        return ITEM_TYPES
    kind = type(observation.labels).__name__
    return f"{ITEM_TYPES}, or its channel bayesfuse.Consensus with {kind} labels"
