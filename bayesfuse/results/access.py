"""What a result holds, and whether it is of this model: the checks that all its readers share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.arrays import plain, shown
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.observation import Observation
from bayesfuse.pymc.model import observed
from bayesfuse.results.posterior import (
    OBSERVED,
    OF_DRAWS,
    OF_VARIABLE,
    digest,
    draw_numbers,
)

SAME = (
    "A result and a model must be of the same responses, raters and labels, else what follows "
    "from both is of neither. Got: {}."
)

SAID = {
    "responses": "other responses",
    "gold": "other gold labels",
    "labels": "another prior of the labels",
    "structure": "another graph or other sequences",
    "channel": "another rater channel",
    "groups": "other groups of raters",
}
"""What is said of what differs, apart from names."""


def require_result(result: Any) -> xr.DataTree:
    """Return a result, or raise ModelError if it is something else."""
    if not isinstance(result, xr.DataTree):
        raise ModelError(
            "A result is the xarray.DataTree that bf.sample, bf.fit and bf.find_map return, with "
            f"all its groups. Got: {type(result).__name__}."
        )
    return result


def all_draws(result: xr.DataTree) -> xr.Dataset:
    """Return the variables of a result by (chain, draw, …), or an empty dataset if it has none.

    The point that ``bf.find_map`` found is one draw, and a chain that was picked is one chain.
    """
    groups = require_result(result).children
    name = "posterior" if "posterior" in groups else "point"
    draws = groups[name].dataset if name in groups else xr.Dataset()
    return _with_chains(draws)


def require_draws(result: xr.DataTree, what: str) -> xr.Dataset:
    """Return the posterior by (chain, draw, …), or raise ModelError if there is none."""
    if "posterior" not in require_result(result).children:
        raise ModelError(
            f"{what}, which bf.sample and bf.fit make; a point of bf.find_map has none. Got: a "
            f"result with {sorted(result.children)}, no posterior."
        )
    return all_draws(result)


def named(dataset: xr.Dataset, name: str) -> xr.DataArray | None:
    """Return a variable by its name, None if there is none.

    A model with a name of its own puts that before those of its variables ("a::prevalence"), which
    are found without it if there is one such.
    """
    if name in dataset:
        return dataset[name]
    prefixed = [own for own in dataset.data_vars if str(own).endswith(f"::{name}")]
    return dataset[prefixed[0]].rename(name) if len(prefixed) == 1 else None


def without_prefix(draws: xr.Dataset) -> xr.Dataset:
    """Return variables by the names that they have in a model without a name."""
    names = {own: str(own).rpartition("::")[2] for own in draws.data_vars}
    return draws.rename(names) if len(set(names.values())) == len(names) else draws


def constants(result: xr.DataTree, *names: str) -> xr.Dataset:
    """Return the group that says who answered what, or raise ModelError if it is not there."""
    groups = require_result(result).children
    found = groups["constant_data"].dataset if "constant_data" in groups else xr.Dataset()
    if missing := [name for name in names if name not in found]:
        raise ModelError(
            "Who answered what stands in the group constant_data, which bf.sample, bf.fit and "
            f"bf.find_map add to their results. Got: no {missing[0]!r} among the groups "
            f"{sorted(groups)}."
        )
    return found


def class_names(result: xr.DataTree) -> list[Any]:
    """Return the names of the classes, from wherever a result has them."""
    groups = require_result(result).children
    for name in ("constant_data", "label_posterior", "posterior", "point"):
        if name in groups and "class" in groups[name].dataset.coords:
            return listed(groups[name].dataset["class"].values)
    raise ModelError(
        "Classes have names in the results of bf.sample, bf.fit and bf.find_map. Got: groups "
        f"{sorted(groups)} without."
    )


def kept_labels(result: xr.DataTree) -> NDArray[Any] | None:
    """Return the labels drawn with the parameters (chain, draw, item), if they were kept.

    Raises
    ------
    ModelError
        They are of other draws than the parameters.
    """
    if "label_draws" not in require_result(result).children:
        return None
    kept = _with_chains(result["label_draws"].dataset)
    labels, draws = kept["label"], all_draws(result)
    if not _go_together(kept, draws):
        others = ", but of other draws" if _extent(labels) == _extent(draws) else ""
        raise ModelError(
            "Labels that were drawn with the parameters go with the same draws: pick from the "
            "whole result, as result.isel(draw=…) does. Got: labels of "
            f"{_extent(labels)} for parameters of {_extent(draws)}{others}."
        )
    values: NDArray[Any] = labels.transpose("chain", "draw", "item").values
    return values


def _go_together(labels: xr.Dataset, draws: xr.Dataset) -> bool:
    """Say whether labels were drawn with these parameters, as far as can be told."""
    pair = "chain", "draw"
    if any(draws.sizes.get(dim) != labels.sizes[dim] for dim in pair):
        return False
    name = str(labels.attrs.get(OF_VARIABLE))
    if OF_DRAWS in labels and name in draws:
        numbers = labels[OF_DRAWS].transpose(*pair).values
        return np.array_equal(numbers, draw_numbers(draws, name))
    return all(
        np.array_equal(labels[dim], draws[dim])
        for dim in pair
        if dim in labels.coords and dim in draws.coords
    )


def of_all_draws(result: xr.DataTree) -> bool:
    """Say whether the label posterior is averaged over the draws that the result has."""
    if "posterior" not in result.children:
        return True
    attrs, draws = result["label_posterior"].attrs, all_draws(result)
    if (name := str(attrs.get(OF_VARIABLE))) in draws:
        return digest(draw_numbers(draws, name)) == attrs[OF_DRAWS]
    return all(
        draws.sizes[dim] == attrs.get(f"{dim}s", draws.sizes[dim])
        and (dim not in draws.coords or len(np.unique(draws[dim])) == draws.sizes[dim])
        for dim in ("chain", "draw")
    )


def _with_chains(draws: xr.Dataset) -> xr.Dataset:
    """Give draws the dimensions chain and draw where they have lost them."""
    lost = [dim for dim in ("chain", "draw") if dim not in draws.dims]
    draws = draws.drop_vars([dim for dim in lost if dim in draws.coords])
    return draws.expand_dims({dim: [0] for dim in lost}, list(range(len(lost)))) if lost else draws


def _extent(draws: xr.Dataset | xr.DataArray) -> str:
    return f"{draws.sizes.get('chain', 0)} chains × {draws.sizes.get('draw', 0)} draws"


# ---------------------------------------------------------------- one model, several results


def observation_of(result: xr.DataTree, model: pm.Model) -> Observation:
    """Return what a model observed, which must be what the result is of.

    Raises
    ------
    ModelError
        The model has observed something else, or nothing.
    """
    _, observation = observed(model)
    _require_same(result, observation.fingerprint, observation.responses)
    return observation


def require_responses(result: xr.DataTree, responses: Responses) -> None:
    """Raise ModelError unless a result is of these responses."""
    require_kind("responses", responses, Responses)
    _require_same(result, fingerprint.of_responses(responses), responses)


def require_alike(results: Mapping[str, xr.DataTree]) -> None:
    """Raise ModelError unless results are of the same responses, items and raters in any order."""
    first, *others = results
    then = _observed(results[first])
    for name in others:
        now = _observed(results[name])
        for part in {"responses", "gold"} & set(then) & set(now):
            if then[part] != now[part]:
                raise ModelError(
                    "Models can be compared and averaged that were given the same responses and "
                    f"gold labels. Got: {SAID[part]} in {name!r} than in {first!r}."
                )


def _observed(result: xr.DataTree) -> dict[str, str]:
    """Return the fingerprint that a result carries, empty if it is not of this package."""
    found: dict[str, str] = json.loads(constants(result).attrs.get(OBSERVED, "{}"))
    return found


def _require_same(result: xr.DataTree, now: Mapping[str, str], responses: Responses) -> None:
    """Raise ModelError that says what differs between a result and what is to be read with it."""
    then, own = _observed(result), constants(result)
    for dim, names in (
        ("rater", responses.raters),
        ("class", responses.classes),
        ("item", responses.items),
    ):
        key = f"{dim}es" if dim == "class" else f"{dim}s"
        if then.get(key) == now[key]:
            continue
        said = names_differ(dim, own[dim].values, names) if dim in own.coords else None
        if said or key in then:
            raise ModelError(SAME.format(said or f"a result of other {key}"))
    for part, said in SAID.items():
        if part in then and part in now and then[part] != now[part]:
            raise ModelError(SAME.format(f"a result of {said}{_kinds(part, then, now, result)}"))


def _kinds(part: str, then: Mapping[str, str], now: Mapping[str, str], result: xr.DataTree) -> str:
    """Name what a result and a model have of a part, where it has a name."""
    return f" ({then[part]}, the model {now[part]})" if part in ("labels", "channel") else ""


def names_differ(dim: str, then: Any, now: Any) -> str | None:
    """Say where the names of a result differ from those of a model, None if they do not."""
    one, other = listed(then), listed(now)
    if one == other:
        return None
    if len(one) != len(other):
        return f"a result of {len(one)} {dim} names for a model of {len(other)}"
    at = next(n for n, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    if set(one) == set(other):
        return f"the same {dim} names in another order, {shown(one)} for a model of {shown(other)}"
    return (
        f"a result whose {dim} names differ from the model's, {plain(one[at])!r} in place of "
        f"{plain(other[at])!r} (number {at}; the first is 0)"
    )
