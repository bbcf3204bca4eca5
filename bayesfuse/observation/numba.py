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
from bayesfuse.observation.ops import Evidence, EvidenceOfParts


@register_funcify_and_cache_key(Evidence)
def evidence(op: Evidence, node: Apply, **kwargs: Any) -> tuple[Any, str | None]:
    """Return the kernels one after the other, and a key to cache the compiled graph under."""
    likelihood, expected = op.channel.likelihood_kernel, op.channel.expected_kernel
    marginal = op.prior.marginal_kernel
    one, two, three = op.n_rows, op.n_tables, op.n_tables + op.n_structure

    @numba_njit
    def as_often(probability, inputs):  # merged items as often as there are
        return probability * inputs[two][:, None]

    @numba_njit
    def once(probability, inputs):
        return probability

    weigh = as_often if op.prior.capabilities.merges else once

    @numba_njit
    def log_evidence(*inputs):
        outputs = likelihood(*inputs[one:two], *inputs[three:])
        outputs = marginal(*inputs[:one], *outputs, *inputs[two:three])
        counts = expected(*inputs[one:two], weigh(outputs[2], inputs), *inputs[three:])
        # a scalar tensor is a 0-d array
        return (np.asarray(outputs[0]), *outputs[3:], *counts)

    return log_evidence, _key(op, likelihood, marginal, expected)


@register_funcify_and_cache_key(EvidenceOfParts)
def evidence_of_parts(op: EvidenceOfParts, node: Apply, **kwargs: Any) -> tuple[Any, None]:
    """Return a call of Python, which hands the parts to threads or to a cluster."""
    kinds = numba.types.Tuple([get_numba_type(output.type) for output in node.outputs])

    def in_python(inputs: Any) -> tuple[Any, ...]:
        return tuple(map(np.asarray, op.values(*inputs)))

    @numba_njit
    def log_evidence(*inputs):
        with numba.objmode(outputs=kinds):
            outputs = in_python(inputs)
        return outputs

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
