"""The position bias of judges: verdicts that depend on which output is shown first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, shown as in_short
from bayesfuse.data.names import places
from bayesfuse.errors import ModelError, brief, require_count, require_seed
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import constants, require_rows
from bayesfuse.results.summaries import tails

# (bias, consistency) of one pseudo-item, a quarter each: a few equal items do not imply certainty
ONE_MORE = np.array([[0, 1], [0, 1], [0.5, 0], [-0.5, 0]])


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
    result : DataTree with joint draws of the labels, from ``bf.fuse``, ``bf.sample`` or ``bf.fit``
    pairs_of_raters : sequence of (given, swapped), the names of the two raters of every judge
    shown : (first, second), optional
        Classes of the outputs shown first and second in the given order, needed if there are more
        than two. All other classes, such as ties, count as half of each.
    draws : int, default 1000: number of draws of the Bayesian bootstrap over items
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    DataFrame
        By judge: ``given``, ``swapped``, ``items`` (answered in both orders), ``bias`` (share of
        responses for the output shown first, minus .5), ``low``, ``high``, ``consistency`` (share
        of items with the same verdict in both orders), ``consistency_low``, ``consistency_high``,
        and the accuracy where the right output is shown first and second (``right_first``,
        ``right_second``).

    Examples
    --------
    >>> import bayesfuse as bf
    >>> verdicts = [["A", "A"], ["A", "B"], ["A", "B"], ["B", "B"]] * 5
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(verdicts, raters=["one", "two"]))
    >>> result = bf.sample(model, 50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> table = bf.decisions.position_bias(result, [("one", "two")], random_seed=1)
    >>> table[["items", "bias", "consistency"]].values.tolist()
    [[20.0, 0.25, 0.5]]
    """
    require_count("draws", draws)
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, triples = joint_labels.stored(result), require_rows(result, "The bias of a position")
    first, second = codes_of_shown(shown, result["label_posterior"].dataset["class"].values)
    frame = pd.DataFrame(dict(zip(("item", "rater", "label"), triples, strict=True)))
    preference = np.full(result["label_posterior"].sizes["class"], 0.5)
    preference[[first, second]] = 1.0, 0.0
    rows = []
    for pair in _pairs(result, pairs_of_raters):
        sides = (frame[frame["rater"] == rater] for rater in pair)
        both = next(sides).merge(next(sides), on="item", suffixes=("", "_swapped"))
        names = constants(result)["rater"].values[pair].tolist()
        if both.empty:
            raise ModelError(
                "Both raters of a judge must have answered the same items. Got: none in common for "
                f"{names}."
            )
        original, swapped = both["label"].to_numpy(), both["label_swapped"].to_numpy()
        bias = (preference[original] - preference[swapped]) / 2
        table = np.stack([bias, original == swapped], axis=1)
        table = pd.DataFrame(table).groupby(both["item"].to_numpy()).mean().to_numpy()
        kinds, place = np.unique(np.concatenate([table, ONE_MORE]), axis=0, return_inverse=True)
        number = np.bincount(place.ravel(), np.append(np.ones(len(table)), [0.25] * 4))
        drawn = rng.dirichlet(number, draws) @ kinds  # alike items share their bootstrap weights
        ends = np.quantile(drawn, level, axis=0)
        truth = labels[:, both["item"]]
        right = np.stack([truth == original, truth == swapped])
        early = np.stack([truth == first, truth == second])  # the right output is shown first
        accuracy = [right[at].mean() if at.any() else np.nan for at in (early, early[::-1])]
        values = np.column_stack([table.mean(axis=0), ends.T])  # (measures, mean and ends)
        rows.append([*names, len(table), *values.ravel(), *accuracy])
    columns = ["given", "swapped", "items", "bias", "low", "high", "consistency"]
    columns += ["consistency_low", "consistency_high", "right_first", "right_second"]
    return pd.DataFrame(rows, columns=columns)


def codes_of_shown(shown: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the codes of the classes of the outputs that are shown first and second."""
    if shown is None:
        is_usual = {"A", "B"} <= {*classes.tolist()}
        shown = ["A", "B"] if is_usual else classes.tolist()
        if len(shown) != 2:
            raise ModelError(
                "shown=(…, …) names the classes of the outputs shown first and second, because "
                f"they are not A and B. Got: none, and the classes {brief(shown)}."
            )
    code = places(as_array(list(shown)), classes) if np.ndim(shown) == 1 else np.array([])
    if len(code) != 2 or code.min() < 0 or code[0] == code[1]:
        raise ModelError(
            "shown= must be the classes of the outputs shown first and second, two of "
            f"{classes.tolist()}. Got: {brief(shown)}."
        )
    return code


def _pairs(result: xr.DataTree, names_of_pairs: Any) -> NDArray[np.int64]:
    """Return the codes of pairs of raters (pairs, 2)."""
    names = constants(result)["rater"].values
    pairs = np.asarray(names_of_pairs, dtype=object)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise ModelError(
            "pairs_of_raters must be pairs of names of raters, such as [(given, swapped)]. Got: "
            f"{brief(names_of_pairs)}."
        )
    code = places(as_array(pairs.ravel().tolist()), names)
    if code.min() < 0:
        raise ModelError(
            f"pairs_of_raters must be raters of the result ({in_short(names)}). Got: "
            f"{pairs.ravel()[code.argmin()]!r}."
        )
    code = code.reshape(-1, 2)
    if (is_same := code[:, 0] == code[:, 1]).any():
        raise ModelError(
            "A judge asked in both orders is two raters, one for each order. Got: "
            f"{pairs[is_same.argmax(), 0]!r} for both."
        )
    return code
