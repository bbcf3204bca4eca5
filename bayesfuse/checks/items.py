"""Whether items differ in more than their class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.checks.agreement import DRAWS
from bayesfuse.checks.replicates import compare, place_among, replicate, written_out
from bayesfuse.errors import ModelError
from bayesfuse.responses import Responses
from bayesfuse.simplex import Array

BINS = 10
"""Bins of the items by how much their raters agree."""


def item_difficulty(
    result: xr.DataTree,
    model: pm.Model,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how much items differ in how their raters agree, against replicated data.

    Where some items are harder than others of their class, more of them split their raters, and
    more unite them, than confusion matrices alone can explain.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.

    Returns
    -------
    Dataset, dims (agreement,)
        Items by the share of their pairs of responses that agree, in bins whose middles are the
        coordinate: ``observed`` share of the items, ``replicated`` (mean), ``low``, ``high``,
        ``p_value`` and ``unusual``. Attributes: ``observed`` and ``replicated``, the standard
        deviation of the agreement over items and the mean of its replications; ``p_value``, where
        the former stands among the latter (two-sided); ``verdict``.

    Raises
    ------
    ModelError
        A result of another model; no item with two responses.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> bf.checks.item_difficulty(result, model, random_seed=1).attrs["p_value"] > 0.05
    True
    """
    observation = written_out(model)
    edges = np.linspace(0, 1, BINS + 1)
    seen = _agreement(observation.responses)
    if len(seen) == 0:
        raise ModelError(
            "Raters can only disagree on items that two of them answered. Got: none such."
        )
    rng = np.random.default_rng(random_seed)
    counts, spreads = [], []
    for each in replicate(result, model, observation, draws, rng):
        agreement = _agreement(each)
        counts.append(np.histogram(agreement, edges)[0])
        spreads.append(agreement.std())
    found = compare(
        np.histogram(seen, edges)[0].astype(float),
        np.array(counts, dtype=float),
        {"agreement": (edges[1:] + edges[:-1]) / 2},
        "agreement",
        total=np.full(BINS, float(len(seen))),
        ci_prob=ci_prob,
    )
    own, others = float(seen.std()), np.array(spreads)
    p_value = place_among(own, others)
    found.attrs = {
        "observed": own,
        "replicated": float(others.mean()),
        "p_value": p_value,
        "verdict": _in_words(own, float(others.mean()), p_value),
    }
    return found


def _in_words(own: float, expected: float, p_value: float) -> str:
    said = f"The agreement of raters varies over items by {own:.3f} (expected {expected:.3f}): "
    if p_value > 0.05:
        return said + "nothing against the model."
    if own > expected:
        return said + "some items are harder than others of their class, or raters share sources."
    return said + "items are more alike than the model expects."


def _agreement(responses: Responses) -> Array:
    """Return the share of agreeing pairs of responses, for items with two or more."""
    votes = responses.votes()
    size = votes.sum(axis=1)
    compared = size >= 2
    same = (votes * (votes - 1)).sum(axis=1)[compared]
    share: Array = same / (size * (size - 1))[compared]
    return share
