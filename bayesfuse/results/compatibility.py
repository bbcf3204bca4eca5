"""Checks that a result belongs to a model or to given data, and its parameters in the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pytensor.graph.basic import Variable

from bayesfuse.data.arrays import as_python, shown
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_count
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ChunkedResponseModel, LogParameters, ResponseModel
from bayesfuse.observation.evaluate import evaluate, source_of
from bayesfuse.observation.model import observed, parameter_variables, require_like
from bayesfuse.results import contents, schema
from bayesfuse.results.fitted import Fitted, bind, from_result, population_names, stored_log_odds

SAME = (
    "A result and a model must be of the same responses, raters and label prior, because one is "
    "read with the other. Got: {}."
)

DIFFERENCES = {
    "responses": "other responses",
    "gold": "other gold labels",
    "labels": "another label prior",
    "structure": "another graph, other sequences, populations, covariates or classifier",
    "channel": "another rater channel",
    "groups": "other groups of raters",
}
"""Names of the parts that may differ, for error messages."""


def observation_of(result: xr.DataTree, model: pm.Model | None) -> ResponseModel:
    """Return the observation of a model, which must be of the result, or rebuild it from this."""
    if model is None:
        return rebuilt(result)[0]
    _, observation = observed(model)
    if isinstance(observation, ChunkedResponseModel):
        observation.refuse()
    require_same(result, observation.fingerprint, observation.responses)
    return observation


def rebuilt(result: xr.DataTree) -> tuple[ResponseModel, dict[str, NDArray[Any]]]:
    """Return observation and parameters of a result, where it stores all that these need."""
    fitted, responses = from_result(result), contents.responses_of(result)
    arguments: dict[str, Any] = {"sequences": contents.sequences_of(result, responses)}
    number, names = contents.constants(result).get("population_index"), fitted.population_names
    if number is not None and names is not None:
        arguments["populations"] = names[number.values]
    if missing := [name for name in fitted.needs if arguments.get(name) is None]:
        raise contents.needs_model(f"the {missing[0]} of its items")
    observation, values, _ = bind(
        fitted,
        responses,
        {name: arguments[name] for name in fitted.needs},
        contents.gold_of(result, responses),
    )
    digests = {
        part: digest for part, digest in observation.fingerprint.items() if part != "channel"
    }
    require_same(
        result, digests, responses
    )  # a channel that computes its rows is rebuilt from rows
    return observation, values


def require_alike(results: Mapping[str, xr.DataTree], *parts: str) -> None:
    """Raise ModelError unless these parts of the observed data are equal, in any order."""
    observed = {name: _observed(result) for name, result in results.items()}
    for part in parts:
        first, *others = [name for name in results if part in observed[name]] or [""]
        for name in others:
            then, now = observed[first][part], observed[name][part]
            if then != now and part == "density":
                raise ModelError(
                    "Models are compared by densities of the same data, given the same conditions; "
                    "others can be averaged with numbers as weights=. Got: for "
                    f"{first!r} that of {then}; for {name!r} that of {now}."
                )
            if then != now:
                raise ModelError(
                    "Models must have the same responses and gold labels to be compared or "
                    f"averaged. Got: {DIFFERENCES[part]} in {name!r} than in {first!r}."
                )


def _observed(result: xr.DataTree) -> dict[str, str]:
    """Return the fingerprint of the data of a result, empty if it is not of this package."""
    return json.loads(contents.constants(result).attrs.get(schema.FINGERPRINT, "{}"))


def require_same(result: xr.DataTree, now: Mapping[str, str], responses: Responses) -> None:
    """Raise ModelError that names the first difference between a result and a model."""
    then, stored_constants = _observed(result), contents.constants(result)
    for dim, key in (("rater", "raters"), ("class", "classes"), ("item", "items")):
        if then.get(key) == now[key]:
            continue
        names = getattr(responses, key)
        differ = (
            names_differ(dim, stored_constants[dim].values, names)
            if dim in stored_constants.coords
            else None
        )
        if differ or key in then:
            raise ModelError(SAME.format(differ or f"a result of other {key}"))
    for part, differ in DIFFERENCES.items():
        if part in then and part in now and then[part] != now[part]:
            if part in ("labels", "channel"):  # the fingerprint of these is a name
                differ += f" ({then[part]}, the model {now[part]})"
            raise ModelError(SAME.format(f"a result of {differ}"))


def names_differ(dim: str, then: Any, now: Any) -> str | None:
    """Return how the names of a result differ from those of a model, or None."""
    one, other = listed(then), listed(now)
    if one == other:
        return None
    if len(one) != len(other):
        return f"a result of {len(one)} {dim} names for a model of {len(other)}"
    at = next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    if set(one) == set(other):
        return f"the same {dim} names in another order, {shown(one)} for a model of {shown(other)}"
    return (
        f"a result whose {dim} names differ from the model's, {as_python(one[at])!r} in place of "
        f"{as_python(other[at])!r} (number {at}; the first is 0)"
    )


def require_free_variables(result: xr.DataTree, model: pm.Model) -> xr.Dataset:
    """Return all draws, or raise ModelError unless they are of the model's free variables."""
    draws = contents.all_draws(result)
    missing = [variable.name for variable in model.free_RVs if variable.name not in draws]
    if missing:
        raise ModelError(
            "The result must hold all free variables of the model, because labels follow from "
            f"them. Got: no {missing[0]!r} among {list(draws.data_vars)}."
        )
    for variable in model.free_RVs:
        drawn = draws[variable.name]
        for dim in model.named_vars_to_dims.get(variable.name, ()):
            names = model.coords.get(dim)
            if names is None or dim not in drawn.coords:
                continue
            if differ := names_differ(dim, drawn[dim].values, names):
                raise ModelError(SAME.format(differ))
        require_like(drawn.shape[2:], variable)
    return draws


