"""Dispatch of the Ops to JAX, which calls their kernels on the host: faster than ``jax.numpy``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from pytensor.link.jax.dispatch import jax_funcify

from bayesfuse.pymc.ops import NO_HESSIAN, Evidence, EvidenceOfParts


@jax_funcify.register(Evidence)
@jax_funcify.register(EvidenceOfParts)
def evidence(op: Evidence | EvidenceOfParts, **kwargs: Any) -> Any:
    """Return the outputs; XLA drops the calls that are not used."""

    def outputs(*inputs):
        data = [np.array(each) for each in inputs[op.n_tables :]]  # constants of the graph

        def values(*tables):
            return _on_host(lambda *given: op.values(*given, *data), tables)

        @jax.custom_vjp
        def total(*tables):
            return values(*tables)[0]

        def forward(*tables):
            value, *slopes = values(*tables)
            return value, slopes

        total.defvjp(forward, lambda slopes, by: tuple(by * each for each in slopes))

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

    def call(*given):
        return tuple(np.asarray(each, kind) for each in function(*map(np.array, given)))

    found = call(*(np.zeros(each.shape, each.dtype) for each in inputs))
    shapes = tuple(jax.ShapeDtypeStruct(each.shape, kind) for each in found)
    return jax.pure_callback(call, shapes, *inputs, vmap_method="sequential")
