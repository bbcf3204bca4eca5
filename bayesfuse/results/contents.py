"""Contents of a result: draws, labels, names of classes and constant data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.names import listed, unique_names
from bayesfuse.data.responses import Responses, from_codes
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.observation import LogParameters, ResponseModel
from bayesfuse.results import schema


def require_result(result: Any) -> xr.DataTree:
    """Return a result, or raise ModelError if it is no DataTree."""
    tree: xr.DataTree = require_kind("A result", result, xr.DataTree)
    return tree


def averaged_models(result: xr.DataTree) -> str:
    """Return the names of the models of an average, empty for the result of one model."""
    if "comparison" not in require_result(result).children:
        return ""
    return "; ".join(map(str, result["comparison"].dataset["model"].values))


def one_of(result: xr.DataTree) -> str:
    """Return how to take the result of one model from an answer, as code."""
    names = list(result["models"].children) if "models" in result.children else ["NAME"]
    return f'fused["models/{names[0]}"]'


def all_draws(result: xr.DataTree) -> xr.Dataset:
    """Return the variables of a posterior, or of a point estimate as one draw, (chain, draw, …)."""
    groups = require_result(result).children
    name = "posterior" if "posterior" in groups else "point"
    draws = groups[name].dataset if name in groups else xr.Dataset()
    return _with_chains(draws)


def require_draws(result: xr.DataTree, what: str) -> xr.Dataset:
    """Return the posterior, (chain, draw, …), or raise ModelError if there is none."""
    if "posterior" not in require_result(result).children:
        raise ModelError(
            f"{what} needs posterior draws, from bf.sample or bf.fit; bf.find_map returns a point "
            f"estimate. Got: groups {sorted(result.children)}, no posterior."
        )
    return all_draws(result)


def named(dataset: xr.Dataset, name: str) -> xr.DataArray | None:
    """Return a variable in double precision, or None; a model's prefix may be left out."""
    if name in dataset:
        return in_double(dataset[name])
    prefixed = [variable for variable in dataset.data_vars if str(variable).endswith(f"::{name}")]
    return in_double(dataset[prefixed[0]]).rename(name) if len(prefixed) == 1 else None


