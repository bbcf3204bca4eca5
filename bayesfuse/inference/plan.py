"""The plan of a fit: how the parameters of a PyMC model's responses are updated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.observation.model import all_observed, observed, parameter_variables, part
from bayesfuse.parameters.compiled import depends, without_compilation
from bayesfuse.parameters.contract import Coordinates, Known, Prior, Support
from bayesfuse.parameters.pool import Pool


@dataclass(frozen=True)
class Block:
    """A parameter that is updated given the labels; its prior is fixed, or varies by point."""

    parameter: str
    variable: TensorVariable
    value: str
    support: Support
    coordinates: Coordinates
    prior: Prior | None
    varying: Callable[[Mapping[str, Array]], Prior] | None = None  # by points in value space

    def read(self, point: Mapping[str, Array]) -> Array:
        """Return kernel coordinates from a point, or many along a first axis, in value space."""
        return self.coordinates.read(np.asarray(point[self.value]))


@dataclass(frozen=True)
class PooledBlock:
    """A pool of the model, and the blocks of its members by role."""

    pool: Pool
    members: dict[str, Block]

    @cached_property
    def implied(self) -> set[str]:
        """Names of the parameters that the members imply."""
        return set(self.pool.implied(self.pool.begin(np.random.default_rng(0))))

    def values(self, rows: LogParameters) -> dict[str, Array]:
        """Return the values of members by role."""
        return {role: rows[self._key(role)] for role in self.members}

    def rows(self, values: Mapping[str, Array]) -> LogParameters:
        """Return rows of the members and of the parameters that they imply."""
        by_key = {self._key(role): values[role] for role in self.members}
        return by_key | self.pool.implied(dict(values))

    def _key(self, role: str) -> str:
        return f"{self.pool.parameter}: {role}"


@dataclass(frozen=True)
class Plan:
    """The observed responses of a model, and the update of every variable."""

    model: pm.Model
    answers: TensorVariable
    observation: ResponseModel
    variables: dict[str, TensorVariable]
    blocks: dict[str, Block]
    constants: dict[str, Known]
    pools: tuple[PooledBlock, ...] = ()  # drawn from the same counts as the rows below them

    @property
    def complete(self) -> bool:
        """Whether every parameter is a block with a fixed prior, or a constant."""
        return set(self.priors()) == set(self.variables)

    @cached_property
    def all_blocks(self) -> list[Block]:
        """The blocks, and the members of pools."""
        members = [block for pooled in self.pools for block in pooled.members.values()]
        return [*self.blocks.values(), *members]

    @property
    def is_fully_conjugate(self) -> bool:
        """Whether Gibbs steps draw every variable of the model."""
        return {block.variable for block in self.all_blocks} == set(self.model.free_RVs)

    @property
    def others(self) -> list[TensorVariable]:
        """Free variables of the model that are not blocks."""
        blocks = {block.variable for block in self.blocks.values()}
        return [variable for variable in self.model.free_RVs if variable not in blocks]

    @property
    def pooled(self) -> bool:
        """Whether every variable is in a pool, or has a fixed prior."""
        members = {b.variable for pooled in self.pools for b in pooled.members.values()}
        varying = {name for name, block in self.blocks.items() if block.prior is None}
        below = {pooled.pool.parameter for pooled in self.pools}
        return bool(self.pools) and set(self.others) <= members and varying <= below

    @property
    def inferred(self) -> set[str]:
        """Names of the unknown parameters that the channel draws."""
        return set(self.observation.indices) - set(self.constants)

    def priors(self) -> dict[str, Prior]:
        """Return the fixed priors by parameter."""
        return self.constants | {
            name: block.prior for name, block in self.blocks.items() if block.prior is not None
        }

    def continuous_priors(self) -> dict[str, Prior]:
        """Return the fixed priors of all but the whole-numbered parameters."""
        indices = self.observation.indices
        return {name: prior for name, prior in self.priors().items() if name not in indices}

    def indices(self) -> LogParameters:
        """Return the values of the whole-numbered parameters, at the start if inferred."""
        priors = self.priors()
        return {name: priors[name].centre() for name in self.observation.indices if name in priors}

    def rows_at(self, values: Mapping[str, Any]) -> LogParameters:
        """Return all log parameters at values of the model's variables, by name."""
        rows: LogParameters = {name: known.value for name, known in self.constants.items()}
        with np.errstate(divide="ignore"):  # zero is a legal probability
            for block in self.all_blocks:
                value = np.asarray(values[block.variable.name])
                rows[block.parameter] = np.asarray(block.support.to_kernel(value))
        for pooled in self.pools:
            rows |= pooled.rows(pooled.values(rows))
        return rows

    def initial_response_model(self) -> ResponseModel:
        """Return the response model given these values."""
        return self.observation.known(self.indices())


