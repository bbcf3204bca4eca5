"""Output files of a fit: labels and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.files import replacing
from bayesfuse.pymc.model import LabelModel

BARS = 25
"""Number of the least certain items in the plot."""

NETCDF = (".nc", ".nc4", ".netcdf", ".h5", ".hdf5")
"""Suffixes of NetCDF files."""


def check_output(path: Path) -> None:
    """Raise CommandError unless the name is that of a NetCDF file."""
    if path.is_dir():
        raise CommandError(f"cannot write {path}: it is a folder")
    if path.suffix.lower() not in NETCDF:
        raise CommandError(
            "--output must end in .nc, because the posterior is a NetCDF file; use --labels "
            f"FILE.csv for labels and --picture FILE.png for the plot. Got: --output {path}"
        )


def check_picture(path: Path) -> None:
    """Raise CommandError unless matplotlib can write this format."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in known:
        raise CommandError(f"--picture must end in one of {sorted(known)}. Got: {path.name}")


def write_labels(
    result: xr.DataTree, model: LabelModel, path: Path, places: pd.DataFrame | None = None
) -> None:
    """Write every item's most probable label, probabilities and largest Monte Carlo error.

    Items in sequence also have sequence, position, and their label on the most probable path.
    """
    probability = bf.label_probabilities(result)
    classes = probability["class"].values
    columns: dict[str, Any] = {"item": probability["item"].values}
    if places is not None:
        columns |= {name: places[name].to_numpy() for name in places}
    columns["label"] = classes[probability.values.argmax(axis=1)]
    if places is not None:
        columns["path"] = bf.decode(result, model).values
    for name, column in zip(classes, probability.values.T, strict=True):
        columns[f"probability_{name}"] = column
    columns["mcse"] = result["label_posterior"]["mcse"].max("class").values
    with replacing(path) as new:
        pd.DataFrame(columns).to_csv(new, index=False, sep=separator(path))


def separator(path: Path) -> str:
    """Return what separates the columns of a file of this name."""
    return "\t" if ".tsv" in path.suffixes else ","


def draw(result: xr.DataTree, path: Path) -> None:
    """Plot raters and labels, below each other if there are few raters, else side by side."""
    from matplotlib.figure import Figure  # not pyplot, which would keep the figure

    probability = bf.label_probabilities(result)
    if "sensitivity" not in result["posterior"]:  # labelling functions
        height = 1.2 + 0.2 * min(BARS, probability.sizes["item"])
        figure = Figure((5.0, height), layout="constrained")
        plots.plot_labels(result, most=BARS, ax=figure.subplots())
        with replacing(path) as new:
            figure.savefig(new, dpi=150)
        return
    n_classes, n_raters = probability.sizes["class"], result["posterior"].sizes["rater"]
    columns = min(n_classes, 5)
    rows = -(-n_classes // columns)
    # inches, (width, height)
    raters = max(1.6 * columns, 5.0), min(rows * (1.0 + 0.24 * n_raters), 8.0)
    labels = 5.0, 1.2 + 0.2 * min(BARS, probability.sizes["item"])
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
    plots.plot_raters(result, axes=panels[:n_classes])
    plots.plot_labels(result, most=BARS, ax=second.subplots())
    with replacing(path) as new:
        figure.savefig(new, dpi=150)