def stored(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """Return a variable as :func:`named` does, or raise ModelError if it is not there."""
    variable = named(dataset, name)
    if variable is None:
        raise ModelError(
            "Tables, plots and predictions read their variables from the result (bayesfuse.models "
            "define them; your own model can with pm.Deterministic). Got: no "
            f"{name!r} among {list(dataset)}."
        )
    return variable


def in_double(values: xr.DataArray) -> xr.DataArray:
    """Return stored values for computation: sums in single precision would lose digits."""
    return values.astype(np.float64) if values.dtype == np.float32 else values


def without_prefix(draws: xr.Dataset) -> xr.Dataset:
    """Return variables without the prefix of a named model."""
    names = {variable: str(variable).rpartition("::")[2] for variable in draws.data_vars}
    return draws.rename(names) if len(set(names.values())) == len(names) else draws


def constants(result: xr.DataTree, *names: str) -> xr.Dataset:
    """Return the group ``constant_data``, or raise ModelError if it lacks one of ``names``."""
    groups = require_result(result).children
    stored_constants = (
        groups["constant_data"].dataset if "constant_data" in groups else xr.Dataset()
    )
    if missing := [name for name in names if name not in stored_constants]:
        raise ModelError(
            "The indices of items and raters are read from the group constant_data, which results "
            "of pm.sample lack: draw them by bf.sample, bf.fit or bf.find_map. Got: no "
            f"{missing[0]!r} in groups {sorted(groups)}."
        )
    return stored_constants


def observed_rows(result: xr.DataTree) -> tuple[NDArray[Any], ...] | None:
    """Return item, rater and label index of every response, or None if they are not stored."""
    groups = require_result(result).children
    known = constants(result)
    if "observed_data" not in groups or not {"item_index", "rater_index"} <= set(known):
        return None
    item, rater = known["item_index"], known["rater_index"]
    # models of something else than the responses keep these among the constants
    for label in (known.get("label_index", item), *groups["observed_data"].data_vars.values()):
        if label.shape == item.shape and label is not item:
            return tuple(column.values.astype(np.int64) for column in (item, rater, label))
    return None


def require_rows(result: xr.DataTree, what: str) -> tuple[NDArray[Any], ...]:
    """Return the result of :func:`observed_rows`, or raise ModelError if it is None."""
    if (rows := observed_rows(result)) is None:
        raise ModelError(
            f"{what} counts responses, from the groups constant_data and observed_data. Got: "
            f"groups {sorted(result.children)}."
        )
    return rows


def known_classes(result: xr.DataTree, n_items: int) -> NDArray[np.int64]:
    """Return the known class of every item, −1 where it is unknown (items,)."""
    known = constants(result)
    return known["gold"].values if "gold" in known else np.full(n_items, -1)


def copies_of(result: xr.DataTree, n_items: int) -> NDArray[np.int64]:
    """Return how many items every entry of a table of counts represents, one elsewhere (items,)."""
    known = constants(result)
    return known["multiplicity"].values if "multiplicity" in known else np.ones(n_items, np.int64)


def class_names(result: xr.DataTree) -> list[Any]:
    """Return the names of the classes, from the first group that has them."""
    groups = require_result(result).children
    for name in ("constant_data", "label_posterior", "posterior", "point"):
        if name in groups and "class" in groups[name].dataset.coords:
            return listed(groups[name].dataset["class"].values)
    raise ModelError(
        "The names of the classes are read from results of bf.sample, bf.fit and bf.find_map; in "
        "place of pm.sample, bf.sample(model) draws from any model of bf.build.observe. "
        f"Got: groups {sorted(groups)} without a coordinate 'class'."
    )


def stored_label_draws(result: xr.DataTree) -> NDArray[Any] | None:
    """Return the labels drawn with the parameters (chain, draw, item), or None if not stored."""
    if "label_draws" not in require_result(result).children:
        return None
    if "sample" in result["label_draws"].dims:  # drawn later: see `joint_labels`
        return None
    label_draws, draws = _with_chains(result["label_draws"].dataset), all_draws(result)
    labels, name = label_draws["label"], str(label_draws.attrs.get(schema.DRAWS_VARIABLE))
    extents = [
        [variable.sizes.get(dim, 0) for dim in ("chain", "draw")] for variable in (labels, draws)
    ]
    together = extents[0] == extents[1]
    if together and schema.DRAWS_DIGEST in label_draws and name in draws:
        numbers = label_draws[schema.DRAWS_DIGEST].transpose("chain", "draw").values
        together = np.array_equal(numbers, draw_numbers(draws, name))
    if not together:
        raise ModelError(
            "Drawn labels and parameters must be of the same draws: select from the whole result, "
            f"as result.isel(draw=…) does. Got: labels of {extents[0]} chains and draws for "
            f"parameters of {extents[1]}, or of other draws."
        )
    return labels.transpose("chain", "draw", "item").values


def draw_numbers(draws: xr.Dataset, name: str) -> NDArray[np.int64]:
    """Return a number that identifies each draw by the values of a variable, (chain, draw)."""
    return fingerprint.of_draws(draws[name].transpose("chain", "draw", ...).values)


def identify_draws(draws: xr.Dataset) -> tuple[str, NDArray[np.int64]]:
    """Return the variable that identifies draws, and their numbers (chain, draw).

    This is the smallest variable, preferably of real numbers, whose values differ between draws.
    """
    names = sorted(map(str, draws.data_vars), key=lambda name: (draws[name].size, name))
    real = [name for name in names if draws[name].dtype.kind == "f"] or names
    for name in real:
        numbers = draw_numbers(draws, name)
        if len(np.unique(numbers)) > 1:
            return name, numbers
    return real[0], draw_numbers(draws, real[0])


def of_all_draws(result: xr.DataTree) -> bool:
    """Return whether the label posterior is averaged over exactly the draws of the result."""
    if "posterior" not in result.children:
        return True
    attrs, draws = result["label_posterior"].attrs, all_draws(result)
    if (name := str(attrs.get(schema.DRAWS_VARIABLE))) in draws:
        return fingerprint.of_set(draw_numbers(draws, name)) == attrs[schema.DRAWS_DIGEST]
    return all(draws.sizes[d] == attrs.get(f"{d}s", draws.sizes[d]) for d in ("chain", "draw"))


def _with_chains(draws: xr.Dataset) -> xr.Dataset:
    """Restore the dimensions chain and draw where a selection has dropped them."""
    lost = [dim for dim in ("chain", "draw") if dim not in draws.dims]
    draws = draws.drop_vars([dim for dim in lost if dim in draws.coords])
    return draws.expand_dims({dim: [0] for dim in lost}, list(range(len(lost)))) if lost else draws


def spaced_rows(
    observation: ResponseModel, parameters: Mapping[str, NDArray[Any]], draws: int
) -> Iterator[LogParameters]:
    """Return the log rows at evenly spaced ones of the draws of parameters (chain, draw, …)."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in parameters.items()}
    chosen = evenly_spaced(draws, len(next(iter(flat.values()))))
    return (observation.rows({name: flat[name][draw] for name in flat}) for draw in chosen)


def evenly_spaced(draws: int, size: int) -> NDArray[np.int64]:
    """Return the indices of ``draws`` of ``size`` draws, evenly spaced, repeated if too few."""
    return (np.arange(draws) * max(size, draws) // draws) % size


def needs_model(what: str) -> ModelError:
    """Return the error of a result that does not store all that its model implies."""
    return ModelError(
        "A result alone must store all that is asked of its model, as those of bf.sample, bf.fit "
        f"and bf.find_map mostly do: give model=. Got: a result without {what}, and no model."
    )


def observed_labels(result: xr.DataTree) -> Responses:
    """Return the labels of a result as a table, without silence and stated probabilities."""
    rows, known = observed_rows(result), constants(result)
    if rows is None or not {"item", "rater", "class"} <= set(known.coords):
        raise needs_model(f"the responses, but groups {sorted(result.children)}")
    names = (unique_names(known[dim].values, dim) for dim in ("item", "rater", "class"))
    table = from_codes(*rows, *names)
    if "multiplicity" in known:
        table = replace(table, multiplicity=known["multiplicity"].values.astype(np.int64))
    return replace(table, ordered=bool(known.attrs.get(schema.ORDERED_CLASSES, 0)))


def responses_of(result: xr.DataTree) -> Responses:
    """Return the responses of a result, or raise ModelError if it does not store all of them."""
    table = observed_labels(result)
    then = json.loads(constants(result).attrs.get(schema.FINGERPRINT, "{}")).get("responses")
    if then is not None and then != fingerprint.of_responses(table)["responses"]:
        raise needs_model(
            "its silence or stated probabilities, which bf.Responses have: pass these, where "
            "there is no model="
        )
    return table


def sequences_of(result: xr.DataTree, responses: Responses) -> Sequences | None:
    """Return the sequences of a result's items, None if it stores none."""
    known = constants(result)
    if schema.SEQUENCE_PLACE not in known:
        return None
    order = np.argsort(known[schema.SEQUENCE_PLACE].values)
    return Sequences.from_lengths(
        np.bincount(known["sequence_index"].values),
        items=listed(responses.items[order]),
        names=listed(known[schema.SEQUENCE_NAME].values),
    )


def gold_of(result: xr.DataTree, responses: Responses) -> dict[Any, Any]:
    """Return the known labels of a result by item."""
    codes = known_classes(result, responses.n_items)
    at = np.flatnonzero(codes >= 0)
    return dict(zip(listed(responses.items[at]), listed(responses.classes[codes[at]]), strict=True))
