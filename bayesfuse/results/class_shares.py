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
from bayesfuse.data.known import read_populations
from bayesfuse.data.names import places
from bayesfuse.errors import ModelError, require_choice, require_flag, require_names, require_seed
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import interruptible
from bayesfuse.results import item_knowledge, joint_labels
from bayesfuse.results.contents import copies_of, known_classes, observed_rows
from bayesfuse.results.group_shares import by_differences, expected_share, in_groups, of_all
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import around, tails

ALL = "all items"  # name of the group of all items
MOST_CONTRASTS = 60  # that are printed
MAX_COUNTED = 50_000_000  # drawn labels that are counted within two seconds

PRINTED = ["first", "second", "class", "pairs", "difference", "low", "high", "better"]
PRINTED += ["new_low", "new_high"]
OF_CONTRASTS = [*PRINTED, "new_better", "ratio", "ratio_low", "ratio_high"]


class ClassShares(NamedTuple):
    """Tables of :func:`class_shares`: shares by group and class, and contrasts of two groups.

    The printed form leaves out ratios, contrasts above 60, and the first of two classes.
    """

    shares: pd.DataFrame
    contrasts: pd.DataFrame

    def __repr__(self) -> str:
        classes = self.shares["class"].unique()
        shown = classes[1:] if len(classes) == 2 else classes
        shares, contrasts = (table[table["class"].isin(shown)].round(2) for table in self)
        text = shares.to_string(index=False)
        if not 0 < len(contrasts) <= MOST_CONTRASTS:
            return text
        return f"{text}\n\n{contrasts[PRINTED].to_string(index=False)}"


