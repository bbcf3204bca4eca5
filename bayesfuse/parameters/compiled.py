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


class _SharedFlags:
    """Global flags of PyTensor, set by the first of the open contexts and reset by the last."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make, self._lock, self._n_open = make, threading.Lock(), 0
        self._changed: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if not self._n_open:
                self._changed = pytensor.config.change_flags(**self._make())
                self._changed.__enter__()
            self._n_open += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_open -= 1
                if not self._n_open:
                    self._changed.__exit__()


def _in_python() -> dict[str, Any]:
    # without rewriting, which takes longer than the values, and without looking for C
    linker = VMLinker(use_cloop=False, c_thunks=False)
    return {"mode": Mode(linker=linker, optimizer=None), "cxx": ""}


without_compilation = _SharedFlags(_in_python)
"""Context in which PyTensor functions are compiled to Python."""

without_traces = _SharedFlags(lambda: {"traceback__limit": 0})
"""Context in which variables do not keep where they were made, a third of the time of a model."""


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
