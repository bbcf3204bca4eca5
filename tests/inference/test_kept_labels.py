"""Labels on a graph go from one draw to the next: also when chains are interrupted."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from squares import RATERS, square_of_pixels

import bayesfuse as bf
from bayesfuse.errors import IncompleteWarning
from bayesfuse.inference import sample as sampling
from bayesfuse.pymc.model import observed
from bayesfuse.results.draws import Draws

QUIET = {"progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def square():
    return square_of_pixels()


def test_what_is_left_of_interrupted_chains_stays_together(square, monkeypatch):
    """Ctrl-C in a kernel, in the second chain: Python hands it on as the cause of SystemErrors."""
    settings = {"tune": 10, "chains": 4, "cores": 1, "sweeps": 1, "random_seed": 5} | QUIET
    whole = bf.sample(square[0], 20, **settings)
    sweep, done = bf.LabelGibbs.sweep, []

    def interrupted(self, rows, concentration):
        done.append(1)
        if len(done) == 30 + 10 + 4:
            inner = SystemError("unpickling returned a result with an exception set")
            inner.__cause__ = KeyboardInterrupt()
            raise SystemError("kernel returned a result with an exception set") from inner
        return sweep(self, rows, concentration)

    monkeypatch.setattr(bf.LabelGibbs, "sweep", interrupted)
    cut = bf.sample(square[0], 20, **settings)
    assert cut["posterior"].sizes["chain"] == 3
    for group in ("posterior", "log_likelihood", "label_draws"):
        for name, values in cut[group].dataset.data_vars.items():
            expected = whole[group].dataset[name].isel(chain=[0, 2, 3])
            assert (values.values == expected.values).all(), name


@pytest.mark.parametrize("step", ["check_convergence", "order_variables"])
def test_labels_that_were_drawn_outlast_an_interruption_of_what_follows(square, monkeypatch, step):
    def interrupt(*_):
        raise KeyboardInterrupt

    settings = {"tune": 10, "chains": 2, "cores": 1, "random_seed": 5, "progressbar": False}
    whole = bf.sample(square[0], 20, quiet=True, **settings)
    monkeypatch.setattr(sampling, step, interrupt)
    cut = bf.sample(square[0], 20, **settings)
    assert "missing" not in cut.attrs
    for group in ("label_draws", "label_posterior", "log_likelihood"):
        xr.testing.assert_identical(cut[group].dataset, whole[group].dataset)


def test_labels_that_an_interruption_has_lost_are_named(square, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling, "store", interrupt)
    with pytest.warns(IncompleteWarning, match="before label_draws, label_posterior, log_lik"):
        bf.sample(square[0], 20, tune=10, chains=1, random_seed=5, **QUIET)


def test_labels_are_kept_of_whichever_chain_comes_first(square):
    """As chains do that run in processes of their own."""
    _, observation = observed(square[0])
    values = {"coupling": np.array(0.5), "confusion": RATERS}
    seen = Draws(observation, 2, 1)
    seen.add(1, values, np.full(9, 1))
    seen.add(0, values, np.full(9, 0))
    assert (seen.labels[:, 0] == [[0], [1]]).all()
