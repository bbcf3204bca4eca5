"""The PyTensor Ops over the kernels; their dispatch to numba and JAX stands beside them.

Two Ops carry every model: :class:`LogLik` (rater parameters to the matrix ``log_lik``) and
:class:`Evidence` (label parameters and ``log_lik`` to the log evidence). Neither differentiates
anything: the gradient of the second is among its own outputs, the gradient of the first is the
channel's kernel of expected counts.
"""

from __future__ import annotations

from collections.abc import Sequence
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

from bayesfuse.labels.base import LabelPrior
from bayesfuse.raters.base import RaterChannel

# Shapes in comments: n items, k classes; tables and rows as their channel or prior has them.


class LogLik(Op):
    """Log tables of a rater channel to ``log_lik`` (n, k).

    Inputs: the ``n_tables`` log tables, then the arrays of the channel's structure.
    """

    __props__ = ("channel", "n_tables")

    def __init__(self, channel: type[RaterChannel], n_tables: int) -> None:
        self.channel = channel
        self.n_tables = n_tables
        self.kernel = channel.log_lik_kernel

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        return Apply(self, variables, [pt.matrix(dtype="float64")])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        output_storage[0][0] = self.kernel(*inputs)

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        tables, structure = inputs[: self.n_tables], inputs[self.n_tables :]
        counts = ExpectedCounts(self.channel, self.n_tables)(*tables, cotangents[0], *structure)
        gradients = counts if isinstance(counts, list) else [counts]
        return [*gradients, *(disconnected_type() for _ in structure)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[place < self.n_tables] for place in range(len(node.inputs))]


class ExpectedCounts(Op):
    """Weights (n, k) to how often each table entry is expected to be used: the pullback above.

    Inputs: the log tables, the weights, the arrays of the channel's structure.
    """

    __props__ = ("channel", "n_tables")

    def __init__(self, channel: type[RaterChannel], n_tables: int) -> None:
        self.channel = channel
        self.n_tables = n_tables
        self.kernel = channel.expected_kernel

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        return Apply(self, variables, [table.type() for table in variables[: self.n_tables]])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        for storage, counts in zip(output_storage, self.kernel(*inputs), strict=True):
            storage[0] = counts

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        raise NotImplementedError(_no_second_derivative("expected counts"))


class Evidence(Op):
    """Log parameters of a label prior and ``log_lik`` (n, k) to the log evidence.

    Inputs: the ``n_rows`` log parameters, ``log_lik``, the arrays of the prior's structure.
    Outputs: total (), log evidence (units,), probability (n, k), expected counts like the rows.
    """

    __props__ = ("prior", "n_rows")

    def __init__(self, prior: type[LabelPrior], n_rows: int) -> None:
        self.prior = prior
        self.n_rows = n_rows
        self.kernel = prior.marginal_kernel

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor(value) for value in inputs]
        outputs = [pt.dscalar(), pt.dvector(), pt.dmatrix()]
        return Apply(self, variables, [*outputs, *(row.type() for row in variables[: self.n_rows])])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Any) -> None:
        for storage, value in zip(output_storage, self.kernel(*inputs), strict=True):
            storage[0] = np.asarray(value)

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        total, *others = cotangents
        if not all(isinstance(cotangent.type, DisconnectedType) for cotangent in others):
            raise NotImplementedError(_no_second_derivative("label probabilities"))
        structure = inputs[self.n_rows + 1 :]
        probability, *expected = outputs[2:]
        if self.prior.merges:
            probability = probability * structure[0][:, None]
        return [
            *(total * counts for counts in expected),
            total * probability,
            *(disconnected_type() for _ in structure),
        ]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[place <= self.n_rows] * len(node.outputs) for place in range(len(node.inputs))]


def _no_second_derivative(what: str) -> str:
    return (
        f"The {what} of a label model are a derivative of its log evidence, and have none of their "
        "own here: the model has gradients, not Hessians. Use them outside the log density."
    )


# Importing a backend's dispatch costs as much as importing pymc. A rewrite that changes nothing
# lets us wait until a function is compiled for that backend.


class _Announce(GraphRewriter):
    """Make the Ops known to a backend the first time a graph is compiled for it."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        import_module(f"bayesfuse.ops.{self.backend}")

    def apply(self, fgraph: FunctionGraph) -> None:
        pass


for _backend in ("numba", "jax"):
    optdb.register(f"bayesfuse_{_backend}", _Announce(_backend), _backend, position=0)
