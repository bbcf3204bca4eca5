"""Names of classes: their spelling, and sets of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unicodedata import normalize

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_python, shown
from bayesfuse.data.joined_labels import MAX_CLASSES, looks_like_sets
from bayesfuse.data.names import unique_names
from bayesfuse.data.positive_class import (
    INVISIBLE,
    normal_form,
    positive_class,
    with_positive_last,
)
from bayesfuse.data.reading import read_order
from bayesfuse.errors import ResponsesError, require_flag, warn
from bayesfuse.errors.messages import abridged

MAX_NAMES = 5  # names or groups of them that a sentence lists
MAX_LETTERS = 60
READERS = (
    "bf.Responses.from_label_sets reads sets of labels, and from_partial_answers answers of which "
    "one label is meant"
)


def spelt_alike(names: NDArray[Any]) -> list[list[int]]:
    """Return the classes that differ only in spelling, as groups of indices."""
    if names.dtype.kind != "U" or len(names) > MAX_CLASSES:
        return []
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names.tolist()):
        groups.setdefault(normal_form(name), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def has_order(dtypes: Sequence[Any]) -> bool:
    """Return whether the types of columns order the classes, as categories do unless sorted."""
    orders = [dtype for dtype in dtypes if isinstance(dtype, pd.CategoricalDtype)]
    return any(dtype.ordered or not dtype.categories.is_monotonic_increasing for dtype in orders)


def with_class_names(
    table: Any,
    dtypes: list[Any],
    declared: Any,
    ordered: bool | None,
    positive: Any,
    normalise: bool,
    marks: Sequence[Any],
) -> Any:
    """Return a table as it is read, from columns of these types, with the order of its classes."""
    in_order = has_order(dtypes)
    table = one_spelling(table, declared, in_order, normalise, marks)
    table = replace(table, ordered=read_order(ordered, dtypes, declared, table.classes))
    graded = table.ordered and bool(ordered or in_order)
    return positive_last(table, declared, in_order, positive, graded)


def one_spelling(
    table: Any, declared: Any, in_order: bool, normalise: bool, marks: Sequence[Any] = ()
) -> Any:
    """Return a table in which classes that are spelt alike are one, or warn of them.

    ``in_order``: whether the user chose the order of the classes; ``marks``: labels of missing
    responses and of silence.
    """
    require_flag("normalise", normalise)
    if normalise:
        return _normalised(table, declared, in_order, marks)
    if declared is None:
        groups = spelt_alike(table.classes)
        if certain := [group for group in groups if _differ_by_chance(table.classes[group])]:
            warn(f"{spelling_note(table, certain)} {REMEDY}")
        elif note := _note_of_vocabularies(table):
            warn(note)
    return table


def positive_last(
    table: Any, declared: Any, in_order: bool, positive: Any, graded: bool = False
) -> Any:
    """Return a table with the positive one of two classes last, as named or recognised."""
    names = with_positive_last(
        table.classes, declared, in_order, positive, graded, normalised=table.normalised
    )
    if names is table.classes:
        return table
    return replace(_recoded(table, np.array([1, 0]), names), ordered=False)


def renamed_classes(table: Any, positive: Any, normalise: bool) -> Any:
    """Return a table that was read already with its classes named anew."""
    names = table.classes.tolist()
    table = one_spelling(table, None, False, normalise)
    in_order = len(names) == table.n_classes or names != sorted(names)
    graded = table.ordered and table.classes.dtype.kind == "U"
    return positive_last(table, None, in_order, positive, graded)


def _differ_by_chance(names: NDArray[Any]) -> bool:
    """Return whether names differ by more than the case of one letter, which may be the class."""
    visible = {normalize("NFKC", name).strip() for name in names}
    return len(normal_form(names[0])) > 1 or len(visible) < len(names)


def with_spellings(values: Any, declared: Any) -> Any:
    """Return declared classes, and how else these are spelt among values."""
    if declared is None or isinstance(declared, str) or not is_list_like(declared):
        return declared
    classes = list(declared)
    forms = {normal_form(name) for name in classes if isinstance(name, str)}
    try:
        cells = np.asarray(values, dtype=object).ravel()
    except ValueError:  # rows of several lengths, which are refused where they are read
        return declared
    texts = dict.fromkeys(cell for cell in cells if isinstance(cell, str)) if forms else {}
    others = [name for name in texts if name not in classes]
    return classes + [name for name in others if normal_form(name) in forms]


def _normalised(table: Any, declared: Any, in_order: bool, marks: Sequence[Any]) -> Any:
    """Return a table in which classes that are spelt alike are one."""
    if table.classes.dtype.kind != "U":
        return replace(table, normalised=True)
    spellings = table.classes.tolist()
    forms = list(map(normal_form, spellings))
    of_marks = {normal_form(mark) for mark in ("", *marks) if isinstance(mark, str)}
    of_marks -= {normal_form(str(name)) for name in ([] if declared is None else declared)}
    if odd := [name for name, form in zip(spellings, forms, strict=True) if form in of_marks]:
        raise ResponsesError(
            "Labels that are spelt like a missing response or silence are not classes: name them "
            f"in missing= or abstain=, or drop them. Got: {shown(odd, 3)}."
        )
    if declared is not None:
        names = unique_names(declared, "class")
        target = {normal_form(str(name)): index_of for index_of, name in enumerate(names.tolist())}
        unknown = [name for name, form in zip(spellings, forms, strict=True) if form not in target]
        if unknown or len(target) < len(names):
            rule = "declared once" if len(target) < len(names) else f"among {shown(names)}"
            raise ResponsesError(
                f"With normalise=True every class must be {rule}, apart from spelling. Got: "
                f"{shown(unknown or names)}."
            )
        codes = np.array([target[form] for form in forms])
        return replace(_recoded(table, codes, names), normalised=True)
    spelling_of = spelt_once(dict(zip(spellings, class_counts(table), strict=True)))
    spellings_once = list(spelling_of.values())
    if not in_order and spellings == sorted(spellings):
        spellings_once.sort()
    index_of = {normal_form(name): index for index, name in enumerate(spellings_once)}
    codes = np.array([index_of[form] for form in forms])
    return replace(_recoded(table, codes, unique_names(spellings_once, "class")), normalised=True)


def respelled(frame: pd.DataFrame, counts: NDArray[np.int64] | None) -> pd.DataFrame:
    """Return a table of labels, its rows of these counts, in which text spelt alike is the same."""
    columns = [index for index, dtype in enumerate(frame.dtypes) if dtype.kind == "O"]
    values = frame.iloc[:, columns].to_numpy(dtype=object)
    weight = np.broadcast_to(1 if counts is None else counts[:, None], values.shape).ravel()
    is_text = [isinstance(cell, str) and normal_form(cell) != "" for cell in values.ravel()]
    texts = pd.Series(values.ravel()[is_text])
    number = pd.Series(weight[is_text]).groupby(texts.to_numpy()).sum().to_dict()
    chosen = spelt_once(number)
    target = {name: chosen[normal_form(name)] for name in number}
    return frame.map(lambda cell: target.get(cell, cell) if isinstance(cell, str) else cell)


def spelt_once(number: Mapping[str, int]) -> dict[str, str]:
    """Return one name for names that are spelt alike, by their form: that of most responses.

    Spaces and invisible letters do not count. Of equals, one in lower case.
    """
    counts: dict[str, Counter[str]] = {}
    for name, count in number.items():
        clean = " ".join(INVISIBLE.sub("", normalize("NFC", name)).split())
        counts.setdefault(normal_form(name), Counter())[clean] += count

    def rank(entry: tuple[str, int]) -> tuple[int, bool, str]:
        clean, count = entry
        return count, normalize("NFKC", clean) == clean, clean  # no full-width letters

    return {form: max(spellings.items(), key=rank)[0] for form, spellings in counts.items()}


def labels_once(
    number: Mapping[str, int], declared: Sequence[Any] | None, normalise: bool
) -> dict[str, str]:
    """Return how labels are spelt, of their frequencies, or warn of labels that are spelt alike."""
    names = sorted(number)
    if normalise:
        chosen = spelt_once(number)
        chosen |= {normal_form(n): n for n in declared or () if isinstance(n, str)}
        return {name: chosen[normal_form(name)] for name in names}
    array = np.array(names, dtype=str)
    groups = [group for group in spelt_alike(array) if _differ_by_chance(array[group])]
    if declared is None and groups:
        counts = [number[name] for name in names]
        examples = "; ".join(_counted(array, counts, group) for group in groups[:MAX_NAMES])
        warn(
            "Labels that differ only in case, spaces or Unicode form count as "
            f"{sum(map(len, groups))} different labels: {examples}. Read each group as one "
            "(normalise=True), or declare all labels in bf.Responses.from_label_sets."
        )
    return {}


def _recoded(table: Any, codes: NDArray[np.int64], names: NDArray[Any]) -> Any:
    """Return a table of other classes: ``codes`` are the new index of every present class."""
    if np.array_equal(names, table.classes) and np.array_equal(codes, np.arange(len(names))):
        return table
    stated = table.stated
    if stated is not None:
        probability = np.zeros((len(stated.rater), len(names)))
        np.add.at(probability.T, codes, stated.probability.T)
        stated = replace(stated, probability=probability)
    rows = table.item, table.rater, codes[table.label]
    return table.with_rows(*rows, classes=names, stated=stated)


def class_counts(table: Any) -> list[int]:
    """Return the number of responses by class, counted with multiplicity."""
    weight = None if table.is_unweighted else np.repeat(table.multiplicity, table.per_item)
    return np.bincount(table.label, weight, minlength=table.n_classes).astype(int).tolist()


REMEDY = "Read each group as one class (normalise=True), or declare that they differ (classes=)."


def class_notes(table: Any) -> list[str]:
    """Return sentences on classes that look like one class in several spellings or orders."""
    notes = []
    if groups := spelt_alike(table.classes):
        notes.append(f"{spelling_note(table, groups)} {REMEDY}")
    if (sets := looks_like_sets(table.classes)) is not None:
        separator, reordered = sets
        sentence = f"Class names look like sets of labels separated by {separator!r}"
        if not reordered:
            return [*notes, f"{sentence}: every set counts as a class of its own ({READERS})."]
        notes.append(
            f"{sentence}, and sets in two orders count as different classes: "
            f"{_first(table, reordered)} ({READERS})."
        )
    if note := _note_of_vocabularies(table):
        notes.append(note)
    return notes


def _note_of_vocabularies(table: Any) -> str:
    """Return a sentence on raters who use two classes or more of which others use none."""
    if table.silent is not None or table.stated is not None or table.n_classes < 4:
        return ""  # rules vote for classes of their own
    pair = np.unique(table.rater * table.n_classes + table.label)
    rater, label = np.divmod(pair, table.n_classes)
    is_repeated = np.bincount(table.label, minlength=table.n_classes)[label] > 1
    ends = rater[is_repeated], table.n_raters + label[is_repeated]
    size = table.n_raters + table.n_classes
    graph = scipy.sparse.coo_array((np.ones(len(ends[0])), ends), (size, size))
    part = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    of_rater, of_class = np.split(part, [table.n_raters])
    is_apart = np.bincount(of_class, minlength=size) > 1
    if is_apart.sum() < 2:
        return ""
    examples = []
    for number in np.flatnonzero(is_apart)[:MAX_NAMES]:
        classes, raters = table.classes[of_class == number], table.raters[of_rater == number]
        examples.append(f"{shown(classes, 3)} of {shown(raters, 3)}")
    return (
        "Raters who share no class with others agree with them nowhere, as where tests name their "
        'results differently: name equal classes alike (frame["label"].replace({…: …})), or read '
        f"the raters as tables of their own. Got: classes {', and '.join(examples)}."
    )


def class_rows(table: Any) -> list[tuple[str, str]]:
    """Return rows (quantity, value) on the positive class, and on classes that look like one."""
    rows = []
    if table.n_classes == 2:
        index, name = positive_class(table.classes), as_python(table.classes[-1])
        reason = {None: "the last one", 0: "as declared", 1: "by its name"}[index]
        rows.append(("positive class", f"{abridged(str(name), MAX_LETTERS)} ({reason})"))
    if groups := spelt_alike(table.classes):
        rows.append(("spelt alike", _listed(table, groups, MAX_NAMES)))
    if (sets := looks_like_sets(table.classes)) is not None and sets[1]:
        rows.append(("sets in two orders", _listed(table, sets[1], 3)))
    return rows


def spelling_note(table: Any, groups: list[list[int]]) -> str:
    """Return a sentence that counts the spellings of classes."""
    return (
        "Class names that differ only in case, spaces or Unicode form count as "
        f"{sum(map(len, groups))} different classes: {_first(table, groups)}."
    )


def _first(table: Any, groups: list[list[int]]) -> str:
    others = len(groups) - MAX_NAMES
    return _listed(table, groups, MAX_NAMES) + (f"; and {others:,} more" if others > 0 else "")


def _listed(table: Any, groups: list[list[int]], most: int) -> str:
    counts = class_counts(table)
    return "; ".join(_counted(table.classes, counts, group) for group in groups[:most])


def _counted(classes: NDArray[Any], counts: Sequence[int], group: list[int]) -> str:
    names = classes[group].tolist()
    composed = {normalize("NFC", name) for name in names}
    quote = repr if len(composed) == len(names) else ascii  # two forms of a letter look the same
    shown_first = [
        f"{quote(name)} ({counts[index]:,})" for name, index in zip(names, group, strict=True)
    ]
    return ", ".join(shown_first[:MAX_NAMES]) + (", …" if len(group) > MAX_NAMES else "")


def as_spelt(labels: Iterable[Any], names: NDArray[Any]) -> list[Any]:
    """Return labels as these names are spelt, where they differ only in spelling."""
    texts = [name for name in names.tolist() if isinstance(name, str)]
    target = {normal_form(name): name for name in texts} | {name: name for name in texts}

    def spelt(label: Any) -> Any:
        if not isinstance(label, str):
            return as_python(label)
        return target[label] if label in target else target.get(normal_form(label), label)

    return list(map(spelt, labels))
