"""The draws of the parameters at which a model is evaluated again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

from bayesfuse.errors import ModelError, require_count
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.compiled import plain_python
from bayesfuse.pymc.evaluate import evaluate
from bayesfuse.pymc.model import observed, parameter_variables, require_like
from bayesfuse.results.compatibility import SAME, names_differ, observation_of
from bayesfuse.results.contents import all_draws


def parameters(result: xr.DataTree, model: pm.Model) -> dict[str, NDArray[Any]]:
    """Return the parameters of the label prior and the channel, (chain, draw, …)."""
    observation = observation_of(result, model)
    draws = all_draws(result)
    missing = [variable.name for variable in model.free_RVs if variable.name not in draws]
    if missing:
        raise ModelError(
            "The result must hold all free variables of the model, because labels follow from "
            f"them. Got: no {missing[0]!r} among {list(draws.data_vars)}."
        )
    answers, _ = observed(model)
    for variable in model.free_RVs:
        _require_variable(draws[variable.name], variable, model)
    with plain_python():
        values = evaluate(model, draws, parameter_variables(answers))
    shapes = {name: drawn.shape[2:] for name, drawn in values.items()}
    observation.labels.check(shapes, observation.responses)
    observation.raters.check(shapes, observation.responses)
    return values


def _require_variable(draws: xr.DataArray, variable: TensorVariable, model: pm.Model) -> None:
    """Raise ModelError unless draws have the coordinates and the shape of a variable."""
    for dim in model.named_vars_to_dims.get(variable.name, ()):
        names = model.coords.get(dim)
        if names is None or dim not in draws.coords:
            continue
        if differ := names_differ(dim, draws[dim].values, names):
            raise ModelError(SAME.format(differ))
    require_like(draws.shape[2:], variable)


def central(observation: Observation, draws: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Return the posterior mean of draws (chain, draw, …) of the parameters.

    Parameters without a mean, such as groups of raters, take their most frequent value, and the
    others their mean over those draws. Ties go to the entries that are most frequent one by one.
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


def evenly_spaced(draws: int, size: int) -> NDArray[np.int64]:
    """Return the indices of ``draws`` of ``size`` draws, evenly spaced, repeated if too few."""
    return (np.arange(draws) * max(size, draws) // draws) % size


def evenly_spaced_rows(
    result: xr.DataTree, model: pm.Model, observation: Observation, draws: int, least: int = 1
) -> Iterator[Rows]:
    """Return the log rows of the parameters at evenly spaced posterior draws."""
    require_count("draws", draws, least)
    flat = {
        name: values.reshape(-1, *values.shape[2:])
        for name, values in parameters(result, model).items()
    }
    chosen = evenly_spaced(int(draws), len(next(iter(flat.values()))))
    return (observation.rows({name: flat[name][draw] for name in flat}) for draw in chosen)
