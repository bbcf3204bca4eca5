"""Reading a user's files into responses, sequences, graphs and known labels."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.columns import (
    read_columns,
    read_text_table,
    require_columns,
    require_complete,
    require_lines,
    require_unique,
)
from bayesfuse.command_line.known import group_columns, read_gold, read_groups
from bayesfuse.data import tables
from bayesfuse.data.arrays import quoted, shown
from bayesfuse.data.column_roles import ITEM, LABEL, RATER, assign_roles
from bayesfuse.data.headings import without_headings
from bayesfuse.data.layouts import naming_reader
from bayesfuse.data.missing_text import left_out, skipped

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
    item, rater, label = roles = [arguments.item, arguments.rater, arguments.label]
    if arguments.swapped is not None and arguments.format != "verdicts":
        raise CommandError(
            "--swapped describes verdicts: give --format verdicts. Got: another table"
        )
    in_sequence = arguments.sequence is not None
    position_columns = [arguments.sequence, arguments.position] if in_sequence else []
    if repeated := [
        name for name, number in Counter(roles + position_columns).items() if number > 1
    ]:
        raise CommandError(f"a column can be used once only. Got: {repeated[0]!r} for two options")
    by_item: pd.DataFrame | None = None
    if arguments.format is not None:
        rows, read, by_item = _read_export(arguments, roles)
        columns = {} if "," in item else {ITEM: item}
    else:
        rows, read, columns = _read_rows(
            arguments, roles if arguments.items else roles + position_columns
        )
    listed = _read_items(arguments, rows, position_columns)
    answered = rows[item].cat.categories
    edges, weights = _read_edges(arguments.graph, answered) if arguments.graph else (None, None)
    # item names must be integers, or text, in all files alike
    mentioned = [answered] if listed is None else [answered, listed[item].cat.categories]
    mentioned += [] if edges is None else [edges[end].cat.categories for end in edges]
    names = tables.as_integers(chain.from_iterable(mentioned))

    sequences, places = None, None
    if listed is None:  # in order of a wide table, as bf.Responses has them
        items = list(dict.fromkeys(names.values()))
        items = sorted(items) if RATER in columns else items
    elif in_sequence:
        sequences, places = _read_sequences(listed, names, item, *position_columns)
        items = sequences.items.tolist()
    else:
        items = [names[name] for name in listed[item]]
    declared = _declared(arguments) or []
    classes = tables.as_integers([*rows[label].cat.categories, *declared])
    responses = bf.Responses.from_long(
        {
            item: _renamed(rows[item], names),
            rater: _renamed(rows[rater]),
            label: _renamed(rows[label], classes),
        },
        item=item,
        rater=rater,
        label=label,
        items=items,
        classes=[classes[name] for name in declared] or None,
        ordered=arguments.ordered,
        positive=classes.get(arguments.positive, arguments.positive),
        normalise=bool(arguments.normalise),
    )
    graph = None
    if edges is not None:
        ends = pd.DataFrame({end: _renamed(edges[end], names) for end in edges})
        graph = bf.Graph.from_edges(ends, weights, items=items)
    gold = read_gold(arguments, responses) if arguments.gold else None
    groups = read_groups(arguments, responses, columns.get(ITEM), by_item)
    if arguments.no_header or columns.get(ITEM) == tables.UNNAMED:
        columns = {}
    if in_sequence:
        columns |= {"sequence": arguments.sequence, "position": arguments.position}
    by, populations = groups.get("by"), groups.get("populations")
    return Tables(responses, read, gold, sequences, graph, places, by, columns, populations)


def _read_rows(
    arguments: argparse.Namespace, columns: list[str]
) -> tuple[pd.DataFrame, str, dict[str, str]]:
    """Return one row per response with these columns, how it was read, and the user's names."""
    path = arguments.responses
    frame, separator = read_text_table(path, columns, not arguments.no_header)
    frame, _, headings = without_headings(frame)
    for other in arguments.more:
        further, _, _ = without_headings(
            read_text_table(other, columns, not arguments.no_header)[0]
        )
        if further.columns.tolist() != frame.columns.tolist():
            raise CommandError(
                "several tables must have the same columns, because they are read as one. Got: "
                f"{shown(further.columns.tolist())} in {other}"
            )
        frame = pd.concat([frame, further], ignore_index=True)
    frame.columns = frame.columns.map(str)  # numbers without a header
    with naming_reader(frame.columns):
        rows, read, names = _read_frame(arguments, frame, separator, columns)
    return rows, read + tables.headings(len(headings)), names


