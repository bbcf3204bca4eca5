"""How far the class shares of a table depend on the prior of its raters."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayesfuse.checks.advice import Advice
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table
from bayesfuse.errors import ModelError, require_count
from bayesfuse.inference.sample import sample
from bayesfuse.observation.item_priors import independent_labels
from bayesfuse.observation.model import LabelModel
from bayesfuse.priors import usual_rows
from bayesfuse.results.summaries import coverage, interval

WEIGHTS = 0.5, 1.0, 2.0  # of the prior responses that a rater's row counts as
DRAWS = 250


def prior_dependence(
    responses: Table,
    gold: Any = None,
    populations: Any = None,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Return the class shares under half, the whole and twice the weight of the raters' prior.

    Up to three raters hardly identify their accuracies, so that class shares follow from the prior
    as well. :class:`bayesfuse.models.DawidSkene` is fitted once for each weight.

    Parameters
    ----------
    responses, gold : as in :func:`bayesfuse.fuse`; labels only, without silence or probabilities
    populations : population of every item, as in :class:`bayesfuse.models.DawidSkene`
    draws : int, default 250: draws of each of four chains
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    Dataset, dims (weight, class) and (weight, rater)
        ``share`` of every class with its interval from ``low`` to ``high``, and the raters'
        balanced ``accuracy``, posterior means. The attribute ``verdict`` is a sentence on the class
        whose share differs most. With populations, these are shares of all items, and
        ``population_share`` (weight, population, class) those of each.

    Raises
    ------
    ModelError, ResponsesError : no draws; responses with silence or stated probabilities

    Examples
    --------
    >>> import bayesfuse as bf
    >>> responses = bf.datasets.simulate_dawid_skene(60, 2, 2, random_seed=1).responses
    >>> table = bf.checks.prior_dependence(responses, draws=50, random_seed=1)
    >>> table["share"].sizes == {"weight": 3, "class": 2}, table["weight"].values.tolist()
    (True, [0.5, 1.0, 2.0])
    """
    require_count("draws", draws)
    coverage(ci_prob)  # raises before the fits
    options: dict[str, Any] = {"gold": gold, "populations": populations, "ci_prob": ci_prob}
    options |= {"draws": draws, "random_seed": random_seed}
    parts = [_at_weight(weight, responses, **options) for weight in WEIGHTS]
    table = xr.concat(parts, "weight").assign_coords(weight=list(WEIGHTS))
    share = table["share"]
    name = share["class"].values[np.ptp(share.values, axis=0).argmax()]
    half, once, twice = share.sel({"class": name}).values
    return table.assign_attrs(verdict=str(_in_words(name, once, half, twice)))


def _at_weight(
    weight: float,
    responses: Table,
    *,
    gold: Any,
    populations: Any,
    draws: int,
    ci_prob: float | None,
    random_seed: Any,
) -> xr.Dataset:
    """Return shares and accuracies under one weight of the prior."""
    with LabelModel(responses, gold=gold) as model:
        _require_labels_only(model.responses)
        labels = independent_labels(model.responses, None, populations, None, None)
        rows = weight * usual_rows(model.responses)
        model.observe(labels=labels, raters=model.rater_channel("confusion", rows))
    result = sample(
        model, draws, random_seed=random_seed, log_likelihood=False, progressbar=False, quiet=True
    )
    posterior = result["posterior"].dataset
    low, high = interval(posterior["prevalence"], ci_prob)
    right = np.diagonal(posterior["confusion"].values, axis1=-2, axis2=-1).mean(axis=(0, 1, 3))
    table = xr.Dataset(
        {
            "share": posterior["prevalence"].mean(("chain", "draw")),
            "low": low,
            "high": high,
            "accuracy": ("rater", right),
        },
        {"rater": model.responses.raters},
    )
    if populations is not None:
        table["population_share"] = posterior["population_prevalence"].mean(("chain", "draw"))
    return table


def _require_labels_only(responses: Responses) -> None:
    if responses.silent is not None or responses.stated is not None:
        kind = "stated probabilities" if responses.silent is None else "silence"
        raise ModelError(
            f"The prior of raters is varied for tables of labels only. Got: a table with {kind}."
        )


def _in_words(name: Any, once: float, half: float, twice: float) -> Advice:
    return Advice(
        f"The share of class {name} is {once:.2f} with the default prior of the raters, "
        f"{half:.2f} with half its weight and {twice:.2f} with twice its weight.",
        "prior",
        "bf.checks.prior_dependence(responses)",
    )
