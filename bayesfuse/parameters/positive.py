"""Positive parameters with any continuous prior: slice sampling and modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesfuse.errors import ModelError, require_numbers
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.slice_sampling import slice_from
from bayesfuse.parameters.contract import UNCHANGED, Coordinates, Mapped, Prior, Support

TABLE_RANGE = 8.0  # of a table of a log density, on the log scale
TABLE_STEP = 0.004  # of the same table

SLICE_WIDTH = 0.5  # initial width of a slice on the log scale
MODE_RANGE = math.log(1e6)  # a mode is sought within this distance of the initial value
MAX_LOG = 690.0  # largest absolute logarithm whose exponential does not under- or overflow
TAIL_DISTANCE = 30.0  # distance of the tails from a typical value, on the log scale
SLOPE_TOLERANCE = 1e-6  # slopes of log densities below this are rounding errors


Density = Callable[[float], float]


@dataclass(frozen=True)
class PositivePrior(Prior):
    """The prior of a positive number: its log density, and a typical value."""

    density: Density
    typical: float

    def centre(self) -> Array:
        return np.asarray(self.typical)

    def log_density(self, value: Array) -> float:
        return float(self.density(float(value)))

    def with_mode(self) -> PositivePrior:
        far_below = math.log(self.typical) - TAIL_DISTANCE
        power = slope(self.density, far_below)
        if not power < -SLOPE_TOLERANCE:
            return self
        return replace(self, density=lambda v: float(self.density(v)) - power * math.log(v))

    def expect(self, statistic: Density, value: Array) -> Array:
        return self.with_mode().maximise(statistic, value)

    def maximise(self, statistic: Density, value: Array) -> Array:
        from scipy.optimize import minimize_scalar  # half a second to import

        def negative_log_density(log_value: float) -> float:
            number = math.exp(log_value)
            optimum = float(self.density(number)) + statistic(number)
            return -optimum if optimum > -np.inf else np.inf

        log_start = math.log(float(value))
        ends = max(log_start - MODE_RANGE, -MAX_LOG), min(log_start + MODE_RANGE, MAX_LOG)
        bounds = [_edge(negative_log_density, log_start, end) for end in ends]
        optimum = minimize_scalar(
            negative_log_density, bounds=bounds, method="bounded", options={"xatol": 1e-10}
        )
        return np.asarray(math.exp(optimum.x))

    def draw(self, statistic: Density, value: Array, rng: np.random.Generator) -> Array:
        def log_density(log_value: float, _: None) -> float:
            number = math.exp(log_value)
            return float(self.density(number)) + statistic(number) + log_value

        current = math.log(float(value))
        level = log_density(current, None) - rng.exponential()
        drawn = slice_from.py_func(log_density, None, current, level, SLICE_WIDTH, rng)
        return value if math.isnan(drawn) else np.asarray(math.exp(drawn))


class Positive(Support):
    """One positive number, which labels inform by a log-likelihood instead of counts."""

    counts = False

    def require(self, name: str, value: Any) -> None:
        values = require_numbers(name, value)
        if not (np.isfinite(values) & (values > 0)).all():
            raise ModelError(f"{name} must be positive and finite. Got: {values.tolist()}.")

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        import pytensor

        from bayesfuse.parameters.compiled import depends

        if variable.type.ndim:
            return None  # scalars only
        if (transform := model.rvs_to_transforms.get(variable)) is None:
            return UNCHANGED
        value, inputs = variable.type("value"), variable.owner.inputs
        graphs = transform.forward(value, *inputs), transform.backward(value, *inputs)
        if depends(model, graphs):  # such as a bound that is a variable
            return None
        forward, backward = (pytensor.function([value], graph) for graph in graphs)
        return Mapped(
            forward, lambda values: np.reshape([backward(x) for x in values.flat], values.shape)
        )

    def require_variable(self, name: str, variable: Any) -> None:
        from bayesfuse.parameters.compiled import without_compilation

        if continuous := variable.dtype.startswith("float"):
            with without_compilation(), np.errstate(all="ignore"):  # densities may overflow far out
                density, typical = _compiled(variable)
                middle = math.log(typical) if 0 < typical < np.inf else 0.0
                below = density(-np.exp(middle + np.linspace(-TAIL_DISTANCE, TAIL_DISTANCE, 121)))
                heavy = (
                    slope(lambda v: float(density(np.array([v]))[0]), middle + TAIL_DISTANCE)
                    >= -1 - SLOPE_TOLERANCE
                )
        if not continuous or (below > -np.inf).any() or heavy:
            raise ModelError(
                f"The prior of a {name} must be continuous and proper, with density zero below "
                "zero, because it must be positive and labels do not bound it from above: use "
                "pm.HalfNormal, pm.Gamma or pm.LogNormal, for example. Got: "
                f"{type(variable.owner.op).__name__} for {variable.name}."
            )

    def prior(self, variable: Any) -> Prior:
        density, typical = _compiled(variable)
        return PositivePrior(tabulate(density, typical), typical)

    def varying(self, model: Any, variable: Any) -> Callable[[Mapping[str, Array]], Prior]:
        import pymc as pm
        from pymc.distributions.distribution import support_point

        value = variable.type("value")
        graphs = model.replace_rvs_by_values([pm.logp(variable, value), support_point(variable)])
        inputs, unused = model.value_vars, {"point_fn": False, "on_unused_input": "ignore"}
        density = model.compile_fn(graphs[0], inputs=[value, *inputs], **unused)
        typical = model.compile_fn(graphs[1], inputs=inputs, **unused)

        def prior_at(point: Mapping[str, Array]) -> Prior:
            others = [point[variable.name] for variable in inputs]
            return PositivePrior(
                lambda number: density(np.asarray(number), *others), float(typical(*others))
            )

        return prior_at


POSITIVE = Positive()


def slope(density: Density, log_value: float) -> float:
    """Return the slope of a log density above a log value; NaN if the density is zero."""
    low, high = (float(density(math.exp(log_value + step))) for step in (0.0, 1.0))
    return high - low if np.isfinite(low) and np.isfinite(high) else np.nan


def _edge(negative_log_density: Density, inside: float, end: float) -> float:
    """Return the end of a search or, if that is nearer, of the support, by bisection."""
    if np.isfinite(negative_log_density(end)):
        return end
    for _ in range(100):
        middle = (inside + end) / 2
        if np.isfinite(negative_log_density(middle)):
            inside = middle
        else:
            end = middle
    return inside


def _compiled(variable: Any) -> tuple[Callable[[Array], Array], float]:
    """Return the vectorised log density of a variable, and a typical value."""
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt
    from pymc.distributions.distribution import support_point
    from pytensor.graph.replace import vectorize_graph

    value, values = variable.type("value"), pt.dvector("values")
    graph = vectorize_graph(pm.logp(variable, value), {value: values})
    function = pytensor.function([values], graph)
    return function, float(support_point(variable).eval())


def tabulate(log_density: Callable[[Array], Array], typical: float) -> Callable[[float], float]:
    """Return a log density from a table of cubics, if accurate to rounding, for speed."""
    from scipy.interpolate import CubicSpline  # slow to import

    low = math.log(typical) - TABLE_RANGE
    points = low + np.arange(2 * round(TABLE_RANGE / TABLE_STEP) + 1) * TABLE_STEP
    between = (points[1:] + points[:-1]) / 2
    with np.errstate(all="ignore"):  # densities may overflow far out
        values, true = log_density(np.exp(points)), log_density(np.exp(between))

    def exact(value: float) -> float:
        return float(log_density(np.array([value]))[0])

    if not (np.isfinite(values).all() and np.isfinite(true).all()):
        return exact
    spline = CubicSpline(points, values)
    if (np.abs(spline(between) - true) > 1e-9 * (1 + np.abs(true))).any():
        return exact
    cubes = spline.c.T.tolist()

    def look_up(value: float) -> float:
        place = (math.log(value) - low) / TABLE_STEP
        cell = int(place)
        if not 0 <= cell < len(cubes):
            return exact(value)
        c3, c2, c1, c0 = cubes[cell]
        t = (place - cell) * TABLE_STEP
        return c0 + t * (c1 + t * (c2 + t * c3))

    return look_up
