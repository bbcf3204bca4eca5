"""Data replicated from the posterior, compared with the observed data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
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
LEVEL = 0.05  # p-values above this are reported as no evidence against the model
RATE = 0.05  # false discovery rate of unusual entries (Benjamini & Hochberg 1995)
ITEM_TYPES = "bayesfuse.models.ItemTypes"


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


def relabelled(observation: Observation, label: NDArray[np.int64]) -> Observation:
    """Return an :func:`expanded` observation with other responses, row by row."""
    table = observation.responses.relabelled(label)
    return replace(observation, responses=table, table=table)


def against_replications(
    statistic: Callable[[Responses], tuple[Any, ...]],
    fit: tuple[xr.DataTree, Any, Observation],
    entries: tuple[str, Any],
    draws: int,
    ci_prob: float | None,
    random_seed: Any,
    total: Array | None = None,
) -> tuple[xr.Dataset, list[dict[str, float]]]:
    """Compare statistics of the responses with those of data replicated at posterior draws.

    ``statistic`` returns an array of ``entries`` (dimension and coordinate), then single numbers,
    which are returned with their places among the replications. Labels and responses are drawn for
    the same items and raters; known labels are kept.
    """
    result, model, observation = fit
    seen, *numbers = statistic(observation.responses)
    rng = require_seed(random_seed)
    drawn = []
    for rows in evenly_spaced_rows(result, model, observation, draws, least=2):
        _, label = observation.simulate(rows, rng)
        drawn.append(statistic(observation.responses.relabelled(label)))
    replicated, *others = (np.array(each) for each in zip(*drawn, strict=True))
    places = [place_among(*both) for both in zip(numbers, others, strict=True)]
    return compare(seen, replicated, entries, total, ci_prob), places


def compare(
    seen: Array,
    replicated: Array,
    entries: tuple[str, Any],
    total: Array | None = None,
    ci_prob: float | None = None,
) -> xr.Dataset:
    """Compare statistics (entries,) with their replications (draws, entries).

    Counts with a ``total`` are returned as shares, with the tails of a beta-binomial distribution,
    others with those of a normal one. The attribute ``p_value`` is of all entries together, by the
    sum of squared standardised deviations from the mean of the replications.
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
    varies = variance > 0
    z = (np.vstack([seen, replicated]) - mean)[:, varies] / np.sqrt(variance[varies])
    own, *others = (z**2).sum(axis=1)
    # the mean includes the replication that is compared with it
    further = np.array(others) * (n_draws / (n_draws - 1)) ** 2 >= own
    dim, coordinate = entries
    found = {
        "observed": seen / scale,
        "replicated": mean / scale,
        "low": low,
        "high": high,
        "p_value": p_value,
        "unusual": unusual(p_value),
    }
    return xr.Dataset(
        {name: (dim, values) for name, values in found.items()},
        {dim: coordinate},
        {"p_value": float(1 + further.sum()) / (1 + n_draws)},
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
    rank = np.arange(1, len(p_value) + 1)
    small = np.sort(p_value) <= RATE * rank / max(len(p_value), 1)  # SciPy's would import jax
    flagged: NDArray[np.bool_] = p_value <= np.sort(p_value)[small].max(initial=-1.0)
    return flagged


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


def model_of_hard_items(observation: Observation) -> str:
    """Return the model for data in which some items of a class are harder than others."""
    if isinstance(raters := observation.raters, Consensus):
        if raters.pairs or observation.table.n_classes == 2:
            return "bayesfuse.models.LatentGroup"
        return 'classes that compete (consensus="pairs")'
    if isinstance(observation.labels, Independent):
        return ITEM_TYPES
    kind = type(observation.labels).__name__
    return f"the channel bayesfuse.Consensus with {kind} labels"
