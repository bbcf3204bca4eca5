"""One table of raters for every result: accuracy, grades, spans, and coverage of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.known import gold_labels, read_populations
from bayesfuse.data.known_sets import known_answers
from bayesfuse.data.label_sets import LabelSets
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import Table, read_table
from bayesfuse.data.tags import mark_spans
from bayesfuse.data.vote_counts import VOTERS
from bayesfuse.errors import ModelError, require_choice
from bayesfuse.errors.keywords import explains_keywords
from bayesfuse.results.abilities import (
    abilities,
    abilities_of_items,
    dispersion_of,
    is_of_rules,
)
from bayesfuse.results.contents import (
    all_draws,
    class_names,
    constants,
    copies_of,
    named,
    observed_labels,
    observed_rows,
    require_rows,
    stored as stored_variable,
)
from bayesfuse.results.item_grades import class_values, require_ordered
from bayesfuse.results.joint_labels import GROUP, stored
from bayesfuse.results.label_sets import SETS, table_of_raters
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.schema import LABEL_POSTERIOR, ORDERED_CLASSES, SEQUENCE_PLACE
from bayesfuse.results.span_tables import rater_spans
from bayesfuse.results.summaries import interval, responses_per_rater, with_positive_class

VOTES = "vote shares"  # name of the vote shares among the models of an answer


@explains_keywords
def rater_table(
    result: xr.DataTree | Table | LabelSets,
    by: Any = None,
    *,
    truth: Any = None,
    columns: Literal["main", "all"] = "main",
    ci_prob: float | None = None,
) -> pd.DataFrame:
    r"""Return the abilities of all raters with intervals, the largest lower end first.

    An ability is the probability that the next response to an item like these is right. It is drawn
    for every joint draw of the true labels, in which known labels are fixed, given the counts of
    right responses, partially pooled over raters: a rater of one response has a wide interval.
    Plots, ranks and reports show the same numbers, and ``fused["posterior"]`` has the draws;
    parameters of models, in the results of single models, are not abilities.

    Parameters
    ----------
    result : DataTree
        Of any model of raters, or an answer of :func:`bayesfuse.fuse`. A table as in
        :func:`bayesfuse.fuse` has no abilities, but coverage, overlaps and conflicts; of label sets
        they are over the questions whether an item has a label.
    by : mapping, Series or array, optional
        Group of every item, as in :func:`class_shares`, each with rows of its own. Of label sets,
        "label": rows for every label; by default those over all labels.
    truth : optional
        Known labels of some items, as ``gold`` of :func:`bayesfuse.fuse`, which ``known_accuracy``
        counts and spans are compared with; items that are not in the table are left out. Default
        the known labels of the result; for spans, its joint draws.
    columns : {"main", "all"}
        Columns that print on a page, or all.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        ``group`` (with ``by``), ``rater`` and number of ``responses`` (without answers of several
        classes), in decreasing order of ``low``. The interval of ``accuracy`` is ``low`` and
        ``high``. With ``columns="all"``, the other abilities have one, too, ``…_low`` and
        ``…_high``, and there are those in brackets:

        * ``accuracy``, over the classes as the rater meets them; ``balanced_accuracy``, their mean
          over the classes; for two classes ``sensitivity``, ``specificity`` [and ``bias``, the
          share of responses that are the second class, minus that of these items], for more
          [``sensitivity[class]`` and ``bias[class]``]. The name of the columns and
          ``attrs["positive"]`` state the positive one of two classes.
        * With known labels, the number of ``known`` responses and the share of them that is right,
          ``known_accuracy``.
        * Ordered classes: ``grade_bias``, the mean difference between given and true grade
          (negative for strict raters), and ``grade_error``, the mean absolute one, in units as in
          :func:`bayesfuse.decisions.item_grades`. With ``raters="graded"`` also the parameters
          ``strictness`` (mean shift of thresholds) and ``precision``, in distances of classes, and
          ``guess_rate``.
        * Sequences with tags of spans: ``spans``, their number, ``span_f1`` [``span_precision``,
          ``span_recall`` among spans all of whose items the rater labelled], of exact borders and
          kind. Precision is missing for raters who marked no span.
        * Labelling functions: ``accuracy`` is the precision where they fire. They, and tables, have
          shares of all items with a response of the rater (``coverage``), also one of another rater
          (``overlaps``), and for a different label (``conflicts``); and ``dispersion`` of all
          votes, relative to independent ones, by which intervals are wider.

    Raises
    ------
    ModelError
        A result without responses, parameters of raters and labels, such as vote shares.
    ResponsesError
        Known labels of unknown items or classes.

    Notes
    -----
    Given labels, logits of abilities are normal around a mean of the class plus a level of the
    rater; copies of a rater's response to an item count as one. Differences of known labels from
    their probabilities without them correct the counts of other items, partially pooled over
    raters. Results without joint draws of the labels (of :func:`bayesfuse.find_map`, of counts, of
    very large tables) have the abilities that their parameters are.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> result = bf.find_map(bf.models.DawidSkene(bf.datasets.caries()))
    >>> bf.rater_table(result)["rater"].tolist()[0]
    'dentist 3'
    >>> votes = bf.Responses.from_matrix([[1, -1, 0], [1, 1, -1], [-1, -1, 0], [-1, 1, -1]])
    >>> columns = ["coverage", "known_accuracy"]
    >>> bf.rater_table(votes, truth={0: 1, 3: 1})[columns].values.tolist()
    [[0.5, 1.0], [0.5, 1.0], [0.5, 0.0]]
    """
    require_choice("columns", columns, "main", "all")
    if isinstance(result, LabelSets):
        known = None if truth is None else known_answers(result, truth)
        return _without_model(over_labels(result), by, known)
    if not isinstance(result, xr.DataTree):
        return _without_model(read_table(result)[0], by, truth)
    if SETS in result.children:
        return table_of_raters(result, by, columns, ci_prob)
    if is_of_votes(result):
        raise ModelError(
            "Raters of counts of votes are unknown, so they are not judged; tables with a row per "
            "response (bf.Responses.from_long) name them. Got: a result of "
            "bf.Responses.from_votes."
        )
    if not judges_raters(result):
        raise ModelError(
            "The accuracy of raters needs models: vote shares have no parameters of raters. Got: "
            f"an answer by {'; '.join(result.attrs['models'])}."
        )
    if by is None:
        drawn = abilities(result)
        table = _of_abilities(result, drawn, columns, ci_prob)
        known = _known(result, truth)
        table = table if known is None else table.join(known, on="rater")
        for more in _of_this_model(result, drawn, truth, columns, ci_prob):
            table = table.join(more, on="rater")
    else:
        table = _by_group(result, by, truth, columns, ci_prob)
    has_rates = {"sensitivity", "specificity"} <= set(table)
    return with_positive_class(table, class_names(result)) if has_rates else table


def judges_raters(result: xr.DataTree) -> bool:
    """Return whether raters can be judged, which vote shares alone cannot."""
    is_vote_shares = result.attrs.get("models") == [VOTES]
    has_raters = not is_vote_shares or "known_labels" in result.children
    return has_raters and not is_of_votes(result)


def is_of_votes(result: xr.DataTree) -> bool:
    """Return whether a result is of counts of votes, whose raters are unknown."""
    return "rater" in (known := constants(result)) and known["rater"].values.tolist() == [VOTERS]


def _by_group(
    result: xr.DataTree, by: Any, truth: Any, columns: str, ci_prob: float | None
) -> pd.DataFrame:
    """Return the rows of every group of items, of raters with responses to them."""
    item, rater, _ = require_rows(result, "The accuracy of raters")
    names, code = read_populations(
        result["label_posterior"].dataset["item"].values, by, what="by=", group="group"
    )
    stored(result)  # counted in joint draws of the labels
    tables = []
    for at, name in enumerate(names.tolist()):
        drawn = abilities_of_items(result, code == at)
        number = np.bincount(rater[code[item] == at], minlength=drawn.sizes["rater"])
        table = _of_abilities(result, drawn, columns, ci_prob, number)
        known = _known(result, truth, code == at)
        table = table if known is None else table.join(known, on="rater")
        table.insert(0, "group", [name] * len(table))
        tables.append(table[table["responses"] > 0])
    return pd.concat(tables, ignore_index=True)


def _of_abilities(
    result: xr.DataTree,
    drawn: xr.Dataset,
    columns: str,
    ci_prob: float | None,
    number: NDArray[np.int64] | None = None,
) -> pd.DataFrame:
    """Return abilities with intervals, the largest lower end of the accuracy first."""
    main, more = {"accuracy": drawn["accuracy"]}, {}
    if "balanced_accuracy" in drawn:
        classes = class_names(result)
        main["balanced_accuracy"] = drawn["balanced_accuracy"]
        bias = drawn.get("bias")
        if len(classes) == 2:
            main |= {name: drawn[name] for name in ("sensitivity", "specificity")}
            more = {} if bias is None else {"bias": bias.isel({"class": 1}, drop=True)}
        else:
            for name in ("sensitivity", "bias"):
                more |= {
                    f"{name}[{truth}]": drawn[name].isel({"class": at}, drop=True)
                    for at, truth in enumerate(classes)
                }
    summaries = _with_ends(main | more if columns == "all" else main, ci_prob)
    ends = {"accuracy_low": "low", "accuracy_high": "high"}
    if columns == "main":
        summaries = {name: mean for name, mean in summaries.items() if name in {*main, *ends}}
    table = xr.Dataset(summaries).to_dataframe()[list(summaries)].rename(columns=ends)
    table.insert(0, "responses", responses_per_rater(result) if number is None else number)
    table = table.reset_index().sort_values(
        ["low", "accuracy"], ascending=False, kind="stable", ignore_index=True
    )
    return table


def _known(
    result: xr.DataTree, truth: Any, here: NDArray[np.bool_] | None = None
) -> pd.DataFrame | None:
    """Return numbers of responses to known items, and right ones, None without known labels."""
    if truth is not None:
        responses = observed_labels(result)
        gold = _true_classes(truth, responses)
    elif "gold" in constants(result):
        gold = constants(result)["gold"].values
    else:
        return None
    rows, known = observed_rows(result), constants(result)
    if rows is None:
        return None
    copies = copies_of(result, len(gold))
    gold = gold if here is None else np.where(here, gold, -1)
    return _on_known(rows, copies, gold, known["rater"].values)


def _true_classes(truth: Any, responses: Responses) -> NDArray[np.int64]:
    """Return the class of each item, −1 if unknown, of a truth that may name other items, too."""
    labels, items = read_gold(truth, responses), set(responses.items.tolist())
    of_table: Any
    if isinstance(labels, pd.Series):
        of_table = labels[[name in items for name in labels.index]]
    else:
        of_table = {name: label for name, label in (labels or {}).items() if name in items}
    return gold_labels(responses, of_table if len(of_table) else labels)


def _of_this_model(
    result: xr.DataTree, drawn: xr.Dataset, truth: Any, columns: str, ci_prob: float | None
) -> Iterator[pd.DataFrame]:
    """Yield columns by rater that only some models have."""
    known = constants(result)
    is_graded = known.attrs.get(ORDERED_CLASSES, 0) and len(class_names(result)) > 2
    if is_graded and "confusion" in drawn and LABEL_POSTERIOR in result.children:
        grades = _grades(result, drawn, ci_prob).drop_vars("responses").to_dataframe()
        bias_or_error = [name for name in grades if name.startswith(("bias", "error"))]
        grades = grades.rename(columns={name: f"grade_{name}" for name in bias_or_error})
        yield grades if columns == "all" else grades.loc[:, ~_are_ends(grades)]
    if GROUP in result.children and SEQUENCE_PLACE in known and mark_spans(class_names(result)):
        spans = rater_spans(result, truth, ci_prob=ci_prob)
        spans = spans.rename(columns=lambda name: name if name == "spans" else f"span_{name}")
        yield spans if columns == "all" else spans[["spans", "span_f1"]]
    if is_of_rules(result):
        yield _overlaps(observed_labels(result)).assign(dispersion=dispersion_of(result))


def _are_ends(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which columns are ends of intervals."""
    return np.array([name.endswith(("_low", "_high")) for name in table])


