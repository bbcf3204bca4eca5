"""Which columns hold items, raters and labels, and whether a table is long or wide.

Readers of frames, files and the command line share these rules. If a table allows several readings,
a ``ResponsesError`` names the columns in question and the argument that decides.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import quoted, refuse_several, shown
from bayesfuse.data.column_contents import Columns, as_text, count_values, is_number
from bayesfuse.errors import ResponsesError

ITEM, RATER, LABEL = "item", "rater", "label"
MIN_ROWS = 6  # in fewer rows, labels may all differ, or number the rows, by chance
MAX_SHOWN = 3  # candidates in a question

KNOWN = {
    ITEM: "item task question unit hit example document doc instance sample record image img "
    "sentence prompt _task _input".split(),
    RATER: "rater worker annotator coder judge user labeler labeller reviewer grader assessor "
    "evaluator completedby variable _session _annotator".split(),
    LABEL: "label answer response vote verdict choice annotation rating grade score class category "
    "judgment judgement decision tag value labelid classid categoryid labels answers classes "
    "categories tags".split(),
}
"""Names of columns in exports of other tools, in lower case and without separators (and, of items
and raters, without "id", "name" or "hash" at the end: an "answer_id" numbers answers)."""

TRUTH = set(
    "gold truth groundtruth goldlabel truelabel correctanswer goldstandard "
    "reference panelreference referencelabel referencestandard".split()
)
NO_RATERS = TRUTH | set(
    "age sex gender date time timestamp createdat updatedat comment comments note notes remark "
    "remarks email emailaddress".split()
)
"""Names of columns that are seldom raters of a wide table."""

ID_SUFFIX = re.compile(r"(?:^|[ _.-])(?:ids?|IDs?|Id|uuid|UUID)$|[a-z](?:Id|ID)$")
NUMBERED = re.compile(r"(?:^|[ _.-])(?:nr|no|num|number|key|code|index)\.?$|#", re.IGNORECASE)
"""Names of columns that may number items, which is asked for."""

ACCEPTED = {"accept", "reject", "ignore"}  # answers that judge the label in another column


class Roles(NamedTuple):
    """Columns of items, raters and labels; of a wide table items alone (None: the index)."""

    item: Any
    rater: Any = None
    label: Any = None

    @property
    def is_long(self) -> bool:
        """Whether the table has one row per response."""
        return self.label is not None


def plain_name(name: Any, role: str = LABEL) -> str:
    """Return a column name as in ``KNOWN``."""
    text = re.sub(r"(?<=\w)[ _-](?=\w)", "", str(name).strip().casefold())
    return text if role == LABEL else re.sub(r"(?<=.)(ids?|names?|hash)$", "", text)


def known_names(names: list[Any], role: str) -> list[Any]:
    """Return the columns with a known name for a role."""
    return [name for name in names if plain_name(name, role) in KNOWN[role]]


def assign_roles(
    frame: Any,
    names: list[Any],
    requested: tuple[Any, Any, Any] = (ITEM, RATER, LABEL),
    *,
    is_wide: bool | None = None,
    has_index: bool = False,
) -> Roles:
    """Return the columns of items, raters and labels of a table, or raise ResponsesError.

    ``requested`` are their names; those that are not the default ones are not questioned. Unless
    ``is_wide`` is given, the table is long if it has columns of raters or labels.
    """
    refuse_several(requested, names)
    table = Columns(frame, names)
    item, rater, label = candidates = [
        _candidates(table, role, name)
        for role, name in zip((ITEM, RATER, LABEL), requested, strict=True)
    ]
    if is_wide is None:
        is_wide = not _is_long(table, requested, candidates)
    if is_wide:
        roles = Roles(_item_of_wide(table, requested[0], item, has_index))
    else:
        item = item or _identifiers(table, [*rater, *label])
        roles = _roles_of_long(table, dict(zip(KNOWN, (item, rater, label), strict=True)))
    for name in roles if roles.is_long else names:
        if names.count(name) > 1:
            raise ResponsesError(
                "Column names must differ, and the first line of a file is read as their names. "
                f"Got: several columns {quoted(name)} among {shown(names)}."
            )
    return roles


def _candidates(table: Columns, role: str, requested: Any) -> list[Any]:
    """Return the columns that may have a role, by name and, if there are several, by content."""
    if requested != role:
        return [requested]
    has_default = role in table.names
    others = [name for name in known_names(table.names, role) if name != role]
    if role == ITEM:
        return [role] if has_default else others
    others = [name for name in others if not table.is_distinct(name, MIN_ROWS)]
    if role == RATER:
        return [role] if has_default else others
    varying = [name for name in others if table.varies(name)]
    if not has_default:
        return varying or others
    if varying and len(table.counts(role)) == 1:  # such as the one task of all rows
        return varying
    judging = [name for name in others if ACCEPTED >= set(table.counts(name)) != set()]
    return [role, *judging]


def _identifiers(table: Columns, others: list[Any]) -> list[Any]:
    """Return columns that may identify items by their names, and that do not number responses."""
    other_names = {*KNOWN[RATER], *KNOWN[LABEL]}
    named = [name for name in table.names if ID_SUFFIX.search(str(name)) and name not in others]
    named = [name for name in named if plain_name(name, ITEM) not in other_names]
    return [name for name in named if table.repeats(name) and table.varies(name)]


def _is_long(table: Columns, requested: tuple[Any, Any, Any], candidates: list[list[Any]]) -> bool:
    item, rater, label = candidates
    if requested[1:] != (RATER, LABEL) or RATER in table.names or LABEL in table.names:
        return True
    # raters of a wide table may be called "user", and use the labels of others
    others = [name for name in table.names if name not in item]
    share = all(table.shares_labels(name, others) for name in rater)
    could_be_wide = bool(rater) and share and not any(map(table.repeats, item))
    if could_be_wide and label:
        raise ResponsesError(
            "Columns may be raters, or name the raters and labels of one response per row: give "
            "rater= and label= for the latter, else rename the columns. Got: columns "
            f"{shown([*rater, *label])} with the same values."
        )
    return bool(rater or label) and not could_be_wide


def _roles_of_long(table: Columns, candidates: dict[str, list[Any]]) -> Roles:
    """Return the columns of a long table, or raise ResponsesError with the candidates."""
    for role, names in candidates.items():
        if len(names) > 1 and role != LABEL and table.is_same_partition(names):
            candidates[role] = names[:1]
    open_roles = [role for role, names in candidates.items() if len(names) != 1]
    if not open_roles:
        return Roles(*(names[0] for names in candidates.values()))
    requested = {role: names[0] for role, names in candidates.items() if names}
    candidates = {
        role: [n for n in names if n in table.names] for role, names in candidates.items()
    }
    open_roles = [role for role, names in candidates.items() if len(names) != 1]
    assigned = [names[0] for names in candidates.values() if len(names) == 1]
    questions, got, likely = [], [], list(assigned)
    for role in open_roles:
        names = candidates[role] or _suggestions(table, role, likely)
        hint = did_you_mean(names)
        questions.append(f"{role}={hint}")
        likely += [name for name in names if name not in likely][:1]
        absent = f"no column {requested.get(role, role)!r}"
        got.append(f"several columns for {role!r}" if candidates[role] else absent)
    read = f" (read: columns {shown(assigned)})" if assigned else ""
    closed = [role for role in KNOWN if role not in open_roles]
    line = ""
    if len(likely) == len(KNOWN):
        column = dict(zip([*closed, *open_roles], likely, strict=True))
        line = ", such as " + ", ".join(f'{role}="{column[role]}"' for role in KNOWN)
    raise ResponsesError(
        f"A table with one row per response{read} needs one column of items, of raters and of "
        f"labels: give {' and '.join(questions)}{line}. If each column holds the "
        "labels of one rater, use bf.Responses.from_matrix (--wide on the command line). Got: "
        f"{' and '.join(got)} among {shown(table.names)}."
    )


def did_you_mean(names: list[Any]) -> str:
    """Return a question with the first of these columns, nothing if there is none."""
    names = names[:MAX_SHOWN]
    return f" (did you mean {' or '.join(map(quoted, names))}?)" if names else ""


def suggest_columns(frame: Any, names: list[Any], role: str, assigned: list[Any]) -> list[Any]:
    """Return columns of a table with one row per response that may have a role."""
    return known_names(names, role) or _suggestions(Columns(frame, names), role, assigned)


def _suggestions(table: Columns, role: str, assigned: list[Any]) -> list[Any]:
    """Return columns that may have a role by their content, those with a similar name first.

    Raters disagree on an item, so a column that is the same in all its rows holds no labels.
    """
    free = [name for name in table.names if name not in assigned and table.varies(name)]
    if role != ITEM:
        free = [name for name in free if not table.is_distinct(name, MIN_ROWS)]
    words = {name: set(re.split(r"[\W_]+", str(name).casefold())) for name in free}
    alike = [name for name in free if words[name] & {*KNOWN[role]}]
    if role == ITEM:
        for pattern in (ID_SUFFIX, NUMBERED):
            alike = alike or [name for name in free if pattern.search(str(name))]
        free = [name for name in free if not table.has_fractions(name)] or free
        free.sort(key=lambda name: (not table.repeats(name), -len(table.counts(name))))
    else:
        if role == LABEL:
            free = [name for name in free if not table.is_of_items(name, assigned)] or free
        free.sort(key=lambda name: len(table.counts(name)))
    return (alike or free)[:MAX_SHOWN]


def _item_of_wide(table: Columns, requested: Any, candidates: list[Any], has_index: bool) -> Any:
    """Return the column of items of a table with one row per item, None for the index."""
    others = [name for name in table.names if name not in candidates]
    if requested == ITEM and requested not in candidates:
        # a rater may have such a name
        candidates = [name for name in candidates if not table.shares_labels(name, others)]
        candidates += [n for n in others if ID_SUFFIX.search(str(n)) and table.is_distinct(n, 1)]
        if len(candidates) > 1:
            candidates = [name for name in candidates if table.is_distinct(name)][:1] or candidates
    elif requested not in table.names:
        raise ResponsesError(
            f"item= names the column of the items, or the index. Got: {quoted(requested)}, which "
            f"is not among {shown(table.names)}."
        )
    if candidates:
        if table.repeats(candidates[0]):
            others = _suggestions(table, LABEL, candidates)
            item = table.counts(candidates[0]).most_common(1)[0][0]
            raise ResponsesError(
                "A DataFrame with a column rater= or label= has one row per response, and any "
                "other has one row per item, so that an item has one row: name the columns by "
                f"rater= and label= (perhaps {shown(others)}), or if raters have columns and "
                f"repeated an item, pass frame.melt(id_vars={candidates[0]!r}, var_name='rater', "
                f"value_name='label'). Got: item {quoted(item)} in several rows, and columns "
                f"{shown(table.names)}."
            )
        return candidates[0]
    if not has_index:
        _require_no_design(table)
    return None


def _require_no_design(table: Columns) -> None:
    """Raise ResponsesError if two columns look like the items and raters of a long table.

    That is so if no pair of values occurs twice, although single values occur twice on average.
    """
    varying = [n for n in table.names if len(table.counts(n)) > 1][:8]
    for first, second in combinations(varying, 2):
        n_rows = min(table.counts(first).total(), table.counts(second).total())
        n_first, n_second = len(table.counts(first)), len(table.counts(second))
        n_pairs = n_first * n_second  # of more rows, two have the same pair
        may_be_design = max(MIN_ROWS, 2 * n_first, 2 * n_second) <= n_rows <= n_pairs
        if len(table.names) < 3 or not may_be_design:
            continue
        pairs = pd.DataFrame(
            {0: np.asarray(table.frame[first]), 1: np.asarray(table.frame[second])}
        )
        if not pairs.dropna().duplicated().any():
            raise ResponsesError(
                f"If each row is one response, name the columns by item=, rater= and label=; if "
                "each column holds the labels of a rater, give the items as the index "
                "(set_index), a column item or item=. Got: columns "
                f"{shown([first, second])} that have no pair of values twice, as items and raters, "
                f"among {shown(table.names)}."
            )


def odd_columns(parts: list[Any], columns: list[Any], marks: list[Any]) -> list[tuple[Any, str]]:
    """Return the columns of a wide table that seem to hold no labels of a rater, and why.

    One at a time, as the labels of a column are compared with those of the remaining ones. If
    hardly any would remain, the table is of another kind, and only the first is returned.
    """
    counts = [_label_counts(part, marks) for part in parts]
    remaining = list(zip(columns, parts, counts, strict=True))
    odd: list[tuple[Any, str]] = []
    while (first := _odd_column(remaining)) is not None:
        place, why = first
        odd.append((remaining.pop(place)[0], why))
        if len(remaining) < 2:
            return odd[:1]
    return odd


def _odd_column(columns: list[tuple[Any, Any, Counter[str]]]) -> tuple[int, str] | None:
    """Return which column, of name, cells and counts of labels, is the oddest, and why."""
    counts = [labels for _, _, labels in columns]
    n_columns = Counter(label for labels in counts for label in labels)
    unique_labels = {label for label, number in n_columns.items() if number == 1}
    n_unique = [len(unique_labels.intersection(labels)) for labels in counts]
    n_disjoint = sum(bool(labels) and unique_labels.issuperset(labels) for labels in counts)
    total = sum(labels.total() for labels in counts)
    odd: list[tuple[int, str]] = []
    for place, (name, part, labels) in enumerate(columns):
        why = _odd_name(str(name)) or _odd_labels(part, labels, n_unique[place], total)
        if not labels and any(map(is_list_like, part)):
            why = "of lists or mappings"
        is_disjoint = n_unique[place] == len(labels) > 0 and not any(map(is_number, labels))
        if not why and is_disjoint and n_disjoint == 1 and len(columns) > 3:  # such as remarks
            why = "with labels of no other"
        if why:
            odd.append((place, why))
    if not odd and any(labels and not any(map(is_number, labels)) for labels in counts):
        odd = [
            (place, "of numbers, where others have text")
            for place, labels in enumerate(counts)
            if labels and all(map(is_number, labels))
        ]
    return max(odd, key=lambda entry: len(counts[entry[0]]), default=None)


def _label_counts(part: Any, marks: list[Any]) -> Counter[str]:
    labels = count_values(part)
    for mark in marks:
        labels.pop(as_text(mark), None)
    return labels


def _odd_name(name: str) -> str:
    """Return why a column of this name holds no labels of a rater, else nothing."""
    if name.startswith("Unnamed: "):
        return "without a name"
    if plain_name(name) not in NO_RATERS:
        return ""
    use = " (known labels are given by gold=)" if plain_name(name) in TRUTH else ""
    return f"with a name that raters seldom have{use}"


def _odd_labels(part: Any, labels: Counter[str], n_alone: int, total: int) -> str:
    """Return why labels, ``n_alone`` of them in no other column, are no rater's, else nothing."""
    size, n_labels = labels.total(), len(labels)
    # others have as many responses and might have used the same labels
    is_complete = size == len(part) <= total - size
    is_free_text = n_labels >= MIN_ROWS and 2 * n_labels > size
    if (is_complete or is_free_text) and n_labels > 1 and 2 * n_alone > n_labels:
        return f"with {n_labels} labels, {n_alone} of them in no other"
    if is_complete and n_labels == size >= MIN_ROWS and _numbers_rows(part):
        return "which numbers the rows"
    return ""


def _numbers_rows(values: Any) -> bool:
    """Whether values are consecutive integers in increasing order."""
    texts = [as_text(value) for value in np.asarray(values).tolist()]
    if not all(re.fullmatch(r"-?\d{1,15}", text) for text in texts):
        return False
    return bool((np.diff([int(text) for text in texts]) == 1).all())
