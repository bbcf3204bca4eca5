"""Names of items, raters, classes, groups and models in results and their files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from result_functions import FIT, MODELS, N_ITEMS, N_RATERS, everything, table

import bayesfuse as bf
from bayesfuse import plots
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, LatentGroup

SLOW = pytest.mark.slow
DAYS = pd.date_range("2024-02-27", periods=N_ITEMS)
NAMES = {
    "times": {"items": DAYS, "raters": DAYS[:N_RATERS] + pd.Timedelta("1h"), "classes": DAYS[:2]},
    "truth values": {"classes": [False, True]},
    "integers": {"items": range(5, 5 + N_ITEMS), "raters": range(-3, 2), "classes": [3, 8]},
    "text": {
        "items": [f"item {n}" for n in range(N_ITEMS)],
        "raters": list("vwxyz"),
        "classes": ["no", "yes"],
    },
}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        # all models with times, the names that change most in a file, and all names with one model
        pytest.param(kind, names, marks=[] if "times" == names or "independent" == kind else SLOW)
        for kind in MODELS
        for names in NAMES
    ],
)
def test_names_survive_a_file(tmp_path, kind, names):
    model = MODELS[kind](table(**NAMES[names]))
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as opened:
        loaded = opened.load()
    for name, use in everything(kind).items():
        then, now = use(result, model), use(loaded, model)
        if isinstance(then, xr.DataArray | xr.Dataset):
            xr.testing.assert_equal(then, now)
        elif isinstance(then, pd.DataFrame):  # times as text say their unit
            then, now = (each.reset_index(drop=True) for each in (then, now))
            pd.testing.assert_frame_equal(then, now, check_dtype=False)
        elif isinstance(then, str | dict) and name not in ("common_units", "report"):
            assert str(then) == str(now), name
    bf.draw_labels(loaded, model, 3, random_seed=1).to_netcdf(tmp_path / "labels.nc")


def test_two_raters_who_are_times_can_be_pictured():
    responses = table(**NAMES["times"])
    point = bf.find_map(DawidSkene(responses))
    (ax,) = plots.plot_confusion(point, [responses.raters[1]])
    assert ax.get_title().startswith("rater 2024… 01:00:00")


@pytest.mark.parametrize(
    "groups",
    [
        {("a", 1): [2, 3]},
        {None: [2, 3]},
        {float("nan"): [2, 3]},
        {"a": [0, 1], 1: [2, 3]},
    ],
)
def test_names_of_groups_that_no_file_holds_are_refused_at_once(groups):
    with pytest.raises(ResponsesError, match="Names of groups must"):
        LatentGroup(table(), groups)


@pytest.mark.parametrize("name", [5, None, True, ("a",), "a/b", "a\nb", "a\0"])
def test_names_that_no_file_holds_are_refused_at_once(name):
    with pytest.raises(ModelError, match=r"name of a model must be text .* Got: "):
        DawidSkene(table(), name=name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", [pytest.param("a", marks=SLOW), "é ü::5"])
def test_models_with_a_name_are_read_as_those_without(tmp_path, fits, kind, name):
    model = MODELS[kind](table(), name=name)
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    own, other = fits[kind]
    for what, use in everything(kind).items():
        if what in ("summary", "average", "common_units"):
            continue  # say the names
        one, two = use(result, model), use(other, own)
        if isinstance(one, xr.DataArray | xr.Dataset) and what != "value_of_response":
            xr.testing.assert_allclose(one, two)
    assert f"{name}::confusion" in result["posterior"]
    assert bf.summary(result, ["confusion"]).shape == bf.summary(other, ["confusion"]).shape


def test_classes_of_a_model_with_a_name_are_aligned(fits):
    result = fits["independent"][1]
    swapped = result.copy()
    posterior = result["posterior"].dataset
    turned = posterior.assign(
        {
            name: posterior[name].copy(data=posterior[name].isel({"class": [1, 0]}).values)
            for name in ("prevalence", "confusion")
        }
    )
    swapped["posterior"] = xr.DataTree(
        turned.rename({name: f"a::{name}" for name in posterior.data_vars})
    )
    del swapped["label_posterior"]
    aligned = bf.align_labels(swapped, reference=result)
    found = aligned["posterior"].dataset
    assert list(found.data_vars) == [f"a::{name}" for name in posterior.data_vars]
    for name in ("prevalence", "confusion", "sensitivity"):
        apart = np.abs(found[f"a::{name}"].values - posterior[name].values)
        same = apart.max(axis=tuple(range(2, apart.ndim))) < 1e-12
        assert same.sum() == aligned.attrs["aligned"] > 20, name
