"""Draws of labels given known ones, and the accuracy of raters on the items they answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import smallest_integer, storable
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import evenly_spaced
from bayesfuse.results.posterior import OBSERVED, ORDERED, note_draws, of_items

SAMPLES = 400
"""Joint draws of all labels that a result keeps."""


class LabelDraws:
    """Sums up label probabilities and counts answers to drawn labels, draw by draw.

    Accuracies are shares of the items that a rater answered. Where these have no item of a class,
    they are shares of all raters' responses.
    """

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
        shape = n_draws, responses.n_raters, n_classes, n_classes
        self.counts = np.zeros(shape, dtype=np.float32)
        self.shares = np.zeros((n_draws, n_classes))
        self.chosen = evenly_spaced(min(SAMPLES, n_draws), n_draws)
        kind = smallest_integer(n_classes)
        self.labels = np.empty((len(self.chosen), responses.n_items), dtype=kind)
        self.item, self.rater = responses.item.astype(np.int64), responses.rater.astype(np.int64)
        self.label, self.weight = responses.label.astype(np.int64), np.ones(len(self.item))
        if (stated := responses.stated) is not None:
            columns = np.tile(np.arange(n_classes), len(stated.rater))
            self.item = np.append(self.item, np.repeat(stated.item, n_classes))
            self.rater = np.append(self.rater, np.repeat(stated.rater, n_classes).astype(np.int64))
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
        """Add the groups of labels and data, and the tables of raters to the posterior.

        ``more`` are other probabilities (items, classes): of known items without their label
        (``left_out``), and the ``given`` ones.
        """
        responses, n_draws = self.responses, self.sizes[0] * self.sizes[1]
        mean = self.sum / n_draws
        spread = np.sqrt(np.maximum(self.squares / n_draws - mean**2, 0.0) / n_draws)
        pair = {"item": responses.items, "class": responses.classes}
        two = ("item", "class")
        said = {"probability": mean, "mcse": spread, **more}
        labels = xr.Dataset({name: (two, values) for name, values in said.items()}, pair)
        attrs = {f"{dim}s": size for dim, size in zip(("chain", "draw"), self.sizes, strict=True)}
        posterior = result["posterior"].dataset
        names = {"rater": responses.raters, "class": responses.classes}
        names["answer"] = responses.classes
        tables = {
            model.name_for(name): (("chain", "draw", *dims), values.reshape(*self.sizes, *shape))
            for name, (dims, values) in self.tables().items()
            for shape in [values.shape[1:]]
        }
        result["posterior"] = xr.DataTree(posterior.assign(tables).assign_coords(names))
        result["label_posterior"] = xr.DataTree(labels.assign_attrs(attrs))
        note_draws(result)
        drawn = {"label": (("sample", "item"), self.labels)}
        classes = {"classes": storable(responses.classes)}
        result["label_draws"] = xr.DataTree(
            xr.Dataset(drawn, {"item": responses.items}, attrs=classes)
        )
        item, rater = responses.small_columns
        data = {"item_index": (("response",), item), "rater_index": (("response",), rater)}
        # of responses, which are no data of this model
        data |= {"label_index": (("response",), responses.label.astype(self.labels.dtype))}
        data |= of_items(responses, self.known)
        known = fingerprint.of_gold(responses, self.known)
        told = fingerprint.of_responses(responses) | {"gold": known}
        about = {OBSERVED: json.dumps(told), ORDERED: int(responses.ordered)}
        coords = pair | {"rater": responses.raters}
        result["constant_data"] = xr.DataTree(xr.Dataset(data, coords, about))
        at = np.flatnonzero(self.known >= 0)
        seen = xr.Dataset({"label": ("item", self.known[at])}, {"item": responses.items[at]})
        result["observed_data"] = xr.DataTree(seen)

    def tables(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the variables of raters and of classes, (draws, …)."""
        n_classes = self.responses.n_classes
        counts = self.counts  # in single precision, as there may be many
        pooled = counts.sum(axis=1, keepdims=True) + np.float32(1e-12)
        pooled /= pooled.sum(axis=(2, 3), keepdims=True)
        counts += np.float32(1e-9) * pooled  # matters only where there are no items of a class
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
