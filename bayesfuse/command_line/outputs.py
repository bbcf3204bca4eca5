"""Output files of a fit: labels, posterior and a plot."""

from __future__ import annotations

import argparse
import io
import os
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer.fused import picture
from bayesfuse.command_line.console import say
from bayesfuse.command_line.files import STDOUT, replacing
from bayesfuse.pymc.model import LabelModel

BARS = 25  # number of the least certain items in the plot


def write_labels(
    result: xr.DataTree,
    model: LabelModel | None,
    path: Path,
    places: pd.DataFrame | None = None,
) -> None:
    """Write the most probable label and all probabilities of every item.

    Without a model, of an answer, also their probability and difficulty; of a model, the largest
    Monte Carlo error. Items in sequence also have sequence and position and, of a model, their
    label on the most probable path.
    """
    probability = bf.label_probabilities(result)
    classes = probability["class"].values
    columns: dict[str, Any] = {"item": probability["item"].values}
    settings: dict[str, Any] = {"index": False, "sep": "\t" if ".tsv" in path.suffixes else ","}
    if places is not None:
        columns |= {name: places[name].to_numpy() for name in places}
    if isinstance(result, bf.Fused):
        columns |= {name: column.to_numpy() for name, column in result.labels().items()}
        settings["float_format"] = "%.6g"
    else:
        columns["label"] = classes[probability.values.argmax(axis=1)]
        if places is not None:
            columns["path"] = bf.decode(result, model).values
    for name, column in zip(classes, probability.values.T, strict=True):
        columns[f"probability_{name}"] = column
    if model is not None:
        columns["mcse"] = result["label_posterior"]["mcse"].max("class").values
    table = pd.DataFrame(columns)
    if path == STDOUT:
        say(table.to_csv(**settings).rstrip("\n"))
        return
    with replacing(path) as new:
        table.to_csv(new, **settings)


def write_asked(result: xr.DataTree, arguments: argparse.Namespace, path: Path) -> None:
    """Write the items to label next, with an empty column of labels, as ``--gold`` reads it."""
    asked = bf.decisions.next_items(result, arguments.ask, random_seed=arguments.seed)
    with replacing(path) as new:
        asked[["item"]].assign(label="").to_csv(new, index=False)


def draw(result: xr.DataTree, path: Path) -> None:
    """Plot the overview of an answer, or raters and labels of one model."""
    figure = picture(result) if isinstance(result, bf.Fused) else _raters_and_labels(result)
    with replacing(path) as new:
        figure.savefig(new, dpi=150)


def _raters_and_labels(result: xr.DataTree) -> Any:
    """Return raters and labels, below each other if there are few raters, else side by side."""
    from matplotlib.figure import Figure  # not pyplot, which would keep the figure

    probability = bf.label_probabilities(result)
    labels = 5.0, 1.2 + 0.2 * min(BARS, probability.sizes["item"])  # inches, (width, height)
    if "sensitivity" not in result["posterior"]:  # labelling functions
        figure = Figure(labels, layout="constrained")
        bf.plots.plot_labels(result, most=BARS, ax=figure.subplots())
        return figure
    n_classes, n_raters = probability.sizes["class"], result["posterior"].sizes["rater"]
    columns = min(n_classes, 5)
    rows = -(-n_classes // columns)
    raters = max(1.6 * columns, 5.0), min(rows * (1.0 + 0.24 * n_raters), 8.0)
    if raters[1] < labels[1] / 2:
        figure = Figure((max(raters[0], labels[0]), raters[1] + labels[1]), layout="constrained")
        parts = figure.subfigures(2, 1, squeeze=False, height_ratios=(raters[1], labels[1]))
    else:
        figure = Figure((raters[0] + labels[0], max(raters[1], labels[1])), layout="constrained")
        parts = figure.subfigures(1, 2, squeeze=False, width_ratios=(raters[0], labels[0]))
    first, second = parts.flat
    panels = first.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for empty in panels[n_classes:]:
        empty.remove()
    bf.plots.plot_raters(result, axes=panels[:n_classes])
    bf.plots.plot_labels(result, most=BARS, ax=second.subplots())
    return figure


def write_netcdf(result: xr.DataTree, path: Path) -> None:
    """Write a result as NetCDF, completely or not at all, of an answer without its models."""
    if isinstance(result, bf.Fused):
        groups = {name: each.dataset for name, each in result.children.items() if name != "models"}
        attrs, result = result.attrs, xr.DataTree.from_dict(groups)
        result.attrs = attrs
    with replacing(path) as new, _Sink(new, "w+") as sink:
        try:
            result.to_netcdf(sink, engine="h5netcdf")
            os.fsync(sink.fileno())  # some full disks raise only here
        finally:
            if sink.error is not None:
                raise sink.error


class _Sink(io.FileIO):
    """A file that stores its first error instead of raising it, which would crash HDF5."""

    error: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        rest = memoryview(data).cast("B")
        try:
            while self.error is None and len(rest):
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return self.tell() if size is None else size
