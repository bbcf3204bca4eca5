"""Groups of raters who share a source, as given by users or found by moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.names import listed, unique_names
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, MomentsError
from bayesfuse.moments import find_groups
from bayesfuse.parameters.partition import ALONE


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of at least two raters: ``members`` (raters by group), ``assignment``, origin.

    ``assignment`` (raters,) holds indices in ``members``, −1 for none; ``origin`` is "given",
    "moments", or the reason why moments failed.
    """

    members: dict[Any, list[Any]]
    assignment: NDArray[np.int64]
    origin: str

    @property
    def names(self) -> list[Any]:
        """Names of the groups."""
        return list(self.members)

    @classmethod
    def read(cls, groups: Any, responses: Responses) -> Groups:
        """Return groups as a user gives them, or find them if they are "moments"."""
        if isinstance(groups, str):
            if groups != "moments":
                raise ModelError(
                    "groups must be 'moments', 'posterior', or a mapping or list of lists of "
                    f"raters. Got: {groups!r}."
                )
            return cls._found(responses)
        return cls._of(_listed(groups), responses, "given")

    def largest(self, most: int) -> Groups:
        """Return at most this many groups, the largest."""
        order = sorted(self.members, key=lambda name: -len(self.members[name]))[:most]
        kept = [name for name in self.members if name in order]
        number = {self.names.index(name): place for place, name in enumerate(kept)}
        assignment = np.array([number.get(g, ALONE) for g in self.assignment.tolist()])
        return Groups({name: self.members[name] for name in kept}, assignment, self.origin)

    @classmethod
    def _found(cls, responses: Responses) -> Groups:
        try:
            found = find_groups(responses)
        except MomentsError as reason:
            return cls._of({}, responses, f"no groups, because moments failed: {reason}")
        return cls._of(_listed(found), responses, "moments")

    @classmethod
    def _of(cls, members: dict[Any, list[Any]], responses: Responses, origin: str) -> Groups:
        place = {rater: index for index, rater in enumerate(responses.raters.tolist())}
        if len(members) > len(place):
            raise ModelError(
                "There cannot be more groups than raters. Got: "
                f"{len(members)} groups of {len(place)} raters."
            )
        seen: dict[Any, Any] = {}
        for name, raters in members.items():
            if len(raters) == 0:
                raise ModelError(f"A group must have raters. Got: an empty group {name!r}.")
            for rater in raters:
                if rater not in place:
                    raise ModelError(
                        "Groups must contain raters of the responses only. Got: "
                        f"{rater!r} in group {name!r}."
                    )
                if rater in seen:
                    raise ModelError(
                        "Each rater may appear in one group only. Got: "
                        f"{rater!r} in group {seen[rater]!r} and again in {name!r}."
                    )
                seen[rater] = name
        several = {name: list(raters) for name, raters in members.items() if len(raters) > 1}
        unique_names(several, "group")
        assignment = np.full(len(place), ALONE)
        for number, raters in enumerate(several.values()):
            assignment[[place[rater] for rater in raters]] = number
        return cls(several, assignment, origin)


def groups_at_most(most: int | None, responses: Responses) -> int:
    """Return the largest number of groups, by default half the number of raters."""
    highest = responses.n_raters // 2
    if highest == 0:
        raise ModelError(
            f"To infer groups there must be at least two raters. Got: {responses.n_raters} rater."
        )
    if most is None:
        return highest
    if not isinstance(most, int | np.integer) or not 1 <= most <= highest:
        raise ModelError(
            f"max_groups must be from 1 to {highest}, because groups have at least two raters. "
            f"Got: {most!r} for {responses.n_raters} raters."
        )
    return int(most)


def _listed(groups: Any) -> dict[Any, list[Any]]:
    """Return group names to lists of raters."""
    if isinstance(groups, xr.Dataset):
        groups = dict(
            zip(listed(groups["rater"].values), listed(groups["group"].values), strict=True)
        )
    if isinstance(groups, pd.Series):
        groups = groups.to_dict()
    if isinstance(groups, Mapping):
        if all(_is_list(raters) for raters in groups.values()):
            return {name: list(raters) for name, raters in groups.items()}
        members: dict[Any, list[Any]] = {}
        for rater, name in groups.items():
            if _is_list(name):
                raise ModelError(
                    "A mapping must be from groups to raters or from raters to groups, not both. "
                    f"Got: {name!r} for {rater!r} among groups by rater."
                )
            if not pd.isna(name):
                members.setdefault(name, []).append(rater)
        return members
    if _is_list(groups) and all(_is_list(raters) for raters in groups):
        return {number: list(raters) for number, raters in enumerate(groups)}
    raise ModelError(
        "groups must be a mapping from groups to raters or from raters to groups, or a list of "
        f"lists of raters. Got: {groups!r}."
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray | set | frozenset) and not isinstance(value, str)
