"""Reading a user's files into responses, sequences, graphs and known labels."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import bayesfuse as bf
from bayesfuse.command_line import CommandError
from bayesfuse.command_line.console import tell
from bayesfuse.command_line.files import STDIN, open_table
from bayesfuse.data import tables
from bayesfuse.data.arrays import usual
from bayesfuse.data.reading import odd_column

MISSING_CODE = "-1"  # of whole numbers, in tables with a column per rater

INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
LINE_BREAK = re.compile(r"\r\n|\r|\n")

UNNAMED = "Unnamed: 0"  # first column without a name, in pandas
WEIGHT = "weight"  # the column of weights in a table of edges

Told = Callable[[bf.Responses], str]  # how the table of these responses was read, in words


@dataclass(frozen=True)
class Tables:
    """The contents of a user's files.

    ``places`` are the columns sequence and position, in the order of the items of ``responses``;
    ``groups`` the group of every item, from ``--by``; ``read`` how the table was read.
    """

    responses: bf.Responses
    read: str
    gold: pd.Series | None = None
    sequences: bf.Sequences | None = None
    graph: bf.Graph | None = None
    places: pd.DataFrame | None = None
    groups: pd.Series | None = None


def read_tables(arguments: argparse.Namespace) -> Tables:
    """Read all input files of ``fit``."""
    item, rater, label = own = [arguments.item, arguments.rater, arguments.label]
    in_sequence = arguments.sequence is not None
    place = [arguments.sequence, arguments.position] if in_sequence else []
    if twice := [name for name in own + place if (own + place).count(name) > 1]:
        raise CommandError(f"a column can be used once only. Got: {twice[0]!r} for two options")
    rows, said = _read_rows(arguments, own if arguments.items else own + place)
    listed = _read_items(arguments, rows, place)
    answered = rows[item].cat.categories
    edges, weights = _read_edges(arguments.graph, answered) if arguments.graph else (None, None)
    # item names must be integers, or text, in all files alike
    mentioned = [answered] if listed is None else [answered, listed[item].cat.categories]
    mentioned += [] if edges is None else [edges[end].cat.categories for end in edges]
    names = _plain_names(chain.from_iterable(mentioned))

    sequences, places = None, None
    if listed is None:
        items = sorted(set(names.values()))
    elif in_sequence:
        sequences, places = _read_sequences(listed, names, item, *place)
        items = sequences.items.tolist()
    else:
        items = [names[name] for name in listed[item]]
    declared = arguments.classes.split(",") if arguments.classes else []
    classes = _plain_names([*rows[label].cat.categories, *declared])
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
    gold = _read_gold(arguments, responses) if arguments.gold else None
    groups = _read_groups(arguments, responses) if arguments.by is not None else None
    return Tables(responses, said(responses), gold, sequences, graph, places, groups)


def _read_rows(arguments: argparse.Namespace, columns: list[str]) -> tuple[pd.DataFrame, Told]:
    """Return one row per response, with these columns, also of a wide table."""
    path, (item, rater, label) = arguments.responses, columns[:3]
    if arguments.ignore and not arguments.wide:
        raise CommandError(
            "--ignore is for a table with a column per rater (--wide); of others, columns that are "
            f"not named are not read. Got: --ignore {','.join(arguments.ignore)}"
        )
    if not arguments.wide:
        hint = "give the names of columns by --item, --rater, --label, --sequence and --position, "
        hint += "or --wide and --item for a table with a row per item and a column per rater"
        frame = _read(path, columns, hint=hint)
        if not arguments.drop_empty:
            rule = "a row needs a label; --drop-empty leaves out those without"
            _require_complete(frame[[label]], path, rule)
        kept = frame[frame[label].notna()].apply(lambda own: own.cat.remove_unused_categories())
        _require_complete(kept[[item, rater]], path, f"every row needs {item!r} and {rater!r}")
        kept[item] = kept[item].cat.set_categories(frame[item].cat.categories)  # none is lost
        lost = frame[rater].cat.categories.difference(kept[rater].cat.categories).tolist()
        dropped = tables.without_labels(len(frame) - len(kept), lost)
        return kept, lambda _: tables.long(item, rater, label) + dropped
    if len(columns) > 3:
        raise CommandError(
            "a table with a column per rater has no sequence or position: give --items FILE with "
            "these columns. Got: --wide without --items"
        )
    frame = _read(path).astype(object)
    frame, where = _as_wanted(frame, [item], path), f"column {item}"
    texts = pd.Series(frame.to_numpy().ravel()).dropna().unique()
    if item == tables.ITEM and item not in frame and all(map(INTEGER.fullmatch, texts)):
        frame.insert(0, item, [str(row) for row in range(len(frame))])
        where = "numbered from 0"
    ignored = arguments.ignore or []
    by = [] if arguments.by is None or arguments.items else [arguments.by]
    hint = "--item names the column of the items, which --wide needs"
    _require_columns(frame, [item, *by, *ignored], path, hint, list(frame))
    _require_complete(frame[[item]], path, f"every row needs {item!r}")
    _require_unique(frame[item], path, "an item has one row with --wide")
    raters = [name for name in frame if name not in (item, *by, *ignored)]
    parts = [frame[name].dropna() for name in raters]
    if not arguments.classes and (odd := odd_column(parts, raters, [MISSING_CODE])):
        raise CommandError(
            "with --wide all columns but the items are raters, who share their labels: --ignore "
            "leaves out others, and --classes declares labels that one rater alone gives. Got: "
            f"{odd}"
        )
    cells = frame[raters].copy()
    marks = cells.eq(MISSING_CODE).to_numpy()
    said = frame[raters].to_numpy(dtype=object)[~marks & frame[raters].notna().to_numpy()]
    if marks.any() and all(text.isdecimal() for text in said):  # codes of classes, as in NumPy
        frame[raters] = frame[raters].mask(marks)
    rows = frame.melt([item], raters, rater, label).dropna(subset=[label]).astype("category")
    rows[item] = rows[item].cat.set_categories(frame[item])  # also those without responses
    return rows, lambda responses: tables.wide(responses, cells, where)


def _read_items(
    arguments: argparse.Namespace, rows: pd.DataFrame, place: list[str]
) -> pd.DataFrame | None:
    """Return one row per item, with sequence and position if needed; None if there is no list."""
    columns = [arguments.item, *place]
    if arguments.items:
        hint = "--sequence and --position name the columns" if place else ""
        path, frame = arguments.items, _read(arguments.items, columns, hint)
        rule = "an item must have one row in the table of items"
    elif place:
        path, frame = arguments.responses, rows[columns].drop_duplicates()
        rule = "an item must have the same sequence and position in all its rows"
    else:
        return None
    _require_complete(frame, path, f"every item needs {' and '.join(map(repr, columns))}")
    _require_unique(frame[arguments.item], path, rule)
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
        try:
            values = pd.to_datetime(texts, format="ISO8601", utc=True)
        except ValueError as error:
            raise CommandError(
                "positions must be numbers or times like 2026-01-31 or 2026-01-31T23:59, so "
                f"that they can be sorted. Got: {error} in column {column.name!r}"
            ) from error
        values = values.astype("int64")
    return values.to_numpy()[column.cat.codes]


def _read_edges(path: Path, answered: pd.Index) -> tuple[pd.DataFrame, NDArray[Any] | None]:
    """Return both items of every edge, and the weights if there are any."""
    frame = _read(path)
    ends = [name for name in frame if name != WEIGHT]
    if len(ends) != 2:
        raise CommandError(
            f"a table of edges must have two columns of items and optionally {WEIGHT!r}. Got: "
            f"columns {frame.columns.tolist()} in {path}"
        )
    _require_complete(frame, path, "an edge needs two items, and a weight if others have one")
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


def _require_columns(
    frame: pd.DataFrame, names: Sequence[str], path: Path, hint: str, header: list[str]
) -> None:
    if missing := [name for name in names if name not in frame]:
        raise CommandError(
            f"{path} has no column {missing[0]!r}{hint and f': {hint}'}. Got: columns {header}"
        )


def _require_complete(frame: pd.DataFrame, path: Path, rule: str) -> None:
    gaps = frame.isna().any(axis=1)
    if gaps.any():
        several = f", and in {gaps.sum() - 1:,} others" if gaps.sum() > 1 else ""
        raise CommandError(
            f"{rule}. Got: a missing value in {_line(gaps.idxmax(), path)} of {path}{several}"
        )


def _line(row: Any, path: Path) -> str:
    """Return the line of a row in a file, which may begin with the names of columns."""
    named = not {".jsonl", ".parquet"} & {*path.suffixes}
    return f"line {row + 1 + named}"


def _require_unique(items: pd.Series, path: Path, rule: str) -> None:
    if (again := items.duplicated()).any():
        raise CommandError(f"{rule}. Got: several for item {items[again].iloc[0]!r} in {path}")


def _read_gold(arguments: argparse.Namespace, responses: bf.Responses) -> pd.Series:
    """Return known labels, in columns named as in the table, or item and label."""
    path, own = arguments.gold, [arguments.item, arguments.label]
    hint = "known labels are in the columns item and label, or those of --item and --label"
    there = set() if path == STDIN else set(_read(path))
    if not set(own) <= there or arguments.rater in there:  # else it is a table of responses
        own = ["item", "label"]
    frame = _read(path, own, hint).set_axis(["item", "label"], axis=1).astype(object)
    if (empty := frame["label"].isna() & frame["item"].notna()).any():
        tell(f"bayesfuse: {empty.sum():,} rows of {path} have no label and are left out")
        frame = frame[~empty]
    _require_complete(frame, path, "a gold label needs an item and a label")
    return tables.known_as_text(frame["item"], frame["label"], responses)


def _read_groups(arguments: argparse.Namespace, responses: bf.Responses) -> pd.Series:
    """Return the group of every item, from ``--by``."""
    path, item = arguments.items or arguments.responses, arguments.item
    if path == STDIN:
        raise CommandError("--by needs a column of a file: give --items FILE. Got: standard input")
    frame = _read(path, (item, arguments.by)).drop_duplicates()
    _require_complete(frame, path, f"every item needs a group for --by {arguments.by}")
    _require_unique(frame[item], path, "an item has one group in all its rows")
    names = {str(name): name for name in responses.items.tolist()}
    group = pd.Series(
        frame[arguments.by].astype(str).to_numpy(), [names.get(name) for name in frame[item]]
    )
    return group[group.index.notna()]


def _read(path: Path, columns: Sequence[str] = (), hint: str = "") -> pd.DataFrame:
    """Read columns of a table, by default all, as categories of unchanged text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            # all columns, because with usecols pandas does not check the length of rows
            settings: dict[str, Any] = {
                "encoding": "utf-8-sig",  # spreadsheets write a byte-order mark
                "dtype": str,  # the dtype category would read 007 as 7
                "keep_default_na": False,
                "index_col": False,
            }
            opened = open_table(path)
            if ".jsonl" in path.suffixes or path.suffix == ".parquet":
                frame = _read_values(path, opened())
                header, separator = frame.columns.tolist(), ","
            else:
                header, separator = tables.header_of(path, opened, columns, **settings)
                frame = pd.read_csv(opened(), sep=separator, na_values=tables.MISSING, **settings)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"cannot read {path} as a table of UTF-8 text: {error}") from error
    except CommandError:
        raise
    except Exception as error:  # every compression has its own errors
        what = str(error) or type(error).__name__
        raise CommandError(f"cannot read {path} as a table: {what}") from error
    frame = _as_wanted(frame, columns, path)
    columns = columns or list(frame)  # pandas names a column without a name
    _require_own_lines(frame, columns, separator, path)
    _require_columns(frame, columns, path, hint, header)
    if twice := [name for name in columns if header.count(name) > 1]:
        rule = f"{path} has several columns {twice[0]!r}: the first line is read as their names"
        raise CommandError(f"{rule}. Got: columns {header}")
    return frame[list(dict.fromkeys(columns))].astype("category")


