"""What is written down per draw of a Gibbs chain, and what is worked out for all draws at once.

PyMC's own trace evaluates every deterministic of the model at every draw, which for a Gibbs sweep
of a tenth of a millisecond is most of the work.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pymc.backends.arviz import coords_and_dims_for_inferencedata
from pymc.backends.ndarray import NDArray
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.type import TensorType

from bayesfuse.inference.conjugate import Block
from bayesfuse.simplex import Array, from_log_rows


def parameter_trace(model: pm.Model, blocks: list[Block]) -> NDArray:
    """Return a PyMC trace backend that records the variables of ``blocks`` and nothing else."""
    place = {value.name: index for index, value in enumerate(model.value_vars)}
    order = [place[block.value] for block in blocks]

    def natural(*point: Array) -> list[Array]:
        return [
            from_log_rows(block.read({block.value: point[index]}), block.kind)
            for block, index in zip(blocks, order, strict=True)
        ]

    variables = [block.variable for block in blocks]
    shapes = {v.name: tuple(v.shape.eval()) for v in variables}
    return NDArray(
        model=model,
        vars=variables,
        fn=natural,
        var_shapes=shapes,
        var_dtypes={v.name: np.dtype(v.dtype) for v in variables},
    )


def add_deterministics(result: xr.DataTree, model: pm.Model) -> None:
    """Compute the model's deterministics for all draws of ``result["posterior"]`` in one call."""
    if not model.deterministics:
        return
    posterior = result["posterior"].dataset
    batched = {
        variable: TensorType(variable.dtype, (None, *variable.type.shape))()
        for variable in model.free_RVs
    }
    graphs = vectorize_graph(list(model.deterministics), replace=batched)
    function = pytensor.function(list(batched.values()), graphs, on_unused_input="ignore")
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    draws = [
        posterior[variable.name].values.reshape(-1, *posterior[variable.name].shape[2:])
        for variable in batched
    ]
    coords, dims = coords_and_dims_for_inferencedata(model)
    found = {}
    for variable, values in zip(model.deterministics, function(*draws), strict=True):
        name = variable.name
        own = dims.get(name, [f"{name}_dim_{axis}" for axis in range(values.ndim - 1)])
        found[name] = (("chain", "draw", *own), values.reshape(*sizes, *values.shape[1:]))
    used = {dim for own, _ in found.values() for dim in own}
    added = xr.Dataset(found, {dim: values for dim, values in coords.items() if dim in used})
    result["posterior"] = xr.DataTree(posterior.merge(added))
