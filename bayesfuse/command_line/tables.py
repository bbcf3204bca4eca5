"""Reading a user's files into responses, sequences, graphs and known labels."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.columns import (
    Files,
    read_columns,
    read_files,
    require_columns,
    require_complete,
    require_lines,
)
from bayesfuse.command_line.known import group_columns, group_of_items, read_gold
from bayesfuse.data import tables
from bayesfuse.data.arrays import quoted, shown
from bayesfuse.data.cell_types import as_integers, with_types
from bayesfuse.data.column_contents import by_text
from bayesfuse.data.column_roles import ITEM, LABEL, RATER, Roles
from bayesfuse.data.files import UNNAMED
from bayesfuse.data.layouts import naming_reader
from bayesfuse.data.missing_text import DECLARED_BY, left_out

NOT_OF_EXPORTS = ("wide", "no_header", "ignore", "drop_empty", "sequence")

COLUMNS_OF_EXPORTS: dict[str, dict[str, str]] = {
    "inspect": {},
    "verdicts": {ITEM: "item", RATER: "judge", LABEL: "verdict"},
}
"""Arguments of readers that choose columns, by option, where they are not the usual two."""

WEIGHT = "weight"  # the column of weights in a table of edges


@dataclass(frozen=True)
class Tables:
    """The contents of a user's files.

    ``places`` are the columns sequence and position, in the order of the items of ``responses``;
    ``groups`` the group of every item, from ``--by``, and ``populations`` its population; ``read``
    how the table was read; ``columns`` the user's names of the columns ``item``, ``rater``,
    ``label``, ``sequence`` and ``position``.
    """

    responses: bf.Responses
    read: str
    gold: pd.Series | None = None
    sequences: bf.Sequences | None = None
    graph: bf.Graph | None = None
    places: pd.DataFrame | None = None
    groups: pd.Series | None = None
    columns: dict[str, str] = field(default_factory=dict)
    populations: pd.Series | None = None


def read_tables(arguments: argparse.Namespace) -> Tables:
    """Read all input files of ``fit``."""
    roles = [arguments.item, arguments.rater, arguments.label]
    if arguments.swapped is not None and arguments.format != "verdicts":
        raise CommandError(
            "--swapped describes verdicts: give --format verdicts. Got: another table"
        )
    in_sequence = arguments.sequence is not None
    places = [arguments.sequence, arguments.position] if in_sequence else []
    if repeated := [name for name, number in Counter(roles + places).items() if number > 1]:
        raise CommandError(f"a column can be used once only. Got: {repeated[0]!r} for two options")
    groups = group_columns(arguments)
    of_items = [*dict.fromkeys([*places, *groups.values()])]
    beside = [] if arguments.items else of_items
    if arguments.format is None:
        paths = [arguments.responses, *arguments.more]
        files = read_files(paths, [*roles, *beside], has_header=not arguments.no_header)
        with naming_reader(files.frame.columns):
            responses, read, columns, by_item = _read_responses(arguments, files, beside)
    else:
        responses, read, columns, by_item = _read_export(arguments, beside)
    if arguments.items:
        hint = "--sequence and --position name the columns" if in_sequence else ""
        by_item = read_columns(arguments.items, [arguments.item, *of_items], hint)
    listed = _listed_items(arguments, by_item, places)
    answered = pd.Index([*map(str, responses.items.tolist())])
    edges, weights = _read_edges(arguments.graph, answered) if arguments.graph else (None, None)
    # item names must be integers, or text, in all files alike
    mentioned = [] if listed is None else [listed[arguments.item].cat.categories]
    mentioned += [] if edges is None else [edges[end].cat.categories for end in edges]
    names: dict[str, Any] = dict(zip(answered, responses.items.tolist(), strict=True))
    if mentioned:
        names = as_integers(chain(answered, *mentioned))
    sequences, of_sequences = None, None
    if listed is None:  # in order of a wide table, as bf.Responses has them
        items = list(dict.fromkeys(names.values()))
        items = sorted(items) if mentioned and RATER in columns else items
    elif in_sequence:
        sequences, of_sequences = _read_sequences(listed, names, arguments.item, *places)
        items = sequences.items.tolist()
    else:
        items = [names[name] for name in listed[arguments.item]]
    if mentioned:
        frame = responses.to_frame()
        frame[ITEM] = [names[str(name)] for name in frame[ITEM]]
        responses = _declare(responses, frame, items)
    graph = None
    if edges is not None:
        ends = pd.DataFrame({end: _renamed(edges[end], names) for end in edges})
        graph = bf.Graph.from_edges(ends, weights, items=items)
    gold = read_gold(arguments, responses) if arguments.gold else None
    group_of = {
        option: group_of_items(by_item, responses, option, arguments.item, column)
        for option, column in groups.items()
    }
    if arguments.no_header or columns.get(ITEM) == UNNAMED:
        columns = {}
    if in_sequence:
        columns |= {"sequence": arguments.sequence, "position": arguments.position}
    by, populations = group_of.get("by"), group_of.get("populations")
    return Tables(responses, read, gold, sequences, graph, of_sequences, by, columns, populations)


def _listed_items(
    arguments: argparse.Namespace, by_item: Files, places: list[str]
) -> pd.DataFrame | None:
    """Return one row per item, with sequence and position if needed; None if there is no list."""
    columns = [arguments.item, *places]
    need = f"every item needs {' and '.join(map(repr, columns))}"
    if arguments.items:
        rule = "an item must have one row in the table of items"
        return by_item.by_item(columns, need, rule, is_list=True)
    rule = "an item must have the same sequence and position in all its rows"
    return by_item.by_item(columns, need, rule, is_list=False) if places else None


def _declare(
    responses: bf.Responses, frame: pd.DataFrame, items: Sequence[Any], **naming: Any
) -> bf.Responses:
    """Return a table with these items, and with all else as it was or as named."""
    of_table = {"classes": responses.classes.tolist(), "ordered": responses.ordered}
    raters = responses.raters.tolist()
    declared = bf.Responses.from_long(frame, items=items, raters=raters, **(of_table | naming))
    return replace(declared, normalised=responses.normalised or declared.normalised)


def _read_responses(
    arguments: argparse.Namespace, files: Files, of_items: list[str]
) -> tuple[bf.Responses, str, dict[str, str], Files]:
    """Return responses, how they were read, the user's names, and columns of items."""
    header = files.frame.columns.tolist()
    name_of = {str(name): name for name in header}  # numbers without a header
    requested = arguments.item, arguments.rater, arguments.label
    item, rater, label = (name_of.get(name, name) for name in requested)
    ignored = [name_of.get(name, name) for name in arguments.ignore or []]
    beside = [name_of.get(name, name) for name in of_items]
    require_columns(files, ignored)
    frame, columns = tables.assign_columns(
        files.frame,
        (item, rater, label),
        [],
        is_wide=arguments.wide,
        others=[*ignored, *beside],
    )
    if columns.is_long and arguments.ignore:
        raise CommandError(
            "--ignore is for a table with a column per rater (--wide); of others, columns that "
            f"are not named are not read. Got: --ignore {','.join(arguments.ignore)}"
        )
    if not columns.is_long and arguments.sequence in of_items:
        raise CommandError(
            "sequences need the columns of items, raters and labels: name them by --item, --rater "
            "and --label; a table with a column per rater has no sequence or position, and "
            f"--items FILE gives these. Got: columns {shown(header)}"
        )
    hint = (
        "give the names of columns by --item, --rater, --label, --sequence and --position, "
        "or --wide and --item for a table with a row per item and a column per rater"
    )
    used = [*(columns if columns.is_long else frame), *beside]
    require_columns(files, used, hint)
    require_lines(files, used)
    classes = arguments.classes.split(",") if arguments.classes else None
    _require_names(frame, columns, files, classes, drop_empty=arguments.drop_empty)
    items = frame.index.to_series() if columns.item is None else frame[columns.item]
    by_item = files.frame[beside].set_axis(of_items, axis=1).assign(**{arguments.item: items})
    naming: dict[str, Any] = {"classes": classes, "positive": arguments.positive}
    naming |= {"normalise": bool(arguments.normalise), "ordered": arguments.ordered}
    if files.separator:
        frame, naming = with_types(frame, columns, naming)
    missing = "drop" if arguments.drop_empty else "error"
    responses, read = tables.read_rows(frame, columns, naming, missing, [])
    read = read.replace(DECLARED_BY, "--classes") + tables.headings(files.n_headings)
    names = {role: name for role, name in zip(tables.ROLES, columns, strict=True) if name}
    return (
        responses,
        read,
        {ITEM: arguments.item} | names,
        files._replace(frame=by_item[items.notna()]),
    )


