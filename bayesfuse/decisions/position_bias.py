"""Whether judges prefer what they are shown first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.errors import ModelError, brief, require_count, require_seed
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import constants, require_rows
from bayesfuse.results.summaries import tails

ONE_MORE = np.array([[0, 1], [0, 1], [0.5, 0], [-0.5, 0]])
"""Bias and consistency of an item of unknown verdicts, a quarter each.

A few items that are alike do not make others certain.
"""


def position_bias(
    result: xr.DataTree,
    pairs_of_raters: Any,
    *,
    shown: tuple[Any, Any] | None = None,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> pd.DataFrame:
    """Return how much judges prefer the first of two outputs, from asking them in both orders.

    A judge asked in both orders is two raters, whose verdicts name the same outputs ("A" or "B",
    turned back for the swapped order). Without bias, both prefer what is shown first equally often.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse``, ``bf.sample`` or ``bf.fit``, with joint draws of the labels.
    pairs_of_raters : sequence of (given, swapped)
        Names of the two raters of every judge: asked in the given order, and in the swapped one.
    shown : (first, second), optional
        Classes of the outputs shown first and second in the given order. Default the two classes;
        needed if there are more. All other classes, such as ties, count as half of each.
    draws : int, default 1000
        Number of draws of the Bayesian bootstrap over items.
    ci_prob : float, optional
        Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    DataFrame
        By judge: ``given``, ``swapped``, ``items`` (answered in both orders), ``bias`` (share of
        responses for the output shown first, minus .5), ``low``, ``high``, ``consistency`` (share
        of items with the same verdict in both orders), ``consistency_low``, ``consistency_high``,
        and the accuracy where the right output is shown first and second (``right_first``,
        ``right_second``; posterior means).

    Raises
    ------
    ModelError
        Not pairs of raters of the result; no common items; ``shown`` is not two classes; as
        :func:`bayesfuse.draw_labels` without a model.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> verdicts = [["A", "A"], ["A", "B"], ["A", "B"], ["B", "B"]] * 5
    >>> judges = ["in order", "swapped"]
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(verdicts, raters=judges))
    >>> result = bf.sample(model, 50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.position_bias(result, [judges], random_seed=1)
    >>> found[["items", "bias", "consistency"]].values.tolist()
    [[20.0, 0.25, 0.5]]
    """
    require_count("draws", draws)
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, seen = joint_labels.stored(result), require_rows(result, "The bias of a position")
    first, second = _shown(result, shown)
    rows = []
    for one, other in _pairs(result, pairs_of_raters):
        item, rater, label = seen
        sides = [
            pd.DataFrame({"item": item[rater == at], "label": label[rater == at]})
            for at in (one, other)
        ]
        both = sides[0].merge(sides[1], on="item", suffixes=("", "_swapped"))
        names = constants(result)["rater"].values[[one, other]].tolist()
        if both.empty:
            raise ModelError(
                "Both raters of a judge must have answered the same items. Got: none in common for "
                f"{names}."
            )
        given, swapped = both["label"].to_numpy(), both["label_swapped"].to_numpy()
        half = 0.5 * ((given != first) & (given != second))
        prefers = (given == first) + half
        half = 0.5 * ((swapped != first) & (swapped != second))
        prefers = (prefers + (swapped == second) + half) / 2
        table = np.stack([prefers - 0.5, given == swapped], axis=1)
        table = pd.DataFrame(table).groupby(both["item"].to_numpy()).mean().to_numpy()
        kinds, place = np.unique(np.concatenate([table, ONE_MORE]), axis=0, return_inverse=True)
        number = np.bincount(place.ravel(), np.append(np.ones(len(table)), [0.25] * 4))
        drawn = rng.dirichlet(number, draws) @ kinds  # alike items share their bootstrap weights
        ends = np.quantile(drawn, level, axis=0)
        truth = labels[:, both["item"]]
        right = np.stack([truth == given, truth == swapped])
        early = np.stack([truth == first, truth == second])  # the right output is shown first
        late = early[::-1]
        values = [
            *names,
            len(table),
            table[:, 0].mean(),
            *ends[:, 0],
            table[:, 1].mean(),
            *ends[:, 1],
        ]
        for place in (early, late):
            values.append((right & place).sum() / place.sum() if place.any() else np.nan)
        rows.append(values)
    columns = ["given", "swapped", "items", "bias", "low", "high", "consistency"]
    columns += ["consistency_low", "consistency_high", "right_first", "right_second"]
    return pd.DataFrame(rows, columns=columns)


def _shown(result: xr.DataTree, shown: Any) -> NDArray[np.int64]:
    """Return the codes of the classes that are shown first and second."""
    classes = result["label_posterior"].dataset["class"].values
    if shown is None:
        shown = classes.tolist()
    code = places(as_array(list(shown)), classes) if np.ndim(shown) == 1 else np.array([])
    if len(code) != 2 or code.min() < 0 or code[0] == code[1]:
        raise ModelError(
            "shown= must be the classes of the outputs shown first and second, two of "
            f"{classes.tolist()}. Got: {brief(shown)}."
        )
    return code


def _pairs(result: xr.DataTree, given: Any) -> NDArray[np.int64]:
    """Return the codes of pairs of raters (pairs, 2)."""
    names = constants(result)["rater"].values
    pairs = np.asarray(given, dtype=object)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ModelError(
            "pairs_of_raters must be pairs of names of raters, such as [(given, swapped)]. Got: "
            f"{brief(given)}."
        )
    code = places(as_array(pairs.ravel().tolist()), names)
    if code.min() < 0:
        raise ModelError(
            f"pairs_of_raters must be raters of the result. Got: {pairs.ravel()[code.argmin()]!r}."
        )
    if len(set(code.tolist())) < len(code):
        raise ModelError(
            "A rater is one judge asked in one order, so it is in one pair. Got: a rater in two "
            f"places of {brief(given)}."
        )
    return code.reshape(-1, 2)
