"""Groups of a result derived from draws of the parameters: labels, log likelihoods, data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import listed, storable
from bayesfuse.data.responses import Responses
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import ChunkedResponseModel, ResponseModel
from bayesfuse.results.draws import MOST_VALUES, Draws, Precision, accumulate

OBSERVED = "observed"  # attribute of constant_data: the fingerprint of what the model observed
POSITIVE = (
    "positive"  # attribute of constant_data and of sensitivities: the positive of two classes
)
ORDERED = "ordered_classes"  # attribute of constant_data: whether the classes are grades, 1 or 0
SEQUENCES = "sequence_name"
PLACE = "sequence_place"  # of every item in the sequences, one after the other
PREDICTION = "prediction"  # attribute of constant_data: where predictions find the parameters

OF_VARIABLE, OF_DRAWS = "of_variable", "of_draws"
"""Attributes that identify draws (a variable, a digest); of drawn labels, a variable of numbers."""


def complete(
    result: xr.DataTree,
    observation: ResponseModel,
    parameters: Mapping[str, Array],
    *,
    log_likelihood: bool | None = None,
    labels: NDArray[Any] | None = None,
    seconds: float = math.inf,
) -> xr.DataTree:
    """Add labels, log likelihoods and data; ``parameters`` and ``labels`` are (chain, draw, …).

    Labels are those of fewer draws, without log likelihoods, if all would take more ``seconds``.
    """
    add_constants(result, observation)  # first: an interrupted result must know its model, too
    posterior = result["posterior"].dataset
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    if isinstance(observation, ChunkedResponseModel):
        _complete_parts(result, observation, parameters, sizes, log_likelihood)
    else:
        how: dict[str, Any] = {"log_likelihood": log_likelihood, "seconds": seconds}
        store(accumulate(observation, parameters, labels, sizes, **how), result)
    order_variables(result)
    return result


def _complete_parts(
    result: xr.DataTree,
    observation: ChunkedResponseModel,
    parameters: Mapping[str, Array],
    sizes: tuple[int, int],
    log_likelihood: bool | None,
) -> None:
    """Add the labels of all partitions; of more than 10⁸ probabilities none are added."""
    n_items = observation.partitions.n_items
    if n_items * len(observation.partitions.classes) > MOST_VALUES:
        result.attrs["labels"] = "too many to be kept here: bf.io.label_partitions writes them"
        return
    if log_likelihood is None:
        log_likelihood = sizes[0] * sizes[1] * n_items <= MOST_VALUES
    summaries = observation.parts.map(_summed, (parameters, sizes, log_likelihood))
    labels, units, pointwise = zip(*summaries, strict=True)
    how: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override"}
    add_labels(result, xr.concat(labels, "item", join="override", **how))
    if log_likelihood:
        names, values = np.concatenate(units), np.concatenate(pointwise, axis=2)
        _add_log_likelihood(result, observation, names, values)


def _summed(
    part: ResponseModel, parameters: Mapping[str, Array], sizes: tuple[int, int], pointwise: bool
) -> tuple[Any, ...]:
    """Return labels of a partition, names of its units and their log likelihoods."""
    summed = accumulate(part, parameters, None, sizes, log_likelihood=pointwise)
    return summed.label_posterior(), *summed.by_unit()


def store(summed: Draws, result: xr.DataTree) -> None:
    """Add what was summed up to a result, first what cannot be recomputed."""
    observation, responses = summed.observation, summed.observation.responses
    posterior = result["posterior"].dataset
    draws = slice(posterior.sizes["draw"])  # fewer if interrupted
    if summed.labels is not None:
        drawn = {"label": (("chain", "draw", "item"), summed.labels[:, draws])}
        coords = {"chain": posterior["chain"].values, "draw": posterior["draw"].values}
        coords["item"] = responses.items
        result["label_draws"] = xr.Dataset(drawn, coords, {"classes": storable(responses.classes)})
    add_labels(result, summed.label_posterior())
    names, pointwise = summed.by_unit()
    if pointwise is not None:
        _add_log_likelihood(result, observation, names, pointwise[:, draws])


def add_labels(result: xr.DataTree, labels: xr.Dataset) -> None:
    """Add label probabilities, and of which draws they are."""
    sizes = result["posterior"].dataset.sizes
    result["label_posterior"] = labels.assign_attrs(chains=sizes["chain"], draws=sizes["draw"])
    note_draws(result)


def note_draws(result: xr.DataTree) -> None:
    """Record in the groups of labels which draws of the parameters they belong to."""
    posterior = result["posterior"].dataset
    names = sorted(map(str, posterior.data_vars), key=lambda name: (posterior[name].size, name))
    floats = [name for name in names if posterior[name].dtype.kind == "f"] or names
    differ = (name for name in floats if len(np.unique(draw_numbers(posterior, name))) > 1)
    name = next(differ, floats[0])  # the smallest variable that differs between draws, if any
    numbers = draw_numbers(posterior, name)
    if "label_posterior" in result.children:
        of_draws = fingerprint.of_set(numbers)
        result["label_posterior"].attrs |= {OF_VARIABLE: name, OF_DRAWS: of_draws}
    if "label_draws" in result.children and "chain" in result["label_draws"].dims:
        labels = result["label_draws"].dataset.assign({OF_DRAWS: (("chain", "draw"), numbers)})
        result["label_draws"] = labels.assign_attrs({OF_VARIABLE: name})


def draw_numbers(draws: xr.Dataset, name: str) -> NDArray[np.int64]:
    """Return a number that identifies each draw, (chain, draw)."""
    return fingerprint.of_draws(draws[name].transpose("chain", "draw", ...).values)


def _add_log_likelihood(
    result: xr.DataTree, observation: ResponseModel, names: NDArray[Any], pointwise: Array
) -> None:
    unit = observation.labels.unit
    posterior = result["posterior"].dataset
    result["log_likelihood"] = xr.Dataset(
        {observation.name: (("chain", "draw", unit), pointwise)},
        {"chain": posterior["chain"].values, "draw": posterior["draw"].values, unit: names},
        {"adds_up": int(observation.labels.adds_up)},
    )


def add_constants(result: xr.DataTree, observation: ResponseModel) -> None:
    """Add the data and their fingerprint."""
    responses = observation.responses
    attrs: dict[str, Any] = {OBSERVED: json.dumps(observation.fingerprint)}
    attrs |= _of_classes(responses)
    if observation.prediction is not None:
        attrs[PREDICTION] = json.dumps(observation.prediction)
    coords: dict[str, Any] = {"rater": responses.raters, "class": responses.classes}
    if isinstance(
        observation, ChunkedResponseModel
    ):  # of all partitions, in place of the data of the first
        coords["what"] = ["items", "responses"]
        sizes = (("partition", "what"), observation.partitions.per_partition)
        result["constant_data"] = xr.Dataset({"sizes": sizes}, coords, attrs)
        if "observed_data" in result.children:
            del result["observed_data"]
        return
    item, rater = responses.small_columns
    constants: dict[str, Any] = {
        "item_index": ((observation.rows_name,), item),
        "rater_index": ((observation.rows_name,), rater),
    }
    if (unit := observation.labels.unit) != "item":
        constants[f"{unit}_index"] = (("item",), observation.unit_of_item)
    if (sequences := getattr(observation.labels, "sequences", None)) is not None:
        constants[PLACE] = (("item",), np.argsort(sequences.places(responses)).astype(np.int32))
        constants[SEQUENCES] = (("sequence",), sequences.names)
    constants |= of_items(responses, observation.gold)
    before = result["constant_data"].dataset if "constant_data" in result.children else xr.Dataset()
    coords = {"item": responses.items} | coords
    result["constant_data"] = xr.Dataset({**before.data_vars, **constants}, coords, attrs)
    if "observed_data" not in result.children:
        label = (observation.rows_name,), responses.label.astype(np.int32)
        result["observed_data"] = xr.Dataset({observation.name: label})


def of_items(responses: Responses, gold: NDArray[np.int64]) -> dict[str, Any]:
    """Return how many items each one stands for, and the known labels, where there are any."""
    columns: dict[str, Any] = {}
    if not responses.is_unweighted:
        columns["multiplicity"] = (("item",), responses.multiplicity)
    if np.any(gold >= 0):
        columns["gold"] = (("item",), gold)
    return columns


def identity(responses: Responses, gold: NDArray[np.int64]) -> dict[str, Any]:
    """Return the attributes of constant data that identify responses and known labels."""
    digests = fingerprint.of_responses(responses) | {"gold": fingerprint.of_gold(responses, gold)}
    return {OBSERVED: json.dumps(digests)} | _of_classes(responses)


def _of_classes(responses: Responses) -> dict[str, Any]:
    """Return the attributes of constant data on the classes."""
    positive = {POSITIVE: storable(responses.classes[-1:])[0]} if responses.n_classes == 2 else {}
    return {ORDERED: int(responses.ordered)} | positive


def name_positive(parameters: xr.Dataset) -> None:
    """Name the positive one of two classes in the attributes of sensitivity and specificity."""
    classes = parameters.coords.get("class")
    for name, values in parameters.items():
        rate = str(name).rpartition("::")[2].endswith(("sensitivity", "specificity"))
        if rate and classes is not None and classes.size == 2 and "class" not in values.dims:
            values.attrs[POSITIVE] = storable(np.asarray(listed(classes.values[-1:])))[0]


def order_variables(result: xr.DataTree) -> None:
    """Order the posterior's variables so that dimensions appear in the order of each.

    ``az.summary`` (ArviZ 1.3) orders entries by the dimensions of the dataset. If only a variable
    by rater alone in front gives such an order, it is added: ``balanced_accuracy``.
    """
    posterior = result["posterior"].dataset
    order = _consistent(posterior)
    if order is None:
        names = (name for name in posterior if str(name).rpartition("::")[2] == "sensitivity")
        if (name := next(names, None)) is not None and "class" in posterior[name].dims:
            first = str(name).removesuffix("sensitivity") + "balanced_accuracy"
            posterior = posterior.assign({first: posterior[name].mean("class")})
            order = _consistent(posterior)
    result["posterior"] = posterior[order or list(posterior.data_vars)]
    name_positive(result["posterior"].dataset)


def _consistent(posterior: xr.Dataset) -> list[Any] | None:
    """Return variables in an order that suits the dimensions of all, None if there is none."""
    left = {name: values.dims for name, values in posterior.data_vars.items()}
    before: dict[Any, set[Any]] = {}
    for dims in left.values():
        for at, dim in enumerate(dims):
            before.setdefault(dim, set()).update(dims[:at])
    order: list[Any] = []
    placed: set[Any] = set()
    while left:
        ready = (
            name
            for name, dims in left.items()
            if all(before[dim] <= placed | set(dims[:at]) for at, dim in enumerate(dims))
        )
        if (name := next(ready, None)) is None:
            return None
        order.append(name)
        placed |= set(left.pop(name))
    return order


def round_off(result: xr.DataTree, precision: Precision) -> None:
    """Store posterior and log likelihoods in this precision, and note it in the result."""
    result.attrs["precision"] = precision
    if precision == "double":
        return
    for node in result.subtree:
        if node.name in ("posterior", "log_likelihood"):
            draws = node.to_dataset(inherit=False)
            rounded = {
                name: values.copy(data=_rounded(values.values))
                for name, values in draws.data_vars.items()
                if values.dtype == np.float64
            }
            node.dataset = draws.assign(rounded)
    note_draws(result)  # draws are identified by their values


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Round to single precision; numbers between 0 and 1 stay there, as zeros rule out data."""
    rounded = values.astype(np.float32)
    inner = np.finfo(np.float32).tiny, np.nextafter(np.float32(1), np.float32(0))
    return np.clip(rounded, *inner, out=rounded, where=(values > 0) & (values < 1))
