"""Verdicts of judges, such as language models, as responses; pandas reads the files."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfuse.data.arrays import refuse, shown
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import read_file
from bayesfuse.errors import ResponsesError, require_kind

SILENT = ("", "abstain", "abstention", "error", "n/a", "na", "none", "null", "nan", "?", "unknown")
"""Verdicts that are none, in any case."""

PAIRWISE = {
    "A": ("a", "a>b", "a>>b", "b<a", "b<<a", "a wins", "model_a", "output a", "[[a]]"),
    "B": ("b", "b>a", "b>>a", "a<b", "a<<b", "b wins", "model_b", "output b", "[[b]]"),
    "tie": ("tie", "a=b", "b=a", "a==b", "draw", "equal", "tie (bothbad)", "[[c]]"),
}
SPELT = {text: name for name, every in PAIRWISE.items() for text in every}
ORDER = {"true": True, "1": True, "1.0": True, "yes": True}
ORDER |= {"false": False, "0": False, "0.0": False, "no": False}
MOST = 101  # grades
TURNED = {"A": "B", "B": "A"}
SWAPPED = " (swapped)"


class Verdicts(NamedTuple):
    """Responses of judges, what is told of the items, and the judges asked in both orders."""

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
) -> Verdicts:
    """Read the verdicts of judges: classes, pairwise preferences or scores.

    Parameters
    ----------
    table : DataFrame or path of a CSV, Parquet, JSON or JSONL file
        With one row per verdict, or with ``judges`` one row per item and a column per judge.
    item, judge : str or sequence of str
        Columns that name an item or a judge together, such as ``["question", "system"]``.
    verdict : str
    judges : sequence of str, optional
        Columns of a wide table, one for every judge, in place of ``judge`` and ``verdict``.
    swapped : str, optional
        Column that says (true, yes, 1 or false, no, 0) whether the judge saw the two outputs in the
        other order. Verdicts are turned back, and are of a judge with " (swapped)" in its name.
    missing : sequence
        Verdicts that count as none, in upper or lower case: silence and failures.

    Returns
    -------
    responses : Responses
        If all verdicts are preferences ("A", "B", "tie", "A>B", "[[B]]", "B wins", …), classes are
        "A", "B" and, if there are any, "tie"; numbers are grades, at most 101; all other verdicts
        are classes as they are.
    items : DataFrame
        Columns that have one value for every item, which is the index: ``items["system"]`` is
        ``by=`` of :func:`bayesfuse.class_shares`.
    orders : list of (given, swapped)
        For :func:`bayesfuse.decisions.position_bias`.

    Raises
    ------
    ResponsesError
        Rows without an item or a judge; other verdicts among preferences; too many grades.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> rows = [(1, "new", "x", "[[A]]"), (1, "new", "y", "B>A"), (2, "old", "x", "tie")]
    >>> table = pd.DataFrame(rows, columns=["question", "system", "judge", "verdict"])
    >>> responses, items, _ = bf.read_verdicts(table, item=["question", "system"])
    >>> responses.classes.tolist(), items["system"].to_dict()
    (['A', 'B', 'tie'], {'1 / new': 'new', '2 / old': 'old'})
    """
    frame = read_file(table) if isinstance(table, str | PathLike) else table
    require_kind("A table of verdicts that is no path", frame, pd.DataFrame)
    of_item, of_judge, wide = (
        [each] if isinstance(each, str) else [*each] for each in (item, judge, judges or ())
    )
    naming = [*of_item, *([] if wide else of_judge)]
    used = [*(wide or [*of_judge, verdict]), *([swapped] if swapped else [])]
    if absent := [name for name in (*of_item, *used) if list(frame.columns).count(name) != 1]:
        raise ResponsesError(
            "item=, judge=, verdict= and swapped= name columns of the table, and judges= those of "
            f"a table with a column per judge. Got: no or several {absent[0]!r} among "
            f"{shown(frame.columns)}."
        )
    empty = (frame[naming].isna() | frame[naming].eq("")).to_numpy()
    told = "nothing in row {}, counted from 0, of column {!r}".format
    rule = "Every row must name an item and a judge."
    refuse(empty.any(axis=1), rule, lambda n: told(n, naming[empty[n].argmax()]))
    frame = frame.assign(**{"": _joined(frame, of_item, " / ")})
    turned = np.zeros(len(frame), dtype=bool)
    if swapped:
        said = frame[swapped].astype(str).str.strip().str.casefold().map(ORDER)
        odd = frame[swapped][said.isna()].unique()
        rule = "swapped= says true, yes or 1, or false, no or 0, in every row."
        refuse(said.isna(), rule, lambda _: shown(odd))
        turned = said.to_numpy(dtype=bool)
    parts = [(frame[name], name) for name in wide]
    parts = parts or [(frame[verdict], _joined(frame, of_judge, " "))]
    tables = [pd.DataFrame({"": frame[""], "judge": by, "verdict": said}) for said, by in parts]
    long = pd.concat(tables, ignore_index=True)
    turned = np.tile(turned, len(parts))
    silent = {str(mark).casefold() for mark in missing}
    text = long["verdict"].astype(str).str.strip()
    there = (long["verdict"].notna() & ~text.str.casefold().isin(silent)).to_numpy()
    if not there.any():
        raise ResponsesError(f"At least one verdict must be given. Got: none in {len(long)} rows.")
    labels, classes = _labels(long["verdict"][there], text[there])
    judges_of = long["judge"].astype(str).to_numpy(dtype=object)
    judges_of = np.where(turned, judges_of + SWAPPED, judges_of)
    if turned[there].any():
        if "A" not in (classes or []):
            raise ResponsesError(
                "swapped= turns preferences (A, B, tie) back, and other verdicts have no order. "
                f"Got: verdicts {shown(pd.unique(labels))}."
            )
        labels = np.where(turned[there], [TURNED.get(each, each) for each in labels], labels)
    responses = Responses.from_long(
        {"item": long[""][there].to_numpy(), "rater": judges_of[there], "label": labels},
        items=list(dict.fromkeys(frame[""])),
        raters=sorted(set(judges_of)),
        classes=classes,
        ordered=classes is not None and "A" not in classes,
    )
    names = set(judges_of[there])
    both = [(name, name + SWAPPED) for name in sorted(names) if name + SWAPPED in names]
    return Verdicts(responses, _constant(frame.drop(columns=used)), both)


def _joined(frame: pd.DataFrame, columns: list[str], by: str) -> Any:
    """Return one column as it is, several as text joined."""
    one = len(columns) == 1
    return frame[columns[0]] if one else frame[columns].astype(str).agg(by.join, axis=1)


def _labels(values: pd.Series, text: pd.Series) -> tuple[Any, list[Any] | None]:
    """Return verdicts as labels, and classes: of preferences and grades, in their order."""
    spelt = text.str.casefold().str.replace(" *([<>=]+) *", r"\1", regex=True)
    if set(spelt) <= set(SPELT) and set(TURNED) & {SPELT[each] for each in set(spelt)}:
        labels = spelt.map(SPELT).to_numpy(dtype=object)
        return labels, ["A", "B", *(["tie"] if "tie" in labels else [])]
    other = sorted(set(text[~spelt.isin(list(SPELT))]))
    # without signs, as in "model_a", they may be names of classes
    if other and any(set(each) & set("<>=[") for each in set(spelt) & set(SPELT)):
        raise ResponsesError(
            "If verdicts are preferences (A>B, tie, [[B]]), all are; name failures in missing=. "
            f"Got: also {shown(other)}."
        )
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(dtype=float)
    if not np.isnan(numbers).any():
        grades = np.unique(numbers)
        if (grades == np.floor(grades)).all() and np.ptp(grades) < MOST:
            numbers = numbers.astype(np.int64)
            grades = np.arange(numbers.min(), numbers.max() + 1)
        if len(grades) > MOST or not np.isfinite(grades).all():
            raise ResponsesError(
                f"Numbers are grades, finite and at most {MOST}: merge them into few, and name "
                f"failures in missing=. Got: {len(grades)}, from {grades[0]:g} to {grades[-1]:g}."
            )
        return numbers, grades.tolist()
    return (values if values.dtype.kind in "biuf" else text).to_numpy(), None


def _constant(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the first row of every item, of the columns that are the same in all its rows."""
    groups = frame.groupby("", sort=False)
    kept = [
        name
        for name in frame.columns.drop("")
        if frame[name].map(pd.api.types.is_hashable).all()
        and groups[name].nunique(dropna=False).max() == 1
    ]
    return frame.drop_duplicates("").set_index("")[kept].rename_axis("item")
