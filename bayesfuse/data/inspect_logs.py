"""Evaluation logs of Inspect as responses of their scorers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from bayesfuse.data.arrays import shown
from bayesfuse.data.exports import Paths, Record
from bayesfuse.data.files import as_paths, read_records
from bayesfuse.data.layouts import export_hint
from bayesfuse.data.verdicts import Verdicts, read_verdicts
from bayesfuse.errors import ResponsesError

ITEM = ("task", "model", "sample", "epoch")
CORRECT, INCORRECT = "C", "I"


def read_inspect(path: Paths, *, score: str | None = None, positive: Any = None) -> Verdicts:
    """Read evaluation logs of Inspect, whose scorers are the judges.

    An item is a sample in one epoch, whose output is judged; with several tasks or models, it is
    named by these, too. Read one log for every run, with all scorers, or several logs of the same
    run, scored by others.

    Parameters
    ----------
    path : path or list of paths
        Logs as JSON (``inspect log convert --to json``) or .eval files.
    score : str, optional
        Of scorers with several values, such as {"accuracy": "C", "style": 3}, the one to read.
    positive : scalar, optional
        The positive one of two classes, by default "C" (correct) beside "I".

    Returns
    -------
    responses : Responses
        Raters are the scorers, with the model that grades if the log names it. Numbers are grades.
        Unscored samples (NaN) are missing responses.
    items : DataFrame
        Columns task, model, sample and epoch of every item; ``items["model"]`` is ``by=`` of
        :func:`bayesfuse.class_shares`.
    orders : list
        Empty.

    Raises
    ------
    ResponsesError
        Another layout; a log without scores; several values of a scorer.
    ModelError
        A file that cannot be read.

    Examples
    --------
    >>> import json, tempfile, pathlib, bayesfuse as bf
    >>> scores = {"strict": {"value": "C"}, "lenient": {"value": "I"}}
    >>> samples = [{"id": 1, "epoch": 1, "scores": scores}]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.json")
    >>> log = {"eval": {"task": "t", "model": "m"}, "samples": samples}
    >>> _ = path.write_text(json.dumps(log))
    >>> bf.io.read_inspect(path).responses.to_frame().to_numpy().tolist()
    [[1, 'lenient', 'I'], [1, 'strict', 'C']]
    """
    rows = [row for log in as_paths(path) for row in _rows(read_records(log), score)]
    if not rows:
        raise ResponsesError("A log must have scores of samples. Got: none.")
    frame = pd.DataFrame(rows, columns=[*ITEM, "judge", "verdict"])
    names = [name for name in ITEM if name == "sample" or frame[name].nunique() > 1]
    if positive is None and {*frame["verdict"].dropna()} == {CORRECT, INCORRECT}:
        positive = CORRECT
    return read_verdicts(frame, item=names, positive=positive)


def _rows(files: list[tuple[str, list[Record]]], score: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield the scores in a log: one JSON object, or an archive of a header and samples."""
    records = [record for _, listed in files for record in listed]
    header = next((record["eval"] for record in records if "eval" in record), None)
    if not isinstance(header, dict):
        names = list(dict.fromkeys(name for record in records[:100] for name in record))
        raise ResponsesError(
            f"{export_hint(names, 'read_inspect')}bf.io.read_inspect needs 'eval' and 'samples' of "
            f"an evaluation log. Got: no 'eval' among {shown(names)}."
        )
    graders = _graders(header)
    samples = [sample for record in records for sample in record.get("samples") or []]
    samples += [record for record in records if "scores" in record and "epoch" in record]
    scores = [sample.get("scores") or {} for sample in samples]
    entries = [entry.get("value") for of_sample in scores for entry in of_sample.values()]
    if score is not None and not any(isinstance(entry, dict) for entry in entries):
        raise ResponsesError(
            "score= chooses one of several values of a scorer; these scorers have one. Got: "
            f"{score!r:.50}."
        )
    for sample, of_sample in zip(samples, scores, strict=True):
        place = header.get("task"), header.get("model"), sample.get("id"), sample.get("epoch")
        for scorer, entry in of_sample.items():
            yield *place, graders.get(scorer, scorer), _verdict(entry.get("value"), score)


def _graders(header: Record) -> dict[str, str]:
    """Return the names of scorers with the models that grade; equal names are numbered."""
    names: dict[str, str] = {}
    number_of: Counter[str] = Counter()
    for scorer in header.get("scorers") or []:
        name = str(scorer.get("name")).rpartition("/")[2]
        number = number_of[name]
        number_of[name] += 1
        model = (scorer.get("options") or {}).get("model")
        scorer_name = f"{name}{number}" if number else name
        names[scorer_name] = f"{scorer_name} {model}" if isinstance(model, str) else scorer_name
    return names


def _verdict(entry: Any, score: str | None) -> Any:
    """Return one value of a scorer."""
    if isinstance(entry, dict):
        if not isinstance(score, str) or score not in entry:
            raise ResponsesError(
                "score= chooses one of several values of a scorer, because each is a question of "
                f"its own. Got: values {shown(list(entry))}."
            )
        entry = entry[score]
    if isinstance(entry, list):
        raise ResponsesError(
            f"A score must be one value or have values by name. Got: a list of {len(entry)}."
        )
    return str(entry) if isinstance(entry, bool) else entry
