"""Which variables of a PyMC model have Dirichlet conditionals, and with what concentration.

A mixture of Dirichlet distributions has a mixture as conditional, and counts as one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import SymbolicRandomVariable, support_point
from pymc.logprob.transforms import Transform
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import BetaRV, DirichletRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse import coordinates
from bayesfuse.dirichlets import DirichletMixture
from bayesfuse.distributions import is_dirichlet, mixture_of
from bayesfuse.errors import ModelError
from bayesfuse.factor import CLOSE
from bayesfuse.model import observed, parameter_variables, require_like
from bayesfuse.observation import Observation, Rows
from bayesfuse.positive import Positive, tabulate
from bayesfuse.simplex import ROWLESS, Array, Kind, from_log_rows


@dataclass(frozen=True)
class Block:
    """A parameter whose prior is Dirichlet (or Beta) and which nothing else depends on.

    ``concentration`` is a mixture where the prior is one, and None where it depends on other
    variables of the model. An "index" that the channel draws itself is a block, too; its
    concentration is what its prior has. So is a "positive" number, see :class:`PositiveBlock`.
    """

    parameter: str
    variable: TensorVariable
    value: str
    kind: Kind
    transform: Transform | None
    concentration: Any

    def read(self, point: Mapping[str, Array]) -> Array:
        """Return log rows from a point, or many along a first axis, in PyMC's value space."""
        return coordinates.read(np.asarray(point[self.value]), self.transform, self.kind)

    def write(self, rows: Array) -> Array:
        """Invert :meth:`read`."""
        if self.transform is None:
            return self.natural(rows)
        return coordinates.write(rows, self.transform, self.kind)

    def natural(self, rows: Array) -> Array:
        """Return the variable's value, kept off the boundary so that PyMC can transform it."""
        if self.kind == "index":
            return rows
        tiny = np.finfo(float).tiny ** 0.5
        value = np.clip(from_log_rows(rows, self.kind), tiny, None)
        if isinstance(self.transform, coordinates.LogRatio):
            value[~self.transform.allowed] = 0.0
        if self.kind == "simplex":
            return value / value.sum(axis=-1, keepdims=True)
        return np.clip(value, None, 1 - np.finfo(float).epsneg)


@dataclass(frozen=True)
class PositiveBlock(Block):
    """A positive number of any continuous prior.

    Its ``concentration`` is that prior, or None as for rows (see :func:`prior_function`);
    ``forward`` and ``backward`` are the way to PyMC's coordinate and back.
    """

    forward: Callable[[Any], Array]
    backward: Callable[[Any], Array]

    def read(self, point: Mapping[str, Array]) -> Array:
        """Return the number from a point, or many along a first axis, in PyMC's value space."""
        values = np.asarray(point[self.value])
        return np.reshape([self.backward(value) for value in values.flat], values.shape)

    def write(self, rows: Array) -> Array:
        """Invert :meth:`read`."""
        return np.asarray(self.forward(rows))

    def natural(self, rows: Array) -> Array:
        """Return the number."""
        return rows


@dataclass(frozen=True)
class Conjugacy:
    """The observation of a model, its conjugate blocks, and the other parameters' variables."""

    model: pm.Model
    observation: Observation
    variables: dict[str, TensorVariable]
    blocks: dict[str, Block]
    numbers: dict[str, Positive]
    """Positive parameters that are known."""
    known: dict[str, NDArray[np.int64]]
    """Index parameters that are known."""

    @property
    def complete(self) -> bool:
        """Whether every parameter that is rows is conjugate with a fixed prior: EM needs that.

        Positive numbers must have a fixed prior or be known.
        """
        indices = set(self.observation.raters.indices)
        rows = set(self.variables) - indices
        return set(self.concentrations()) == rows and set(self.indices()) == indices

    @property
    def inferred(self) -> set[str]:
        """Names of the index parameters that are not known."""
        return set(self.observation.raters.indices) - set(self.known)

    def concentrations(self) -> Rows:
        """Return the fixed concentrations of rows by parameter, and the priors of positives."""
        indices = self.observation.raters.indices
        return {k: v for k, v in self.prior_parameters().items() if k not in indices}

    def prior_parameters(self) -> dict[str, Any]:
        """Return the fixed concentrations, and what the priors of parameters without rows have."""
        return self.numbers | {
            name: block.concentration
            for name, block in self.blocks.items()
            if block.concentration is not None
        }

    def indices(self) -> dict[str, NDArray[np.int64]]:
        """Return where the parameters that are whole numbers begin, or what they are."""
        return self.known | {
            name: block.variable.owner.op.partition_start
            for name, block in self.blocks.items()
            if block.kind == "index"
        }

    def begun(self) -> Observation:
        """Return the observation that is left when those stay where they begin."""
        return self.observation.known(self.indices())


