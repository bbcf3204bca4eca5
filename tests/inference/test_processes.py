"""The same seed gives the same draws, in one process or in several."""

import numpy as np
import pytest
import xarray as xr
from conjugate_models import MODELS
from squares import square_of_pixels

import bayesfuse as bf
from bayesfuse.models import LatentGroup, MarkovRandomField
from bayesfuse.numerics import rows
from bayesfuse.numerics.kernels import kernel

QUIET = {"progressbar": False, "quiet": True}

ALL = MODELS | {
    "posterior": lambda r: LatentGroup(r, "posterior"),
    "mixture": lambda r: MODELS["confusion"](r, confusion_prior=bf.priors.robust(3)),
    "path": lambda r: MarkovRandomField(r, bf.Graph.grid((r.n_items,), items=r.items)),
    "circles": lambda r: MarkovRandomField(r, bf.Graph.grid((2, r.n_items // 2), items=r.items)),
}


@pytest.mark.parametrize("name", ALL)
def test_a_point_that_is_copied_between_steps_changes_nothing(small, name):
    """PyMC keeps it in shared memory where chains have processes of their own."""
    model = ALL[name](small)
    found = []
    for copied in (False, True):
        step, point = bf.LabelGibbs(model=model, rng=1), model.initial_point()
        step.setup_chain(np.random.default_rng(3), 10, 30)
        for _ in range(40):
            point, _ = step.step(point)
            if copied:
                point = {key: np.array(value) for key, value in point.items()}
        found.append(point)
    for key, value in found[0].items():
        assert (value == found[1][key]).all(), key


@pytest.mark.parametrize("name", ["rows", "groups", "square"])
def test_two_cores_draw_what_one_draws(small, small_model, name):
    """Labels on a graph go from one draw to the next."""
    model = {
        "rows": lambda: small_model,
        "groups": lambda: LatentGroup(small, groups=[[0, 1, 2], [3, 4]]),
        "square": lambda: square_of_pixels()[0],
    }[name]()
    settings = {"tune": 10, "chains": 3, "random_seed": 7} | QUIET
    one, other = (bf.sample(model, 30, cores=cores, **settings) for cores in (1, 2))
    for group in ("posterior", "label_posterior", "label_draws"):
        if group in one.children:
            xr.testing.assert_equal(one[group].dataset, other[group].dataset)


@kernel
def split(number, weight, total, rng):
    parts = np.full(weight.size, np.nan)
    rows.split(number, weight, total, rng, parts)
    return parts


@pytest.mark.parametrize("number", [1.0, 7.0])
def test_rounding_does_not_decide_how_many_random_numbers_a_split_takes(number):
    weight = np.array([0.3, 0.0, 0.7, 0.0])
    after = set()
    for total in (np.nextafter(1.0, 0.0), 1.0, np.nextafter(1.0, 2.0), 0.7):
        rng = np.random.default_rng(4)
        parts = split(number, weight, total, rng)
        assert parts.sum() == number and not parts[[1, 3]].any()
        if total != 0.7:
            after.add(rng.random())
    assert len(after) == 1


def test_splits_are_multinomial():
    rng, weight = np.random.default_rng(5), np.array([0.4, 0.0, 1.0, 0.6])
    parts = np.array([split(6.0, weight, 2.0, rng) for _ in range(5000)])
    share = weight / 2
    error = np.sqrt(share * (1 - share) / (6 * len(parts)))
    assert (np.abs(parts.mean(axis=0) / 6 - share) <= 4.5 * error).all()
    spread = 6 * share * (1 - share)
    # the variance of a variance, generously
    assert np.abs(parts.var(axis=0) - spread).max() < 4.5 * spread.max() * np.sqrt(3 / len(parts))
