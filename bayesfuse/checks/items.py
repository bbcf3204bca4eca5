"""Whether items differ in more than their class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.checks.replicates import (
    DRAWS,
    LEVEL,
    compare,
    place_among,
    replicate,
    verdict,
    written_out,
)
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array

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
        the former stands among the latter (two-sided); ``mean_observed``, ``mean_replicated`` and
        ``mean_p_value``, the same of the mean agreement; ``verdict``.

    Raises
    ------
    ModelError
        A result of another model; no item with two responses.

    Notes
    -----
    Raters with few responses per class have confusion matrices near their prior, and where that is
    flatter than they are, replicated raters agree too little on the whole. The spread over items
    then differs, too, for this reason alone, so the verdict says it first.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import DawidSkene
    >>> model = DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=100, random_seed=1, progressbar=False, quiet=True)
    >>> bf.checks.item_difficulty(result, model, random_seed=1).attrs["p_value"] > 0.05
    True
    """
    observation = written_out(model, result)
    edges = np.linspace(0, 1, BINS + 1)

    def by_agreement(responses: Responses) -> Array:
        """Return the items by bin, then the standard deviation and the mean of all."""
        agreement = _agreement(responses)
        return np.append(np.histogram(agreement, edges)[0], [agreement.std(), agreement.mean()])

    n_items = len(_agreement(observation.responses))
    if n_items == 0:
        raise ModelError(
            "Raters can only disagree on items that two of them answered. Got: none such."
        )
    seen, others = replicate(by_agreement, result, model, observation, draws, random_seed)
    found = compare(
        seen[:BINS],
        others[:, :BINS],
        {"agreement": (edges[1:] + edges[:-1]) / 2},
        "agreement",
        total=np.full(BINS, float(n_items)),
        ci_prob=ci_prob,
    )
    spread, mean = (place_among(seen[at], others[:, at]) for at in (-2, -1))
    of_mean = {f"mean_{name}": value for name, value in mean.items()}
    found.attrs = {**spread, **of_mean, "verdict": _in_words(spread, mean)}
    return found


def _in_words(spread: dict[str, float], mean: dict[str, float]) -> str:
    said = (
        f"The agreement of raters varies over items by {spread['observed']:.3f} (expected "
        f"{spread['replicated']:.3f})"
    )
    if mean["p_value"] <= LEVEL:
        more = "more" if mean["observed"] > mean["replicated"] else "less"
        said = (
            f"Averaged over the items, raters agree {more} than the model expects "
            f"({mean['observed']:.3f}, expected {mean['replicated']:.3f}); with few responses per "
            f"rater and class the prior of the raters may weigh too much. {said}"
        )
    return verdict(
        said,
        spread,
        more="some items are harder than others of their class, or raters share sources; labels "
        "that look certain are less so",
        less="items are more alike than the model expects",
    )


def _agreement(responses: Responses) -> Array:
    """Return the share of agreeing pairs of responses, for items with two or more."""
    votes = responses.votes()
    size = votes.sum(axis=1)
    compared = size >= 2
    same = (votes * (votes - 1)).sum(axis=1)[compared]
    share: Array = same / (size * (size - 1))[compared]
    return share
