"""Known sets of labels, as known answers to the questions of label sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from bayesfuse.data.arrays import as_array, column_names
from bayesfuse.data.class_names import as_spelt
from bayesfuse.data.column_roles import known_names
from bayesfuse.data.label_sets import CLASSES, LabelSets, labels_of, of_indicators
from bayesfuse.errors import ResponsesError


def known_answers(label_sets: LabelSets, gold: Any) -> dict[Any, str]:
    """Return known answers to questions, by name, from known sets of items."""
    item_of, label_of = (
        {name: at for at, name in enumerate(names.tolist())}
        for names in (label_sets.items, label_sets.labels)
    )
    names, answers = label_sets.questions.items, {}
    for item, entry in _known_sets(label_sets, gold).items():
        if isinstance(entry, Mapping):
            known = dict(entry)
        else:
            labels = labels_of(entry, label_sets.separator)
            if labels is None:
                continue
            known = dict.fromkeys(label_of, False) | dict.fromkeys(labels, True)
        if label_sets.normalised:
            spelt = as_spelt(known, label_sets.labels)
            known = _any_of(zip(spelt, known.values(), strict=True))
        if item not in item_of or (unknown := [name for name in known if name not in label_of]):
            got = f"item {item!r}" if item not in item_of else f"label {unknown[0]!r}"
            raise ResponsesError(
                "Known sets are of items and labels of the table; labels= of from_label_sets adds "
                f"labels. Got: {got}."
            )
        for label, is_set in known.items():
            question = names[item_of[item] * label_sets.n_labels + label_of[label]]
            answers[question] = str(CLASSES[int(bool(is_set))])
    return answers


def _known_sets(label_sets: LabelSets, gold: Any) -> Mapping[Any, Any]:
    """Return known sets by item; several rows of an item are united, as those of a rater are."""
    if isinstance(gold, Mapping | pd.Series):
        return _united_sets(gold.items(), label_sets.separator)
    names = column_names(gold)
    item, label = (known_names(names or [], role) for role in ("item", "label"))
    if not item:
        raise ResponsesError(
            "Known sets of labels (gold=) are a mapping from items to sets, or to a mapping from "
            "labels to whether they apply, or a DataFrame with the columns item and label, or a "
            f"column of 0 and 1 for every label. Got: {type(gold).__name__}."
        )
    items = as_array(gold[item[0]]).tolist()
    if label:
        return _united_sets(zip(items, as_array(gold[label[0]]), strict=True), label_sets.separator)
    labels = set(label_sets.labels.tolist())
    spelt = as_spelt(names or [], label_sets.labels) if label_sets.normalised else names or []
    columns = [name for name, known in zip(names or [], spelt, strict=True) if known in labels]
    answers, _ = of_indicators(pd.DataFrame(gold), columns, None)
    sets = [{columns[at]: is_set for at, is_set in (row or {}).items()} for row in answers]
    return _united_sets(zip(items, sets, strict=True), label_sets.separator)


def _united_sets(rows: Iterable[tuple[Any, Any]], separator: str | None) -> dict[Any, Any]:
    """Return the sets, or the answers by label, of every item in one or several rows."""
    known: dict[Any, Any] = {}
    for item, entry in rows:
        is_mapping = isinstance(entry, Mapping)
        if (labels := () if is_mapping else labels_of(entry, separator)) is None:
            continue
        if item in known and is_mapping != isinstance(known[item], Mapping):
            raise ResponsesError(
                "Known labels of an item are all of its set, or whether some of them apply. Got: "
                f"both for item {item!r}."
            )
        if is_mapping:
            known[item] = _any_of([*known.get(item, {}).items(), *entry.items()])
        else:
            known[item] = [*known.get(item, ()), *labels]
    return known


def _any_of(answers: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return whether labels apply, those named twice if one of the answers says so."""
    united: dict[Any, Any] = {}
    for name, is_set in answers:
        united[name] = is_set or united.get(name, False)
    return united