def make_plans(model: pm.Model) -> dict[str, Plan]:
    """Return the plan of every table that a model observes, by the name of its responses."""
    names = [str(variable.name) for variable in all_observed(model)]
    parts = [part(model, name) for name in names] if len(names) > 1 else [model]
    return {str(plan.answers.name): plan for plan in map(make_plan, parts)}


def make_plan(model: pm.Model) -> Plan:
    """Decide how the parameters of a model's responses are updated given the labels."""
    answers, observation = observed(model)
    variables = parameter_variables(answers)
    blocks, constants = {}, {}
    for name, parameter in variables.items():
        support = observation.support(name)
        block = _block(model, answers, variables, name, support)
        if block is not None:
            blocks[name] = block
        elif (value := _number(model, parameter)) is not None:
            with np.errstate(divide="ignore"):  # zero is a legal probability
                constants[name] = Known(support.to_kernel(value))
    pools = tuple(_pooled_block(model, pool) for pool in getattr(model, "pools", ()))
    plan = Plan(model, answers, observation, variables, blocks, constants, pools)
    if plan.inferred:
        raters, priors = observation.raters, plan.continuous_priors()
        raters.require_priors({name: priors[name] for name in raters.parameters if name in priors})
    return plan


def _pooled_block(model: pm.Model, pool: Pool) -> PooledBlock:
    members = {}
    for role, member in pool.members.items():
        variable, support = member.variable, member.support
        coordinates: Any = support.coordinates(model, variable)
        name, value = f"{pool.parameter}: {role}", model.rvs_to_values[variable].name
        members[role] = Block(name, variable, value, support, coordinates, None)
    return PooledBlock(pool, members)


def _number(model: pm.Model, parameter: TensorVariable) -> Array | None:
    """Return the value of a parameter, None if it depends on a random variable."""
    (graph,) = model.replace_rvs_by_values([parameter])
    values = set(model.value_vars)
    for variable in ancestors([graph]):
        op = getattr(variable.owner, "op", None)
        if variable in values or isinstance(op, RandomVariable | SymbolicRandomVariable):
            return None
    with without_compilation():
        return np.asarray(graph.eval())


def _block(
    model: pm.Model,
    answers: TensorVariable,
    arguments: Mapping[str, TensorVariable],
    name: str,
    support: Support,
) -> Block | None:
    """Return a parameter as a block, None if its conditional is not that of the labels alone."""
    parameter = arguments[name]
    if parameter not in model.free_RVs:
        return None
    if sum(argument is parameter for argument in arguments.values()) > 1:
        return None
    others = {*model.basic_RVs, *model.potentials, *arguments.values()} - {answers, parameter}
    if parameter in set(ancestors(others)):  # other variables depend on it
        return None
    with without_compilation():
        coordinates = support.coordinates(model, parameter)
        if coordinates is None:
            return None
        prior = varying = None
        if not depends(model, parameter.owner.inputs):
            prior = support.prior(parameter)
        elif (varying := support.varying(model, parameter)) is None:
            return None
    value = model.rvs_to_values[parameter].name
    return Block(name, parameter, value, support, coordinates, prior, varying)


def require_mode(plan: Plan, who: str) -> None:
    """Raise ModelError if a pool of the model has no mode."""
    for pooled in plan.pools:
        if not pooled.pool.has_mode:
            members = ", ".join(member.variable.name for member in pooled.pool.members.values())
            raise ModelError(
                f"{who} needs a density with a sensible maximum. This one is highest where "
                "all raters are alike: bf.sample(model, draws=100) gives labels in seconds. "
                f"Got: a model with {members}."
            )