def parameters(result: xr.DataTree, model: pm.Model | None) -> dict[str, NDArray[Any]]:
    """Return the parameters of the label prior and the channel, (chain, draw, …)."""
    if model is None:
        return rebuilt(result)[1]
    observation = observation_of(result, model)
    answers, _ = observed(model)
    values = evaluate(model, require_free_variables(result, model), parameter_variables(answers))
    shapes = {name: drawn.shape[2:] for name, drawn in values.items()}
    for factor in (observation.labels, observation.raters):
        factor.check(shapes, observation.responses)
        factor.require(values)
    return values


def central(observation: ResponseModel, draws: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """Return means of draws (chain, draw, …), those without a mean at their most frequent value."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    discrete = [name for name in flat if observation.support(name).discrete]
    if not discrete:
        return {name: values.mean(axis=0) for name, values in flat.items()}
    values = np.concatenate([flat[name].reshape(len(flat[name]), -1) for name in discrete], axis=1)
    table = pd.DataFrame(values)
    often = sum(table.groupby(column)[column].transform("size") for column in table)
    chosen = np.lexsort((often, table.groupby(list(table))[0].transform("size")))[-1]
    alike = (values == values[chosen]).all(axis=1)
    return {
        name: drawn[chosen] if name in discrete else drawn[alike].mean(axis=0)
        for name, drawn in flat.items()
    }


def evenly_spaced_rows(
    result: xr.DataTree,
    model: pm.Model | None,
    observation: ResponseModel,
    draws: int,
    least: int = 1,
) -> Iterator[LogParameters]:
    """Return the log rows of the parameters at evenly spaced posterior draws."""
    require_count("draws", draws, least)
    return contents.spaced_rows(observation, parameters(result, model), int(draws))


def fitted_by(result: xr.DataTree, model: pm.Model | None) -> Fitted:
    """Return the parameters of a result, evaluated by its model if that is given."""
    if model is None:
        return from_result(result)
    values: dict[str, Any] = parameters(result, model)
    observation = observation_of(result, model)
    if log_odds := stored_log_odds(result, observation.labels.needs):
        values = {name: values[name] for name in observation.raters.parameters} | log_odds
    sizes = next(iter(values.values())).shape[:2]
    defaults = getattr(model, "new_rater_defaults", {})
    variables = {name: row for name, row in defaults.items() if isinstance(row, Variable)}
    newcomers = {**defaults, **evaluate(model, contents.all_draws(result), variables)}
    for name, row in newcomers.items():
        if not isinstance(row, str):
            broadcast = row if name in variables else np.broadcast_to(row, (*sizes, *np.shape(row)))
            newcomers[name] = broadcast, source_of(model, name, defaults[name])
    return Fitted(
        type(observation.labels),
        type(observation.raters),
        observation.labels.settings(),
        observation.raters.settings(),
        list(observation.labels.needs),
        values,
        newcomers,
        observation.responses.raters,
        observation.responses.classes,
        population_names(result),
    )
