"""Values and compiled functions of the graphs of a PyMC model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymc as pm
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from pytensor.link.vm import VMLinker
from pytensor.tensor.variable import TensorVariable

_lock = threading.Lock()
_open_contexts: list[Any] = []
"""One entry for each open :func:`without_compilation`; the first has set the flags."""


@contextmanager
def without_compilation() -> Iterator[None]:
    """Compile PyTensor functions to Python; flags are global, so the last to leave resets them."""
    with _lock:
        if not _open_contexts:
            # without rewriting, which takes longer than the values, and without looking for C
            mode = Mode(linker=VMLinker(use_cloop=False, c_thunks=False), optimizer=None)
            flags = pytensor.config.change_flags(mode=mode, cxx="")
            flags.__enter__()
            _open_contexts.append(flags)
        else:
            _open_contexts.append(None)
    try:
        yield
    finally:
        with _lock:
            if len(_open_contexts) == 1:
                _open_contexts[0].__exit__()
            _open_contexts.pop()


def depends(model: pm.Model, graphs: Iterable[Any]) -> bool:
    """Return whether graphs depend on free variables of the model."""
    return not set(model.free_RVs).isdisjoint(ancestors(graphs))


def shape_of(variable: TensorVariable) -> tuple[int, ...]:
    """Return the shape of a variable, evaluated if it is not static."""
    if None not in variable.type.shape:
        return variable.type.shape
    with without_compilation():
        return tuple(int(size) for size in variable.shape.eval())


def value_function(model: pm.Model, variables: Mapping[str, TensorVariable]) -> Callable[..., Any]:
    """Compile variables of a model as a function of a point in value space."""
    names = list(variables)
    graphs = model.replace_rvs_by_values(list(variables.values()))
    function = model.compile_fn(graphs, inputs=model.value_vars, on_unused_input="ignore")
    value_names = [value.name for value in model.value_vars]  # points may hold more
    return lambda point: dict(zip(names, function({n: point[n] for n in value_names}), strict=True))
