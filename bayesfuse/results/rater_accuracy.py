"""How often raters are right on the items they answered, counted over joint draws of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.known import read_populations
from bayesfuse.data.names import smallest_integer
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import joint_labels
from bayesfuse.results.contents import constants, evenly_spaced, known_classes, require_rows
from bayesfuse.results.group_shares import FEWEST as FEWEST_KNOWN, residuals
from bayesfuse.results.posterior import add_labels, identity, of_items
from bayesfuse.results.summaries import tails

MOST, FEWEST = 4e8, 50  # draws × responses that are counted, and the smallest number of draws


def rater_accuracy(
    result: xr.DataTree, by: Any = None, ci_prob: float | None = None
) -> pd.DataFrame:
    """Return a row for every rater (and group): counts, accuracies with intervals, and bias.

    Accuracies are corrected by known labels, as shares of groups are in ``class_shares``, and those
    by true class by the same amounts.
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
    drawn, met = [], np.zeros((n_raters, n_classes))
    for truth in labels[:, item]:
        cell = (rater * n_classes + truth) * n_classes + label
        size = n_raters, n_classes, n_classes
        count = np.bincount(cell, minlength=n_raters * n_classes**2).reshape(size)
        met += count.sum(axis=2)
        drawn.append(_measures(count, classes))
    found = {name: np.array([each[name] for each in drawn]) for name in drawn[0]}
    names = [f"sensitivity[{name}]" for name in classes]
    names = ["specificity", "sensitivity"] if n_classes == 2 else names
    for name, own in zip(names, met.T, strict=True):
        found[name][:, own < 0.5 * len(labels)] = np.nan  # of a class that the rater did not meet
    responses = np.bincount(rater, minlength=n_raters)
    seen = gold[item] >= 0
    on_known = np.bincount(rater[seen], minlength=n_raters)
    if seen.sum() >= FEWEST_KNOWN and missed.any():
        left, rng = np.column_stack([missed, -missed])[seen], np.random.default_rng(0)
        shares = 1.0 - on_known / np.maximum(responses, 1)
        some = [residuals(left, rater[seen], n_raters, rng)[:, 0] for _ in labels]
        for name in found:
            if not name.startswith("bias"):  # accuracy is a mean of the others, so all shift alike
                found[name] = (found[name] + shares * some).clip(0.0, 1.0)
    right = np.bincount(rater[seen], gold[item[seen]] == label[seen], n_raters)
    table = pd.DataFrame({"rater": raters, "responses": responses})
    for name, each in found.items():
        # pandas leaves out NaN: a class that a rater never met in a draw has no sensitivity there
        values = pd.DataFrame(each)
        mean, (low, high) = values.mean(), values.quantile(list(level)).to_numpy()
        prefix = "" if name == "accuracy" else f"{name}_"
        table[name] = mean
        # of few responses nearly all draws may be the same share, and the mean another
        table[f"{prefix}low"], table[f"{prefix}high"] = np.fmin(low, mean), np.fmax(high, mean)
    table["known"] = on_known
    table["known_accuracy"] = right / table["known"]  # NaN without any
    return table.sort_values("accuracy", ascending=False, kind="stable", ignore_index=True)


