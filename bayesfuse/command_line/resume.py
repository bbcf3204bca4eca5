"""Chains that go on from the last draws of a saved result."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.command_line import CommandError
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.recording import add_data
from bayesfuse.inference.sample import add_labels
from bayesfuse.results.compatibility import observation_of
from bayesfuse.results.storage import round_off


def last_points(before: xr.DataTree, model: pm.Model) -> list[dict[str, Any]]:
    """Return the last draw of every chain, as values at which it goes on."""
    observation_of(before, model)  # raises unless the result is of this model
    plan, sampler = make_plan(model), before.attrs.get("sampler")
    if sampler != "gibbs" or not plan.whole or plan.observation.labels.moves_labels:
        raise CommandError(
            "--resume continues chains of Gibbs sweeps: NUTS would tune anew, and labels on a "
            f"graph go on from labels that files do not hold. Got: {sampler} of "
            f"{type(model).__name__}"
        )
    names = [variable.name for variable in model.free_RVs]
    if missing := sorted(set(names) - set(before["posterior"].dataset)):
        raise CommandError(
            f"--resume needs the options of the saved result. Got: no {missing[0]!r} in its draws"
        )
    last = before["posterior"].dataset[names].isel(draw=-1)
    return [
        {name: last[name].values[at].astype(float) for name in names}
        for at in range(last.sizes["chain"])
    ]


def lengthened(model: pm.Model, before: xr.DataTree, more: list[xr.DataTree]) -> xr.DataTree:
    """Return a saved result with more draws of each chain, and what follows from all draws."""
    made = min(each["posterior"].sizes["draw"] for each in more)
    old = before["posterior"].dataset
    first = old.sizes["draw"]
    added = xr.concat(
        [each["posterior"].dataset.isel(draw=slice(made)) for each in more], "chain"
    ).assign_coords(chain=old["chain"], draw=range(first, first + made))
    plan = make_plan(model)
    names = [variable.name for variable in model.free_RVs + model.deterministics]
    draws = xr.concat([old[names], added[names]], "draw")
    result = xr.DataTree.from_dict({"posterior": draws, "sample_stats": xr.Dataset()})
    result.attrs = before.attrs
    add_data(result, plan.model)
    add_labels(result, None, plan, None)
    round_off(result, before.attrs.get("precision", "double"))
    return result
