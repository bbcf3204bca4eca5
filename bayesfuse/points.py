"""The points of a posterior at which a model is evaluated again: parameters, draw by draw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ModelError
from bayesfuse.inference.conjugate import plain_python
from bayesfuse.inference.recording import evaluate
from bayesfuse.model import observed, parameter_variables
from bayesfuse.observation import Observation, Rows


def parameters(result: xr.DataTree, model: pm.Model) -> dict[str, NDArray[Any]]:
    """Return the parameters of the label prior and the channel, (chain, draw, …).

    Raises
    ------
    ModelError
        The result lacks variables of the model.
    """
    group = next((name for name in ("posterior", "point") if name in result.children), None)
    found = result[group].dataset if group else xr.Dataset()
    missing = [variable.name for variable in model.free_RVs if variable.name not in found]
    if missing:
        raise ModelError(
            "Labels follow from the parameters, so the result must hold those of the model. Got: "
            f"no {missing[0]!r} among {list(found.data_vars)}."
        )
    draws = found if group == "posterior" else found.expand_dims(chain=[0], draw=[0])
    with plain_python():
        return evaluate(model, draws, parameter_variables(observed(model)[0]))


def evenly(draws: int, size: int) -> NDArray[np.int64]:
    """Return the places of as many draws among ``size``, evenly spaced, all in turn if few."""
    return (np.arange(draws) * max(size, draws) // draws) % size


def spread(
    result: xr.DataTree, model: pm.Model, observation: Observation, draws: int
) -> Iterator[Rows]:
    """Give the log rows of as many posterior draws, evenly spaced, all of them in turn if few."""
    flat = {
        name: values.reshape(-1, *values.shape[2:])
        for name, values in parameters(result, model).items()
    }
    size = len(next(iter(flat.values())))
    for place in evenly(draws, size):
        yield observation.rows({name: values[place] for name, values in flat.items()})
