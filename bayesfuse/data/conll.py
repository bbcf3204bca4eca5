"""Tags of words in text files: a word and the tags of raters in a line, sentences apart."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ResponsesError, require_kind


def read_conll(
    path: str | PathLike[str],
    *,
    raters: Sequence[Any] | None = None,
    missing: str = "?",
) -> tuple[Responses, Sequences, pd.Series]:
    r"""Read a file with a word and the tags of raters in every line, sentences apart.

    Parameters
    ----------
    path : str or path
        Columns are separated by white space, the first one holds words. Empty lines end sentences;
        lines that begin with "-DOCSTART-" are ignored.
    raters : sequence, optional
        Names of the other columns. Default 0, 1, 2, …
    missing : str, default "?"
        The tag of raters who did not see the sentence.

    Returns
    -------
    responses : Responses
        Items are numbers of words.
    sequences : Sequences
    words : Series of str
        By item.

    Raises
    ------
    ResponsesError
        No words; lines with different numbers of columns.

    Examples
    --------
    >>> import tempfile, bayesfuse as bf
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     _ = file.write("Paris B-LOC ?\nshines O ?\n\nHello O B-PER\n")
    ...     _ = file.seek(0)
    ...     responses, sequences, words = bf.read_conll(file.name)
    >>> responses.classes.tolist(), sequences.lengths.tolist(), words.tolist()
    (['B-LOC', 'B-PER', 'O'], [2, 1], ['Paris', 'shines', 'Hello'])
    """
    lines = [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    lines = [[] if line[:1] == ["-DOCSTART-"] else line for line in lines]
    rows = [line for line in lines if line]
    wrong = next((line for line in rows if len(line) != len(rows[0]) or len(line) < 2), None)
    if not rows or wrong is not None:
        raise ResponsesError(
            "Every line must have a word and the same number of tags. Got: "
            + ("no words." if wrong is None else f"{' '.join(wrong)!r}.")
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
    words : Series or DataArray of str, by item
    sequences : Sequences
    *tags : Series or DataArray, by item
        One or several columns, such as ``bf.decode(result)``.

    Raises
    ------
    ResponsesError
        Words or tags that do not have all items of the sequences.

    Examples
    --------
    >>> import tempfile, pandas as pd, bayesfuse as bf
    >>> sequences = bf.Sequences.from_lengths([2, 1])
    >>> with tempfile.NamedTemporaryFile("r") as file:
    ...     words, tags = pd.Series(["Paris", "shines", "Hello"]), pd.Series(["B", "O", "O"])
    ...     bf.write_conll(file.name, words, sequences, tags)
    ...     file.read()
    'Paris B\nshines O\n\nHello O\n'
    """
    require_kind("sequences", sequences, Sequences)
    columns = []
    for given in (words, *tags):
        if not isinstance(given, pd.Series) and not hasattr(given, "to_series"):
            require_kind("words and tags", given, pd.Series)
        column = given if isinstance(given, pd.Series) else given.to_series()
        if missing := set(sequences.items.tolist()) - set(column.index):
            raise ResponsesError(
                "Words and tags must be given for all items of the sequences. Got: none for "
                f"{next(iter(missing))!r} ({len(missing)} such)."
            )
        columns.append(column.loc[sequences.items].astype(str))
    lines = [" ".join(each) for each in zip(*columns, strict=True)]
    parts = np.split(np.array(lines, dtype=object), sequences.start[1:-1])
    text = "\n\n".join("\n".join(part) for part in parts)
    Path(path).write_text(text + "\n", encoding="utf-8")
