"""Symmetric sums over groups of rows: condensed, and in single precision."""

import numpy as np
import pytest

from bayesfuse.moments.symmetric import RowGroups


def test_groups_of_three_have_the_sums_of_larger_ones():
    rng = np.random.default_rng(4)
    members = [np.flatnonzero(rng.random(7) < 0.6) for _ in range(60)]
    start = np.concatenate([[0], np.cumsum([len(rows) for rows in members])]).astype(np.uint32)
    row = np.concatenate(members).astype(np.uint32)
    groups = RowGroups(rng.integers(0, 5, 60).astype(float), start, row)
    small = groups.condensed(7)
    assert np.diff(start.astype(int)).max() > 3 >= np.diff(small.start.astype(int)).max()
    assert len(small.row) < len(row)
    values = rng.normal(size=(7, 11))
    for found, expected in zip(small.polynomials(values), groups.polynomials(values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)
    assert groups.condensed(20) is groups  # of twenty rows there are too many triples


@pytest.mark.parametrize("n_lanes", [3, 10, 21, 55])
def test_single_precision_errs_by_no_more_than_a_rounding(n_lanes):
    rng = np.random.default_rng(n_lanes)
    sizes = rng.integers(0, 9, size=3000)
    groups = RowGroups(
        rng.integers(0, 4, size=3000).astype(float),
        np.concatenate([[0], sizes.cumsum()]).astype(np.uint32),
        np.concatenate([rng.choice(12, size, replace=False) for size in sizes]).astype(np.uint32),
    )
    values = rng.random((12, n_lanes))
    total, others = groups.polynomials(values)
    about = groups.polynomials(values, roughly=True)
    assert (about[1] != others).any() == (n_lanes > 8)  # a few lanes gain nothing by it
    np.testing.assert_allclose(about[0], total, rtol=3e-7)
    np.testing.assert_allclose(about[1], others, rtol=3e-7)
    few = groups.condensed(12)  # weights of both signs, between which digits would cancel
    np.testing.assert_array_equal(
        few.polynomials(values, roughly=True)[1], few.polynomials(values)[1]
    )
