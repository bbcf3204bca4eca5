"""Unconstrained coordinates of rows: PyMC's and our own, as numbers and as graphs."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import LogOddsTransform, SimplexTransform

import bayesfuse as bf
from bayesfuse.models import DawidSkene
from bayesfuse.parameters.coordinates import LogRatio
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.parameters.simplex import (
    PROBABILITY,
    SIMPLEX,
    CentredLogs,
    LogRatios,
    OddsCoordinates,
)
from bayesfuse.testing import assert_close


@pytest.mark.parametrize("support", [SIMPLEX, PROBABILITY])
def test_unconstrained_coordinates_are_pymcs(support):
    rng = np.random.default_rng(0)
    value = rng.dirichlet(np.ones(4), size=3) if support is SIMPLEX else rng.random((3, 4))
    transform = SimplexTransform() if support is SIMPLEX else LogOddsTransform()
    own = CentredLogs() if support is SIMPLEX else OddsCoordinates(True)
    coordinates = transform.forward(value).eval()
    rows = support.to_kernel(value)
    assert_close(own.write(rows), coordinates, "coordinates")
    assert_close(own.read(coordinates), rows, "rows", atol=1e-10)
    assert_close(support.from_kernel(rows), value, "value")
    assert_close(own.natural(rows), value, "natural value")


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 2, 5)])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_log_ratios_as_numbers_and_as_graphs(shape, zeros):
    rng = np.random.default_rng(1)
    weight = rng.random(shape) * (rng.random(shape) >= zeros)
    weight[..., 0] += 0.1  # something is left of every row
    rows = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) * (weight > 0)
    rows /= rows.sum(axis=-1, keepdims=True)
    transform = LogRatio(weight)
    with np.errstate(divide="ignore"):
        logs = np.log(rows)
    value = transform.from_log(logs)
    place = weight.argmax(axis=-1)[..., None]
    ratios = logs - np.take_along_axis(logs, place, axis=-1)
    others = (weight > 0) & (np.arange(shape[-1]) != place)
    assert_close(value.ravel(), ratios[others], "ratios")
    assert_close(transform.forward(rows).eval(), value, "coordinates")
    assert_close(transform.backward(value).eval(), rows, "rows")
    assert_close(transform.to_log(value), logs, "log rows", atol=1e-10)
    both = transform.to_log(np.stack([value, 2 * value]))  # many at once: to the last bit
    assert (both == [transform.to_log(value), transform.to_log(2 * value)]).all()


@pytest.mark.parametrize("weight", [[[1, 1, 2], [3, 2, 1]], [[1, 0, 2], [3, 2, 1], [0, 1, 0]]])
def test_the_determinant_of_log_ratios_is_that_of_the_map(weight):
    transform = LogRatio(weight)
    value = np.random.default_rng(2).normal(size=transform.value_shape)
    x = pt.as_tensor(np.zeros_like(value)).type()
    # of a row's entries all but one are free: those but the reference
    free = transform.backward(x).ravel()[transform.free]
    jacobian = pytensor.gradient.jacobian(free, x)
    found, matrix = pytensor.function([x], [transform.log_jac_det(x), jacobian])(value)
    square = matrix.reshape(value.size, value.size)
    assert found.sum() == pytest.approx(np.linalg.slogdet(square)[1], rel=1e-10)


def test_confusion_rows_are_ratios_to_the_diagonal():
    model = DawidSkene(bf.datasets.anesthesia())
    transform = model.rvs_to_transforms[model["confusion"]]
    rows = np.log(np.tile(np.full((4, 4), 0.1) + 0.6 * np.eye(4), (5, 1, 1)))
    assert_close(transform.from_log(rows), np.full((5, 4, 3), np.log(0.1 / 0.7)), "ratios")


@pytest.mark.parametrize(
    ("coordinates", "concentration"),
    [
        (LogRatios(LogRatio([[5, 1, 2], [1, 0.5, 3]])), [[5, 1, 2], [1, 0.5, 3]]),
        (LogRatios(LogRatio([[5, 0, 2], [1, 1, 3]])), [[5, 0, 2], [1, 1, 3]]),
        (CentredLogs(), [[5, 1, 2], [1, 0.5, 3]]),
        (OddsCoordinates(True), [[5, 2], [1, 0.5]]),
    ],
)
def test_scale_is_the_curvature_of_the_density_at_its_mode(coordinates, concentration):
    """Second differences, one coordinate at a time, of the log density with its Jacobian."""
    alpha = np.array(concentration, dtype=float)
    allowed = alpha > 0
    with np.errstate(divide="ignore"):
        mode = coordinates.write(np.log(alpha / alpha.sum(axis=-1, keepdims=True)))

    def density(value):  # the Jacobian adds every entry's logarithm once: α − 1 becomes α
        return float((alpha[allowed] * coordinates.read(value)[allowed]).sum())

    found = coordinates.scale(Dirichlet(alpha), 0.0, mode)
    assert found.shape == mode.shape
    step = 1e-3
    for place in np.ndindex(mode.shape):
        up, down = mode.copy(), mode.copy()
        up[place] += step
        down[place] -= step
        curvature = (2 * density(mode) - density(up) - density(down)) / step**2
        assert found[place] == pytest.approx(curvature**-0.5, rel=1e-4)
