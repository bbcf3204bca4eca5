"""How many draws fit into a time, with a clock and fits that take what they are told."""

from types import SimpleNamespace

import pytest
import xarray as xr

from bayesfuse.answer import budget
from bayesfuse.answer.budget import Budget, Size


@pytest.fixture
def clock(monkeypatch):
    """A clock that only fits move: seconds at each step, and before the first of a process."""
    now = SimpleNamespace(time=0.0, step=0.0, fixed=0.0, compiles=0.0, fits=0)

    def sample(model, draws, *, tune, chains, **_):
        now.fits += 1
        steps = chains * (draws + tune) * now.step + now.compiles
        now.compiles = 0.0
        now.time += steps + now.fixed
        posterior = xr.Dataset({"x": (("chain", "draw"), [[0.0] * draws])})
        posterior.attrs["sampling_time"] = steps
        return xr.DataTree.from_dict({"posterior": posterior})

    monkeypatch.setattr(budget, "sample", sample)
    monkeypatch.setattr(budget, "make_plan", lambda model: None)
    monkeypatch.setattr(budget, "sweep_cost", lambda plan: 0.01)
    monkeypatch.setattr(budget, "sweeps_of_draw", lambda plan: 1)
    monkeypatch.setattr(budget.time, "monotonic", lambda: now.time)
    return now


@pytest.fixture(scope="module")
def model():
    """A fit, as far as a budget asks."""
    return SimpleNamespace(model=None, enough=Size(250, 200))


def test_enough_time_gives_all_draws(clock, model):
    clock.step = 0.001
    assert Budget(1.0).size(model, 1, 3) == Size(250, 200)
    assert clock.fits == 1


def test_sizes_show_that_there_is_time(clock, model, monkeypatch):
    monkeypatch.setattr(budget, "sweep_cost", lambda plan: 1e-3)
    assert Budget(1.0).size(model, 1, 1) == Size(250, 200)
    assert clock.fits == 0


def test_less_time_gives_fewer_draws_that_fit(clock, model):
    clock.step, clock.fixed = 0.05, 2.0
    left = Budget(2.0)
    size = left.size(model, 1, 2)
    assert budget.LEAST <= size.draws < 250
    budget.sample(model, size.draws, tune=size.tune, chains=budget.CHAINS)
    assert 60.0 <= left.left() + 30.0 and left.left() > 0.5 * 60.0  # half is for the other fit


def test_compiling_does_not_count_twice(clock, model):
    clock.step, clock.compiles = 0.001, 30.0
    assert Budget(1.0).size(model, 1, 1) == Size(250, 200)
    assert clock.fits == 2


def test_too_little_time_gives_nothing(clock, model, monkeypatch):
    clock.step = 10.0
    assert Budget(1.0).size(model, 1, 1) is None
    spent = clock.fits
    assert Budget(1e-9).size(model, 1, 1) is None
    monkeypatch.setattr(budget, "sweep_cost", lambda plan: 10.0)
    assert Budget(1.0).size(model, 1, 1) is None
    assert clock.fits == spent  # not even a short run where sizes say that there is no time


def test_an_interrupted_pilot_interrupts(clock, model, monkeypatch):
    one_draw = {"posterior": xr.Dataset({"x": (("chain", "draw"), [[0.0]])})}
    monkeypatch.setattr(budget, "sample", lambda *_, **__: xr.DataTree.from_dict(one_draw))
    with pytest.raises(KeyboardInterrupt):
        Budget(1.0).size(model, 1, 1)
