"""Tables in which raters gave sets of labels, with ``--label-sets``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.columns import read_text_table
from bayesfuse.command_line.console import write_table
from bayesfuse.command_line.tables import Tables
from bayesfuse.data.cell_types import as_integers
from bayesfuse.data.column_roles import ITEM, LABEL, RATER, known_names
from bayesfuse.ensemble.sets_page import as_text_table

NOT_OF_SETS = "wide format no_header ignore items classes positive ordered costs ask by swapped "
NOT_OF_SETS += "sequence position graph spans picture"


def read_label_sets(arguments: argparse.Namespace) -> Tables:
    """Read sets of labels, and known ones; an empty cell is the set without labels."""
    unused = [name for name in NOT_OF_SETS.split() if getattr(arguments, name) is not None]
    if unused:
        raise CommandError(
            f"--{unused[0].replace('_', '-')} is not for sets of labels, of which one model is "
            "fitted. Got: --label-sets"
        )
    paths = [arguments.responses, *arguments.more]
    frame = pd.concat([_read(path, arguments) for path in paths], ignore_index=True)
    label_sets = bf.Responses.from_label_sets(
        frame, separator=arguments.label_sets, normalise=bool(arguments.normalise)
    )
    gold = _read(arguments.gold, arguments) if arguments.gold else None
    columns = {ITEM: arguments.item, RATER: arguments.rater, LABEL: arguments.label}
    read = repr(label_sets).partition(": ")[2] + "."
    return Tables(label_sets, read, gold, columns=columns)  # type: ignore[arg-type]


def _read(path: Path, arguments: argparse.Namespace) -> pd.DataFrame:
    """Return a table with the columns item, rater and label, where it has these."""
    frame, _ = read_text_table(path, [])
    if arguments.item not in frame and not known_names(frame.columns.tolist(), ITEM):
        return frame  # an error names its columns
    header: list[Any] = frame.columns.tolist()
    columns: dict[Any, str] = {}
    for role in (ITEM, RATER, LABEL):
        wanted = getattr(arguments, role)
        columns |= dict.fromkeys(
            [wanted] if wanted in header else known_names(header, role)[:1], role
        )
    others = {*columns.values()} & {*header} - {*columns}  # of the same name, but not chosen
    frame = frame.drop(columns=[*others]).rename(columns=columns)
    if LABEL in frame and arguments.drop_empty:
        frame = frame[frame[LABEL].notna()]
    elif LABEL in frame:
        frame[LABEL] = frame[LABEL].fillna("")
    if ITEM in frame:
        names = as_integers(frame[ITEM].dropna().unique())
        frame[ITEM] = [names.get(name, name) for name in frame[ITEM]]
    return frame


def write_sets(result: Any, tables: Tables, separator: str, path: Path) -> None:
    """Write the most probable set of every item, its probability, and that of every label."""
    table = as_text_table(result.labels(), separator)
    write_table(table.rename(columns={"item": tables.columns[ITEM]}), path)
