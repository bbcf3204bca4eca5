"""Summaries of tables and graphs as text."""

from __future__ import annotations

from textwrap import fill
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from bayesfuse.data.class_names import class_rows
from bayesfuse.errors.messages import abridged

FEW = 5  # number of the first and the last rows of long tables to show
WIDTH = 88  # width of paragraphs
MAX_LETTERS = 60  # length to which printed names are cut; plots cut them shorter


def in_one_line(name: Any, most: int = MAX_LETTERS) -> str:
    """Return a name without line breaks, quoted if empty, with the middle cut out if long."""
    # control characters and unpaired surrogates can be neither printed nor drawn
    text = "".join(" " if category(c) in {"Cc", "Cs", "Zl", "Zp"} else c for c in str(name))
    if not text.strip():
        text = repr(text)
    return abridged(text, most)


def summarise(responses: Any) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows (quantity, value) for a table of responses."""
    weight = (
        None if responses.is_unweighted else np.repeat(responses.multiplicity, responses.per_item)
    )
    n_rows = responses.n_responses if weight is None else int(weight.sum())
    items = f"{responses.n_items:,} items"
    if weight is not None:
        items = f"{int(responses.multiplicity.sum()):,} items in {responses.n_items:,} patterns"
    answers = f"{n_rows:,} responses"
    if (stated := responses.stated) is not None and stated.are_sets and len(stated.rater):
        n_partial = len(stated.rater)
        answers += f" and {n_partial:,} partial answer{'s' * (n_partial != 1)}"
    title = (
        f"{answers} to {items} by {responses.n_raters:,} raters, {responses.n_classes:,} classes"
    )
    if responses.is_of_votes:
        title = f"{n_rows:,} votes on {items}, {responses.n_classes:,} classes"
    totals = np.bincount(responses.label, weight, minlength=responses.n_classes).astype(np.int64)
    pairs = zip(responses.classes, totals, strict=True)
    used = [f"{in_one_line(name)} ({n:,})" for name, n in pairs]
    rows = [
        ("classes", ", ".join(used[:8]) + (", …" if len(used) > 8 else "")),
        *class_rows(responses),
        ("responses per item", spread(responses.per_item, responses.multiplicity)),
        ("responses per rater", spread(responses.per_rater)),
    ]
    if not np.isnan(agreement := responses.agreement()):
        rows.append(("agreement", f"{agreement:.2f} of the pairs of responses to one item"))
    if (silent := responses.silent) is not None:
        extent = "on all other items" if silent.complete else f"{len(silent.rater):,} times"
        rows.append(("silence of sources", extent))
    if (stated := responses.stated) is not None:
        on = {"rater": len(np.unique(stated.rater)), "item": len(np.flatnonzero(stated.per_item))}
        by, of = (f"{n:,} {what}{'s' * (n != 1)}" for what, n in on.items())
        rows.append(("statements", f"{len(stated.rater):,} by {by}, on {of}"))
    return title, rows


def summarise_graph(graph: Any) -> tuple[str, list[tuple[str, str]]]:
    """Return a title and rows (quantity, value) for a graph."""
    size = np.bincount(graph.component)
    tree = "forest: labels can be summed out exactly" if graph.is_forest else "with cycles"
    parts = f"{len(size):,}, the largest of {size.max():,} items" if len(size) > 1 else "1"
    rows = [("neighbours per item", spread(graph.degree))]
    if graph.n_edges:
        low, high = graph.weights.min(), graph.weights.max()
        rows.append(("weights", f"{low:g}" if low == high else f"{low:.3g} to {high:.3g}"))
    title = f"{graph.n_items:,} items, {graph.n_edges:,} edges"
    return title, [*rows, ("components", parts), ("kind", tree)]


def as_text(name: str, title: str, rows: list[tuple[str, str]]) -> str:
    """Format a summary for a terminal."""
    return f"{name}: {title}\n" + "\n".join(f"  {what:<20} {text}" for what, text in rows)


def spread(counts: NDArray[np.int64], copies: NDArray[np.int64] | None = None) -> str:
    """Return range and median of counts, each repeated ``copies`` times."""
    times = np.ones(len(counts), dtype=np.int64) if copies is None else copies
    order = np.argsort(counts)
    total = np.cumsum(times[order])
    places = [0, (total[-1] - 1) // 2, total[-1] // 2, total[-1] - 1]
    low, *middle, high = counts[order][np.searchsorted(total, places, side="right")].tolist()
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, median {sum(middle) / 2:,.0f}"


def paragraph(words: str) -> str:
    """Return words as a paragraph, broken into lines."""
    return fill(words, WIDTH)


def bullet(words: str) -> str:
    """Return words as an item of a list."""
    return fill(words, WIDTH, initial_indent="* ", subsequent_indent="  ")


def as_columns(header: list[str], rows: list[list[str]]) -> str:
    """Return rows of text as left-aligned columns; a row may end early."""
    lines = [header, *rows]
    widths = [0] * len(header)
    for line in lines:
        for at, cell in enumerate(line):
            widths[at] = max(widths[at], len(cell))
    padded = [map(str.ljust, line, widths) for line in lines]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def shortened(rows: list[list[str]], n_columns: int = 1) -> list[list[str]]:
    """Return the first and last rows of many, and the number of the others between."""
    left_out = len(rows) - 2 * FEW
    if left_out <= 1:
        return rows
    return [
        *rows[:FEW],
        [f"… {left_out:,} more", *[""] * (n_columns - 1)],
        *rows[-FEW:],
    ]
