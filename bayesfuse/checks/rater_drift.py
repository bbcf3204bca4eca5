"""Check whether the accuracy of raters has changed since a fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.checks.predictive import LEVEL, expanded, relabelled
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_count, require_kind, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.raters.confusion import Confusion
from bayesfuse.results.compatibility import central, fitted_by
from bayesfuse.results.contents import evenly_spaced, require_draws, spaced_rows
from bayesfuse.results.fitted import FITTED, bind, confusion_at
from bayesfuse.results.summaries import tails

FREE = 0.5  # concentration of the entries of a row unrelated to the fitted one (Jeffreys)
SUREST = 1e9  # largest total concentration of a row, for rows that are known
NAMED = 5  # maximum number of raters in the verdict


def rater_drift(
    result: xr.DataTree,
    responses: Responses,
    *,
    model: pm.Model | None = None,
    gold: Mapping[Any, Any] | None = None,
    sequences: Sequences | None = None,
    populations: Any = None,
    draws: int = 400,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Find raters whose responses to new items differ from the predictions of the fit.

    For a stream, run this before each :func:`bayesfuse.update`. The labels follow the majority: if
    most raters change together, the others appear to have changed. Known labels (``gold``) resolve
    this.

    Parameters
    ----------
    result : DataTree with posterior draws, from ``bf.sample``, ``bf.fit`` or ``bf.update``
    responses : Responses to items that the fit has not seen
    model, sequences, populations : optional: as in :func:`bayesfuse.predict`
    gold : mapping of item name to class name, optional: new items whose true class is known
    draws : int, default 400: replications of the new responses, at evenly spaced posterior draws
    ci_prob, random_seed : probability of the interval, default that of ArviZ, and seed

    Returns
    -------
    Dataset, dims (rater,)
        Of fitted raters with new responses: ``responses``, their number; the share of right
        responses given the labels expected under the fit, ``observed`` and ``replicated`` (mean,
        ``low`` and ``high``); ``log_bayes_factor`` in favour of a drift and its ``p_value`` for a
        single rater; ``adjusted_p_value`` for the number of raters; ``unusual``, whether this is at
        most 0.05. Attributes: ``p_value``, the smallest adjusted one; ``verdict``, in words.

    Raises
    ------
    ModelError : labels that depend on more than sequences and populations; no fitted rater

    Notes
    -----
    Let :math:`C_k` be the expected number of a rater's responses to items of class k, and
    :math:`a_k` have the mean and variance of the fitted row. The log Bayes factor

    .. math:: \sum_k \log \frac{B(½ + C_k)}{B(½)} - \log \frac{B(a_k + C_k)}{B(a_k)}

    is compared with replications: labels are drawn given the new responses, and responses given
    these labels, so a change of the class shares is no drift. P-values are adjusted by the largest
    statistic of each replication (Westfall & Young 1993, algorithm 2.8): without drift no rater is
    flagged with probability 0.95 (after ``bf.fit``, in simulations 0.88).

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(300, 5, 2, accuracy=(0.8, 0.9), random_seed=1)
    >>> old, new = made.responses.take(np.arange(200)), made.responses.take(np.arange(200, 300))
    >>> label = np.where(new.rater == 4, np.arange(500) // 7 % 2, new.label)  # at random
    >>> result = bf.fit(bf.models.DawidSkene(old), random_seed=1)
    >>> found = bf.checks.rater_drift(result, new.relabelled(label), random_seed=1)
    >>> found["unusual"].values.tolist()
    [False, False, False, False, True]
    """
    require_kind("responses", responses, Responses)
    require_count("draws", draws, least=2)
    rng, ends = require_seed(random_seed), tails(ci_prob)
    require_draws(result, "A check for drift")
    fitted = fitted_by(result, model)
    inputs = {"sequences": sequences, "populations": populations}
    if unknown := [need for need in fitted.needs if need not in inputs]:
        raise ModelError(
            "Replications need labels that can be drawn given responses to an item or sequence. "
            f"Got: a result of {fitted.labels.__name__} labels, which need {unknown[0]}."
        )
    observation, values, source = bind(fitted.thinned(int(draws)), responses, inputs, gold)
    observation = expanded(observation)
    answered = np.bincount(observation.responses.rater, minlength=len(source)) > 0
    known = np.flatnonzero(answered & (np.array(source) == FITTED))
    if len(known) == 0:
        raise ModelError(
            "Drift is checked for fitted raters with new responses. Got: none of "
            f"{len(fitted.rater_names)} fitted raters among {int(answered.sum())} with responses."
        )
    n_draws = math.prod(next(iter(values.values())).shape[:2])
    points = list(spaced_rows(observation, values, n_draws))
    past = _dirichlet([confusion_at(observation, rows) for rows in points])
    centre = observation.rows(central(observation, values))
    observed = np.array(_statistics(observation, centre, past))[:, known]
    chosen = (points[draw] for draw in evenly_spaced(int(draws), n_draws))
    replications = (_replicated(observation, rows, rng) for rows in chosen)
    drawn = np.array([_statistics(value, centre, past) for value in replications])[:, :, known]
    adjusted = _adjusted(observed[0], drawn[:, 0])
    low, high = np.quantile(drawn[:, 1], ends, axis=0)
    table = {
        "responses": observation.responses.per_rater[known],
        "observed": observed[1],
        "replicated": drawn[:, 1].mean(axis=0),
        "low": low,
        "high": high,
        "log_bayes_factor": observed[0],
        "p_value": (1 + (drawn[:, 0] >= observed[0]).sum(axis=0)) / (1 + len(drawn)),
        "adjusted_p_value": adjusted,
        "unusual": adjusted <= LEVEL,
    }
    by_rater = {name: ("rater", value) for name, value in table.items()}
    names = {"rater": observation.responses.raters[known]}
    drift = xr.Dataset(by_rater, names, {"p_value": float(adjusted.min())})
    return drift.assign_attrs(verdict=_in_words(drift))


