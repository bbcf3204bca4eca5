"""Check whether items of a class differ in difficulty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.checks.advice import ITEM_TYPES, has_types, model_of_hard_items
from bayesfuse.checks.replicates import (
    DRAWS,
    LEVEL,
    compare,
    expanded,
    place_among,
    replicate,
    verdict,
)
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation
from bayesfuse.results.compatibility import observation_of

BINS = 10
"""Bins of the agreement of an item's raters."""


def item_difficulty(
    result: xr.DataTree,
    model: pm.Model,
    *,
    draws: int = DRAWS,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    """Check how much agreement varies over items, against replicated data.

    If some items are harder than others of their class, agreement varies more over items than
    confusion matrices alone can explain. :class:`bayesfuse.models.ItemTypes` models this.

    Parameters
    ----------
    result, model, draws, ci_prob, random_seed
        As in :func:`bayesfuse.checks.pairwise_agreement`.

    Returns
    -------
    Dataset, dims (agreement,)
        Items by the share of their pairs of responses that agree, in bins with their midpoints as
        coordinate: ``observed`` share of the items, ``replicated`` (mean), ``low``, ``high``,
        ``p_value`` and ``unusual``. Attributes: ``observed`` and ``replicated``, the standard
        deviation of the agreement over items and the mean of its replications; ``p_value`` of the
        former among the latter (two-sided); ``mean_observed``, ``mean_replicated`` and
        ``mean_p_value``, the same for the mean agreement; ``verdict``.

    Raises
    ------
    ModelError
        A result of another model; no item with two responses.

    Notes
    -----
    With few responses per rater and class, confusion matrices stay near their prior. If the prior
    is flatter than the raters, replicated raters agree too little, which also changes the standard
    deviation, so the verdict starts with the mean.

    On crowds with known truth, p-values under ``DawidSkene`` were 0.03 (bluebird) and 0.01 (rte,
    face, weather_amt: the smallest that 200 replications can give), under ``ItemTypes`` 0.27, 0.75,
    0.48 and 0.20.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> bf.checks.item_difficulty(result, model, random_seed=1).attrs["p_value"] > 0.05
    True
    """
    observation = expanded(observation_of(result, model))
    edges = np.linspace(0, 1, BINS + 1)

    def by_agreement(responses: Responses) -> Array:
        """Return the items by bin, then the standard deviation and the mean of their agreement."""
        agreement = _agreement(responses)
        return np.append(np.histogram(agreement, edges)[0], [agreement.std(), agreement.mean()])

    n_items = len(_agreement(observation.responses))
    if n_items == 0:
        raise ModelError("Agreement needs items with two or more responses. Got: no such item.")
    seen, others = replicate(by_agreement, result, model, observation, draws, random_seed)
    found = compare(
        seen[:BINS],
        others[:, :BINS],
        {"agreement": (edges[1:] + edges[:-1]) / 2},
        "agreement",
        total=np.full(BINS, float(n_items)),
        ci_prob=ci_prob,
    )
    deviation, mean = (place_among(seen[at], others[:, at]) for at in (-2, -1))
    of_mean = {f"mean_{name}": value for name, value in mean.items()}
    found.attrs = {**deviation, **of_mean, "verdict": _in_words(deviation, mean, observation)}
    return found


def _in_words(deviation: dict[str, float], mean: dict[str, float], observation: Observation) -> str:
    said = (
        f"The agreement of raters has standard deviation {deviation['observed']:.3f} over items "
        f"(expected {deviation['replicated']:.3f})"
    )
    if mean["p_value"] <= LEVEL:
        more = "more" if mean["observed"] > mean["replicated"] else "less"
        learnt = "" if has_types(observation) else f" ({ITEM_TYPES} learns it)"
        said = (
            f"On average, raters agree {more} than the model expects ({mean['observed']:.3f}, "
            f"expected {mean['replicated']:.3f}); with few responses per rater and class the prior "
            f"of the raters may be too strong{learnt}. {said}"
        )
    return verdict(
        said,
        deviation,
        more="some items are harder than others of their class, or raters share sources, so label "
        f"probabilities are overconfident. Try {model_of_hard_items(observation)}",
        less="agreement varies less than the model expects",
    )


def _agreement(responses: Responses) -> Array:
    """Return the share of agreeing pairs of responses, for items with two or more."""
    votes = responses.without_statements().votes()
    size = votes.sum(axis=1)
    compared = size >= 2
    same = (votes * (votes - 1)).sum(axis=1)[compared]
    share: Array = same / (size * (size - 1))[compared]
    return share
