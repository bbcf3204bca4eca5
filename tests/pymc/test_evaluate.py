"""Values of variables at all draws: in parts as in one piece."""

from __future__ import annotations

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc import evaluate as evaluation


def test_parts_of_the_draws_are_put_together(monkeypatch):
    with pm.Model() as model:
        rows = pm.Dirichlet("rows", np.ones((3, 2)))
        double = pm.Deterministic("double", 2 * rows[:, 0])
        same = pm.Deterministic("same", pm.math.constant(np.array([1.0, 2.0])) + 1)
    values = np.random.default_rng(1).dirichlet([1, 1], (2, 5, 3))
    draws = xr.Dataset({"rows": (("chain", "draw", "rater", "class"), values)})
    wanted = {"rows": rows, "double": double, "same": same}
    for size in (1, 13, 10**6):  # of a part: one draw, two, all
        monkeypatch.setattr(evaluation, "IN_CACHE", size)
        with plain_python():
            found = evaluation.evaluate(model, draws, wanted)
        np.testing.assert_array_equal(found["rows"], values)
        np.testing.assert_array_equal(found["double"], 2 * values[..., 0])
        np.testing.assert_array_equal(found["same"], np.broadcast_to([2.0, 3.0], (2, 5, 2)))


def test_parts_are_at_least_a_draw_and_end_with_the_last(monkeypatch):
    monkeypatch.setattr(evaluation, "IN_CACHE", 10)
    parts = [range(20)[part] for part in evaluation.in_parts(20, 3)]
    assert [number for part in parts for number in part] == list(range(20))
    assert {len(part) for part in parts} == {3, 2}
    assert len(list(evaluation.in_parts(4, 100))) == 4
