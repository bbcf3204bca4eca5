"""Where predictions of other items find the parameters of a model, as results store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.variable import TensorVariable

from bayesfuse.labels.base import LabelPrior
from bayesfuse.numerics.kernels import Array
from bayesfuse.parameters.dirichlet import Dirichlet, DirichletMixture
from bayesfuse.parameters.factor import Factor
from bayesfuse.raters.base import RaterChannel

LARGEST = 1000
"""Numbers per value that are stored, because HDF5 holds 64 kB in an attribute."""

POOL, PRIOR = "pool", "prior"
"""Where rows of raters without responses come from."""

DIFFERENT = "the priors of the fitted raters differ"


def described(
    model: pm.Model,
    labels: LabelPrior,
    raters: RaterChannel,
    parameters: Mapping[str, TensorVariable],
) -> dict[str, Any]:
    """Return what ``bf.predict`` reads from a result, as JSON: factors, parameters and newcomers.

    Factors of other packages have no name, and values that are stored nowhere are None.
    """
    newcomers: dict[str, Any] = {}
    for name, value in getattr(model, "newcomers", {}).items():
        if isinstance(value, str):
            newcomers[name] = {"reason": value}
        else:
            source = source_of(model, name, value)
            newcomers[name] = {"source": source, "stored": _stored(model.root, value)}
    return {
        "labels": {**kind(labels), "needs": list(labels.needs)},
        "raters": kind(raters),
        "parameters": {name: _stored(model.root, value) for name, value in parameters.items()},
        "newcomers": newcomers,
    }


def source_of(model: pm.Model, name: str, value: Any) -> str:
    """Return where the rows of new raters come from: what others have in common, or the prior."""
    own = [pool.pooled for pool in getattr(model, "pools", ()) if pool.parameter == name]
    return POOL if isinstance(value, Variable) and all(own) else PRIOR


def kind(factor: Factor) -> dict[str, Any]:
    """Return the name and settings of a factor of this package, without a name for others."""
    own, settings = type(factor), factor.settings()
    ours = own.__module__.partition(".")[0] == __name__.partition(".")[0]
    small = all(np.size(value) <= LARGEST for value in settings.values())
    return {"kind": own.__name__, "settings": settings} if ours and small else {"kind": None}


def _stored(model: pm.Model, value: Any) -> dict[str, Any] | None:
    """Return where a result stores a value: as a variable, as constant data, or here."""
    if isinstance(value, Variable) and not isinstance(value, Constant):
        if value in model.free_RVs or value in model.deterministics:
            return {"variable": value.name}
        return {"constant": value.name} if value in model.data_vars else None
    number = np.asarray(value.data if isinstance(value, Constant) else value)
    return {"value": number.tolist()} if number.size <= LARGEST else None


def common_mean(prior: Array | DirichletMixture) -> Array | str:
    """Return the mean rows of a rater under a prior (raters, …, columns), or why there are none."""
    mixed = isinstance(prior, DirichletMixture)
    rows = prior if isinstance(prior, DirichletMixture) else Dirichlet(prior)
    arrays = [np.moveaxis(rows.concentration, 1 if mixed else 0, 0)]
    if isinstance(rows, DirichletMixture):
        arrays.append(np.moveaxis(rows.log_shares, 1, 0))
    if any((array != array[0]).any() for array in arrays):
        return DIFFERENT
    mean: Array = rows.mean()[0]
    return mean
