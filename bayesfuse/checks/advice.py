"""Advice as a value, and advice on what may be wrong with a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.class_names import class_notes
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.responses import Responses
from bayesfuse.data.tags import mark_spans

MAX_RARE_SHARE = 0.005  # share of the responses below which a class may be a spelling mistake
MAX_LISTED = 5  # names that a sentence lists


class Advice(str):
    """A sentence of advice, its kind, and the call that it names.

    ``call`` is a Python expression of ``bf``, ``np``, ``responses`` and ``fused``, and of the
    arguments that a user would have to give, by their names. Tests run the call of all advice.
    """

    kind: str
    call: str

    def __new__(cls, words: str, kind: str, call: str = "") -> Advice:
        """Return the sentence with its kind and call."""
        advice = super().__new__(cls, words)
        advice.kind, advice.call = kind, call
        return advice


def on_classes(responses: Responses) -> list[Advice]:
    """Return advice on classes that are rare, spelt alike, or sets of labels."""
    if notes := class_notes(responses):
        return [Advice(note, "spelling", "responses.classes") for note in notes]
    copies = responses.multiplicity[responses.item]
    number = np.bincount(responses.label, copies, minlength=responses.n_classes)
    rare = responses.classes[(number > 0) & (number < MAX_RARE_SHARE * number.sum())]
    if not len(rare) or mark_spans(responses.classes.tolist()):
        return []
    return [
        Advice(
            f"Check the class {listing(rare)}: very few responses name it. If it is a spelling "
            "mistake, correct it, because another class makes all labels less certain.",
            "rare class",
            f"responses.to_frame().query({f'label in {rare.tolist()!r}'!r})",
        )
    ]


def on_known_classes(table: Responses, codes: NDArray[np.int64], least: float) -> list[Advice]:
    """Return advice on classes of which ``least`` known labels are expected, and none is there."""
    known = np.bincount(codes[codes >= 0], minlength=table.n_classes)
    share = np.bincount(table.label, minlength=table.n_classes) / max(table.n_responses, 1)
    expected = share * known.sum()
    is_odd = (known == 0) & (expected >= least)
    if not is_odd.any():
        return []
    words = (
        f"No known label is of the class {listing(table.classes[is_odd], MAX_LISTED)}, where "
        f"responses let {expected[is_odd].sum():.0f} of {known.sum():,} expect it. If it is no "
        "possible truth, such as a tie for people who never call one, read its responses as "
        "missing: balanced accuracy counts it as much as other classes."
    )
    return [Advice(words, "class without known labels")]


def on_repeats(responses: Responses) -> list[Advice]:
    """Return advice on repeated responses of a rater to an item."""
    pair = responses.item.astype(np.int64) * responses.n_raters + responses.rater
    n_pairs = len(pd.unique(pair))  # hashes, where NumPy sorts
    if not (again := len(pair) - n_pairs) or responses.is_of_votes:
        return []
    other = len(pd.unique(pair * responses.n_classes + responses.label)) - n_pairs
    return [
        Advice(
            f"Check that {again:,} responses are not copies: their raters responded to the same "
            f"item before (with another label: {other:,}). A repeated response of a rater is "
            "weaker evidence than one of another rater.",
            "repeats",
            "bf.Responses.from_long(responses.to_frame().drop_duplicates())",
        )
    ]


def listing(names: Any, most: int = MAX_LISTED) -> str:
    """Return the first of some names in one line, and the number of the others."""
    words = [in_one_line(name) for name in names]
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more:,} more" if more > 0 else "")
