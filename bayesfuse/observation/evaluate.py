"""Variables of a model at all draws, with its names, and where results store parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import xarray as xr
from pymc.backends.arviz import find_constants, find_observations
from pymc.stats.convergence import log_warnings, run_convergence_checks
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.threads import check
from bayesfuse.parameters.compiled import without_compilation
from bayesfuse.parameters.dirichlet import Dirichlet, DirichletMixture
from bayesfuse.parameters.factor import Factor
from bayesfuse.raters.base import RaterChannel

DRAWS = "chain", "draw"
CACHE_ENTRIES = 2**16  # numbers of the draws that are worked on at a time


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
    with without_compilation():
        function = pytensor.function(list(batched.values()), full, on_unused_input="ignore")
    draws = [values.reshape(-1, *values.shape[2:]) for values in free.values()]
    n_draws = sizes[0] * sizes[1]
    outputs: list[Array] = []
    for part in in_parts(n_draws, sum(values[:1].size for values in draws)):
        check()
        values = function(*(variable[part] for variable in draws))
        if not outputs:
            outputs = [np.empty((n_draws, *value.shape[1:]), value.dtype) for value in values]
        for output, value in zip(outputs, values, strict=True):
            output[part] = value
    for name, output in zip(graphs, outputs, strict=True):
        known[name] = output.reshape(*sizes, *output.shape[1:])
    return known


def in_parts(n_draws: int, size: int) -> Iterator[slice]:
    """Yield slices of draws of ``size`` numbers that fit into the cache: passes are faster."""
    step = max(CACHE_ENTRIES // max(size, 1), 1)
    for first in range(0, n_draws, step):
        yield slice(first, min(first + step, n_draws))


def as_posterior(model: pm.Model, values: Mapping[str, Array]) -> xr.Dataset:
    """Return values (chain, draw, …) of the model's variables, with its names."""
    named = _named(model, values, DRAWS)
    return named.assign_coords({dim: np.arange(named.sizes[dim]) for dim in DRAWS})


def with_deterministics(model: pm.Model, posterior: xr.Dataset) -> xr.Dataset:
    """Return draws with the model's deterministics, all computed in one call."""
    values = evaluate(model, posterior, {v.name: v for v in model.deterministics})
    return posterior.merge(_named(model, values, DRAWS))


def model_data(model: pm.Model) -> dict[str, xr.Dataset]:
    """Return the groups of observed and constant data that PyMC adds to samples."""
    groups = {}
    for group, find in (("observed_data", find_observations), ("constant_data", find_constants)):
        if data := find(model):
            named = _named(model, data)
            numbers = {d: pd.RangeIndex(n) for d, n in named.sizes.items() if d not in named.coords}
            groups[group] = named.assign_coords(numbers)
    return groups


def _named(model: pm.Model, values: Mapping[str, Any], first: tuple[str, ...] = ()) -> xr.Dataset:
    """Give values of the model's variables its names; ``first`` are dimensions before its own."""
    dims = {name: axes for name, axes in model.named_vars_to_dims.items() if name in values}
    variables = {}
    for name, value in values.items():
        unnamed = [f"{name}_dim_{axis}" for axis in range(np.ndim(value) - len(first))]
        variables[name] = ((*first, *dims.get(name, unnamed)), value)
    used = {dim for axes, _ in variables.values() for dim in axes}
    named = {dim: names for dim, names in model.coords.items() if dim in used and names is not None}
    return xr.Dataset(
        variables, {d: np.array(n) if isinstance(n, tuple) else n for d, n in named.items()}
    )


MAX_CHECKED = 100  # entries of a variable whose convergence is checked


def check_convergence(posterior: xr.Dataset, sample_stats: xr.Dataset, model: pm.Model) -> None:
    """Log the problems that PyMC's checks find among some entries of every variable."""
    chosen = {}
    for variable in model.free_RVs:
        if variable.dtype.startswith("int"):
            continue  # a constant has no R̂
        values = posterior[variable.name].values
        values = values.reshape(*values.shape[:2], -1)
        values = values[:, :, np.ptp(values, axis=(0, 1)) > 0]  # nor have structural zeros
        step = max(-(-values.shape[2] // MAX_CHECKED), 1)
        chosen[variable.name] = (("chain", "draw", f"{variable.name}_entry"), values[:, :, ::step])
    groups = {"posterior": xr.Dataset(chosen), "sample_stats": sample_stats}
    log_warnings(run_convergence_checks(xr.DataTree.from_dict(groups), model))


MAX_STORED_NUMBERS = 1000  # of a value, because HDF5 holds 64 kB in an attribute

POOL, PRIOR = "pool", "prior"  # where rows of raters without responses come from

DIFFERENT = "the priors of the fitted raters differ"


def described(
    model: pm.Model, labels: LabelPrior, raters: RaterChannel, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return factors and parameters as JSON, from which ``bf.predict`` rebuilds them."""
    newcomers: dict[str, Any] = {}
    for name, value in getattr(model, "new_rater_defaults", {}).items():
        if isinstance(value, str):
            newcomers[name] = {"reason": value}
        else:
            source = source_of(model, name, value)
            newcomers[name] = {"source": source, "stored": _stored(model.root, value)}
    return {
        "labels": {**kind(labels), "needs": list(labels.needs)},
        "raters": kind(raters),
        "parameters": {name: _stored(model.root, value) for name, value in parameters.items()},
        "newcomers": newcomers,
    }


def source_of(model: pm.Model, name: str, value: Any) -> str:
    """Return the source of new raters' rows: the pool, or the prior."""
    pooled = [pool.pooled for pool in getattr(model, "pools", ()) if pool.parameter == name]
    return POOL if isinstance(value, Variable) and all(pooled) else PRIOR


def kind(factor: Factor) -> dict[str, Any]:
    """Return the name and settings of a factor of this package, without a name for others."""
    factor_class, settings = type(factor), factor.settings()
    ours = factor_class.__module__.partition(".")[0] == __name__.partition(".")[0]
    small = all(np.size(value) <= MAX_STORED_NUMBERS for value in settings.values())
    return (
        {"kind": factor_class.__name__, "settings": settings} if ours and small else {"kind": None}
    )


def _stored(model: pm.Model, value: Any) -> dict[str, Any] | None:
    """Return where a result stores a value: as a variable, as constant data, or here."""
    if isinstance(value, Variable) and not isinstance(value, Constant):
        if value in model.free_RVs or value in model.deterministics:
            return {"variable": value.name}
        return {"constant": value.name} if value in model.data_vars else None
    number = np.asarray(value.data if isinstance(value, Constant) else value)
    return {"value": number.tolist()} if number.size <= MAX_STORED_NUMBERS else None


def common_mean(prior: Array | Dirichlet) -> Array | str:
    """Return the mean rows of a rater under a prior (raters, …, columns), or why there are none."""
    rows = prior if isinstance(prior, Dirichlet) else Dirichlet(prior)
    arrays = [rows.concentration]
    if isinstance(rows, DirichletMixture):
        arrays = [np.moveaxis(array, 1, 0) for array in (rows.concentration, rows.log_shares)]
    if any((array != array[0]).any() for array in arrays):
        return DIFFERENT
    return rows.mean()[0]
