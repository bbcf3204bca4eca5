"""Dispatch of the Ops to JAX, which calls their kernels on the host: faster than ``jax.numpy``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from pytensor.link.jax.dispatch import jax_funcify

from bayesfuse.observation.ops import NO_HESSIAN, Evidence, EvidenceOfParts


@jax_funcify.register(Evidence)
@jax_funcify.register(EvidenceOfParts)
def evidence(op: Evidence | EvidenceOfParts, **kwargs: Any) -> Any:
    """Return the outputs; XLA drops the calls that are not used."""

    def outputs(*inputs):
        data = [np.array(value) for value in inputs[op.n_tables :]]  # constants of the graph

        def values(*tables):
            return _on_host(lambda *arrays: op.values(*arrays, *data), tables)

        @jax.custom_vjp
        def total(*tables):
            return values(*tables)[0]

        def forward(*tables):
            value, *slopes = values(*tables)
            return value, slopes

        total.defvjp(forward, lambda slopes, by: tuple(by * slope for slope in slopes))

        @jax.custom_vjp
        def counts(*tables):
            return values(*tables)[1:]

        def refuse(*_):
            raise NotImplementedError(NO_HESSIAN)

        counts.defvjp(lambda *tables: (counts(*tables), None), refuse)
        tables = inputs[: op.n_tables]
        return total(*tables), *counts(*tables)

    return outputs


def _on_host(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Call a function of arrays, whose outputs have the shapes that they have at zeros."""
    kind = inputs[0].dtype

    def call(*arrays):
        return tuple(np.asarray(output, kind) for output in function(*map(np.array, arrays)))

    outputs = call(*(np.zeros(value.shape, value.dtype) for value in inputs))
    shapes = tuple(jax.ShapeDtypeStruct(output.shape, kind) for output in outputs)
    return jax.pure_callback(call, shapes, *inputs, vmap_method="sequential")
