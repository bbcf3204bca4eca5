"""Results of which draws were picked, in single precision, without the model, or large."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from refusals import refused
from result_functions import (
    FIT,
    MODELS,
    N_ITEMS,
    OF_LABEL_DRAWS,
    OF_RESULT,
    everything,
    in_single,
    places_of,
    table,
)

import bayesfuse as bf
from bayesfuse import decisions, plots
from bayesfuse.errors import LargeResultWarning
from bayesfuse.models import DawidSkene, HiddenMarkov, ItemTypes, LatentGroup
from bayesfuse.observation.model import observed
from bayesfuse.results import build


def bytes_of(result):
    groups = (result[name] for name in ("posterior", "log_likelihood"))
    return sum(values.nbytes for group in groups for values in group.data_vars.values())


def stored(model, monkeypatch, most, **asked):
    """Return precision and thinning of draws that may take so many bytes."""
    monkeypatch.setattr("bayesfuse.results.storage.MAX_BYTES", most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeResultWarning)
        result = bf.sample(model, **FIT, **asked)
    return result.attrs["precision"], result.attrs["thin"]


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_are_known_before_sampling(fits, kind, monkeypatch):
    model, result = fits[kind]
    assert stored(model, monkeypatch, bytes_of(result)) == ("double", 1)
    assert stored(model, monkeypatch, bytes_of(result) - 1) == ("single", 1)


def test_precision_goes_first_and_then_draws(fits, monkeypatch):
    model, result = fits["independent"]
    whole = bytes_of(result)
    for most, precision, thin in (
        (whole // 2, "single", 1),
        (whole // 2 - 1, "single", 2),
        (whole // 6, "single", 3),
        (1, "single", FIT["draws"]),
    ):
        assert stored(model, monkeypatch, most) == (precision, thin), most
    assert stored(model, monkeypatch, 1, thin=2) == ("single", 2)
    assert stored(model, monkeypatch, whole // 2, precision="double") == ("double", 2)


def test_large_results_are_thinned_with_a_warning(fits, monkeypatch):
    model, whole = fits["independent"]
    monkeypatch.setattr("bayesfuse.results.storage.MAX_BYTES", bytes_of(whole) // 4)
    with pytest.warns(LargeResultWarning, match=r"Got: 0 MB, so precision='single' and thin=2"):
        small = bf.sample(model, **FIT)
    assert (small.attrs["precision"], small.attrs["thin"]) == ("single", 2)
    assert dict(small["posterior"].sizes)["draw"] == FIT["draws"] // 2
    assert bytes_of(small) <= bytes_of(whole) // 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked = bf.sample(model, **FIT, thin=1, precision="double")
    assert bytes_of(asked) == bytes_of(whole)
    assert (asked.attrs["precision"], asked.attrs["thin"]) == ("double", 1)
    with pytest.warns(LargeResultWarning, match="'single' and thin=1"):
        fit = bf.fit(model, draws=20, random_seed=1)
    assert fit["posterior"]["confusion"].dtype == fit["log_likelihood"]["responses"].dtype == "f4"
    assert dict(fit["posterior"].sizes)["draw"] == 20


def test_settings_that_cannot_be(fits):
    model, _ = fits["independent"]
    for value in ("half", 32, np.float32):
        for use in (bf.sample, bf.fit):
            refused("precision must be", use, model, precision=value)
    for value in (0, 1.5):
        refused("thin must be a whole number", bf.sample, model, thin=value)


@pytest.mark.parametrize("kind", ["independent", "graph"])
def test_sampled_in_single_precision_is_the_same_rounded(fits, kind):
    """Label probabilities are those of the draws before rounding."""
    model, result = fits[kind]
    single = bf.sample(model, **FIT, precision="single")
    assert single.attrs["precision"] == "single"
    xr.testing.assert_equal(single["label_posterior"], result["label_posterior"])
    xr.testing.assert_equal(single["posterior"], in_single(result)["posterior"])
    assert {values.dtype.str for values in single["posterior"].values()} == {"<f4"}


@pytest.mark.parametrize("kind", MODELS)
def test_results_in_single_precision_are_read_from_files(fits, kind, tmp_path):
    model, result = fits[kind]
    in_single(result).to_netcdf(tmp_path / "single.nc")
    single = xr.load_datatree(tmp_path / "single.nc")
    for name in ("posterior", "log_likelihood"):
        floats = [each for each in single[name].values() if each.dtype.kind == "f"]
        assert {each.dtype.str for each in floats} == {"<f4"}
    xr.testing.assert_allclose(bf.label_probabilities(single), bf.label_probabilities(result))
    part = {"draw": slice(None, None, 2)}
    one, other = (bf.label_probabilities(each.isel(part), model) for each in (single, result))
    xr.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    responses = observed(model)[1].responses
    if kind != "types":  # predicted with random numbers
        one, other = (bf.predict(r, responses, **places_of(model)) for r in (single, result))
        xr.testing.assert_allclose(
            bf.label_probabilities(one), bf.label_probabilities(other), rtol=0, atol=1e-5
        )
    for name in set(OF_RESULT) - {"plot_labels"}:  # all else: test_picked_draws
        assert everything(kind)[name](single, model) is not None, name


def test_labels_need_no_draws(fits):
    _, result = fits["independent"]
    labels = result.drop_nodes(["posterior", "log_likelihood"])
    rates = result.copy()
    rates["posterior"] = xr.DataTree(result["posterior"].dataset.drop_vars("confusion"))
    for small in (labels, rates):
        xr.testing.assert_identical(bf.label_probabilities(small), bf.label_probabilities(result))
    one, other = (bf.summary(each, "sensitivity") for each in (rates, result))
    assert one.equals(other)


def test_probabilities_do_not_become_zero_or_one():
    """An accuracy of one would rule out a table with a mistake, as would a row with a zero."""
    edges = np.array([0.0, 1e-60, 1e-30, 1 - 1e-9, 1.0, 1 + 1e-9, -np.inf, np.nan])
    small = build._in_precision(xr.Dataset({"edges": ("edge", edges)}), "single")["edges"].values
    assert small.dtype == np.float32
    assert [small[0], small[4], small[5], small[6]] == [0, 1, 1, -np.inf]
    assert np.all((small[1:4] > 0) & (small[1:4] < 1)) and np.isnan(small[7])
    model = DawidSkene(table(), raters="coin")
    result = bf.sample(model, **FIT)
    result["posterior"]["accuracy"][..., 0] = 1 - 1e-12
    single = in_single(result)
    one, other = (bf.label_probabilities(r, model) for r in (single, result.copy()))
    assert np.isfinite(one).all() and float(single["posterior"]["accuracy"].max()) < 1
    xr.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", MODELS)
def test_label_probabilities_are_those_of_the_draws_that_are_there(fits, kind):
    model, result = fits[kind]
    labels = bf.label_probabilities(result)
    picked = {
        "a chain": result.isel(chain=[1]),
        "a chain alone": result.isel(chain=1),
        "every third draw": result.isel(draw=slice(None, None, 3)),
        "the first draws": result.sel(draw=slice(0, 4)),
        "one draw many times": result.isel(draw=[3] * FIT["draws"]),
    }
    for name, part in picked.items():
        for use in (*OF_RESULT.values(), plots.plot_labels):
            if use is not OF_RESULT["label_scores"] and use is not OF_RESULT["calibration"]:
                refused(r"label_probabilities\(result, model\)", use, part)
        anew = bf.label_probabilities(part, model)
        assert anew.dims == ("item", "class")
        assert np.abs(anew - labels).max() > 1e-4, name
    chains = [bf.label_probabilities(result.isel(chain=[c]), model) for c in (0, 1)]
    xr.testing.assert_allclose((chains[0] + chains[1]) / 2, labels)
    xr.testing.assert_identical(chains[1], bf.label_probabilities(picked["a chain alone"], model))
    xr.testing.assert_identical(bf.label_probabilities(result, model), labels)
    shuffled = result.isel(draw=slice(None, None, -1), chain=[1, 0])
    xr.testing.assert_identical(bf.label_probabilities(shuffled), labels)


@pytest.mark.parametrize("kind", MODELS)
def test_all_else_works_on_picked_draws(fits, kind):
    """In single precision, too."""
    model, result = fits[kind]
    part = in_single(result).isel(chain=[1], draw=slice(None, None, 2))
    for name, use in everything(kind).items():
        if name in {*OF_RESULT, "common_units", "summary"} or name.startswith("plot"):
            continue
        if name in OF_LABEL_DRAWS:
            refused(r"draw_labels\(result, model\)", use, part, model)
            continue
        assert use(part, model) is not None, name
    assert decisions.rank_items(bf.label_probabilities(part, model)).shape[0] == N_ITEMS


def test_drawn_labels_go_with_the_draws(fits):
    model, result = fits["graph"]
    kept = bf.draw_labels(result.isel(chain=[1]), model, FIT["draws"])
    assert (kept.values == result["label_draws"]["label"].values[1]).all()
    apart = result.copy()
    apart["posterior"] = xr.DataTree(result["posterior"].dataset.isel(chain=[1]))
    refused(r"\[2, 12\] chains and draws for parameters of \[1", bf.draw_labels, apart, model)
    refused("of the same draws", bf.label_probabilities, apart, model)
    part = result.isel(draw=slice(0, None, 2))
    part["posterior"] = xr.DataTree(result["posterior"].dataset.isel(draw=slice(1, None, 2)))
    refused("or of other draws", bf.draw_labels, part, model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_as_many_draws_of_something_else_are_other_draws(fits, kind, tmp_path):
    model, result = fits[kind]
    other = bf.sample(model, **FIT | {"random_seed": 9})
    labels, own = bf.label_probabilities(result), result["posterior"].dataset
    for drawn in (other["posterior"].dataset, own.isel(chain=[1, 1]).assign_coords(own.coords)):
        mixed = result.copy()
        mixed["posterior"] = xr.DataTree(drawn)
        mixed.to_netcdf(tmp_path / "mixed.nc")
        for each in (mixed, xr.load_datatree(tmp_path / "mixed.nc")):
            refused(r"label_probabilities\(result, model\)", bf.label_probabilities, each)
            if kind == "graph":
                refused("or of other draws", bf.label_probabilities, each, model)
                continue
            bare = xr.DataTree(children={"posterior": xr.DataTree(drawn)})
            anew = bf.label_probabilities(bare, model)
            xr.testing.assert_allclose(bf.label_probabilities(each, model), anew)
            assert np.abs(anew - labels).max() > 1e-4
    result.to_netcdf(tmp_path / "same.nc")
    with xr.open_datatree(tmp_path / "same.nc") as back:
        xr.testing.assert_allclose(bf.label_probabilities(back), labels)


MADE = bf.datasets.simulate_dawid_skene(30, 5, 3, random_seed=1)
ORDER = np.random.default_rng(0).permutation(30)
PLACES = {"item": ORDER, "sequence": np.repeat(list("abc"), 10), "position": np.arange(30)}
OTHERS = {
    "confusion": lambda: DawidSkene(MADE.responses, gold={0: 1, 3: 2}),
    "coin": lambda: DawidSkene(MADE.responses, raters="coin", pooled=True),
    "graded": lambda: DawidSkene(MADE.responses, raters="graded"),
    "types": lambda: ItemTypes(MADE.responses),
    "groups": lambda: LatentGroup(MADE.responses, [[0, 1]]),
    "inferred groups": lambda: LatentGroup(MADE.responses, "posterior"),
    "sequences": lambda: HiddenMarkov(
        MADE.responses, bf.Sequences.from_table(PLACES), raters="confusion"
    ),
    "populations": lambda: DawidSkene(MADE.responses, populations=["p"] * 12 + ["q"] * 18),
    "counts": lambda: DawidSkene(bf.datasets.caries()),
}
QUIET = {"draws": 10, "tune": 10, "chains": 1, "random_seed": 1, "progressbar": False}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_result_alone_is_enough(kind):
    model = OTHERS[kind]()
    result = bf.sample(model, quiet=True, **QUIET)
    assert bf.decode(result).equals(bf.decode(result, model))
    checks = [bf.checks.collapse, partial(bf.decisions.value_of_response, repeats=True)]
    if kind == "groups":
        found = bf.checks.verdict_probabilities(result)
        assert found.equals(bf.checks.verdict_probabilities(result, model))
    for check in checks:
        pd.testing.assert_frame_equal(
            check(result).to_dataframe(), check(result, model).to_dataframe()
        )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DawidSkene(MADE.responses, covariates=np.eye(30, 2)), "the covariates"),
        (lambda: bf.models.MarkovRandomField(MADE.responses, bf.Graph.grid((5, 6))), "the graph"),
        (lambda: DawidSkene(MADE.responses.completed()), "silence or stated"),
    ],
)
def test_what_a_result_does_not_store_is_asked_for(build, message):
    point = bf.find_map(build(), tolerance=0.01)
    refused(f"give model=.*{message}", bf.decode, point)
