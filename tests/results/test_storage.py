"""Results in single precision, and those that would be large."""

import warnings

import numpy as np
import pytest
import xarray as xr
from result_functions import FIT, MODELS, OF_RESULT, everything, in_single, places_of, table

import bayesfuse as bf
from bayesfuse.errors import LargeResultWarning, ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.pymc.model import observed
from bayesfuse.results import storage

ASKED = {"precision": None, "thin": None, "log_likelihood": None}


def bytes_of(result):
    groups = (result[name] for name in ("posterior", "log_likelihood"))
    return sum(values.nbytes for group in groups for values in group.data_vars.values())


def chosen(model, most, **asked):
    sizes = FIT["chains"], FIT["draws"]
    return storage.choose(model, [observed(model)[1]], sizes, **ASKED | asked, most=most)


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_are_known_before_sampling(fits, kind):
    model, result = fits[kind]
    assert chosen(model, 10**9).size == bytes_of(result)
    assert chosen(model, 10**9, precision="single").size == bytes_of(in_single(result))
    assert not chosen(model, 10**9, log_likelihood=False).log_likelihood


def test_precision_goes_first_and_then_draws(fits):
    model, result = fits["independent"]
    whole = bytes_of(result)
    for most, precision, thin in (
        (whole, "double", 1),
        (whole - 1, "single", 1),
        (whole // 2, "single", 1),
        (whole // 2 - 1, "single", 2),
        (whole // 6, "single", 3),
        (1, "single", FIT["draws"]),
    ):
        found = chosen(model, most)
        assert (found.precision, found.thin) == (precision, thin), most
        assert found.size <= most or most == 1
    assert chosen(model, 1, thin=2)[:2] == ("single", 2)
    assert chosen(model, whole // 2, precision="double")[:2] == ("double", 2)
    observation = observed(model)[1]
    typo = storage.choose(model, [observation], (4, 10**15), **ASKED, most=whole)
    assert typo.thin == storage.MOST_THIN


def test_less_is_stored_of_large_results_and_said(fits, monkeypatch):
    model, whole = fits["independent"]
    monkeypatch.setattr(storage, "LARGE", bytes_of(whole) // 4)
    with pytest.warns(LargeResultWarning, match=r"Got: 0 MB, so precision='single' and thin=2"):
        small = bf.sample(model, **FIT)
    assert (small.attrs["precision"], small.attrs["thin"]) == ("single", 2)
    assert dict(small["posterior"].sizes)["draw"] == FIT["draws"] // 2
    assert bytes_of(small) <= storage.LARGE
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
            with pytest.raises(ModelError, match="precision must be"):
                use(model, precision=value)
    for value in (0, 1.5):
        with pytest.raises(ModelError, match="thin must be a whole number"):
            bf.sample(model, thin=value)


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
    small = storage._rounded(edges)
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
