"""The only writer of results: groups of the draws, labels and data of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import listed, storable
from bayesfuse.data.responses import Responses
from bayesfuse.observation import ChunkedResponseModel, ResponseModel
from bayesfuse.observation.evaluate import model_data
from bayesfuse.results import item_knowledge, schema
from bayesfuse.results.contents import identify_draws
from bayesfuse.results.label_summary import LabelSummary
from bayesfuse.results.storage import Precision


def build(
    model: pm.Model | None,
    draws: xr.Dataset | None,
    labels: Mapping[str, LabelSummary] | LabelSummary,
    stats: Mapping[str, xr.Dataset],
    attributes: Mapping[str, Any] | None = None,
    *,
    precision: Precision | None = None,
) -> xr.DataTree:
    """Return a result; all functions that fit, update, predict or average end here.

    ``draws`` are all variables (chain, draw, …), or a point without chains and draws. Labels of
    several tables, by name, are in children of these names. ``stats`` are further groups as they
    are stored; observed and constant data among them take the place of those of the model.
    ``precision`` is that of draws and log likelihoods.
    """
    groups: dict[str, xr.Dataset] = {}
    attributes = dict(attributes or {})
    if precision is not None:
        attributes["precision"] = precision
    if draws is not None:
        draws = _in_precision(draws, precision)
        groups[schema.POSTERIOR if "chain" in draws.dims else schema.POINT] = _ordered(draws)
    if model is not None and schema.OBSERVED_DATA not in stats:
        groups |= model_data(model)
    groups |= stats
    tables = {"": labels} if isinstance(labels, LabelSummary) else labels
    for table, summary in tables.items():
        prefix = f"{table}/" if table else ""
        constant_data = groups.pop(prefix + schema.CONSTANT_DATA, None)
        observed_data = groups.pop(prefix + schema.OBSERVED_DATA, None)
        of_table = _data_groups(constant_data, observed_data, summary.observation)
        of_table |= _label_groups(summary, draws, precision)
        item_knowledge.store(of_table, summary.knowledge)
        groups |= {prefix + name: group for name, group in of_table.items()}
        attributes |= summary.attributes
    result = xr.DataTree.from_dict(groups)
    result.attrs = attributes
    return result


def rebuild(
    result: xr.DataTree,
    draws: xr.Dataset,
    labels: LabelSummary | None = None,
    *,
    precision: Precision | None = None,
) -> xr.DataTree:
    """Return a result with other draws of the parameters; its labels belong to these, or others."""
    groups = {str(name): node.to_dataset(inherit=False) for name, node in result.children.items()}
    groups.pop(schema.POSTERIOR, None)
    summary = LabelSummary(
        None,
        groups.pop(schema.LABEL_POSTERIOR, None),
        groups.pop(schema.LABEL_DRAWS, None),
        groups.pop(schema.LOG_LIKELIHOOD, None),
    )
    attributes: dict[str, Any] = {str(name): value for name, value in result.attrs.items()}
    precision = precision or attributes.get("precision")
    return build(None, draws, labels or summary, groups, attributes, precision=precision)


def _label_groups(
    summary: LabelSummary, draws: xr.Dataset | None, precision: Precision | None
) -> dict[str, xr.Dataset]:
    """Return the groups of the labels that have been computed, with the draws they belong to."""
    groups = {
        schema.LABEL_POSTERIOR: summary.probabilities,
        schema.LABEL_DRAWS: summary.draws,
        schema.LOG_LIKELIHOOD: summary.log_likelihood,
    }
    computed = {name: group for name, group in groups.items() if group is not None}
    if draws is None or "chain" not in draws.dims:
        return computed
    name, numbers = identify_draws(draws)
    coords = {dim: draws[dim].values for dim in ("chain", "draw")}
    for group, values in computed.items():
        if group == schema.LABEL_POSTERIOR:
            values = values.assign_attrs(
                {
                    schema.CHAINS: draws.sizes["chain"],
                    schema.DRAWS: draws.sizes["draw"],
                    schema.DRAWS_VARIABLE: name,
                    schema.DRAWS_DIGEST: fingerprint.of_set(numbers),
                }
            )
        elif "chain" in values.dims:
            # interrupted chains may have more labels than all of them have draws
            values = values.isel(draw=slice(draws.sizes["draw"])).assign_coords(coords)
            if group == schema.LABEL_DRAWS:
                values = values.assign({schema.DRAWS_DIGEST: (("chain", "draw"), numbers)})
                values = values.assign_attrs({schema.DRAWS_VARIABLE: name})
            else:
                values = _in_precision(values, precision)
        computed[group] = values
    return computed


def _data_groups(
    constant_data: xr.Dataset | None,
    observed_data: xr.Dataset | None,
    observation: ResponseModel | None,
) -> dict[str, xr.Dataset]:
    """Return the groups of the data, completed by those of an observation."""
    if observation is None:
        groups = {schema.CONSTANT_DATA: constant_data, schema.OBSERVED_DATA: observed_data}
        return {name: group for name, group in groups.items() if group is not None}
    responses = observation.responses
    attributes: dict[str, Any] = {schema.FINGERPRINT: json.dumps(observation.fingerprint)}
    attributes |= _class_attributes(responses)
    if observation.prediction is not None:
        attributes[schema.PREDICTION] = json.dumps(observation.prediction)
    coords: dict[str, Any] = {"rater": responses.raters, "class": responses.classes}
    if isinstance(observation, ChunkedResponseModel):
        # sizes of all partitions, in place of the data of the first
        sizes = (("partition", "what"), observation.partitions.per_partition)
        coords["what"] = ["items", "responses"]
        return {schema.CONSTANT_DATA: xr.Dataset({"sizes": sizes}, coords, attributes)}
    constants = _constants(observation)
    if constant_data is not None:
        constants = {str(n): v for n, v in constant_data.data_vars.items()} | constants
    if observed_data is None:
        label = (observation.rows_name,), responses.label.astype(np.int32)
        observed_data = xr.Dataset({observation.name: label})
    coords = {"item": responses.items} | coords
    return {
        schema.CONSTANT_DATA: xr.Dataset(constants, coords, attributes),
        schema.OBSERVED_DATA: observed_data,
    }


def _constants(observation: ResponseModel) -> dict[str, Any]:
    """Return item and rater of every response, units and places of items, and known labels."""
    responses, row_dim = observation.responses, (observation.rows_name,)
    item, rater = responses.small_columns
    constants: dict[str, Any] = {
        schema.ITEM_INDEX: (row_dim, item),
        schema.RATER_INDEX: (row_dim, rater),
    }
    if (unit := observation.labels.unit) != "item":
        constants[f"{unit}_index"] = (("item",), observation.unit_of_item)
    if (sequences := getattr(observation.labels, "sequences", None)) is not None:
        place = np.argsort(sequences.places(responses)).astype(np.int32)
        constants[schema.SEQUENCE_PLACE] = (("item",), place)
        constants[schema.SEQUENCE_NAME] = (("sequence",), sequences.names)
    return constants | item_columns(responses, observation.gold)


def item_columns(responses: Responses, gold: NDArray[np.int64]) -> dict[str, Any]:
    """Return multiplicities, known labels and statements (items,) as variables, if any."""
    columns: dict[str, Any] = {}
    if responses.stated is not None:
        columns[schema.STATEMENTS] = (("item",), responses.stated.per_item)
    if not responses.is_unweighted:
        columns[schema.MULTIPLICITY] = (("item",), responses.multiplicity)
    if np.any(gold >= 0):
        columns[schema.GOLD] = (("item",), gold)
    return columns


def table_attributes(responses: Responses, gold: NDArray[np.int64]) -> dict[str, Any]:
    """Return the attributes of ``constant_data`` that identify a table and its known labels."""
    digests = fingerprint.of_responses(responses) | {"gold": fingerprint.of_gold(responses, gold)}
    return {schema.FINGERPRINT: json.dumps(digests)} | _class_attributes(responses)


def _class_attributes(responses: Responses) -> dict[str, Any]:
    attributes: dict[str, Any] = {schema.ORDERED_CLASSES: int(responses.ordered)}
    if responses.n_classes == 2:
        attributes[schema.POSITIVE_CLASS] = storable(responses.classes[-1:])[0]
    return attributes


def _ordered(draws: xr.Dataset) -> xr.Dataset:
    """Return the variables in an order in which their dimensions agree, the positive class named.

    ``az.summary`` (ArviZ 1.3) orders entries by the dimensions of the dataset. If only a variable
    by rater alone in front gives such an order, it is added: ``balanced_accuracy``.
    """
    order = _consistent_order(draws)
    if order is None:
        names = [name for name in draws if str(name).rpartition("::")[2] == "sensitivity"]
        if names and "class" in draws[names[0]].dims:
            first = str(names[0]).removesuffix("sensitivity") + "balanced_accuracy"
            draws = draws.assign({first: draws[names[0]].mean("class")})
            order = _consistent_order(draws)
    draws = draws[order or list(draws.data_vars)]
    _name_positive_class(draws)
    return draws


def _consistent_order(draws: xr.Dataset) -> list[Any] | None:
    """Return variables in an order that suits the dimensions of all, None if there is none."""
    unplaced = {name: values.dims for name, values in draws.data_vars.items()}
    preceding: dict[Any, set[Any]] = {}  # dimensions that must come before each
    for dims in unplaced.values():
        for axis, dim in enumerate(dims):
            preceding.setdefault(dim, set()).update(dims[:axis])
    order: list[Any] = []
    placed: set[Any] = set()

    def is_next(dims: tuple[Any, ...]) -> bool:
        return all(preceding[dim] <= placed.union(dims[:n]) for n, dim in enumerate(dims))

    while unplaced:
        name = next((name for name, dims in unplaced.items() if is_next(dims)), None)
        if name is None:
            return None
        order.append(name)
        placed.update(unplaced.pop(name))
    return order


def _name_positive_class(draws: xr.Dataset) -> None:
    """Name the positive one of two classes in the attributes of sensitivity and specificity."""
    classes = draws.coords.get("class")
    if classes is None or classes.size != 2:
        return
    for name, values in draws.items():
        is_rate = str(name).rpartition("::")[2].endswith(("sensitivity", "specificity"))
        if is_rate and "class" not in values.dims:
            positive = storable(np.asarray(listed(classes.values[-1:])))[0]
            values.attrs[schema.POSITIVE_CLASS] = positive


def _in_precision(draws: xr.Dataset, precision: Precision | None) -> xr.Dataset:
    """Return draws in this precision; numbers in (0, 1) stay there, as zeros rule out data."""
    if precision != "single":
        return draws
    inner = np.finfo(np.float32).tiny, np.nextafter(np.float32(1), np.float32(0))
    rounded = {}
    for name, values in draws.data_vars.items():
        if values.dtype == np.float64:
            exact = values.values
            numbers = exact.astype(np.float32)
            np.clip(numbers, *inner, out=numbers, where=(exact > 0) & (exact < 1))
            rounded[name] = values.copy(data=numbers)
    return draws.assign(rounded)
