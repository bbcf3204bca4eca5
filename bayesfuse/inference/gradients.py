"""Free variables without a closed form, moved by gradients given expected counts of tables."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, LogParameters, ResponseModel
from bayesfuse.parameters.compiled import value_function, without_compilation
from bayesfuse.parameters.contract import Prior

GIVEN = "given"  # the start at values that a user gives
VALUE = "value of "  # before names of values, in PyMC's coordinates, of other variables in rows
WIDEST = 1.0  # largest standard deviation, in PyMC's coordinates, that starting points differ by
STEP = 1e-4  # difference of a coordinate between two gradients that tell a curvature


class Gradients:
    """Variables of a plan that are no blocks, in PyMC's coordinates (``jacobian``) or their own."""

    def __init__(self, plan: Plan, *, jacobian: bool = True) -> None:
        self.observation = observation = plan.initial_response_model()
        self.varying = {n: b.varying for n, b in plan.blocks.items() if b.varying is not None}
        floats = [v for v in plan.others if v.dtype.startswith("float")]
        fixed = plan.blocks.keys() | plan.constants.keys()
        implied = {name: v for name, v in plan.variables.items() if name not in fixed}
        model, self.blocks = plan.model, plan.blocks
        value = {v: model.rvs_to_values[v].name for v in floats}
        self.start, self.moved = model.initial_point(0), list(value.values())
        depend = [v.owner.inputs for v in model.free_RVs]  # of priors
        self._upper = [value[v] for v in floats if any(v in ancestors(term) for term in depend)]
        self._initial_names = [model.rvs_to_values[v].name for v in plan.others]
        with without_compilation():
            self._implied = value_function(model, implied)
            self._natural = value_function(model, {v.name: v for v in floats})
            total, counts = _expected_density(plan, observation, floats, jacobian)
            values = [plan.model.rvs_to_values[v] for v in floats]
            linear = observation.labels.capabilities.linear
            self._objective = _with_slopes(
                plan.model,
                total,
                values,
                (plan.model.value_vars, counts),
                lambda used: (*used.labels, *used.raters) if linear else used.raters,
            )

    def only(self, *, upper: bool) -> Gradients:
        """Return the same for moves of hyperparameters only, or of all others, which move first."""
        other = copy.copy(self)
        others = [name for name in self.moved if name not in self._upper]
        other.moved = self._upper if upper else others
        return other

    def begin(self, rows: LogParameters) -> LogParameters:
        """Complete the rows of blocks and constants: other variables where PyMC begins."""
        rows = self.implied(rows | {VALUE + name: self.start[name] for name in self._initial_names})
        return rows | {name: prior.centre() for name, prior in self.priors(rows).items()}

    def priors(self, rows: LogParameters) -> dict[str, Prior]:
        """Return the priors of blocks that depend on the other variables, at their values."""
        point = self._point(rows)
        return {name: prior_at(point) for name, prior_at in self.varying.items()}

    def implied(self, rows: LogParameters) -> LogParameters:
        """Return rows in which the parameters that are no blocks follow from the variables."""
        with np.errstate(divide="ignore"):
            implied = {
                name: self.observation.support(name).to_kernel(value)
                for name, value in self._implied(self._point(rows)).items()
            }
        return rows | implied

    def natural(self, rows: LogParameters) -> dict[str, Array]:
        """Return the variables' own values by name, as chains take them to begin with."""
        return self._natural(self._point(rows))

    def log_density(self, rows: LogParameters) -> float:
        """Return the log density of the variables, and of blocks whose prior depends on them."""
        tables = self.observation.label_tables(rows), self.observation.tables(rows)
        none = Counts({}, *(tuple(map(np.zeros_like, some)) for some in tables))
        return float(self._objective(self._point(rows), none)[0])

    def climb(self, rows: LogParameters, counts: Counts, steps: int) -> LogParameters:
        """Take steps of L-BFGS up the expected log density of all, given counts of the tables."""
        from scipy.optimize import minimize  # slow to import

        if not self.moved:
            return rows
        flat, unflatten, evaluate = self._along(rows, counts)

        def descend(flat: Array) -> tuple[float, Array]:
            value, slope = evaluate(flat)
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                return np.inf, np.zeros_like(flat)
            return -float(value), -slope

        before, _ = descend(flat)
        optimum = minimize(descend, flat, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        return self._moved(rows, unflatten(optimum.x)) if optimum.fun < before else rows

    def scales(self, rows: LogParameters, counts: Counts) -> dict[str, Array]:
        """Return standard deviations of the moved values given all others, no wider than one."""
        flat, unflatten, evaluate = self._along(rows, counts)
        curvature = np.empty_like(flat)
        for place in range(len(flat)):
            step = np.zeros_like(flat)
            step[place] = STEP
            slopes = [evaluate(point)[1][place] for point in (flat - step, flat + step)]
            curvature[place] = (slopes[0] - slopes[1]) / (2 * STEP)
        wide = ~(curvature > WIDEST**-2)
        return unflatten(np.where(wide, WIDEST, np.abs(np.where(wide, 1.0, curvature)) ** -0.5))

    def disperse(
        self, rows: LogParameters, counts: Counts, rng: np.random.Generator
    ) -> LogParameters:
        """Move the variables at random, about as far as their density given the counts is wide."""
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
        half = {n: np.logaddexp(one[n], other[n]) - np.log(2.0) for n in self.blocks}
        moved = {name: (one[VALUE + name] + other[VALUE + name]) / 2 for name in self.moved}
        return self._moved(one | half, moved)

    def _moved(self, rows: LogParameters, values: dict[str, Array]) -> LogParameters:
        """Return rows in which other variables have these values, and what follows from them."""
        return self.implied(rows | {VALUE + name: value for name, value in values.items()})

    def _point(self, rows: LogParameters) -> dict[str, Any]:
        """Return a point of the whole model."""
        others = {n.removeprefix(VALUE): v for n, v in rows.items() if n.startswith(VALUE)}
        written = {
            block.value: block.coordinates.write(rows[name])
            for name, block in self.blocks.items()
            if name in rows
        }
        return self.start | others | written

    def _along(
        self, rows: LogParameters, counts: Counts
    ) -> tuple[Array, Callable[[Array], dict[str, Array]], Callable[[Array], Any]]:
        """Return the moved values as one vector, the way back, and expected density and slopes."""
        point = self._point(rows)
        values = {name: np.asarray(rows[VALUE + name], dtype=float) for name in self.moved}
        ends = np.cumsum([value.size for value in values.values()])[:-1]

        def unflatten(flat: Array) -> dict[str, Array]:
            parts = zip(values.items(), np.split(flat, ends), strict=True)
            return {name: part.reshape(value.shape) for (name, value), part in parts}

        def evaluate(flat: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, slopes = self._objective(point | unflatten(flat), counts)
            return value, np.concatenate([slopes[name].ravel() for name in self.moved])

        flat = np.concatenate([np.zeros(0), *map(np.ravel, values.values())])
        return flat, unflatten, evaluate


def initialize(plan: Plan, method: str | Mapping[str, Any]) -> tuple[Start, Gradients | None]:
    """Return the start of a model as it is, and the gradients of what has no closed form."""
    nonconjugate = None if plan.complete else Gradients(plan)
    if not isinstance(method, str):
        start = start_at(plan, method)
        if nonconjugate is not None:  # other variables, and what follows from them
            start = replace(start, rows=nonconjugate.begin(start.rows) | start.rows)
        return start, nonconjugate
    return find_start(
        plan.initial_response_model(), plan.continuous_priors(), method, nonconjugate
    ), nonconjugate


def start_at(plan: Plan, values: Mapping[str, Any]) -> Start:
    """Return a start at given values, and at PyMC's initial ones where none are given."""
    require_mapping("start, unless it is a word,", values)
    blocks = {block.variable.name: block for block in plan.all_blocks}
    if unknown := set(values) - set(blocks):
        raise ModelError(
            f"A start must give values to free variables that sweeps draw, {sorted(blocks)}; "
            f"pm.sample takes those of others as initvals=. Got: {sorted(unknown)}."
        )
    rows: LogParameters = {
        n: prior.centre() for n, prior in plan.priors().items() if not prior.free
    }
    point = plan.model.initial_point(0)
    for name, block in blocks.items():
        initial = block.support.from_kernel(np.asarray(block.read(point)))
        value = values.get(name, initial)
        if np.shape(value) != initial.shape:
            needed, got = initial.shape, np.shape(value)
            raise ModelError(f"The start of {name} must have shape {needed}. Got: shape {got}.")
        block.support.require(name, value)
        with np.errstate(divide="ignore"):  # zero is a legal probability
            rows[block.parameter] = np.asarray(block.support.to_kernel(np.asarray(value)))
    for pooled in plan.pools:
        rows |= pooled.rows(pooled.values(rows))
    return Start(rows, GIVEN)


def values_of(plan: Plan, nonconjugate: Gradients | None, rows: LogParameters) -> dict[str, Array]:
    """Return values of the model's variables, which PyMC can transform, from rows."""
    blocks = {
        block.variable.name: block.coordinates.natural(rows[block.parameter])
        for block in plan.all_blocks
        if block.parameter in rows
    }
    return blocks | ({} if nonconjugate is None else nonconjugate.natural(rows))


def _expected_density(
    plan: Plan, observation: ResponseModel, variables: list[Any], jacobian: bool
) -> tuple[Any, list[TensorVariable]]:
    """Return log density plus expected log-likelihood, and the counts of tables that it takes."""
    model = plan.model
    above = [block.variable for block in plan.blocks.values() if block.prior is None]
    above += [v for v in plan.others if v not in variables]
    above += [v for v in model.observed_RVs if v is not plan.answers] + model.potentials
    terms = model.logp(variables, jacobian=jacobian, sum=False) if variables else []
    terms += model.logp(above, jacobian=False, sum=False) if above else []
    total = sum((term.sum() for term in terms), pt.constant(0.0))
    graphs = model.replace_rvs_by_values(list(plan.variables.values()))
    parameters = dict(zip(plan.variables, graphs, strict=True))
    tables: list[TensorVariable] = []
    linear = [observation.labels] if observation.labels.capabilities.linear else []
    for factor in (*linear, observation.raters):
        rows = factor.to_kernel({name: parameters[name] for name in factor.parameters}, pt)
        factor_tables = factor.expand(tuple(rows.values()), observation.table.n_classes, pt)
        tables += map(pt.as_tensor, factor_tables)
    counts = [TensorType("float64", (None,) * table.type.ndim)() for table in tables]
    for table, used in zip(tables, counts, strict=True):
        unused = pt.eq(used, 0.0)  # nothing of what is impossible
        total += pt.sum(used * pt.switch(unused, 0.0, table))
    return total, counts


def _with_slopes(
    model: Any, total: Any, moved: list[Any], inputs: tuple[Any, Any], used: Callable[..., Any]
) -> Callable[..., tuple[Any, dict[str, Array]]]:
    """Compile a function of a point and of counts, with its slopes along the moved values."""
    slopes = pt.grad(total, moved, disconnected_inputs="ignore") if moved else []
    values, counts = inputs
    function = model.compile_fn(
        [total, *slopes], inputs=[*values, *counts], point_fn=False, on_unused_input="ignore"
    )

    def evaluate(point: Mapping[str, Array], counts: Counts) -> Any:
        total, *slopes = function(*(point[value.name] for value in values), *used(counts))
        return total, dict(zip((value.name for value in moved), slopes, strict=True))

    return evaluate
