"""The points of a posterior at which a model is evaluated again: parameters, draw by draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables, require_like
from bayesfuse.results.access import SAME, all_draws, names_differ, observation_of


def parameters(result: xr.DataTree, model: pm.Model) -> dict[str, NDArray[Any]]:
    """Return the parameters of the label prior and the channel, (chain, draw, …).

    Raises
    ------
    ModelError
        The result is of another model, or lacks some of its variables.
    """
    observation = observation_of(result, model)
    draws = all_draws(result)
    missing = [variable.name for variable in model.free_RVs if variable.name not in draws]
    if missing:
        raise ModelError(
            "Labels follow from the parameters, so the result must hold those of the model. Got: "
            f"no {missing[0]!r} among {list(draws.data_vars)}."
        )
    answers, _ = observed(model)
    for variable in model.free_RVs:
        _require_same(draws[variable.name], variable, model)
    with plain_python():
        values = evaluate(model, draws, parameter_variables(answers))
    shapes = {name: drawn.shape[2:] for name, drawn in values.items()}
    observation.labels.check(shapes, observation.responses)
    observation.raters.check(shapes, observation.responses)
    return values


def _require_same(draws: xr.DataArray, variable: TensorVariable, model: pm.Model) -> None:
    """Raise ModelError if draws are of another model's variable of that name."""
    for dim in model.named_vars_to_dims.get(variable.name, ()):
        names = model.coords.get(dim)
        if names is None or dim not in draws.coords:
            continue
        if said := names_differ(dim, draws[dim].values, names):
            raise ModelError(SAME.format(said))
    require_like(draws.shape[2:], variable)


def central(observation: Observation, draws: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Return one point that stands for draws (chain, draw, …) of the parameters.

    That is the mean; where some parameters have none, such as the groups of raters, it is their
    most frequent value and the mean of the others over the draws that have it. Of equally frequent
    values, the one whose entries are most frequent one by one.
    """
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    whole = [name for name in flat if not observation.support(name).averages]
    if not whole:
        return {name: values.mean(axis=0) for name, values in flat.items()}
    values = np.concatenate([flat[name].reshape(len(flat[name]), -1) for name in whole], axis=1)
    often = np.zeros(len(values))
    for column in values.T:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        often += count[place]
    _, place, count = np.unique(values, axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    chosen = np.lexsort((often, count[place]))[-1]
    alike = place == place[chosen]
    return {
        name: drawn[chosen] if name in whole else drawn[alike].mean(axis=0)
        for name, drawn in flat.items()
    }


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
