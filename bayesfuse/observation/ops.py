"""The PyTensor Ops over the kernels: log tables to the log evidence and its gradient."""

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

NO_HESSIAN = (
    "The expected counts of a label model are a derivative of its log evidence, and have none of "
    "their own here: the model has gradients, not Hessians. Use them outside the log density."
)


class _OfTables(Op):
    """``n_tables`` log tables, the label prior's first, and data to log evidence and its gradient.

    The first ``n_rows`` tables are the label prior's; ``values`` computes the outputs of arrays.
    """

    values: Callable[..., Any]
    n_rows: int
    n_tables: int

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        counts = [table.type() for table in variables[: self.n_tables]]
        return Apply(self, variables, [pt.dscalar(), *counts])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        outputs = self.values(*map(np.asarray, inputs))
        for storage, value in zip(output_storage, outputs, strict=True):
            storage[0] = np.asarray(value)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        total, *others = cotangents
        if not all(isinstance(cotangent.type, DisconnectedType) for cotangent in others):
            raise NotImplementedError(NO_HESSIAN)
        data = inputs[self.n_tables :]
        return [*(total * counts for counts in outputs[1:]), *(disconnected_type() for _ in data)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        places = range(len(node.inputs))
        return [[place < self.n_tables] * len(node.outputs) for place in places]


class Evidence(_OfTables):
    """By the kernels of a label prior and of a rater channel.

    Data: ``n_structure`` arrays of the prior's structure, then those of the channel's.
    """

    __props__ = ("prior", "channel", "n_rows", "n_tables", "n_structure")

    def __init__(
        self, prior: Any, channel: Any, n_rows: int, n_tables: int, n_structure: int
    ) -> None:
        self.prior, self.channel = prior, channel
        self.n_rows, self.n_tables, self.n_structure = n_rows, n_tables, n_structure

    def values(self, *inputs: Any) -> Any:
        """Return the outputs for arrays."""
        one, two, three = self.n_rows, self.n_tables, self.n_tables + self.n_structure
        tables, structure, answers = inputs[one:two], inputs[two:three], inputs[three:]
        likelihood = self.channel.likelihood_kernel(*tables, *answers)
        outputs = self.prior.marginal_kernel(*inputs[:one], *likelihood, *structure)
        total, _, weight, *expected = outputs
        if self.prior.capabilities.merges:
            weight = weight * structure[0][:, None]  # merged items as often as there are
        return total, *expected, *self.channel.expected_kernel(*tables, weight, *answers)


class EvidenceOfParts(_OfTables):
    """As :class:`Evidence`, of an observation in parts, which holds the data."""

    __props__ = ("observation", "n_rows", "n_tables")

    def __init__(self, observation: Any, n_rows: int, n_tables: int) -> None:
        self.observation, self.n_rows, self.n_tables = observation, n_rows, n_tables

    def __str__(self) -> str:
        return type(self).__name__

    def values(self, *inputs: Any) -> Any:
        """Return the outputs for arrays."""
        rows, tables = inputs[: self.n_rows], inputs[self.n_rows :]
        total, of_rows, of_tables = self.observation.of_tables(rows, tables)
        return np.asarray(total, dtype=float), *of_rows, *of_tables


class _Announce(GraphRewriter):
    """Import a backend's dispatch, which is slow, when a graph is first compiled for it."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        import_module(f"bayesfuse.observation.{self.backend}")

    def apply(self, fgraph: FunctionGraph) -> None:
        pass


for _backend in ("numba", "jax"):
    optdb.register(f"bayesfuse_{_backend}", _Announce(_backend), _backend, position=0)
