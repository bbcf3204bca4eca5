"""What is written down per draw of a Gibbs chain, and what is worked out for all draws at once.

PyMC's own trace evaluates every deterministic of the model at every draw, which for a Gibbs sweep
of a tenth of a millisecond is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pymc.backends.arviz import (
    coords_and_dims_for_inferencedata,
    find_constants,
    find_observations,
)
from pymc.backends.ndarray import NDArray
from pymc.stats.convergence import log_warnings, run_convergence_checks

from bayesfuse.errors import interruptible
from bayesfuse.inference.gibbs import LabelGibbs
from bayesfuse.inference.plan import Block, Plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.compiled import value_function
from bayesfuse.pymc.evaluate import evaluate, in_parts
from bayesfuse.raters.typed_confusion import UNORDERED
from bayesfuse.results.draws import Draws


class _WithLabels(NDArray):
    """A trace of which every chain's copy holds its own draws, and all share ``labels``.

    PyMC copies a given trace for every chain, but shallowly: all would write into one array.
    Labels come with a draw as one of its statistics and go to ``labels``, which sums them up.
    ``parameters`` are those of the observation at a point; one draw in ``thin`` is looked at.
    """

    labels: Draws | None = None
    parameters: Callable[[Mapping[str, Array]], dict[str, Array]]
    thin = 1

    def setup(self, draws: int, chain: int, sampler_vars: Any = None) -> None:
        self.samples: dict[str, Array] = {}
        self._stats = None
        self._after_warmup = 0
        super().setup(draws, chain, sampler_vars)

    def record(self, point: Any, sampler_stats: Any = None, *, in_warmup: bool) -> None:
        if self.labels is not None:
            (drawn,) = (stats["labels"] for stats in sampler_stats if "labels" in stats)
            sampler_stats = [
                {name: value for name, value in stats.items() if name != "labels"}
                for stats in sampler_stats
            ]
            if not in_warmup:  # first, so that no draw is recorded whose labels are not
                if self._after_warmup % self.thin == 0:
                    with interruptible:
                        self.labels.add(self.chain, self.parameters(point), drawn)
                self._after_warmup += 1
        super().record(point, sampler_stats, in_warmup=in_warmup)

    def _slice(self, idx: slice) -> _WithLabels:
        if self.labels is not None:  # PyMC cuts the chains that it keeps
            self.labels.kept.add(self.chain)
        sliced: _WithLabels = super()._slice(idx)
        return sliced


class _OwnSamples(_WithLabels):
    """The same for what :class:`LabelGibbs` draws and nothing else.

    Draws are kept in PyMC's coordinates, from which all of a chain's are worked out in one call.
    """

    blocks: Mapping[str, Block]

    def record(self, point: Any, sampler_stats: Any = None, *, in_warmup: bool) -> None:
        if not self.samples:  # whose shapes are known only now
            for name, value in zip(self.varnames, self.fn(*point.values()), strict=True):
                self.samples[name] = np.empty(
                    (self.draws, *np.shape(value)), np.asarray(value).dtype
                )
        super().record(point, sampler_stats, in_warmup=in_warmup)

    def get_values(self, varname: str, burn: int = 0, thin: int = 1) -> Array:
        values = super().get_values(varname, burn, thin)
        first = self._natural(varname, values[:1])
        found = np.empty((len(values), *first.shape[1:]), first.dtype)
        for part in in_parts(len(values), first.size):
            found[part] = self._natural(varname, values[part])
        return found

    def point(self, idx: int) -> dict[str, Array]:
        return {name: self._natural(name, values) for name, values in super().point(idx).items()}

    def _natural(self, name: str, values: Array) -> Array:
        block = self.blocks[name]
        return block.support.from_kernel(block.read({block.value: values}))

    def _slice(self, idx: slice) -> _OwnSamples:
        sliced: Any = super()._slice(idx)
        sliced.blocks = self.blocks
        own: _OwnSamples = sliced
        return own


def label_trace(plan: Plan, labels: Draws, thin: int) -> NDArray:
    """Return PyMC's own trace of all variables, with the labels that a step shows summed up."""
    trace = _WithLabels(model=plan.model)
    trace.labels, trace.thin = labels, thin
    trace.parameters = value_function(plan.model, plan.variables)
    return trace


def parameter_trace(model: pm.Model, step: LabelGibbs, labels: Draws | None = None) -> NDArray:
    """Return a PyMC trace backend that records what ``step`` draws and nothing else.

    Labels that ``step`` shows are summed up in ``labels``.
    """
    blocks = {block.variable.name: block for block in step.blocks}
    place = {value.name: index for index, value in enumerate(model.value_vars)}
    order = [place[block.value] for block in step.blocks]
    trace = _OwnSamples(
        model=model,
        vars=[block.variable for block in step.blocks],
        fn=lambda *point: [point[index] for index in order],
        var_shapes={},
        var_dtypes={},
    )
    trace.blocks = blocks
    if labels is not None:
        others = step.others(model.initial_point()) if step.others is not None else {}

        def parameters(point: Mapping[str, Array]) -> dict[str, Array]:
            # what is not drawn is the same at every point, since all variables of the model are
            read = {block.parameter: block.read(point) for block in step.blocks}
            own = {b.parameter: b.support.from_kernel(read[b.parameter]) for b in step.blocks}
            for pooled in step.pools:
                for name, value in pooled.pool.implied(pooled.values(read)).items():
                    own[name] = step.observation.support(name).from_kernel(value)
            return others | own

        trace.parameters = parameters
        trace.labels = labels
    return trace


def as_posterior(model: pm.Model, values: Mapping[str, Array]) -> xr.Dataset:
    """Return values (draw, …) of the model's variables as one chain, with its names.

    Draws that do not come from a chain are one chain: several would only seem to agree.
    """
    coords, dims = coords_and_dims_for_inferencedata(model)
    n_draws = max(len(drawn) for drawn in values.values())
    coords = {"chain": [0], "draw": np.arange(n_draws)} | coords
    one_chain = {name: drawn[None] for name, drawn in values.items()}
    return _named(one_chain, coords, dims, ("chain", "draw"))


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
    for group, data in (
        ("observed_data", find_observations(model)),
        ("constant_data", find_constants(model)),
    ):
        if data:
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
    """Log what PyMC's convergence checks find among evenly spaced entries of every variable.

    PyMC checks every entry, at a millisecond each: half a minute for a few hundred raters.
    """
    posterior = result["posterior"].dataset
    chosen = {}
    for variable in model.free_RVs:
        if variable.dtype.startswith("int"):
            continue  # what never changes has no R̂
        if UNORDERED in (model.named_vars_to_dims.get(variable.name) or ()):
            continue  # chains that agree may number types differently
        values = posterior[variable.name].values
        values = values.reshape(*values.shape[:2], -1)
        values = values[:, :, np.ptp(values, axis=(0, 1)) > 0]  # zeros for good have no R̂
        step = max(-(-values.shape[2] // most), 1)
        chosen[variable.name] = (("chain", "draw", f"{variable.name}_entry"), values[:, :, ::step])
    sample_stats = xr.DataTree(result["sample_stats"].dataset)
    tree = {"posterior": xr.DataTree(xr.Dataset(chosen)), "sample_stats": sample_stats}
    log_warnings(run_convergence_checks(xr.DataTree(children=tree), model))