def _measures(count: NDArray[Any], classes: NDArray[Any]) -> dict[str, Array]:
    """Return measures (raters,) by name, of counts (raters, truths, labels)."""
    total, truths = count.sum(axis=(1, 2)), count.sum(axis=2)
    right = np.diagonal(count, axis1=1, axis2=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity = right / truths
        met = truths > 0
        balanced = np.where(met, sensitivity, 0.0).sum(axis=1) / met.sum(axis=1)
        found = {"accuracy": right.sum(axis=1) / total, "balanced_accuracy": balanced}
        bias = (count.sum(axis=1) - truths) / total[:, None]
    if len(classes) == 2:
        two = {"sensitivity": sensitivity[:, 1], "specificity": sensitivity[:, 0]}
        return found | two | {"bias": bias[:, 1]}
    found |= {f"sensitivity[{name}]": own for name, own in zip(classes, sensitivity.T, strict=True)}
    return found | {f"bias[{name}]": own for name, own in zip(classes, bias.T, strict=True)}


class LabelDraws:
    """Sums up label probabilities and counts answers to drawn labels, draw by draw."""

    def __init__(
        self,
        responses: Responses,
        known: NDArray[np.int64],
        sizes: tuple[int, int],
        rng: np.random.Generator,
        error: float = 0.0,
    ) -> None:
        self.responses, self.known, self.sizes, self.rng = responses, known, sizes, rng
        self.error = error  # probability that a known label is wrong
        n_draws, n_classes = sizes[0] * sizes[1], responses.n_classes
        self.sum = np.zeros((responses.n_items, n_classes))
        self.squares = np.zeros_like(self.sum)
        cells = n_draws, responses.n_raters, n_classes, n_classes
        self.counts = np.zeros(cells, dtype=np.float32)  # in single precision, as there may be many
        self.shares = np.zeros((n_draws, n_classes))
        self.chosen = evenly_spaced(min(joint_labels.SAMPLES, n_draws), n_draws)
        shape = len(self.chosen), responses.n_items
        self.labels = np.empty(shape, dtype=smallest_integer(n_classes))
        self.item, self.rater, self.label = responses.item, responses.rater, responses.label
        self.weight = np.ones(len(self.item))
        if (stated := responses.stated) is not None:
            columns = np.tile(np.arange(n_classes), len(stated.rater))
            self.item = np.append(self.item, np.repeat(stated.item, n_classes))
            self.rater = np.append(self.rater, np.repeat(stated.rater, n_classes))
            self.label = np.append(self.label, columns)
            self.weight = np.append(self.weight, stated.probability.ravel())

    def add(self, some: slice, probability: Array) -> None:
        """Add draws with their label probabilities (items, classes, draws)."""
        at = np.flatnonzero(self.known >= 0)
        n_classes, n_now = probability.shape[1:]
        truth = np.eye(n_classes)[self.known[at]][:, :, None]
        if self.error:
            chance = np.where(truth > 0, 1.0 - self.error, self.error / (n_classes - 1))
            truth = probability[at] * chance
            truth /= truth.sum(axis=1, keepdims=True)
        probability[at] = truth
        self.sum += probability.sum(axis=2)
        self.squares += (probability**2).sum(axis=2)
        below = probability.cumsum(axis=1)[:, :-1]
        drawn = (self.rng.random((len(below), 1, n_now)) >= below).sum(axis=1).T  # (draws, items)
        if not self.error:
            drawn[:, at] = self.known[at]  # rounding may leave a sum below one
        cell = (self.rater * n_classes + drawn[:, self.item]) * n_classes + self.label
        size = self.responses.n_raters * n_classes**2
        cell += np.arange(n_now)[:, None] * size
        weight = np.broadcast_to(self.weight, cell.shape).ravel()
        counts = np.bincount(cell.ravel(), weight, n_now * size)
        self.counts[some] = counts.reshape(self.counts[some].shape)
        truth = drawn + np.arange(n_now)[:, None] * n_classes
        shares = np.bincount(truth.ravel(), minlength=n_now * n_classes) / drawn.shape[1]
        self.shares[some] = shares.reshape(n_now, n_classes)
        kept = np.flatnonzero((self.chosen >= some.start) & (self.chosen < some.stop))
        self.labels[kept] = drawn[self.chosen[kept] - some.start]

    def store(self, result: xr.DataTree, model: Any, more: Mapping[str, Array]) -> None:
        """Add groups of labels and data, ``more`` probabilities (items, classes), rater tables."""
        responses, n_draws = self.responses, self.sizes[0] * self.sizes[1]
        mean = self.sum / n_draws
        spread = np.sqrt(np.maximum(self.squares / n_draws - mean**2, 0.0) / n_draws)
        pair = {"item": responses.items, "class": responses.classes}
        said = {"probability": mean, "mcse": spread, **more}
        labels = {name: (("item", "class"), values) for name, values in said.items()}
        tables = {}
        for name, (dims, values) in self.tables().items():
            shaped = values.reshape(*self.sizes, *values.shape[1:])
            tables[model.name_for(name)] = (("chain", "draw", *dims), shaped)
        names = {"rater": responses.raters, "class": responses.classes}
        names["answer"] = responses.classes
        result["posterior"] = result["posterior"].dataset.assign(tables).assign_coords(names)
        add_labels(result, xr.Dataset(labels, pair))
        result["label_draws"] = joint_labels.as_draws(self.labels, *pair.values())
        item, rater = responses.small_columns
        label = responses.label.astype(self.labels.dtype)  # responses are no data of this model
        columns = {"item_index": item, "rater_index": rater, "label_index": label}
        data = {name: (("response",), each) for name, each in columns.items()}
        data |= of_items(responses, self.known)
        coords = pair | {"rater": responses.raters}
        result["constant_data"] = xr.Dataset(data, coords, identity(responses, self.known))
        at = np.flatnonzero(self.known >= 0)
        seen = {"label": ("item", self.known[at])}
        result["observed_data"] = xr.Dataset(seen, {"item": responses.items[at]})

    def tables(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the variables of raters and of classes, (draws, …)."""
        n_classes = self.responses.n_classes
        counts = self.counts
        pooled = counts.sum(axis=1, keepdims=True) + np.float32(1e-12)
        pooled /= pooled.sum(axis=(2, 3), keepdims=True)
        counts += np.float32(1e-9) * pooled  # of all raters, for those without items of a class
        confusion = counts / counts.sum(axis=3, keepdims=True)
        right = np.diagonal(counts, axis1=2, axis2=3)
        found: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {
            "prevalence": (("class",), self.shares),
            "confusion": (("rater", "class", "answer"), confusion),
            "accuracy": (("rater",), right.sum(axis=2) / counts.sum(axis=(2, 3))),
        }
        sensitivity = np.diagonal(confusion, axis1=2, axis2=3)
        if n_classes == 2:
            found["sensitivity"] = ("rater",), sensitivity[..., 1]
            found["specificity"] = ("rater",), sensitivity[..., 0]
            return found
        different = 1.0 - np.eye(n_classes, dtype=np.float32)  # a difference would lose digits
        others = counts.sum(axis=3) @ different
        false_alarms = (counts * different).sum(axis=2)
        found["sensitivity"] = ("rater", "class"), sensitivity
        found["specificity"] = ("rater", "class"), 1.0 - false_alarms / others
        return found
