"""Exports of annotation tools as responses.

A function per tool yields rows of item, rater and label (None: the rater skipped the item), from
records of JSON and CSV files. Texts of items are neither kept nor shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

import pandas as pd

from bayesfuse.data.arrays import shown
from bayesfuse.data.cell_types import as_integers
from bayesfuse.data.column_contents import as_text
from bayesfuse.data.column_roles import LABEL, known_names
from bayesfuse.data.files import as_paths, read_records
from bayesfuse.data.layouts import export_hint
from bayesfuse.data.responses import Responses
from bayesfuse.data.tables import require_few_classes
from bayesfuse.errors import ResponsesError

Paths = str | PathLike[str] | Sequence[str | PathLike[str]]
Record = dict[str, Any]
Row = tuple[Any, Any, Any]

UNNAMED_SESSION = re.compile(r"(.*-)?\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d")
"""A session of Prodigy without a name, which is called by the time at which it began."""

CONTROLS = ("choices", "rating", "taxonomy", "number", "pairwise")
"""Controls of Label Studio that label an item, not a region in it."""

OF_PARTS = (
    "Labels of spans or regions are not labels of items; bf.io.read_spans reads spans from a table."
)

FLAT = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")
"""Columns of CSV and JSON-MIN exports of Label Studio that are not labels."""


def read_label_studio(
    path: Paths, *, item: str = "id", label: str | None = None, **settings: Any
) -> Responses:
    """Read an export of Label Studio: JSON, JSON-MIN or CSV.

    Raters are ``completed_by`` of the annotations (``annotator`` of CSV and JSON-MIN). Annotations
    with ``was_cancelled`` are missing responses. Several choices on an item are one class, as
    "A|B".

    Parameters
    ----------
    path : path or list of paths
        Also compressed (.gz, .bz2, .xz, .zip).
    item : str
        "id" of the task, or a key of its ``data``.
    label : str, optional
        ``from_name`` of the control (choices, rating, taxonomy, number, pairwise), which is the
        column of CSV and JSON-MIN. Required if there are several.
    **settings
        As in :meth:`bayesfuse.Responses.from_long`: classes, ordered, positive, normalise.

    Returns
    -------
    Responses
        Names that consist of digits only are integers. Items that all raters skipped are kept.

    Raises
    ------
    ResponsesError
        Another layout; no or several controls; labels of regions.
    ModelError
        A file that cannot be read.

    Examples
    --------
    >>> import json, tempfile, pathlib, bayesfuse as bf
    >>> choice = {"from_name": "sentiment", "type": "choices", "value": {"choices": ["good"]}}
    >>> annotation = {"completed_by": 3, "was_cancelled": False, "result": [choice]}
    >>> path = pathlib.Path(tempfile.mkdtemp(), "export.json")
    >>> _ = path.write_text(json.dumps([{"id": 7, "data": {}, "annotations": [annotation]}]))
    >>> bf.io.read_label_studio(path, classes=["bad", "good"]).to_frame().to_numpy().tolist()
    [[7, 3, 'good']]
    """
    records = [record for _, table in _files(path) for record in table]
    if all(isinstance(record.get("annotations"), list) for record in records):
        return _responses(_rows_of_tasks(records, item, label), settings)
    names = _require(records, ["annotator", item], "read_label_studio")
    if label is None:
        names = [name for name in known_names(names, LABEL) if name not in FLAT] or names
    label = _one_of(label, names, "columns of labels")
    rows = ((row.get(item), row.get("annotator"), _flat_label(row.get(label))) for row in records)
    return _responses(rows, settings)


def read_prodigy(
    path: Paths, *, item: str = "_input_hash", label: str | None = None, **settings: Any
) -> Responses:
    """Read an export of Prodigy (``db-out``): binary answers or choices, one object a line.

    In tasks with ``options``, labels are the ``accept`` of answers "accept"; several are one class,
    as "A|B". Other tasks have one ``label`` that is judged, and labels are "accept" and "reject".
    Answers "ignore" (of choices also "reject") are missing responses.

    Parameters
    ----------
    path : path or list of paths
    item : str
        Key that names the item, such as "_input_hash", "_task_hash" or "id" of your data.
    label : str, optional
        Which ``label`` of binary tasks to read, because each is a question of its own. Required if
        there are several.
    **settings
        As in :meth:`bayesfuse.Responses.from_long`.

    Returns
    -------
    Responses
        Raters are ``_annotator_id``, else ``_session_id``; of sessions without a name, the name of
        the file.

    Raises
    ------
    ResponsesError
        Another layout; several labels; answers about spans.

    Examples
    --------
    >>> import json, tempfile, pathlib, bayesfuse as bf
    >>> task = {"_input_hash": 5, "options": [{"id": "A"}, {"id": "B"}], "accept": ["B"]}
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.jsonl")
    >>> _ = path.write_text(json.dumps(task | {"answer": "accept", "_annotator_id": "db-ann"}))
    >>> bf.io.read_prodigy(path, classes=["A", "B"]).to_frame().to_numpy().tolist()
    [[5, 'db-ann', 'B']]
    """
    files = _files(path)
    records = [record for _, table in files for record in table]
    _require(records, ["answer", item], "read_prodigy")
    is_binary = not any("options" in record or "accept" in record for record in records)
    if is_binary:
        names = sorted({str(record["label"]) for record in records if "label" in record})
        if not names:
            raise ResponsesError(f"{OF_PARTS} Got: tasks without options and without a label.")
        label = _one_of(label, names, "labels that are judged")
    elif label is not None:
        raise ResponsesError(
            "label= chooses which label of binary tasks to read; these tasks have options. Got: "
            f"{label!r:.50}."
        )
    rows: list[Row] = []
    for name, table in files:
        for record in table:
            answer = record.get("answer")
            if not is_binary:
                answer = _label(record.get("accept")) if answer == "accept" else None
            elif str(record.get("label")) != label:
                continue
            elif answer == "ignore":
                answer = None
            rater = record.get("_annotator_id", record.get("_session_id"))
            is_unnamed = rater is None or UNNAMED_SESSION.fullmatch(str(rater))
            rows.append((record.get(item), name if is_unnamed else rater, answer))
    return _responses(rows, settings)


def read_doccano(
    path: Paths, *, item: str = "id", label: str = "label", **settings: Any
) -> Responses:
    """Read an export of doccano for text classification: a file per annotator, JSONL or CSV.

    Parameters
    ----------
    path : path or list of paths
        The zip file that doccano writes, or files in it, such as "ann.jsonl" and "bob.jsonl".
    item : str
        Column of the items: "id" is the same in the files of all annotators.
    label : str
        Column of the labels. Several labels of an item are one class, as "A|B".
    **settings
        As in :meth:`bayesfuse.Responses.from_long`.

    Returns
    -------
    Responses
        Raters are the names of the files ("all" of a collaborative project); of exports with
        ``annotations`` (older versions) the ``user`` of each.

    Raises
    ------
    ResponsesError
        Another layout; labels of spans.

    Examples
    --------
    >>> import tempfile, pathlib, bayesfuse as bf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "ann.jsonl")
    >>> _ = path.write_text('{"id": 1, "text": "…", "label": ["good"], "Comments": []}')
    >>> bf.io.read_doccano([path], classes=["bad", "good"]).to_frame().to_numpy().tolist()
    [[1, 'ann', 'good']]
    """
    rows: list[Row] = []
    for name, records in _files(path):
        old = bool(records) and "annotations" in records[0]
        _require(records, [item, *([] if old else [label])], "read_doccano")
        for record in records:
            if old:
                answers = [
                    (mark.get("user"), mark.get("label")) for mark in record.get("annotations", [])
                ]
            else:
                answers = [(name, record.get(label))]
            for rater, answer in answers:
                # sets of labels in CSV
                parts = answer.split("#") if isinstance(answer, str) else answer
                rows.append((record.get(item), rater, _label(parts)))
    return _responses(rows, settings)


def read_mturk(
    path: Paths, *, item: str = "HITId", label: str | None = None, **settings: Any
) -> Responses:
    """Read results of a batch of Amazon Mechanical Turk (CSV).

    Raters are ``WorkerId``. Rejected assignments (``AssignmentStatus``) are left out.

    Parameters
    ----------
    path : path or list of paths
    item : str
        Column of the items: "HITId" or one of the input, such as "Input.image_url".
    label : str, optional
        The answer: a column such as "Answer.category", with "category.label" of crowd-classifiers
        and the columns "category.cat", "category.dog", … (true or false) of radio buttons as one,
        or a name in ``Answer.taskAnswers``. Required if there are several.
    **settings
        As in :meth:`bayesfuse.Responses.from_long`.

    Returns
    -------
    Responses

    Raises
    ------
    ResponsesError
        Another layout; no or several answers.

    Examples
    --------
    >>> import pandas as pd, tempfile, pathlib, bayesfuse as bf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "Batch_1_batch_results.csv")
    >>> row = {"HITId": "3X", "WorkerId": "A1", "Input.url": "u", "Answer.category.label": "cat"}
    >>> pd.DataFrame([row]).to_csv(path, index=False)
    >>> bf.io.read_mturk(path, classes=["cat", "dog"]).to_frame().to_numpy().tolist()
    [['3X', 'A1', 'cat']]
    """
    records = [record for _, table in _files(path) for record in table]
    _require(records, ["WorkerId", item], "read_mturk")
    records = [row for row in records if row.get("AssignmentStatus") != "Rejected"]
    answers = [_mturk_answers(record) for record in records]
    names = list(dict.fromkeys(name for named in answers for name in named))
    if isinstance(label, str):
        label = label.removeprefix("Answer.").removesuffix(".label")
    label = _one_of(label, names, "answers of the batch")
    rows = [
        (record.get(item), record.get("WorkerId"), named.get(label))
        for record, named in zip(records, answers, strict=True)
    ]
    return _responses(rows, settings)


def _files(paths: Paths) -> list[tuple[str, list[Record]]]:
    """Return the records of every file, with its name without suffixes."""
    return [file for path in as_paths(paths) for file in read_records(path)]


def _require(records: list[Record], keys: Sequence[str], reader: str) -> list[str]:
    """Return the keys of the records, or raise ResponsesError unless there are certain ones."""
    names = list(dict.fromkeys(name for record in records[:1000] for name in record))
    if missing := [key for key in keys if key not in names]:
        raise ResponsesError(
            f"{export_hint(names, reader)}bf.io.{reader} needs {' and '.join(map(repr, keys))} in "
            f"the export. Got: no {missing[0]!r} among {shown(names)}."
        )
    return names


def _one_of(label: str | None, candidates: list[str], what: str) -> str:
    """Return the candidate that is named, without a name the only one, or raise ResponsesError."""
    if label is None and len(candidates) == 1:
        return candidates[0]
    if label is None or label not in candidates:
        asked = "" if label is None else f"{label!r:.50} among "
        raise ResponsesError(
            f"label= chooses one of several {what}, because each is a question of its own. Got: "
            f"{asked}{shown(candidates)}."
        )
    return label


def _responses(rows: Iterable[Row], settings: dict[str, Any]) -> Responses:
    """Return rows of an export as responses; items without a label are kept."""
    table = pd.DataFrame([*rows], columns=["item", "rater", "label"], dtype=object)
    if (unnamed := table[["item", "rater"]].isna().any(axis=1)).any():
        raise ResponsesError(
            "Every response must have an item and a rater. Got: "
            f"{unnamed.sum():,} of {len(table):,} without."
        )
    texts = table.map(as_text, na_action="ignore")
    labelled = texts[texts["label"].notna()]
    if labelled.empty:
        raise ResponsesError(
            f"At least one item must have a label. Got: none in {len(table):,} responses."
        )
    names_of = {name: as_integers(labelled[name].unique()) for name in ("rater", "label")}
    names_of["item"] = as_integers(texts["item"].unique())
    columns = {name: labelled[name].map(names) for name, names in names_of.items()}
    items = sorted(names_of["item"].values())
    responses = Responses.from_long(pd.DataFrame(columns), **{"items": items} | settings)
    require_few_classes(responses)
    return responses


def _label(answer: Any) -> Any:
    """Return one label, several as one class, or None."""
    if not isinstance(answer, list):
        answer = [answer]
    if any(isinstance(part, list | dict) for part in answer):
        raise ResponsesError(f"{OF_PARTS} Got: {len(answer)} of an item.")
    parts = sorted({as_text(part) for part in answer if part is not None and part != ""})
    return "|".join(parts) or None


def _rows_of_tasks(tasks: list[Record], item: str, label: str | None) -> Iterator[Row]:
    """Yield a row for every annotation of the tasks of Label Studio."""
    annotations = [(task, mark) for task in tasks for mark in task["annotations"]]
    regions = [region for _, mark in annotations for region in mark.get("result") or []]
    controls = {str(r.get("from_name")) for r in regions if r.get("type") in CONTROLS}
    if regions and not controls:
        raise ResponsesError(
            f"{OF_PARTS} Got: {shown(sorted({str(r.get('type')) for r in regions}))}."
        )
    label = _one_of(label, sorted(controls), "controls that label an item (from_name)")
    for task, mark in annotations:
        name = task.get("id") if item == "id" else (task.get("data") or {}).get(item)
        rater = mark.get("completed_by")
        if isinstance(rater, dict):
            rater = rater.get("email") or rater.get("id")
        answers = [r for r in mark.get("result") or [] if r.get("from_name") == label]
        chosen = [part for region in answers for part in _chosen(region)]
        yield name, rater, None if mark.get("was_cancelled") else _label(chosen)


def _chosen(region: Record) -> list[Any]:
    """Return what a control of Label Studio holds."""
    content = region.get("value") or {}
    values = content.get(region.get("type"), content.get("selected"))
    values = values if isinstance(values, list) else [values]
    # a path in a taxonomy
    return [" / ".join(map(str, part)) if isinstance(part, list) else part for part in values]


def _flat_label(cell: Any) -> Any:
    """Return the label in a cell of a CSV or JSON-MIN export of Label Studio."""
    if isinstance(cell, str) and cell.startswith(("[", "{")):
        try:
            cell = json.loads(cell)
        except ValueError:
            return cell
    if isinstance(cell, list) and len(cell) == 1 and isinstance(cell[0], dict):
        cell = cell[0].get("rating", cell[0].get("number", cell))
    return _label(cell.get("choices") if isinstance(cell, dict) else cell)


def _mturk_answers(record: Record) -> dict[str, Any]:
    """Return the answers of an assignment by name, options of radio buttons as one answer."""
    prefix = "Answer."
    cells = {name.removeprefix(prefix): record[name] for name in record if name.startswith(prefix)}
    if text := cells.pop("taskAnswers", None):
        try:
            for answers in json.loads(text):
                cells |= pd.json_normalize(answers).iloc[0].to_dict()
        # json_normalize does not implement what is neither a mapping nor a list of them
        except (ValueError, AttributeError, IndexError, NotImplementedError):
            raise ResponsesError(
                "Answer.taskAnswers must be a JSON list of answers by name. Got: other text."
            ) from None
    named: dict[str, Any] = {}
    for name, cell in cells.items():
        question, _, option = name.rpartition(".")
        if question and option == "label":
            named[question] = cell
        elif question and str(cell).casefold() in ("true", "false"):
            chosen = [option] if str(cell).casefold() == "true" else []
            named[question] = [*named.get(question, []), *chosen]
        else:
            named[name] = cell
    return {name: _label(answer) for name, answer in named.items()}