def _require_names(
    frame: pd.DataFrame, columns: Roles, files: Files, classes: Any, *, drop_empty: bool
) -> None:
    """Raise CommandError with the line of a response that lacks a name."""
    item, rater, label = columns
    if columns.is_long:
        if not drop_empty:
            rule = "a row needs a label; --drop-empty leaves out those without"
            require_complete(frame[[label]], files, rule)
        _, skips = left_out(frame[label].astype(object), classes)
        answered = frame[frame[label].notna() & ~frame[label].isin(skips)]
        require_complete(answered[[item, rater]], files, f"every row needs {item!r} and {rater!r}")
    elif item is not None:
        require_complete(frame[[item]], files, f"every row needs {item!r}")


def _read_export(
    arguments: argparse.Namespace, of_items: list[str]
) -> tuple[bf.Responses, str, dict[str, str], Files]:
    """Return the responses of exports, how they were read, names, and columns of the items."""
    options = NOT_OF_EXPORTS[:-1] if arguments.items else NOT_OF_EXPORTS
    if unused := [name for name in options if getattr(arguments, name) is not None]:
        raise CommandError(
            f"--{unused[0].replace('_', '-')} describes a table, and an export has a layout of its "
            f"own. Got: --format {arguments.format}"
        )
    roles = COLUMNS_OF_EXPORTS.get(arguments.format, {ITEM: ITEM, LABEL: LABEL})
    chosen: dict[str, Any] = {}
    for role in (ITEM, RATER, LABEL):
        if (name := getattr(arguments, role)) == role:
            continue
        if role not in roles:
            raise CommandError(
                f"--{role} is no column of these exports, which name it themselves. Got: --{role} "
                f"{name} with --format {arguments.format}"
            )
        chosen[roles[role]] = name.split(",") if "," in name and role != LABEL else name
    if arguments.format == "verdicts":
        chosen["normalise"] = bool(arguments.normalise)
        if arguments.positive is not None:
            chosen["positive"] = as_integers([arguments.positive])[arguments.positive]
        if arguments.swapped is not None:
            chosen["swapped"] = arguments.swapped
    reader = f"read_{arguments.format.replace('-', '_')}"
    path: Path = arguments.responses
    table = getattr(bf.io, reader)([path, *arguments.more], **chosen)
    responses = getattr(table, "responses", table)
    has_items = responses is not table
    class_of = by_text(responses.classes.tolist())
    naming: dict[str, Any] = {"ordered": arguments.ordered}
    if not has_items:
        naming["classes"] = None
    if arguments.format != "verdicts":  # whose reader has these arguments
        positive = class_of.get(arguments.positive, arguments.positive)
        naming |= {"positive": positive, "normalise": bool(arguments.normalise)}
    if arguments.classes:
        declared = arguments.classes.split(",")
        class_of = as_integers([*class_of, *declared]) | class_of
        naming["classes"] = [class_of[name] for name in declared]
    if any(value not in (None, False) for value in naming.values()):
        responses = _declare(responses, responses.to_frame(), responses.items.tolist(), **naming)
    if has_items and arguments.ordered is None:
        arguments.ordered = responses.ordered
    if of_items and not has_items:
        raise CommandError(
            "items of this export have no columns: give --items FILE, with a column "
            f"{of_items[0]!r}. Got: --format {arguments.format}"
        )
    frame = table.items if has_items else pd.DataFrame()
    by_item = Files(frame, [(path, pd.RangeIndex(len(frame)))])
    require_columns(by_item, of_items)
    frame = frame[of_items].assign(**{arguments.item: frame.index}).reset_index(drop=True)
    columns = {} if "," in arguments.item else {ITEM: arguments.item}
    read = f"Read as {arguments.format} (--format), one row per response."
    return responses, read, columns, by_item._replace(frame=frame)


