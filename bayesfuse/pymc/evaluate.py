"""Values of a model's variables at all draws of a posterior."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from bayesfuse.numerics.kernels import Array


def evaluate(
    model: pm.Model, posterior: xr.Dataset, variables: Mapping[str, TensorVariable]
) -> dict[str, Array]:
    """Evaluate variables of a model at all draws of a chain at once, each (chain, draw, …).

    Draws may be stored in single precision; kernels are compiled for double.
    """
    free = {v: posterior[v.name].values.astype(v.dtype, copy=False) for v in model.free_RVs}
    known = {name: free[v] for name, v in variables.items() if v in free}
    graphs = {name: v for name, v in variables.items() if v not in free}
    if not graphs:
        return known
    batched = {v: TensorType(v.dtype, (None, *v.type.shape))() for v in free}
    fixed = {v: model.rvs_to_values[v] for v in model.observed_RVs}
    vectorised = vectorize_graph(list(graphs.values()), replace=batched | fixed)
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    # a graph without any free variable has no draws to run along
    full = [
        graph if graph.type.ndim > v.type.ndim else pt.repeat(graph[None], n_draws, axis=0)
        for graph, v in zip(vectorised, graphs.values(), strict=True)
    ]
    function = pytensor.function(list(batched.values()), full, on_unused_input="ignore")
    # one chain after another, because intermediate results may take several times the memory
    found = [function(*(values[at] for values in free.values())) for at in range(n_chains)]
    return known | {
        name: np.stack(chains)
        for name, chains in zip(graphs, zip(*found, strict=True), strict=True)
    }
