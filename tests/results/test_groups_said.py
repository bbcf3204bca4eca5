"""Which raters share a source, as users say it and as results repeat it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from grouped_crowds import GROUPS, crowd

import bayesfuse as bf
from bayesfuse.errors import ModelError, NoGroupsWarning
from bayesfuse.models import LatentGroup
from bayesfuse.raters.given_groups import Groups


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
    found = bf.moments.find_groups(responses)
    for groups in ("moments", found):
        model = LatentGroup(responses, groups)
        assert (model.groups.assignment == assignment).all()
    assert model.groups.origin == "given"
    assert LatentGroup(responses).groups.origin == "moments"


def test_where_moments_cannot_tell_everyone_is_alone_and_the_result_says_why():
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])
    with pytest.warns(NoGroupsWarning, match=r"moments failed.*Dawid and Skene's model"):
        model = LatentGroup(responses)
    assert model.groups.members == {}
    point = bf.find_map(model)
    assert "moments failed" in point.attrs["groups"] and "Got" in point.attrs["groups"]


def test_no_groups_found_is_said():
    responses, _, _ = crowd(np.random.default_rng(3), 2000, groups=(), n_alone=6, missing=0.0)
    with pytest.warns(NoGroupsWarning, match="find no raters who share a source, so"):
        assert LatentGroup(responses).groups.members == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentGroup(responses, [])
        LatentGroup(responses, "posterior")


def test_result_says_the_groups_and_survives_netcdf(tmp_path):
    responses, _, assignment = crowd(np.random.default_rng(3), 60)
    result = bf.sample(
        LatentGroup(responses, GROUPS), 20, chains=1, random_seed=1, progressbar=False, quiet=True
    )
    assert (result["constant_data"]["assignment"] == assignment).all()
    assert result.attrs["groups"] == "given"
    assert result["posterior"]["group_confusion"]["group"].values.tolist() == ["wire", "radio"]
    result.to_netcdf(tmp_path / "result.nc")
    assert len(bf.summary(result, ["group_confusion", "verdict_sensitivity"])) == 8 + 9


BAD = {
    "unknown rater": ([[0, "nobody"]], "'nobody'"),
    "rater in two groups": ({"x": [0, 1], "y": [1, 2]}, "1 in group 'x' and again in 'y'"),
    "rater twice in one": ([[0, 0]], "again in 0"),
    "empty group": ({"x": [0, 1], "y": []}, "an empty group 'y'"),
    "more groups than raters": ([[0]] * 10, "10 groups of 9 raters"),
    "another word": ("families", "'families'"),
    "one list": ([0, 1], "[0, 1]"),
    "a number": (3, "3"),
    "both ways": ({0: "x", 1: [2, 3]}, "[2, 3]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_groups_are_refused_with_the_offender(case):
    groups, told = BAD[case]
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, groups)
    assert told in str(error.value) and "Got" in str(error.value)


@pytest.mark.parametrize(
    ("group_prior", "told"),
    [(np.ones((3, 3)), "shape (1, 3, 3)"), (-np.ones((2, 2)), "-1.0"), (np.ones(2), "shape (2,)")],
)
def test_bad_priors_of_groups_are_refused(group_prior, told):
    responses = bf.Responses.from_matrix(np.eye(9, dtype=int))
    with pytest.raises(ModelError) as error:
        LatentGroup(responses, [[0, 1]], group_prior=group_prior)
    assert told in str(error.value)


def test_settings_of_inferred_groups_are_refused_without_them():
    responses = bf.Responses.from_matrix(np.eye(4, dtype=int))
    for settings in ({"share_prior": 0.2}, {"max_groups": 1}):
        with pytest.raises(ModelError, match="need groups='posterior'"):
            LatentGroup(responses, [[0, 1]], **settings)
