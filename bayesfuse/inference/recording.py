"""Draws as a posterior, and deterministics for all of them at once: PyMC's trace is slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.backends.arviz import coords_and_dims_for_inferencedata, find_constants, find_observations
from pymc.stats.convergence import log_warnings, run_convergence_checks

from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.dirichlet import RowPrior
from bayesfuse.pymc.evaluate import evaluate

LARGE_K = 0.7  # Pareto shape above which a fit could not even serve as a proposal
FEW_DRAWS = 100  # below so many draws nothing can be said about the tail of their importance ratios
SAME = 1e-6  # log ratios that differ by less differ by rounding


@dataclass(frozen=True)
class Approximation:
    """Draws (draw, …), bound by iteration, k̂, and prior and fit by parameter where Dirichlet."""

    values: dict[str, Array]
    trace: Array
    converged: bool
    pareto_k: float
    rows: Mapping[str, tuple[RowPrior, RowPrior]] = field(default_factory=dict)


def pareto_shape(log_ratio: Array) -> float:
    """Return k̂ of log importance ratios (draws,), NaN for fewer than 100 draws.

    Below 0.5 an approximation is close, above 0.7 it misses much of the joint posterior. Yao,
    Vehtari, Simpson & Gelman (2018), Yes, but did it work?, ICML, algorithm 1.
    """
    from arviz_stats.base import array_stats

    finite = log_ratio[np.isfinite(log_ratio)]
    if len(finite) < FEW_DRAWS:
        return float("nan")
    if np.ptp(finite) < SAME:
        return 0.0
    return float(array_stats.psislw(-finite)[1])  # made for the ratios 1 / likelihood


def as_posterior(model: pm.Model, values: Mapping[str, Array]) -> xr.Dataset:
    """Return values (chain, draw, …) of the model's variables, with its names."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    sizes = [max(np.shape(drawn)[axis] for drawn in values.values()) for axis in (0, 1)]
    numbers = dict(zip(("chain", "draw"), map(np.arange, sizes), strict=True))
    return _named(values, numbers | coords, dims, ("chain", "draw"))


def add_deterministics(result: xr.DataTree, model: pm.Model) -> None:
    """Compute the model's deterministics for all draws of ``result["posterior"]`` in one call."""
    posterior = result["posterior"].dataset
    values = evaluate(model, posterior, {v.name: v for v in model.deterministics})
    coords, dims = coords_and_dims_for_inferencedata(model)
    added = _named(values, coords, dims, ("chain", "draw"))
    result["posterior"] = xr.DataTree(posterior.merge(added))


def add_data(result: xr.DataTree, model: pm.Model) -> None:
    """Add the groups of observed and constant data that PyMC gives to what it samples."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    for group, find in (("observed_data", find_observations), ("constant_data", find_constants)):
        if data := find(model):
            named = _named(data, coords, dims)
            numbers = {d: pd.RangeIndex(n) for d, n in named.sizes.items() if d not in coords}
            result[group] = xr.DataTree(named.assign_coords(numbers))


def _named(
    values: Mapping[str, Any],
    coords: Mapping[Any, Any],
    dims: Mapping[str, Sequence[str]],
    first: tuple[str, ...] = (),
) -> xr.Dataset:
    """Give values of the model's variables its names; ``first`` are dimensions before its own."""
    found = {}
    for name, value in values.items():
        unnamed = [f"{name}_dim_{axis}" for axis in range(np.ndim(value) - len(first))]
        found[name] = ((*first, *dims.get(name, unnamed)), value)
    used = {dim for own, _ in found.values() for dim in own}
    return xr.Dataset(found, {dim: names for dim, names in coords.items() if dim in used})


def check_convergence(result: xr.DataTree, model: pm.Model, most: int = 100) -> None:
    """Log what PyMC's checks find among at most ``most`` entries of every variable, for speed."""
    posterior = result["posterior"].dataset
    chosen = {}
    for variable in model.free_RVs:
        if variable.dtype.startswith("int"):
            continue  # what never changes has no R̂
        values = posterior[variable.name].values
        values = values.reshape(*values.shape[:2], -1)
        values = values[:, :, np.ptp(values, axis=(0, 1)) > 0]  # zeros for good have no R̂
        step = max(-(-values.shape[2] // most), 1)
        chosen[variable.name] = (("chain", "draw", f"{variable.name}_entry"), values[:, :, ::step])
    sample_stats = xr.DataTree(result["sample_stats"].dataset)
    tree = {"posterior": xr.DataTree(xr.Dataset(chosen)), "sample_stats": sample_stats}
    log_warnings(run_convergence_checks(xr.DataTree(children=tree), model))
