"""Where chains begin, and NUTS from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import TensorType

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference import pooling
from bayesfuse.inference.gradients import Gradients, natural
from bayesfuse.inference.plan import Block, Plan, require_value
from bayesfuse.inference.start import Start, disperse, find_start
from bayesfuse.observation import Rows


def begin(plan: Plan, rest: Gradients | None, start: str | Mapping[str, Any]) -> Start:
    """Choose the start."""
    if not isinstance(start, str):
        require_mapping("start, unless it is a word,", start)
        return Start({}, "given", values=dict(start))
    if plan.pooled:
        return pooling.begin(plan, start, rest)
    return find_start(plan.begun(), plan.continuous_priors(), start, rest)


def initial_values(
    plan: Plan, rest: Gradients | None, begun: Start, streams: list[np.random.Generator]
) -> list[dict[str, Any]]:
    """Return one starting point per chain, in the variables' own space."""
    if begun.values is not None:
        require_known(begun.values, plan.model)
        for variable in plan.model.free_RVs:
            if variable.name in begun.values:
                require_value(plan.model, variable, begun.values[variable.name])
        return [dict(begun.values) for _ in streams]
    return [dispersed(plan, rest, begun, stream) for stream in streams]


def require_known(values: Mapping[str, Any], model: pm.Model) -> None:
    """Raise ModelError if values to begin with are not of free variables."""
    known = {variable.name for variable in model.free_RVs}
    if unknown := set(values) - known:
        raise ModelError(
            f"A start must give values to free variables of the model, {sorted(known)}. Got: "
            f"{sorted(unknown)}."
        )


def dispersed(
    plan: Plan, rest: Gradients | None, begun: Start, rng: np.random.Generator
) -> dict[str, Any]:
    """Draw a starting point, in the variables' own space."""
    if plan.pooled:
        return pooling.disperse(plan, begun.rows, rng, rest)
    begin: Rows = {**begun.rows, **plan.indices()}
    return natural(plan, rest, disperse(plan.observation, begin, plan.priors(), rng, rest))


def drawn_anew(
    plan: Plan, rest: Gradients | None, begun: Start, one: dict[str, Any]
) -> dict[str, Any]:
    """Return a starting point for nutpie, which takes one for all chains: a random one.

    nutpie evaluates it for every chain, with a seed of its own.
    """
    if begun.values is not None:
        return one
    stream = pytensor.shared(np.random.default_rng(0))
    _, seed = pt.random.integers(0, 2**31 - 1, rng=stream, return_next_rng=True)

    def draw(number: Any) -> list[Any]:
        point = dispersed(plan, rest, begun, np.random.default_rng(int(number)))
        return [np.asarray(point[name]) for name in one]

    types = [TensorType("float64", (None,) * np.ndim(value)) for value in one.values()]
    drawn = wrap_py([seed.type], types)(draw)(seed)
    return dict(zip(one, drawn if isinstance(drawn, list) else [drawn], strict=True))


def as_begun(model: pm.Model, blocks: list[Block]) -> pm.Model:
    """Return a view of the model for chains of a step that draws all variables, these blocks.

    ``pm.sample`` compiles a function for the first point of every chain and derives a density that
    no such step needs. Both would take longer than the sweeps over a small table. The view shares
    all that the model holds.
    """
    place = {value.name: index for index, value in enumerate(model.value_vars)}
    ordered = sorted(blocks, key=lambda block: place[block.value])

    def first_point(overrides: Mapping[str, Any], **kwargs: Any) -> Any:
        with np.errstate(divide="ignore"):  # zero is a legal probability
            point = {
                block.value: np.asarray(
                    block.write(block.support.to_kernel(overrides[block.variable.name]))
                )
                for block in ordered
            }
        return lambda seed: point

    view: pm.Model = object.__new__(type(model))
    view.__dict__.update(model.__dict__)
    view.__dict__.update(logp=lambda: None, _make_initial_point=first_point)
    return view


def sample_nuts(
    initial: list[dict[str, Any]], nuts_sampler: str, settings: dict[str, Any]
) -> xr.DataTree:
    """Run NUTS from these starting points, by the implementation of this name."""
    settings["nuts_sampler"] = nuts_sampler
    if initial[0]:  # jitter would undo the start
        if nuts_sampler == "nutpie":
            own = settings.get("compile_kwargs", {})
            settings["compile_kwargs"] = {"jitter_rvs": set()} | own
        else:
            settings["initvals"] = initial
    if nuts_sampler == "pymc":
        settings.setdefault("init", "adapt_diag" if initial[0] else "auto")
    elif nuts_sampler in ("numpyro", "blackjax"):
        own = settings.get("nuts", {})
        settings["nuts"] = {"jitter": not initial[0], "chain_method": "vectorized"} | own
    return pm.sample(**settings)


def thinned(result: xr.DataTree, thin: int) -> xr.DataTree:
    """Return one draw in so many."""
    return result.isel(draw=slice(None, None, thin), missing_dims="ignore") if thin > 1 else result
