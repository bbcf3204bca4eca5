"""One table of raters for every result: accuracy, grades, spans, and coverage of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.known import gold_labels
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.data.tags import mark_spans
from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ResponseModel
from bayesfuse.raters.votes import NOBODY, Votes
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    named,
    of_all_draws,
    responses_of,
)
from bayesfuse.results.item_grades import class_values, require_ordered
from bayesfuse.results.joint_labels import GROUP
from bayesfuse.results.posterior import ORDERED, PLACE
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.span_tables import rater_spans
from bayesfuse.results.summaries import (
    balanced_accuracy,
    interval,
    posterior_draws,
    rater_accuracy,
    responses_per_rater,
    with_positive_class,
)

VOTES = "vote shares"  # name of the vote shares among the models of an answer

COUNTED = {GROUP, "observed_data"}  # groups from which accuracies are counted

SEED = 1  # of the draws that widen intervals, so that a table is always the same


def rater_table(
    result: xr.DataTree | Table,
    by: Any = None,
    *,
    truth: Any = None,
    ci_prob: float | None = None,
) -> pd.DataFrame:
    r"""Return how often every rater is right, the best first, with what the model adds to it.

    Responses are compared with joint draws of the true labels, in which known labels are fixed;
    these minus their probabilities without them also correct accuracies, partially pooled over
    raters. Without joint draws (tables of counts, very large ones), ``balanced_accuracy`` is of
    the parameters.

    Parameters
    ----------
    result : DataTree
        Of any model with parameters of raters, or an answer of :func:`bayesfuse.fuse`. A table as
        in :func:`bayesfuse.fuse` has no accuracies, but coverage, overlaps and conflicts.
    by : mapping, Series or array, optional
        Group of every item, as in :func:`class_shares`, each with rows of its own, of accuracies.
    truth : optional
        Known labels of some items, as ``gold`` of :func:`bayesfuse.fuse`, which ``known_accuracy``
        counts and spans are compared with. Default the known labels of the result; for spans, its
        joint draws.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        ``group`` (with ``by``), ``rater`` and number of ``responses``. Columns with an interval are
        followed by its ends, ``…_low`` and ``…_high`` (of ``accuracy``: ``low`` and ``high``):

        * ``accuracy`` (share of right responses), ``balanced_accuracy`` (mean share of the items of
          a class that are recognised); for two classes ``sensitivity``, ``specificity`` and
          ``bias`` (share of responses that are the second class, minus that of these items), for
          more ``sensitivity[class]`` and ``bias[class]``. Missing for classes of less than half an
          expected item. The name of the columns and ``attrs["positive"]`` state the positive one of
          two classes.
        * ``known`` responses to items of known class, and ``known_accuracy``.
        * Ordered classes: ``grade_bias``, the mean difference between given and true grade
          (negative for strict raters), and ``grade_error``, the mean absolute one, in units as in
          :func:`bayesfuse.decisions.item_grades`. With ``raters="graded"`` also the parameters
          ``strictness`` (mean shift of thresholds) and ``precision``, in distances of classes, and
          ``guess_rate``.
        * Sequences with tags of spans: ``spans``, their number, ``span_precision``, ``span_recall``
          (among spans all of whose items the rater labelled) and ``span_f1``, of exact borders and
          kind. Precision is missing for raters who marked no span.
        * Labelling functions, and tables: shares of all items with a response of the rater
          (``coverage``), also one of another rater (``overlaps``), and for a different label
          (``conflicts``). If votes are dispersed by φ, the accuracy is that of
          :math:`n / (1 + (\varphi - 1)\, n / s)` instead of n votes, with s the weight of the prior
          and the votes on items of known class.

    Raises
    ------
    ModelError
        A result without parameters of raters and joint draws of the labels, such as vote shares.
    ResponsesError
        Known labels of unknown items or classes.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.rater_table(result)["rater"].tolist()[0]
    'dentist 2'
    >>> votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    >>> columns = ["coverage", "known_accuracy"]
    >>> bf.rater_table(votes, truth={0: 1, 3: 1})[columns].values.tolist()
    [[0.5, 1.0], [0.5, 1.0], [0.5, 0.0]]
    """
    if not isinstance(result, xr.DataTree):
        return _without_model(read_table(result)[0], by, truth)
    table = accuracies(result, by, ci_prob)
    if truth is not None:
        responses = responses_of(result)
        known = _on_known(responses, gold_labels(responses, read_gold(truth, responses)))
        table = table.drop(columns=list(known), errors="ignore").join(known, on="rater")
    if by is None:
        for columns in _of_this_model(result, truth, ci_prob):
            table = table.join(columns, on="rater")
    has_rates = {"sensitivity", "specificity"} <= set(table)
    return with_positive_class(table, class_names(result)) if has_rates else table


def accuracies(result: xr.DataTree, by: Any = None, ci_prob: float | None = None) -> pd.DataFrame:
    """Return the accuracy of every rater: counted in joint draws, of votes, or of parameters."""
    if _is_vote_shares(result):
        raise ModelError(
            "The accuracy of raters needs models: vote shares have no parameters of raters. Got: "
            f"an answer by {', '.join(result.attrs['models'])}."
        )
    observation = None if by is not None else _vote_model(result)
    if observation is not None:
        return _vote_accuracy(result, observation, ci_prob)
    is_counted = set(result.children) >= COUNTED and of_all_draws(result)
    if by is not None or is_counted or named(all_draws(result), "sensitivity") is None:
        return rater_accuracy(result, by, ci_prob)
    columns = _with_ends({"balanced_accuracy": balanced_accuracy(result)}, ci_prob)
    table = xr.Dataset(columns).to_dataframe().reset_index()
    table.insert(1, "responses", responses_per_rater(result))
    return table.sort_values("balanced_accuracy", ascending=False, ignore_index=True)


def judges_raters(result: xr.DataTree) -> bool:
    """Return whether raters can be judged, by joint draws of the labels or by parameters."""
    if _is_vote_shares(result):
        return False
    is_counted = set(result.children) >= COUNTED
    has_rates = "vote_weight" in result.attrs or named(all_draws(result), "sensitivity") is not None
    return is_counted or has_rates


def _is_vote_shares(answer: xr.DataTree) -> bool:
    return answer.attrs.get("models") == [VOTES] and "known_labels" not in answer.children


def _of_this_model(
    result: xr.DataTree, truth: Any, ci_prob: float | None
) -> Iterator[pd.DataFrame]:
    """Yield columns by rater that only some models have."""
    known = constants(result)
    if known.attrs.get(ORDERED, 0) and named(all_draws(result), "confusion") is not None:
        grades = rater_grades(result, ci_prob=ci_prob).drop_vars("responses").to_dataframe()
        bias_or_error = [name for name in grades if name.startswith(("bias", "error"))]
        yield grades.rename(columns={name: f"grade_{name}" for name in bias_or_error})
    if GROUP in result.children and PLACE in known and mark_spans(class_names(result)):
        spans = rater_spans(result, truth, ci_prob=ci_prob)
        yield spans.rename(columns=lambda name: name if name == "spans" else f"span_{name}")
    members = result["models"].children.values() if "models" in result.children else [result]
    if any("vote" in all_draws(member).dims for member in members):
        yield _overlaps(responses_of(result))


def _without_model(responses: Responses, by: Any, truth: Any) -> pd.DataFrame:
    """Return the columns that need no result."""
    if by is not None:
        raise ModelError(
            "by= is for the accuracies of a result: a table alone has none. Got: a table and by=."
        )
    table = pd.DataFrame({"rater": responses.raters, "responses": responses.per_rater})
    table = table.join(_overlaps(responses), on="rater")
    if truth is None:
        return table
    known = gold_labels(responses, read_gold(truth, responses))
    return table.join(_on_known(responses, known), on="rater")


def _on_known(responses: Responses, gold: NDArray[np.int64]) -> pd.DataFrame:
    """Count by rater the responses to items of known class (−1 where unknown), and right ones."""
    is_known = gold[responses.item] >= 0
    is_right = is_known & (gold[responses.item] == responses.label)
    copies = responses.multiplicity[responses.item]
    known, right = (
        np.bincount(responses.rater, copies * which, responses.n_raters)
        for which in (is_known, is_right)
    )
    accuracy = np.divide(right, known, out=np.full(len(known), np.nan), where=known > 0)
    columns = {"known": known.astype(np.int64), "known_accuracy": accuracy}
    return pd.DataFrame(columns, responses.raters)


def _overlaps(responses: Responses) -> pd.DataFrame:
    """Return the shares of items that a rater labels, with others, and against others."""
    columns = {"item": responses.item, "rater": responses.rater, "label": responses.label}
    votes = pd.DataFrame(columns).drop_duplicates()  # repeated votes count once
    of_item, of_label, of_rater = (
        votes.groupby(by)["label"].transform("size")
        for by in (["item"], ["item", "label"], ["item", "rater"])
    )
    votes["overlaps"] = of_item > of_rater
    # of all votes, leave out those for this label and the rater's other labels
    votes["conflicts"] = of_item - of_label - (of_rater - 1) > 0
    labelled = votes.groupby(["item", "rater"])[["overlaps", "conflicts"]].any().reset_index()
    labelled.insert(2, "coverage", True)
    copies = responses.multiplicity[labelled["item"]]
    counts = labelled.drop(columns=["item", "rater"]).mul(copies, axis=0)
    shares = counts.groupby(labelled["rater"]).sum() / responses.multiplicity.sum()
    shares = shares.reindex(range(responses.n_raters), fill_value=0.0)
    return shares.set_axis(responses.raters)


def rater_grades(result: xr.DataTree, *, ci_prob: float | None = None) -> xr.Dataset:
    """Return how strict and how precise every rater of ordered classes is, with intervals."""
    require_ordered(result)
    draws = posterior_draws(result, "confusion")["confusion"]
    draws = draws.transpose("chain", "draw", "rater", "class", "answer")
    values = class_values(draws["class"].values)
    known = constants(result)
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
    columns = _with_ends(by_name, ci_prob)
    columns["responses"] = xr.DataArray(responses_per_rater(result), dims="rater")
    return xr.Dataset(columns)


def _with_ends(
    by_name: Mapping[str, xr.DataArray], ci_prob: float | None
) -> dict[str, xr.DataArray]:
    """Return means over draws, each followed by the ends of its interval."""
    columns = {}
    for name, drawn in by_name.items():
        columns[name] = drawn.mean(("chain", "draw"))
        for end, bound in zip(("low", "high"), interval(drawn, ci_prob), strict=True):
            columns[f"{name}_{end}"] = bound
    return columns


def _vote_model(result: xr.DataTree) -> ResponseModel | None:
    """Return the model of a result of labelling functions, None for other results."""
    if "vote" not in all_draws(result).dims or "vote_weight" not in result.attrs:
        return None
    observation = observation_of(result, None)
    return observation if isinstance(observation.raters, Votes) else None


def _vote_accuracy(
    result: xr.DataTree, observation: ResponseModel, ci_prob: float | None
) -> pd.DataFrame:
    """Return how often a rater's votes are right, over the labels that it votes for."""
    responses = responses_of(result)
    channel: Any = observation.raters
    column = channel.column.ravel()[responses.cell]
    is_vote = column != NOBODY
    n_votes = np.zeros((responses.n_raters, channel.n_votes))
    copies = responses.multiplicity[responses.item]
    np.add.at(n_votes, (responses.rater[is_vote], column[is_vote]), copies[is_vote])
    with np.errstate(invalid="ignore"):  # NaN for raters without votes
        share = n_votes / n_votes.sum(axis=1, keepdims=True)
    drawn = _accuracy_of_votes(channel, responses, result, observation.gold)
    accuracy = xr.DataArray(
        drawn @ share.T,
        {"rater": responses.raters},
        ("chain", "draw", "rater"),
    )
    table = xr.Dataset(_with_ends({"accuracy": accuracy}, ci_prob)).to_dataframe().reset_index()
    table = table.rename(columns={"accuracy_low": "low", "accuracy_high": "high"})
    table.insert(1, "responses", responses_per_rater(result))
    table = table.join(_on_known(responses, observation.gold), on="rater")
    return table.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)


