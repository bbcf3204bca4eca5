"""What the page of an answer shows: tables and bars, as text and numbers for the templates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import listed
from bayesfuse.data.tags import mark_spans
from bayesfuse.results import joint_labels
from bayesfuse.results.class_shares import class_shares, expected_shares
from bayesfuse.results.contents import (
    class_names,
    constants,
    copies_of,
    known_classes,
    observed_rows,
)
from bayesfuse.results.paths import spans
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.rater_table import judges_raters, rater_table
from bayesfuse.results.schema import SEQUENCE_NAME, SEQUENCE_PLACE

CERTAINTY = [0.0, 0.5, 0.7, 0.9, 0.99, 1.0]  # ends of the bins of label probabilities
N_COLOURS = 9  # of the most frequent classes; all others are grey
VISIBLE = 0.005  # share below which a class has no part of a bar
MAX_CONTRASTS = 60  # differences between groups that are listed
SHARES = {"coverage", "overlaps", "conflicts"}  # columns of raters that are shares of items
COUNTS = {"responses", "known", "spans"}
MEANINGS = {
    "accuracy": "Accuracy: probability that the rater's next label is right.",
    "balanced_accuracy": "Balanced accuracy: mean of this over the classes.",
    "sensitivity": "Sensitivity and specificity: the same for items of the class in brackets.",
    "known_accuracy": "Known: responses to items with known labels; known accuracy: share of "
    "these that is right.",
    "grade_error": "Grade bias: mean difference between the rater's grade and the true one; grade "
    "error: its mean size.",
    "span_f1": "Span F1: harmonic mean of precision and recall of the rater's spans.",
    "coverage": "Coverage: share of the items with a response of the rater; overlaps: also one of "
    "another rater; conflicts: one for a different label.",
    "dispersion": "Dispersion: variance of all votes relative to that of independent ones.",
}
"""What columns of the table of raters mean."""


class Bar(NamedTuple):
    """A bar or a point with its interval, from 0 to 1, in words, and in the colour of a class."""

    name: str
    text: str
    length: float
    low: float | None = None
    high: float | None = None
    votes: float | None = None
    colour: Any = 0


class Column(NamedTuple):
    """A column of a table: text, and numbers to sort it by; parts of bars where it has some."""

    name: str
    texts: Sequence[str]
    numbers: Sequence[float] | None = None
    bars: Sequence[Any] | None = None


class Rows(NamedTuple):
    """The columns of a table, and how many rows of how many it shows."""

    columns: list[Column]
    n_shown: int
    n_rows: int

    @property
    def lines(self) -> Any:
        """Cells of every row: text, number and bar."""
        cells = [
            zip(
                column.texts,
                repeat(None, self.n_shown) if column.numbers is None else column.numbers,
                repeat(None, self.n_shown) if column.bars is None else column.bars,
                strict=True,
            )
            for column in self.columns
        ]
        return zip(*cells, strict=True)


def column_names(answer: xr.DataTree) -> list[str]:
    """Return the names of the columns of items, raters and labels in the user's table."""
    return [in_one_line(name) for name in answer.attrs.get("columns", ("item", "rater", "label"))]


def chance(answer: xr.DataTree) -> float:
    """Return the accuracy of guesses that prefer no class."""
    return 1.0 / len(class_names(answer))


def class_legend(answer: xr.DataTree) -> list[tuple[str, Any]]:
    """Return the classes with their colours, those without a colour of their own as one."""
    colours = _colours(answer)
    names = [in_one_line(name) for name in class_names(answer)]
    legend = [(name, colour) for name, colour in zip(names, colours, strict=True) if colour != "x"]
    return legend + ([("other classes", "x")] if "x" in colours else [])


def _colours(answer: xr.DataTree) -> list[Any]:
    """Return the number of the colour of every class, "x" for rare ones of many."""
    share = label_probabilities(answer).mean("item").values
    colours: list[Any] = list(range(len(share)))
    if len(share) > N_COLOURS:
        colours = ["x"] * len(share)
        for colour, at in enumerate(np.sort(np.argsort(-share, kind="stable")[:N_COLOURS])):
            colours[at] = colour
    return colours


def _seed(answer: xr.DataTree) -> int:
    """Return the seed of an answer, with which the user's calls give the same numbers."""
    return int(answer.attrs.get("random_seed", 0))


def class_bars(answer: xr.DataTree) -> list[Bar]:
    """Return the shares of the most frequent classes, with intervals if draws can be counted."""
    return _bars_by_class(answer, expected_shares(answer))


def _bars_by_class(answer: xr.DataTree, shares: pd.DataFrame) -> list[Bar]:
    rows = shares.rename(columns={"class": "name"}).itertuples(index=False)
    return [
        _share_bar(in_one_line(row.name), row, colour)
        for row, colour in zip(rows, _colours(answer), strict=True)
        if colour != "x"
    ]


