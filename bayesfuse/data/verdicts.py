"""Verdicts of judges, such as language models, as responses; pandas reads the files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import combinations
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_hashable

from bayesfuse.data.arrays import quoted, refuse, shown
from bayesfuse.data.cell_types import read_file
from bayesfuse.data.column_roles import (
    ITEM,
    LABEL,
    RATER,
    did_you_mean,
    plain_name,
    suggest_columns,
)
from bayesfuse.data.files import as_paths
from bayesfuse.data.judgments import standard_verdicts
from bayesfuse.data.layouts import naming_reader
from bayesfuse.data.names import JOINT, joined_columns
from bayesfuse.data.positive_class import normal_form
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import require_few_classes
from bayesfuse.errors import ResponsesError, require_kind, warn
from bayesfuse.errors.messages import SHORT

SILENT = ("", "abstain", "abstention", "error", "n/a", "na", "none", "null", "nan", "?", "unknown")
"""Verdicts that mean no response, in any case."""

KEYS = tuple(
    "verdict winner choice preference preferred decision judgment judgement score rating grade "
    "label answer result".split()
)
"""Names of a verdict in JSON text and before a colon."""

TIES = set(
    "tie,draw,equal,same,a=b,b=a,a==b,b==a,[[c]],no preference,tie bothbad,tie both bad,"
    "tie bothgood,tie both good,tie inconsistent,both,bothbad,both bad,both are bad,bothgood,"
    "both good,neither,neither one".split(",")
)
"""Verdicts without a winner, in lower case, spaces for underscores, and without brackets."""

SIDE = re.compile(
    r"(?:the )?(?:(?:model|output|response|assistant|answer|option|candidate|system) ?)?"
    r"(?:(?P<place>first|second)(?: one)?"
    r"|(?P<wins>[ab])(?: (?:wins|won|(?:is )?(?:(?:much|slightly) )?better))?"
    r"|(?P<better>[ab])>{1,2}[ab]|[ab]<{1,2}(?P<best>[ab]))"
)
RENAME = (
    "To compare two outputs an item, rename these columns model_a and model_b, the item "
    "question_id and the verdict winner, and leave out item=, judge= and verdict=."
)
BRACKETS = re.compile(r"\[\[([^\[\]]+)\]\]")
PREFIX = re.compile(rf"[\w *#-]{{0,40}}?\b(?:{'|'.join(KEYS)})\b[*\s]*[:=][*\s]*", re.IGNORECASE)
SCORE = re.compile(
    r"([+-]?\d+(?:\.\d+)?)(?: ?(?:/|out of) ?(\d+(?:\.\d+)?)| ?(%)| (?:points?|stars?))?\.?"
)
ORDER = {"true": True, "1": True, "1.0": True, "yes": True}
ORDER |= {"false": False, "0": False, "0.0": False, "no": False}
MAX_GRADES = 101
OTHER_SIDE = {"A": "B", "B": "A"}
SWAPPED = " (swapped)"
NAMES_OF_ORDER = {"swapped", "isswapped", "swap", "flipped", "reversed", "order", "position"}
"""Usual names of the column ``swapped``, as by :func:`plain_name`."""


class Verdicts(NamedTuple):
    """Responses of judges, columns of the items, and the judges asked in both orders."""

    responses: Responses
    items: pd.DataFrame
    orders: list[tuple[str, str]]


def read_verdicts(
    table: Any,
    *,
    item: str | Sequence[str] = "item",
    judge: str | Sequence[str] = "judge",
    verdict: str = "verdict",
    judges: Sequence[str] | None = None,
    swapped: str | None = None,
    missing: Sequence[Any] = SILENT,
    positive: Any = None,
    normalise: bool = False,
) -> Verdicts:
    """Read the verdicts of judges: classes, pairwise preferences or scores.

    Parameters
    ----------
    table : DataFrame, path of a CSV, Parquet, JSON or JSONL file, or several paths
        With one row per verdict, or with ``judges`` one row per item and a column per judge.
        Judgments of MT-Bench, FastChat and Chatbot Arena are read without further arguments:
        ``question_id`` and ``turn`` with ``model`` and ``score``, or with two models (model_1 and
        model_2, or model_a and model_b) and ``winner``, ``g1_winner`` and ``g2_winner`` (the other
        order), or columns ``winner_…`` of judges or of outcomes. Items are then questions with
        systems. "A" is the system of the first column, as ``items["model_a"]`` has it. If a
        question has both orders of a pair, these are one item, "A" is the first in the alphabet,
        and verdicts on the other order are of a judge with " (swapped)" in its name.
    item, judge : str or sequence of str
        Columns that name an item or a judge together, such as ``["question", "system"]``: items
        are then "1 / new", judges "gpt-4 strict". Known labels may have the same columns.
    verdict : str
    judges : sequence of str, optional
        Columns of a wide table, one for every judge, in place of ``judge`` and ``verdict``.
    swapped : str, optional
        Column (true, yes, 1 or false, no, 0) of whether the judge saw the two outputs in the
        other order. Verdicts are turned back, and are of a judge with " (swapped)" in its name.
    missing : sequence
        Verdicts that count as none, in upper or lower case: silence and failures.
    positive, normalise : optional
        Of verdicts that are classes, as in :meth:`bayesfuse.Responses.from_long`.

    Returns
    -------
    responses : Responses
        If all verdicts are preferences ("A", "first", "tie", "A>B", "[[B]]", …), classes are
        "A", "B" and, if there are any, "tie" (with "tie (inconsistent)", "both bad", "neither");
        numbers ("8", "[[8]]", "8/10", "Rating: 8") are grades, at most 101; all other verdicts are
        classes as they are. Of JSON text, the verdict is the value of "verdict", "winner", "score",
        ….
    items : DataFrame
        Columns that have one value for every item, which is the index: ``items["system"]`` is
        ``by=`` of :func:`bayesfuse.class_shares`.
    orders : list of (given, swapped)
        For :func:`bayesfuse.decisions.position_bias`.

    Raises
    ------
    ResponsesError
        Rows without an item or a judge; other verdicts among preferences or scores; too many
        grades; JSON text without a verdict; free text.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> rows = [(1, "new", "x", "[[A]]"), (1, "new", "y", "B>A"), (2, "old", "x", "tie")]
    >>> table = pd.DataFrame(rows, columns=["question", "system", "judge", "verdict"])
    >>> responses, items, _ = bf.io.read_verdicts(table, item=["question", "system"])
    >>> responses.classes.tolist(), items["system"].to_dict()
    (['A', 'B', 'tie'], {'1 / new': 'new', '2 / old': 'old'})
    """
    frame = table
    if isinstance(table, str | PathLike | list | tuple):
        frame = pd.concat([read_file(path) for path in as_paths(table)], ignore_index=True)
    require_kind("A table of verdicts that is not a path", frame, pd.DataFrame)
    roles = ["item", "judge", "verdict"]
    if [item, judge, verdict] == roles and not judges and not swapped and not {*roles} <= {*frame}:
        frame, named = standard_verdicts(frame) or (frame, {})
        item, verdict = named.get("item", item), named.get("verdict", verdict)
        swapped = named.get("swapped")
    item_columns = [item] if isinstance(item, str) else [*item]
    judge_columns = [judge] if isinstance(judge, str) else [*judge]
    wide = [*(judges or ())]
    used = [*(wide or [*judge_columns, verdict]), *([swapped] if swapped else [])]
    with naming_reader(frame, "read_verdicts"):
        _require_columns(frame, item_columns, used, [] if wide else judge_columns)
    frame = frame.assign(**{"": joined_columns(frame, item_columns, JOINT)})
    is_swapped = _read_order(frame[swapped]) if swapped else np.zeros(len(frame), dtype=bool)
    columns = {name: name for name in wide} or {verdict: joined_columns(frame, judge_columns, " ")}
    parts = [
        pd.DataFrame({"item": frame[""], "judge": names, "verdict": frame[column]})
        for column, names in columns.items()
    ]
    long = pd.concat(parts, ignore_index=True)
    is_swapped = np.tile(is_swapped, len(columns))
    text = long["verdict"].map(_as_text).str.strip()
    verdicts = _parse(text, missing)
    is_verdict = (long["verdict"].notna() & text.isin(list(verdicts))).to_numpy()
    if not is_verdict.any():
        raise ResponsesError(f"At least one verdict must be given. Got: none in {len(long)} rows.")
    labels, classes = _labels(long["verdict"][is_verdict], text[is_verdict], verdicts)
    judge_of = long["judge"].astype(str).to_numpy(dtype=object)
    judge_of = np.where(is_swapped, judge_of + SWAPPED, judge_of)
    if is_swapped[is_verdict].any():
        if "A" not in (classes or []):
            raise ResponsesError(
                "swapped= turns preferences (A, B, tie) back, and other verdicts have no order. "
                f"Got: verdicts {shown(pd.unique(labels))}."
            )
        turned = [OTHER_SIDE.get(label, label) for label in labels]
        labels = np.where(is_swapped[is_verdict], turned, labels)
    if classes is None:
        _warn_of_systems(frame.drop(columns=["", *item_columns, *used]), frame[[*columns]])
    if "A" in (classes or []) and not swapped:
        _warn_of_order(frame.drop(columns=["", *item_columns, *used]))
    responses = Responses.from_long(
        {
            "item": long["item"][is_verdict].to_numpy(),
            "rater": judge_of[is_verdict],
            "label": labels,
        },
        items=list(dict.fromkeys(frame[""])),
        raters=sorted(set(judge_of)),
        classes=classes,
        ordered=classes is not None and "A" not in classes,
        positive=positive,
        normalise=normalise,
    )
    require_few_classes(responses)
    names = set(judge_of[is_verdict])
    orders = [(name, name + SWAPPED) for name in sorted(names) if name + SWAPPED in names]
    return Verdicts(responses, _constant(frame.drop(columns=used)), orders)


def _require_columns(
    frame: pd.DataFrame, item_columns: list[str], used: list[str], judge_columns: list[str]
) -> None:
    """Raise ResponsesError unless columns are in the table once, and those of names complete."""
    header = list(frame.columns)
    if absent := [name for name in (*item_columns, *used) if header.count(name) != 1]:
        role = {"item": ITEM, "judge": RATER, "verdict": LABEL}.get(absent[0])
        names = suggest_columns(frame, header, role, []) if role and absent[0] not in header else []
        raise ResponsesError(
            "item=, judge=, verdict= and swapped= name columns of the table, and judges= those of "
            f"a table with a column per judge. Got: {'several' if absent[0] in header else 'no'} "
            f"{absent[0]!r} among {shown(header)}{did_you_mean(names)}."
        )
    naming = [*item_columns, *judge_columns]
    empty = (frame[naming].isna() | frame[naming].eq("")).to_numpy()
    row_in_words = "nothing in row {}, counted from 0, of column {!r}".format
    rule = "Every row must name an item and a judge."
    refuse(empty.any(axis=1), rule, lambda n: row_in_words(n, naming[empty[n].argmax()]))


def _read_order(column: pd.Series) -> NDArray[np.bool_]:
    is_swapped = column.astype(str).str.strip().str.casefold().map(ORDER)
    rule = "swapped= must be true, yes or 1, or false, no or 0, in every row."
    refuse(is_swapped.isna(), rule, lambda _: shown(column[is_swapped.isna()].unique()))
    return is_swapped.to_numpy(dtype=bool)


def _warn_of_order(unread: pd.DataFrame) -> None:
    """Warn of columns that seem to say which outputs a judge saw, and in which order."""
    for name in unread:
        if plain_name(name) in NAMES_OF_ORDER and unread[name].nunique() > 1:
            warn(
                f"Column {name!r} is not read, and verdicts count as given in one order: if it "
                f'tells which pairs a judge saw in the other order, give swapped="{name}" (true or '
                "false in every row)."
            )
    values = unread.map(str)
    distinct = {name: set(values[name]) for name in values}
    for first, second in combinations(values, 2):
        if len(distinct[first] & distinct[second]) > 1 and (values[first] != values[second]).all():
            warn(f"Columns {first!r} and {second!r}, which share values, are not read. {RENAME}")


def _warn_of_systems(unread: pd.DataFrame, verdicts: pd.DataFrame) -> None:
    """Warn if verdicts name one of two systems, which other columns have."""
    winners, systems = verdicts.map(str), unread.map(str)
    is_tie = winners.map(lambda text: normal_form(text) in TIES) | verdicts.isna()
    names = {*winners.to_numpy().ravel()}
    for first, second in combinations([c for c in systems if not names.isdisjoint(systems[c])], 2):
        pair = systems[[first, second]]
        is_named = winners.apply(lambda column, pair=pair: pair.eq(column, axis=0).any(axis=1))
        if (is_named | is_tie).to_numpy().all():
            warn(
                f"Verdicts name the systems of the columns {first!r} and {second!r}, so that "
                f"classes are systems. {RENAME}"
            )
            return


def _parse(text: pd.Series, missing: Sequence[Any]) -> dict[str, _Verdict]:
    """Return the verdict of every distinct text that is not silence."""
    silent = {normal_form(str(mark)) for mark in missing}
    texts = [value for value in pd.unique(text) if normal_form(value) not in silent]
    verdicts = {value: _read_verdict(value) for value in texts}
    return {value: v for value, v in verdicts.items() if normal_form(v.words) not in silent}


def _as_text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict | list) else str(value)  # of JSON files


class _Verdict(NamedTuple):
    """The words of a verdict, and its winner, or a number out of a maximum ("8/10")."""

    words: str
    is_marked: bool  # by signs that names of classes lack
    winner: str = ""
    number: float = np.nan
    maximum: str = ""


def _read_verdict(text: str) -> _Verdict:
    """Return the verdict in a text, or raise ResponsesError."""
    words = _from_json(text) if text.startswith(("{", "```")) else text
    bracketed = dict.fromkeys(bracket.strip() for bracket in BRACKETS.findall(words))
    if len(bracketed) > 1:
        raise ResponsesError(
            "A verdict has one mark in double brackets, such as [[A]] or [[8]]; name failures in "
            f"missing=. Got: {shown(list(bracketed))}."
        )
    marked = next(iter(bracketed), None)
    words = words if marked is None else marked
    words = words[prefix.end() :] if (prefix := PREFIX.match(words)) else words
    key = re.sub(r"[_\s-]+", " ", normal_form(words.strip("*`\"'"))).strip()
    key = re.sub(" *([<>=/]+) *", r"\1", re.sub(r"[()]", "", key))
    number = SCORE.fullmatch(normal_form(words).strip("*`\"'"))
    is_marked = marked is not None or words != text or bool(set(key) & set("<>="))
    if key in TIES or f"[[{marked}]]".casefold() in TIES:
        return _Verdict(words, is_marked, "tie")
    if side := SIDE.fullmatch(key):
        letters = set(re.findall(r"[ab](?=[<>])|(?<=[<>])[ab]", key))
        if len(letters) != 1:  # else "a>a"
            place = {"first": "a", "second": "b"}.get(side["place"] or "")
            winner = place or side["wins"] or side["better"] or side["best"]
            return _Verdict(words, is_marked, winner.upper())
    if number:
        maximum = number[2] or number[3] or ""
        return _Verdict(words, is_marked or bool(maximum), "", float(number[1]), maximum)
    try:
        return _Verdict(words, is_marked, "", float(words))  # such as 1e2 and inf
    except ValueError:
        return _Verdict(words, False)


def _from_json(text: str) -> str:
    """Return the verdict in JSON text, or raise ResponsesError."""
    try:
        parsed = json.loads(text.strip("`").removeprefix("json"))
    except ValueError:
        parsed = None
    named = (
        {} if not isinstance(parsed, dict) else {str(k).casefold(): v for k, v in parsed.items()}
    )
    values = [named[key] for key in KEYS if key in named]
    if len(values) != 1 or isinstance(values[0], dict | list):
        got = f"keys {shown(list(named))}" if named else quoted(text, SHORT)
        raise ResponsesError(
            f"A verdict as JSON text is an object with one of the keys {', '.join(KEYS)}: take the "
            f"verdict out of others, and name failures in missing=. Got: {got}."
        )
    return str("" if values[0] is None else values[0]).strip()


def _labels(
    values: pd.Series, text: pd.Series, read: dict[str, _Verdict]
) -> tuple[Any, list[Any] | None]:
    """Return verdicts as labels, and classes: of preferences and grades, in their order."""
    distinct = pd.unique(text)
    verdicts = [read[key] for key in distinct]
    winners = {verdict.winner for verdict in verdicts}
    if "" not in winners and winners & set(OTHER_SIDE):
        labels = text.map({key: read[key].winner for key in distinct}).to_numpy(dtype=object)
        return labels, ["A", "B", *(["tie"] if "tie" in labels else [])]
    # without signs, as in "model_a", they may be names of classes
    if "" in winners and any(verdict.winner and verdict.is_marked for verdict in verdicts):
        unlike = sorted(verdict.words for verdict in verdicts if not verdict.winner)
        raise ResponsesError(
            "If verdicts are preferences (A>B, tie, [[B]]), all are; name failures in missing=. "
            f"Got: also {shown(unlike)}."
        )
    if not any(np.isnan(verdict.number) for verdict in verdicts):
        if len(maximum := {verdict.maximum for verdict in verdicts if verdict.maximum}) > 1:
            raise ResponsesError(
                "Scores out of a maximum (8/10) have one, because grades of several scales have no "
                f"order: convert them. Got: out of {shown(sorted(maximum))}."
            )
        numbers = text.map({key: read[key].number for key in distinct}).to_numpy(dtype=float)
        grades = np.unique(numbers)
        if (grades == np.floor(grades)).all() and np.ptp(grades) < MAX_GRADES:
            numbers = numbers.astype(np.int64)
            grades = np.arange(numbers.min(), numbers.max() + 1)
        if len(grades) > MAX_GRADES or not np.isfinite(grades).all():
            raise ResponsesError(
                f"Numbers are grades, finite and at most {MAX_GRADES}: merge them into few, and "
                f"name failures in missing=. Got: {len(grades)}, from {grades[0]:g} to "
                f"{grades[-1]:g}."
            )
        return numbers, grades.tolist()
    if any(verdict.is_marked and not np.isnan(verdict.number) for verdict in verdicts):
        unlike = sorted(verdict.words for verdict in verdicts if np.isnan(verdict.number))
        raise ResponsesError(
            "If verdicts are scores ([[8]], 8/10), all are; name failures in missing=. Got: also "
            f"{shown(unlike)}."
        )
    if values.dtype.kind in "biuf":
        return values.to_numpy(), None
    return text.map({key: read[key].words for key in distinct}).to_numpy(), None


def _constant(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first row of every item, of the columns that are the same in all its rows."""
    groups = frame.groupby("", sort=False)
    names = [name for name in frame.columns.drop("") if frame[name].map(is_hashable).all()]
    constant = [name for name in names if groups[name].nunique(dropna=False).max() == 1]
    return frame.drop_duplicates("").set_index("")[constant].rename_axis("item")
