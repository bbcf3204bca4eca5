"""Results of which some draws were picked, put in another order or replaced."""

import numpy as np
import pytest
import xarray as xr
from result_functions import FIT, MODELS, N_ITEMS, OF_LABEL_DRAWS, OF_RESULT, everything, in_single

import bayesfuse as bf
from bayesfuse import decisions, plots
from bayesfuse.errors import ModelError


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
                with pytest.raises(ModelError, match=r"label_probabilities\(result, model\)"):
                    use(part)
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
            with pytest.raises(ModelError, match=r"draw_labels\(result, model\)"):
                use(part, model)
            continue
        assert use(part, model) is not None, name
    assert decisions.rank_items(bf.label_probabilities(part, model)).shape[0] == N_ITEMS


def test_drawn_labels_go_with_the_draws(fits):
    model, result = fits["graph"]
    kept = bf.draw_labels(result.isel(chain=[1]), model, FIT["draws"])
    assert (kept.values == result["label_draws"]["label"].values[1]).all()
    apart = result.copy()
    apart["posterior"] = xr.DataTree(result["posterior"].dataset.isel(chain=[1]))
    with pytest.raises(ModelError, match="2 chains × 12 draws for parameters of 1 chains"):
        bf.draw_labels(apart, model)
    with pytest.raises(ModelError, match="of the same draws"):
        bf.label_probabilities(apart, model)
    part = result.isel(draw=slice(0, None, 2))
    part["posterior"] = xr.DataTree(result["posterior"].dataset.isel(draw=slice(1, None, 2)))
    old = part.copy()  # made before draws were numbered
    old["label_draws"] = xr.DataTree(part["label_draws"].dataset.drop_vars("of_draws"))
    for other in (part, old):
        with pytest.raises(ModelError, match="but of other draws"):
            bf.draw_labels(other, model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_as_many_draws_of_something_else_are_other_draws(fits, kind, tmp_path):
    model, result = fits[kind]
    other = bf.sample(model, **FIT | {"random_seed": 9})
    labels, own = bf.label_probabilities(result), result["posterior"].dataset
    for posterior in (other["posterior"].dataset, own.isel(chain=[1, 1]).assign_coords(own.coords)):
        mixed = result.copy()
        mixed["posterior"] = xr.DataTree(posterior)
        mixed.to_netcdf(tmp_path / "mixed.nc")
        for each in (mixed, xr.load_datatree(tmp_path / "mixed.nc")):
            with pytest.raises(ModelError, match=r"label_probabilities\(result, model\)"):
                bf.label_probabilities(each)
            if kind == "graph":
                with pytest.raises(ModelError, match="but of other draws"):
                    bf.label_probabilities(each, model)
                continue
            bare = xr.DataTree(children={"posterior": xr.DataTree(posterior)})
            anew = bf.label_probabilities(bare, model)
            xr.testing.assert_allclose(bf.label_probabilities(each, model), anew)
            assert np.abs(anew - labels).max() > 1e-4
    result.to_netcdf(tmp_path / "same.nc")
    with xr.open_datatree(tmp_path / "same.nc") as back:
        xr.testing.assert_allclose(bf.label_probabilities(back), labels)