def _as_wanted(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> pd.DataFrame:
    """Rename columns that have another usual name, and say so."""
    names = zip(usual(columns, list(frame)), columns, strict=True)
    renamed = {own: name for own, name in names if own != name}
    if len(columns) == 1 and not renamed and columns[0] not in frame and UNNAMED in frame:
        renamed = {UNNAMED: columns[0]}  # of a wide table, by to_csv of pandas
    for own, name in renamed.items():
        tell(f"bayesfuse: column {own!r} of {path} is read as {name}")
    return frame.rename(columns=renamed)


def _read_values(path: Path, source: Path | BytesIO) -> pd.DataFrame:
    """Read a Parquet file, or a file of one JSON object a line, as unchanged text."""
    if path.suffix == ".parquet":
        frame = pd.read_parquet(source, dtype_backend="numpy_nullable")
    else:
        raw = source.read_bytes() if isinstance(source, Path) else source.getvalue()
        lines = filter(str.strip, raw.decode("utf-8-sig").splitlines())
        frame = pd.DataFrame([{**json.loads(line)} for line in lines], dtype=object)
    text = frame.astype("string").astype(object)
    return text.mask(text.isna() | text.isin(tables.MISSING))


def _require_own_lines(frame: pd.DataFrame, columns: Sequence[str], sep: str, path: Path) -> None:
    """Refuse cells that contain rows, as after an unclosed quote.

    Text in columns that are not used may have several lines, unless these look like rows.
    """
    if any(LINE_BREAK.search(name) for name in frame):
        raise CommandError(f"column names must be on one line. Got: several lines in {path}")
    for place, name in enumerate(frame):
        cells = frame[name]
        broken = cells[cells.str.contains(LINE_BREAK, na=False)]
        for row, cell in broken.items():
            first, *whole, last = (line.count(sep) for line in LINE_BREAK.split(cell))
            rest = frame.shape[1] - 1
            if name in columns or (first, last, {*whole, rest}) == (rest - place, place, {rest}):
                raise CommandError(
                    "a cell must be on one line, because an unclosed quote would merge rows. Got: "
                    f"{cell[:40]!r} in column {name!r}, {_line(row, path)} of {path}"
                )


def _plain_names(names: Iterable[str]) -> dict[str, Any]:
    """Map names to integers if all are plain integers, else to themselves."""
    listed = list(names)
    plain = all(INTEGER.fullmatch(name) and abs(int(name)) < 2**63 for name in listed)
    return {name: int(name) if plain else name for name in listed}


def _renamed(column: pd.Series, names: Mapping[str, Any] | None = None) -> pd.Series:
    """Rename the categories to their plain names, in sorted order."""
    names = _plain_names(column.cat.categories) if names is None else names
    renamed = column.cat.rename_categories([names[name] for name in column.cat.categories])
    return renamed.cat.reorder_categories(sorted(renamed.cat.categories))
