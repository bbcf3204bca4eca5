"""What more known labels would buy: fewer wrong labels, and narrower intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.decisions.next_items import require_plain
from bayesfuse.errors import ModelError, brief, require_count, require_positive, require_seed
from bayesfuse.results.class_shares import ALL
from bayesfuse.results.contents import constants, joint_labels, known_classes, require_rows
from bayesfuse.results.joint_labels import SAMPLES, independent
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

ENOUGH = 10  # known labels whose errors say how wrong predictions are; else they say it themselves


def errors_after(
    result: xr.DataTree,
    sizes: Iterable[int] = (10, 20, 50, 100),
    *,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> pd.DataFrame:
    """Return how many labels are expected to be wrong after more are found out.

    Parameters
    ----------
    result : DataTree
        With label probabilities, such as that of ``bf.fuse``.
    sizes : sequence of int, default (10, 20, 50, 100)
        Numbers of additional known labels; at most all unknown ones.
    ci_prob : float, optional
        Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    DataFrame
        ``aim`` ("learn": random items, "correct": the least certain ones, as in
        :func:`next_items`), ``labels`` (0 first), and the expected number of ``wrong`` labels of
        all items with its interval ``low`` to ``high``, from joint draws of the labels.

    Raises
    ------
    ModelError
        No label probabilities; sizes that are not whole numbers; tables of counts.

    Notes
    -----
    Only the labels themselves are corrected here. What is learnt from them of raters corrects
    others, too, most of all with few known labels: the curve is an upper bound of what to expect.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(100, 3, 2, random_seed=1)
    >>> result = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> found = bf.decisions.errors_after(result, [10], random_seed=1)
    >>> found[["aim", "labels"]].values.tolist()
    [['learn', 0], ['learn', 10], ['correct', 0], ['correct', 10]]
    >>> bool(found["wrong"][3] < found["wrong"][1] < found["wrong"][0])
    True
    """
    rng, level = require_seed(random_seed), tails(ci_prob)
    if not np.iterable(sizes) or not (more := list(sizes)):
        raise ModelError(f"sizes must be whole numbers, as in [10, 50]. Got: {brief(sizes)}.")
    numbers = [0, *more]
    for each in numbers[1:]:
        require_count("sizes", each)
    labels = label_probabilities(result).transpose("item", "class")
    require_plain(result)
    probability = labels.values
    error = 1.0 - probability.max(axis=1)
    unknown = np.flatnonzero(known_classes(result, len(error)) < 0)
    numbers = [min(each, len(unknown)) for each in numbers]
    drawn = joint_labels(result)
    drawn = independent(labels, SAMPLES, rng) if drawn is None else drawn
    wrong = drawn != probability.argmax(axis=1)
    order = unknown[np.argsort(-error[unknown], kind="stable")]
    total = wrong.sum(axis=1)
    rows = []
    for number in numbers:
        open_ = len(unknown) - number
        left = rng.hypergeometric(total, len(unknown) - total, open_) if open_ else 0 * total
        rows.append(["learn", number, error.sum() * open_ / max(len(unknown), 1), left])
    for number in numbers:
        left = total - wrong[:, order[:number]].sum(axis=1)
        rows.append(["correct", number, error[order[number:]].sum(), left])
    ends = [np.quantile(left, level, method="inverted_cdf") for *_, left in rows]
    table = [[*row[:3], *end] for row, end in zip(rows, ends, strict=True)]
    found = pd.DataFrame(table, columns=["aim", "labels", "wrong", "low", "high"])
    return found.astype({"low": float, "high": float})


def labels_needed(
    result: xr.DataTree,
    width: float,
    of: Literal["shares", "raters"] = "shares",
    *,
    by: Any = None,
    ci_prob: float | None = None,
) -> pd.DataFrame:
    r"""Return how many known labels, of random items, an interval of a wanted width takes.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse`` or ``WeightedVotes``, best with known labels.
    width : float
        Wanted width (upper minus lower end) of the interval, above 0.
    of : {"shares", "raters"}
        Shares of the classes among these items, or accuracies of the raters on theirs.
    by : mapping, Series or array, optional
        Group of every item, of which shares are wanted.
    ci_prob : float, optional
        Probability of the interval. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        By ``group`` and ``class``, or by ``rater``: ``items``, ``known``, ``needed``, the number of
        known items (of a group; for a rater, of those that the rater answered) that gives this
        width, and ``more``, how many of all items to label at random to have as many.

    Raises
    ------
    ModelError
        A width that is not positive; a result without label probabilities; tables of counts.

    Notes
    -----
    Of n known among N items, the difference estimator of :func:`bayesfuse.class_shares`
    (``method="ppi"``) has the width :math:`2 z s \sqrt{(1 - n / N) / n}`, where s is the standard
    deviation of the differences between truth and predictions. Here it is that of known items left
    out, if there are ten, else what the label probabilities expect. Posterior intervals are mostly
    narrower, and more known labels improve predictions, so that fewer may do.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(400, 5, 2, random_seed=1)
    >>> result = bf.find_map(bf.models.DawidSkene(made.responses))
    >>> found = bf.decisions.labels_needed(result, 0.1)
    >>> found.columns.tolist()
    ['group', 'class', 'items', 'known', 'needed', 'more']
    >>> bool((found["needed"] < 400).all())
    True
    """
    from scipy.stats import norm

    width = require_positive("width", width)
    if of not in ("shares", "raters"):
        raise ModelError(f"of must be 'shares' or 'raters'. Got: {of!r}.")
    labels = label_probabilities(result).transpose("item", "class")
    require_plain(result)
    low, high = tails(ci_prob)
    wanted = (width / (norm.ppf(high) - norm.ppf(low))) ** 2  # variance
    probability, classes = labels.values, labels["class"].values
    gold = known_classes(result, len(probability))
    posterior = result["label_posterior"].dataset
    honest = posterior["left_out"].values if "left_out" in posterior else None

    def needed(variance: NDArray[Any], size: NDArray[Any]) -> NDArray[np.int64]:
        number = variance / (wanted + variance / np.maximum(size, 1))
        return np.ceil(number - 1e-9).astype(np.int64)

    def more(needed: NDArray[Any], known: NDArray[Any], size: NDArray[Any]) -> NDArray[np.int64]:
        short = np.maximum(needed - known, 0) / np.maximum(size - known, 1)
        return np.ceil(short * (gold < 0).sum() - 1e-9).astype(np.int64)

    if of == "shares":
        names, code = np.array([ALL], dtype=object), np.zeros(len(gold), dtype=np.int64)
        if by is not None:
            names, code = read_populations(labels["item"].values, by, what="by=", group="group")
        size = np.bincount(code)
        known = np.bincount(code[gold >= 0], minlength=len(names))
        variance = _by_share(probability, gold, honest, code, len(names))
        number = needed(variance, size[:, None])
        asked = more(number, known[:, None], size[:, None])
        head = pd.MultiIndex.from_product([names.tolist(), classes], names=["group", "class"])
        table = head.to_frame(index=False)
        table["items"], table["known"] = (np.repeat(each, len(classes)) for each in (size, known))
        return table.assign(needed=number.ravel(), more=asked.ravel())
    item, rater, label = require_rows(result, "The accuracy of raters")
    raters = constants(result)["rater"].values
    size = np.bincount(rater, minlength=len(raters))
    seen = gold[item] >= 0
    known = np.bincount(rater[seen], minlength=len(raters))
    said = probability[item, label]
    expected = np.bincount(rater, said * (1.0 - said), len(raters)) / np.maximum(size, 1)
    if honest is not None and (gold >= 0).sum() >= ENOUGH:
        left = (gold[item] == label)[seen] - honest[item[seen], label[seen]]
        total = np.bincount(rater[seen], left**2, len(raters))
        # the variance of a rater, as if that of all had been seen ten times more
        common = total.sum() / max(seen.sum(), 1)
        expected = (total + ENOUGH * common) / (known + ENOUGH)
    number = needed(expected, size)
    table = pd.DataFrame({"rater": raters, "items": size, "known": known, "needed": number})
    return table.assign(more=more(number, known, size))


def _by_share(
    probability: NDArray[Any],
    gold: NDArray[np.int64],
    honest: NDArray[Any] | None,
    code: NDArray[np.int64],
    n_groups: int,
) -> NDArray[Any]:
    """Return the variance of differences between truth and predictions (groups, classes)."""
    n_classes = probability.shape[1]
    seen = np.zeros(len(gold), dtype=bool) if honest is None else np.isfinite(honest[:, 0])
    if honest is not None and seen.sum() >= ENOUGH:
        left = (np.eye(n_classes)[gold[seen]] - honest[seen]) ** 2
        common, of = left.mean(axis=0), code[seen]
        total = np.stack([np.bincount(of, row, n_groups) for row in left.T], axis=1)
        number = np.bincount(of, minlength=n_groups)[:, None]
        found: NDArray[Any] = (total + ENOUGH * common) / (number + ENOUGH)
        return found
    spread, size = probability * (1.0 - probability), np.bincount(code)[:, None]
    found = np.stack([np.bincount(code, row, n_groups) for row in spread.T], axis=1) / size
    return found
