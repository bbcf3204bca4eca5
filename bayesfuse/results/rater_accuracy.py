"""How often raters are right on the items they answered, counted over joint draws of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import constants, evenly_spaced, known_classes, require_rows
from bayesfuse.results.group_shares import FEWEST as FEWEST_KNOWN
from bayesfuse.results.group_shares import residuals
from bayesfuse.results.summaries import tails

MOST, FEWEST = 4e8, 50  # draws × responses that are counted, and the smallest number of draws


def rater_accuracy(
    result: xr.DataTree, by: Any = None, ci_prob: float | None = None
) -> pd.DataFrame:
    """Return a row for every rater (and group): counts, accuracies with intervals, and bias.

    Accuracies are corrected by the mean difference between known labels and their probabilities
    without them, partially pooled over raters, as shares of groups are in ``class_shares``.
    """
    labels, rows = joint_labels.stored(result), require_rows(result, "The accuracy of raters")
    known = constants(result)
    classes, raters = result["label_posterior"].dataset["class"].values, known["rater"].values
    gold = known_classes(result, labels.shape[1])
    number = int(np.clip(MOST // max(len(rows[0]), 1), FEWEST, len(labels)))
    labels = labels[evenly_spaced(number, len(labels))]
    level, posterior = tails(ci_prob), result["label_posterior"].dataset
    missed = np.zeros(len(rows[0]))  # of responses to known items, what predictions were short of
    if "left_out" in posterior and (gold >= 0).sum() >= FEWEST_KNOWN:
        seen = np.isfinite(posterior["left_out"].values[rows[0], 0])
        said = posterior["left_out"].values[rows[0][seen], rows[2][seen]]
        missed[seen] = posterior["probability"].values[rows[0][seen], rows[2][seen]] - said
    rows = (*rows, missed)
    if by is None:
        return _table(labels, rows, gold, raters, classes, level)
    names, code = read_populations(known["item"].values, by, what="by=", group="group")
    tables = []
    for at, name in enumerate(names.tolist()):
        own = code[rows[0]] == at
        part = tuple(column[own] for column in rows)
        table = _table(labels, part, gold, raters, classes, level)
        table = table[table["responses"] > 0].reset_index(drop=True)
        table.insert(0, "group", [name] * len(table))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _table(
    labels: NDArray[Any],
    rows: tuple[NDArray[Any], ...],
    gold: NDArray[np.int64],
    raters: NDArray[Any],
    classes: NDArray[Any],
    level: tuple[float, float],
) -> pd.DataFrame:
    item, rater, label, missed = rows
    n_raters, n_classes = len(raters), len(classes)
    names, truth = _measures(classes), labels[:, item]
    found = np.empty((len(labels), len(names), n_raters))
    for sample, own in enumerate(truth):
        cell = (rater * n_classes + own) * n_classes + label
        count = np.bincount(cell, minlength=n_raters * n_classes**2)
        found[sample] = _count(count.reshape(n_raters, n_classes, n_classes).astype(float))
    responses = np.bincount(rater, minlength=n_raters)
    seen = gold[item] >= 0
    on_known = np.bincount(rater[seen], minlength=n_raters)
    if seen.sum() >= FEWEST_KNOWN and missed.any():
        left, rng = np.column_stack([missed, -missed])[seen], np.random.default_rng(0)
        shares = 1.0 - on_known / np.maximum(responses, 1)
        for own in found[:, 0]:
            own += shares * residuals(left, rater[seen], n_raters, rng)[:, 0]
        np.clip(found[:, 0], 0.0, 1.0, out=found[:, 0])
    right = np.bincount(rater[seen], gold[item[seen]] == label[seen], n_raters)
    table = pd.DataFrame({"rater": raters, "responses": responses})
    for at, name in enumerate(names):
        # pandas leaves out NaN: a class that a rater never met in a draw has no sensitivity there
        values = pd.DataFrame(found[:, at])
        low, high = values.quantile(list(level)).to_numpy()
        prefix = "" if name == "accuracy" else f"{name}_"
        table[name], table[f"{prefix}low"], table[f"{prefix}high"] = values.mean(), low, high
    table["known"] = on_known
    table["known_accuracy"] = np.divide(
        right, on_known, out=np.full(n_raters, np.nan), where=on_known > 0
    )
    return table.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)


def _measures(classes: NDArray[Any]) -> list[str]:
    """Return the names of the measures, of two classes without the names of classes."""
    names = ["accuracy", "balanced_accuracy"]
    if len(classes) == 2:
        return [*names, "sensitivity", "specificity", "bias"]
    names += [f"sensitivity[{name}]" for name in classes]
    return names + [f"bias[{name}]" for name in classes]


def _count(count: Array) -> Array:
    """Return the measures (measures, raters) of counts (raters, truths, labels)."""
    total, truths = count.sum(axis=(1, 2)), count.sum(axis=2)
    right = np.diagonal(count, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity = right / truths
        met = truths > 0
        balanced = np.where(met, sensitivity, 0.0).sum(axis=1) / met.sum(axis=1)
        accuracy = right.sum(axis=1) / total
        bias = (count.sum(axis=1) - truths) / total[:, None]
    if count.shape[1] == 2:
        return np.stack([accuracy, balanced, sensitivity[:, 1], sensitivity[:, 0], bias[:, 1]])
    return np.concatenate([[accuracy, balanced], sensitivity.T, bias.T])