def _accuracy_of_votes(
    votes: Votes, responses: Responses, result: xr.DataTree, gold: NDArray[np.int64]
) -> Array:
    """Return how often votes are right, (chain, draw, vote), less certain where dispersed."""
    rate = votes.declared[0].name  # shares of the votes in a class, or rates of firing
    share = posterior_draws(result, rate)[rate]
    prevalence = constants(result).get("prevalence")
    if prevalence is None:
        prevalence = posterior_draws(result, "prevalence")["prevalence"]
    is_class = xr.DataArray(np.eye(responses.n_classes)[votes.label_of], dims=("vote", "class"))
    joint = prevalence * share
    right = (joint * is_class).sum("class") / joint.sum("class")
    accuracy: Array = right.transpose("chain", "draw", "vote").clip(0.0, 1.0).values
    excess = float(result.attrs.get("dispersion", 1.0)) - 1.0
    if excess <= 0:
        return accuracy
    weight = float(result.attrs["vote_weight"]) + votes.by_class(responses, gold).sum(axis=1)
    number = votes.numbers(responses)
    size = weight + number / (1.0 + excess * number / weight)  # independent votes
    mean = np.clip(accuracy, 1e-6, 1.0 - 1e-6)
    return np.random.default_rng(SEED).beta(size * mean, size * (1.0 - mean))
