"""NUTS by PyMC: for whole models, and for what Gibbs steps leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import xarray as xr
from pymc.sampling.mcmc import NUTPIE_INSTALLED
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import TensorType

from bayesfuse.inference.begin import Beginning


def first_points(
    beginnings: list[Beginning], streams: list[np.random.Generator]
) -> list[dict[str, Any]]:
    """Return a point for every chain; the first table decides on variables that tables share."""
    points: list[dict[str, Any]] = [{} for _ in streams]
    for begun in beginnings:
        for point, stream in zip(points, streams, strict=True):
            own = begun.values(stream)
            point.update({name: value for name, value in own.items() if name not in point})
    return points


def sample_nuts(
    beginnings: list[Beginning], nuts_sampler: str | None, settings: dict[str, Any]
) -> xr.DataTree:
    """Draw all variables by NUTS, from points around the start."""
    points = first_points(beginnings, settings["random_seed"].spawn(settings["chains"]))
    if nuts_sampler is None:
        # of several tables every chain has a start of its own, which nutpie does not take
        one = len(beginnings) == 1 and NUTPIE_INSTALLED
        nuts_sampler = "nutpie" if one else "pymc"
    settings = settings | {"nuts_sampler": nuts_sampler}
    told = bool(points[0])  # jitter would undo the start
    if nuts_sampler == "nutpie":
        settings["initvals"] = (
            _drawn_anew(beginnings[0], points[0]) if len(beginnings) == 1 else points[0]
        )
        if told:
            own = settings.get("compile_kwargs", {})
            settings["compile_kwargs"] = {"jitter_rvs": set()} | own
    elif told:
        settings["initvals"] = points
    if nuts_sampler == "pymc":
        settings.setdefault("init", "adapt_diag" if told else "auto")
    elif nuts_sampler in ("numpyro", "blackjax"):
        own = settings.get("nuts", {})
        settings["nuts"] = {"jitter": not told, "chain_method": "vectorized"} | own
    return pm.sample(**settings)


def _drawn_anew(begun: Beginning, one: dict[str, Any]) -> dict[str, Any]:
    """Return a random starting point: nutpie evaluates one for every chain, with its own seed."""
    if begun.start.values is not None:
        return one
    stream = pytensor.shared(np.random.default_rng(0))
    _, seed = pt.random.integers(0, 2**31 - 1, rng=stream, return_next_rng=True)

    def draw(number: Any) -> list[Any]:
        point = begun.values(np.random.default_rng(int(number)))
        return [np.asarray(point[name]) for name in one]

    types = [TensorType("float64", (None,) * np.ndim(value)) for value in one.values()]
    drawn = wrap_py([seed.type], types)(draw)(seed)
    return dict(zip(one, drawn if isinstance(drawn, list) else [drawn], strict=True))


def thinned(result: xr.DataTree, thin: int) -> xr.DataTree:
    """Return every ``thin``-th draw."""
    return result.isel(draw=slice(None, None, thin), missing_dims="ignore") if thin > 1 else result
