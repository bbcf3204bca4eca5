"""Whether a result belongs to a model, to responses, or to the same data as another result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pymc as pm
import xarray as xr

from bayesfuse.data import fingerprint
from bayesfuse.data.arrays import plain, shown
from bayesfuse.data.names import listed
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.observation import Observation, Spread
from bayesfuse.pymc.model import observed
from bayesfuse.results.contents import constants
from bayesfuse.results.posterior import OBSERVED

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
"""How error messages name a part that differs."""


def observation_of(result: xr.DataTree, model: pm.Model) -> Observation:
    """Return the observation of a model, or raise ModelError unless the result is of that model."""
    _, observation = observed(model)
    if isinstance(observation, Spread):
        observation.refuse()
    require_same(result, observation.fingerprint, observation.responses)
    return observation


def require_responses(result: xr.DataTree, responses: Responses) -> None:
    """Raise ModelError unless a result is of these responses."""
    require_kind("responses", responses, Responses)
    require_same(result, fingerprint.of_responses(responses), responses)


def require_alike(results: Mapping[str, xr.DataTree]) -> None:
    """Raise ModelError unless results are of the same responses, in any order."""
    first, *others = results
    then = _observed(results[first])
    for name in others:
        now = _observed(results[name])
        for part in {"responses", "gold"} & set(then) & set(now):
            if then[part] != now[part]:
                raise ModelError(
                    "Models must have the same responses and gold labels to be compared or "
                    f"averaged. Got: {DIFFERENCES[part]} in {name!r} than in {first!r}."
                )


def require_one_density(results: Mapping[str, xr.DataTree]) -> None:
    """Raise ModelError unless the log likelihoods of results are densities of the same data."""
    said = {name: _observed(result).get("density") for name, result in results.items()}
    known = {name: density for name, density in said.items() if density}  # not in older files
    if len(set(known.values())) > 1:
        first, *others = known
        other = next(name for name in others if known[name] != known[first])
        raise ModelError(
            "Models are compared by densities of the same data, given the same conditions, because "
            "others are of no common scale; such models can be averaged with numbers as weights=. "
            f"Got: for {first!r} that of {known[first]}; for {other!r} that of {known[other]}."
        )


def _observed(result: xr.DataTree) -> dict[str, str]:
    """Return the fingerprint of the data of a result, empty if it is not of this package."""
    found: dict[str, str] = json.loads(constants(result).attrs.get(OBSERVED, "{}"))
    return found


def require_same(result: xr.DataTree, now: Mapping[str, str], responses: Responses) -> None:
    """Raise ModelError that names the first difference between a result and a model."""
    then, own = _observed(result), constants(result)
    for dim, key in (("rater", "raters"), ("class", "classes"), ("item", "items")):
        if then.get(key) == now[key]:
            continue
        names = getattr(responses, key)
        differ = names_differ(dim, own[dim].values, names) if dim in own.coords else None
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
        f"a result whose {dim} names differ from the model's, {plain(one[at])!r} in place of "
        f"{plain(other[at])!r} (number {at}; the first is 0)"
    )
