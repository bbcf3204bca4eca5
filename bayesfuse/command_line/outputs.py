"""Output files of a fit: labels, posterior and a plot."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer.fused import rater_table
from bayesfuse.answer.page import picture
from bayesfuse.command_line.console import say, tell
from bayesfuse.command_line.files import STDOUT
from bayesfuse.data.tags import mark_spans
from bayesfuse.pymc.model import LabelModel

LARGE = 200_000_000  # bytes of an answer above which its models are left out


def write_labels(
    result: xr.DataTree,
    model: LabelModel | None,
    places: pd.DataFrame | None,
    path: Path,
) -> None:
    """Write the most probable label of every item, its probability, and those of all classes.

    Without a model, of an answer, also the difficulty; of a model, the largest Monte Carlo error.
    Items in sequence also have sequence and position and, of a model, their label on the most
    probable path.
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
        columns["probability"] = probability.values.max(axis=1)
        if places is not None:
            columns["path"] = bf.decode(result, model).values
    for name, column in zip(classes, probability.values.T, strict=True):
        columns[f"probability_{name}"] = column
    if model is not None:
        columns["mcse"] = result["label_posterior"]["mcse"].max("class").values
    table = pd.DataFrame(columns)
    if path == STDOUT:
        say(table.to_csv(**settings).rstrip("\n"))
    else:
        table.to_csv(path, **settings)


def write_raters(result: xr.DataTree, path: Path) -> None:
    """Write the accuracies of the raters."""
    rater_table(result).to_csv(path, index=False, float_format="%.6g")


def write_page(result: Any, path: Path) -> None:
    """Write the answer as a page."""
    result.report(path)


def write_spans(result: xr.DataTree, sequences: bf.Sequences | None, path: Path) -> None:
    """Write the spans of tags, or the runs of other classes, with their probabilities."""
    tags = mark_spans(bf.label_probabilities(result)["class"].values.tolist())
    found = bf.spans(result, sequences, scheme="bio" if tags else "runs")
    found.to_csv(path, index=False, float_format="%.6g")


def write_asked(result: xr.DataTree, arguments: argparse.Namespace, path: Path) -> None:
    """Write the items to label next, with an empty column of labels, as ``--gold`` reads it."""
    asked = bf.decisions.next_items(result, arguments.ask, random_seed=arguments.seed)
    if len(asked) < arguments.ask:
        tell(f"bayesfuse: --ask {arguments.ask:,}: only {len(asked):,} items have unknown labels")
    asked[["item"]].assign(label="").to_csv(path, index=False)


def draw(result: xr.DataTree, path: Path) -> None:
    """Plot the overview of a result."""
    picture(result).savefig(path, dpi=150)


def write_netcdf(result: xr.DataTree, path: Path) -> str:
    """Write a result as NetCDF, and say what was left out."""
    left_out = ""
    if isinstance(result, bf.Fused) and result.nbytes > LARGE and "models" in result.children:
        result = result.copy(deep=False)
        del result["models"]
        left_out = f"; its models, above {LARGE / 1e6:.0f} MB, which predictions need, are left out"
    content = result.to_netcdf(engine="h5netcdf")  # in memory, as a full disk would crash HDF5
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # some full disks raise only here
    return left_out
