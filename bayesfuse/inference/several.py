"""Models that observe several tables of responses: NUTS, and the labels of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference.chains import begin, initial_values, require_known, sample_nuts, thinned
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.pooling import rest_of
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import all_observed
from bayesfuse.pymc.parts import part
from bayesfuse.results.posterior import complete
from bayesfuse.results.storage import decide, round_off


def sample_several(
    model: pm.Model,
    start: Any,
    chosen: Mapping[str, Any],
    stored: Mapping[str, Any],
    settings: dict[str, Any],
) -> xr.DataTree:
    """Draw by NUTS, labels summed out; add a child per table with the labels of its items.

    Every table gives a start for the variables on which its responses depend, the first one for
    those that tables share.
    """
    names = [str(variable.name) for variable in all_observed(model)]
    if chosen["sampler"] not in ("auto", "nuts") or chosen["sweeps"] is not None:
        raise ModelError(
            "Models of several tables are sampled by NUTS, because parameters that tables share "
            "have no update given the labels of one: leave sampler= and sweeps= out. Got: "
            f"{chosen['sampler']!r} and {chosen['sweeps']} for {names}."
        )
    plans = {name: make_plan(part(model, name)) for name in names}
    if inferred := [name for plan in plans.values() for name in plan.inferred]:
        raise ModelError(
            "NUTS moves along gradients, which whole numbers do not have: give their values. Got: "
            f"{sorted(inferred)} to be inferred, in a model of several tables."
        )
    sizes = settings["chains"], settings["draws"]
    observations = [plan.observation for plan in plans.values()]
    kept = decide(model, observations, sizes, stacklevel=5, **stored)
    if not isinstance(start, str):
        require_mapping("start, unless it is a word,", start)
        require_known(start, model)
    streams = settings["random_seed"].spawn(settings["chains"])
    initial: list[dict[str, Any]] = [{} for _ in streams]
    for plan in plans.values():
        if isinstance(start, str):
            rest = rest_of(plan)
            own = initial_values(plan, rest, begin(plan, rest, start), streams)
        else:
            known = {v.name for v in plan.model.free_RVs}
            mine = {name: value for name, value in start.items() if name in known}
            own = initial_values(plan, None, begin(plan, None, mine), streams)
        for chain, point in zip(initial, own, strict=True):
            chain.update({name: value for name, value in point.items() if name not in chain})
    nuts_sampler = chosen["nuts_sampler"] or "pymc"  # which takes a start for every chain
    result = thinned(sample_nuts(initial, nuts_sampler, settings), kept.thin)
    result.attrs |= {"sampler": "nuts", "thin": kept.thin, "tables": names}
    posterior = result["posterior"].dataset
    for name, plan in plans.items():
        with plain_python():
            values = evaluate(plan.model, posterior, plan.variables)
        whole = xr.DataTree.from_dict({"posterior": posterior})
        complete(whole, plan.observation, values, log_likelihood=kept.log_likelihood)
        groups = {group: whole[group].dataset for group in whole.children if group != "posterior"}
        result[name] = xr.DataTree.from_dict(groups)
    round_off(result, kept.precision)
    return result
