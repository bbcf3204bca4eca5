"""Dependent raters: groups that share a source, and votes that nearly copy each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
import xarray as xr

from bayesfuse.data.names import listed, unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, MomentsError
from bayesfuse.moments import find_groups
from bayesfuse.moments.pairs import class_moments
from bayesfuse.moments.partition import PairMoments, fit_groups
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.factor import Integers
from bayesfuse.parameters.partition import ALONE
from bayesfuse.raters.votes import NO_VOTE, Votes


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of at least two raters: ``members`` (raters by group), ``assignment``, origin.

    ``assignment`` (raters,) holds indices in ``members``, −1 for none; ``origin`` is "given",
    "moments", or the reason why moments failed.
    """

    members: dict[Any, list[Any]]
    assignment: Integers
    origin: str

    @classmethod
    def read(cls, groups: Any, responses: Responses) -> Groups:
        """Return groups as a user gives them, or find them if they are "moments"."""
        origin = "given"
        if isinstance(groups, str):
            if groups != "moments":
                raise ModelError(
                    "groups must be 'moments', 'posterior', or a mapping or list of lists of "
                    f"raters. Got: {groups!r}."
                )
            origin = groups
            try:
                groups = find_groups(responses)
            except MomentsError as reason:
                groups, origin = {}, f"no groups, because moments failed: {reason}"
        members = _listed(groups)
        place = {rater: index for index, rater in enumerate(responses.raters.tolist())}
        group_of: dict[Any, Any] = {}
        for name, raters in members.items():
            if len(raters) == 0:
                raise ModelError(f"A group must have raters. Got: an empty group {name!r}.")
            for rater in raters:
                if rater not in place:
                    got = f"{rater!r} in group {name!r}"
                    raise ModelError(f"Groups must contain raters of the responses. Got: {got}.")
                if rater in group_of:
                    raise ModelError(
                        "Each rater may appear in one group only. Got: "
                        f"{rater!r} in group {group_of[rater]!r} and again in {name!r}."
                    )
                group_of[rater] = name
        several = {name: list(raters) for name, raters in members.items() if len(raters) > 1}
        unique_names(several, "group")
        assignment = np.full(len(place), ALONE)
        for number, raters in enumerate(several.values()):
            assignment[[place[rater] for rater in raters]] = number
        return cls(several, assignment, origin)


def _listed(groups: Any) -> dict[Any, list[Any]]:
    """Return group names to lists of raters."""
    if isinstance(groups, xr.Dataset):
        groups = dict(
            zip(listed(groups["rater"].values), listed(groups["group"].values), strict=True)
        )
    if isinstance(groups, pd.Series):
        groups = groups.to_dict()
    if isinstance(groups, Mapping):
        if all(_is_list(raters) for raters in groups.values()):
            return {name: list(raters) for name, raters in groups.items()}
        members: dict[Any, list[Any]] = {}
        for rater, name in groups.items():
            if _is_list(name):
                raise ModelError(
                    "A mapping must be from groups to raters or from raters to groups, not both. "
                    f"Got: {name!r} for {rater!r} among groups by rater."
                )
            if not pd.isna(name):
                members.setdefault(name, []).append(rater)
        return members
    if _is_list(groups) and all(_is_list(raters) for raters in groups):
        return {number: list(raters) for number, raters in enumerate(groups)}
    raise ModelError(
        "groups must be a mapping from groups to raters or from raters to groups, or a list of "
        f"lists of raters. Got: {groups!r}."
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray | set | frozenset) and not isinstance(value, str)


SHARED_ITEMS = 4.0  # prior items by which correlations of raters are shrunk towards zero
ALIKE = 0.5  # two votes are near copies if they meet on more than this share of the items of either
SURE = 3.0  # standard deviations above the agreement of independent, perfect sources
ITEMS = 10_000  # a sample for the dispersion, so that negligible dependence does not count
PAIRS, EXPECTED = 10.0, 2.0  # prior of the dispersion: the pairs that it is worth, and its mean
BLOCK = 1 << 22  # pairs of votes that are compared at a time
TINY = 1e-9  # keeps the shares of a class without items positive


