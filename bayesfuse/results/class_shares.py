"""Shares of the classes among items, by group, and differences between groups."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, refuse
from bayesfuse.data.describing import as_columns, in_one_line
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import places
from bayesfuse.errors import ModelError, require_flag, require_names, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import known_classes, observed_rows
from bayesfuse.results.group_shares import by_differences, in_groups
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails

ALL = "all items"  # name of the group of all items
MOST_CONTRASTS = 60  # that are printed

OF_GROUPS = ["group", "class", "items", "known", "votes", "share", "low", "high"]
OF_GROUPS += ["new_low", "new_high"]

OF_CONTRASTS = ["first", "second", "class", "pairs", "difference", "low", "high", "better"]
OF_CONTRASTS += ["new_low", "new_high", "new_better", "ratio", "ratio_low", "ratio_high"]


class ClassShares(NamedTuple):
    """Tables of :func:`class_shares`: shares by group and class, and contrasts of two groups.

    Printed without some of their columns, without more than 60 contrasts, and of two classes
    without the first, whose shares are one minus those of the second.
    """

    shares: pd.DataFrame
    contrasts: pd.DataFrame

    def __repr__(self) -> str:
        rows, classes = [], self.shares["class"].unique()
        shown = classes[1:] if len(classes) == 2 else classes
        for row in self.shares[self.shares["class"].isin(shown)].to_dict("records"):
            said = [in_one_line(row[key]) for key in ("group", "class")]
            said += [f"{row[key]:,}" for key in ("items", "known")]
            said += [f"{row['votes']:.2f}", "{share:.2f} ({low:.2f}–{high:.2f})".format(**row)]
            rows.append([*said, "{new_low:.2f}–{new_high:.2f}".format(**row)])
        header = ["group", "class", "items", "known", "votes", "share", "new items"]
        text = as_columns(header, rows)
        contrasts, rows = self.contrasts[self.contrasts["class"].isin(shown)], []
        if not 0 < len(contrasts) <= MOST_CONTRASTS:
            return text
        for row in contrasts.to_dict("records"):
            names = [in_one_line(row[key]) for key in ("first", "second", "class")]
            said = [" − ".join(names[:2]), names[2]]
            said.append("{difference:+.2f} ({low:+.2f} to {high:+.2f})".format(**row))
            new = "{new_low:+.2f} to {new_high:+.2f}".format(**row)
            rows.append([*said, f"{row['better']:.2f}", new])
        header = ["difference", "class", "these items", "probability above 0", "new items"]
        return f"{text}\n\n{as_columns(header, rows)}"


def class_shares(
    result: xr.DataTree,
    by: Any = None,
    pairs: Any = None,
    contrasts: bool = True,
    *,
    method: Literal["posterior", "ppi"] = "posterior",
    chosen: Iterable[Any] = (),
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> ClassShares:
    """Return the share of items in each class, by group, and differences between groups.

    Shares are of the posterior true labels, with known labels fixed; those of votes are wrong where
    raters are, as the errors of one class do not cancel those of the other.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse``, ``bf.sample``, ``bf.fit`` or ``bf.average``, with joint draws of the
        labels.
    by, pairs : mapping, Series or array, optional
        Group of every item (system, category, period), by item or in the order of the items; and
        its question, for groups that answered the same ones. Contrasts are then within the
        questions that both groups have.
    contrasts : bool, default True
        Whether every two groups are compared.
    method : {"posterior", "ppi"}
        "posterior" counts over joint draws of the labels. "ppi" is prediction-powered inference
        [4]_ with label probabilities as the predictor: unbiased whatever the models are, if known
        items were chosen at random, with wider intervals.
    chosen : iterable of item names, optional
        Known items that were not chosen at random (such as the least certain ones), which are not
        taken as typical of the others.
    ci_prob : float, optional
        Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    shares : DataFrame
        A row for every group (first ``"all items"``) and class: ``items``, ``known`` (items of
        known class), ``votes`` (mean over items of the share of their votes, NaN without votes),
        ``share`` (posterior mean), its interval ``low`` to ``high`` for these items, and
        ``new_low`` to ``new_high`` for new items (or questions) like these.
    contrasts : DataFrame
        A row for every two groups and class: ``pairs`` (questions in common, 0 if not paired),
        ``difference`` of the shares (first minus second) with its interval and ``better``, the
        probability that the first share is larger; the same for new items (``new_low``, …); and
        ``ratio`` of the shares with its interval.

    Raises
    ------
    ModelError
        A result without joint draws of the labels, as :func:`draw_labels` without a model;
        ``method="ppi"`` without known labels that models have not seen.
    ResponsesError
        Groups or questions of unknown items, or none for some item; unknown ``chosen`` items.

    Notes
    -----
    Models do not know of the groups. So groups have shares of their own here, partially pooled
    towards those of all items, with raters who are alike in all groups; probabilities of labels
    change with the shares [2]_. With known labels used by :class:`bayesfuse.models.WeightedVotes`
    (as in ``bf.fuse(gold=…)``), the mean difference between known labels and their
    probabilities without them is added by group, partially pooled towards zero [3]_, because raters
    may differ between groups.

    The items at hand are a finite population: without uncertainty about labels, the interval has no
    width. New items are drawn by the Bayesian bootstrap [1]_: each joint draw of the labels has its
    own weights of the items, or, with ``pairs=``, of the questions. Every group has one more item
    (or question), of an unknown class: a few items of one class do not make others certain.

    References
    ----------
    .. [1] Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9, 130–134.
    .. [2] Saerens, Latinne & Decaestecker (2002), Adjusting the outputs of a classifier to new a
       priori probabilities, Neural Computation 14, 21–41.
    .. [3] Fay & Herriot (1979), Estimates of income for small places, Journal of the American
       Statistical Association 74, 269–277. The same differences, not pooled: [4]_.
    .. [4] Angelopoulos, Duchi & Zrnic (2024), PPI++: efficient prediction-powered inference,
       arXiv:2311.01453; here of a finite population.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(60, 5, 2, random_seed=1)
    >>> model = bf.models.DawidSkene(made.responses)
    >>> result = bf.sample(model, 100, chains=2, random_seed=1, progressbar=False, quiet=True)
    >>> system = ["old", "new"] * 30
    >>> shares, contrasts = bf.class_shares(result, by=system, random_seed=1)
    >>> shares[["group", "class", "items"]].iloc[[1, 3, 5]].values.tolist()
    [['all items', 1, 60], ['new', 1, 30], ['old', 1, 30]]
    >>> contrasts[["first", "second", "class"]].values.tolist()
    [['new', 'old', 0], ['new', 'old', 1]]
    """
    require_flag("contrasts", contrasts)
    if method not in ("posterior", "ppi"):
        raise ModelError(f"method must be 'posterior' or 'ppi'. Got: {method!r}.")
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, probability = joint_labels.stored(result), label_probabilities(result)
    items, classes = probability["item"].values, probability["class"].values
    unit = every = np.arange(len(items))
    if pairs is not None:
        _, unit = read_populations(items, pairs, what="pairs=", group="question")
    gold = known_classes(result, len(items))
    is_list = np.iterable(chosen) and not isinstance(chosen, str)
    untypical = list(chosen) if is_list else require_names("chosen", chosen)
    place = places(as_array(untypical), items)
    refuse(place < 0, "chosen= must be items of the result.", lambda n: repr(untypical[n]))
    posterior, honest = result["label_posterior"].dataset, None
    if "left_out" in posterior:
        honest = posterior["left_out"].values.copy()
        honest[place] = np.nan
    if method == "ppi" and honest is None:
        raise ModelError(
            "method='ppi' compares known labels with predictions that have not seen them, of "
            "bf.fuse(gold=…) for independent items, or WeightedVotes. Got: a result without such."
        )

    def share(
        rows: NDArray[np.int64],
        place: NDArray[np.int64],
        labels: NDArray[Any],
        shift: Array | None = None,
    ) -> list[Array]:
        """Count some items by the place of their group, and add the shift of those unknown."""
        own = _count(labels[:, rows], place, unit[rows], int(unit.max()) + 1, len(classes), rng)
        if shift is not None:
            open_ = np.bincount(place, gold[rows] < 0) / np.bincount(place)
            for target, part in zip(own, (open_[:, None], np.ones(1)), strict=True):
                target += part * shift
                np.clip(target, 0.0, 1.0, out=target)
                target /= target.sum(axis=2, keepdims=True)
        if method == "posterior" or honest is None:
            return own
        centre = by_differences(len(labels), probability.values[rows], honest[rows], place, rng)
        new = np.clip(centre + own[1] - own[0], 0.0, 1.0)
        return [centre, new / new.sum(axis=2, keepdims=True)]

    found = share(every, np.zeros_like(every), labels)
    means = [probability.values.mean(axis=0)[None] if method == "posterior" else found[0].mean(0)]
    names, code = np.array([], dtype=object), every
    rows = []
    if by is not None:
        names, code = read_populations(items, by, what="by=", group="group")
        shift = None
        if method == "posterior":
            labels, shift = in_groups(labels, probability.values, honest, code, rng)
        own = share(every, code, labels, shift)
        found = [np.concatenate(each, axis=1) for each in zip(found, own, strict=True)]
        means.append(own[0].mean(axis=0))
        for pair in combinations(range(len(names)), 2) if contrasts else ():
            two, number = [each[:, list(pair)] for each in own], 0
            if pairs is not None:
                both = np.intersect1d(*(unit[code == at] for at in pair))
                if number := len(both):
                    at = np.flatnonzero(np.isin(code, pair) & np.isin(unit, both))
                    second = (code[at] == pair[1]).astype(np.int64)
                    two = share(at, second, labels, None if shift is None else shift[:, list(pair)])
            head = {"first": names[pair[0]], "second": names[pair[1]], "class": classes}
            rows.append(pd.DataFrame(head | {"pairs": number} | _contrast(two, level)))
    shares = _table(result, [ALL, *names.tolist()], code, gold, found, np.concatenate(means), level)
    compared = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=OF_CONTRASTS)
    return ClassShares(shares, compared[OF_CONTRASTS])


def _count(
    labels: NDArray[Any],
    place: NDArray[np.int64],
    unit: NDArray[np.int64],
    n_units: int,
    n_classes: int,
    rng: np.random.Generator,
) -> list[Array]:
    """Return shares of the classes, (samples, groups, classes): of these items and of new ones."""
    n_groups = int(place.max()) + 1
    found = [np.empty((len(labels), n_groups, n_classes)) for _ in range(2)]
    one_more = np.random.default_rng(0).standard_gamma(1.0 / n_classes, found[1].shape)
    for sample, row in enumerate(labels):
        weight = rng.standard_exponential(n_units)[unit]
        for target, weights in zip(found, (None, weight), strict=True):
            total = np.bincount(place * n_classes + row, weights, n_groups * n_classes)
            target[sample] = total.reshape(n_groups, n_classes)
    of_unit = np.unique(place * n_units + unit) // n_units  # groups
    found[1] += (np.bincount(place) / np.bincount(of_unit))[:, None] * one_more
    return [each / each.sum(axis=2, keepdims=True) for each in found]


def _table(
    result: xr.DataTree,
    names: list[Any],
    code: NDArray[np.int64],
    gold: NDArray[np.int64],
    found: list[Array],
    mean: Array,
    level: tuple[float, float],
) -> pd.DataFrame:
    """Return a row for every group and class, first those of all items."""
    n_groups, n_classes = mean.shape

    def by_group(values: NDArray[Any]) -> Array:
        return np.append(values.sum(), np.bincount(code, values)[: n_groups - 1])

    votes = np.full((n_groups, n_classes), np.nan)
    if (seen := observed_rows(result)) is not None:
        item, _, label = seen
        number = np.bincount(item, minlength=len(code))
        with np.errstate(invalid="ignore"):  # groups without responses
            for k in range(n_classes):
                own = np.bincount(item, (label == k) / number[item], len(code))
                votes[:, k] = by_group(own) / by_group(number > 0)
    ends = [np.quantile(each, level, axis=0) for each in found]
    size = by_group(np.ones(len(code))), by_group((gold >= 0).astype(float))
    columns = [
        [name for name in names for _ in range(n_classes)],
        np.tile(result["label_posterior"].dataset["class"].values, n_groups),
        *(np.repeat(each.astype(np.int64), n_classes) for each in size),
        *(values.ravel() for values in (votes, mean, *ends[0], *ends[1])),
    ]
    return pd.DataFrame(dict(zip(OF_GROUPS, columns, strict=True)))


def _contrast(shares: list[Array], level: tuple[float, float]) -> dict[str, Array]:
    """Return differences and ratios of two groups, by class."""
    found: dict[str, Array] = {}
    for prefix, each in zip(("", "new_"), shares, strict=True):
        first, second = each[:, 0], each[:, 1]
        if not prefix:
            found["difference"] = (first - second).mean(axis=0)
        found[f"{prefix}low"], found[f"{prefix}high"] = np.quantile(first - second, level, axis=0)
        found[f"{prefix}better"] = ((first > second) + 0.5 * (first == second)).mean(axis=0)
    first, second = shares[0][:, 0], shares[0][:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        found["ratio"] = first.mean(axis=0) / second.mean(axis=0)
        ratio = np.where((first == 0) & (second == 0), 1.0, first / second)
    # not interpolated, because a ratio may be infinite
    ends = np.quantile(ratio, level, axis=0, method="inverted_cdf")
    found["ratio_low"], found["ratio_high"] = ends
    return found
