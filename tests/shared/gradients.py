"""Gradients of models against central differences."""

import numpy as np


def assert_gradient(model, *, mode="FAST_COMPILE", spread=0.5, every=1, seed=3, atol=1e-6):
    """Compare the gradient of a model's density, compiled in ``mode``, at a random point.

    ``atol`` is that of central differences: rounding of the density over the step of 1e-5.
    """
    rng = np.random.default_rng(seed)
    point = {k: v + spread * rng.normal(size=v.shape) for k, v in model.initial_point().items()}
    logp = model.compile_fn(model.logp(), point_fn=True, mode="FAST_COMPILE")
    gradient = np.asarray(model.compile_fn(model.dlogp(), point_fn=True, mode=mode)(point))
    places = [
        (v.name, place) for v in model.value_vars for place in np.ndindex(point[v.name].shape)
    ]
    assert len(gradient) == len(places)
    for at in range(0, len(places), every):
        name, place = places[at]
        ends = []
        for step in (1e-5, -1e-5):
            moved = point | {name: point[name].copy()}
            moved[name][place] += step
            ends.append(float(logp(moved)))
        numeric = (ends[0] - ends[1]) / 2e-5
        assert abs(gradient[at] - numeric) < atol, f"{name}{place}: {gradient[at]}, {numeric}"
