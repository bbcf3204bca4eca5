"""Names of items, raters, classes, groups and models in results and their files."""

from __future__ import annotations

import pandas as pd
import pytest
import xarray as xr
from result_functions import FIT, MODELS, N_ITEMS, N_RATERS, everything, table

import bayesfuse as bf
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.models import DawidSkene, LatentGroup

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
    # all models with times, the names that change most in a file, and all names with one model
    [(kind, "times") for kind in MODELS] + [("independent", names) for names in NAMES][1:],
)
def test_names_survive_a_file(tmp_path, kind, names):
    model = MODELS[kind](table(**NAMES[names]))
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    for name, use in everything(kind).items():
        if name.startswith("plot"):
            continue
        then, now = use(result, model), use(loaded, model)
        if isinstance(then, xr.DataArray | xr.Dataset):
            xr.testing.assert_equal(then, now)
        elif isinstance(then, pd.DataFrame):  # times as text say their unit
            then, now = (each.reset_index(drop=True) for each in (then, now))
            pd.testing.assert_frame_equal(then, now, check_dtype=False)
        elif isinstance(then, str | dict) and name not in ("common_units", "report"):
            assert str(then) == str(now), name
    bf.draw_labels(loaded, model, 3, random_seed=1).to_netcdf(tmp_path / "labels.nc")


@pytest.mark.parametrize("groups", [{("a", 1): [2, 3]}, {None: [2, 3]}, {"a": [0, 1], 1: [2, 3]}])
def test_names_of_groups_that_no_file_holds_are_refused_at_once(groups):
    with pytest.raises(ResponsesError, match="Names of groups must"):
        LatentGroup(table(), groups)


@pytest.mark.parametrize("name", [5, None, ("a",), "a/b", "a\nb", "a\0"])
def test_names_that_no_file_holds_are_refused_at_once(name):
    with pytest.raises(ModelError, match=r"name of a model must be text .* Got: "):
        DawidSkene(table(), name=name)


@pytest.mark.parametrize("kind", MODELS)
def test_models_with_a_name_are_read_as_those_without(tmp_path, fits, kind):
    model = MODELS[kind](table(), name="é ü::5")
    result = bf.sample(model, **FIT)
    result.to_netcdf(tmp_path / "result.nc")
    own, other = fits[kind]
    for what, use in everything(kind).items():
        if what in ("summary", "average", "common_units") or what.startswith("plot"):
            continue  # say the names
        one, two = use(result, model), use(other, own)
        if isinstance(one, xr.DataArray | xr.Dataset) and what != "value_of_response":
            xr.testing.assert_allclose(one, two)
    assert "é ü::5::confusion" in result["posterior"]
    assert bf.summary(result, ["confusion"]).shape == bf.summary(other, ["confusion"]).shape