def _read_sequences(
    listed: pd.DataFrame, names: Mapping[str, Any], item: str, sequence: str, position: str
) -> tuple[bf.Sequences, pd.DataFrame]:
    """Return the sequences, and the columns sequence and position of their items."""
    table = {
        item: _renamed(listed[item], names),
        sequence: _renamed(listed[sequence]),
        position: _ranked(listed[position]),
    }
    sequences = bf.Sequences.from_table(table, item=item, sequence=sequence, position=position)
    places = pd.DataFrame({"sequence": listed[sequence], "position": listed[position]})
    order = pd.Index(table[item].to_numpy()).get_indexer(pd.Index(sequences.items))
    return sequences, places.iloc[order]


def _ranked(column: pd.Series) -> NDArray[Any]:
    """Return positions as numbers, because as text 10 sorts before 9."""
    texts = pd.Series(column.cat.categories)
    try:
        values = pd.to_numeric(texts)
    except ValueError:
        values = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        if values.isna().any():
            raise CommandError(
                "positions must be numbers or times with a date, like 2026-01-31 or "
                "2026-01-31T23:59, so that they can be sorted, also over midnight. Got: "
                f"{quoted(texts[values.isna()].iloc[0])} in column {column.name!r}"
            ) from None
        values = values.astype("int64")
    return values.to_numpy()[column.cat.codes]


