"""Updates by gradients, given expected counts, of the variables without a closed form."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference import em
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, LogParameters, ResponseModel
from bayesfuse.parameters.compiled import value_function, without_compilation
from bayesfuse.parameters.contract import Prior

GIVEN = "given"  # name of the start at values of the user
VALUE = "value of "  # prefix in log parameters of variables in PyMC's coordinates
MAX_SCALE = 1.0  # standard deviation of starting points, in PyMC's coordinates
STEP = 1e-4  # of a coordinate, in differences of gradients


class Gradients:
    """Variables of a plan that are not blocks, in PyMC's coordinates (``jacobian``) or natural."""

    def __init__(self, plan: Plan, *, jacobian: bool = True) -> None:
        self.observation = observation = plan.initial_response_model()
        model, self.blocks = plan.model, plan.blocks
        self.varying = {n: b.varying for n, b in plan.blocks.items() if b.varying is not None}
        values = model.rvs_to_values
        floats = [v for v in plan.others if v.dtype.startswith("float")]
        self.start, self.moved = model.initial_point(0), [values[v].name for v in floats]
        self._initial_names = [values[v].name for v in plan.others]
        prior_inputs = [term for v in model.free_RVs for term in v.owner.inputs]
        above = set(ancestors(prior_inputs))
        self._hyperparameters = [values[v].name for v in floats if v in above]
        fixed = plan.blocks.keys() | plan.constants.keys()
        implied = {name: v for name, v in plan.variables.items() if name not in fixed}
        with without_compilation():
            self._implied = value_function(model, implied)
            self._natural = value_function(model, {v.name: v for v in floats})
            self._objective = _objective(plan, observation, floats, jacobian)

    def only(self, *, hyperparameters: bool) -> Gradients:
        """Return the same for moves of hyperparameters only, or of all others, which move first."""
        restricted = copy.copy(self)
        others = [name for name in self.moved if name not in self._hyperparameters]
        restricted.moved = self._hyperparameters if hyperparameters else others
        return restricted

    def begin(self, rows: LogParameters) -> LogParameters:
        """Complete the rows of blocks and constants: other variables at PyMC's initial point."""
        rows = self.implied(rows | {VALUE + name: self.start[name] for name in self._initial_names})
        return rows | {name: prior.centre() for name, prior in self.priors(rows).items()}

    def priors(self, rows: LogParameters) -> dict[str, Prior]:
        """Return the priors of blocks that depend on the other variables, at their values."""
        point = self._point(rows)
        return {name: prior_at(point) for name, prior_at in self.varying.items()}

    def implied(self, rows: LogParameters) -> LogParameters:
        """Return rows in which the parameters that are not blocks follow from the variables."""
        implied = {}
        for name, value in self._implied(self._point(rows)).items():
            with np.errstate(divide="ignore"):  # zero is a legal probability
                implied[name] = self.observation.support(name).to_kernel(value)
        return rows | implied

    def natural(self, rows: LogParameters) -> dict[str, Array]:
        """Return the natural values of the variables by name, at which chains may begin."""
        return self._natural(self._point(rows))

    def log_density(self, rows: LogParameters) -> float:
        """Return the log density of the variables, and of blocks whose prior depends on them."""
        tables = self.observation.label_tables(rows), self.observation.tables(rows)
        no_counts = Counts({}, *(tuple(map(np.zeros_like, table)) for table in tables))
        return float(self._objective(self._point(rows), no_counts)[0])

    def climb(self, rows: LogParameters, counts: Counts, steps: int) -> LogParameters:
        """Maximise the expected log density by L-BFGS, given counts of the tables."""
        from scipy.optimize import minimize  # slow to import

        if not self.moved:
            return rows

        def descend(flat: Array) -> tuple[float, Array]:
            value, slope = self._evaluate(rows, counts, flat)
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return np.inf, np.zeros_like(flat)
            return -float(value), -slope

        flat = self._flatten(rows)
        before, _ = descend(flat)
        optimum = minimize(descend, flat, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        if not optimum.fun < before:
            return rows
        return self._moved(rows, self._unflatten(rows, optimum.x))

    def scales(self, rows: LogParameters, counts: Counts) -> dict[str, Array]:
        """Return standard deviations of the moved values given all others, at most one."""
        flat = self._flatten(rows)
        curvature = np.empty_like(flat)
        for i in range(len(flat)):
            step = np.zeros_like(flat)
            step[i] = STEP
            _, slope_below = self._evaluate(rows, counts, flat - step)
            _, slope_above = self._evaluate(rows, counts, flat + step)
            curvature[i] = (slope_below[i] - slope_above[i]) / (2 * STEP)
        is_wide = ~(curvature > MAX_SCALE**-2)
        scale = np.abs(np.where(is_wide, 1.0, curvature)) ** -0.5
        return self._unflatten(rows, np.where(is_wide, MAX_SCALE, scale))

    def disperse(
        self, rows: LogParameters, counts: Counts, rng: np.random.Generator
    ) -> LogParameters:
        """Draw the variables around their values, at the scales of their density given counts."""
        if not self.moved:
            return rows
        drawn = {
            name: rows[VALUE + name] + scale * rng.standard_normal(scale.shape)
            for name, scale in self.scales(rows, counts).items()
        }
        moved = self._moved(rows, drawn)
        # a variable that PyMC does not transform may have left its support
        return moved if np.isfinite(self.log_density(moved)) else rows

    def between(self, one: LogParameters, other: LogParameters) -> LogParameters:
        """Return rows half way between two, blocks by the logs of their means."""
        moved = {name: (one[VALUE + name] + other[VALUE + name]) / 2 for name in self.moved}
        return self._moved(one | em.between(one, other, self.blocks), moved)

    def _moved(self, rows: LogParameters, values: dict[str, Array]) -> LogParameters:
        """Return rows with other values of the variables, and of all that depend on them."""
        return self.implied(rows | {VALUE + name: value for name, value in values.items()})

    def _point(self, rows: LogParameters) -> dict[str, Any]:
        """Return a point of the whole model."""
        point = dict(self.start)
        for name, row in rows.items():
            if name.startswith(VALUE):
                point[name.removeprefix(VALUE)] = row
            elif name in self.blocks:
                block = self.blocks[name]
                point[block.value] = block.coordinates.write(row)
        return point

    def _flatten(self, rows: LogParameters) -> Array:
        """Return the moved values as one vector."""
        return np.concatenate([np.zeros(0), *(np.ravel(rows[VALUE + n]) for n in self.moved)])

    def _unflatten(self, rows: LogParameters, flat: Array) -> dict[str, Array]:
        """Return the moved values of a vector by name."""
        shapes = [np.shape(rows[VALUE + name]) for name in self.moved]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        parts = zip(self.moved, np.split(flat, ends), shapes, strict=True)
        return {name: part.reshape(shape) for name, part, shape in parts}

    def _evaluate(self, rows: LogParameters, counts: Counts, flat: Array) -> tuple[float, Array]:
        """Return the expected log density at moved values, and its slope."""
        with np.errstate(all="ignore"):
            point = self._point(rows) | self._unflatten(rows, flat)
            value, slopes = self._objective(point, counts)
        return value, np.concatenate([slopes[name].ravel() for name in self.moved])


def initialize(
    plan: Plan, method: str | xr.DataTree | Mapping[str, Any]
) -> tuple[Start, Gradients | None]:
    """Return the start of a model, and the gradients of variables without a closed form."""
    nonconjugate = None if plan.complete else Gradients(plan)
    if isinstance(method, str | xr.DataTree):
        observation, priors = plan.initial_response_model(), plan.continuous_priors()
        return find_start(observation, priors, method, nonconjugate), nonconjugate
    start = start_at(plan, method)
    if nonconjugate is not None:  # other variables, and parameters that they imply
        start = replace(start, rows=nonconjugate.begin(start.rows) | start.rows)
    return start, nonconjugate


def start_at(plan: Plan, values: Mapping[str, Any]) -> Start:
    """Return a start at values of the user, and at PyMC's initial ones of other variables."""
    require_mapping("start, unless it is a word,", values)
    blocks = {block.variable.name: block for block in plan.all_blocks}
    if unknown := set(values) - set(blocks):
        raise ModelError(
            f"A start must give values to free variables that sweeps draw, {sorted(blocks)}; "
            f"pm.sample takes those of others as initvals=. Got: {sorted(unknown)}."
        )
    point, complete = plan.model.initial_point(0), {}
    for name, block in blocks.items():
        initial = block.support.from_kernel(np.asarray(block.read(point)))
        value = values.get(name, initial)
        if np.shape(value) != initial.shape:
            raise ModelError(
                f"The start of {name} must have shape {initial.shape}. Got: shape "
                f"{np.shape(value)}."
            )
        block.support.require(name, value)
        complete[name] = value
    return Start(plan.rows_at(complete), GIVEN)


def values_of(plan: Plan, nonconjugate: Gradients | None, rows: LogParameters) -> dict[str, Array]:
    """Return values of the model's variables, which PyMC can transform, from rows."""
    blocks = {
        block.variable.name: block.coordinates.natural(rows[block.parameter])
        for block in plan.all_blocks
        if block.parameter in rows
    }
    return blocks | ({} if nonconjugate is None else nonconjugate.natural(rows))


def _objective(
    plan: Plan, observation: ResponseModel, moved: list[Any], jacobian: bool
) -> Callable[[Mapping[str, Array], Counts], Any]:
    """Compile log density plus expected log-likelihood, and its slopes along the moved variables.

    The function takes a point and the counts of the tables.
    """
    model = plan.model
    fixed = [block.variable for block in plan.blocks.values() if block.prior is None]
    fixed += [v for v in plan.others if v not in moved]
    fixed += [v for v in model.observed_RVs if v is not plan.answers] + model.potentials
    terms = model.logp(moved, jacobian=jacobian, sum=False) if moved else []
    terms += model.logp(fixed, jacobian=False, sum=False) if fixed else []
    total = sum((term.sum() for term in terms), pt.constant(0.0))
    graphs = model.replace_rvs_by_values(list(plan.variables.values()))
    parameters = dict(zip(plan.variables, graphs, strict=True))
    labels, raters = observation.labels, observation.raters
    factors = (labels, raters) if labels.capabilities.linear else (raters,)
    counts = []
    for factor in factors:
        rows = factor.to_kernel({name: parameters[name] for name in factor.parameters}, pt)
        for table in factor.expand(tuple(rows.values()), observation.table.n_classes, pt):
            table = pt.as_tensor(table)
            used = TensorType("float64", (None,) * table.type.ndim)()
            counts.append(used)
            # an entry of probability zero that is not used adds nothing
            total += pt.sum(used * pt.switch(pt.eq(used, 0.0), 0.0, table))
    values = [model.rvs_to_values[v] for v in moved]
    slopes = pt.grad(total, values, disconnected_inputs="ignore") if moved else []
    inputs = [*model.value_vars, *counts]
    function = model.compile_fn(
        [total, *slopes], inputs=inputs, point_fn=False, on_unused_input="ignore"
    )
    names, value_names = [value.name for value in values], [v.name for v in model.value_vars]

    def evaluate(point: Mapping[str, Array], counts: Counts) -> Any:
        used = (*counts.labels, *counts.raters) if labels.capabilities.linear else counts.raters
        total, *slopes = function(*(point[name] for name in value_names), *used)
        return total, dict(zip(names, slopes, strict=True))

    return evaluate
