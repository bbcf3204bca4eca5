"""How much every model counts in an answer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import xarray as xr

from bayesfuse.results.averaging import common_units

MOST = 3e7
"""Values of log likelihoods up to which they are looked at."""

VOTES = "vote shares"
"""How an answer names them."""


def weigh(results: Mapping[str, xr.DataTree], votes: float) -> xr.Dataset:
    """Return the weights of models and, for information, their elpd.

    All models weigh the same. Weights by leave-one-out were tried on twelve crowds with known
    labels and were worse: it prefers models that predict responses, also where their labels are
    worse. A last one of the name :data:`VOTES` has the weight ``votes``.
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
    """Return elpd and its standard error; missing where they would take long."""
    import arviz as az

    found = {name: np.full(len(results), np.nan) for name in ("elpd", "se")}
    size = sum(_values(result) for result in results.values())
    if not 0 < size <= MOST:
        return found
    with warnings.catch_warnings():  # nothing depends on these numbers
        warnings.filterwarnings("ignore", "Estimated shape parameter of Pareto", UserWarning)
        for at, each in enumerate(common_units(results).values()):
            # else ArviZ takes a minute for the effective sample size of every rater's parameters
            loo = az.loo(each, reff=1.0)
            found["elpd"][at], found["se"][at] = loo.elpd, loo.se
    return found


def _values(result: xr.DataTree) -> float:
    if "log_likelihood" not in result.children:
        return np.inf
    return float(sum(values.size for values in result["log_likelihood"].data_vars.values()))
