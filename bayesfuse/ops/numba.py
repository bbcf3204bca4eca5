"""Dispatch of the Ops to numba: the kernels as they are."""

from __future__ import annotations

import hashlib
import inspect
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from bayesfuse.ops import Evidence, ExpectedCounts, LogLik


@register_funcify_and_cache_key(LogLik)
@register_funcify_and_cache_key(ExpectedCounts)
@register_funcify_and_cache_key(Evidence)
def kernel_of(op: Any, node: Apply, **kwargs: Any) -> tuple[Any, str]:
    """Return the kernel and a key under which the compiled graph is cached."""
    # The cached machine code contains the kernel's, so the key changes with its source file.
    function = op.kernel.py_func
    source = inspect.getsource(inspect.getmodule(function))  # type: ignore[arg-type]
    key = f"{op} {function.__qualname__} {source}"
    kernel = op.kernel
    if isinstance(op, Evidence):
        kernel = _total_as_tensor(kernel)
    elif isinstance(op, ExpectedCounts) and op.n_tables == 1:
        kernel = _only_output(kernel)
    return kernel, hashlib.sha256(key.encode()).hexdigest()


def _total_as_tensor(kernel: Any) -> Any:
    """Turn the first output, a number, into the 0-d array that a scalar tensor is."""

    @numba_njit
    def evidence(*inputs):
        outputs = kernel(*inputs)
        return (np.asarray(outputs[0]), *outputs[1:])

    return evidence


def _only_output(kernel: Any) -> Any:
    """Unpack the one-tuple: a node of a graph with one output returns it bare."""

    @numba_njit
    def only(*inputs):
        return kernel(*inputs)[0]

    return only
