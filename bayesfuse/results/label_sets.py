"""Results on items that may have several labels: sets, and raters by label and over all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import shown
from bayesfuse.errors import ModelError, require_choice, require_numbers
from bayesfuse.results.joint_labels import stored
from bayesfuse.results.summaries import interval

SETS = "label_sets"  # group of an answer: labels (item, label), and the probability of the sets


def summarize_sets(result: xr.DataTree, items: NDArray[Any], labels: NDArray[Any]) -> xr.Dataset:
    """Return probabilities of labels and of whole sets, from a result on their questions.

    A set holds the labels that are more probable than not. Its probability is the share of joint
    draws of all labels of the item that are equal to it.
    """
    shape = len(items), len(labels)
    posterior = result["label_posterior"].dataset["probability"].transpose("item", "class")
    probability = posterior.values[:, 1].reshape(shape)
    drawn = stored(result).reshape(-1, *shape)
    return xr.Dataset(
        {
            "probability": (("item", "label"), probability),
            "set_probability": ("item", (drawn == (probability > 0.5)).all(axis=2).mean(axis=0)),
        },
        {"item": items, "label": labels},
    )


def table_of_sets(result: xr.DataTree, costs: Any = None) -> pd.DataFrame:
    """Return one row per item: its labels, the probability of the set and of every label.

    With ``costs``, as of :func:`costs_of_labels`, the labels are those of least expected cost,
    which is a column, too.
    """
    sets = result[SETS].dataset
    probability, set_probability = sets["probability"].values, sets["set_probability"].values
    names = sets["label"].values
    is_set = probability > 0.5
    expected = {}
    if costs is not None:
        missed, wrong = costs_of_labels(costs, names)
        is_set = probability * missed > (1.0 - probability) * wrong
        cost = np.where(is_set, (1.0 - probability) * wrong, probability * missed)
        expected["cost"] = cost.sum(axis=1)
        drawn = stored(result).reshape(-1, *probability.shape)
        set_probability = (drawn == is_set).all(axis=2).mean(axis=0)
    table = pd.DataFrame(
        {
            "item": sets["item"].values,
            "labels": [tuple(names[row].tolist()) for row in is_set],
            "probability": set_probability,
            **expected,
        }
    )
    columns = [f"probability[{name}]" for name in names.tolist()]
    return pd.concat([table, pd.DataFrame(probability, columns=columns)], axis=1)


def costs_of_labels(costs: Any, names: NDArray[Any]) -> NDArray[np.float64]:
    """Return what it costs to leave out every label, and to set it wrongly, (2, labels)."""
    if isinstance(costs, pd.DataFrame) and {"missed", "wrong"} <= set(costs):
        costs = dict(zip(costs.index, costs[["missed", "wrong"]].to_numpy(), strict=True))
    is_mapping = isinstance(costs, Mapping) and set(costs) <= set(names.tolist())
    pairs = [costs.get(name, (1.0, 1.0)) for name in names.tolist()] if is_mapping else []
    table = require_numbers("costs", pairs)
    if table.shape != (len(names), 2) or not (table >= 0.0).all():
        got = shown(list(costs), 3) if isinstance(costs, Mapping) else type(costs).__name__
        raise ModelError(
            "Costs of label sets map labels to two numbers from zero on, what it costs to miss the "
            "label and to set it wrongly (others cost 1 and 1), or are a DataFrame with labels in "
            f"the index and the columns missed and wrong. Got: {got}."
        )
    return table.T


def table_of_raters(
    result: xr.DataTree, by: Any = None, columns: str = "main", ci_prob: float | None = None
) -> pd.DataFrame:
    """Return abilities of raters over all labels or, with ``by="label"``, for every label.

    Abilities over all labels are means over the labels, weighted by the number of answers of the
    rater; a sensitivity also by how many items have the label, a specificity by how many do not.
    Accuracy is the probability that the answer to a question on one of these items is right.
    """
    require_choice("columns", columns, "main", "all")
    if by is not None and not (isinstance(by, str) and by == "label"):
        raise ModelError(
            'Raters of label sets are judged over all labels or by="label". Got: '
            f"by of type {type(by).__name__}."
        )
    draws = abilities_by_label(result)
    rate = result[SETS].dataset["probability"].mean("item")  # share of items with the label
    responses = result["constant_data"].dataset
    number = np.bincount(
        responses["rater_index"].values, minlength=draws.sizes["rater"] * draws.sizes["label"]
    ).reshape(draws.sizes["rater"], -1)
    if by is None:
        draws = _over_labels(draws, rate, number)
    table: dict[str, xr.DataArray] = {}
    for name in ("accuracy", "balanced_accuracy", "sensitivity", "specificity"):
        table[name] = draws[name].mean(("chain", "draw"))
        if name == "accuracy" or columns == "all":
            for end, bound in zip(("low", "high"), interval(draws[name], ci_prob), strict=True):
                table[end if name == "accuracy" else f"{name}_{end}"] = bound
    dims = ("rater",) if by is None else ("label", "rater")
    frame = xr.Dataset(table).to_dataframe(dim_order=list(dims)).reset_index()
    responses_of = number.sum(axis=1) if by is None else number.T.ravel()
    frame.insert(len(dims), "responses", responses_of)
    if by is not None:
        return frame.rename(columns={"label": "group"})
    return frame.sort_values(["low", "accuracy"], ascending=False, ignore_index=True)


def _over_labels(draws: xr.Dataset, rate: xr.DataArray, number: NDArray[Any]) -> xr.Dataset:
    """Return abilities (chain, draw, rater) over labels, as often as a rater answered on each."""
    answers = xr.DataArray(number, dims=("rater", "label"))
    answers = answers.where(answers.sum("label") > 0, 1)  # without answers all labels count alike
    overall = xr.Dataset(
        {
            name: draws[name].weighted(answers * weight).mean("label")
            for name, weight in (("sensitivity", rate), ("specificity", 1.0 - rate))
        }
    )
    overall["accuracy"] = draws["accuracy"].weighted(answers).mean("label")
    overall["balanced_accuracy"] = (overall["sensitivity"] + overall["specificity"]) / 2.0
    return overall


def abilities_by_label(result: xr.DataTree) -> xr.Dataset:
    """Return draws (chain, draw, rater, label) of accuracy, sensitivity and specificity."""
    posterior, sets = result["posterior"].dataset, result[SETS].dataset
    raters, labels = posterior["annotator"].values, sets["label"].values
    rate = sets["probability"].mean("item")
    drawn = {}
    for name in ("sensitivity", "specificity"):
        values = posterior[name].transpose("chain", "draw", "rater").values
        by_label = values.reshape(*values.shape[:2], len(raters), len(labels))
        drawn[name] = (("chain", "draw", "rater", "label"), by_label)
    by_name = xr.Dataset(drawn, {"rater": raters, "label": labels})
    by_name["accuracy"] = (
        rate * by_name["sensitivity"] + (1.0 - rate) * by_name["specificity"]
    ).transpose("chain", "draw", "rater", "label")
    by_name["balanced_accuracy"] = (by_name["sensitivity"] + by_name["specificity"]) / 2.0
    return by_name
