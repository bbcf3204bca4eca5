"""Coefficients of agreement, against published values."""

import numpy as np
import pandas as pd
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError

OBSERVERS = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""
"""Four observers of twelve units (Krippendorff 2011)."""

COUNTS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten subjects, fourteen raters, five categories: Fleiss' kappa is .210."""


def observers(ordered=True):
    rows = [line.split() for line in OBSERVERS.strip().splitlines()]
    table = [
        [None if said == "." else int(said) for said in unit] for unit in zip(*rows, strict=True)
    ]
    return bf.Responses.from_matrix(np.array(table, dtype=object), ordered=ordered)


def from_counts(counts):
    rows = [[k for k, n in enumerate(row) for _ in range(n)] for row in counts]
    return bf.Responses.from_matrix(np.array(rows), ordered=False)


def values(responses, **kwargs):
    measures = bf.agreement(responses, random_seed=1, draws=50, **kwargs).measures
    return measures.set_index("measure")["value"].round(3).to_dict()


def test_published_values():
    assert values(observers()) == {
        "agreement": 0.818,
        "Krippendorff's alpha": 0.743,
        "Krippendorff's alpha, ordinal": 0.815,
        "Fleiss' kappa": 0.761,  # Gwet (2014), with missing responses
        "Gwet's AC1": 0.775,
    }
    found = values(from_counts(COUNTS))
    assert (found["Fleiss' kappa"], found["agreement"]) == (0.210, 0.378)


def test_cohens_kappa_and_its_error():
    counts = bf.Responses.from_counts({"00": 20, "01": 5, "10": 10, "11": 15})
    measures, pairs = bf.agreement(counts, ci_prob=0.95, random_seed=1)
    (row,) = pairs.itertuples(index=False)
    assert (row.items, round(row.agreement, 3), round(row.kappa, 3)) == (50, 0.7, 0.4)
    again = bf.agreement(counts.expand(), ci_prob=0.95, random_seed=1)
    pd.testing.assert_frame_equal(again.pairs, pairs)
    pd.testing.assert_frame_equal(again.measures, measures)
    # the bootstrap of kappa, as a check of the asymptotic interval
    rng = np.random.default_rng(1)
    share = rng.multinomial(50, np.array([20, 5, 10, 15]) / 50, 4000).reshape(-1, 2, 2) / 50
    same, chance = np.trace(share, axis1=1, axis2=2), (share.sum(2) * share.sum(1)).sum(1)
    sd = ((same - chance) / (1 - chance)).std()
    assert (row.high - row.low) / (2 * 1.96) == pytest.approx(sd, rel=0.06)


def test_intervals_cover_at_about_their_probability():
    """Two raters who are right with .8: the coefficients' values for ever more items are known."""
    rng = np.random.default_rng(3)
    share = {"agreement": 0.68, "Krippendorff's alpha": 0.36, "Gwet's AC1": 0.36}
    hits = dict.fromkeys(share, 0)
    for _ in range(100):
        truth = rng.integers(2, size=80)
        said = np.where(rng.random((2, 80)) < 0.8, truth, 1 - truth).T
        found = bf.agreement(bf.Responses.from_matrix(said), draws=200, ci_prob=0.9, random_seed=1)
        for row in found.measures.itertuples(index=False):
            if row.measure in hits:
                hits[row.measure] += row.low <= share[row.measure] <= row.high
    assert all(80 <= count <= 98 for count in hits.values()), hits


def test_groups_and_odd_tables():
    measures, pairs = bf.agreement(observers(), by=["a"] * 11 + ["b"], draws=20, random_seed=1)
    assert measures["group"].unique().tolist() == ["all items", "a", "b"]
    alone = measures[measures["group"] == "b"]
    assert alone["value"].isna().all() and (alone["items"] == 0).all()
    assert set(pairs["group"]) == {"all items", "a"} and len(pairs) == 12
    same = bf.Responses.from_matrix([[1, 1], [1, 1]], classes=[0, 1])
    found = values(same)
    assert found["agreement"] == 1 and found["Gwet's AC1"] == 1
    assert np.isnan(found["Fleiss' kappa"]) and np.isnan(found["Krippendorff's alpha"])
    repeated = bf.Responses.from_long(
        {"item": [0, 0, 1], "rater": ["x", "x", "x"], "label": [0, 1, 1]}
    )
    measures, pairs = bf.agreement(repeated, draws=5, random_seed=1)
    assert measures["value"][0] == 0 and pairs.empty


def test_bad_input():
    with pytest.raises(ModelError, match=r"responses must be a bf\.Responses"):
        bf.agreement([[0, 1]])
    with pytest.raises(ResponsesError, match=r"by= is a mapping .* from items to groups"):
        bf.agreement(observers(), by=["a"])
    with pytest.raises(ResponsesError, match=r"Every item belongs to one group"):
        bf.agreement(observers(), by=pd.Series(["a", "b"], index=[0, 0]))
    with pytest.raises(ModelError, match=r"draws must be a whole number"):
        bf.agreement(observers(), draws=0)
