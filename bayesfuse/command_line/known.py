"""What is known of items, from files: labels, and the groups of ``--by`` and ``--populations``."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.columns import (
    read_columns,
    require_columns,
    require_complete,
    require_unique,
)
from bayesfuse.command_line.console import write_stderr
from bayesfuse.command_line.files import STDIN
from bayesfuse.data import gold_tables
from bayesfuse.data.column_roles import ITEM, LABEL


def read_gold(arguments: argparse.Namespace, responses: bf.Responses) -> pd.Series:
    """Return known labels, in columns named as in the table, or item and label."""
    path, requested = arguments.gold, [arguments.item, arguments.label]
    frame = read_columns(path)
    if arguments.rater in frame:  # a table of responses
        requested = [ITEM, LABEL]
    if "," in arguments.item:
        frame = gold_tables.with_item_names(frame, responses)
    ends = gold_tables.gold_columns(list(frame), *requested)
    if len(ends) < 2:
        hint = "known labels are in the columns item and label, or those of --item and --label"
        require_columns(frame, [ITEM, LABEL], path, hint, list(frame))
    item, label = (frame[name].astype(object) for name in ends)
    require_complete(item[label.notna()].to_frame(), path, "a gold label needs an item and a label")
    gold: Any = gold_tables.read_gold(gold_tables.known_as_text(item, label, responses), responses)
    if n_empty := int(item.notna().sum()) - len(gold):
        write_stderr(f"bayesfuse: {n_empty:,} rows of {path} have no label and are left out")
    return gold


def group_columns(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the columns of groups of items, by the option that names them."""
    options = {name: getattr(arguments, name, None) for name in ("by", "populations")}
    return {name: column for name, column in options.items() if column is not None}


def read_groups(
    arguments: argparse.Namespace,
    responses: bf.Responses,
    item: str | None,
    by_item: pd.DataFrame | None,
) -> dict[str, pd.Series]:
    """Return the group of every item, by the option that names its column.

    ``item`` is the column of the items of responses; ``by_item`` has the columns that exports have
    by item.
    """
    item = arguments.item if arguments.items or item is None else item
    return {
        option: _read_group(arguments, responses, f"--{option}", column, item, by_item)
        for option, column in group_columns(arguments).items()
    }


def _read_group(
    arguments: argparse.Namespace,
    responses: bf.Responses,
    option: str,
    column: str,
    item: str,
    by_item: pd.DataFrame | None,
) -> pd.Series:
    """Return the group of every item in a column."""
    path = arguments.items or arguments.responses
    if by_item is not None and arguments.items is None:
        rule = f"{option} names a column with one value for every item"
        require_columns(by_item, [column], path, rule, by_item.columns.tolist())
        group_of = by_item[column]
        frame = group_of.astype(str).where(group_of.notna()).rename_axis(item).reset_index()
        frame[item] = frame[item].astype(str)
    elif path == STDIN or (arguments.items is None and (arguments.format or arguments.more)):
        given = "standard input" if path == STDIN else "an export or several files"
        raise CommandError(f"{option} needs a column of a file: give --items FILE. Got: {given}")
    else:
        frame = read_columns(path, (item, column)).drop_duplicates()
    require_complete(frame, path, f"every item needs a group for {option} {column}")
    rule = (
        "an item has one group in all its rows; answers of several systems to a question are "
        f"items of their own, named by both columns: --format verdicts --item {item},"
        f"{column} reads them so"
    )
    require_unique(frame[item], path, rule)
    names = {str(name): name for name in responses.items.tolist()}
    index = pd.Index([names.get(name) for name in frame[item]])
    group = pd.Series(frame[column].astype(str).to_numpy(), index, name=column)
    return group[index.notna()]
