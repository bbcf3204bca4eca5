"""Chains of a result that continue from their last draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError
from bayesfuse.inference.completion import Run
from bayesfuse.inference.gradients import start_at
from bayesfuse.inference.plan import Plan
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import LogParameters
from bayesfuse.observation.evaluate import with_deterministics
from bayesfuse.results import schema
from bayesfuse.results.compatibility import observation_of, require_free_variables

ROUNDED = 1e-12  # distance from 0 and 1 at which chains continue from shares that were rounded


class LastDraws:
    """The points at which the chains of a result continue, in the place of an initializer."""

    def __init__(
        self, result: xr.DataTree, model: pm.Model, plans: Mapping[str, Plan], uses_gibbs: bool
    ) -> None:
        sampler, tables = result.attrs.get("sampler"), list(plans)
        self.plan = plan = plans[tables[0]]
        labels = plan.observation.labels
        is_gibbs = uses_gibbs and sampler == "gibbs" and plan.is_fully_conjugate
        if not is_gibbs or labels.capabilities.moves_labels:
            conjugate = {block.variable for block in plan.all_blocks}
            others = [v.name for v in model.free_RVs if v not in conjugate]
            kind = f"{sampler} of {type(labels).__name__} labels"
            kind += f", with {', '.join(others)} by NUTS" if others else ""
            if sampler is None:
                kind = "a result that no sampler drew, such as that of bf.fuse or bf.fit"
            raise ModelError(
                "resume= continues chains of Gibbs sweeps: NUTS would have to tune again, and "
                "labels on a graph continue from labels of the last sweep, which results do not "
                f"hold. Got: {kind}."
            )
        observation_of(result, model)  # raises if the result is of another model
        draws = require_free_variables(result, model)
        last = draws[[variable.name for variable in model.free_RVs]].isel(draw=-1)
        self.starts = [
            start_at(plan, _point(last.isel(chain=chain))) for chain in range(last.sizes["chain"])
        ]
        self.start = self.starts[0]
        self._next = iter(self.starts)

    def rows(self, rng: np.random.Generator) -> LogParameters:
        """Return the parameters of the next chain, in kernel coordinates."""
        return next(self._next).rows


def _point(draw: xr.Dataset) -> dict[str, Any]:
    return {str(name): _interior(values.values) for name, values in draw.data_vars.items()}


def _interior(values: Array) -> Array:
    """Return shares with those that were rounded to 0 or 1 inside, and other values unchanged."""
    if values.dtype.kind != "f" or values.min() < 0.0 or values.max() > 1.0:
        return values
    return np.clip(values.astype(float), ROUNDED, 1.0 - ROUNDED)


def joined(result: xr.DataTree, run: Run, model: pm.Model) -> Run:
    """Return the earlier and the new draws of all chains as one run."""
    names = [variable.name for variable in model.free_RVs + model.deterministics]
    earlier = result[schema.POSTERIOR].dataset
    earlier = earlier[[name for name in names if name in earlier]]
    numbers = np.arange(run.posterior.sizes["draw"]) + int(earlier["draw"].values[-1]) + 1
    new = with_deterministics(model, run.posterior)[list(earlier.data_vars)]
    new = new.assign_coords(chain=earlier["chain"], draw=numbers)
    posterior = xr.concat([earlier, new], "draw", combine_attrs="override")
    posterior.attrs["sampling_time"] = sum(
        draws.attrs.get("sampling_time", 0.0) for draws in (earlier, run.posterior)
    )
    attributes = {str(name): value for name, value in result.attrs.items()}
    attributes.pop(schema.MISSING, None)
    return Run(posterior, run.stats, None, run.is_cut, attributes)
