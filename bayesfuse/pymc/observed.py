"""Responses as an observed random variable, which knows its observation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.data.names import smallest_integer
from bayesfuse.errors import ModelError
from bayesfuse.observation import Blocks, Observation, Spread, in_blocks
from bayesfuse.pymc.ops import Evidence, EvidenceOfParts


class ObservedResponses(RandomVariable):
    """Responses, labels summed out; inputs: parameters, item and rater of every response."""

    __props__ = (*RandomVariable.__props__, "observation")

    def __init__(self, observation: Observation, **props: Any) -> None:
        super().__init__(**props)
        self.observation = observation
        labels, raters = observation.labels, observation.raters
        name = f"{type(labels).__name__}{type(raters).__name__}"
        self._print_name = (name, f"\\operatorname{{{name}}}")

    def __str__(self) -> str:
        """Leave the observation out, which messages of PyTensor would show entry by entry."""
        return self._print_name[0]

    def rng_fn(self, rng: np.random.Generator, *inputs: Any) -> NDArray[Any]:
        """Draw truths and responses; predictive draws of PyMC go through here."""
        observation, (*arguments, size) = self.observation, inputs
        if not observation.responses.is_plain:  # PyMC draws to see shapes when it draws graphs
            warnings.warn(
                "Predictive draws have one answer per row, so an item that stands for several is "
                "drawn once: build the model with responses.expand() for draws of all. Got: a "
                "table of counts.",
                stacklevel=2,
            )
        point = observation.rows(dict(zip(observation.names, arguments, strict=False)))
        shape = tuple(size) if size is not None else ()
        draws = [observation.simulate(point, rng)[1] for _ in range(int(np.prod(shape)))]
        return np.array(draws, dtype=self.dtype).reshape(*shape, -1)


@_logprob.register(ObservedResponses)
def _log_evidence(
    op: ObservedResponses, values: Any, rng: Any, size: Any, *inputs: Any, **kwargs: Any
) -> TensorVariable:
    """Build the graph of the log evidence of responses from the parameters' variables."""
    (value,) = values
    observation = _seen(op.observation, value)
    labels, raters = observation.labels, observation.raters
    given = dict(zip(observation.names, inputs, strict=False))
    label_tables, tables = (
        factor.expand(tuple(factor.to_kernel(given, pt).values()), observation.table.n_classes, pt)
        for factor in (labels, raters)
    )
    if isinstance(observation, Blocks | Spread):
        total, *_ = EvidenceOfParts(observation, len(label_tables))(*label_tables, *tables)
        return total
    indices = tuple(pt.cast(given[name], "int64") for name in observation.indices)
    structures = *observation.label_structure, *indices, *observation.rater_structure
    evidence = Evidence(
        type(labels), type(raters), len(label_tables), len(tables), len(observation.label_structure)
    )
    total, *_ = evidence(*label_tables, *tables, *structures)
    return total


def _seen(observation: Observation, value: Any) -> Observation:
    """Return the observation of ``value``: the one made already, unless it is other data."""
    if not isinstance(value, Constant):
        raise ModelError(
            "The log density of responses is compiled for the responses that were observed; build "
            "another model for others. Got: responses that are not constant."
        )
    responses = observation.responses
    if isinstance(observation, Spread) or np.array_equal(value.data, responses.label):
        return observation
    known = np.flatnonzero(observation.gold >= 0)
    items, classes = responses.items[known], responses.classes[observation.gold[known]]
    gold = dict(zip(items.tolist(), classes.tolist(), strict=True))
    other = responses.relabelled(value.data)
    return in_blocks(Observation.build(other, observation.labels, observation.raters, gold))


class ResponsesDistribution(pm.Distribution):
    """The distribution that registers :class:`ObservedResponses` with a PyMC model."""

    rv_type = ObservedResponses

    @classmethod
    def dist(cls, observation: Observation, parameters: list[Any], **kwargs: Any) -> Any:
        """Return the variable, outside any model."""
        columns = map(pt.as_tensor, observation.responses.small_columns)
        return super().dist([*parameters, *columns], observation=observation, **kwargs)

    @classmethod
    def rv_op(cls, *inputs: Any, observation: Observation, rng: Any = None, **kwargs: Any) -> Any:
        """Return the variable of these inputs."""
        letters = iter("abcdefghijklmnopqstuvwxyz")
        cores = (",".join(next(letters) for _ in range(each.type.ndim)) for each in inputs[:-2])
        op = ObservedResponses(
            observation,
            name="responses",
            signature=",".join(f"({core})" for core in [*cores, "r", "r"]) + "->(r)",
            dtype=np.dtype(smallest_integer(observation.responses.n_classes)).name,
        )
        rng = pt.random.shared_rng(seed=None) if rng is None else rng
        return op(*inputs, rng=rng, return_next_rng=True, **kwargs)[1]
