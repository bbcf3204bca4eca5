"""Rank systems by the labels of pairs of their outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import arrays
from bayesfuse.data.judgments import MODELS
from bayesfuse.data.names import places, unique_names
from bayesfuse.data.verdicts import SWAPPED
from bayesfuse.decisions.position_bias import codes_of_shown
from bayesfuse.errors import (
    ModelError,
    PoorFitWarning,
    brief,
    require_count,
    require_seed,
    warn,
)
from bayesfuse.numerics.davidson import Davidson, draw_parameters
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import item_knowledge
from bayesfuse.results.contents import constants, observed_rows
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import judges_raters
from bayesfuse.results.summaries import tails

FIRST, SECOND = 0, 1  # columns of outcomes; the last is a tie
CYCLE_LEVEL = 0.05  # probability that chance makes any win of a cycle


class _Pairs(NamedTuple):
    """The pairs of the items of a result, and the names of the systems."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    cluster: NDArray[np.int64]
    systems: NDArray[Any]
    order: Array  # 1 if all judges saw the first system first, −1 if they saw it second


def leaderboard(
    result: xr.DataTree,
    pairs: pd.DataFrame,
    *,
    item: str = "item",
    first: str = "first",
    second: str = "second",
    question: str | None = None,
    shown: tuple[Any, Any] | None = None,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Rank systems whose outputs were compared in pairs by judges.

    The labels of pairs (A, B, tie) come from the judges with their uncertainty. The strengths of
    the systems have a Bradley–Terry model with ties [1]_ and an advantage of the output that is
    shown first [2]_. Labels are summed out, because labels drawn from a posterior without the
    systems would shrink the differences of their strengths. Judges are assumed to err equally often
    on pairs of any two systems: if they err more where outputs are nearly equal, strengths are too
    large, in the right order. Questions are reweighted in every draw (Bayesian bootstrap), because
    systems do well or badly on the same questions. Priors of strengths, of the advantage and of the
    log weight of ties are normal, with standard deviations 1.5, 0.5 and 2.

    Parameters
    ----------
    result : DataTree with label probabilities; items are pairs of outputs
        From ``bf.fuse``, ``bf.sample``, ``bf.fit`` or ``bf.find_map``. A judge who is asked in both
        orders is two raters: see :func:`position_bias`. Those with " (swapped)" at the end of their
        name, as :func:`bayesfuse.io.read_verdicts` has it, saw the second output first.
    pairs : DataFrame
        A row for every item: its name, and the systems whose outputs are shown first and second,
        such as the ``items`` of :func:`bayesfuse.io.read_verdicts`.
    item, first, second : str
        Names of these columns, or of the index. Without columns "first" and "second", those are
        "model_a" and "model_b", or "model_1" and "model_2".
    question : str, optional
        Column of the question that systems answered; without it every pair is one of its own.
    shown : (first, second), optional
        Classes by which the first and the second system win; default "A" and "B", or the two
        classes that there are. All others are ties.
    draws : int, default 1000
    ci_prob, random_seed : probability of the intervals, default that of ArviZ, and seed

    Returns
    -------
    Dataset, dims (system, rank, other)
        Sorted by expected rank. By system: ``strength`` (log-odds, mean zero), ``low``, ``high``,
        ``expected_rank``, ``rank_low``, ``rank_high`` and the number of ``pairs``; by rank its
        ``probability``; by ``other`` the probability that the system is better than it, which is
        that its strength is larger (``better``, as in ``board["better"].sel(system="x",
        other="y")``), the share of ``wins`` that the strengths predict, with ties as halves and
        without advantage of the first, and how often the two were ``compared``.
        Systems of different ``group`` are not connected by pairs; those ``in_cycle`` clearly beat
        each other in turn. Attributes: ``first_advantage`` of the system shown first, in log-odds,
        with ``_low`` and ``_high``. It is NaN if pairs cannot tell it from strengths, as where one
        of two systems is always first; the interval, and those of the strengths, then follow from
        its prior.

    Raises
    ------
    ModelError
        A pair is absent, of one system twice, or named twice; fewer than two systems.

    Warns
    -----
    PoorFitWarning
        Systems are not all connected, or beat each other in a cycle; or no order of a pair tells
        the advantage of being first from strengths; or labels are vote shares.

    References
    ----------
    .. [1] Davidson (1970), On extending the Bradley–Terry model to accommodate ties in paired
       comparison experiments, JASA 65, 317–328.
    .. [2] Davidson & Beaver (1977), On extending the Bradley–Terry model to incorporate
       within-pair order effects, Biometrics 33, 693–702.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> pairs = pd.DataFrame({"first": ["x", "y", "z"] * 20, "second": ["y", "z", "x"] * 20})
    >>> pairs["item"] = range(60)
    >>> verdicts = [["A", "A", "A"], ["A", "A", "B"], ["B", "B", "B"]] * 20
    >>> model = bf.models.DawidSkene(bf.Responses.from_matrix(verdicts))
    >>> board = bf.decisions.leaderboard(bf.fit(model, random_seed=1), pairs, random_seed=1)
    >>> board["system"].values.tolist()
    ['x', 'y', 'z']
    """
    require_count("draws", draws)
    rng, level = require_seed(random_seed), tails(ci_prob)
    probability = label_probabilities(result).transpose("item", "class")
    if not judges_raters(result):
        warn(
            "Strengths need labels from a model of the judges: vote shares are nearer to one half, "
            "and strengths that allow for this are too large. Give bf.fuse more minutes=. Got: "
            "vote shares.",
            PoorFitWarning,
        )
    compared = _read(pairs, {"item": item, "first": first, "second": second}, question, probability)
    compared = compared._replace(order=_order_shown(result, len(compared.first)))
    outcome = _outcomes(shown, probability["class"].values)
    likelihood = _by_outcome(probability.values, outcome)
    before = _by_outcome(item_knowledge.stored(result).prior, outcome)
    likelihood = likelihood / np.maximum(before, np.finfo(float).tiny)
    n_systems = len(compared.systems)
    model = Davidson(compared.first, compared.second, likelihood, n_systems, compared.order)
    drawn = draw_parameters(model, compared.cluster, draws, rng)
    strength = drawn[:, :n_systems] - drawn[:, :n_systems].mean(axis=1, keepdims=True)
    board = _summarise(strength, level)
    won, number = _wins(compared, _by_outcome(probability.values, outcome))
    tie = drawn[:, -1] if likelihood[:, 2].any() else np.full(draws, -np.inf)
    board["wins"] = ("system", "other"), _predicted(strength, tie)
    board["compared"] = ("system", "other"), number
    board["pairs"] = "system", number.sum(axis=1)
    ends = np.quantile(drawn[:, n_systems], level)
    names = compared.systems
    advantage = np.nan if _is_confounded(compared) else float(drawn[:, n_systems].mean())
    attrs = {"first_advantage": advantage}
    attrs |= {"first_advantage_low": float(ends[0]), "first_advantage_high": float(ends[1])}
    board = board.assign_coords(system=names, other=names, rank=np.arange(1, n_systems + 1))
    group, in_cycle = _structure(won, number, names)
    board = board.assign(group=("system", group), in_cycle=("system", in_cycle))
    board = board.assign_attrs(attrs)
    order = np.argsort(board["expected_rank"].values, kind="stable")
    return board.isel(system=order, other=order)


def _read(
    pairs: pd.DataFrame, names: dict[str, str], question: str | None, probability: xr.DataArray
) -> _Pairs:
    """Return the systems and the question of every item of a result."""
    if isinstance(pairs, pd.DataFrame):
        if names["item"] in pairs.index.names and names["item"] not in pairs:
            pairs = pairs.reset_index()
        models = next((both for both in MODELS if {*both} <= {*pairs}), None)
        if models is not None and not {"first", "second"} & {*pairs}:
            usual = dict(zip(("first", "second"), models, strict=True))
            names = {key: usual.get(name, name) for key, name in names.items()}
    wanted = [*names.values(), *([] if question is None else [question])]
    columns = dict(zip([*names, "question"], arrays.columns(pairs, wanted, "pairs"), strict=False))
    columns = {key: pd.Series(column).to_numpy() for key, column in columns.items()}
    if len(twice := columns["item"][pd.Series(columns["item"]).duplicated()]):
        raise ModelError(
            f"Every item must have one row of pairs. Got: {arrays.quoted(twice[0])} more than once."
        )
    row = places(probability["item"].values, columns["item"])
    if (row < 0).any():
        absent = probability["item"].values[row < 0]
        raise ModelError(
            "pairs must name the two systems of every item of the result. Got: none for "
            f"{arrays.quoted(absent[0])} ({len(absent)} such)."
        )
    both = np.concatenate([columns["first"][row], columns["second"][row]])
    systems = unique_names(pd.unique(pd.Series(both)), "system")
    first, second = np.split(places(both, systems), 2)
    if (first == second).any():
        same = probability["item"].values[first == second][0]
        raise ModelError(
            f"A pair must be of two systems. Got: {arrays.quoted(same)}, of "
            f"{arrays.quoted(systems[first[first == second][0]])} twice."
        )
    cluster = np.arange(len(row))
    if question is not None:
        cluster = pd.factorize(columns["question"][row], use_na_sentinel=False)[0]
    return _Pairs(first, second, cluster.astype(np.int64), systems, np.ones(len(row)))


def _order_shown(result: xr.DataTree, n_items: int) -> Array:
    """Return the difference of the shares of judges who saw the first and second output first."""
    if (rows := observed_rows(result)) is None:
        return np.ones(n_items)
    item, rater, _ = rows
    names = constants(result)["rater"].values
    is_swapped = np.array([str(name).endswith(SWAPPED) for name in names])[rater]
    number = np.bincount(item, minlength=n_items)
    order: Array = 1.0 - 2.0 * np.bincount(item, is_swapped, n_items) / np.maximum(number, 1)
    return order


def _outcomes(shown: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the outcome of every class: the first wins, the second wins, or a tie."""
    outcome = np.full(len(classes), 2)
    outcome[codes_of_shown(shown, classes)] = FIRST, SECOND
    return outcome


def _by_outcome(probability: Array, outcome: NDArray[np.int64]) -> Array:
    """Return probabilities of the outcomes (items, 3) from those of the classes."""
    return np.stack([probability[:, outcome == k].sum(axis=1) for k in range(3)], axis=1)


def _summarise(strength: Array, level: tuple[float, float]) -> xr.Dataset:
    """Return strengths and ranks of draws (draws, systems), with intervals."""
    rank = scipy.stats.rankdata(-strength, axis=1, method="ordinal")
    low, high = np.quantile(strength, level, axis=0)
    rank_low, rank_high = np.quantile(rank, level, axis=0, method="inverted_cdf")
    numbers = np.arange(1, strength.shape[1] + 1)
    better = [(strength[:, [system]] > strength).mean(axis=0) for system in range(len(numbers))]
    by_system = {
        "strength": strength.mean(axis=0),
        "low": low,
        "high": high,
        "expected_rank": rank.mean(axis=0),
        "rank_low": rank_low,
        "rank_high": rank_high,
    }
    variables: dict[str, Any] = {name: ("system", values) for name, values in by_system.items()}
    chance = [(rank == number).mean(axis=0) for number in numbers]
    variables["probability"] = ("system", "rank"), np.stack(chance, axis=1)
    variables["better"] = ("system", "other"), np.stack(better) + 0.5 * np.eye(len(numbers))
    return xr.Dataset(variables)


def _wins(pairs: _Pairs, probability: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return expected wins of systems over others, ties as halves, and numbers of comparisons."""
    n_systems = len(pairs.systems)
    won, number = np.zeros((n_systems, n_systems)), np.zeros((n_systems, n_systems), dtype=int)
    half = probability[:, 2] / 2
    for one, other, outcome in ((*pairs[:2], FIRST), (*pairs[1::-1], SECOND)):
        np.add.at(won, (one, other), probability[:, outcome] + half)
        np.add.at(number, (one, other), 1)
    return won, number


def _predicted(strength: Array, tie: Array) -> Array:
    """Return the share of wins of systems over others, ties as halves, a mean over draws."""
    half = np.exp(tie)[:, None] / 2
    shares = np.empty((strength.shape[1],) * 2)
    for system, row in enumerate(shares):
        # weights of a win and of a defeat, divided by their geometric mean
        win = np.exp((strength[:, [system]] - strength) / 2)
        row[:] = ((win + half) / (win + 1.0 / win + 2.0 * half)).mean(axis=0)
    return shares


def _is_confounded(pairs: _Pairs) -> bool:
    """Return whether strengths could replace the advantage of being first in all pairs, and warn.

    That is so if strengths exist by which the first system of every pair is ahead by the same. If
    all pairs were shown in both orders equally often, there is nothing to replace, and no warning.
    """
    n_systems, (first, second), order = len(pairs.systems), pairs[:2], pairs.order
    if not order.any():
        return True
    both = scipy.sparse.coo_array((np.ones(len(first)), (first, second)), (n_systems, n_systems))
    laplacian = scipy.sparse.csgraph.laplacian((both + both.T).toarray())
    ahead = np.bincount(first, order, n_systems) - np.bincount(second, order, n_systems)
    potential = np.linalg.lstsq(laplacian, ahead)[0]
    if not np.allclose(potential[first] - potential[second], order, atol=1e-6):
        return False
    warn(
        "Some systems must be shown in both orders, because strengths otherwise contain the "
        "advantage of being first, which is unknown: swap the outputs of half of the pairs. Got: "
        f"{len(first):,} pairs, and of any two systems one is always first.",
        PoorFitWarning,
    )
    return True


def _structure(
    won: Array, number: NDArray[np.int64], systems: NDArray[Any]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the connected group of every system, and whether it is in the largest cycle of wins.

    Both are reasons to warn.
    """
    connected = scipy.sparse.csgraph.connected_components
    n_groups, group = connected(number)
    if n_groups > 1:
        groups = [systems[group == place].tolist() for place in range(n_groups)]
        warn(
            "Every two systems must be connected by pairs, because strengths are relative: ranks "
            "across groups follow from the prior alone. Compare systems of different groups. Got: "
            f"{n_groups} groups, {brief(groups)}.",
            PoorFitWarning,
        )
    n_compared = np.count_nonzero(number) // 2
    clear = scipy.special.betainc(won + 0.5, number - won + 0.5, 0.5) < CYCLE_LEVEL / n_compared
    n_parts, part = connected(clear & (number > 0), connection="strong")
    in_cycle = np.full(len(systems), False)
    if n_parts < len(systems):
        in_cycle = part == np.bincount(part).argmax()
        warn(
            "A ranking assumes that a system that beats another also beats those that the other "
            f"beats. Got: a cycle among {brief(systems[in_cycle].tolist())}.",
            PoorFitWarning,
        )
    return group, in_cycle