def _read_frame(
    arguments: argparse.Namespace, frame: pd.DataFrame, separator: str, columns: list[str]
) -> tuple[pd.DataFrame, str, dict[str, str]]:
    """Return one row per response of a table of text, how it was read, and the user's names."""
    path, position_columns = _source(arguments), columns[3:]
    requested = columns[0], columns[1], columns[2]
    header = frame.columns.tolist()
    has_index = tables.UNNAMED == header[0] and frame[tables.UNNAMED].is_unique
    ignored = arguments.ignore or []
    of_groups = [] if arguments.items else [*group_columns(arguments).values()]
    others = [*ignored, *of_groups, *position_columns, *([tables.UNNAMED] if has_index else [])]
    require_columns(frame, [*ignored, *of_groups], path, "", header)
    require_lines(frame, [name for name in requested if name in header], separator, path)
    roles = assign_roles(
        frame,
        [name for name in header if name not in others],
        requested,
        is_wide=arguments.wide,
        has_index=has_index,
    )
    if roles.is_long:
        if arguments.ignore:
            raise CommandError(
                "--ignore is for a table with a column per rater (--wide); of others, columns that "
                f"are not named are not read. Got: --ignore {','.join(arguments.ignore)}"
            )
        hint = (
            "give the names of columns by --item, --rater, --label, --sequence and --position, "
            "or --wide and --item for a table with a row per item and a column per rater"
        )
        require_columns(frame, [*roles, *position_columns], path, hint, header)
        require_lines(frame, [*roles, *position_columns], separator, path)
        long, words = _read_long(
            arguments, frame[[*roles, *position_columns]].set_axis(columns, axis=1)
        )
        names = {ITEM: roles.item, RATER: roles.rater, LABEL: roles.label}
        return long, tables.long(*roles) + words, names
    if position_columns:
        raise CommandError(
            "sequences need the columns of items, raters and labels: name them by --item, --rater "
            "and --label; a table with a column per rater has no sequence or position, and "
            f"--items FILE gives these. Got: columns {shown(header)}"
        )
    item = roles.item or (tables.UNNAMED if has_index else None)
    raters = [name for name in header if name not in (item, *others)]
    require_lines(frame, raters, separator, path)
    if item is None:
        item, names = requested[0], pd.Series(range(len(frame)), frame.index).astype(str)
        source = "numbered from 0"
    else:
        source = "index" if item == tables.UNNAMED else f"column {item}"
        names = frame[item]
        require_complete(frame[[item]], path, f"every row needs {item!r}")
    long, words = _read_wide(arguments, frame[raters], names, source, columns)
    return long, words, {ITEM: item}


def _source(arguments: argparse.Namespace) -> Path:
    """Return the names of the tables of responses, for errors."""
    return Path(" + ".join(map(str, [arguments.responses, *arguments.more])))


def _read_export(
    arguments: argparse.Namespace, columns: list[str]
) -> tuple[pd.DataFrame, str, pd.DataFrame | None]:
    """Return one row per response of exports, how they were read, and columns of the items."""
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
            chosen["positive"] = tables.as_integers([arguments.positive])[arguments.positive]
        if arguments.swapped is not None:
            chosen["swapped"] = arguments.swapped
    reader = f"read_{arguments.format.replace('-', '_')}"
    table = getattr(bf.io, reader)([arguments.responses, *arguments.more], **chosen)
    responses = getattr(table, "responses", table)
    names = [*map(str, responses.classes)]
    # verdicts have classes in order
    if responses is not table and arguments.classes is None and "," not in "".join(names):
        arguments.classes = ",".join(names)
        arguments.ordered = responses.ordered if arguments.ordered is None else arguments.ordered
    rows = responses.to_frame().astype(str).set_axis(columns, axis=1).astype("category")
    rows[columns[0]] = rows[columns[0]].cat.set_categories(responses.items.astype(str))
    by_item = table.items if arguments.format == "verdicts" else None
    return rows, f"Read as {arguments.format} (--format), one row per response.", by_item


