"""What is known of items, from files: labels, and the groups of ``--by`` and ``--populations``."""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd

import bayesfuse as bf
from bayesfuse.command_line.columns import (
    Files,
    read_columns,
    require_columns,
    require_complete,
)
from bayesfuse.command_line.console import write_stderr
from bayesfuse.data import gold_tables
from bayesfuse.data.column_roles import ITEM, LABEL


def read_gold(arguments: argparse.Namespace, responses: bf.Responses) -> pd.Series:
    """Return known labels, in columns named as in the table, or item and label."""
    path, requested = arguments.gold, [arguments.item, arguments.label]
    files = read_columns(path)
    if arguments.rater in files.frame:  # a table of responses
        requested = [ITEM, LABEL]
    else:
        files = files._replace(frame=gold_tables.with_item_names(files.frame, responses))
    frame = files.frame
    ends = gold_tables.gold_columns(list(frame), *requested)
    if len(ends) < 2:
        hint = "known labels are in the columns item and label, or those of --item and --label"
        require_columns(files, [ITEM, LABEL], hint)
    item, label = (frame[name].astype(object) for name in ends)
    require_complete(
        item[label.notna()].to_frame(), files, "a gold label needs an item and a label"
    )
    gold: Any = gold_tables.read_gold(gold_tables.known_as_text(item, label, responses), responses)
    if n_empty := int(item.notna().sum()) - len(gold):
        write_stderr(f"bayesfuse: {n_empty:,} rows of {path} have no label and are left out")
    return gold


def group_columns(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the columns of groups of items, by the option that names them."""
    options = {name: getattr(arguments, name, None) for name in ("by", "populations")}
    return {name: column for name, column in options.items() if column is not None}


def group_of_items(
    files: Files, responses: bf.Responses, option: str, item: str, column: str
) -> pd.Series:
    """Return the group of every item in a column."""
    rule = (
        "an item has one group in all its rows; answers of several systems to a question are "
        f"items of their own, named by both columns: --format verdicts --item {item},"
        f"{column} reads them so"
    )
    need = f"every item needs a group for --{option} {column}"
    frame = files.by_item([item, column], need, rule, is_list=False)
    names = {str(name): name for name in responses.items.tolist()}
    index = pd.Index([names.get(name) for name in frame[item]])
    group = pd.Series(frame[column].astype(str).to_numpy(), index, name=column)
    return group[index.notna()]