def correlated_clusters(responses: Responses) -> list[list[Any]]:
    """Return clusters of raters whose labels are correlated, those first that explain most.

    They are nodes of a tree of average linkage, ordered by how well covariances within and between
    them are fitted, as by :func:`bayesfuse.moments.find_groups`. At least two raters are outside.
    """
    from scipy.cluster.hierarchy import linkage  # slow to import
    from scipy.spatial.distance import squareform

    try:
        moments = class_moments(responses)
    except MomentsError:
        return []
    n_raters, overlap = responses.n_raters, moments[0].overlap.values
    covariance = sum(np.nan_to_num(by_class.covariance.values) for by_class in moments)
    deviation = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).eps))
    correlation = covariance / np.outer(deviation, deviation)
    correlation *= overlap / (overlap + SHARED_ITEMS)
    np.fill_diagonal(correlation, 1.0)
    distance = squareform(1.0 - np.clip(correlation, -1.0, 1.0), checks=False)
    nodes = [[rater] for rater in range(n_raters)]
    for first, second in linkage(distance, "average")[:, :2].astype(int):
        nodes.append(sorted(nodes[first] + nodes[second]))
    clusters = [raters for raters in nodes[n_raters:] if len(raters) <= n_raters - 2]
    pair, costs = PairMoments.of(responses), []
    for raters in clusters:
        group = np.arange(n_raters)
        group[raters] = raters[0]
        fitted = fit_groups(pair, np.unique(group, return_inverse=True)[1])
        costs.append(fitted.error + fitted.cost.sum())
    return [responses.raters[clusters[place]].tolist() for place in np.argsort(costs)]


def columns(responses: Responses, shares: Array) -> Integers:
    r"""Number the votes that occur (raters, labels), near copies alike; −1 for labels never given.

    Independent sources agree at most as often as sources without errors, on
    :math:`n_i n_j / (N \pi_k)` items. Votes for one label that agree much more often, on most of
    their items, are copies. ``shares`` (classes,) are the class shares of the items.
    """
    column = numbered(responses, np.arange(responses.n_raters))
    votes = Votes(None, column)
    label = votes.label_of
    met = _meetings(votes, responses).tocoo()
    number = votes.numbers(responses)
    one, other, both = met.row, met.col, met.data
    expected = number[one] * number[other] / responses.multiplicity.sum() / shares[label[one]]
    either = number[one] + number[other] - both
    copies = (label[one] == label[other]) & (both > ALIKE * either)
    copies &= both - expected > SURE * np.sqrt(np.maximum(expected, 1.0))
    pairs = scipy.sparse.coo_array(
        (np.ones(copies.sum()), (one[copies], other[copies])), shape=(len(label), len(label))
    )
    _, group = scipy.sparse.csgraph.connected_components(pairs, directed=False)
    return np.where(column == NO_VOTE, NO_VOTE, group[column])


def numbered(responses: Responses, group: Integers) -> Integers:
    """Number the votes that occur, (raters, labels); sources of one group (raters,) share them."""
    n_raters, n_classes = responses.n_raters, responses.n_classes
    is_used = np.zeros(n_raters * n_classes, dtype=bool)
    is_used[responses.cell] = True
    vote = (group[:, None] * n_classes + np.arange(n_classes)).ravel()
    column = np.full(is_used.size, NO_VOTE)
    column[is_used] = np.unique(vote[is_used], return_inverse=True)[1]
    return column.reshape(n_raters, n_classes)


