"""Words: files with a word and the tags of raters in a line, and indicators of words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, quoted
from bayesfuse.data.names import matched
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, ResponsesError, require_count, require_kind


def _shape(word: str) -> str:
    """Return the word with X, x and d for capitals, other letters and digits, none repeated."""
    shape = ""
    for letter in word:
        if letter.isalpha():
            letter = "X" if letter.isupper() else "x"
        shape += "d" if letter.isdigit() else letter
    return re.sub(r"(.)\1+", r"\1", shape)


DOCUMENT = "-DOCSTART-"  # first word of lines between documents

KINDS = {
    "word": str.lower,
    "shape": _shape,
    "prefix": lambda word: word[:3].lower(),
    "suffix": lambda word: word[-3:].lower(),
}


def read_conll(
    path: str | PathLike[str], *, raters: Sequence[Any] | None = None, missing: str = "?"
) -> tuple[Responses, Sequences, pd.Series]:
    r"""Read a file with a word and the tags of raters in a line, and empty lines between sentences.

    Parameters
    ----------
    path : str or path
        Columns are separated by white space. Lines that begin with "-DOCSTART-" are ignored.
    raters : sequence, optional
        Names of the columns of tags. Default 0, 1, 2, …
    missing : str, default "?"
        The tag of raters who did not see the sentence.

    Returns
    -------
    responses : Responses
        Items are numbers of words.
    sequences : Sequences
    words : Series of str, by item

    Examples
    --------
    >>> import pathlib, tempfile, bayesfuse as bf
    >>> file = pathlib.Path(tempfile.mkdtemp(), "tags.conll")
    >>> _ = file.write_text("Paris B-LOC ?\nshines O ?\n\nHello O B-PER\n")
    >>> responses, sequences, words = bf.io.read_conll(file)
    >>> responses.classes.tolist(), sequences.lengths.tolist(), words.tolist()
    (['B-LOC', 'B-PER', 'O'], [2, 1], ['Paris', 'shines', 'Hello'])
    """
    lines = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    lines = [[] if line[:1] == [DOCUMENT] else line for line in lines]
    rows = [line for line in lines if line]
    wrong = [line for line in rows if len(line) != len(rows[0]) or len(line) < 2]
    if wrong or not rows:
        raise ResponsesError(
            "Every line must have a word and the same number of tags. Got: "
            f"{' '.join(wrong[0]) if wrong else 'no words'}."
        )
    ends = np.cumsum([bool(line) for line in lines])[[not line for line in lines]]
    lengths = np.diff(np.unique([0, *ends, len(rows)]))
    tags = [line[1:] for line in rows]
    responses = Responses.from_matrix(tags, missing=missing, raters=raters)
    words = pd.Series([line[0] for line in rows], pd.Index(responses.items, name="item"))
    return responses, Sequences.from_lengths(lengths), words


def write_conll(path: str | PathLike[str], words: Any, sequences: Sequences, *tags: Any) -> None:
    r"""Write words and columns of tags, a word in a line, with empty lines between sentences.

    Parameters
    ----------
    path : str or path
    words, *tags : Series or DataArray, by item, or DataFrame with columns ``item`` and ``label``
        Of all items, such as ``bf.decode(result)`` or ``fused.labels()``.
    sequences : Sequences

    Examples
    --------
    >>> import pathlib, tempfile, pandas as pd, bayesfuse as bf
    >>> file = pathlib.Path(tempfile.mkdtemp(), "tags.conll")
    >>> words, tags = pd.Series(["Paris", "shines", "Hello"]), pd.Series(["B", "O", "O"])
    >>> bf.io.write_conll(file, words, bf.Sequences.from_lengths([2, 1]), tags)
    >>> file.read_text()
    'Paris B\nshines O\n\nHello O\n'
    """
    require_kind("sequences", sequences, Sequences)
    columns = []
    for labels in (words, *tags):
        if isinstance(labels, pd.DataFrame) and {"item", "label"} <= set(labels):
            labels = labels.set_index("item")["label"]
        labels = labels.to_series() if hasattr(labels, "to_series") else labels
        column = require_kind("words and tags, by item,", labels, pd.Series)
        if missing := set(sequences.items.tolist()) - set(column.index):
            raise ResponsesError(
                "Words and tags must be given for all items of the sequences. Got: none for "
                f"{next(iter(missing))!r} ({len(missing)} such)."
            )
        columns.append(column.loc[sequences.items].astype(str))
        for text in columns[-1]:
            if len(text.split()) != 1 or text == DOCUMENT:
                raise ResponsesError(
                    "Words and tags must be text without white space, which separates columns, and "
                    f"not empty or {DOCUMENT}, because `read_conll` could not read the file. Got: "
                    f"{quoted(text)}."
                )
    lines = [" ".join(row) for row in zip(*columns, strict=True)]
    parts = np.split(np.array(lines, dtype=object), sequences.start[1:-1])
    text = "\n\n".join("\n".join(part) for part in parts)
    Path(path).write_text(text + "\n", encoding="utf-8")


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
        Items of the rows, such as ``responses.items``. Default ``sequences.items``.
    kinds : sequence of {"word", "shape", "prefix", "suffix"}
        The word in lower case; its shape ("d.d" for "3.14"); its first and last three letters.
    context : int, default 1
        Number of neighbours on each side whose indicators are included.

    Returns
    -------
    matrix : scipy.sparse.csr_matrix, shape (items, features)
    names : list of str
        Such as "word[-1]=mr." for the previous word.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> words, sequences = ["Mr.", "Paris", "left"], bf.Sequences.from_lengths([3])
    >>> matrix, names = bf.io.token_features(words, sequences, kinds=["shape"])
    >>> [names[j] for j in matrix[1].indices]
    ['shape[-1]=Xx.', 'shape=Xx', 'shape[+1]=x']
    """
    from scipy.sparse import csr_matrix  # slow to import

    require_kind("sequences", sequences, Sequences)
    require_count("context", context, least=0)
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ModelError(f"kinds must be among {[*KINDS]}. Got: {unknown[0]!r}.")
    rule = "Every item of the sequences must have a word, or be among items=."
    known = "Words and items must be of the sequences."
    if isinstance(words, Mapping | pd.Series):
        place = matched(as_array(list(words.keys())), sequences.items, known, rule)
        words = pd.Series(words, dtype=object).iloc[np.argsort(place)]
    text = [str(word) for word in words]
    if len(text) != sequences.n_items:
        raise ResponsesError(f"{rule} Got: {len(text)} words of {sequences.n_items} items.")
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
            names += [*(f"{at}={value}" for value in feature), f"{at} (none)"]
    index = np.stack(columns, axis=1)
    begin = np.arange(0, index.size + 1, index.shape[1])
    matrix = csr_matrix((np.ones(index.size), index.ravel(), begin), shape=(len(every), len(names)))
    if items is not None:
        item_names = as_array(list(items))
        matrix = matrix[matched(item_names, sequences.items, known, rule)]
    return matrix, names
