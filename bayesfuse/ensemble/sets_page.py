"""The page of an answer for label sets, from the templates of :mod:`bayesfuse.ensemble.page`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.describing import in_one_line
from bayesfuse.ensemble.page import MAX_LABELS, MAX_RATERS, page_of
from bayesfuse.ensemble.page_parts import Bar, Column, Rows, number_column
from bayesfuse.results.contents import require_rows
from bayesfuse.results.label_sets import SETS
from bayesfuse.results.summaries import coverage


def sets_as_page(answer: Any) -> str:
    """Return an answer for label sets as a page that needs no other file."""
    item, rater = answer.attrs.get("columns", ("item", "rater"))[:2]
    sets = answer.labels()
    return page_of(
        answer,
        "sets.html",
        "Sets of labels",
        opening=answer.attrs["headline"],
        coverage=f"{coverage():.0%}",
        shares=_shares(answer),
        labels=_set_rows(sets.sort_values("probability", kind="stable"), in_one_line(item)),
        raters=_rater_rows(answer.raters(), in_one_line(rater)),
        by_label=_rater_rows(answer.raters(by="label"), in_one_line(rater)),
        csv=as_text_table(sets, ", ").to_csv(index=False, float_format="%.4g"),
    )


def as_text_table(sets: pd.DataFrame, separator: str) -> pd.DataFrame:
    """Return the table of sets with their labels as text."""
    text = [separator.join(map(str, labels)) for labels in sets["labels"]]
    return sets.assign(labels=text)


def _shares(answer: Any) -> list[Bar]:
    """Return the expected share of every label, and its share of the answers."""
    probability = answer[SETS].dataset["probability"]
    n_labels = probability.sizes["label"]
    question, _, response = require_rows(answer, "A page")
    asked, votes = (
        np.bincount(question % n_labels, weight, n_labels) for weight in (None, response)
    )
    votes = votes / np.maximum(asked, 1)
    share = probability.mean("item").values
    return [
        Bar(in_one_line(str(name)), f"{100 * p:.0f}%", float(p), votes=float(vote))
        for name, p, vote in zip(probability["label"].values, share, votes, strict=True)
    ]


def _set_rows(sets: pd.DataFrame, item: str) -> Rows:
    some = sets.head(MAX_LABELS)
    labels = [in_one_line(", ".join(map(str, names)) or "none") for names in some["labels"]]
    columns = [
        Column(item, [in_one_line(str(name)) for name in some["item"]]),
        Column("labels", labels),
        number_column("probability", some["probability"]),
    ]
    for name in some.columns[3:]:
        shown = in_one_line(name.removeprefix("probability[").removesuffix("]"))
        columns.append(number_column(shown, some[name]))
    return Rows(columns, len(some), len(sets))


def _rater_rows(table: pd.DataFrame, rater: str) -> Rows:
    some = table.head(MAX_RATERS)
    bars = some[["low", "accuracy", "high"]].to_numpy().tolist()
    columns = [Column(rater, [in_one_line(str(name)) for name in some["rater"]])]
    if "group" in some:
        columns.insert(0, Column("label", [in_one_line(str(name)) for name in some["group"]]))
    columns.append(Column("interval", [""] * len(some), bars=bars))
    for name in ("accuracy", "low", "high", "sensitivity", "specificity"):
        columns.append(number_column(name, some[name]))
    columns.append(number_column("answers", some["responses"], ",.0f"))
    return Rows(columns, len(some), len(table))
