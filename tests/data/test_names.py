"""Names of items, raters and classes stay as they are, or are refused."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.data.known import gold_labels
from bayesfuse.errors import ResponsesError
from bayesfuse.models import DawidSkene


@pytest.mark.parametrize("names", [[1, "2"], [(1, 2), (1, 3)], pd.period_range("2020", periods=2)])
def test_names_that_no_file_can_hold_are_refused(names):
    with pytest.raises(ResponsesError, match=r"Names of raters must be all text.*Got"):
        bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)


@pytest.mark.parametrize("kind", ["datetime64[D]", "datetime64[ns]"])
def test_times_are_names(kind, tmp_path):
    times = np.array(["2020-01-01", "2020-01-03"], dtype=kind)
    for names in (times, list(times), pd.DatetimeIndex(times), pd.DatetimeIndex(times).tolist()):
        responses = bf.Responses.from_matrix([[0, 1], [1, 1]], raters=names)
        assert responses.raters.tolist() == pd.DatetimeIndex(times).tolist()
    point = bf.find_map(DawidSkene(responses))
    point.to_netcdf(tmp_path / "point.nc")
    assert (point["point"]["rater"].values == times).all()


BIG = 2**53


@pytest.mark.parametrize(
    "names",
    [
        [BIG, BIG + 1, BIG + 2],
        np.array([1, 2**63, 2**63 + 1], dtype=np.uint64),
        [np.datetime64(1, "ns"), np.datetime64(2, "ns"), np.datetime64("2020")],
        [True, False],
        [0.25, 1, BIG],
    ],
)
def test_names_stay_as_they_are(names):
    """Found in a column, declared, and looked up by another type of number."""
    long = bf.Responses.from_long(
        {"item": list(names) * 2, "rater": [0] * len(names) * 2, "label": [0, 1] * len(names)}
    )
    assert sorted(long.items.tolist()) == sorted(list(names)) and len(long.items) == len(names)
    declared = bf.Responses.from_matrix([[n % 2] for n in range(len(names))], items=names)
    assert declared.items.tolist() == list(names)
    gold = {name: n % 2 for n, name in enumerate(declared.items.tolist())}
    known = gold_labels(declared, gold)
    assert known.tolist() == [n % 2 for n in range(len(names))]


def test_numbers_are_compared_exactly():
    table = {"item": [float(BIG), 2.0], "rater": [0, 0], "label": [0, 1]}
    found = bf.Responses.from_long(table, items=[BIG + 1, BIG, 2])
    assert found.per_item.tolist() == [0, 1, 1]
    with pytest.raises(ResponsesError, match="among the declared ones"):
        bf.Responses.from_long(table, items=[BIG + 1, 2])
    with pytest.raises(ResponsesError, match="64 bits must hold each"):
        bf.Responses.from_matrix([[0], [1]], items=[-1, 2**63])
    assert bf.Responses.from_matrix([[BIG + 1, np.nan], [0, 1]]).classes.tolist() == [0, 1, BIG + 1]


@pytest.mark.parametrize("name", ["a\0", "a\0b", b"a\0", np.str_("a\0"), "\ud800"])
def test_text_that_no_file_holds_is_refused(name):
    other = name[:1] * 2
    with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
        bf.Responses.from_matrix([[0], [1]], items=[name, other])
    with pytest.raises(ResponsesError, match=r"without the character NUL.*Got"):
        bf.Responses.from_long({"item": [name, other], "rater": [0, 0], "label": [0, 1]})


def test_dates_are_names():
    days = [dt.date(2020, 1, 2), dt.date(2020, 1, 1)]
    responses = bf.Responses.from_long({"item": days, "rater": [0, 0], "label": [0, 1]})
    assert responses.items.tolist() == [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02")]
    assert gold_labels(responses, {days[0]: 0}).tolist() == [-1, 0]
    sequences = bf.Sequences.from_lengths([2], items=days)
    assert sequences.places(responses).tolist() == [1, 0]
    with pytest.raises(ResponsesError, match="Got: date, datetime"):
        mixed = [days[0], dt.datetime(2020, 1, 2)]
        bf.Responses.from_long({"item": mixed, "rater": [0, 0], "label": [0, 1]})


def test_coordinates_of_a_data_array_are_names():
    matrix = xr.DataArray([[0, 1], [1, 1]], {"film": ["i", "j"]}, ["film", "critic"])
    assert bf.Responses.from_matrix(matrix).items.tolist() == ["i", "j"]
    assert bf.Responses.from_matrix(matrix, items=["k", "l"]).items.tolist() == ["k", "l"]
    assert bf.Responses.from_matrix(matrix).raters.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        ({(0, 1): 3, (1, 1): 2}, ["01", "11"]),
        ({(1, 11): 3, (11, 1): 2}, ["1,11", "11,1"]),
        ({("1,1", "1"): 3, ("1", "1,1"): 2}, ["('1,1', '1')", "('1', '1,1')"]),
    ],
)
def test_patterns_have_names_of_their_own(counts, names):
    assert bf.Responses.from_counts(counts).items.tolist() == names
