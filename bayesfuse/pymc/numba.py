"""Dispatch of the Ops to numba: the kernels as they are."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import (
    get_numba_type,
    numba_njit,
    register_funcify_and_cache_key,
)

from bayesfuse.numerics.kernels import DIGEST
from bayesfuse.pymc.ops import Evidence, EvidenceOfParts, ExpectedCounts


@register_funcify_and_cache_key(ExpectedCounts)
def expected_counts(op: ExpectedCounts, node: Apply, **kwargs: Any) -> tuple[Any, str | None]:
    """Return the channel's kernel and a key under which the compiled graph is cached."""
    kernel = op.channel.expected_kernel
    key = _key(op, kernel)
    if op.n_tables > 1:
        return kernel, key

    @numba_njit
    def only(*inputs):  # a node with one output returns it bare
        return kernel(*inputs)[0]

    return only, key


@register_funcify_and_cache_key(Evidence)
def evidence(op: Evidence, node: Apply, **kwargs: Any) -> tuple[Any, str | None]:
    """Return the channel's kernel followed by the prior's, and a key to cache them under."""
    likelihood, marginal = op.channel.likelihood_kernel, op.prior.marginal_kernel
    one, two = op.n_rows, op.n_rows + op.n_tables
    three = two + op.n_structure

    @numba_njit
    def log_evidence(*inputs):
        found = likelihood(*inputs[one:two], *inputs[three:])
        outputs = marginal(*inputs[:one], *found, *inputs[two:three])
        # a scalar tensor is a 0-d array
        return (np.asarray(outputs[0]), *outputs[1:])

    return log_evidence, _key(op, likelihood, marginal)


@register_funcify_and_cache_key(EvidenceOfParts)
def evidence_of_parts(op: EvidenceOfParts, node: Apply, **kwargs: Any) -> tuple[Any, None]:
    """Return a call of Python, which hands the parts to threads or to a cluster."""
    kinds = numba.types.Tuple([get_numba_type(output.type) for output in node.outputs])

    def in_python(inputs: Any) -> tuple[Any, ...]:
        storage: list[list[Any]] = [[None] for _ in node.outputs]
        op.perform(node, inputs, storage)
        return tuple(value for (value,) in storage)

    @numba_njit
    def log_evidence(*inputs):
        with numba.objmode(found=kinds):
            found = in_python(inputs)
        return found

    return log_evidence, None


def _key(op: Any, *kernels: Callable[..., Any]) -> str | None:
    """Return a key that changes with the kernels' source files; None where there are none."""
    functions = [kernel.py_func for kernel in kernels]  # type: ignore[attr-defined]
    names = [function.__qualname__ for function in functions]
    try:  # a user's own channel may stand in any file, or in none
        sources = [inspect.getsource(inspect.getmodule(f)) for f in functions]  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return hashlib.sha256(repr((DIGEST, str(op), names, sources)).encode()).hexdigest()