@explains_keywords
@interruptible
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

    Shares are of the posterior true labels, with known labels fixed. Groups that the model knows
    (by populations, covariates, a classifier, sequences, a graph) are counted over joint draws;
    others are partially pooled towards the model's prior [1]_, with raters alike in all groups.

    Parameters
    ----------
    result : DataTree
        From ``bf.fuse``, ``bf.sample``, ``bf.fit`` or ``bf.average``, with joint draws of the
        labels.
    by, pairs : mapping, Series or array, optional
        Group of every item (system, category, period), by item or in the order of the items; and
        its question, for groups that answered the same ones: contrasts are then within these.
    contrasts : bool, default True
        Whether every two groups are compared.
    method : {"posterior", "ppi"}
        Counts over joint draws of the labels, or prediction-powered inference [4]_ by label
        probabilities: unbiased, if known items were chosen at random, with wider intervals.
    chosen : iterable of item names, optional
        Known items that were not chosen at random, so are not typical of the others.
    ci_prob : float, optional
        Probability of the (equal-tailed) intervals. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    shares : DataFrame
        By group (first ``"all items"``) and class: numbers of ``items`` and ``known`` ones,
        ``votes`` (mean over items of the share of their votes), ``share`` (posterior mean), its
        interval ``low`` to ``high`` for these items, and ``new_low`` to ``new_high`` for new ones.
    contrasts : DataFrame
        By two groups and class: ``pairs`` (questions in common), ``difference`` (first minus
        second) and ``ratio`` of the shares with intervals, ``better``, the probability that the
        first is larger; the same for new items (``new_low``, …).

    Raises
    ------
    ModelError
        A result without joint draws of the labels, or what ``method="ppi"`` needs.
    ResponsesError
        Groups or questions of unknown items, or none for some item; unknown ``chosen`` items.

    Notes
    -----
    Where the model knows a group in part, the prior variance of the group's log-odds is in
    proportion to what the inputs of the label prior leave unexplained of the group's indicator, by
    linear regression. Differences of known labels from their probabilities without them
    (``bf.fuse(gold=…)``) are added for all items and by group, partially pooled towards zero [2]_.
    ``share`` of groups, weighted by ``items``, averages to that of all items; ends of intervals do
    not. New items are drawn by the Bayesian bootstrap [3]_ of items or questions, with one more of
    an unknown class in every group. It takes items as independent, so intervals for new items are
    too narrow where labels of neighbours are alike, in sequences and on graphs.

    Intervals of ``method="ppi"`` allow for items unlike the known ones: variances are of the known
    items and of one more in the class and one not, so few known labels of one class do not give an
    interval without width. They end at whole numbers of items, and groups, each estimated from its
    known items, do not average to the whole.

    References
    ----------
    .. [1] Saerens, Latinne & Decaestecker (2002), Neural Computation 14, 21–41.
    .. [2] Fay & Herriot (1979), Journal of the American Statistical Association 74, 269–277.
    .. [3] Rubin (1981), The Bayesian bootstrap, Annals of Statistics 9, 130–134.
    .. [4] Angelopoulos, Duchi & Zrnic (2024), PPI++, arXiv:2311.01453; here of a finite population.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> made = bf.datasets.simulate_dawid_skene(60, 5, 2, random_seed=1)
    >>> quiet = {"random_seed": 1, "progressbar": False, "quiet": True}
    >>> result = bf.sample(bf.models.DawidSkene(made.responses), 50, **quiet)
    >>> shares, contrasts = bf.class_shares(result, by=["old", "new"] * 30, random_seed=1)
    >>> shares[["group", "class", "items"]].iloc[[1, 3, 5]].values.tolist()
    [['all items', 1, 60], ['new', 1, 30], ['old', 1, 30]]
    """
    require_flag("contrasts", contrasts)
    require_choice("method", method, "posterior", "ppi")
    rng, level = require_seed(random_seed), tails(ci_prob)
    labels, probability = joint_labels.stored(result), label_probabilities(result)
    items, classes = probability["item"].values, probability["class"].values
    unit = np.arange(len(items))
    if pairs is not None:
        _, unit = read_populations(items, pairs, what="pairs=", group="question")
    gold, left_out = known_classes(result, len(items)), _left_out(result, items, chosen)
    if method == "ppi" and left_out is None:
        raise ModelError(
            "method='ppi' compares known labels with predictions that have not seen them, of "
            "bf.fuse(gold=…) for independent items, or WeightedVotes. Got: a result without such."
        )
    counter = _Counter(labels, unit, probability.values, gold, left_out, rng, method == "ppi")
    shares, mean = counter.of_all()
    names, code = np.array([], dtype=object), unit
    contrast_rows = []
    if by is not None:
        names, code = read_populations(items, by, what="by=", group="group")
        group_shares, group_mean = counter.of_groups(code, result)
        shares = np.concatenate([shares, group_shares], axis=2)
        mean = np.concatenate([mean, group_mean])
        for pair in combinations(range(len(names)), 2) if contrasts else ():
            two, difference, number = group_shares[:, :, list(pair)], None, 0
            if pairs is not None:
                two, number = counter.of_pair(pair, two)
            if number:
                difference = (two[0, :, 0] - two[0, :, 1]).mean(axis=0)
            else:
                difference = group_mean[pair[0]] - group_mean[pair[1]]
            columns = {"first": names[pair[0]], "second": names[pair[1]], "class": classes}
            columns |= {"pairs": number, "difference": difference, **_contrast(two, level)}
            contrast_rows.append(pd.DataFrame(columns))
    table = _table(result, [ALL, *names.tolist()], code, gold, shares, mean, level)
    if method == "ppi":  # numbers of items are whole, as counts of draws are
        for end, rounded in (("low", np.floor), ("high", np.ceil)):
            table[end] = rounded((table[end] * table["items"]).round(6)) / table["items"]
    if not contrast_rows:
        return ClassShares(table, pd.DataFrame(columns=OF_CONTRASTS))
    return ClassShares(table, pd.concat(contrast_rows, ignore_index=True)[OF_CONTRASTS])


def expected_shares(
    result: xr.DataTree, labels: xr.DataArray | None = None, ci_prob: float | None = None
) -> pd.DataFrame:
    """Return the shares of all items as :func:`class_shares` does, for an overview.

    Without joint draws, or with too many, they are means of the label probabilities, whose
    intervals are NaN.
    """
    is_counted = {joint_labels.GROUP, "label_posterior"} <= set(result.children)
    if is_counted and joint_labels.stored(result).size <= MAX_COUNTED:
        seed = int(result.attrs.get("random_seed", 0))  # with which a user's call gives the same
        return class_shares(result, contrasts=False, ci_prob=ci_prob, random_seed=seed).shares
    labels = label_probabilities(result) if labels is None else labels
    probability = labels.transpose("item", "class").values
    copies = copies_of(result, len(probability))
    table = {"class": labels["class"].values, "share": copies @ probability / copies.sum()}
    return pd.DataFrame(table | dict.fromkeys(("votes", "low", "high"), np.nan))


def _left_out(result: xr.DataTree, items: NDArray[Any], chosen: Any) -> Array | None:
    """Return probabilities of known items without their labels, of those chosen at random."""
    is_list = np.iterable(chosen) and not isinstance(chosen, str)
    untypical = list(chosen) if is_list else require_names("chosen", chosen)
    place = places(as_array(untypical), items)
    refuse(place < 0, "chosen= must be items of the result.", lambda n: repr(untypical[n]))
    labels = result["label_posterior"].dataset
    if "left_out" not in labels:
        return None
    left_out: Array = labels["left_out"].values.copy()
    left_out[place] = np.nan
    return left_out


class _Counter:
    """Counts the classes of items by group: shares of these items and of new ones.

    Shares are (2, samples, groups, classes), over joint draws of the labels (samples, items) or by
    prediction-powered inference.
    """

    def __init__(
        self,
        labels: NDArray[Any],
        unit: NDArray[np.int64],
        probability: Array,
        gold: NDArray[np.int64],
        left_out: Array | None,
        rng: np.random.Generator,
        is_ppi: bool,
    ) -> None:
        self.labels, self.unit, self.probability, self.gold = labels, unit, probability, gold
        self.left_out, self.rng, self.is_ppi = left_out, rng, is_ppi
        self.residual: Array | None = None  # of known labels (samples, 1, classes)
        self.shift: Array | None = None  # of the share of unknown items, by group

    def of_all(self) -> tuple[Array, Array]:
        """Return the shares of all items, and their means (1, classes)."""
        every = np.arange(len(self.unit))
        if not self.is_ppi:
            n_samples = len(self.labels)
            self.residual = of_all(n_samples, self.probability, self.left_out, self.rng)
        shares = self._shares(every, np.zeros_like(every), self.residual)
        if self.residual is None:
            return shares, shares[0].mean(axis=0)
        return shares, expected_share(self.probability, self.gold, self.residual)

    def of_groups(self, code: NDArray[np.int64], result: xr.DataTree) -> tuple[Array, Array]:
        """Return the shares of groups, with the prior knowledge of the model, and their means."""
        self.code, mean = code, None
        if self.residual is not None:
            known = item_knowledge.stored(result)
            data = self.probability, self.left_out, code, self.gold
            self.labels, self.shift, mean = in_groups(
                self.labels, *data, known, self.residual, self.rng
            )
        shares = self._shares(np.arange(len(code)), code, self.shift)
        return shares, shares[0].mean(axis=0) if mean is None else mean

    def of_pair(self, pair: tuple[int, int], shares: Array) -> tuple[Array, int]:
        """Return the shares of two groups among their common questions, and the number of these.

        Without common questions, the shares of the groups are returned.
        """
        common = np.intersect1d(*(self.unit[self.code == group] for group in pair))
        if not len(common):
            return shares, 0
        at = np.flatnonzero(np.isin(self.code, pair) & np.isin(self.unit, common))
        is_second = (self.code[at] == pair[1]).astype(np.int64)
        shift = None if self.shift is None else self.shift[:, list(pair)]
        return self._shares(at, is_second, shift), len(common)

    def _shares(
        self, items: NDArray[np.int64], group: NDArray[np.int64], shift: Array | None
    ) -> Array:
        """Return the shares of some items by group, shifted for those with unknown labels."""
        n_units, n_classes = int(self.unit.max()) + 1, self.probability.shape[1]
        labels, unit = self.labels[:, items], self.unit[items]
        shares = _count(labels, group, unit, n_units, n_classes, self.rng)
        if shift is not None:
            unknown = (np.bincount(group, self.gold[items] < 0) / np.bincount(group))[:, None]
            shares = np.clip(shares + np.stack([unknown * shift, shift]), 0.0, 1.0)
            shares /= shares.sum(axis=3, keepdims=True)
        if not self.is_ppi or self.left_out is None:
            return shares
        predictions = self.probability[items], self.left_out[items]
        is_known = self.gold[items] >= 0
        centre = by_differences(len(labels), *predictions, group, self.rng, is_known)
        new = np.clip(centre + shares[1] - shares[0], 0.0, 1.0)
        return np.stack([centre, new / new.sum(axis=2, keepdims=True)])


def _count(
    labels: NDArray[Any],
    place: NDArray[np.int64],
    unit: NDArray[np.int64],
    n_units: int,
    n_classes: int,
    rng: np.random.Generator,
) -> Array:
    """Return shares of classes of these items and new ones, (2, samples, groups, classes)."""
    n_groups = int(place.max()) + 1
    counts: Array = np.empty((2, len(labels), n_groups, n_classes))
    one_more = rng.standard_gamma(1.0 / n_classes, counts[1].shape)
    for sample, row in enumerate(labels):
        weight = rng.standard_exponential(n_units)[unit]
        for new, weights in enumerate((None, weight)):
            total = np.bincount(place * n_classes + row, weights, n_groups * n_classes)
            counts[new, sample] = total.reshape(n_groups, n_classes)
    of_unit = np.unique(place * n_units + unit) // n_units  # groups
    counts[1] += (np.bincount(place) / np.bincount(of_unit))[:, None] * one_more
    return counts / counts.sum(axis=3, keepdims=True)


def _table(
    result: xr.DataTree,
    names: list[Any],
    code: NDArray[np.int64],
    gold: NDArray[np.int64],
    shares_of: Array,
    mean: Array,
    level: tuple[float, float],
) -> pd.DataFrame:
    """Return a row for every group and class, first those of all items."""
    n_groups, n_classes = mean.shape
    votes, size = np.zeros(len(code) * n_classes), (len(code), n_classes)
    if (rows_of := observed_rows(result)) is not None:
        votes = np.bincount(rows_of[0] * n_classes + rows_of[2], minlength=len(votes))
    votes = votes.reshape(size)
    number = votes.sum(axis=1, keepdims=True)
    counted = [np.ones(size), np.tile(gold >= 0, (n_classes, 1)).T, votes / np.maximum(number, 1)]
    items = pd.DataFrame(np.hstack([*counted, number > 0]))
    sums = np.vstack([items.sum(), items.groupby(code).sum()[: n_groups - 1]])
    with np.errstate(invalid="ignore"):  # groups without responses
        sums[:, 2 * n_classes : -1] /= sums[:, -1:]
    columns = dict(zip(("items", "known", "votes"), np.split(sums[:, :-1], 3, axis=1), strict=True))
    table = pd.DataFrame(
        {
            "group": [name for name in names for _ in range(n_classes)],
            "class": np.tile(result["label_posterior"].dataset["class"].values, n_groups),
            **{name: values.ravel() for name, values in columns.items()},
            "share": mean.ravel(),
        }
    ).astype({"items": np.int64, "known": np.int64})
    for prefix, shares in zip(("", "new_"), shares_of, strict=True):
        low, high = np.quantile(shares, level, axis=0).reshape(2, -1)
        if not prefix:
            low, high = around(shares.reshape(len(shares), -1), mean.ravel(), low, high)
        table[f"{prefix}low"], table[f"{prefix}high"] = low, high
    return table


def _contrast(shares: Array, level: tuple[float, float]) -> dict[str, Array]:
    """Return differences and ratios of two groups, by class."""
    contrast: dict[str, Array] = {}
    for prefix, share in zip(("", "new_"), shares, strict=True):
        first, second = share[:, 0], share[:, 1]
        contrast[f"{prefix}low"], contrast[f"{prefix}high"] = np.quantile(
            first - second, level, axis=0
        )
        contrast[f"{prefix}better"] = ((first > second) + 0.5 * (first == second)).mean(axis=0)
    first, second = shares[0][:, 0], shares[0][:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        contrast["ratio"] = first.mean(axis=0) / second.mean(axis=0)
        ratio = np.where((first == 0) & (second == 0), 1.0, first / second)
    # not interpolated, because a ratio may be infinite
    ends = np.quantile(ratio, level, axis=0, method="inverted_cdf")
    contrast["ratio_low"], contrast["ratio_high"] = ends
    return contrast
