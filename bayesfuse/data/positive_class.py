"""Which of two classes is the positive one."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Any
from unicodedata import normalize

from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_array, shown
from bayesfuse.data.names import places
from bayesfuse.errors import ResponsesError
from bayesfuse.errors.messages import brief

INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")  # such as a byte-order mark
DASHES = re.compile("[\u2010-\u2015\u2212]")  # printed as minus signs

POSITIVE = set(
    "+ +1 1 +ve p pos positive positives y yes t true present detected case cases relevant "
    "correct".split()
)
NEGATIVE = set("- -1 0 -ve n neg negative negatives f false irrelevant incorrect wrong".split())
"""Names that are negative only beside a positive one: "negative" is not beside "neutral"."""

ABSENCE = set(
    "no not none nein nee nej non não nao нет absent undetected healthy normal control controls "
    "benign ham safe background unaffected uninfected unexposed asymptomatic".split()
)
"""Names that are negative beside any other: "healthy" and "glaucoma"."""

NEGATION = {"no", "not", "non", "without"}


def normal_form(name: str) -> str:
    """Return a name without differences of case, space, and Unicode form."""
    text = normalize("NFKC", normalize("NFKC", name).casefold())
    return " ".join(INVISIBLE.sub("", text).split())


def positive_class(names: NDArray[Any]) -> int | None:
    """Return the index of the positive one of two classes by their names, None if not certain."""
    if len(names) != 2 or names.dtype.kind != "U":
        return None
    words = [_words(name) for name in names.tolist()]
    joined = ["".join(word_list) for word_list in words]
    for i, j in ((0, 1), (1, 0)):  # such as "nontoxic" beside "toxic"
        if joined[j] and joined[i] in ("non" + joined[j], "not" + joined[j]):
            return i if _sign(words[j]) < 0 else j
    n_common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*words, strict=False)))
    endings = [word_list[n_common:] for word_list in words]
    for pair in (words, endings):
        low, high = sorted(signs := list(map(_sign, pair)))
        if low == -2 < 0 <= high or (low, high) == (-1, 1):
            return signs.index(high)
    signs = [_sign(word_list[:1]) for word_list in endings]  # such as "Yes, it is"
    return signs.index(1) if sorted(signs)[1] == 1 and min(signs) < 0 else None


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, with a sign at its end as a word."""
    text = DASHES.sub("-", normal_form(name)).strip("()[]{}\"'.!:")
    if text in POSITIVE | NEGATIVE or not text:
        return [text] * bool(text)
    stem, sign = (text[:-1], [text[-1]]) if text[-1] in "+-" else (text, [])
    return [word for word in re.split(r"[\s_\-/:,.;()]+", stem) if word] + sign


def _sign(words: list[str]) -> int:
    """Return 1 for a positive name, −1 for one that is negative beside it, −2 beside any other."""
    if len(words) > 1 and words[0] in NEGATION:
        return 1 if _sign(words[1:]) < 0 else -2
    if words and ABSENCE.issuperset(words):
        return -2
    text = " ".join(words)
    return (text in POSITIVE) - (text in NEGATIVE)


def with_positive_last(
    names: NDArray[Any],
    declared: Any,
    in_order: bool,
    positive: Any,
    graded: bool = False,
    *,
    normalised: bool = False,
) -> NDArray[Any]:
    """Return names of classes, two of them with the positive one last, as named or recognised."""
    index = positive_class(names) if declared is None and not in_order else None
    if positive is not None:
        index = _index_of(names, positive, declared, graded, normalised)
    return names if index is None or index == len(names) - 1 else names[::-1]


def _index_of(
    names: NDArray[Any], positive: Any, declared: Any, graded: bool, normalised: bool
) -> int:
    """Return the index of the positive class, or raise ResponsesError."""
    if len(names) != 2:
        raise ResponsesError(
            "positive= names one of two classes: with more, every class has a sensitivity, of its "
            f"items against all others. Got: {len(names)} classes {shown(names)}."
        )
    index = -1 if is_list_like(positive) else int(places(as_array([positive]), names)[0])
    if index < 0 and normalised and isinstance(positive, str):
        forms = [normal_form(str(name)) for name in names.tolist()]
        index = forms.index(form) if (form := normal_form(positive)) in forms else -1
    if index < 0:
        raise ResponsesError(
            f"positive= names one of the classes {shown(names)}. Got: {brief(positive)}."
        )
    if index == 0 and (declared is not None or graded):
        source = "classes= declares" if declared is not None else "ordered classes have"
        raise ResponsesError(
            f"Of two classes the last one is positive, which {source} already: leave one of the "
            f"two out. Got: {brief(positive)} in positive= and the classes {shown(names)}."
        )
    return index
