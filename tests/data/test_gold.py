"""Gold labels in all their forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.data.gold import gold_labels
from bayesfuse.errors import ResponsesError

GOLD = bf.Responses.from_matrix([["a"], ["b"], ["a"]], items=[1, 2, 3])
GOOD_GOLD = {
    "series": (pd.Series(["b"], index=[2]), [-1, 1, -1]),
    "repeated": (pd.Series(["b", "b"], index=[2, 2]), [-1, 1, -1]),
    "numpy": ({np.int8(3): np.str_("a")}, [-1, -1, 0]),
    "empty": (pd.Series([], dtype=str), [-1, -1, -1]),
}
BAD_GOLD = {
    "frame": (pd.DataFrame({"a": [1]}), "Got: DataFrame"),
    "contradiction": (pd.Series(["a", "b"], index=[2, 2]), "'b' and 'a' for item 2"),
    "missing": (pd.Series(["a", None], index=[1, 2]), "leave out items whose class is not known"),
    "tuple": ({(1, 2): "a"}, "Got: (1, 2), which is not"),
    "bytes": ({b"x": "a"}, "Got: b'x'"),
    "truth for a number": ({True: "a"}, "Got: True, which is not"),
}


@pytest.mark.parametrize("case", GOOD_GOLD)
def test_gold_in_all_its_forms(case):
    gold, known = GOOD_GOLD[case]
    assert gold_labels(GOLD, gold).tolist() == known


@pytest.mark.parametrize("case", BAD_GOLD)
def test_gold_that_cannot_be(case):
    gold, told = BAD_GOLD[case]
    with pytest.raises(ResponsesError) as error:
        gold_labels(GOLD, gold)
    assert told in str(error.value)