def _share_bar(name: str, row: Any, colour: Any) -> Bar:
    low, high, votes = (None if np.isnan(x) else x for x in (row.low, row.high, row.votes))
    text = f"{row.share:.0%}" + ("" if low is None else f" ({low:.0%}–{high:.0%})")
    return Bar(name, text, row.share, low, high, votes, colour)


def certainty(answer: xr.DataTree) -> list[Bar]:
    """Return how many labels are how probable, the most probable first."""
    top = np.clip(label_probabilities(answer).max("class").values, 0.0, 1.0)
    copies = copies_of(answer, len(top)).astype(float)
    weights = copies, copies * (1.0 - top)
    count, wrong = (np.histogram(top, CERTAINTY, weights=weight)[0] for weight in weights)
    names = [f"{low:.0%} to {high:.0%}" for low, high in pairwise(CERTAINTY)]
    names[0], names[-1] = f"below {CERTAINTY[1]:.0%}", f"above {CERTAINTY[-2]:.0%}"
    bars = [
        Bar(name, f"{number:,.0f} ({errors:,.{int(errors < 9.95)}f} wrong)", number / count.max())
        for name, number, errors in zip(names, count, wrong, strict=True)
        if number
    ]
    return bars[::-1]


def label_table(answer: xr.DataTree, most: int) -> Rows:
    """Return the least certain labels first, those of items without responses last."""
    labels = label_probabilities(answer).transpose("item", "class")
    n_rows, number = labels.sizes["item"], _responses_per_item(answer, labels.sizes["item"])
    is_silent = np.zeros(n_rows, dtype=bool) if number is None else number == 0
    order = np.lexsort((labels.values.max(axis=1), is_silent))[:most]
    probability = labels.values[order]
    classes = [in_one_line(name) for name in class_names(answer)]
    item_name, _, label_name = column_names(answer)
    known = known_classes(answer, n_rows)[order] >= 0
    best = (-probability).argsort(axis=1, kind="stable")[:, :2]  # (items, 2)
    top, second = np.take_along_axis(probability, best, axis=1).T
    colours = _colours(answer)
    marks = np.where(known, " (known)", "")
    columns = [
        *_places(answer, order),
        Column(item_name, [in_one_line(name) for name in listed(labels["item"].values[order])]),
        Column(
            label_name,
            [f"{classes[at]}{mark}" for at, mark in zip(best[:, 0], marks, strict=True)],
        ),
        number_column("probability", top),
        Column(
            "all classes", [""] * len(order), bars=[_parts(row, colours) for row in probability]
        ),
        Column(
            "next best",
            [
                f"{classes[at]} {share:.2f}" if share >= VISIBLE else "–"
                for at, share in zip(best[:, 1], second, strict=True)
            ],
            second.tolist(),
        ),
    ]
    if number is not None:
        columns.append(number_column("responses", number[order], ",.0f"))
    copies = copies_of(answer, n_rows)
    if (copies != 1).any():
        columns.append(number_column("items", copies[order], ",.0f"))
    if "difficulty" in answer.children:
        hardness = answer["difficulty"].dataset["disagreement"].values[order]
        columns.append(number_column("difficulty", hardness))
    return Rows(columns, len(order), n_rows)


def _parts(probability: NDArray[np.float64], colours: list[Any]) -> list[tuple[Any, float, float]]:
    """Return colour, start and width of the parts of a bar, in percent."""
    starts = np.cumsum(probability) - probability
    return [
        (colours[at], round(100.0 * starts[at], 1), round(100.0 * probability[at], 1))
        for at in np.flatnonzero(probability >= VISIBLE)
    ]


def _places(answer: xr.DataTree, order: NDArray[np.int64]) -> list[Column]:
    """Return the sequence and the position of items in sequence."""
    known = constants(answer)
    if SEQUENCE_PLACE not in known:
        return []
    sequence, place = known["sequence_index"].values, known[SEQUENCE_PLACE].values  # (items,)
    lengths = np.bincount(sequence)
    first = (np.cumsum(lengths) - lengths)[sequence]
    names = [in_one_line(name) for name in known[SEQUENCE_NAME].values[sequence[order]]]
    return [
        Column("sequence", names),
        number_column("place", (place - first)[order] + 1, ",.0f"),
    ]


def _responses_per_item(answer: xr.DataTree, n_items: int) -> NDArray[Any] | None:
    rows = observed_rows(answer)
    return None if rows is None else np.bincount(rows[0], minlength=n_items)


def number_column(name: str, numbers: Any, form: str = ".2f") -> Column:
    """Return a column of numbers as text, with a dash where they are missing."""
    values = np.asarray(numbers, dtype=float)
    texts = [format(number, form) if np.isfinite(number) else "–" for number in values]
    return Column(name, texts, np.nan_to_num(values, nan=-1.0).round(4).tolist())


