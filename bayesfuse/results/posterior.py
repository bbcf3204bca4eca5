"""Groups of a result derived from draws of the parameters: labels, log likelihoods, data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import storable
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Spread
from bayesfuse.results.draws import MOST_VALUES, Draws, sum_up

OBSERVED = "observed"  # attribute of constant_data: the fingerprint of what the model observed
ORDERED = "ordered_classes"  # attribute of constant_data: whether the classes are grades, 1 or 0
PLACE = "sequence_place"  # of every item in the sequences, one after the other
PREDICTION = "prediction"  # attribute of constant_data: where predictions find the parameters

OF_VARIABLE, OF_DRAWS = "of_variable", "of_draws"
"""Attributes that identify draws (a variable, a digest); of drawn labels, a variable of numbers."""


def complete(
    result: xr.DataTree,
    observation: Observation,
    parameters: Mapping[str, Array],
    *,
    log_likelihood: bool | None = None,
    labels: NDArray[Any] | None = None,
) -> xr.DataTree:
    """Add labels, log likelihoods and data; ``parameters`` and ``labels`` are (chain, draw, …)."""
    add_constants(result, observation)  # first: an interrupted result must know its model, too
    posterior = result["posterior"].dataset
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    if isinstance(observation, Spread):
        _complete_parts(result, observation, parameters, sizes, log_likelihood)
    else:
        store(sum_up(observation, parameters, labels, sizes, log_likelihood=log_likelihood), result)
    order_variables(result)
    return result


def _complete_parts(
    result: xr.DataTree,
    observation: Spread,
    parameters: Mapping[str, Array],
    sizes: tuple[int, int],
    log_likelihood: bool | None,
) -> None:
    """Add the labels of all partitions; of more than 10⁸ probabilities none are added."""
    n_items = observation.partitions.n_items
    if n_items * len(observation.partitions.classes) > MOST_VALUES:
        result.attrs["labels"] = "too many to be kept here: bf.label_partitions writes them"
        return
    if log_likelihood is None:
        log_likelihood = sizes[0] * sizes[1] * n_items <= MOST_VALUES
    found = observation.parts.map(_summed, (parameters, sizes, log_likelihood))
    labels, units, pointwise = zip(*found, strict=True)
    how: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    _add_labels(result, xr.concat(labels, "item", join="override", **how))
    if log_likelihood:
        names, values = np.concatenate(units), np.concatenate(pointwise, axis=2)
        _add_log_likelihood(result, observation, names, values)


def _summed(
    part: Observation, parameters: Mapping[str, Array], sizes: tuple[int, int], pointwise: bool
) -> tuple[Any, ...]:
    """Return labels of a partition, names of its units and their log likelihoods."""
    seen = sum_up(part, parameters, None, sizes, log_likelihood=pointwise)
    return seen.label_posterior(), *seen.by_unit()


def store(seen: Draws, result: xr.DataTree) -> None:
    """Add what was summed up to a result, first what cannot be recomputed."""
    observation, responses = seen.observation, seen.observation.responses
    posterior = result["posterior"].dataset
    draws = slice(posterior.sizes["draw"])  # fewer if interrupted
    if seen.labels is not None:
        _add(
            result,
            "label_draws",
            {"label": (("chain", "draw", "item"), seen.labels[:, draws])},
            {name: posterior[name].values for name in ("chain", "draw")}
            | {"item": responses.items},
            classes=storable(responses.classes),
        )
    _add_labels(result, seen.label_posterior())
    names, pointwise = seen.by_unit()
    if pointwise is not None:
        _add_log_likelihood(result, observation, names, pointwise[:, draws])


def _add_labels(result: xr.DataTree, labels: xr.Dataset) -> None:
    """Add label probabilities, and of which draws they are."""
    sizes = result["posterior"].dataset.sizes
    attrs = {f"{dim}s": sizes[dim] for dim in ("chain", "draw")}
    result["label_posterior"] = xr.DataTree(labels.assign_attrs(attrs))
    note_draws(result)


def note_draws(result: xr.DataTree) -> None:
    """Record in the groups of labels which draws of the parameters they belong to."""
    posterior = result["posterior"].dataset
    name = _telling(posterior)
    numbers = draw_numbers(posterior, name)
    if "label_posterior" in result.children:
        result["label_posterior"].attrs |= {OF_VARIABLE: name, OF_DRAWS: digest(numbers)}
    if "label_draws" in result.children and "chain" in result["label_draws"].dims:
        labels = result["label_draws"].dataset.assign({OF_DRAWS: (("chain", "draw"), numbers)})
        result["label_draws"] = xr.DataTree(labels.assign_attrs({OF_VARIABLE: name}))


def draw_numbers(draws: xr.Dataset, name: str) -> NDArray[np.int64]:
    """Return a number that identifies each draw, (chain, draw)."""
    return fingerprint.of_draws(draws[name].transpose("chain", "draw", ...).values)


def digest(numbers: NDArray[np.int64]) -> str:
    """Return a digest of draws that does not depend on their order."""
    return fingerprint.of_arrays([np.sort(numbers, axis=None)])


def _telling(posterior: xr.Dataset) -> str:
    """Return the name of the smallest variable that differs between draws, if any does."""
    names = sorted(map(str, posterior.data_vars), key=lambda name: (posterior[name].size, name))
    floats = [name for name in names if posterior[name].dtype.kind == "f"] or names
    differ = (name for name in floats if len(np.unique(draw_numbers(posterior, name))) > 1)
    return next(differ, floats[0])


def _add_log_likelihood(
    result: xr.DataTree, observation: Observation, names: NDArray[Any], pointwise: Array
) -> None:
    unit = observation.labels.unit
    posterior = result["posterior"].dataset
    _add(
        result,
        "log_likelihood",
        {observation.name: (("chain", "draw", unit), pointwise)},
        {"chain": posterior["chain"].values, "draw": posterior["draw"].values, unit: names},
        adds_up=int(observation.labels.adds_up),
    )


def add_constants(result: xr.DataTree, observation: Observation) -> None:
    """Add the data and their fingerprint."""
    responses = observation.responses
    if isinstance(observation, Spread):
        _add_names(result, observation)
        return
    item, rater = responses.small_columns
    constants: dict[str, Any] = {
        "item_index": ((observation.rows_name,), item),
        "rater_index": ((observation.rows_name,), rater),
    }
    if (unit := observation.labels.unit) != "item":
        constants[f"{unit}_index"] = (("item",), observation.labels.unit_of(responses))
    if (sequences := getattr(observation.labels, "sequences", None)) is not None:
        place = np.empty(responses.n_items, dtype=np.int32)
        place[sequences.places(responses)] = np.arange(responses.n_items)
        constants[PLACE] = (("item",), place)
    constants |= of_items(responses, observation.gold)
    coords = {"item": responses.items, "rater": responses.raters, "class": responses.classes}
    before = result["constant_data"].dataset if "constant_data" in result.children else xr.Dataset()
    attrs = _identity(observation)
    _add(result, "constant_data", {**before.data_vars, **constants}, coords, **attrs)
    if "observed_data" not in result.children:
        label = responses.label.astype(np.int32)
        _add(result, "observed_data", {observation.name: ((observation.rows_name,), label)}, {})


def of_items(responses: Responses, gold: NDArray[np.int64]) -> dict[str, Any]:
    """Return how many items each one stands for, and the known labels, where there are any."""
    found: dict[str, Any] = {}
    if not responses.is_plain:
        found["multiplicity"] = (("item",), responses.multiplicity)
    if np.any(gold >= 0):
        found["gold"] = (("item",), gold)
    return found


def _identity(observation: Observation) -> dict[str, Any]:
    """Return the attributes that say what was observed, and how to predict from it."""
    attrs: dict[str, Any] = {OBSERVED: json.dumps(observation.fingerprint)}
    attrs[ORDERED] = int(observation.responses.ordered)
    if observation.prediction is not None:
        attrs[PREDICTION] = json.dumps(observation.prediction)
    return attrs


def _add_names(result: xr.DataTree, observation: Spread) -> None:
    """Add what is known of all partitions, in place of the data of the first one."""
    responses = observation.responses
    coords = {"rater": responses.raters, "class": responses.classes}
    sizes = (("partition", "what"), observation.partitions.per_partition)
    coords["what"] = np.array(["items", "responses"])
    result["constant_data"] = xr.DataTree(xr.Dataset({"sizes": sizes}, coords))
    result["constant_data"].attrs = _identity(observation)
    if "observed_data" in result.children:
        del result["observed_data"]


def _add(
    result: xr.DataTree, group: str, variables: Any, coords: dict[str, Any], **attrs: Any
) -> None:
    result[group] = xr.DataTree(xr.Dataset(variables, coords, attrs))


def order_variables(result: xr.DataTree) -> None:
    """Order the posterior's variables so that dimensions appear in the order of each.

    ``az.summary`` (ArviZ 1.3) orders entries by the dimensions of the dataset, names by those of
    the variable. Groups or populations beside raters of several classes have such an order only
    with a variable by rater alone in front, which is then added: ``balanced_accuracy``.
    """
    posterior = result["posterior"].dataset
    order = _consistent(posterior)
    if order is None:
        names = (name for name in posterior if str(name).rpartition("::")[2] == "sensitivity")
        if (name := next(names, None)) is not None and "class" in posterior[name].dims:
            own = str(name).removesuffix("sensitivity") + "balanced_accuracy"
            posterior = posterior.assign({own: posterior[name].mean("class")})
            order = _consistent(posterior)
    result["posterior"] = xr.DataTree(posterior[order or list(posterior.data_vars)])


def _consistent(posterior: xr.Dataset) -> list[Any] | None:
    """Return variables in an order that suits the dimensions of all, None if there is none."""
    left = {name: values.dims for name, values in posterior.data_vars.items()}
    before: dict[Any, set[Any]] = {}
    for dims in left.values():
        for at, dim in enumerate(dims):
            before.setdefault(dim, set()).update(dims[:at])
    order: list[Any] = []
    seen: set[Any] = set()
    while left:
        ready = (
            name
            for name, dims in left.items()
            if all(before[dim] <= seen | set(dims[:at]) for at, dim in enumerate(dims))
        )
        if (name := next(ready, None)) is None:
            return None
        order.append(name)
        seen |= set(left.pop(name))
    return order