def over_labels(sets: LabelSets) -> Responses:
    """Return the answers to all questions with a rater for every person, not one for each label."""
    table = sets.questions
    codes = table.item, table.rater // sets.n_labels, table.label
    return table.with_rows(*codes, raters=sets.raters)


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
    known = _true_classes(truth, responses)
    rows = responses.item, responses.rater, responses.label
    known = _on_known(rows, responses.multiplicity, known, responses.raters)
    return table.join(known, on="rater")


def _on_known(
    rows: tuple[NDArray[Any], ...], copies: NDArray[Any], gold: NDArray[Any], raters: NDArray[Any]
) -> pd.DataFrame:
    """Count by rater the responses to items of known class (−1 where unknown), and right ones."""
    item, rater, label = rows
    is_known = gold[item] >= 0
    is_right = is_known & (gold[item] == label)
    known, right = (
        np.bincount(rater, copies[item] * which, len(raters)) for which in (is_known, is_right)
    )
    accuracy = np.divide(right, known, out=np.full(len(known), np.nan), where=known > 0)
    return pd.DataFrame({"known": known.astype(np.int64), "known_accuracy": accuracy}, raters)


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
    return _grades(result, abilities(result), ci_prob)


def _grades(result: xr.DataTree, drawn: xr.Dataset, ci_prob: float | None) -> xr.Dataset:
    """Return the same for abilities, and parameters of graded raters."""
    draws = stored_variable(drawn, "confusion")
    draws = draws.transpose("chain", "draw", "rater", "class", "answer")
    values = class_values(draws["class"].values)
    labels = label_probabilities(result)
    share = np.average(labels.values, axis=0, weights=copies_of(result, labels.sizes["item"]))
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