def _read_edges(path: Path, answered: pd.Index) -> tuple[pd.DataFrame, NDArray[Any] | None]:
    """Return both items of every edge, and the weights if there are any."""
    files = read_columns(path)
    frame = files.frame
    ends = [name for name in frame if name != WEIGHT]
    if len(ends) != 2:
        raise CommandError(
            f"a table of edges must have two columns of items and optionally {WEIGHT!r}. Got: "
            f"columns {shown(frame.columns.tolist())} in {path}"
        )
    require_complete(frame, files, "an edge needs two items, and a weight if others have one")
    joined = {name for end in ends for name in frame[end].cat.categories}
    if headings := [name for name in ends if name in joined or name in answered]:
        raise CommandError(
            "the first row of a table of edges must hold column names, else an edge would be "
            f"lost. Got: {headings[0]!r}, which is an item, in {path}"
        )
    if joined and joined.isdisjoint(answered):
        raise CommandError(
            "edges must join items of the table of responses. Got: edges between other items "
            f"only, such as {min(joined)!r}, in {path}"
        )
    if WEIGHT not in frame:
        return frame, None
    column = frame.pop(WEIGHT)
    try:
        weights = np.array([float(text) for text in column.cat.categories])
    except ValueError as error:
        raise CommandError(f"weights must be numbers. Got: {error} in {path}") from error
    return frame, weights[column.cat.codes]


def _renamed(column: pd.Series, names: Mapping[str, Any] | None = None) -> pd.Series:
    """Rename the categories to their plain names, in sorted order."""
    names = as_integers(column.cat.categories) if names is None else names
    renamed = column.cat.rename_categories([names[name] for name in column.cat.categories])
    return renamed.cat.reorder_categories(sorted(renamed.cat.categories))
