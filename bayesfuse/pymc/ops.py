"""The PyTensor Ops over the kernels; their dispatch to numba and JAX stands beside them.

:class:`Evidence` carries every model: parameters to the log evidence of the responses, labels
summed out. It differentiates nothing: its gradient with respect to the label parameters is among
its own outputs, the one with respect to the rater tables is the channel's kernel of expected
counts, an Op of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import GraphRewriter

from bayesfuse.raters.base import RaterChannel

NO_HESSIAN = (
    "The {} of a label model are a derivative of its log evidence, and have none of their own "
    "here: the model has gradients, not Hessians. Use them outside the log density."
)

# Shapes in comments: n items, k classes; tables and rows as their channel or prior has them.


class _OfArrays(Op):
    """An Op whose outputs are ``values`` of arrays."""

    values: Callable[..., Any]

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        found = self.values(*map(np.asarray, inputs))
        for storage, value in zip(output_storage, found, strict=True):
            storage[0] = np.asarray(value)


class ExpectedCounts(_OfArrays):
    """Log tables, weights (n, k) and the channel's structure to expected counts of entries."""

    __props__ = ("channel", "n_tables")

    def __init__(self, channel: type[RaterChannel], n_tables: int) -> None:
        self.channel = channel
        self.n_tables = n_tables
        self.values = channel.expected_kernel

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        return Apply(self, variables, [table.type() for table in variables[: self.n_tables]])

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        raise NotImplementedError(NO_HESSIAN.format("expected counts"))


class Evidence(_OfArrays):
    """Log parameters of a label prior and log tables of a rater channel to the log evidence.

    Inputs: ``n_rows`` log parameters, ``n_tables`` log tables, ``n_structure`` arrays of the
    prior's structure, then those of the channel's.
    Outputs: total (), log evidence (units,), probability (n, k), expected counts like the rows.
    """

    __props__ = ("prior", "channel", "n_rows", "n_tables", "n_structure")

    def __init__(
        self, prior: Any, channel: Any, n_rows: int, n_tables: int, n_structure: int
    ) -> None:
        self.prior, self.channel = prior, channel
        self.n_rows, self.n_tables, self.n_structure = n_rows, n_tables, n_structure

    def split(self, inputs: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Return log rows, log tables, the prior's structure and the channel's."""
        one, two, three = np.cumsum([self.n_rows, self.n_tables, self.n_structure])
        return inputs[:one], inputs[one:two], inputs[two:three], inputs[three:]

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        outputs = [pt.dscalar(), pt.dvector(), pt.dmatrix()]
        return Apply(self, variables, [*outputs, *(row.type() for row in variables[: self.n_rows])])

    def values(self, *inputs: Any) -> Any:
        """Return the outputs for arrays."""
        rows, tables, structure, answers = self.split(inputs)
        likelihood = self.channel.likelihood_kernel(*tables, *answers)
        return self.prior.marginal_kernel(*rows, *likelihood, *structure)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        total = _only_the_total(cotangents, "label probabilities")
        _, tables, structure, answers = self.split(inputs)
        probability, *expected = outputs[2:]
        weight = total * self.weight(probability, structure)
        counts = ExpectedCounts(self.channel, self.n_tables)(*tables, weight, *answers)
        return [
            *(total * used for used in expected),
            *(counts if isinstance(counts, list) else [counts]),
            *(disconnected_type() for _ in (*structure, *answers)),
        ]

    def weight(self, probability: Any, structure: Any) -> Any:
        """Return how often items are of every class, merged items as often as there are."""
        return probability * structure[0][:, None] if self.prior.merges else probability

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        parameters = self.n_rows + self.n_tables
        return [[place < parameters] * len(node.outputs) for place in range(len(node.inputs))]


class EvidenceOfParts(_OfArrays):
    """As :class:`Evidence`, of responses in parts: parameters and tables to total and counts."""

    __props__ = ("observation", "n_rows")

    def __init__(self, observation: Any, n_rows: int) -> None:
        self.observation = observation
        self.n_rows = n_rows

    def __str__(self) -> str:
        return type(self).__name__

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        return Apply(self, variables, [pt.dscalar(), *(value.type() for value in variables)])

    def values(self, *inputs: Any) -> Any:
        """Return the outputs for arrays."""
        rows, tables = inputs[: self.n_rows], inputs[self.n_rows :]
        total, of_rows, of_tables = self.observation.of_tables(rows, tables)
        return np.asarray(total, dtype=float), *of_rows, *of_tables

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        total = _only_the_total(cotangents, "expected counts")
        return [total * counts for counts in outputs[1:]]


def _only_the_total(cotangents: Sequence[Variable], others: str) -> Any:
    """Return the cotangent of the first output; there are derivatives of no other one."""
    total, *rest = cotangents
    if not all(isinstance(cotangent.type, DisconnectedType) for cotangent in rest):
        raise NotImplementedError(NO_HESSIAN.format(others))
    return total


class _Announce(GraphRewriter):
    """Import a backend's dispatch, which is slow, when a graph is first compiled for it."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        import_module(f"bayesfuse.pymc.{self.backend}")

    def apply(self, fgraph: FunctionGraph) -> None:
        pass


for _backend in ("numba", "jax"):
    optdb.register(f"bayesfuse_{_backend}", _Announce(_backend), _backend, position=0)
