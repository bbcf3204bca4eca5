"""Indicators of words, for labels of tokens: word, shape, prefix and suffix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import matched
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, ResponsesError, require_count, require_kind

KINDS = {
    "word": str.lower,
    "shape": lambda word: re.sub(r"(.)\1+", r"\1", _shape(word)),
    "prefix": lambda word: word[:3].lower(),
    "suffix": lambda word: word[-3:].lower(),
}


def token_features(
    words: Any,
    sequences: Sequences,
    *,
    items: Sequence[Any] | None = None,
    kinds: Sequence[str] = ("word", "shape", "prefix", "suffix"),
    context: int = 1,
) -> tuple[Any, list[str]]:
    """Return indicators of words and of their neighbours, as a sparse matrix.

    Parameters
    ----------
    words : mapping, Series or sequence of str
        The word of every item, by its name or in the order of ``sequences.items``.
    sequences : Sequences
    items : sequence, optional
        Names of the items in the order of the rows, such as ``responses.items``. Default: the order
        of ``sequences.items``.
    kinds : sequence of {"word", "shape", "prefix", "suffix"}
        The word in lower case; its shape, as "Xx" for "Paris" and "d.d" for "3.14"; its first and
        its last three letters.
    context : int, default 1
        Number of neighbours on each side whose indicators are included.

    Returns
    -------
    matrix : scipy.sparse.csr_matrix, shape (items, features)
    names : list of str
        Such as "word[-1]=mr." for the previous word.

    Raises
    ------
    ModelError
        Unknown kinds.
    ResponsesError
        Words or items that are not those of the sequences.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> sequences = bf.Sequences.from_lengths([3])
    >>> matrix, names = bf.token_features(
    ...     ["Mr.", "Paris", "left"], sequences, kinds=["shape"], context=1
    ... )
    >>> [names[j] for j in matrix[1].indices]
    ['shape[-1]=Xx.', 'shape=Xx', 'shape[+1]=x']
    """
    from scipy.sparse import csr_matrix  # slow to import

    require_kind("sequences", sequences, Sequences)
    require_count("context", context, least=0)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ModelError(f"kinds must be among {[*KINDS]}. Got: {unknown[0]!r}.")
    whole = "Every item of the sequences must have a word, or be among items=."
    known = "Words and items must be of the sequences."
    if isinstance(words, Mapping | pd.Series):
        own = as_array(list(words.keys()))
        order = np.argsort(matched(own, sequences.items, known, whole))
        listed = list(words.values() if isinstance(words, Mapping) else words)
        words = [listed[n] for n in order]
    text = [str(word) for word in words]
    if len(text) != sequences.n_items:
        raise ResponsesError(f"{whole} Got: {len(text)} words of {sequences.n_items} items.")
    distinct, code = np.unique(np.array(text, dtype=object), return_inverse=True)
    every = np.arange(sequences.n_items)
    sequence = np.repeat(np.arange(sequences.n_sequences), sequences.lengths)
    columns: list[NDArray[np.int64]] = []
    names: list[str] = []
    for kind in kinds:
        feature, of_word = np.unique([KINDS[kind](word) for word in distinct], return_inverse=True)
        for step in range(-context, context + 1):
            beside = np.clip(every + step, 0, len(every) - 1)
            inside = (sequence[beside] == sequence) & (beside == every + step)
            columns.append(np.where(inside, of_word[code[beside]], len(feature)) + len(names))
            at = f"{kind}[{step:+d}]" if step else kind
            names += [*(f"{at}={each}" for each in feature), f"{at} (none)"]
    index = np.stack(columns, axis=1)
    begin = np.arange(0, index.size + 1, index.shape[1])
    found = csr_matrix((np.ones(index.size), index.ravel(), begin), shape=(len(every), len(names)))
    if items is not None:
        given = as_array(list(items))
        found = found[matched(given, sequences.items, known, whole)]
    return found, names


def _shape(word: str) -> str:
    """Return the word with X, x and d for capitals, other letters and digits."""
    kinds = ((str.isupper, "X"), (str.isalpha, "x"), (str.isdigit, "d"))
    return "".join(next((mark for of, mark in kinds if of(letter)), letter) for letter in word)
