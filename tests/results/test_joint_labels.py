"""Joint draws of the labels that results keep: with the right distribution, after every change."""

import numpy as np
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.results import joint_labels
from tests.shared.result_functions import MODELS, QUIET, table


@pytest.fixture(scope="module")
def sampled():
    model = DawidSkene(table(), gold={0: 1})
    return bf.sample(model, 100, tune=50, chains=2, random_seed=1, **QUIET), model


def share_of(labels, n_classes=2):
    return (labels[..., None] == np.arange(n_classes)).mean(axis=0)


def test_draws_agree_with_the_probabilities(sampled):
    result, _ = sampled
    drawn = result["label_draws"]["label"]
    assert drawn.dims == ("sample", "item") and drawn.shape == (200, 24) and drawn.dtype == np.int8
    probability = bf.label_probabilities(result).values
    # 200 draws that are nearly independent: five standard errors
    error = 5 * np.sqrt(probability * (1 - probability) / 200) + 0.02
    assert (np.abs(share_of(drawn.values) - probability) < error).all()
    assert (drawn.sel(item=0) == 1).all()  # known


def test_without_a_model_the_kept_draws_are_returned(sampled, tmp_path):
    result, model = sampled
    kept = bf.draw_labels(result, draws=50)
    assert kept.dims == ("draw", "item") and kept.attrs == {"classes": [0, 1]}
    assert (kept.values == result["label_draws"]["label"].values[::4]).all()
    result.to_netcdf(tmp_path / "result.nc")
    with xr.open_datatree(tmp_path / "result.nc") as back:
        assert (bf.draw_labels(back, draws=50) == kept).all()
    with pytest.raises(ModelError, match=r"limited number .* Got: draws=201, and 200 draws"):
        bf.draw_labels(result, draws=201)
    assert bf.draw_labels(result, model, 201, random_seed=1).sizes["draw"] == 201
    with pytest.raises(ModelError, match=r"some of which have been dropped"):
        bf.draw_labels(result.isel(chain=[0]))
    with pytest.raises(ModelError, match=r"bf\.sample keep joint draws"):
        bf.draw_labels(bf.find_map(model))


def test_the_same_seed_gives_the_same_labels(sampled):
    result, model = sampled
    again = bf.sample(model, 100, tune=50, chains=2, random_seed=1, **QUIET)
    assert again["label_draws"].identical(result["label_draws"])


def test_labels_of_a_chain_are_drawn_jointly():
    model = MODELS["chain"](table())
    result = bf.sample(model, 60, tune=40, chains=2, random_seed=1, **QUIET)
    kept = bf.draw_labels(result, draws=120).values
    anew = bf.draw_labels(result, model, 400, random_seed=2).values
    changes = [(np.diff(labels, axis=1) != 0).sum(axis=1).mean() for labels in (kept, anew)]
    assert abs(changes[0] - changes[1]) < 1.0


def test_what_is_too_large_or_of_counts_is_left_out_with_a_reason(monkeypatch):
    monkeypatch.setattr(joint_labels, "MOST", 24 * 60)
    result = bf.sample(DawidSkene(table()), 50, tune=20, chains=2, random_seed=1, **QUIET)
    assert result["label_draws"].sizes == {"sample": 60, "item": 24}
    monkeypatch.setattr(joint_labels, "MOST", 24 * 40)
    result = bf.sample(DawidSkene(table()), 50, tune=20, chains=2, random_seed=1, **QUIET)
    with pytest.raises(ModelError, match=r"Got: not kept: 50 draws of 24 labels exceed 960"):
        bf.draw_labels(result)
    counts = bf.Responses.from_counts({"00": 40, "01": 7, "11": 13})
    result = bf.sample(DawidSkene(counts), 20, tune=20, chains=1, random_seed=1, **QUIET)
    with pytest.raises(ModelError, match=r"Got: not kept: rows of a table of counts"):
        bf.draw_labels(result)


def test_averages_mix_the_draws_of_their_members(sampled):
    result, _ = sampled
    shares = bf.vote_shares(table(), {0: 1})
    both = bf.average({"model": result, "votes": shares}, {"model": 3, "votes": 1})
    drawn = both["label_draws"]["label"].values
    assert drawn.shape == (400, 24)
    probability = bf.label_probabilities(both).values
    assert (np.abs(share_of(drawn) - probability) < 0.13).all()
    assert np.abs(share_of(drawn) - probability).mean() < 0.03
    without = result.copy()
    del without["label_draws"]
    both = bf.average({"model": without, "votes": shares}, {"model": 3, "votes": 1})
    assert both.attrs["label_draws"] == "not kept: there are none in 'model'"


def test_members_with_classes_in_another_order_are_translated():
    other = bf.vote_shares(table()).isel({"class": [1, 0], "item": slice(None, None, -1)})
    del other["constant_data"]
    both = bf.average({"votes": bf.vote_shares(table()), "other": other}, {"votes": 1, "other": 9})
    drawn = share_of(both["label_draws"]["label"].values)
    assert np.abs(drawn - bf.label_probabilities(both).values).max() < 0.13
