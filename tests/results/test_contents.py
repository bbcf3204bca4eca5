"""What is no result, and what a result lacks, is told in one line."""

from __future__ import annotations

import pytest
import xarray as xr
from result_functions import everything, table

import bayesfuse as bf
from bayesfuse import checks, plots
from bayesfuse.errors import ModelError


class InferenceData:
    """As ArviZ before version 1 had it."""

    def __init__(self, posterior):
        self.posterior = posterior


def not_results(result):
    posterior = result["posterior"].dataset
    return {
        "Dataset": posterior,
        "NoneType": None,
        "dict": {"posterior": posterior},
        "InferenceData": InferenceData(posterior),
    }


def calls_of(kind):
    known = {"label_scores": checks.label_scores, "calibration": checks.calibration}
    return everything(kind) | {name: lambda r, m, f=f: f(r, {0: 1}) for name, f in known.items()}


@pytest.mark.parametrize("kind", ["independent", "groups", "graph"])
def test_what_is_no_result_is_one_clear_line(fits, kind):
    model, result = fits[kind]
    alone = {"plot_elbo": plots.plot_elbo, "plot_start": plots.plot_start}
    calls = calls_of(kind) | {name: lambda r, m, f=f: f(r) for name, f in alone.items()}
    for given, odd in not_results(result).items():
        for name, use in calls.items():
            with pytest.raises(ModelError, match=f"DataTree .* Got: {given}"):
                use(odd, model)
                pytest.fail(name)


def test_what_a_result_lacks_is_said(fits):
    model, result = fits["independent"]
    empty = xr.DataTree()
    calls = calls_of("independent")
    for use in calls.values():
        with pytest.raises(ModelError, match="Got: "):
            use(empty, model)
    point = bf.find_map(model)
    draws = ("summary", "report", "align_labels", "common_units", "rater_drift")
    for name in draws:
        with pytest.raises(ModelError, match=r"bf\.sample .* Got: "):
            calls[name](point, model)
    for name in set(calls) - set(draws):
        assert calls[name](point, model) is not None
    bare = result.copy()
    del bare["constant_data"]
    for name in ("switching", "plot_confusion", "report"):
        with pytest.raises(ModelError, match="group constant_data"):
            calls[name](bare, model)


def test_points_of_groups_know_who_shares_a_source(fits):
    model, _ = fits["groups"]
    point = bf.find_map(model)
    raters = [0, 1]
    assert checks.group_summary(point)["raters"].tolist()[0] in (raters, [2, 3])
    together = checks.rater_covariance(point, table())["together"]
    assert together.values.astype(int).tolist()[0] == [1, 1, 0, 0, 0]
