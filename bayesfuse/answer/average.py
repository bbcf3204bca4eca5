"""The average of several models: their weights, and draws of the mixture of their posteriors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import xarray as xr

from bayesfuse.results.averaging import common_units
from bayesfuse.results.compatibility import evenly_spaced
from bayesfuse.results.contents import all_draws, named

MOST = 3e7  # largest number of log likelihoods for which elpd is computed
VOTES = "vote shares"  # name of the vote shares among the models

SHARED = ("prevalence", "confusion", "sensitivity", "specificity")
"""Variables that mean the same in every model that has them."""

DRAWS, CHAINS = 250, 4  # draws of the mixture


def weigh(results: Mapping[str, xr.DataTree], votes: float) -> xr.Dataset:
    """Return the weights of models and, for information, their elpd.

    All models have the same weight. Weights by leave-one-out were tried on twelve crowds with known
    labels and were worse: it prefers models that predict responses, even if their labels are worse.
    A last model of the name :data:`VOTES` has the weight ``votes``.
    """
    names = list(results)
    equal = np.full(len(names), 1.0 / len(names))
    found = {"weight": equal, **_loo(results)}
    if votes:
        names.append(VOTES)
        missing = dict.fromkeys(found, np.nan) | {"weight": votes}
        found["weight"] = equal * (1.0 - votes)
        found = {name: np.append(values, missing[name]) for name, values in found.items()}
    return xr.Dataset({name: ("model", values) for name, values in found.items()}, {"model": names})


def _loo(results: Mapping[str, xr.DataTree]) -> dict[str, np.ndarray]:
    """Return elpd and its standard error, NaN where they would take long."""
    import arviz as az

    found = {name: np.full(len(results), np.nan) for name in ("elpd", "se")}
    size = 0
    for result in results.values():
        if "log_likelihood" not in result.children:
            return found
        size += sum(values.size for values in result["log_likelihood"].data_vars.values())
    if not 0 < size <= MOST:
        return found
    with warnings.catch_warnings():  # nothing depends on these numbers
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto", UserWarning)
        for at, each in enumerate(common_units(results).values()):
            # else ArviZ takes a minute for the effective sample size of every rater's parameters
            loo = az.loo(each, reff=1.0)
            found["elpd"][at], found["se"][at] = loo.elpd, loo.se
    return found


def mixture(
    results: Mapping[str, xr.DataTree], weights: Mapping[str, float], rng: np.random.Generator
) -> xr.Dataset | None:
    """Return draws of the variables that all models share, None if there are none.

    Draws of a model are evenly spaced, and all are in random order, so that every chain and every
    part of it is of the mixture. Diagnostics of chains belong to the models, not to the mixture.
    """
    draws = {name: all_draws(result) for name, result in results.items()}
    total = CHAINS * DRAWS
    # numbers of draws in proportion to the weights, by largest remainders
    share = np.array([weights[name] for name in draws])
    exact = total * share / share.sum()
    parts = exact.astype(np.int64)
    first = np.argsort(parts - exact, kind="stable")
    parts[first[: total - parts.sum()]] += 1
    order = rng.permutation(total)
    found: dict[str, xr.DataArray] = {}
    for variable in SHARED:
        values = [value for each in draws.values() if (value := named(each, variable)) is not None]
        if len(values) < len(draws) or any(value.dims != values[0].dims for value in values):
            continue
        spaced = []
        for value, number in zip(values, parts.tolist(), strict=True):
            flat = value.values.reshape(-1, *value.shape[2:])
            spaced.append(flat[evenly_spaced(number, len(flat))])
        pooled = np.concatenate(spaced)[order].astype(np.float32)
        dims = values[0].dims
        coords = {dim: values[0][dim].values for dim in dims[2:] if dim in values[0].coords}
        found[variable] = xr.DataArray(
            pooled.reshape(CHAINS, DRAWS, *pooled.shape[1:]),
            {"chain": np.arange(CHAINS), "draw": np.arange(DRAWS)} | coords,
            dims,
        )
    return xr.Dataset(found) if found else None