def _read_long(arguments: argparse.Namespace, frame: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of a long table with a label, and in words which were left out."""
    item, rater, label = frame.columns[:3]
    path = _source(arguments)
    _, skips = left_out(frame[label], _declared(arguments))
    is_skipped = frame[label].isin(skips)
    if not arguments.drop_empty:
        rule = "a row needs a label; --drop-empty leaves out those without"
        require_complete(frame[[label]], path, rule)
    labelled = frame[frame[label].notna() & ~is_skipped]
    require_complete(labelled[[item, rater]], path, f"every row needs {item!r} and {rater!r}")
    labelled = labelled.astype("category")
    all_items = frame[item].dropna().unique()
    labelled[item] = labelled[item].cat.set_categories(all_items)
    n_empty = int(frame[label].isna().sum())
    raters_without_labels = sorted({*frame[rater].dropna()} - {*labelled[rater]}) if n_empty else []
    words = tables.without_labels(n_empty, raters_without_labels)
    return labelled, words + skipped(frame[label][is_skipped], "--classes")


def _read_wide(
    arguments: argparse.Namespace,
    cells: pd.DataFrame,
    items: pd.Series,
    source: str,
    columns: list[str],
) -> tuple[pd.DataFrame, str]:
    """Return the responses in a table with a row per item and a column per rater."""
    require_unique(items, _source(arguments), "an item has one row with --wide")
    declared = _declared(arguments)
    texts = pd.unique(pd.Series(cells.to_numpy(dtype=object).ravel()).dropna())
    codes = tables.as_integers([*texts, *(declared or [])])
    if all(isinstance(code, int) for code in codes.values()):  # of classes, as in NumPy
        cells = cells.astype("Int64")
    classes = None if declared is None else [codes[name] for name in declared]
    naming = {"classes": classes, "positive": None, "normalise": bool(arguments.normalise)}
    table, words = tables.read_wide(cells.set_axis(items), source, naming, [], "--classes")
    rows = table.to_frame().astype(str).set_axis(columns, axis=1).astype("category")
    rows[columns[0]] = rows[columns[0]].cat.set_categories(items)  # also without responses
    return rows, words


def _declared(arguments: argparse.Namespace) -> list[str] | None:
    return arguments.classes.split(",") if arguments.classes else None


def _read_items(
    arguments: argparse.Namespace, rows: pd.DataFrame, place: list[str]
) -> pd.DataFrame | None:
    """Return one row per item, with sequence and position if needed; None if there is no list."""
    columns = [arguments.item, *place]
    if arguments.items:
        hint = "--sequence and --position name the columns" if place else ""
        path, frame = arguments.items, read_columns(arguments.items, columns, hint)
        rule = "an item must have one row in the table of items"
    elif place:
        path, frame = arguments.responses, rows[columns].drop_duplicates()
        rule = "an item must have the same sequence and position in all its rows"
    else:
        return None
    require_complete(frame, path, f"every item needs {' and '.join(map(repr, columns))}")
    require_unique(frame[arguments.item], path, rule)
    return frame


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
    frame = read_columns(path)
    ends = [name for name in frame if name != WEIGHT]
    if len(ends) != 2:
        raise CommandError(
            f"a table of edges must have two columns of items and optionally {WEIGHT!r}. Got: "
            f"columns {shown(frame.columns.tolist())} in {path}"
        )
    require_complete(frame, path, "an edge needs two items, and a weight if others have one")
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
    names = tables.as_integers(column.cat.categories) if names is None else names
    renamed = column.cat.rename_categories([names[name] for name in column.cat.categories])
    return renamed.cat.reorder_categories(sorted(renamed.cat.categories))
