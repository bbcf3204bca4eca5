"""Which raters share a source, as users say it and as results repeat it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from grouped_crowds import crowd

import bayesfuse as bf
from bayesfuse.errors import ModelError, NoGroupsWarning
from bayesfuse.models import LatentGroup
from bayesfuse.raters.dependence import Groups


@pytest.mark.parametrize(
    "groups",
    [
        {"wire": ["a", "c"], "radio": ["b", "e"]},
        {"a": "wire", "c": "wire", "b": "radio", "e": "radio", "d": None},
        {"a": "wire", "c": "wire", "b": "radio", "e": "radio", "d": np.nan},
        pd.Series(["wire", "radio", "wire", None, "radio"], index=list("abcde")),
        [["a", "c"], ["b", "e"], ["d"]],
        [["a", "c"], np.array(["b", "e"])],
    ],
)
def test_ways_of_saying_groups(groups):
    responses = bf.Responses.from_matrix(np.eye(5, dtype=int), raters=list("abcde"))
    found = Groups.read(groups, responses)
    assert found.assignment.tolist() == [0, 1, 0, -1, 1]
    assert list(found.members.values()) == [["a", "c"], ["b", "e"]]


def test_found_groups_can_be_given_and_are_the_default():
    responses, _, assignment = crowd(
        np.random.default_rng(3), 4000, groups=(4,), n_alone=6, missing=0.0
    )
    found = LatentGroup(responses).groups
    assert found.origin == "moments" and (found.assignment == assignment).all()
    given = LatentGroup(responses, bf.moments.find_groups(responses)).groups
    assert given.origin == "given" and (given.assignment == assignment).all()


def test_where_moments_find_none_everyone_is_alone_and_it_is_said_why():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])
    with pytest.warns(NoGroupsWarning, match=r"moments failed.*Dawid and Skene's model"):
        model = LatentGroup(responses)
    assert model.groups.members == {}
    said = bf.find_map(model).attrs["groups"]
    assert "moments failed" in said and "Got" in said
    responses, _, _ = crowd(np.random.default_rng(3), 2000, groups=(), n_alone=6, missing=0.0)
    with pytest.warns(NoGroupsWarning, match="find no raters who share a source, so"):
        assert LatentGroup(responses).groups.members == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentGroup(responses, [])
        LatentGroup(responses, "posterior")


BAD = {
    "unknown rater": ([[0, "nobody"]], {}, "'nobody'"),
    "rater in two groups": ({"x": [0, 1], "y": [1, 2]}, {}, "1 in group 'x' and again in 'y'"),
    "rater twice in one": ([[0, 0]], {}, "again in 0"),
    "empty group": ({"x": [0, 1], "y": []}, {}, "an empty group 'y'"),
    "another word": ("families", {}, "'families'"),
    "both ways": ({0: "x", 1: [2, 3]}, {}, "[2, 3]"),
    "shape of the prior": ([[0, 1]], {"group_prior": np.ones((3, 3))}, "shape (1, 3, 3)"),
    "negative prior": ([[0, 1]], {"group_prior": -np.ones((2, 2))}, "-1.0"),
    "share of known groups": ([[0, 1]], {"share_prior": 0.2}, "need groups='posterior'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_groups_are_refused_with_the_offender(case):
    groups, settings, told = BAD[case]
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, groups, **settings)
    assert told in str(error.value) and "Got" in str(error.value)