def as_csv(answer: xr.DataTree) -> str:
    """Return the labels of all items with the probabilities of the classes as a file."""
    item_name, _, label_name = answer.attrs.get("columns", ("item", "rater", "label"))
    labels, probability = answer.labels(), label_probabilities(answer)
    of_class = {
        f"probability_{name}": probability.isel({"class": at}).values
        for at, name in enumerate(class_names(answer))
    }
    labels = labels.rename(columns={"item": item_name, "label": label_name})
    return labels.assign(**of_class).to_csv(index=False, float_format="%.4g")


def rater_rows(answer: xr.DataTree, most: int) -> Rows | None:
    """Return the columns of the table of raters, None where raters are not judged."""
    if not judges_raters(answer):
        return None
    table = rater_table(answer)
    n_rows, table = len(table), table.head(most)
    of_class = dict(zip(("specificity", "sensitivity"), class_names(answer), strict=False))
    bars = [
        [low, mean, high]
        for low, mean, high in table[["low", "accuracy", "high"]].itertuples(index=False)
    ]
    rater_name = column_names(answer)[1]
    columns = [
        Column(rater_name, [in_one_line(name) for name in table["rater"]]),
        Column("interval", [""] * len(table), bars=bars),
    ]
    main = ["accuracy", "low", "high"]
    for name in [*main, *table.columns.drop(["rater", *main])]:
        form = ",.0f" if name in COUNTS else ".0%" if name in SHARES else ".2f"
        shown = name.replace("_", " ")
        shown += f" ({in_one_line(of_class[name])})" if name in of_class else ""
        columns.append(number_column(shown, table[name].to_numpy(dtype=float), form))
    return Rows(columns, len(table), n_rows)


def meanings(answer: xr.DataTree) -> list[str]:
    """Return what the columns of the table of raters mean."""
    names = set(rater_table(answer)) if judges_raters(answer) else set()
    return [sentence for name, sentence in MEANINGS.items() if name in names]


class GroupShares(NamedTuple):
    """Bars of every group by class, and differences of two groups."""

    name: str
    by_class: list[tuple[str, list[Bar]]]
    contrasts: Rows | None


def shares_by_group(answer: xr.DataTree, by: Any) -> GroupShares:
    """Return the shares of the classes by group of items, and differences between groups."""
    shares, contrasts = class_shares(answer, by, random_seed=_seed(answer))
    classes, colours = class_names(answer), _colours(answer)
    drawn = range(1, 2) if len(classes) == 2 else range(len(classes))
    blocks = []
    for at in (place for place in drawn if colours[place] != "x"):
        of_class = shares.iloc[at :: len(classes)]
        names = [f"{in_one_line(row.group)} ({row.items:,})" for row in of_class.itertuples()]
        bars = [
            _share_bar(name, row, colours[at])
            for name, row in zip(names, of_class.itertuples(), strict=True)
        ]
        blocks.append((in_one_line(classes[at]), bars))
    name = in_one_line(getattr(by, "name", None) or "group")
    return GroupShares(name, blocks, _contrast_rows(contrasts, classes, drawn))


def _contrast_rows(contrasts: pd.DataFrame, classes: list[Any], drawn: range) -> Rows | None:
    table = contrasts[contrasts["class"].isin([classes[at] for at in drawn])]
    if not 0 < len(table) <= MAX_CONTRASTS:
        return None
    columns = [
        Column(shown, [in_one_line(name) for name in table[key]])
        for key, shown in (("first", "group"), ("second", "other group"), ("class", "class"))
    ]
    texts = [
        f"{row.difference:+.0%} ({row.low:+.0%} to {row.high:+.0%})" for row in table.itertuples()
    ]
    columns.append(Column("difference", texts, table["difference"].tolist()))
    columns.append(number_column("larger with probability", table["better"].to_numpy()))
    return Rows(columns, len(table), len(table))


def models(answer: xr.DataTree) -> list[tuple[Bar, str]]:
    """Return the weight of every model that was tried, and why it was."""
    table = answer["comparison"].dataset.to_dataframe().reset_index()
    return [
        (Bar(row.model, f"{row.weight:.0%}", row.weight), f"{row.outcome}: {row.why}")
        for row in table.itertuples()
    ]


def spans_of_tags(answer: xr.DataTree, most: int) -> Rows | None:
    """Return the spans of tags that have the largest expected F1, None of other classes."""
    is_in_order = joint_labels.GROUP in answer.children and SEQUENCE_PLACE in constants(answer)
    if not is_in_order or not mark_spans(class_names(answer)):
        return None
    table = spans(answer).query("chosen")
    n_rows, table = len(table), table.head(most)
    columns = [
        Column("sequence", [in_one_line(name) for name in table["sequence"]]),
        number_column("first", table["start"].to_numpy() + 1, ",.0f"),
        number_column("last", table["stop"].to_numpy(), ",.0f"),
        Column("kind", [in_one_line(name) for name in table["kind"]]),
        number_column("probability", table["probability"].to_numpy()),
    ]
    return Rows(columns, len(table), n_rows)
