"""The mixture of several posteriors: draws of each in proportion to its weight."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.results.compatibility import evenly_spaced
from bayesfuse.results.contents import all_draws, named

SHARED = ("prevalence", "confusion", "sensitivity", "specificity")
"""Variables that mean the same in every model that has them."""

DRAWS, CHAINS = 250, 4
"""Draws of the mixture."""


def mixture(
    results: Mapping[str, xr.DataTree], weights: Mapping[str, float], rng: np.random.Generator
) -> xr.Dataset | None:
    """Return draws of what all models share, None if that is nothing.

    Draws of a model are evenly spaced, and all are in random order, so that every chain and every
    part of it is of the mixture. Diagnostics of chains belong to the models, not to this.

    Parameters
    ----------
    results : mapping of name to DataTree
        With a posterior.
    weights : mapping of name to float
        Of these models, relative to each other.
    rng : Generator
    """
    draws = {name: all_draws(result) for name, result in results.items()}
    found: dict[str, xr.DataArray] = {}
    parts = _parts(weights, CHAINS * DRAWS)
    order = rng.permutation(CHAINS * DRAWS)
    for variable in SHARED:
        values = [value for each in draws.values() if (value := named(each, variable)) is not None]
        if len(values) < len(draws) or any(value.dims != values[0].dims for value in values):
            continue
        first = values[0]
        pooled = np.concatenate(
            [_spaced(value, parts[name]) for name, value in zip(draws, values, strict=True)]
        )
        shape = (CHAINS, DRAWS, *pooled.shape[1:])
        coords = {dim: first[dim].values for dim in first.dims[2:] if dim in first.coords}
        found[variable] = xr.DataArray(
            pooled[order].reshape(shape).astype(np.float32),
            {"chain": np.arange(CHAINS), "draw": np.arange(DRAWS)} | coords,
            first.dims,
        )
    return xr.Dataset(found) if found else None


def _parts(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Share a number of draws in proportion to weights, by largest remainders."""
    share = np.array(list(weights.values()))
    exact = total * share / share.sum()
    parts = exact.astype(np.int64)
    first = np.argsort(parts - exact, kind="stable")
    parts[first[: total - parts.sum()]] += 1
    return dict(zip(weights, parts.tolist(), strict=True))


def _spaced(values: xr.DataArray, number: int) -> NDArray[np.float64]:
    flat = values.values.reshape(-1, *values.shape[2:])
    return flat[evenly_spaced(number, len(flat))]