def dispersion(votes: Votes, responses: Responses, share: Array, probability: Array) -> float:
    """Return the mean over pairs of :math:`(O - E)^2 / E`, about one for independent sources.

    O is the number of items with both votes, E its expectation given the classes, from the
    ``share`` of the votes in every class (classes, votes) and the label probabilities (items,
    classes). Pairs count by E up to one, because those that hardly meet tell little. See McCullagh
    & Nelder (1989), Generalized Linear Models, section 4.5.
    """
    met = _meetings(votes, responses)
    number = votes.vote_matrix(responses).sum(axis=1)
    pairs = (responses.multiplicity * number * (number - 1.0)) @ probability
    # a source speaks once on an item; near copies count as the first of them
    speaker = _speakers(votes)
    share_by_speaker = np.stack([np.bincount(speaker, row, len(votes.column)) for row in share])
    weight = pairs / np.maximum(1.0 - (share_by_speaker**2).sum(axis=1), 0.01)
    total, n_pairs = PAIRS * EXPECTED, PAIRS
    step = max(BLOCK // votes.n_votes, 1)
    for first in range(0, votes.n_votes, step):
        block = slice(first, min(first + step, votes.n_votes))
        expected = (share[:, block].T * weight) @ share
        by_block = _excess(met[block].toarray(), expected, speaker, first)
        total += by_block[0]
        n_pairs += by_block[1]
    return total / n_pairs


def dispersion_given_labels(responses: Responses, probability: Array) -> float:
    """Return :func:`dispersion` given label probabilities (items, classes), one or more."""
    sample = np.unique(np.linspace(0, responses.n_items - 1, ITEMS).astype(np.int64))
    table, probability = responses.take(sample), probability[sample]
    shares = table.multiplicity @ probability / table.multiplicity.sum()
    votes = Votes(None, columns(table, np.maximum(shares, TINY)))
    voted = votes.vote_matrix(table)
    expected = voted.T @ (table.multiplicity[:, None] * probability)  # (votes, classes)
    if not np.bincount(table.label, minlength=table.n_classes).all():
        # without a vote for some class, only silence can tell the classes apart
        rate = expected / np.maximum(table.multiplicity @ probability, TINY)
        measured = firing_dispersion(votes, table, np.stack([rate, 1 - rate], -1), probability)
    else:
        share = (expected / np.maximum(expected.sum(axis=0), TINY)).T
        measured = dispersion(votes, table, share, probability)
    return max(measured, 1.0)


def firing_dispersion(votes: Votes, responses: Responses, rate: Array, probability: Array) -> float:
    """Return :func:`dispersion` where votes have rates by class, ``rate`` (votes, classes, 2).

    For few sources, the classes explain all common votes, so the estimate is shrunk towards one by
    a prior worth a single pair.
    """
    fires = rate[..., 0]
    expected = (fires * (responses.multiplicity @ probability)) @ fires.T
    met = _meetings(votes, responses).toarray()
    total, n_pairs = _excess(met, expected, _speakers(votes), 0)
    return (1.0 + total) / (1.0 + n_pairs)


def _speakers(votes: Votes) -> Integers:
    """Return the first source of every vote, shape (votes,)."""
    speaker = np.zeros(votes.n_votes, dtype=np.int64)
    source, label = (index[::-1] for index in np.nonzero(votes.column != NO_VOTE))
    speaker[votes.column[source, label]] = source
    return speaker


def _excess(observed: Array, expected: Array, speaker: Integers, first: int) -> tuple[float, float]:
    """Sum (O - E)² / E and the weight of the pairs in rows from ``first`` on (rows, votes)."""
    # every pair once, and none of two labels of one source
    counted = np.triu(np.ones(expected.shape, dtype=bool), first + 1)
    counted &= speaker[first : first + len(expected), None] != speaker
    gap = (observed - expected) ** 2 / np.maximum(expected, 1.0)
    return float(gap[counted].sum()), float(np.minimum(expected, 1.0)[counted].sum())


def _meetings(votes: Votes, responses: Responses) -> scipy.sparse.csr_array:
    """Return on how many items every pair of votes meets, (votes, votes), zero with itself."""
    vote_matrix = votes.vote_matrix(responses)
    weighed = scipy.sparse.diags_array(responses.multiplicity.astype(float)) @ vote_matrix
    met = scipy.sparse.csr_array(vote_matrix.T @ weighed)
    met.setdiag(0.0)
    met.eliminate_zeros()
    return met
