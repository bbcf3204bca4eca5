"""Tables of raters, of sources, and of the grades of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.known import gold_labels
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.pymc.model import LabelModel
from bayesfuse.raters.votes import Votes
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import all_draws, constants, joint_labels, named, responses_of
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.schema import ORDERED_CLASSES
from bayesfuse.results.summaries import interval, posterior_draws, responses_per_rater, tails


def grades(result: xr.DataTree | xr.DataArray, *, ci_prob: float | None = None) -> xr.Dataset:
    """Return the posterior mean and median of the true grade of every item.

    Parameters
    ----------
    result : DataTree or DataArray
        A result for ordered classes, or label probabilities (item, class), the classes in order.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    Dataset, by item
        ``mean`` and ``sd`` of the grade as a number: the class if classes are numbers, else its
        position from 0. ``median``, and ``low`` to ``high``, its interval, are classes.

    Raises
    ------
    ModelError
        The classes of the result are not ordered; no label probabilities.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> shares = bf.vote_shares(bf.datasets.anesthesia())
    >>> found = bf.grades(bf.label_probabilities(shares)).sel(item=[1, 3])
    >>> found["median"].values.tolist(), found["mean"].values.round(1).tolist()
    ([1, 2], [1.2, 1.7])
    """
    if isinstance(result, xr.DataTree):
        _require_ordered(result)
    probability = label_probabilities(result)
    values = _values(probability["class"].values)
    share = probability.values
    mean = share @ values
    sd = np.sqrt(np.maximum(share @ values**2 - mean**2, 0.0))
    low, high = tails(ci_prob)
    # rounding may leave the last sum a little below one
    up_to = np.minimum(share.cumsum(axis=1) + 1e-12, 1.0)
    columns = {"mean": mean, "sd": sd}
    for name, level in (("median", 0.5), ("low", low), ("high", high)):
        columns[name] = probability["class"].values[(up_to < level).sum(axis=1)]
    return xr.Dataset(
        {name: ("item", column) for name, column in columns.items()},
        {"item": probability["item"].values},
    )


def rater_grades(result: xr.DataTree, *, ci_prob: float | None = None) -> xr.Dataset:
    """Return how strict and how precise every rater is.

    Parameters
    ----------
    result : DataTree
        From ``bf.sample``, ``bf.fit`` or ``bf.find_map``, of any model of ordered classes.
    ci_prob
        As in :func:`grades`.

    Returns
    -------
    Dataset, by rater
        ``bias``, the mean difference between given and true grade over the items (negative for
        strict raters), and ``error``, the mean absolute one, in units as in :func:`grades`. With
        ``raters="graded"`` also ``strictness`` (mean shift of thresholds) and ``precision``, in
        distances of classes, and ``guess_rate``. Each is a posterior mean, with its interval
        ``bias_low`` to ``bias_high``, …; ``responses`` is their number.

    Raises
    ------
    ModelError
        The classes of the result are not ordered; no confusion matrices.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia(), raters="graded")
    >>> found = bf.rater_grades(bf.find_map(model))
    >>> found["rater"].values[found["bias"].values.argmax()].item()
    2
    """
    _require_ordered(result)
    draws = posterior_draws(result, "confusion")["confusion"]
    draws = draws.transpose("chain", "draw", "rater", "class", "answer")
    values, known = _values(draws["class"].values), constants(result)
    copies = known["multiplicity"].values if "multiplicity" in known else None
    share = np.average(label_probabilities(result).values, axis=0, weights=copies)
    gap = values - values[:, None]  # given minus true, (class, answer)
    by_name = {}
    for name, cost in (("bias", gap), ("error", np.abs(gap))):
        weight = xr.DataArray(share[:, None] * cost, dims=("class", "answer"))
        by_name[name] = (draws * weight).sum(("class", "answer"))
    for name in ("strictness", "precision", "guess_rate"):
        drawn_values = named(all_draws(result), name)
        if drawn_values is not None and drawn_values.dims[2:] == ("rater",):
            by_name[name] = drawn_values
    columns = _with_ends(by_name, ("low", "high"), ci_prob)
    columns["responses"] = xr.DataArray(responses_per_rater(result), dims="rater")
    return xr.Dataset(columns)


def _require_ordered(result: xr.DataTree) -> None:
    known = constants(result)
    if not known.attrs.get(ORDERED_CLASSES, 0):
        names = known["class"].values.tolist() if "class" in known.coords else "no classes"
        raise ModelError(
            "Grades need ordered classes: read the table with classes= in order and ordered=True, "
            f"or from an ordered categorical. Got: {names}, not declared to be ordered."
        )


def _values(classes: NDArray[np.generic]) -> Array:
    """Return classes as numbers, or the places of others."""
    if classes.dtype.kind in "iuf":
        return classes.astype(float)
    return np.arange(len(classes), dtype=float)


INDEX = ["source", "label"]

SEED = 1  # of the draws that widen intervals: a table is the same each time


def sources(
    responses_or_model: Table | LabelModel | xr.DataTree,
    result: xr.DataTree | None = None,
    *,
    truth: Any = None,
    ci_prob: float | None = None,
) -> pd.DataFrame:
    r"""Return coverage and conflicts of every source and, given a result or labels, its accuracy.

    Parameters
    ----------
    responses_or_model : Responses, DataFrame, array, LabellingFunctions or DataTree
        A table as in :func:`bayesfuse.fuse`, a model, or a result, which needs no model.
    result : DataTree, optional
        From :func:`bayesfuse.sample` or :func:`bayesfuse.find_map` of this model.
    truth, ci_prob
        Known labels of some items, as ``gold`` of :func:`bayesfuse.fuse`; and the probability of
        the intervals, as in :func:`grades`.

    Returns
    -------
    DataFrame
        By source and label that it gives: shares of items with this vote (``coverage``), also with
        one of another source (``overlaps``), and for a different label (``conflicts``). With
        ``truth``: numbers of votes on items of known class (``correct``, ``incorrect``) and
        ``empirical_accuracy``. With a result: ``accuracy``, how often the vote is right, and its
        interval, ``accuracy_lower`` to ``accuracy_upper``. If votes are dispersed by φ, it is that
        of :math:`n / (1 + (\varphi - 1)\, n / s)` instead of n votes, with s the weight of the
        prior and the votes on items of known class.

    Raises
    ------
    ModelError
        A result without its model, of another one, or of a model that does not count votes.
    ResponsesError
        Known labels of unknown items or classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    >>> bf.sources(votes, truth={0: 1, 3: 1})[["coverage", "empirical_accuracy"]].values.tolist()
    [[0.5, 1.0], [0.5, 1.0], [0.5, 0.0]]
    """
    source_table = responses_or_model
    model = source_table if isinstance(source_table, LabelModel) else None
    stored_result: xr.DataTree | None = (
        source_table if isinstance(source_table, xr.DataTree) else None
    )
    if stored_result is not None:
        responses = responses_of(stored_result)
    else:
        responses = read_table(source_table)[0] if model is None else model.responses
    known = None if truth is None else gold_labels(responses, read_gold(truth, responses))
    cells, table_of_sources = _overlap_note(responses, known)
    if stored_result is not None and not {"vote_share", "firing"} & set(all_draws(stored_result)):
        return _with_expected(stored_result, responses, cells, table_of_sources, ci_prob)
    result = result if stored_result is None else stored_result
    if result is None:
        return table_of_sources
    alone = model is None and stored_result is None  # a table, and a result without its model
    observation = None if alone else observation_of(result, model)
    votes = None if observation is None else observation.raters
    weight = getattr(model, "weight", result.attrs.get("vote_weight"))
    if observation is None or not isinstance(votes, Votes) or weight is None:
        raise ModelError(
            "Accuracies of votes follow from a model of labelling functions and its result: "
            f"bf.sources(result). Got: {type(source_table).__name__}."
        )
    doubt = float(result.attrs.get("dispersion", 1.0)) - 1.0
    vote = votes.column.ravel()[cells]
    worth = float(weight) + votes.by_class(responses, observation.gold).sum(axis=1)
    accuracy = {"accuracy": _accuracy(votes, responses, result, doubt, worth)}
    for name, rate in _with_ends(accuracy, ("lower", "upper"), ci_prob).items():
        table_of_sources[name] = rate.values[vote]
    return table_of_sources


def _with_expected(
    result: xr.DataTree,
    responses: Responses,
    cells: NDArray[np.int64],
    table_of_sources: pd.DataFrame,
    ci_prob: float | None,
) -> pd.DataFrame:
    """Add how often votes are right by the labels of a result, with intervals by joint draws."""
    labels = label_probabilities(result).sel({"item": responses.items, "class": responses.classes})
    probability = labels.transpose("item", "class").values
    copies = responses.multiplicity[responses.item].astype(float)
    n_cells = responses.n_raters * responses.n_classes

    def share(right: NDArray[Any]) -> Array:
        votes = np.bincount(responses.cell, copies, n_cells)[cells]
        shares: Array = np.bincount(responses.cell, copies * right, n_cells)[cells] / votes
        return shares

    table_of_sources["accuracy"] = share(probability[responses.item, responses.label])
    drawn = joint_labels(result)
    if drawn is None or not responses.is_unweighted:
        return table_of_sources
    shares_drawn = np.array([share(row[responses.item] == responses.label) for row in drawn])
    table_of_sources["accuracy_lower"], table_of_sources["accuracy_upper"] = np.quantile(
        shares_drawn, tails(ci_prob), axis=0
    )
    return table_of_sources


def _with_ends(
    by_name: Mapping[str, xr.DataArray], ends: tuple[str, str], ci_prob: float | None
) -> dict[str, xr.DataArray]:
    """Return means over draws, each followed by the ends of its interval."""
    columns = {}
    for name, drawn in by_name.items():
        columns[name] = drawn.mean(("chain", "draw"))
        for end, bound in zip(ends, interval(drawn, ci_prob), strict=True):
            columns[f"{name}_{end}"] = bound
    return columns


def _overlap_note(
    responses: Responses, truth: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], pd.DataFrame]:
    """Return the cells that occur, and by source and label how much they say, meet and are right.

    ``truth`` (items,) holds known classes, else −1.
    """
    columns = {"item": responses.item, "source": responses.rater, "label": responses.label}
    votes = pd.DataFrame(columns).drop_duplicates()  # repeated votes count once
    item, label = votes["item"].to_numpy(), votes["label"].to_numpy()
    number, alike, n_votes = (
        votes.groupby(by)["label"].transform("size")
        for by in (["item"], ["item", "label"], ["item", "source"])
    )
    # of all votes, leave out those for this label and the source's own for others
    flags = {
        "coverage": 1,
        "overlaps": number > n_votes,
        "conflicts": number - alike - (n_votes - 1) > 0,
    }
    if truth is not None:
        known, right = truth[item] >= 0, truth[item] == label
        flags |= {"correct": known & right, "incorrect": known & ~right}
    counts = pd.DataFrame(flags, votes.index).mul(responses.multiplicity[item], axis=0)
    table = counts.groupby([votes["source"], votes["label"]]).sum()
    shares = ["coverage", "overlaps", "conflicts"]
    table[shares] /= responses.multiplicity.sum()
    if truth is not None:
        total = table["correct"] + table["incorrect"]
        table["empirical_accuracy"] = (table["correct"] / total).where(total > 0)
    source, label_code = (table.index.get_level_values(name).to_numpy() for name in INDEX)
    names = [responses.raters[source], responses.classes[label_code]]
    table.index = pd.MultiIndex.from_arrays(names, names=INDEX)
    return source * responses.n_classes + label_code, table


def _accuracy(
    votes: Votes, responses: Responses, result: xr.DataTree, doubt: float, weight: Array
) -> xr.DataArray:
    """Return how often votes are right, (chain, draw, vote)."""
    rate = votes.declared[0].name  # shares of the votes in a class, or rates of firing
    share = posterior_draws(result, rate)[rate]
    prevalence = constants(result).get("prevalence")
    if prevalence is None:
        prevalence = posterior_draws(result, "prevalence")["prevalence"]
    is_class = xr.DataArray(np.eye(responses.n_classes)[votes.label_of], dims=("vote", "class"))
    joint = prevalence * share
    right = (joint * is_class).sum("class") / joint.sum("class")
    accuracy: xr.DataArray = right.transpose("chain", "draw", "vote").clip(0.0, 1.0)
    if doubt > 0:
        number = votes.numbers(responses)
        worth = weight + number / (1.0 + doubt * number / weight)  # independent votes
        mean = np.clip(accuracy.values, 1e-6, 1.0 - 1e-6)
        drawn = np.random.default_rng(SEED).beta(worth * mean, worth * (1.0 - mean))
        accuracy = accuracy.copy(data=drawn)
    return accuracy