def find_conjugate(model: pm.Model) -> Conjugacy:
    """Look through a model for the parameters that a Gibbs sampler can draw directly."""
    variable, observation = observed(model)
    variables = parameter_variables(variable)
    blocks = {
        name: block
        for name, parameter in variables.items()
        if (block := _block(model, variable, name, parameter, observation.kind(name))) is not None
    }
    values = {
        name: value
        for name, parameter in variables.items()
        if observation.kind(name) in ROWLESS and (value := _number(parameter)) is not None
    }
    indices = [name for name in observation.raters.indices if name in values]
    known = {name: values.pop(name).astype(np.int64) for name in indices}
    numbers = {name: Positive(None, float(value)) for name, value in values.items()}
    found = Conjugacy(model, observation, variables, blocks, numbers, known)
    mixtures = [b for b in blocks.values() if isinstance(b.concentration, DirichletMixture)]
    if found.inferred and mixtures:
        raise ModelError(
            "Groups are inferred with the rows of groups and raters summed out, which is written "
            "for Dirichlet priors: give concentrations, or the groups. Got: a mixture as prior of "
            f"{mixtures[0].variable.name!r}."
        )
    if found.inferred:
        own = found.concentrations().items()
        raters = observation.raters
        raters.require_priors({name: a for name, a in own if name in raters.parameters})
    return found


def _number(parameter: TensorVariable) -> Array | None:
    """Return the value of what depends on no random variable."""
    if any(
        hasattr(v.owner, "op") and isinstance(v.owner.op, RandomVariable | SymbolicRandomVariable)
        for v in ancestors([parameter])
    ):
        return None
    with plain_python():
        return np.asarray(parameter.eval(), dtype=float)


def _block(
    model: pm.Model, answers: TensorVariable, name: str, parameter: TensorVariable, kind: Kind
) -> Block | None:
    if parameter not in model.free_RVs:
        return None
    op = parameter.owner.op
    if kind == "index":
        if not hasattr(op, "partition_start"):
            return None
        with plain_python():
            alpha = np.asarray(op.dist_params(parameter.owner)[0].eval(), dtype=float)
        value = model.rvs_to_values[parameter].name
        return Block(name, parameter, value, kind, None, alpha)
    if kind == "positive":
        return _positive_block(model, answers, name, parameter)
    wanted: type = DirichletRV if kind == "simplex" else BetaRV
    mixture = mixture_of(parameter) if kind == "simplex" else None
    sparse = kind == "simplex" and is_dirichlet(parameter)
    if not (isinstance(op, wanted) or sparse or mixture):
        return None
    if _informs_others(model, answers, parameter):
        return None  # its conditional is not Dirichlet
    transform = model.rvs_to_transforms.get(parameter)
    if not coordinates.understood(transform, kind):
        return None
    value = model.rvs_to_values[parameter].name
    if mixture is not None:
        return Block(name, parameter, value, kind, transform, mixture)
    concentration = concentration_variable(parameter, kind)
    fixed = None
    if not _depends(model, [concentration]):
        with plain_python():
            fixed = np.asarray(concentration.eval(), dtype=float)
    return Block(name, parameter, value, kind, transform, fixed)


def _depends(model: pm.Model, graphs: Iterable[Any]) -> bool:
    """Whether graphs depend on free variables of the model."""
    return not set(model.free_RVs).isdisjoint(ancestors(graphs))


def _informs_others(model: pm.Model, answers: TensorVariable, parameter: TensorVariable) -> bool:
    """Whether something else in the model than the responses learns from the parameter."""
    arguments = parameter_variables(answers).values()
    others = {*model.basic_RVs, *model.potentials, *arguments} - {answers, parameter}
    return any(parameter in ancestors([other]) for other in others)


