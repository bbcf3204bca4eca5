"""Values of a model's variables at all draws of a posterior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from bayesfuse.numerics.kernels import Array

IN_CACHE = 2**16
"""Numbers of the draws that are worked on at a time."""


def evaluate(
    model: pm.Model, posterior: xr.Dataset, variables: Mapping[str, TensorVariable]
) -> dict[str, Array]:
    """Evaluate variables of a model at all draws, each (chain, draw, …), in double precision."""
    free = {v: posterior[v.name].values.astype(v.dtype, copy=False) for v in model.free_RVs}
    known = {name: free[v] for name, v in variables.items() if v in free}
    graphs = {name: v for name, v in variables.items() if v not in free}
    if not graphs:
        return known
    batched = {v: TensorType(v.dtype, (None, *v.type.shape))() for v in free}
    fixed = {v: model.rvs_to_values[v] for v in model.observed_RVs}
    vectorised = vectorize_graph(list(graphs.values()), replace=batched | fixed)
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    # a graph without any free variable has no draws to run along
    full = [
        graph if graph.type.ndim > v.type.ndim else graph[None]
        for graph, v in zip(vectorised, graphs.values(), strict=True)
    ]
    function = pytensor.function(list(batched.values()), full, on_unused_input="ignore")
    draws = [values.reshape(-1, *values.shape[2:]) for values in free.values()]
    n_draws = sizes[0] * sizes[1]
    found: list[Array] = []
    for part in in_parts(n_draws, sum(values[:1].size for values in draws)):
        values = function(*(each[part] for each in draws))
        found = found or [np.empty((n_draws, *own.shape[1:]), own.dtype) for own in values]
        for whole, own in zip(found, values, strict=True):
            whole[part] = own
    for name, whole in zip(graphs, found, strict=True):
        known[name] = whole.reshape(*sizes, *whole.shape[1:])
    return known


def in_parts(n_draws: int, size: int) -> Iterator[slice]:
    """Yield slices of draws of ``size`` numbers that fit into the cache: passes are faster."""
    step = max(IN_CACHE // max(size, 1), 1)
    for first in range(0, n_draws, step):
        yield slice(first, min(first + step, n_draws))