def _dirichlet(draws: list[Array]) -> Dirichlet:
    """Return Dirichlet rows with the mean of the draws, and their variance summed over a row."""
    mean, variance = np.mean(draws, axis=0), np.var(draws, axis=0)
    total = (mean * (1 - mean)).sum(axis=-1) / np.maximum(variance.sum(axis=-1), 1 / SUREST)
    return Dirichlet(mean * np.clip(total - 1, 1 / SUREST, SUREST)[..., None])


def _replicated(
    observation: ResponseModel, rows: LogParameters, rng: np.random.Generator
) -> ResponseModel:
    """Draw labels given the responses, and responses given these."""
    drawn = observation.draw(rows, rng)
    channel, _ = observation.raters.at(rows, observation.rater_structure)
    label = channel.simulate(observation.tables(rows), drawn, observation.responses, rng)
    return relabelled(observation, label)


def _statistics(
    observation: ResponseModel, centre: LogParameters, past: Dirichlet
) -> tuple[Array, Array]:
    """Return by rater the log Bayes factor of a drift, and the expected share of right answers."""
    table = observation.table
    probability = observation.marginal(centre).probability
    arranged = Confusion(None).structure(table, observation.gold)
    (counts,) = Confusion.expected_kernel(past.concentration, probability, *arranged)
    free = Dirichlet(np.where(past.concentration > 0, FREE, 0.0))
    drift, same = ((rows + counts).log_beta() - rows.log_beta() for rows in (free, past))
    right = np.trace(counts, axis1=1, axis2=2)
    return (drift - same).sum(axis=-1), right / np.maximum(counts.sum(axis=(1, 2)), 1.0)


def _adjusted(observed: Array, others: Array) -> Array:
    """Return p-values adjusted for their number: the step-down procedure of the largest one."""
    spread = others.std(axis=0)
    scale = np.where(spread > 0, spread, np.inf)
    standardised, replicated = (
        (observed - others.mean(axis=0)) / scale,
        (others - others.mean(axis=0)) / scale,
    )
    order = np.argsort(-standardised, kind="stable")
    largest = np.maximum.accumulate(replicated[:, order[::-1]], axis=1)[:, ::-1]  # of those left
    p_value = (1 + (largest >= standardised[order]).sum(axis=0)) / (1 + len(others))
    adjusted = np.empty_like(standardised)
    adjusted[order] = np.maximum.accumulate(p_value)
    return adjusted


def _in_words(drift: xr.Dataset) -> str:
    unusual = drift.isel(rater=drift["unusual"].values).sortby("adjusted_p_value")
    count, n_raters = unusual.sizes["rater"], drift.sizes["rater"]
    if count == 0:
        least = f"smallest adjusted p-value {drift.attrs['p_value']:.2f}"
        return f"No evidence that any of {n_raters} raters differs from the fit ({least})."
    named = [
        f"{row.Index!r} (right in {row.observed:.0%} of {row.responses} responses, expected "
        f"{row.replicated:.0%})"
        for row in unusual.to_dataframe().head(NAMED).itertuples()
    ]
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return (
        f"{count} of {n_raters} raters differ from the fit: {', '.join(named)}{more}. Use "
        "bf.update(…, forgetting=0.1) or more for raters that change; known labels (gold=) show "
        "which raters have changed."
    )
