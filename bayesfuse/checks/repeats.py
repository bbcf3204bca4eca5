"""Repeated responses of a rater to an item: whether they err together, and one of each if so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.checks.advice import MAX_LISTED, listing
from bayesfuse.checks.repeated_verdicts import (
    independence,
    most_frequent,
    pairs_of,
    uniforms,
)
from bayesfuse.data import fingerprint
from bayesfuse.data.column_roles import ITEM, LABEL, RATER
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import require_flag
from bayesfuse.numerics.kernels import Array

MIN_REPEATS = 10  # repeats of a rater of which a sentence says how alike they are

EXAMINED = 20_000  # responses that show how raters err, besides those to items with repeats


def collapse_repeats(
    responses: Table,
    *,
    item: str = ITEM,
    rater: str = RATER,
    label: str = LABEL,
    copies: bool = True,
) -> tuple[Responses, pd.DataFrame]:
    r"""Keep one response of a rater to an item, unless the rater's repeats err independently.

    A rater who is asked again may repeat the first error, so repeats may be no evidence of the
    truth. They are responses to a verdict of the rater on the item, which errs or not. Let
    :math:`\psi_m` have the probabilities of a response by class. Given the verdict v, a response
    is v with probability s and drawn from :math:`\psi_{mv}` otherwise, and verdicts by class are
    such that a single response has the row :math:`\psi_{mk}` for every s. If s = 0, repeats are
    independent given the class; else :math:`s^2` is uniform. The prior probability that s = 0 is
    shared by the raters and uniform, so few repeats leave it near one half. Repeats on an item are
    kept with the posterior probability that they are independent; otherwise the rater's most
    frequent response to the item, an estimate of the verdict, stands for all. With fewer than three
    raters nothing identifies shared errors, and that is the rule. A hash of the names decides which
    items those are, so equal tables are collapsed equally in any order.

    A rater who nearly copies another one would confirm the errors of that one as the class. So of
    four raters or more, a rater and the one with the most similar verdicts have one verdict with
    log odds of the gain in log likelihood, less 2 log M of M raters; the repeats are then judged
    without that one, and the two probabilities averaged.

    Parameters
    ----------
    responses : Responses, DataFrame or array
    item, rater, label : str
        Columns of a DataFrame, as in :func:`bayesfuse.fuse`.
    copies : bool, default True
        Whether raters with the same responses to the same items as another are left out. Of M
        raters, one who deviates from the majority of the others on d of n items is a copy with
        probability :math:`1 / (1 + M^2 (e / (K - 1))^d (1 - e)^{n - d})`, where e is (d + 1) / (n +
        2). Sources that may be silent are not compared.

    Returns
    -------
    Responses
        The same items and classes, and raters other than copies.
    DataFrame
        By rater with repeats: ``repeats`` (responses after the first to an item), ``agreement``
        (share of the pairs of responses to an item that are alike), ``independent`` (probability
        that repeats are independent given the class), and ``copies``, the names left out.

    Notes
    -----
    Rows are at a mode found by EM. The verdict is that of :class:`bayesfuse.build.LatentGroups`,
    with a rater in place of a group. Models count all repeats that a table has;
    :func:`bayesfuse.fuse` collapses them first.

    References
    ----------
    Jaffe et al. (2016), AISTATS, section 2 (latent verdicts).

    Examples
    --------
    A rater who says the same three times, and two who were asked once:

    >>> import bayesfuse as bf
    >>> rows = {"item": [*range(40)] * 5, "rater": ["a"] * 120 + ["b"] * 40 + ["c"] * 40}
    >>> rows["label"] = [0, 1, 1, 0] * 30 + [0, 1, 1, 1] * 10 + [0, 1, 0, 1] * 10
    >>> kept, repeats = bf.checks.collapse_repeats(bf.Responses.from_long(rows))
    >>> kept.per_rater.tolist(), repeats.index.tolist(), repeats["repeats"].tolist()
    ([40, 40, 40], ['a'], [80])
    """
    require_flag("copies", copies)
    table = read_table(responses, item=item, rater=rater, label=label)[0]
    left_out: dict[int, list[Any]] = {}
    if copies and table.silent is None and table.stated is None:
        table, left_out = _without_copies(table)
    pair, first, size = pairs_of(table)
    independent = np.ones(table.n_raters)
    raters = np.unique(table.rater[first[size > 1]]) if size.max(initial=0) > 1 else first[:0]
    if len(raters):
        repeated = table.items[table.item[first[size > 1]]]
        some = part_of(table, EXAMINED, np.random.default_rng(0), repeated)
        part = part_of(table, EXAMINED, np.random.default_rng(0))
        independent[raters] = independence(some, raters, part)
        is_independent = uniforms(table, first) < independent[table.rater[first]]
        verdict = most_frequent(table, pair)
        chosen = np.append(verdict[~is_independent], np.flatnonzero(is_independent[pair]))
        codes = table.item[chosen], table.rater[chosen], table.label[chosen]
        collapsed = table.with_rows(*codes)
    else:
        collapsed = table
    return collapsed, _summary(table, pair, size, raters, independent, left_out)


def part_of(
    responses: Responses, most: int, rng: np.random.Generator, known: Any = ()
) -> Responses:
    """Return a random part of the items, with the known ones and one item of every other rater.

    The part has about ``most`` responses.
    """
    if responses.n_responses <= most:
        return responses
    order = rng.permutation(responses.n_items)
    last = int(np.searchsorted(responses.per_item[order].cumsum(), most)) + 1
    chosen = np.zeros(responses.n_items, dtype=bool)
    chosen[order[:last]] = True
    chosen[np.isin(responses.items, np.asarray(list(known)))] = True
    is_present = (
        np.bincount(responses.rater[chosen[responses.item]], minlength=responses.n_raters) > 0
    )
    first = np.full(responses.n_raters, -1)
    first[responses.rater[::-1]] = responses.item[::-1]
    chosen[first[~is_present & (first >= 0)]] = True
    return responses.take(np.flatnonzero(chosen))


def in_words(repeats: pd.DataFrame, n_left_out: int) -> list[str]:
    """Describe the weight of repeated responses of a rater to an item, after their number."""
    sentences = []
    left_out = [name for names in repeats["copies"] for name in names]
    if left_out:
        others = repeats.index[repeats["copies"].str.len() > 0]
        sentences.append(
            f"Raters left out, because they have the same responses to the same items as "
            f"{listing(others)}: {listing(left_out)}."
        )
    repeats = repeats[repeats["repeats"] > 0]
    if not len(repeats):
        return sentences
    most = repeats[repeats["repeats"] >= MIN_REPEATS].sort_values("repeats", ascending=False)
    n_others = len(repeats) - min(len(most), MAX_LISTED)
    if not len(most):
        number = int(repeats["repeats"].sum())
        are = "response is" if number == 1 else "responses are"
        return [
            *sentences,
            f"{n_left_out:,} of {number:,} repeated {are} left out: one is kept, at random, with "
            "the probability that its error is independent of the first's "
            "(bf.checks.collapse_repeats).",
        ]
    count = []
    for name, row in most.head(MAX_LISTED).iterrows():
        count.append(
            f"those of {in_one_line(name)} are alike in {row['agreement']:.0%} of the pairs, and "
            f"five count as about {1.0 + 4.0 * row['independent']:.1f}"
        )
    if n_others:
        count.append(
            f"and those of {'one more rater' if n_others == 1 else f'{n_others:,} others'}"
        )
    return [
        *sentences,
        "Repeated responses of a rater to an item may share an error: "
        f"{'; '.join(count)} (bf.checks.collapse_repeats lists all).",
    ]


def _without_copies(table: Responses) -> tuple[Responses, dict[int, list[Any]]]:
    """Return the table without copies of raters, and names left out by number of the original."""
    rater, label, item = table.rater, table.label, table.item
    # raters with equal sums of random words have equal responses, but for a chance of 2⁻⁶⁴
    size = table.n_items * table.n_classes
    word = np.random.default_rng(0).integers(2**63, size=size, dtype=np.uint64)
    total = np.zeros(table.n_raters, dtype=np.uint64)
    np.add.at(total, rater, word[item * table.n_classes + label])
    n_rows = np.bincount(rater, minlength=table.n_raters)
    _, original, group = np.unique(total, return_index=True, return_inverse=True)
    is_alike = (np.bincount(group)[group] > 1) & (n_rows > 0)
    if not is_alike.any():
        return table, {}
    n_alike = np.bincount(group)[group][rater]  # raters with the same responses
    others = table.votes()[item]  # (rows, classes)
    rows = np.arange(len(item))
    others[rows, label] -= n_alike
    # raters who agree with the majority of the others are alike without copying
    most = others.max(axis=1)
    deviates = (others[rows, label] < most) & (most > 1)
    copies = table.multiplicity[item].astype(float)
    number = np.bincount(rater, copies, table.n_raters)
    n_deviating = np.bincount(rater, copies * deviates, table.n_raters)
    rate = (n_deviating + 1.0) / (number + 2.0)
    by_chance = n_deviating * np.log(rate / max(table.n_classes - 1, 1))
    by_chance += (number - n_deviating) * np.log1p(-rate) + 2.0 * np.log(table.n_raters)
    is_copy = is_alike & (original[group] != np.arange(table.n_raters))
    names = fingerprint.of_names(table.raters)
    is_copy &= fingerprint.uniforms(names) < 1.0 / (1.0 + np.exp(by_chance))
    if not is_copy.any():
        return table, {}
    left_out: dict[int, list[Any]] = {}
    number = np.cumsum(~is_copy) - 1
    for copy in np.flatnonzero(is_copy):
        left_out.setdefault(int(number[original[group[copy]]]), []).append(table.raters[copy])
    rows = ~is_copy[rater]
    codes = item[rows], number[rater[rows]], label[rows]
    return table.with_rows(*codes, raters=table.raters[~is_copy]), left_out


def _summary(
    table: Responses,
    pair: NDArray[np.int64],
    size: NDArray[np.int64],
    raters: NDArray[np.int64],
    independent: Array,
    left_out: Mapping[int, list[Any]],
) -> pd.DataFrame:
    raters = np.union1d(raters, list(left_out)).astype(np.int64)
    copies = table.multiplicity[table.item].astype(float)
    cell, count = np.unique(
        pair * table.n_classes + table.label, return_inverse=True, return_counts=True
    )[1:]
    both = np.bincount(table.rater, copies * (size[pair] - 1.0), table.n_raters)[raters]
    same = np.bincount(table.rater, copies * (count[cell] - 1.0), table.n_raters)[raters]
    repeats = np.bincount(table.rater, copies * (1.0 - 1.0 / size[pair]), table.n_raters)[raters]
    with np.errstate(invalid="ignore"):
        agreement = same / both  # NaN of raters whose only repeats are those of copies
    columns = {
        "repeats": np.round(repeats).astype(int),
        "agreement": agreement,
        "independent": independent[raters],
        "copies": [left_out.get(number, []) for number in raters.tolist()],
    }
    return pd.DataFrame(columns, index=pd.Index(table.raters[raters], name="rater"))
