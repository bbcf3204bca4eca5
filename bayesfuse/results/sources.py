"""What sources that mostly abstain say, and how often they are right: one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.pymc.model import LabelModel
from bayesfuse.raters.votes import Votes
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.summaries import interval, posterior_draws

SEED = 1
"""Of the draws that widen intervals: a table is the same each time."""


def sources(
    given: Responses | LabelModel,
    result: xr.DataTree | None = None,
    *,
    ci_prob: float | None = None,
) -> pd.DataFrame:
    r"""Return coverage and conflicts of every source and, given a result, its accuracy.

    Parameters
    ----------
    given : Responses, or bayesfuse.models.LabellingFunctions
    result : DataTree, optional
        From :func:`bayesfuse.sample` or :func:`bayesfuse.find_map` of this model.
    ci_prob : float, optional
        Probability of the credible intervals, by default ArviZ's setting.

    Returns
    -------
    DataFrame
        A row for every source and label that it gives. ``coverage`` is the share of the items with
        this vote, ``overlaps`` of those with a vote of another source, too, and ``conflicts`` of
        those with another vote for a different label. With a result also ``accuracy``, how often
        the vote is right, ``hit_rate`` and ``false_alarm_rate``, the share of items of its class
        and of other items with the vote; ``…_lower`` and ``…_upper`` are credible intervals.

    Raises
    ------
    ModelError
        A result without its model, of another one, or of a model that does not count votes.

    Notes
    -----
    Near copies have one accuracy. If the votes are dispersed by a factor φ, n votes are worth
    :math:`n / (1 + (\varphi - 1)\, n / s)` of independent sources, with s the weight of the prior
    and the votes on items of known class, which determines the width of the intervals.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    >>> bf.sources(votes).reset_index()
       source  label  coverage  overlaps  conflicts
    0       0      1       0.5      0.50       0.25
    1       1      1       0.5      0.25       0.00
    2       2      0       0.5      0.25       0.25
    """
    model = given if isinstance(given, LabelModel) else None
    responses = given.responses if isinstance(given, LabelModel) else given
    require_kind("given", responses, Responses)
    cells, said = _said(responses)
    if result is None:
        return said
    observation = None if model is None else observation_of(result, model)
    votes = None if observation is None else observation.raters
    weight = getattr(model, "weight", None)
    if observation is None or not isinstance(votes, Votes) or weight is None:
        raise ModelError(
            "Accuracies of votes follow from a model of labelling functions and its result: "
            f"bf.sources(model, result). Got: {type(given).__name__}."
        )
    doubt = float(result.attrs.get("dispersion", 1.0)) - 1.0
    vote = votes.column.ravel()[cells]
    known = float(weight) + votes.by_class(responses, observation.gold).sum(axis=1)
    for name, rate in _rates(votes, responses, result, doubt, known).items():
        said[name] = rate.mean(("chain", "draw")).values[vote]
        for end, bound in zip(("lower", "upper"), interval(rate, ci_prob), strict=True):
            said[f"{name}_{end}"] = bound.values[vote]
    return said


def _said(responses: Responses) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Return the cells that occur, source and label, and how much they say and meet."""
    n_raters, n_classes, n_items = responses.n_raters, responses.n_classes, responses.n_items
    size = n_raters * n_classes
    key = np.unique(responses.item * size + responses.cell)  # repeated votes count once
    item, cell = np.divmod(key, size)
    label, weight = cell % n_classes, responses.multiplicity[item].astype(float)
    of_label = np.bincount(item * n_classes + label, minlength=n_items * n_classes)
    votes = np.bincount(item, minlength=n_items)
    _, speaks, labels_said = np.unique(
        item * n_raters + cell // n_classes, return_inverse=True, return_counts=True
    )
    speakers = np.bincount(np.unique(item * n_raters + cell // n_classes) // n_raters)[item]
    # of all votes, leave out those for this label and the source's own for others
    other = votes[item] - of_label[item * n_classes + label] - (labels_said[speaks] - 1)
    cells = np.flatnonzero(np.bincount(cell, minlength=size))
    total = responses.multiplicity.sum()
    table = {
        name: np.bincount(cell, weight * chosen, size)[cells] / total
        for name, chosen in (
            ("coverage", np.ones(len(cell))),
            ("overlaps", speakers > 1),
            ("conflicts", other > 0),
        )
    }
    index = pd.MultiIndex.from_arrays(
        [responses.raters[cells // n_classes], responses.classes[cells % n_classes]],
        names=["source", "label"],
    )
    return cells, pd.DataFrame(table, index=index)


def _rates(
    votes: Votes, responses: Responses, result: xr.DataTree, doubt: float, weight: Array
) -> dict[str, xr.DataArray]:
    """Return how often votes are right, and how often they are given in their class and others."""
    share = posterior_draws(result, "vote_share")["vote_share"]
    constants = result["constant_data"].dataset if "constant_data" in result.children else {}
    known = "prevalence" in constants
    prevalence = (constants if known else posterior_draws(result, "prevalence"))["prevalence"]
    number = votes.numbers(responses)
    own = xr.DataArray(np.eye(responses.n_classes)[votes.label_of], dims=("vote", "class"))
    joint = prevalence * share
    accuracy = (joint * own).sum("class") / joint.sum("class")
    accuracy = accuracy.transpose("chain", "draw", "vote")
    if doubt > 0:
        worth = weight + number / (1.0 + doubt * number / weight)  # independent votes
        mean = np.clip(accuracy.values, 1e-6, 1.0 - 1e-6)
        drawn = np.random.default_rng(SEED).beta(worth * mean, worth * (1.0 - mean))
        accuracy = accuracy.copy(data=drawn)
    in_class = (prevalence * own).sum("class")
    coverage = xr.DataArray(number / responses.multiplicity.sum(), dims="vote")
    rates = {
        "accuracy": accuracy,
        "hit_rate": coverage * accuracy / in_class,
        "false_alarm_rate": coverage * (1.0 - accuracy) / (1.0 - in_class),
    }
    return {
        name: rate.clip(0.0, 1.0).transpose("chain", "draw", "vote") for name, rate in rates.items()
    }