def _positive_block(
    model: pm.Model, answers: TensorVariable, name: str, parameter: TensorVariable
) -> PositiveBlock | None:
    """Make the prior of a positive number, where it is fixed, a function that is quick to call."""
    if _informs_others(model, answers, parameter):
        return None
    transform = model.rvs_to_transforms.get(parameter)
    value = parameter.type("value")
    inputs = parameter.owner.inputs
    graphs = (
        (value, value)
        if transform is None
        else (transform.forward(value, *inputs), transform.backward(value, *inputs))
    )
    if _depends(model, graphs):  # as on a bound that is a variable: its coordinate moves the number
        return None
    prior = None
    with plain_python():
        if not _depends(model, inputs):
            typical = float(support_point(parameter).eval())
            values = pt.dvector("values")
            graph = vectorize_graph(pm.logp(parameter, value), {value: values})
            prior = Positive(tabulate(pytensor.function([values], graph), typical), typical)
        forward, backward = (pytensor.function([value], graph) for graph in graphs)
    return PositiveBlock(
        name,
        parameter,
        model.rvs_to_values[parameter].name,
        "positive",
        transform,
        prior,
        forward,
        backward,
    )


def concentration_variable(parameter: TensorVariable, kind: Kind) -> TensorVariable:
    """Return the graph of the Dirichlet concentrations of a parameter's rows, one for each entry.

    PyMC's own may be those of a single row, or of as many as have different ones.
    """
    arguments = parameter.owner.op.dist_params(parameter.owner)
    given = arguments[0] if kind == "simplex" else pt.stack(pt.broadcast_arrays(*arguments), -1)
    return pt.alloc(given, *_row_shape(parameter, kind))


def prior_function(model: pm.Model, block: Block) -> Callable[[Mapping[str, Array]], Positive]:
    """Compile the prior of a positive number, given a point in value space that it depends on."""
    value = block.variable.type("value")
    (graph,) = model.replace_rvs_by_values([pm.logp(block.variable, value)])
    inputs = [value, *model.value_vars]
    function = model.compile_fn(graph, inputs=inputs, point_fn=False, on_unused_input="ignore")

    def at(point: Mapping[str, Array]) -> Positive:
        others = [point[each.name] for each in model.value_vars]
        return Positive(lambda number: function(np.asarray(number), *others), np.nan)

    return at


def require_value(model: pm.Model, variable: TensorVariable, value: Any) -> None:
    """Raise ModelError unless chains can begin where a variable has this value."""
    require_like(np.shape(value), variable)
    given = np.asarray(value)
    sound = given.dtype.kind in "biuf" and bool(np.isfinite(given).all())
    if sound:
        there = pt.as_tensor(given.astype(variable.dtype))
        transform, inputs = model.rvs_to_transforms.get(variable), variable.owner.inputs
        if transform is None:
            graphs = [pm.logp(variable, there)]
        else:
            inside = transform.forward(there, *inputs)
            graphs = [inside, transform.backward(inside, *inputs)]
        if not _depends(model, graphs):
            with plain_python(), np.errstate(all="ignore"):
                found = [graph.eval() for graph in graphs]
            sound = bool(np.isfinite(found[0]).all())
            sound &= transform is None or np.allclose(found[-1], given, rtol=CLOSE, atol=CLOSE)
    if not sound:
        raise ModelError(
            "Chains must begin where the density is positive and finite: rows of positive "
            "probabilities that sum to one (zeros only where the prior has them), numbers within "
            f"their bounds. Got: {given.tolist()} for {variable.name}."
        )


def moved(model: pm.Model, variables: Mapping[str, TensorVariable]) -> list[str]:
    """Return the names of those that change with the point of a chain."""
    graphs = model.replace_rvs_by_values(list(variables.values()))
    values = set(model.value_vars)
    named = zip(variables, graphs, strict=True)
    return [name for name, graph in named if not values.isdisjoint(ancestors([graph]))]


def _row_shape(parameter: TensorVariable, kind: Kind) -> tuple[int, ...]:
    shape = parameter.type.shape
    if None in shape:
        with plain_python():
            shape = tuple(int(size) for size in parameter.shape.eval())
    return shape if kind == "simplex" else (*shape, 2)


def plain_python() -> Any:
    """Compile PyTensor functions to Python: no compiler runs, which is what a first use needs."""
    return pytensor.config.change_flags(mode="FAST_COMPILE", cxx="")


def value_function(model: pm.Model, variables: Mapping[str, TensorVariable]) -> Callable[..., Any]:
    """Compile variables of a model as a function of a point in value space."""
    names = list(variables)
    graphs = model.replace_rvs_by_values(list(variables.values()))
    function = model.compile_fn(graphs, inputs=model.value_vars, on_unused_input="ignore")
    return lambda point: dict(zip(names, function(point), strict=True))
