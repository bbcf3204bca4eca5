"""Names of items, raters, classes, groups and models in results, their files and ArviZ's tables."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from result_functions import FIT, MODELS, N_ITEMS, N_RATERS, everything, table
from slowly import with_slow

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


@pytest.mark.slow
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
        if name.startswith("plot") or (name == "summary" and kind != "independent"):
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "graph"])
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


SUMMARY = {"round_to": "none", "kind": "stats"}
PARTLY = {"groups": [[0, 1], [2, 3]], "inferred": "posterior"}
CASES = [*with_slow(MODELS), *with_slow(PARTLY, "inferred")]


@pytest.fixture(scope="module", params=CASES, ids=[*MODELS, "disordered", "inferred"])
def fitted(request, fits):
    """Results of two classes, and two of three with groups of raters."""
    if request.param_index < len(MODELS):
        return False, fits[request.param][1]
    responses = bf.datasets.simulate_dawid_skene(24, 5, 3, random_seed=2).responses
    # Groups: no order of the variables is right, since there are (rater, class, answer), (group,
    # class, verdict) and (rater, verdict, answer), and no variable of the raters alone.
    model = LatentGroup(responses, PARTLY[request.param])
    return request.param == "groups", bf.sample(model, **FIT)


def misnamed(table, posterior):
    """Rows of a summary whose mean is not that of the entry they are named after."""
    wrong = []
    for row, mean in table["mean"].astype(float).items():
        name, _, entry = row.partition("[")
        names = entry.rstrip("]").split(", ") if entry else []
        values = posterior[name]
        at = {
            dim: [str(own) for own in values[dim].values].index(wanted)
            for dim, wanted in zip(values.dims[2:], names, strict=True)
        }
        if not np.isclose(mean, float(values.isel(at).mean()), atol=1e-9):
            wrong.append(row)
    return wrong


def test_rows_of_summaries_are_what_they_are_named(fitted, tmp_path):
    """And ArviZ's diagnostics take the result, from a file too."""
    disordered, result = fitted
    posterior = result["posterior"].dataset
    result.to_netcdf(tmp_path / "result.nc")
    loaded = xr.load_datatree(tmp_path / "result.nc")
    own, plain = (summary(loaded, **SUMMARY) for summary in (bf.summary, az.summary))
    assert len(own) == sum(values[0, 0].size for values in posterior.data_vars.values())
    assert misnamed(own, posterior) == []
    assert bool(misnamed(plain, posterior)) == disordered
    with np.errstate(invalid="ignore", divide="ignore"):  # groups that never change have no R-hat
        found = az.rhat(result)
    for name, values in posterior.data_vars.items():
        assert found[name].shape == values.shape[2:]
