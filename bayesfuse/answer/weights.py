"""How much every model counts in an answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import xarray as xr

from bayesfuse.results.averaging import common_units

MOST = 3e7
"""Values of log likelihoods up to which they are looked at."""


def weigh(results: Mapping[str, xr.DataTree]) -> xr.Dataset:
    """Return equal weights and, for information, the expected log predictive density of models.

    Leave-one-out prefers models that predict responses, also where their labels are worse; on
    twelve crowds with known labels equal weights had the better labels.
    """
    names = list(results)
    found = {"weight": np.full(len(names), 1.0 / len(names))} | _loo(results)
    return xr.Dataset({name: ("model", values) for name, values in found.items()}, {"model": names})


def _loo(results: Mapping[str, xr.DataTree]) -> dict[str, np.ndarray]:
    """Return elpd and its standard error; missing where they would take long."""
    import arviz as az

    found = {name: np.full(len(results), np.nan) for name in ("elpd", "se")}
    size = sum(_values(result) for result in results.values())
    if not 0 < size <= MOST:
        return found
    with warnings.catch_warnings():  # of Pareto shapes; nothing depends on these numbers
        warnings.simplefilter("ignore", UserWarning)
        for at, each in enumerate(common_units(results).values()):
            loo = az.loo(each)
            found["elpd"][at], found["se"][at] = loo.elpd, loo.se
    return found


def _values(result: xr.DataTree) -> float:
    if "log_likelihood" not in result.children:
        return np.inf
    return float(sum(values.size for values in result["log_likelihood"].data_vars.values()))
