"""Classic data sets."""

from __future__ import annotations

import numpy as np

from bayesfuse.data.responses import Responses

_ANESTHESIA = """
1111111 3334334 1122122 2223121 2223222 2223322 1122111 3333433 2222223 2322223 4444444 2223343
1111111 2223212 1211111 1112111 1111111 1111111 2222221 2221322 2222222 2222221 2223222 2212222
1111111 1111111 2322222 1111111 1111111 1121121 1111111 3333233 1111111 2222222 2223232 4334343
2212232 2323233 3333432 1111111 1111111 1212111 2322222 1211111 2222222
"""

_CARIES = """
00000:1880 00001:789 00010:43 00011:75 00100:23 00101:63 00110:8 00111:22 01000:188 01001:191
01010:17 01011:67 01100:15 01101:85 01110:8 01111:56 10000:22 10001:26 10010:6 10011:14 10100:1
10101:20 10110:2 10111:17 11000:2 11001:20 11010:6 11011:27 11100:3 11101:72 11110:1 11111:100
"""


def anesthesia() -> Responses:
    """Return assessments of 45 patients by five anaesthetists on a scale from 1 to 4.

    The first anaesthetist assessed every patient three times.

    References
    ----------
    Dawid & Skene (1979), Applied Statistics 28, 20–28, Table 1.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.anesthesia().n_responses
    315
    """
    patterns = _ANESTHESIA.split()
    return Responses.from_long(
        {
            "item": np.repeat(np.arange(1, 46), 7),
            "rater": np.tile([1, 1, 1, 2, 3, 4, 5], 45),
            "label": np.array([int(digit) for pattern in patterns for digit in pattern]),
        }
    )


def caries() -> Responses:
    """Return five dentists' verdicts (sound or carious) on 3,869 radiographs, as 32 patterns.

    References
    ----------
    Espeland & Handelman (1989), Biometrics 45, 587–599.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> int(bf.datasets.caries().multiplicity.sum())
    3869
    """
    pairs = [entry.split(":") for entry in _CARIES.split()]
    names = {"0": "sound", "1": "carious"}
    return Responses.from_counts(
        np.array([[names[digit] for digit in pattern] for pattern, _ in pairs]),
        [int(count) for _, count in pairs],
        items=[pattern for pattern, _ in pairs],
        raters=[f"dentist {number}" for number in range(1, 6)],
        classes=["sound", "carious"],
    )


def tuberculosis() -> tuple[Responses, dict[str, str]]:
    """Return results of two skin tests for tuberculosis in two populations, as four patterns each.

    Of 1,877 people, "+" is positive. Population "1" is a school district, "2" a sanatorium.

    References
    ----------
    Hui & Walter (1980), Biometrics 36, 167–171.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> bf.datasets.tuberculosis()[1]["2: +-"]
    '2'
    """
    patterns, counts = ("++", "+-", "-+", "--"), {"1": (14, 4, 9, 528), "2": (887, 31, 37, 367)}
    populations = {f"{name}: {pattern}": name for name in counts for pattern in patterns}
    responses = Responses.from_counts(
        np.array([list(pattern) for _ in counts for pattern in patterns]),
        [number for numbers in counts.values() for number in numbers],
        items=list(populations),
        raters=["Mantoux", "tine"],
        classes=["-", "+"],
    )
    return responses, populations
