"""Labels drawn with every draw of the parameters, from which raters are judged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import smallest_integer
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.results import joint_labels, schema
from bayesfuse.results.build import item_columns, table_attributes
from bayesfuse.results.contents import evenly_spaced
from bayesfuse.results.draws import BatchMeans, batch_length
from bayesfuse.results.label_summary import LabelSummary


class SampledLabels:
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
        self.batches = (responses.n_items, n_classes), batch_length(*sizes)
        self.means = BatchMeans(*self.batches)  # of all chains before the current one
        self.chain = BatchMeans(*self.batches)
        cells = n_draws, responses.n_raters, n_classes, n_classes
        self.counts = np.zeros(cells, dtype=np.float32)  # in single precision, as there may be many
        self.shares = np.zeros((n_draws, n_classes))
        self.chosen = evenly_spaced(min(joint_labels.SAMPLES, n_draws), n_draws)
        shape = len(self.chosen), responses.n_items
        self.labels = np.empty(shape, dtype=smallest_integer(n_classes))
        rows: list[tuple[NDArray[Any], ...]] = [
            (responses.item, responses.rater, responses.label, np.ones(responses.n_responses))
        ]
        if (stated := responses.stated) is not None:
            item, rater = (np.repeat(code, n_classes) for code in (stated.item, stated.rater))
            label = np.tile(np.arange(n_classes), len(stated.rater))
            rows.append((item, rater, label, stated.probability.ravel()))
        self.rows = [np.concatenate(column) for column in zip(*rows, strict=True)]

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
        for at_draw in range(n_now):
            if self.chain.n_draws == self.sizes[1]:
                self.means.join(self.chain)
                self.chain = BatchMeans(*self.batches)
            self.chain.add(probability[:, :, at_draw])
        below = probability.cumsum(axis=1)[:, :-1]
        drawn = (self.rng.random((len(below), 1, n_now)) >= below).sum(axis=1).T  # (draws, items)
        if not self.error:
            drawn[:, at] = self.known[at]  # rounding may leave a sum below one
        item, rater, label, weight = self.rows
        cell = (rater * n_classes + drawn[:, item]) * n_classes + label
        size = self.responses.n_raters * n_classes**2
        cell += np.arange(n_now)[:, None] * size
        weight = np.broadcast_to(weight, cell.shape).ravel()
        counts = np.bincount(cell.ravel(), weight, n_now * size)
        self.counts[some] = counts.reshape(self.counts[some].shape)
        truth = drawn + np.arange(n_now)[:, None] * n_classes
        shares = np.bincount(truth.ravel(), minlength=n_now * n_classes) / drawn.shape[1]
        self.shares[some] = shares.reshape(n_now, n_classes)
        stored_here = np.flatnonzero((self.chosen >= some.start) & (self.chosen < some.stop))
        self.labels[stored_here] = drawn[self.chosen[stored_here] - some.start]

    def summary(self, more: Mapping[str, Array]) -> LabelSummary:
        """Return probabilities, errors, joint draws, and ``more`` probabilities (item, class)."""
        self.means.join(self.chain)
        mean, error = self.means.result()
        variables = {schema.PROBABILITY: mean, schema.MCSE: error, **more}
        items, classes = self.responses.items, self.responses.classes
        probabilities = xr.Dataset(
            {name: (("item", "class"), values) for name, values in variables.items()},
            {"item": items, "class": classes},
        )
        draws = joint_labels.as_draws(self.labels, items, classes)
        return LabelSummary(None, probabilities, draws)

    def data(self) -> dict[str, xr.Dataset]:
        """Return the groups of the data: known labels are observed, and responses constant."""
        responses = self.responses
        item, rater = responses.small_columns
        columns = {
            schema.ITEM_INDEX: item,
            schema.RATER_INDEX: rater,
            schema.LABEL_INDEX: responses.label.astype(self.labels.dtype),
        }
        constants = {name: (("response",), column) for name, column in columns.items()}
        constants |= item_columns(responses, self.known)
        coords = {"item": responses.items, "class": responses.classes, "rater": responses.raters}
        at = np.flatnonzero(self.known >= 0)
        observed = xr.Dataset({"label": ("item", self.known[at])}, {"item": responses.items[at]})
        attributes = table_attributes(responses, self.known)
        return {
            schema.CONSTANT_DATA: xr.Dataset(constants, coords, attributes),
            schema.OBSERVED_DATA: observed,
        }

    def with_rater_tables(self, draws: xr.Dataset, model: Any) -> xr.Dataset:
        """Return draws of the model with the variables of raters and classes."""
        names = {
            "rater": self.responses.raters,
            "class": self.responses.classes,
            "answer": self.responses.classes,
        }
        variables = {}
        for name, (dims, values) in self.tables().items():
            shaped = values.reshape(*self.sizes, *values.shape[1:])
            variables[model.name_for(name)] = (("chain", "draw", *dims), shaped)
        return draws.assign(variables).assign_coords(names)

    def tables(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the variables of raters and of classes, (draws, …)."""
        n_classes = self.responses.n_classes
        counts = self.counts
        pooled = counts.sum(axis=1, keepdims=True) + np.float32(1e-12)
        pooled /= pooled.sum(axis=(2, 3), keepdims=True)
        counts += np.float32(1e-9) * pooled  # of all raters, for those without items of a class
        confusion = counts / counts.sum(axis=3, keepdims=True)
        different = 1.0 - np.eye(n_classes, dtype=np.float32)  # a difference would lose digits
        false_alarms = (counts * different).sum(axis=2) / (counts.sum(axis=3) @ different)
        rates = np.diagonal(confusion, axis1=2, axis2=3), 1.0 - false_alarms
        dims: tuple[str, ...] = "rater", "class"
        if n_classes == 2:
            dims, rates = ("rater",), (rates[0][..., 1], rates[1][..., 1])
        right = np.diagonal(counts, axis1=2, axis2=3).sum(axis=2)
        return {
            "prevalence": (("class",), self.shares),
            "confusion": (("rater", "class", "answer"), confusion),
            "accuracy": (("rater",), right / counts.sum(axis=(2, 3))),
            "sensitivity": (dims, rates[0]),
            "specificity": (dims, rates[1]),
        }
