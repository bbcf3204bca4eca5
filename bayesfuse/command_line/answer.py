"""``fit`` without ``--model``: the answer of ``bf.fuse`` as labels, report and files."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import xarray as xr

import bayesfuse as bf
from bayesfuse.answer.fused import Fused
from bayesfuse.answer.page import picture
from bayesfuse.command_line.console import is_terminal, say, tell
from bayesfuse.command_line.files import (
    STDIN,
    STDOUT,
    check_inputs,
    check_outputs,
    replacing,
    write_netcdf,
)
from bayesfuse.command_line.outputs import check_output, check_picture, separator
from bayesfuse.command_line.steps import Interruption, Step, carry_out
from bayesfuse.command_line.tables import Tables, read_tables
from bayesfuse.errors import QuickAnswerWarning


def answer(arguments: argparse.Namespace) -> Fused:
    """Fit the sensible models; write labels and what was asked for, and print a report."""
    labels = _labels(arguments)
    files = [labels, arguments.report, arguments.output, arguments.picture]
    outputs = [path for path in files if path not in (None, STDOUT)]
    given = arguments.responses, arguments.items, arguments.gold, arguments.graph
    inputs = [path for path in given if path is not None]
    check_inputs(inputs)
    check_outputs(outputs, inputs)
    if arguments.output is not None:
        check_output(arguments.output)
    if arguments.picture is not None:
        check_picture(arguments.picture)
    tables = read_tables(arguments)
    show: Callable[[str], None] = say if labels != STDOUT else _aside
    with warnings.catch_warnings():
        warnings.simplefilter("always", QuickAnswerWarning)
        warnings.showwarning = lambda message, *_: tell(f"bayesfuse: {message}")
        fused = bf.fuse(
            tables.responses,
            sequences=tables.sequences,
            graph=tables.graph,
            gold=tables.gold,
            minutes=arguments.time,
            random_seed=arguments.seed,
            progressbar=is_terminal() and not arguments.quiet,
        )
    with Interruption() as interruption:
        steps = [
            Step("labels", lambda: write_labels(fused, labels, tables), labels, needed=True),
            *([] if arguments.quiet else [Step("the text", lambda: show(fused.overview()))]),
            *_files(arguments, fused),
        ]
        written = [each for each in carry_out(steps, interruption) if not each.startswith("- ")]
    if written and not arguments.quiet:
        show(f"\nWritten: {', '.join(written)}")
    return fused


def _labels(arguments: argparse.Namespace) -> Path:
    """Return where labels go: as asked, next to the output, or named like the table."""
    if arguments.labels is not None:
        return Path(arguments.labels)
    if arguments.output is not None:
        return Path(arguments.output.with_name(f"{arguments.output.stem}-labels.csv"))
    if arguments.responses == STDIN:
        return STDOUT
    packed = arguments.responses.suffix in (".gz", ".bz2", ".xz", ".zip")
    name = Path(arguments.responses.stem if packed else arguments.responses.name)
    return Path(f"{name.stem}-labels.csv")


def _files(arguments: argparse.Namespace, fused: Fused) -> list[Step]:
    """Return the steps that write what was asked for."""
    steps = []
    if (path := arguments.report) is not None:
        steps.append(Step("report", lambda: _write_report(fused, arguments.report), path))
    if (path := arguments.output) is not None:
        small = xr.DataTree.from_dict(
            {
                name: group.dataset
                for name, group in fused.children.items()
                if name != "models"  # large, and --model gives each
            }
        )
        small.attrs = fused.attrs
        steps.append(Step("posterior", lambda: write_netcdf(small, arguments.output), path))
    if (path := arguments.picture) is not None:
        steps.append(Step("picture", lambda: _draw(fused, arguments.picture), path))
    return steps


def write_labels(fused: Fused, path: Path, tables: Tables) -> None:
    """Write label, probability, difficulty and all probabilities of every item."""
    table = fused.labels()
    probability = bf.label_probabilities(fused)
    for at, name in enumerate(("sequence", "position") if tables.places is not None else ()):
        table.insert(1 + at, name, tables.places[name].to_numpy())  # type: ignore[index]
    for name, column in zip(probability["class"].values, probability.values.T, strict=True):
        table[f"probability_{name}"] = column
    settings = {"index": False, "sep": separator(path), "float_format": "%.6g"}
    if path == STDOUT:
        _write_stdout(table, settings)
        return
    with replacing(path) as new:
        table.to_csv(new, **settings)


def _write_stdout(table: pd.DataFrame, settings: dict[str, object]) -> None:
    say(table.to_csv(**settings).rstrip("\n"))


def _aside(text: str) -> None:
    """Print on stderr, because stdout holds the labels."""
    print(text, file=sys.stderr, flush=True)


def _write_report(fused: Fused, path: Path) -> None:
    with replacing(path) as new:
        fused.report(new)


def _draw(fused: Fused, path: Path) -> None:
    with replacing(path) as new:
        picture(fused).savefig(new, dpi=150)
