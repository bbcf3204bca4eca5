"""An answer as text."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bayesfuse.data.describing import as_columns, in_one_line
from bayesfuse.results.summaries import most_uncertain

if TYPE_CHECKING:
    from bayesfuse.answer.fused import Fused

WIDTH = 88
"""Width of paragraphs."""

FEW = 5
"""Best and worst raters, and least certain items, that are shown."""

VISIBLE = 0.005
"""Probabilities below this are not shown."""


def as_text(fused: Fused) -> str:
    """Return labels, raters, models, checks and what to do next."""
    tables = [least_certain(fused), best_and_worst(fused), tried(fused)]
    parts = [
        fill(fused.headline, WIDTH),
        *(_as_text(table) for table in tables if len(table)),
        _listed("What would help most next", fused.advice),
        _listed("What the checks of the models said", fused.checks),
    ]
    return "\n\n".join(part for part in parts if part)


def least_certain(fused: Fused) -> pd.DataFrame:
    """Return the least certain items with their visible probabilities."""
    rows = []
    for item in most_uncertain(fused, FEW):
        order = np.argsort(-item.values, kind="stable")
        shown = [at for at in order if item.values[at] >= VISIBLE]
        said = [f"{in_one_line(item['class'].values[at])}: {item.values[at]:.2f}" for at in shown]
        rows.append([in_one_line(item["item"].values.item()), "  ".join(said)])
    return pd.DataFrame(rows, columns=["least certain", "probabilities"])


def best_and_worst(fused: Fused) -> pd.DataFrame:
    """Return the best and the worst raters; no rows where raters are not judged."""
    columns = ["rater", "responses", "accuracy"]
    if "posterior" not in fused.children or "sensitivity" not in fused["posterior"]:
        return pd.DataFrame(columns=columns)
    table = fused.raters()
    left_out = len(table) - 2 * FEW
    rows = [
        [
            in_one_line(each.rater),
            f"{each.responses:,}",
            f"{each.accuracy:.2f} ({each.low:.2f}–{each.high:.2f})",
        ]
        for each in table.itertuples()
    ]
    if left_out > 1:
        rows[FEW:-FEW] = [[f"… {left_out:,} more", "", ""]]
    return pd.DataFrame(rows, columns=columns)


def tried(fused: Fused) -> pd.DataFrame:
    """Return the models that were tried, and why."""
    table = fused["comparison"].dataset.to_dataframe()
    return pd.DataFrame(
        {
            "model": table.index,
            "weight": [f"{weight:.2f}" for weight in table["weight"]],
            "seconds": [f"{seconds:.0f}" for seconds in table["seconds"]],
            "outcome": table["outcome"].to_numpy(),
            "because": table["why"].to_numpy(),
        }
    )


def _as_text(table: pd.DataFrame) -> str:
    return as_columns(table.columns.tolist(), table.to_numpy().tolist())


def _listed(title: str, lines: list[str]) -> str:
    if not lines:
        return ""
    said = (fill(line, WIDTH, initial_indent="* ", subsequent_indent="  ") for line in lines)
    return "\n".join([f"{title}:", *said])
